/* SPDX-License-Identifier: Apache-2.0 */
/* server CAY-SERVER TRUE [quick]: what the server costs beside the spawn floor and, where it is installed, nginx, asked by the same client. */
#include "box.h"
#include <arpa/inet.h>
#include <cay/access.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

enum { CONNS = 64, KEYS = 64, BULK = 100 << 20, IDLE = 10000, SLOW = 2000 };
static bool quick;
static char keys[KEYS][CAY_KEY_LEN + 1];

/* ------------------------------------------------------------------ a plain client */

static int dial(int port)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static int must_dial(int port)
{
    int fd = dial(port);
    if (fd < 0)
        give_up("connect to %d: %s", port, strerror(errno));
    return fd;
}

/* Where the answer in buf ends: 0 when there is more of it to come. */
static size_t whole(const char *buf, size_t n, size_t *body)
{
    const char *end = memmem(buf, n, "\r\n\r\n", 4), *cl;
    if (!end)
        return 0;
    cl = strcasestr(buf, "content-length:");
    *body = (size_t)(end + 4 - buf);
    size_t all = *body + (cl && cl < end ? strtoul(cl + 15, NULL, 10) : 0);
    return n >= all ? all : 0;
}

/* One request on a kept connection; its answer in buf. */
static size_t ask(int fd, const char *request, size_t len, char *buf, size_t cap, const char *want)
{
    size_t n = 0, body;
    if (send(fd, request, len, MSG_NOSIGNAL) != (ssize_t)len)
        give_up("send: %s", strerror(errno));
    do {
        ssize_t got = recv(fd, buf + n, cap - 1 - n, 0);
        if (got <= 0)
            give_up("the server hung up: %.*s", (int)n, buf);
        n += (size_t)got;
        buf[n] = 0;
    } while (!whole(buf, n, &body));
    if (!strstr(buf, want) || strncmp(buf + 9, "20", 2))
        give_up("the answer is %.400s", buf);
    return n;
}

static size_t put_request(char *buf, size_t cap, const char *method, const char *path, const char *key, const char *type, const char *body)
{
    int n = snprintf(buf, cap, "%s %s HTTP/1.1\r\nHost: localhost\r\n%s%s%s%s%s%sContent-Length: %zu\r\n\r\n%s", method, path, key ? "Authorization: Bearer " : "", key ? key : "", key ? "\r\n" : "",
                     type ? "Content-Type: " : "", type ? type : "", type ? "\r\n" : "", strlen(body), body);
    return (size_t)n;
}

/* Requests a second over CONNS kept connections. */
static double rate(int port, const char *path, bool keyed, double seconds)
{
    struct { int fd; char text[512]; size_t len; } c[CONNS];
    struct epoll_event e[CONNS];
    char buf[65536];
    int ep = epoll_create1(EPOLL_CLOEXEC);
    size_t done = 0, body;
    for (int i = 0; i < CONNS; i++) {
        c[i].fd = must_dial(port);
        c[i].len = put_request(c[i].text, sizeof c[i].text, "GET", path, keyed ? keys[i % KEYS] : NULL, NULL, "");
        struct epoll_event add = { .events = EPOLLIN, .data.u32 = (uint32_t)i };
        epoll_ctl(ep, EPOLL_CTL_ADD, c[i].fd, &add);
        (void)!send(c[i].fd, c[i].text, c[i].len, MSG_NOSIGNAL);
    }
    double begin = now_us(), end = begin + seconds * 1e6;
    while (now_us() < end) {
        int n = epoll_wait(ep, e, CONNS, 1000);
        for (int k = 0; k < n; k++) {
            int i = (int)e[k].data.u32;
            ssize_t got = recv(c[i].fd, buf, sizeof buf - 1, 0);
            if (got <= 0)
                give_up("%s: the server hung up", path);
            buf[got] = 0;
            while (!whole(buf, (size_t)got, &body)) { /* rare: in pieces */
                ssize_t more = recv(c[i].fd, buf + got, sizeof buf - 1 - (size_t)got, 0);
                if (more <= 0)
                    give_up("%s: the server hung up", path);
                got += more;
                buf[got] = 0;
            }
            if (strncmp(buf, "HTTP/1.1 200", 12))
                give_up("%s: %.300s", path, buf);
            done++;
            (void)!send(c[i].fd, c[i].text, c[i].len, MSG_NOSIGNAL);
        }
    }
    double took = now_us() - begin;
    for (int i = 0; i < CONNS; i++)
        close(c[i].fd);
    close(ep);
    return (double)done / took * 1e6;
}

/* ------------------------------------------------------------------ peers */

