/* SPDX-License-Identifier: Apache-2.0 */
/* The way out, tried from inside: who is reached under which name, and what a program can say to
 * reach somebody else. */
#include "probe.h"
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static void hurry(int s)
{
    struct timeval tv = { 8, 0 };
    setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
    setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof tv);
}

/* A connection by name or address; -1: no such name, or refused. */
static int dial(const char *host, const char *port)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV }, *all;
    if (getaddrinfo(host, port, &hints, &all))
        return -1;
    int s = -1;
    for (struct addrinfo *a = all; a && s < 0; a = a->ai_next) {
        s = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        hurry(s);
        if (connect(s, a->ai_addr, a->ai_addrlen) < 0) {
            close(s);
            s = -1;
        }
    }
    freeaddrinfo(all);
    return s;
}

static size_t hello(uint8_t *out, const char *name)
{
    size_t n = strlen(name), ext = name[0] ? 9 + n : 0, body = 2 + 32 + 1 + 4 + 2 + 2 + ext;
    uint8_t *p = out;
    *p++ = 22, *p++ = 3, *p++ = 1, *p++ = (uint8_t)((body + 4) >> 8), *p++ = (uint8_t)(body + 4);
    *p++ = 1, *p++ = 0, *p++ = (uint8_t)(body >> 8), *p++ = (uint8_t)body;
    *p++ = 3, *p++ = 3;
    memset(p, 'r', 32);
    p += 32;
    memcpy(p, "\0\0\2\x13\1\1\0", 7);
    p += 7;
    *p++ = (uint8_t)(ext >> 8), *p++ = (uint8_t)ext;
    if (ext) {
        memcpy(p, "\0\0", 2), p += 2;
        *p++ = 0, *p++ = (uint8_t)(n + 5), *p++ = 0, *p++ = (uint8_t)(n + 3), *p++ = 0, *p++ = 0,
        *p++ = (uint8_t)n;
        memcpy(p, name, n);
        p += n;
    }
    return (size_t)(p - out);
}

static size_t hear(int s, char *buf, size_t cap, const char *until)
{
    size_t n = 0;
    for (ssize_t k; n < cap - 1 && (k = recv(s, buf + n, cap - 1 - n, 0)) > 0;) {
        n += (size_t)k;
        buf[n] = 0;
        if (memmem(buf, n, until, strlen(until)))
            break;
    }
    buf[n] = 0;
    return n;
}

/* yes|no HOW HOST PORT [SAID [TARGET]]: is the server behind it reached? HOW is http, tls, tcp, or
 * twice: a second request on the same connection, which says another host. */
static void netask(int argc, char **argv)
{
    if (argc < 4)
        return;
    bool want = !strcmp(argv[0], "yes"), got = false;
    const char *how = argv[1], *host = argv[2], *port = argv[3], *said = argc > 4 ? argv[4] : host,
               *target = argc > 5 ? argv[5] : "/";
    char buf[8192], text[1024];
    int s = dial(host, port);
    if (s >= 0 && (!strcmp(how, "http") || !strcmp(how, "twice"))) {
        bool twice = *how == 't';
        int n = snprintf(text, sizeof text, "%s %s HTTP/1.1\r\nHost: %s\r\n\r\n",
                         twice ? "POST" : "GET", target, twice ? host : said);
        send(s, text, (size_t)n, MSG_NOSIGNAL);
        if (twice) { /* the lab's server sends back what is no GET: the second request must not come
                        back */
            hear(s, buf, sizeof buf, "\r\n\r\n");
            n = snprintf(text, sizeof text, "POST / HTTP/1.1\r\nHost: %s\r\n\r\n", said);
            send(s, text, (size_t)n, MSG_NOSIGNAL);
        }
        hear(s, buf, sizeof buf, twice ? "\r\n\r\n" : "\n:");
        got = strstr(buf, twice ? text : "hello from") != NULL;
    } else if (s >= 0) {
        size_t n = !strcmp(how, "tls") ? hello((uint8_t *)text, said)
                                       : (size_t)snprintf(text, sizeof text, "marco");
        send(s, text, n, MSG_NOSIGNAL);
        ssize_t k = recv(s, buf, sizeof buf, 0);
        got = k > 0 && buf[0] == text[0];
    }
    if (s >= 0)
        close(s);
    if (got != want)
        breach("%s to %s port %s, saying %s %s: %s", how, host, port, said, target,
               got ? "reached" : "not reached");
    else
        ok("%s to %s port %s, saying %s: %s", how, host, port, said,
           got ? "reached" : "not reached");
}

