/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole files of any size in constant memory: out through a stream socket that the client made, in
 * through a pipe.
 *
 * Out it is a socket and not a pipe, because a reader must be able to tell the end of a file from
 * the end of a worker. The client leaves one byte unread in it: unix(7) answers ECONNRESET to the
 * reader of a socket whose other end went away with bytes unread, so only a worker that sent
 * everything, and took that byte, ends cleanly.
 */
#include "session_ops.h"
#include <base/base.h>
#include <poll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

enum { CHUNK = 1 << 20 };

int cay__ses_is_pipe(int fd)
{
    struct stat st;
    int fl = fcntl(fd, F_GETFL);
    if (fl < 0 || fstat(fd, &st) < 0)
        return -1;
    errno = EINVAL;
    if (S_ISFIFO(st.st_mode) && (fl & O_ACCMODE) == O_RDONLY)
        return 0;
    return -1;
}

static char *get_work_buffer(cay__ses *s, size_t *room)
{
    *room = CAY_SES_MAX - sizeof(cay_ses_rep);
    return s->out + sizeof(cay_ses_rep);
}

static bool is_stream(int fd)
{
    return cay__sock_get(fd, SO_DOMAIN) == AF_UNIX && cay__sock_get(fd, SO_TYPE) == SOCK_STREAM;
}

/* Everything was sent: takes the client's byte out of the socket, which makes its end a clean one.
 */
static void sign_off(int sock)
{
    char byte;
    (void)!recv(sock, &byte, 1, MSG_DONTWAIT);
}

/* Waits until the socket takes more. False: nobody reads any more. */
static bool wait_writable(int sock)
{
    struct pollfd p = { .fd = sock, .events = POLLOUT };
    return (poll(&p, 1, -1) >= 0 || errno == EINTR) && !(p.revents & (POLLERR | POLLHUP));
}