static int free_port(void)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(fd, (struct sockaddr *)&a, n) < 0 || getsockname(fd, (struct sockaddr *)&a, &n) < 0)
        give_up("a free port: %s", strerror(errno));
    close(fd);
    return ntohs(a.sin_port);
}

static int start(char *const argv[])
{
    int pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR);
        dup2(null, 0);
        dup2(null, 1);
        execvp(argv[0], argv);
        _exit(127);
    }
    return pid;
}

/* Until it answers. */
static void await(int port, int pid)
{
    for (int i = 0; i < 20000; i++) {
        int fd = dial(port), status;
        if (fd >= 0) {
            close(fd);
            return;
        }
        if (waitpid(pid, &status, WNOHANG) == pid)
            give_up("a server ended with %x", status);
        usleep(500);
    }
    give_up("nobody answers on %d", port);
}

static void end(int pid)
{
    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
}

/* nginx with a small file, a large one, and uploads; 0 when it is not installed. */
static int start_nginx(const char *dir, int port)
{
    char conf[512];
    snprintf(conf, sizeof conf, "%s/nginx.conf", dir);
    FILE *f = fopen(conf, "we");
    if (!f || access("/usr/sbin/nginx", X_OK) < 0) {
        if (f)
            fclose(f);
        return 0;
    }
    fprintf(f,
            "daemon off; worker_processes auto; pid %s/nginx.pid; error_log /dev/null; user root;\nevents { worker_connections 1024; }\n"
            "http { access_log off; sendfile on; keepalive_requests 100000000; client_max_body_size 0; client_body_temp_path %s/body; proxy_temp_path %s/p; fastcgi_temp_path %s/f;\n"
            " uwsgi_temp_path %s/u; scgi_temp_path %s/s; server { listen 127.0.0.1:%d; root %s/www; dav_methods PUT; } }\n",
            dir, dir, dir, dir, dir, dir, port, dir);
    fclose(f);
    int pid = start((char *[]){ "/usr/sbin/nginx", "-c", conf, "-p", (char *)(uintptr_t)dir, NULL });
    await(port, pid);
    return pid;
}

static void fill(const char *path, size_t n)
{
    static char piece[1 << 20];
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    memset(piece, 'x', sizeof piece);
    for (size_t at = 0; at < n; at += sizeof piece)
        if (write(fd, piece, n - at < sizeof piece ? n - at : sizeof piece) < 0)
            give_up("write %s: %s", path, strerror(errno));
    close(fd);
}

/* ------------------------------------------------------------------ figures */

/* A kilobyte line of /proc/PID/smaps_rollup, in bytes; all those that begin so. */
static double memory_of(int pid, const char *field)
{
    char path[64], line[256];
    double sum = 0;
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pid);
    FILE *f = fopen(path, "re");
    if (!f)
        give_up("%s: %s", path, strerror(errno));
    while (fgets(line, sizeof line, f))
        if (!strncmp(line, field, strlen(field)))
            sum += strtod(strchr(line, ':') + 1, NULL) * 1024;
    fclose(f);
    return sum;
}

static double best(double (*fn)(int port, const char *path, bool keyed, double s), int port, const char *path, bool keyed)
{
    double top = 0;
    for (int i = 0; i < (quick ? 1 : 3); i++) {
        double r = fn(port, path, keyed, quick ? 0.2 : 1.0);
        top = r > top ? r : top;
    }
    return top;
}

static double download(int port, const char *path, bool keyed, double unused)
{
    static char buf[1 << 20];
    char text[512];
    size_t len = put_request(text, sizeof text, "GET", path, keyed ? keys[0] : NULL, NULL, ""), n = 0;
    int fd = must_dial(port);
    (void)unused;
    double t = now_us();
    (void)!send(fd, text, len, MSG_NOSIGNAL);
    while (n < BULK) {
        ssize_t got = recv(fd, buf, sizeof buf, 0);
        if (got <= 0)
            give_up("%s: ended after %zu bytes", path, n);
        n += (size_t)got;
    }
    double took = now_us() - t;
    close(fd);
    return BULK / took / 1e3; /* GB/s */
}

static double upload(int port, const char *path, bool keyed, double unused)
{
    static char piece[1 << 20];
    char text[512], buf[8192];
    (void)unused;
    int len = snprintf(text, sizeof text, "PUT %s HTTP/1.1\r\nHost: localhost\r\n%s%s%sContent-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\n", path, keyed ? "Authorization: Bearer " : "",
                       keyed ? keys[0] : "", keyed ? "\r\n" : "", BULK);
    int fd = must_dial(port);
    double t = now_us();
    (void)!send(fd, text, (size_t)len, MSG_NOSIGNAL);
    for (size_t at = 0; at < BULK;) {
        ssize_t put = send(fd, piece, sizeof piece, MSG_NOSIGNAL);
        if (put <= 0)
            give_up("%s: %s", path, strerror(errno));
        at += (size_t)put;
    }
    ssize_t got = recv(fd, buf, sizeof buf - 1, 0);
    if (got < 12 || buf[9] != '2')
        give_up("%s: %.*s", path, (int)(got > 0 ? got : 0), buf);
    double took = now_us() - t;
    close(fd);
    return BULK / took / 1e3;
}

