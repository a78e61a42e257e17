/* SPDX-License-Identifier: Apache-2.0 */
/*
 * interpreter [LANGUAGE…]: the code interpreter inside a sandbox, static so that any template can
 * run it. It listens on port 49999 of loopback, and has kernels of these languages coming up before
 * anybody asks. interpreter --kernel …: one of its kernels, see host.c.
 *
 * Whoever asks is a program of the sandbox or somebody with its token, whom the server passes on:
 * nobody else gets here.
 */
#include "serve.h"
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>

enum {
    CONNS = 512,
    READ = 64 << 10,
    BODY_MOST = 8 << 20,
    BEAT_MS = 5000,
    ASK_MS = 60000,
    STUCK_MS = 30000,
    PART_MS = 2000,
    TICK_MS = 1000
};

static http_conn *conns;
static size_t nconns;
static int doors[2] = { -1, -1 };

int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

void answer(http_conn *c, int status, const char *type, const char *body, size_t n)
{
    cay__buf_fmt(&c->out, "HTTP/1.1 %d %s\r\n%s", status, cay__status_text(status),
                 c->last ? "connection: close\r\n" : "");
    if (type)
        cay__buf_fmt(&c->out, "content-type: %s\r\ncontent-length: %zu\r\n", type, n);
    cay__buf_str(&c->out, "\r\n");
    cay__buf_add(&c->out, body, n);
    c->answered = c->whole = true;
}

void stream_begin(http_conn *c)
{
    c->last |= c->head.minor == 0; /* who does not know chunks reads to the end */
    cay__buf_fmt(&c->out, "HTTP/1.1 200 OK\r\n%scontent-type: application/x-ndjson\r\n%s\r\n",
                 c->last ? "connection: close\r\n" : "",
                 c->head.minor ? "transfer-encoding: chunked\r\n" : "");
    c->answered = true;
    c->quiet_since = now_ms();
}

void stream_line(http_conn *c, const char *line, size_t n)
{
    if (c->head.minor)
        cay__buf_fmt(&c->out, "%zx\r\n", n);
    cay__buf_add(&c->out, line, n);
    if (c->head.minor)
        cay__buf_str(&c->out, "\r\n");
    c->quiet_since = now_ms();
}

void stream_end(http_conn *c)
{
    if (c->head.minor)
        cay__buf_str(&c->out, "0\r\n\r\n");
    c->whole = true;
}

static bool take_head(http_conn *c, cay_err *err)
{
    int n = cay__request_read(c->in.data, c->in.len, &c->scanned, &c->head, err);
    if (n <= 0)
        return false;
    cay__buf_cut(&c->in, (size_t)n);
    c->has_head = true;
    c->last = !c->head.keep_alive;
    if (c->head.expect_continue)
        cay__buf_str(&c->out, "HTTP/1.1 100 Continue\r\n\r\n");
    return true;
}

/* True: all of it is in c->body. */
static bool take_body(http_conn *c, cay_err *err)
{
    uint64_t want = 0;
    if (c->head.body == CAY__BODY_LENGTH)
        want = c->head.length;
    if (want > BODY_MOST || c->body.len + c->in.len > BODY_MOST + CAY__HEAD_MAX + READ) {
        cay_fail(err, CAY_ETOOBIG, "the body has more than %d bytes", BODY_MOST);
        return false;
    }
    if (c->head.body != CAY__BODY_CHUNKED) {
        if (c->in.len < want)
            return false;
        cay__buf_add(&c->body, c->in.data, (size_t)want);
        cay__buf_cut(&c->in, (size_t)want);
        return true;
    }
    while (c->in.len && !c->chunk.done) {
        const char *part;
        size_t used, n;
        if (cay__chunk_read(&c->chunk, c->in.data, c->in.len, c->in.len, &used, &part, &n, err) < 0)
            return false;
        cay__buf_add(&c->body, part, n);
        cay__buf_cut(&c->in, used);
    }
    return c->chunk.done;
}

/* What comes until the request is whole; afterwards only its end counts. */
static void read_request(http_conn *c)
{
    static char buf[READ];
    cay_err err = CAY_ERR_INIT;
    ssize_t n = read(c->fd, buf, sizeof buf);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        c->gone = true;
    c->last |= n > 0 && c->answered; /* who does not wait for an answer has to come again */
    if (n <= 0 || c->answered)
        return;
    cay__buf_add(&c->in, buf, (size_t)n);
    if ((c->has_head || take_head(c, &err)) && take_body(c, &err)) {
        c->last |= c->in.len > 0;
        on_request(c);
    } else if (err.code) {
        c->last = true;
        answer_error(c, &err);
    }
}

/* The answer is out: the next request of the same connection, if there may be one. */
static void reset_client(http_conn *c)
{
    cay__head_clear(&c->head);
    memset(&c->head, 0, sizeof c->head);
    cay__buf_clear(&c->in);
    cay__buf_clear(&c->body);
    cay__buf_clear(&c->out);
    c->chunk = (cay__chunk){ 0 };
    c->scanned = c->sent = 0;
    c->has_head = c->answered = c->whole = false;
    c->due = now_ms() + ASK_MS;
}