/* S-31 NAME: asks whomever a program may have pinned, in every way; nobody may know it. */
static void netleak(int argc, char **argv)
{
    static const char *const servers[] = {
        "127.0.0.53", "127.0.0.1",     "8.8.8.8", "1.1.1.1",
        "10.0.0.5",   "93.184.216.34", "::1",     "2606:2800::1"
    };
    const char *name = argc > 0 ? argv[0] : "";
    uint8_t q[300] = "\0\0\x12\x34\x01\0\0\1\0\0\0\0\0\0";
    size_t n = 14;
    struct addrinfo *all;
    for (const char *at = name; *at;) {
        size_t k = strcspn(at, ".");
        q[n++] = (uint8_t)k;
        memcpy(q + n, at, k);
        n += k;
        at += k + (at[k] == '.');
    }
    memcpy(q + n, "\0\0\1\0\1", 5);
    n += 5;
    q[0] = (uint8_t)((n - 2) >> 8), q[1] = (uint8_t)(n - 2);
    int rc = getaddrinfo(name, NULL, NULL, &all);
    if (rc == 0) {
        breach("the C library finds %s", name);
        freeaddrinfo(all);
    }
    static const uint8_t types[] = { 1, 28, 16, 15, 65, 2, 12, 255 };
    for (size_t i = 0; i < sizeof servers / sizeof *servers; i++)
        for (size_t t = 0; t < 2 * sizeof types; t++) {
            bool tcp = t >= sizeof types, six = strchr(servers[i], ':');
            struct sockaddr_in a4 = { .sin_family = AF_INET, .sin_port = htons(53) };
            struct sockaddr_in6 a6 = { .sin6_family = AF_INET6, .sin6_port = htons(53) };
            uint8_t in[1500];
            inet_pton(six ? AF_INET6 : AF_INET, servers[i],
                      six ? (void *)&a6.sin6_addr : (void *)&a4.sin_addr);
            int s = socket(six ? AF_INET6 : AF_INET,
                           (tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC, 0);
            hurry(s);
            q[n - 3] = types[t % sizeof types];
            ssize_t k = -1;
            if (connect(s, six ? (void *)&a6 : (void *)&a4, six ? sizeof a6 : sizeof a4) == 0 &&
                send(s, tcp ? q : q + 2, tcp ? n : n - 2, MSG_NOSIGNAL) > 0)
                k = recv(s, in, sizeof in, 0);
            const uint8_t *m = tcp ? in + 2 : in;
            if (k < (tcp ? 14 : 12))
                breach("%s by %s is not answered", servers[i], tcp ? "tcp" : "udp");
            else if ((m[3] & 15) != 3 || m[7])
                breach("%s by %s answers for %s: rcode %d, %d records", servers[i],
                       tcp ? "tcp" : "udp", name, m[3] & 15, m[7]);
            close(s);
        }
    ok("%s is refused by everyone", name);
}

/* S-33: ways that go around a proxy elsewhere. */
static void netround(int argc, char **argv)
{
    static const char *const far[] = { "93.184.216.34", "93.184.216.35", "1.1.1.1",
                                       "2606:2800::1" };
    static const int ports[] = { 443, 80, 853, 123, 5353, 4500 };
    (void)argc, (void)argv;
    for (size_t i = 0; i < sizeof far / sizeof *far; i++)
        for (size_t p = 0; p < sizeof ports / sizeof *ports; p++) {
            bool six = strchr(far[i], ':');
            struct sockaddr_in a4 = { .sin_family = AF_INET,
                                      .sin_port = htons((uint16_t)ports[p]) };
            struct sockaddr_in6 a6 = { .sin6_family = AF_INET6,
                                       .sin6_port = htons((uint16_t)ports[p]) };
            inet_pton(six ? AF_INET6 : AF_INET, far[i],
                      six ? (void *)&a6.sin6_addr : (void *)&a4.sin_addr);
            int s = socket(six ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
            must_fail_by(
                "a datagram out",
                sendto(s, "x", 1, 0, six ? (void *)&a6 : (void *)&a4, six ? sizeof a6 : sizeof a4),
                EPERM, ECONNREFUSED);
            close(s);
        }
    static const int raw[][3] = {
        { AF_INET, SOCK_RAW, IPPROTO_ICMP }, { AF_INET, SOCK_DGRAM, IPPROTO_ICMP },
        { AF_INET, SOCK_RAW, IPPROTO_TCP },  { AF_INET6, SOCK_RAW, IPPROTO_ICMPV6 },
        { AF_PACKET, SOCK_RAW, 0 },          { AF_INET, SOCK_STREAM, 262 },
        { AF_INET, SOCK_SEQPACKET, 132 }
    };
    for (size_t i = 0; i < sizeof raw / sizeof *raw; i++) {
        int s = socket(raw[i][0], raw[i][1], raw[i][2]);
        if (s >= 0)
            breach("a socket of family %d, type %d, protocol %d opens", raw[i][0], raw[i][1],
                   raw[i][2]);
    }
    ok("no way around");
}

/* A relay inside, to HOST PORT: on 127.0.0.1:3128, until it is killed. What it carries is judged as
 * what anybody carries. */
static void netrelay(int argc, char **argv)
{
    struct sockaddr_in a = { .sin_family = AF_INET,
                             .sin_port = htons(3128),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (argc < 2 || bind(s, (void *)&a, sizeof a) < 0 || listen(s, 8) < 0) {
        breach("cannot serve: %s", strerror(errno));
        return;
    }
    printf("ready\n");
    fflush(stdout);
    for (;;) {
        int c = accept(s, NULL, NULL), d = dial(argv[0], argv[1]);
        char buf[4096];
        ssize_t n = d >= 0 ? recv(c, buf, sizeof buf, 0) : -1;
        if (n > 0 && send(d, buf, (size_t)n, MSG_NOSIGNAL) > 0 &&
            (n = recv(d, buf, sizeof buf, 0)) > 0)
            send(c, buf, (size_t)n, MSG_NOSIGNAL);
        close(c);
        close(d);
    }
}

const probe egress_probes[] = {
    { "netask", netask },     { "netleak", netleak }, { "netround", netround },
    { "netrelay", netrelay }, { NULL, NULL },
};
