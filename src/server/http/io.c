/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes to and from a peer. */
#include "connection.h"
#include <base/base.h>
#include <sys/socket.h>

enum { BLOCKED = -1, BROKEN = -2 };

ssize_t cay__io_read(cay__conn *c, void *buf, size_t n)
{
    ssize_t got;
    if (c->tls)
        return cay__tls_read(c, buf, n);
    do
        got = recv(c->w.fd, buf, n, 0);
    while (got < 0 && errno == EINTR);
    if (got >= 0)
        return got;
    if (errno == EAGAIN)
        return BLOCKED;
    return BROKEN;
}

ssize_t cay__io_write(cay__conn *c, const void *buf, size_t n)
{
    ssize_t put;
    if (c->tls)
        return cay__tls_write(c, buf, n);
    do
        put = send(c->w.fd, buf, n, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (put < 0 && errno == EINTR);
    if (put >= 0)
        return put;
    if (errno == EAGAIN)
        return BLOCKED;
    return BROKEN;
}

int cay__io_flush(cay__conn *c)
{
    enum { KEEP = 8192 }; /* a buffer that grew beyond is not kept for the next answer */
    if (c->out.full)
        c->cut = true;
    while (!c->cut && cay__io_pending(c)) {
        ssize_t n = cay__io_write(c, c->out.data + c->out_at, cay__io_pending(c));
        if (n == BLOCKED) {
            if (c->out_at > c->out.len / 2) { /* so that a long stream does not grow it */
                memmove(c->out.data, c->out.data + c->out_at, cay__io_pending(c));
                c->out.len -= c->out_at;
                c->out_at = 0;
            }
            return 0;
        }
        if (n == BROKEN)
            c->cut = true;
        else
            c->out_at += (size_t)n;
    }
    if (c->out.cap > KEEP)
        cay__buf_clear(&c->out);
    c->out.len = c->out_at = 0;
    if (c->cut)
        return -1;
    return 1;
}
