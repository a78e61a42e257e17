/* SPDX-License-Identifier: Apache-2.0 */
/* server CAY-SERVER TRUE [quick]: what the server costs beside the spawn floor and, where it can be
 * had, nginx, asked by the same client. */
#include "http.h"

enum { IDLE = 10000, SLOW = 2000 };

/* nginx with a small file, a large one, and uploads; 0 when it is not there. */
static int start_nginx(const char *dir, int port)
{
    char conf[512];
    snprintf(conf, sizeof conf, "%s/nginx.conf", dir);
    FILE *f = fopen(conf, "we");
    if (!f)
        return 0;
    fprintf(
        f,
        "daemon off; worker_processes auto; pid %s/nginx.pid; error_log /dev/null; user "
        "root;\nevents { worker_connections 1024; }\n"
        "http { access_log off; sendfile on; keepalive_requests 100000000; client_max_body_size 0; "
        "client_body_temp_path %s/body; proxy_temp_path %s/p; fastcgi_temp_path %s/f;\n"
        " uwsgi_temp_path %s/u; scgi_temp_path %s/s; server { listen 127.0.0.1:%d; root %s/www; "
        "dav_methods PUT; } }\n",
        dir, dir, dir, dir, dir, dir, port, dir);
    fclose(f);
    int pid =
        start_peer("NGINX", (char *[]){ NULL, "-c", conf, "-p", (char *)(uintptr_t)dir, NULL });
    if (pid)
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

static double upload(int port, const char *path, bool keyed, double unused)
{
    static char piece[1 << 20];
    char text[512], buf[8192];
    (void)unused;
    int len = snprintf(text, sizeof text,
                       "PUT %s HTTP/1.1\r\nHost: localhost\r\n%s%s%sContent-Type: "
                       "application/octet-stream\r\nContent-Length: %d\r\n\r\n",
                       path, keyed ? "Authorization: Bearer " : "", keyed ? keys[0] : "",
                       keyed ? "\r\n" : "", BULK);
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
    struct {
        const char *name, *service, *path, *peer, *goal;
        bool keyed;
        double (*fn)(int, const char *, bool, double);
    } rows[] = {
        { "server-health", "1/s", "/health", "/small", ">=1.0", false, rate },
        { "server-list", "1/s", "/api/v1/sandboxes", "/small", ">=0.5", true, rate },
        { "server-up", "GB/s", file, "/put", ">=0.5", true, upload },
        { "server-down", "GB/s", file, "/large", ">=0.5", true, download },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        double ours = best(rows[i].fn, port, rows[i].path, rows[i].keyed),
               theirs = peer_port ? best(rows[i].fn, peer_port, rows[i].peer, false) : 0;
        figure((fig){ rows[i].name, rows[i].service, ours, theirs, theirs ? ours / theirs : 0,
                      theirs ? rows[i].goal : NULL, 3 });
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
    ask(fd, put, put_request(put, sizeof put, "PUT", path, keys[0], "application/octet-stream", kb),
        buf, sizeof buf, "HTTP");
    size_t get_len = put_request(get, sizeof get, "GET", path, keys[0], NULL, "");
    snprintf(path, sizeof path, "/api/v1/sandboxes/%s/run", id);
    size_t run_len = put_request(run, sizeof run, "POST", path, keys[0], "application/json",
                                 "{\"argv\":[\"" INSIDE_TRUE "\"]}");
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

/* Health requests of one client for `seconds`, 1 ms apart, beside n slow ones, which together send
 * `pace` bytes a second. */
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
    beside(port, fd, n, (double)n / 15, quick ? 1 : 15,
           &crowded); /* not all at one moment: the server has enough of each after 15 s */
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
    cay_client *client = service();
    for (size_t i = 0; i < KEYS; i++)
        need(cay_key_create(client, &(cay_key){ .size = sizeof(cay_key) }, keys[i], &err), &err,
             "a key");
    int port = free_port(), peer_port = free_port(), pid = start_server(argv[1], port);
    memory_at_rest(pid);
    for (int i = 0; i < 10; i++) {
        need(
            cay_client_create(client, NULL, &(cay_create){ .size = sizeof(cay_create) }, &sb, &err),
            &err, "create");
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
    cay_client_close(client);
    snprintf(path, sizeof path, "%s", dir);
    execlp("rm", "rm", "-rf", dir, NULL);
    return 1;
}
