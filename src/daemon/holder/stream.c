/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output of a command: read from its pipe or terminal into a bounded ring, and given to any number
 * of readers. A reader that is up to date gets the pipe's own pages by tee(2), so that attached
 * output is copied no more often than kept output; one that is behind is fed from the ring.
 *
 * The keeper's ring is a memfd that init keeps a copy of: a header page {magic, size, head, lost,
 * when what came}, then the bytes. After an adoption its header is untrusted. Others have the same
 * in plain memory.
 */
#include "stream.h"
#include <base/base.h>
#include <base/fault.h>
#include <base/mutant.h>
#include <cay/sandbox.h>
#include <linux/memfd.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#define HEADER     4096u
#define RING_MAGIC 0x72796163u /* "cayr" */
#define STALL_MS   30000
#define BATCH      (64u << 10)
#define PIPE_MAX   (1u << 20) /* what a pipe may still hold when its command ended */

typedef struct ring_head {
    uint32_t magic, size;
    uint64_t head, lost;
    cay__marks marks; /* milliseconds since the command began */
} ring_head;

static ring_head *ring_header(const holder_stream *s)
{
    return (ring_head *)(void *)s->ring.map;
}

static bool ring_map(holder_ring *r)
{
    int flags = r->fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    r->map = mmap(NULL, HEADER + r->size, PROT_READ | PROT_WRITE, flags, r->fd, 0);
    if (r->map != MAP_FAILED)
        return true;
    r->map = NULL;
    return false;
}

/* Sealed, so that nobody who has it can cut it off under us. */
static bool make_memfd(holder_ring *r)
{
    r->fd = (int)syscall(SYS_memfd_create, "cay-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return r->fd >= 0 && ftruncate(r->fd, HEADER + r->size) == 0 &&
           fcntl(r->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
}

static bool ring_make(holder_stream *s)
{
    holder_ring *r = &s->ring;
    r->size = s->ring_size;
    cay__fd_nonblock(s->w.fd, true); /* until here it was only asked whether there is something */
    if ((s->ops->keep_ring && !make_memfd(r)) || !ring_map(r)) {
        cay__close_fd(&r->fd);
        return false;
    }
    *ring_header(s) = (ring_head){ .magic = RING_MAGIC, .size = r->size };
    if (s->ops->keep_ring)
        s->ops->keep_ring(s);
    return true;
}

static uint64_t count_held_bytes(const holder_stream *s)
{
    return CAY_MIN(s->head, (uint64_t)s->ring.size);
}

bool cay__ring_adopt(holder_stream *s, int fd)
{
    struct stat st;
    ring_head h;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & (F_SEAL_SHRINK | F_SEAL_GROW)) != (F_SEAL_SHRINK | F_SEAL_GROW) ||
        fstat(fd, &st) < 0 || pread(fd, &h, sizeof h, 0) != sizeof h || h.magic != RING_MAGIC ||
        h.size == 0 || h.size > CAY__RING_MAX ||
        (st.st_size != (off_t)(HEADER + h.size) && !CAY__MUTANT("fuzz-ring")) ||
        h.head > INT64_MAX || h.lost > h.head)
        return false;
    s->ring.fd = fd;
    s->ring.size = h.size;
    if (!ring_map(&s->ring)) {
        s->ring.fd = -1;
        return false;
    }
    s->head = h.head;
    s->lost = h.lost;
    off_t pos = -1;
    if (!(s->flags & CAY_SPAWN_TTY))
        pos = lseek(fd, 0, SEEK_CUR) - (off_t)HEADER;
    if (pos >= 0 &&
        pos <= (off_t)h.size) /* further than was written down: the kill came before that */
        s->head += (h.size - h.head % h.size + (uint64_t)pos) % h.size;
    *s->kept += count_held_bytes(s);
    return true;
}

static uint64_t oldest_offset(const holder_stream *s)
{
    if (s->head > s->ring.size)
        return s->head - s->ring.size;
    return 0;
}

/* Up to n bytes of the source into the ring. Returns as read(2). The bytes of a pipe are moved to
 * where the memfd's own offset stands, and that is advanced in the same system call: a kill leaves
 * no byte taken but not counted. What one read(2) took of a terminal, which cannot be spliced, goes
 * with a kill in that moment. */
static ssize_t ring_fill(holder_stream *s, size_t n)
{
    holder_ring *r = &s->ring;
    size_t at = s->head % r->size;
    uint64_t before = oldest_offset(s);
    bool moved = r->fd >= 0 && !(s->flags & CAY_SPAWN_TTY);
    if (moved && at == 0)
        lseek(r->fd, HEADER, SEEK_SET);
    ssize_t k;
    if (moved)
        k = splice(s->w.fd, NULL, r->fd, NULL, n, SPLICE_F_NONBLOCK);
    else
        k = read(s->w.fd, r->map + HEADER + at, n);
    if (k > 0) {
        CAY_FAULT("keeper.ring.filled");
        ring_head *h = ring_header(s);
        cay__marks_add(&h->marks, before, s->head, (uint64_t)(cay__clock_ms() - s->began_ms));
        *s->kept -= count_held_bytes(s);
        s->head += (uint64_t)k;
        *s->kept += count_held_bytes(s);
        /* Lost is what goes before any reader had it. */
        before = CAY_MAX(before, s->seen);
        if (oldest_offset(s) > before)
            s->lost += oldest_offset(s) - before;
        h->head = s->head;
        h->lost = s->lost;
    }
    return k;
}