/* All of it, whether or not somebody made the socket non-blocking. */
static bool send_all(int sock, const char *p, size_t n)
{
    while (n) {
        ssize_t k = send(sock, p, n, MSG_NOSIGNAL);
        if (k < 0 && (errno == EINTR || (errno == EAGAIN && wait_writable(sock))))
            continue;
        if (k < 0)
            return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}

/* Copies up to `left` bytes; sendfile(2) where the file knows it, else through the working buffer.
 * True: the file or the range ended, and all was sent. */
static bool send_file(cay__ses *s, int file, uint64_t left)
{
    size_t room;
    char *buf = get_work_buffer(s, &room);
    bool direct = true;
    while (left) {
        ssize_t n;
        if (direct) {
            n = sendfile(s->fd, file, NULL, CAY_MIN(left, (uint64_t)CHUNK));
            if (n < 0 && errno == EINVAL) {
                direct = false;
                continue;
            }
            if (n < 0 && errno == EAGAIN && wait_writable(s->fd))
                continue;
        } else {
            n = read(file, buf, CAY_MIN(left, (uint64_t)room));
            if (n > 0 && !send_all(s->fd, buf, (size_t)n))
                return false;
        }
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n == 0;
        left -= (uint64_t)n;
    }
    return true;
}

/* What a small file holds goes into the socket at once, if it takes it. */
static bool send_small(cay__ses *s, const char *buf, size_t n)
{
    size_t at = 0;
    while (at < n) {
        ssize_t k = send(s->fd, buf + at, n - at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            break;
        at += (size_t)k;
    }
    if (at < n) {
        s->flags = CAY_SES_BUSY;
        return cay__ses_answer(s, 0, -1) == 0 && send_all(s->fd, buf + at, n - at);
    }
    return true;
}

int cay__ses_read(cay__ses *s)
{
    struct stat st;
    uint64_t from = s->req->a, want = CAY_OR(s->req->b, INT64_MAX);
    if (!is_stream(s->fd) || from > INT64_MAX || want > INT64_MAX) {
        errno = EINVAL;
        return -1;
    }
    CAY_AUTOFD file = cay__fs_open_read(&s->fs, s->path, &st);
    if (file < 0)
        return -1;
    if (from && lseek(file, (off_t)from, SEEK_SET) < 0)
        return -1;
    s->a = (uint64_t)st.st_size;
    size_t room, got = 0;
    char *buf = get_work_buffer(s, &room);
    uint64_t left = 0;
    if ((uint64_t)st.st_size > from)
        left = CAY_MIN((uint64_t)st.st_size - from, want);
    if (left <= room) {
        /* size 0 may be a file that the kernel makes up while it is read */
        ssize_t n = cay__fd_read_all(file, buf, CAY_MIN((uint64_t)room, want));
        if (n < 0 && errno != EAGAIN)
            return -1;
        if (n > 0)
            got = (size_t)n;
        else
            got = 0;
        if (got < room || got == want) {
            if (send_small(s, buf, got))
                sign_off(s->fd);
            if (s->flags & CAY_SES_BUSY)
                return CAY__SES_END;
            return 0;
        }
    }
    s->flags = CAY_SES_BUSY;
    cay__ses_leave(s); /* what is open stays open, whatever root there is */
    /* From here on the stream alone tells whether anyone listens: the client drops the session. The
     * answer's head is packed in front of what was read. */
    if (cay__ses_answer(s, 0, -1) == 0 && send_all(s->fd, buf, got) &&
        send_file(s, file, want - got))
        sign_off(s->fd);
    return CAY__SES_END;
}

/* One step from the pipe into the file: bytes moved, 0 at its end, -1. After a failed write the
 * rest is still taken and thrown away, so that the client learns of it by COMMIT and not by
 * SIGPIPE. */
static ssize_t copy_pipe_chunk(cay__ses *s, int file, bool *direct, int *failed)
{
    size_t room;
    char *buf = get_work_buffer(s, &room);
    if (*direct && !*failed) {
        ssize_t n = splice(s->fd, NULL, file, NULL, CHUNK, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
        if (n >= 0 || errno == EAGAIN || errno == EINTR)
            return n;
        if (errno != EINVAL)
            *failed = errno;
        *direct = false;
        errno = EAGAIN;
        return -1;
    }
    ssize_t n = read(s->fd, buf, room);
    if (n > 0 && !*failed && !cay__fd_write_all(file, buf, (size_t)n))
        *failed = errno;
    return n;
}

/* Reads the pipe to its end. False: the client went away first. */
static bool copy_pipe(cay__ses *s, int file, int *failed)
{
    struct pollfd p[2] = { { .fd = s->fd, .events = POLLIN },
                           { .fd = s->sock, .events = POLLRDHUP } };
    bool direct = true;
    for (;;) {
        if (poll(p, 2, -1) < 0 && errno != EINTR)
            return false;
        if (p[1].revents & (POLLHUP | POLLRDHUP | POLLERR))
            return false;
        if (!p[0].revents)
            continue;
        ssize_t n = copy_pipe_chunk(s, file, &direct, failed);
        if (n == 0)
            return true;
        if (n < 0 && errno != EAGAIN && errno != EINTR) {
            *failed = errno;
            return true;
        }
    }
}

/* Exactly a COMMIT with nothing in it. */
bool cay__ses_committed(cay__ses *s)
{
    cay_ses_req commit;
    bool ok =
        cay__fd_recv(s->sock, s->in, CAY_SES_MAX, NULL, NULL, 0) == (ssize_t)sizeof commit + 2;
    memcpy(&commit, s->in, sizeof commit);
    return ok && commit.magic == CAY_SES_MAGIC && commit.op == CAY_SES_COMMIT;
}

int cay__ses_receive(cay__ses *s, cay__fs_upload *up)
{
    int failed = 0;
    bool ok = copy_pipe(s, up->fd, &failed);
    cay__close_fd(&s->fd);
    if (!ok || !cay__ses_committed(s)) { /* a hang-up or anything else takes everything back */
        cay__fs_put_abort(up);
        return CAY__SES_END;
    }
    if (failed) {
        cay__fs_put_abort(up);
        errno = failed;
        return -1;
    }
    return cay__fs_put_commit(up);
}