static void rates(int port, int peer_port, const char *id)
{
    char file[160];
    snprintf(file, sizeof file, "/api/v1/sandboxes/%s/files?path=bulk", id);
    struct { const char *name, *unit, *path, *peer, *goal; bool keyed; double (*fn)(int, const char *, bool, double); } rows[] = {
        { "server-health", "1/s", "/health", "/small", ">=1.0", false, rate },
        { "server-list", "1/s", "/api/v1/sandboxes", "/small", ">=0.5", true, rate },
        { "server-up", "GB/s", file, "/put", ">=0.5", true, upload },
        { "server-down", "GB/s", file, "/large", ">=0.5", true, download },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        double ours = best(rows[i].fn, port, rows[i].path, rows[i].keyed), theirs = peer_port ? best(rows[i].fn, peer_port, rows[i].peer, false) : 0;
        figure((fig){ rows[i].name, rows[i].unit, ours, theirs, theirs ? ours / theirs : 0, theirs ? rows[i].goal : NULL, 3 });
    }
}

static void latencies(int port, const char *id, bare_spawn *bare)
{
    char run[512], get[512], put[2048], path[160], kb[1025], buf[8192];
    size_t n = quick ? 20 : 2000;
    series floor = { 0 }, exec = { 0 }, file = { 0 };
    int fd = must_dial(port);
    memset(kb, 'k', 1024);
    kb[1024] = 0;
    snprintf(path, sizeof path, "/api/v1/sandboxes/%s/files?path=kb", id);
    ask(fd, put, put_request(put, sizeof put, "PUT", path, keys[0], "application/octet-stream", kb), buf, sizeof buf, "HTTP");
    size_t get_len = put_request(get, sizeof get, "GET", path, keys[0], NULL, "");
    snprintf(path, sizeof path, "/api/v1/sandboxes/%s/run", id);
    size_t run_len = put_request(run, sizeof run, "POST", path, keys[0], "application/json", "{\"argv\":[\"" INSIDE_TRUE "\"]}");
    for (size_t i = 0; i < n + 10; i++) {
        double a = spawn_time(bare), t = now_us();
        ask(fd, run, run_len, buf, sizeof buf, "\"code\":0");
        double b = now_us() - t;
        t = now_us();
        ask(fd, get, get_len, buf, sizeof buf, "kkk");
        double c = now_us() - t;
        if (i < 10)
            continue;
        add(&floor, a);
        add(&exec, b);
        add(&file, c);
        if (i % 200 == 199)
            usleep(100000); /* within the requests a second that a key has */
    }
    close(fd);
    double f = percentile(&floor, 50), e = percentile(&exec, 50), r = percentile(&file, 50);
    figure((fig){ "server-exec", "us", e, f, e / f, "<=3.5", n });
    figure((fig){ "server-read", "us", r, .ratio = r, .goal = "<=1000", .n = n });
}

static void idle(int pid, int port)
{
    size_t n = quick ? 500 : IDLE;
    int *fd = calloc(n, sizeof *fd);
    char text[256], buf[1024];
    size_t len = put_request(text, sizeof text, "GET", "/health", NULL, NULL, "");
    double before = memory_of(pid, "Private_");
    for (size_t i = 0; i < n; i++) {
        fd[i] = must_dial(port);
        ask(fd[i], text, len, buf, sizeof buf, "ok");
    }
    double each = (memory_of(pid, "Private_") - before) / (double)n;
    for (size_t i = 0; i < n; i++)
        close(fd[i]);
    free(fd);
    figure((fig){ "server-idle", "B", each, .ratio = each, .goal = "<=10240", .n = n });
}

