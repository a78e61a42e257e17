/* SPDX-License-Identifier: Apache-2.0 */
#include "record.h"
#include <base/base.h>
#include <base/mutant.h>
#include <sys/socket.h>
#include <sys/uio.h>

typedef struct head {
    uint32_t type, len;
} head;

void cay__rec_num(cay__buf *b, uint64_t v)
{
    cay__buf_add(b, &v, sizeof v);
}

void cay__rec_bytes(cay__buf *b, const void *p, size_t n)
{
    uint32_t len = (uint32_t)n;
    cay__buf_add(b, &len, sizeof len);
    if (n)
        cay__buf_add(b, p, n);
    cay__buf_add(b, "", 1);
}

void cay__rec_str(cay__buf *b, const char *s)
{
    cay__rec_bytes(b, CAY_OR(s, ""), s ? strlen(s) : 0);
}

bool cay__rec_send(int fd, uint32_t type, const void *data, size_t len)
{
    head h = { type, (uint32_t)len };
    struct iovec io[2] = { { &h, sizeof h }, { (void *)data, len } };
    struct msghdr m = { .msg_iov = io, .msg_iovlen = len ? 2 : 1 };
    if (len > CAY__REC_MAX) {
        errno = EMSGSIZE;
        return false;
    }
    for (size_t left = sizeof h + len; left;) {
        ssize_t n = sendmsg(fd, &m, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        left -= (size_t)n;
        for (size_t i = 0; i < 2 && n; i++) {
            size_t k = CAY_MIN((size_t)n, io[i].iov_len);
            io[i].iov_base = (char *)io[i].iov_base + k;
            io[i].iov_len -= k;
            n -= (ssize_t)k;
        }
    }
    return true;
}

bool cay__rec_send_buf(int fd, uint32_t type, cay__buf *b)
{
    bool fits = !b->full && b->len <= CAY__REC_MAX;
    errno = EMSGSIZE;
    bool sent = fits && cay__rec_send(fd, type, b->data, b->len);
    b->len = 0;
    b->full = false;
    return sent;
}

static const uint8_t *read_bytes(cay__rec *r, size_t n)
{
    if (r->bad || n > r->left) {
        r->bad = true;
        return NULL;
    }
    const uint8_t *p = r->p;
    r->p += n;
    r->left -= n;
    return p;
}

uint64_t cay__rec_get_num(cay__rec *r)
{
    uint64_t v = 0;
    const uint8_t *p = read_bytes(r, sizeof v);
    if (p)
        memcpy(&v, p, sizeof v);
    return v;
}

const char *cay__rec_get_bytes(cay__rec *r, size_t *len)
{
    uint32_t n = 0;
    const uint8_t *p = read_bytes(r, sizeof n);
    *len = 0;
    if (p)
        memcpy(&n, p, sizeof n);
    if (p)
        p = read_bytes(r, (size_t)n + 1);
    if (!p || (p[n] && !CAY__MUTANT("fuzz-layer_diff"))) {
        r->bad = true;
        return "";
    }
    *len = n;
    return (const char *)p;
}

const char *cay__rec_get_str(cay__rec *r)
{
    size_t n;
    const char *s = cay__rec_get_bytes(r, &n);
    if (strlen(s) == n)
        return s;
    r->bad = true;
    return "";
}

ssize_t cay__rec_take(const void *in, size_t len, cay__rec *out)
{
    head h;
    if (len < sizeof h)
        return 0;
    memcpy(&h, in, sizeof h);
    if (!h.type || h.len > CAY__REC_MAX)
        return -1;
    if (len - sizeof h < h.len)
        return 0;
    *out = (cay__rec){ .type = h.type, .p = (const uint8_t *)in + sizeof h, .left = h.len };
    return (ssize_t)(sizeof h + h.len);
}

int cay__rec_read(int fd, cay__buf *room, cay__rec *out)
{
    head h;
    room->len = 0;
    room->max = CAY__REC_MAX + sizeof h + 1;
    ssize_t n = cay__fd_read_all(fd, &h, sizeof h);
    if (n <= 0)
        return (int)n;
    errno = EPROTO;
    if (n != sizeof h || !h.type || h.len > CAY__REC_MAX)
        return -1;
    char *p = cay__buf_room(room, h.len + 1);
    if (!p || (n = cay__fd_read_all(fd, p, h.len)) != (ssize_t)h.len) {
        if (n >= 0)
            errno = EPROTO;
        return -1;
    }
    *out = (cay__rec){ .type = h.type, .p = (const uint8_t *)p, .left = h.len };
    return 1;
}