/* A contiguous piece of the ring from offset on. */
static const char *ring_at(const holder_stream *s, uint64_t offset, size_t *n)
{
    size_t at = offset % s->ring.size;
    *n = (size_t)CAY_MIN(s->head - offset, s->ring.size - at);
    return s->ring.map + HEADER + at;
}

static void reader_free(holder_reader *r)
{
    CAY_UNLINK(r->s->readers, r);
    if (r->watched)
        cay__loop_del(r->s->loop, &r->w);
    close(r->w.fd);
    free(r);
}

/* A terminal has no source until it is made. */
static bool is_over(const holder_stream *s)
{
    if (s->w.fd >= 0)
        return s->ended && s->head >= s->last;
    return s->ended || s->started || !(s->flags & CAY_SPAWN_TTY);
}

static void on_reader(cay__watch *w, uint32_t ev);

/* Not before there is something to give, or the command has turned out to run for a while. */
static bool reader_watch(holder_reader *r)
{
    if (!r->watched) {
        cay__fd_nonblock(r->w.fd, true);
        r->watched = cay__loop_add(r->s->loop, &r->w);
    }
    return r->watched;
}

/* From the ring, until the reader is up to date or its pipe is full. It may be gone then. */
static void reader_feed(holder_reader *r)
{
    holder_stream *s = r->s;
    while (r->at < s->head) {
        size_t n;
        r->at = CAY_MAX(r->at, oldest_offset(s));
        const char *p = ring_at(s, r->at, &n);
        ssize_t k = 0;
        if (reader_watch(r))
            k = write(r->w.fd, p, n);
        if (k < 0 && errno == EAGAIN) {
            cay__loop_set(s->loop, &r->w, EPOLLOUT);
            return;
        }
        if (k <= 0) {
            reader_free(r);
            return;
        }
        r->at += (uint64_t)k;
        r->stalled_ms = 0;
        s->seen = CAY_MAX(s->seen, r->at);
    }
    if (is_over(s))
        reader_free(r);
    else
        cay__loop_set(s->loop, &r->w, 0); /* hang-up is always reported */
}

static void on_reader(cay__watch *w, uint32_t ev)
{
    holder_reader *r = (holder_reader *)w;
    holder_stream *s = r->s;
    if (ev & (EPOLLERR | EPOLLHUP))
        reader_free(r);
    else
        reader_feed(r);
    cay__stream_resume(s);
}

void cay__stream_resume(holder_stream *s)
{
    if (!s->started)
        return;
    if (s->paused && s->w.fd >= 0)
        s->paused = !cay__loop_add(s->loop, &s->w);
    CAY_EACH_LINK_SAFE(r, s->readers) {
        if (!reader_watch(r))
            reader_free(r);
    }
}

/* Where a reader begins who asks for this offset; out tells, and what is gone before. */
static uint64_t begin_at(const holder_stream *s, uint64_t offset, cay_m_data *out)
{
    uint64_t from = offset;
    if (offset == CAY_FROM_NOW)
        from = s->head; /* may be still to come */
    uint64_t at = CAY_MAX(from, oldest_offset(s));
    *out = (cay_m_data){ .offset = at, .lost = at - from };
    return at;
}

bool cay__stream_attach(holder_stream *s, uint64_t offset, int fd, cay_m_data *out)
{
    holder_reader *r = cay__alloc(sizeof *r);
    *r = (holder_reader){ .w = { .fd = fd, .fn = on_reader },
                          .s = s,
                          .at = begin_at(s, offset, out),
                          .next = s->readers };
    out->eof = is_over(s);
    s->readers = r;
    if (s->started && !reader_watch(r)) {
        reader_free(r);
        return false;
    }
    reader_feed(r);
    return true;
}

/* How much may be read now. With on_full block, what a reader has not had is not overwritten, and
 * the writer waits; not for longer than half a minute. */
static size_t get_free_space(holder_stream *s)
{
    size_t n = BATCH;
    if (!(s->flags & CAY_SPAWN_BLOCK) || !s->ring.map)
        return n;
    int64_t now = cay__now_ms();
    CAY_EACH_LINK(r, s->readers) {
        uint64_t behind = 0;
        if (s->head > r->at)
            behind = s->head - r->at;
        if (behind < s->ring.size) {
            n = CAY_MIN(n, s->ring.size - (size_t)behind);
            continue;
        }
        if (!r->stalled_ms)
            r->stalled_ms = now;
        if (now - r->stalled_ms < STALL_MS)
            return 0;
    }
    return n;
}