/* Who sends a byte of a head a second, and again when the server has had enough of it. */
static void drip(int *fd, int port, const char *piece, size_t len)
{
    if (*fd >= 0 && send(*fd, piece, len, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)len)
        return;
    if (*fd >= 0)
        close(*fd);
    *fd = dial(port);
    if (*fd >= 0)
        (void)!send(*fd, "GET / HTTP/1.1\r\nX: ", 19, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Health requests of one client for `seconds`, 1 ms apart, beside n slow ones, which together send `pace` bytes a second. */
static double beside(int port, int *slow, size_t n, double pace, double seconds, double *p99)
{
    char text[256], buf[1024];
    size_t len = put_request(text, sizeof text, "GET", "/health", NULL, NULL, ""), sent = 0;
    series s = { 0 };
    int fd = must_dial(port);
    for (double begin = now_us(), t; (t = now_us()) < begin + seconds * 1e6;) {
        ask(fd, text, len, buf, sizeof buf, "ok");
        add(&s, now_us() - t);
        for (size_t due = (size_t)((now_us() - begin) / 1e6 * pace); sent < due; sent++)
            drip(&slow[sent % n], port, "x", 1);
        usleep(1000);
    }
    close(fd);
    *p99 = percentile(&s, 99);
    return (double)s.n;
}

static void slow_clients(int port)
{
    size_t n = quick ? 200 : SLOW;
    int *fd = malloc(n * sizeof *fd);
    double seconds = quick ? 0.5 : 20, quiet, crowded;
    for (size_t i = 0; i < n; i++)
        fd[i] = -1;
    beside(port, fd, n, 0, seconds, &quiet);
    beside(port, fd, n, (double)n / 15, quick ? 1 : 15, &crowded); /* not all at one moment: the server has enough of each after 15 s */
    double count = beside(port, fd, n, (double)n, seconds, &crowded);
    for (size_t i = 0; i < n; i++)
        if (fd[i] >= 0)
            close(fd[i]);
    free(fd);
    figure((fig){ "server-slow", "us", crowded, quiet, crowded / quiet, "<=2.0", (size_t)count });
}

static void memory_at_rest(int pid)
{
    double own = memory_of(pid, "Private_") / 1e6, all = memory_of(pid, "Rss:") / 1e6;
    figure((fig){ "server-memory", "MB", own, .ratio = own, .goal = "<=8", .n = 1 });
    figure((fig){ "server-resident", "MB", all, .ratio = all, .goal = "<=16", .n = 1 });
}

/* From exec to the first answer, which a new client gets. */
static int start_server(char *program, int port)
{
    char addr[32], text[256], buf[1024];
    series s = { 0 };
    int pid = 0;
    size_t len = put_request(text, sizeof text, "GET", "/health", NULL, NULL, "");
    snprintf(addr, sizeof addr, "127.0.0.1:%d", port);
    for (int i = 0; i < (quick ? 2 : 10); i++) {
        if (pid)
            end(pid);
        double t = now_us();
        pid = start((char *[]){ program, "--listen", addr, NULL });
        await(port, pid);
        int fd = must_dial(port);
        ask(fd, text, len, buf, sizeof buf, "ok");
        add(&s, (now_us() - t) / 1e3);
        close(fd);
    }
    double p = percentile(&s, 50);
    figure((fig){ "server-start", "ms", p, .ratio = p, .goal = "<=50", .n = s.n });
    return pid;
}

int main(int argc, char **argv)
{
    cay_err err = CAY_ERR_INIT;
    struct rlimit many;
    char dir[] = "/dev/shm/cay-bench-server.XXXXXX", path[256], id[CAY_ID_LEN + 1] = "";
    cay_sandbox *sb = NULL;
    if (argc < 3 || !mkdtemp(dir))
        give_up("usage: server CAY-SERVER TRUE [quick]");
    quick = argc > 3;
    getrlimit(RLIMIT_NOFILE, &many);
    many.rlim_cur = many.rlim_max;
    setrlimit(RLIMIT_NOFILE, &many);
    prepare(argv[2]);
    bare_spawn bare = spawn_open(argv[2]);
    cay_service *svc = service();
    for (size_t i = 0; i < KEYS; i++)
        need(cay_key_create(svc, &(cay_key){ .size = sizeof(cay_key) }, keys[i], &err), &err, "a key");
    int port = free_port(), peer_port = free_port(), pid = start_server(argv[1], port);
    memory_at_rest(pid);
    for (int i = 0; i < 10; i++) {
        need(cay_service_create(svc, NULL, &(cay_create){ .size = sizeof(cay_create) }, &sb, &err), &err, "create");
        snprintf(id, sizeof id, "%s", cay_sandbox_id(sb));
        cay_sandbox_unref(sb);
    }
    snprintf(path, sizeof path, "%s/www", dir);
    mkdir(path, 0755);
    snprintf(path, sizeof path, "%s/www/small", dir);
    fill(path, 16);
    snprintf(path, sizeof path, "%s/www/large", dir);
    fill(path, BULK);
    int nginx = start_nginx(dir, peer_port);
    latencies(port, id, &bare);
    rates(port, nginx ? peer_port : 0, id);
    idle(pid, port);
    slow_clients(port);
    if (nginx)
        end(nginx);
    end(pid);
    cay_service_close(svc);
    snprintf(path, sizeof path, "%s", dir);
    execlp("rm", "rm", "-rf", dir, NULL);
    return 1;
}
