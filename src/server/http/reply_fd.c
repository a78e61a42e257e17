/* SPDX-License-Identifier: Apache-2.0 */
/* Answers with what a descriptor yields. */
#include "stream.h"
#include <base/base.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include "server.h"

enum { PIECE = 64 << 10, TURN = 1 << 20, CHUNK_HEAD = 8 };

int cay__reply_fd(cay__req *r, int status, const char *type, int fd, int64_t len)
{
    struct stat st;
    cay__reply_head(r, status, type, len);
    if (cay__reply_bodiless(r, status) || len == 0) {
        close(fd);
        return 0;
    }
    cay__stream *s = cay__stream_new(r->conn, NULL, r->reply->chunked ? CAY__CHUNKS : CAY__RAW);
    bool known = fstat(fd, &st) == 0;
    s->file = known && (S_ISREG(st.st_mode) || S_ISBLK(st.st_mode));
    s->pipe = known && S_ISFIFO(st.st_mode);
    s->fd = fd;
    s->left = len;
    if (!s->file)
        s->raw.pump.fd[0] = fd;
    return 0;
}

/* Straight from the page cache or a pipe into the socket. >0 moved, 0 the source ended, -1 the peer
 * is slow, -2 broken, -3 nothing is there. */
static ssize_t splice_data(cay__conn *c, cay__stream *s, size_t n)
{
    ssize_t got;
    if (s->file)
        got = sendfile(c->w.fd, s->fd, NULL, n);
    else
        got = splice(s->fd, NULL, c->w.fd, NULL, n, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    if (got >= 0)
        return got;
    if (errno != EAGAIN)
        return -2;
    int there = 0;
    if (!s->file && ioctl(s->fd, FIONREAD, &there) == 0 && !there)
        return -3;
    return -1;
}

/* By way of a buffer, framed. */
static ssize_t copy_data(cay__conn *c, cay__stream *s, size_t n)
{
    char *room = cay__buf_room(&c->out, n + CHUNK_HEAD + 2);
    size_t head = 0;
    if (s->framing == CAY__CHUNKS)
        head = CHUNK_HEAD;
    if (!room)
        return -2;
    struct pollfd there = { .fd = s->fd, .events = POLLIN };
    if (!s->file &&
        poll(&there, 1, 0) == 0) /* the descriptor may be one that waits: the lane never does */
        return -3;
    ssize_t got = read(s->fd, room + head, n);
    if (got <= 0) {
        if (got == 0)
            return 0;
        if (errno == EAGAIN || errno == EINTR)
            return -3;
        return -2;
    }
    size_t all = (size_t)got + head;
    if (head) {
        char line[24];
        CAY_FORMAT(line, "%06zx\r\n", (size_t)got);
        memcpy(room, line, CHUNK_HEAD);
        memcpy(room + all, "\r\n", 2);
        all += 2;
    }
    cay__buf_used(&c->out, all);
    return got;
}

int cay__fd_produce(cay__conn *c, cay__stream *s, bool *more)
{
    bool direct = s->framing == CAY__RAW && !c->tls && s->left >= 0 && (s->file || s->pipe);
    size_t budget = TURN;
    while (budget && s->left) {
        if (direct ? cay__io_pending(c) > 0 : cay__io_pending(c) > CAY__HIGH) {
            *more = true; /* after what was said before */
            return 0;
        }
        size_t n = PIECE;
        if (direct)
            n = budget;
        if (s->left > 0 && (int64_t)n > s->left)
            n = (size_t)s->left;
        ssize_t got;
        if (direct)
            got = splice_data(c, s, n);
        else
            got = copy_data(c, s, n);
        if (got == -1 || got == -3) {
            *more = got == -1;
            return 0;
        }
        if (got < 0 || (got == 0 && s->left > 0))
            return -1; /* it has fewer bytes than was promised: only a cut connection says so */
        if (got == 0)
            break;
        c->req->reply->bytes += (uint64_t)got;
        if (s->left > 0)
            s->left -= got;
        budget -= CAY_MIN(budget, (size_t)got);
        if (!s->file && !direct && s->left) /* another read might wait */
            return 0;
    }
    if (!budget && s->left) {
        *more = s->file;
        return 0;
    }
    s->ended = true;
    return 0;
}

/* A file and what stat(2) tells of it are two questions, and another file may be put in its place
 * between them: then the bytes of one would go out under the length of the other. */

int cay__file_again(cay_sandbox *sb, const cay_call *call, const char *path, const cay_stat *st,
                    int nth, cay_err *err)
{
    cay_stat now = { .size_of = sizeof now };
    CAY_TRY(cay_file_stat(sb, call, path, true, &now, err));
    bool same = now.inode == st->inode;
    if (same && now.mtime_ns == st->mtime_ns && now.size == st->size)
        return 0;
    if (nth < CAY__FILE_TRIES)
        return 1;
    if (same)
        return 0;
    return cay_fail_why(err, CAY_EBUSY, "file_changing",
                        "%.200s: another file is put in its place again and again; try again",
                        path);
}

int cay__file_open(cay__req *r, cay_sandbox *sb, const char *path, const char *user, cay_stat *st,
                   int *fd, cay_err *err)
{
    for (int i = 1;; i++) {
        const cay_read spec = { .size = sizeof spec, .user = user, .length = st->size };
        CAY_AUTOFD got = -1;
        CAY_TRY(cay_file_open_read(sb, &r->call, path, &spec, &got, err));
        int rc = cay__file_again(sb, &r->call, path, st, i, err);
        if (rc == 0)
            *fd = CAY_STEAL_FD(got);
        if (rc != 1)
            return rc;
        CAY_TRY(cay_file_stat(sb, &r->call, path, true, st, err));
    }
}