static void accept_client(int door)
{
    int fd = accept4(door, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), one = 1;
    if (fd < 0)
        return;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    http_conn *c = cay__alloc(sizeof *c);
    *c = (http_conn){ .fd = fd, .polled = -1, .in = TEXT, .body = TEXT, .out = TEXT, .ask = TEXT };
    c->due = now_ms() + ASK_MS;
    c->next = conns;
    conns = c;
    nconns++;
}

static void close_client(http_conn *c)
{
    context_left(c);
    close(c->fd);
    cay__head_clear(&c->head);
    cay__buf_clear(&c->in);
    cay__buf_clear(&c->body);
    cay__buf_clear(&c->out);
    cay__buf_clear(&c->ask);
    free(c);
    nconns--;
}

static void send_out(http_conn *c)
{
    if (c->sent == c->out.len)
        return;
    ssize_t n = send(c->fd, c->out.data + c->sent, c->out.len - c->sent, MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        c->gone = true;
    if (n <= 0)
        return;
    c->sent += (size_t)n;
    c->due = now_ms() + STUCK_MS;
    if (c->sent == c->out.len)
        c->out.len = c->sent = 0;
}

/* One that neither asks nor takes its answer is let go: its kernel waits for it meanwhile. */
static void update_client(http_conn *c)
{
    static const char beat[] = "{\"type\":\"keepalive\"}\n";
    int64_t now = now_ms();
    if (c->at && now - c->quiet_since >= BEAT_MS && !c->out.len)
        stream_line(c, beat, sizeof beat - 1);
    if (!c->out.len && c->at)
        c->due = now + STUCK_MS;
    send_out(c);
    c->gone |= now > c->due;
    if (!c->whole || c->out.len || c->parting)
        return;
    if (!c->last) {
        reset_client(c);
        return;
    }
    /* What it still sends is read: closed with that waiting, the answer would be lost. */
    shutdown(c->fd, SHUT_WR);
    c->parting = true;
    c->due = now + PART_MS;
}

static int open_door(int family)
{
    struct sockaddr_in a4 = { .sin_family = AF_INET,
                              .sin_port = htons(INTERPRETER_PORT),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct sockaddr_in6 a6 = { .sin6_family = AF_INET6,
                               .sin6_port = htons(INTERPRETER_PORT),
                               .sin6_addr = { .s6_addr = { [15] = 1 } } };
    const struct sockaddr *sa;
    if (family == AF_INET)
        sa = (const void *)&a4;
    else
        sa = (const void *)&a6;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1;
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, sa, family == AF_INET ? sizeof a4 : sizeof a6) == 0 && listen(fd, CONNS) == 0)
        return fd;
    cay__close_fd(&fd);
    return -1;
}

static size_t list_fds(struct pollfd *p)
{
    size_t n = contexts_poll(p);
    CAY_EACH_LINK(c, conns) {
        c->polled = (int)n;
        p[n++] =
            (struct pollfd){ .fd = c->fd, .events = POLLIN | (c->sent < c->out.len ? POLLOUT : 0) };
    }
    CAY_EACH(door, doors)
        p[n++] = (struct pollfd){ .fd = nconns < CONNS ? *door : -1, .events = POLLIN };
    return n;
}

static void poll_events(const sigset_t *asleep)
{
    static struct pollfd *p;
    static size_t room;
    const struct timespec tick = { .tv_sec = TICK_MS / 1000 };
    size_t want = contexts_count() + nconns + CAY_LEN(doors);
    if (want > room) {
        room = 2 * want;
        if (!(p = realloc(p, room * sizeof *p)))
            abort();
    }
    size_t n = list_fds(p);
    bool woken = ppoll(p, n, conns ? &tick : NULL, asleep) > 0; /* also when a child ends */
    if (!woken)
        memset(p, 0, n * sizeof *p);
    contexts_turn(p);
    CAY_EACH_LINK(c, conns)
        if (c->polled >= 0 && p[c->polled].revents & ~POLLOUT)
            read_request(c);
    for (http_conn **at = &conns, *c; (c = *at);) {
        update_client(c);
        if (c->gone) {
            *at = c->next;
            close_client(c);
        } else {
            at = &c->next;
        }
    }
    for (size_t i = 0; i < CAY_LEN(doors); i++)
        if (p[n - CAY_LEN(doors) + i].revents)
            accept_client(doors[i]);
}

static void on_child(int sig) {}

static int run_server(char **languages)
{
    char self[4096] = "";
    sigset_t child, before;
    struct sigaction act = { .sa_handler = on_child };
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0 ||
        (doors[0] = open_door(AF_INET)) < 0) {
        fprintf(stderr, "port %d of loopback: %s\n", INTERPRETER_PORT, strerror(errno));
        return 1;
    }
    doors[1] = open_door(AF_INET6); /* where there is one */
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, &before);
    sigdelset(&before, SIGCHLD);
    sigaction(SIGCHLD, &act, NULL);
    signal(SIGPIPE, SIG_IGN);
    contexts_begin(self, languages);
    for (;;)
        poll_events(&before);
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "--kernel"))
        return host_main(argc - 1, argv + 1);
    return run_server(argv + (argc > 0));
}