/* The one reader that has everything so far gets the pipe's pages themselves. */
static ssize_t pass_on(holder_stream *s, size_t most)
{
    holder_reader *r = s->readers;
    if (!r || r->next || r->at != s->head || s->ring.fd < 0 || (s->flags & CAY_SPAWN_TTY))
        return 0;
    ssize_t n = tee(s->w.fd, r->w.fd, most, SPLICE_F_NONBLOCK);
    return CAY_MAX(n, 0);
}

/* Readers get what is there and, when that is all, their end. */
static void feed_readers(holder_stream *s)
{
    CAY_EACH_LINK_SAFE(r, s->readers) {
        reader_feed(r);
    }
}

static void source_over(holder_stream *s)
{
    if (!s->paused)
        cay__loop_del(s->loop, &s->w);
    cay__close_fd(&s->w.fd);
    feed_readers(s); /* the command may run on without it */
}

/* One helping from the source. 1: more may come, 0: nothing now, -1: over. */
static int read_source(holder_stream *s)
{
    if (!s->ring.map) { /* most commands print nothing: no ring until there is something to keep */
        struct pollfd q = { s->w.fd, POLLIN, 0 };
        if (poll(&q, 1, 0) <= 0)
            return 0;
        if (!(q.revents & POLLIN) || !ring_make(s))
            return -1;
    }
    /* What is passed on is kept too. Up to the ring's end, and never a whole round: what is known
     * after a kill is only where in it we stood. */
    size_t most = CAY_MIN(get_free_space(s),
                          CAY_MIN(s->ring.size - s->head % s->ring.size, s->ring.size / 2));
    ssize_t passed = pass_on(s, most);
    ssize_t k = ring_fill(s, passed > 0 ? (size_t)passed : most);
    if (k < 0 && errno == EAGAIN)
        return 0;
    if (k <= 0) /* a terminal whose last slave closed says EIO */
        return -1;
    if (passed > 0) {
        s->readers->at += (uint64_t)k;
        s->seen = CAY_MAX(s->seen, s->readers->at);
    }
    feed_readers(s);
    return 1;
}

static void on_source(cay__watch *w, uint32_t ev)
{
    holder_stream *s = (holder_stream *)w;
    if (get_free_space(s) == 0) {
        s->paused = true;
        cay__loop_del(s->loop, &s->w); /* a hang-up would be told again and again */
        return;
    }
    int k = read_source(s);
    if (k < 0) {
        source_over(s);
        s->ops->source_ended(s);
    } else if (k == 0 && s->ended) {
        s->last = CAY_MIN(s->last, s->head);
        feed_readers(s);
    }
}

uint32_t cay__ring_size(uint32_t asked)
{
    if (asked)
        return CAY_MAX((asked + 4095u) & ~4095u, 4096u);
    return CAY__RING_DEFAULT;
}

void cay__stream_set(holder_stream *s, uint32_t flags, uint32_t ring, int64_t began_ms)
{
    s->flags = flags;
    s->ring_size = ring;
    s->began_ms = began_ms;
}

void cay__stream_open(holder_stream *s, int fd)
{
    s->w = (cay__watch){ .fd = fd, .events = EPOLLIN, .fn = on_source };
    s->paused = true;
    cay__stream_resume(s);
}

bool cay__stream_drain(holder_stream *s)
{
    for (int i = 0; s->w.fd >= 0 && i < 64; i++) {
        if (get_free_space(s) == 0)
            return false;
        int k = read_source(s);
        if (k < 0)
            source_over(s);
        if (k <= 0)
            break;
    }
    return s->w.fd < 0;
}

/* A blocking reader that made the source wait gets what is in there, too. */
void cay__stream_end(holder_stream *s)
{
    bool all = cay__stream_drain(s) || get_free_space(s) > 0;
    s->ended = true;
    s->last = s->head;
    if (!all)
        s->last += PIPE_MAX;
    feed_readers(s);
}

void cay__stream_close(holder_stream *s)
{
    while (s->readers)
        reader_free(s->readers);
    if (s->w.fd >= 0)
        source_over(s);
    *s->kept -= count_held_bytes(s);
    if (s->ring.map)
        munmap(s->ring.map, HEADER + s->ring.size);
    s->ring.map = NULL;
    cay__close_fd(&s->ring.fd);
}

size_t cay__stream_read(holder_stream *s, uint64_t offset, char *buf, size_t cap, bool one_time,
                        cay_m_data *out)
{
    uint64_t at = begin_at(s, offset, out), until = UINT64_MAX;
    size_t done = 0;
    if (one_time && s->ring.map)
        out->ms = cay__marks_find(&ring_header(s)->marks, at, &until);
    cap = (size_t)CAY_MIN(cap, until - at);
    while (s->ring.map && done < cap && at < s->head) {
        size_t n;
        const char *p = ring_at(s, at, &n);
        n = CAY_MIN(n, cap - done);
        memcpy(buf + done, p, n);
        done += n;
        at += n;
    }
    out->eof = at >= s->head && is_over(s);
    return done;
}
