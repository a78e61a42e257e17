/* SPDX-License-Identifier: Apache-2.0 */
/* cay port ls, forward, connect: servers inside, reached from here. */
#include "main.h"
#include "parse.h"
#include "show.h"
#include <arpa/inet.h>
#include <base/base.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>

enum { CONNECTIONS = 256, CHUNK = 64 << 10 };

static int on_port(const cay_port *p, void *arg)
{
    out_list *v = arg;
    char port[8];
    CAY_FORMAT(port, "%u", p->port);
    if (!show_item(v, &cay__port_shape, p, port)) {
        out_row(&v->table, "*%s|%s|-%d", port, p->address, p->pid);
    }
    return 0;
}

static int port_ls(cli_call *c, cay_err *err)
{
    return cay_port_list(c->sb, NULL, on_port, c->list, err);
}

const cli_verb cli_port_ls = {
    "port ls",
    "ID",
    "list the ports that somebody inside listens on",
    .examples = "  cay port ls c7f",
    .min = 1,
    .needs = CLI_SANDBOX,
    .columns = ">PORT|ADDRESS|>PID",
    .fn = port_ls,
};

/* One direction: read what is there and pass it on; false at the end. */
static bool relay_chunk(int from, int to)
{
    char buf[CHUNK];
    ssize_t n = read(from, buf, sizeof buf);
    if (n < 0)
        return errno == EINTR || errno == EAGAIN;
    return n > 0 && cay__fd_write_all(to, buf, (size_t)n);
}

static void end_writing(int fd)
{
    if (shutdown(fd, SHUT_WR) < 0 && errno == ENOTSOCK)
        close(fd);
}

/* Both directions until both ended. in/out are our side, remote the sandbox's. */
static void relay_connection(int in, int out, int remote)
{
    bool up = true, down = true;
    while (down) {
        struct pollfd fds[] = { { .fd = up ? in : -1, .events = POLLIN },
                                { .fd = remote, .events = POLLIN } };
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return;
        if (fds[0].revents && !relay_chunk(in, remote)) {
            up = false;
            shutdown(remote, SHUT_WR);
        }
        if (fds[1].revents && !relay_chunk(remote, out)) {
            down = false;
            if (in == out)
                end_writing(out);
        }
    }
    /* The server is done; what the client still sends has nowhere to go. */
}

typedef struct forward {
    cay_sandbox *sb;
    uint16_t port;
    atomic_int live;
} forward;

typedef struct job {
    forward *f;
    int fd;
} job;

static void *serve_connection(void *arg)
{
    job *j = arg;
    cay_err err = CAY_ERR_INIT;
    CAY_AUTOFD local = j->fd;
    CAY_AUTOFD remote = -1;
    forward *f = j->f;
    free(j);
    if (cay_port_connect(f->sb, NULL, f->port, &remote, &err) < 0)
        out_note("cay: port %u: %s", f->port, err.msg);
    else
        relay_connection(local, local, remote);
    atomic_fetch_sub(&f->live, 1);
    return NULL;
}

static int listen_on(const char *address, uint16_t port, uint16_t *got, cay_err *err)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port) };
    socklen_t len = sizeof a;
    if (inet_pton(AF_INET, address, &a.sin_addr) != 1)
        return cay_fail(err, CAY_EINVAL, "--listen \"%s\": want an IPv4 address", address);
    CAY_AUTOFD fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return cay_fail_sys(err, "socket");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int));
    if (bind(fd, (struct sockaddr *)&a, sizeof a) < 0 || listen(fd, 64) < 0 ||
        getsockname(fd, (struct sockaddr *)&a, &len) < 0)
        return cay_fail_sys(err, "listen on %s:%u", address, port);
    *got = ntohs(a.sin_port);
    return CAY_STEAL_FD(fd);
}

static void accept_loop(int sock, forward *f)
{
    for (;;) {
        pthread_t t;
        int fd = accept4(sock, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
            continue;
        if (fd < 0)
            return;
        if (atomic_load(&f->live) >= CONNECTIONS) {
            close(fd);
            continue;
        }
        job *j = cay__alloc(sizeof *j);
        *j = (job){ f, fd };
        atomic_fetch_add(&f->live, 1);
        if (pthread_create(&t, NULL, serve_connection, j) != 0) {
            atomic_fetch_sub(&f->live, 1);
            close(fd);
            free(j);
            continue;
        }
        pthread_detach(t);
    }
}

typedef struct forward_args {
    const char *listen;
} forward_args;

static const opt_def forward_defs[] = {
    OPT_STR("--listen ADDRESS", "local address (default 127.0.0.1)", forward_args, listen), OPT_END
};

static int port_forward(cli_call *c, cay_err *err)
{
    const forward_args *a = c->opts;
    const char *address = CAY_OR(a->listen, "127.0.0.1");
    uint16_t port, local, got = 0;
    if (cli_parse_forward(c->argv[1], &port, &local, err) < 0)
        return cli_usage(c->verb, err);
    CAY_TRY(cli_find(c, err));
    CAY_AUTOFD sock = listen_on(address, local, &got, err);
    CAY_TRY(sock);
    out_fmt("%s:%u\n", address, got);
    out_note("cay: forwards to port %u of %s; Ctrl-C ends it", port, cay_sandbox_id(c->sb));
    forward f = { .sb = c->sb, .port = port };
    accept_loop(sock, &f);
    return CLI_FAIL;
}

const cli_verb cli_port_forward = {
    "port forward",
    "[--listen ADDRESS] ID PORT[:LOCAL]",
    "make a port inside reachable at a local one",
    .text = "Prints the local address, then serves until it is interrupted. LOCAL 0 takes any free "
            "port.",
    .examples = "  cay port forward c7f 8000            # http://127.0.0.1:8000\n"
                "  cay port forward c7f 8000:0",
    CLI_OPTS(forward_defs, forward_args),
    .min = 2,
    .fn = port_forward,
};

static int port_connect(cli_call *c, cay_err *err)
{
    CAY_AUTOFD remote = -1;
    uint16_t port;
    if (cli_parse_port(c->argv[1], &port, err) < 0)
        return cli_usage(c->verb, err);
    CAY_TRY(cli_find(c, err));
    CAY_TRY(cay_port_connect(c->sb, NULL, port, &remote, err));
    if (isatty(1)) { /* the answer is data of a sandbox */
        return cay_fail(
            err, CAY_EINVAL,
            "standard output is a terminal; send it through a pipe, such as `| cat -v`");
    }
    relay_connection(0, 1, remote);
    return CLI_OK;
}

const cli_verb cli_port_connect = {
    "port connect",
    "ID PORT",
    "join standard input and output to a port inside",
    .examples = "  printf 'GET / HTTP/1.0\\r\\n\\r\\n' | cay port connect c7f 8000 | head -1\n"
                "  ssh -o ProxyCommand='cay port connect c7f 22' user@sandbox",
    .min = 2,
    .fn = port_connect,
};
