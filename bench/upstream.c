/* SPDX-License-Identifier: Apache-2.0 */
/* upstream PORT: what is behind a proxy, as small as it can be: /large is 100 MB, all else 16
 * bytes; connections are kept. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LARGE = 100 << 20 };

/* One answer for each head that is whole; a client of ours sends one at a time. */
static int answer(int c, const char *head)
{
    static char piece[1 << 18];
    static const char small[] = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: "
                                "16\r\n\r\nfifteen letters\n";
    if (strncmp(head, "GET /large", 10) != 0)
        return send(c, small, sizeof small - 1, MSG_NOSIGNAL) == sizeof small - 1;
    int n = snprintf(piece, sizeof piece, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", LARGE);
    if (send(c, piece, (size_t)n, MSG_NOSIGNAL) != n)
        return 0;
    for (long left = LARGE; left > 0;) {
        ssize_t put =
            send(c, piece, left < (long)sizeof piece ? (size_t)left : sizeof piece, MSG_NOSIGNAL);
        if (put <= 0)
            return 0;
        left -= put;
    }
    return 1;
}

int main(int argc, char **argv)
{
    struct sockaddr_in a = { .sin_family = AF_INET,
                             .sin_port = htons((unsigned short)atoi(argc > 1 ? argv[1] : "8000")),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int s = socket(AF_INET, SOCK_STREAM, 0), one = 1, ep = epoll_create1(0);
    char buf[8192];
    struct epoll_event e = { .events = EPOLLIN, .data.fd = s }, got[64];
    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (s < 0 || bind(s, (struct sockaddr *)&a, sizeof a) < 0 || listen(s, 1024) < 0 ||
        epoll_ctl(ep, EPOLL_CTL_ADD, s, &e) < 0)
        return 1;
    for (;;)
        for (int n = epoll_wait(ep, got, 64, -1), i = 0; i < n; i++) {
            int c = got[i].data.fd;
            if (c == s) {
                e.data.fd = accept(s, NULL, NULL);
                setsockopt(e.data.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                epoll_ctl(ep, EPOLL_CTL_ADD, e.data.fd, &e);
                continue;
            }
            ssize_t k = recv(c, buf, sizeof buf - 1, 0);
            buf[k > 0 ? k : 0] = 0;
            if (k <= 0 || !answer(c, buf))
                close(c);
        }
}
