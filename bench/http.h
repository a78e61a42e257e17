/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench/http.h - a plain HTTP client that asks all servers alike, and how peers are started.
 */
#pragma once
#include "box.h"
#include <arpa/inet.h>
#include <cay/access.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

enum { CONNS = 64, KEYS = 64, BULK = 100 << 20 };
static bool quick;
static char keys[KEYS][CAY_KEY_LEN + 1];
static const char *http_host = "localhost", *http_more = ""; /* more: whole lines of the head */

static inline int dial(int port)
{
    struct sockaddr_in a = { .sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static inline int must_dial(int port)
{
    int fd = dial(port);
    if (fd < 0)
        give_up("connect to %d: %s", port, strerror(errno));
    return fd;
}

/* Where the answer in buf ends: 0 when there is more of it to come. */
static inline size_t whole(const char *buf, size_t n, size_t *body)
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
static inline size_t ask(int fd, const char *request, size_t len, char *buf, size_t cap,
                         const char *want)
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

static inline size_t put_request(char *buf, size_t cap, const char *method, const char *path,
                                 const char *key, const char *type, const char *body)
{
    int n = snprintf(buf, cap,
                     "%s %s HTTP/1.1\r\nHost: %s\r\n%s%s%s%s%s%s%sContent-Length: %zu\r\n\r\n%s",
                     method, path, http_host, http_more, key ? "Authorization: Bearer " : "",
                     key ? key : "", key ? "\r\n" : "", type ? "Content-Type: " : "",
                     type ? type : "", type ? "\r\n" : "", strlen(body), body);
    return (size_t)n;
}

/* Requests a second over CONNS kept connections. */
static inline double rate(int port, const char *path, bool keyed, double seconds)
{
    struct {
        int fd;
        char text[512];
        size_t len;
    } c[CONNS];
    struct epoll_event e[CONNS];
    char buf[65536];
    int ep = epoll_create1(EPOLL_CLOEXEC);
    size_t done = 0, body;
    for (int i = 0; i < CONNS; i++) {
        c[i].fd = must_dial(port);
        c[i].len = put_request(c[i].text, sizeof c[i].text, "GET", path,
                               keyed ? keys[i % KEYS] : NULL, NULL, "");
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
    for (int i = 0; i < CONNS;
         i++) { /* what is under way is taken, so that a proxy keeps what it has behind it */
        (void)!recv(c[i].fd, buf, sizeof buf, 0);
        close(c[i].fd);
    }
    close(ep);
    return (double)done / took * 1e6;
}

static inline int free_port(void)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(fd, (struct sockaddr *)&a, n) < 0 || getsockname(fd, (struct sockaddr *)&a, &n) < 0)
        give_up("a free port: %s", strerror(errno));
    close(fd);
    return ntohs(a.sin_port);
}

static inline int start(char *const argv[])
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

/* A program that bench/run found or borrowed: argv[0] is what the variable `name` says, with
 * libraries from NAME_LIBS. 0: there is none. */
static inline int start_peer(const char *name, char *argv[])
{
    char more[64];
    snprintf(more, sizeof more, "%s_LIBS", name);
    const char *program = getenv(name), *libs = getenv(more);
    if (!program || access(program, X_OK) < 0)
        return 0;
    argv[0] = (char *)(uintptr_t)program;
    int pid = fork();
    if (pid == 0) {
        if (libs && *libs)
            setenv("LD_LIBRARY_PATH", libs, 1);
        unsetenv(name); /* nginx would take it for sockets of its own */
        int null = open("/dev/null", O_RDWR);
        dup2(null, 0);
        dup2(null, 1);
        execv(program, argv);
        _exit(127);
    }
    return pid;
}

/* Until it answers. */
static inline void await(int port, int pid)
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

static inline void end(int pid)
{
    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
}

static inline double best(double (*fn)(int port, const char *path, bool keyed, double s), int port,
                          const char *path, bool keyed)
{
    double top = 0;
    for (int i = 0; i < (quick ? 1 : 3); i++) {
        double r = fn(port, path, keyed, quick ? 0.2 : 1.0);
        top = r > top ? r : top;
    }
    return top;
}

static inline double download(int port, const char *path, bool keyed, double unused)
{
    static char buf[1 << 20];
    char text[512];
    size_t len = put_request(text, sizeof text, "GET", path, keyed ? keys[0] : NULL, NULL, ""),
           n = 0;
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
