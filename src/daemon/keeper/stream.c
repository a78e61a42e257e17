/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output of a command: read from its pipe or terminal into a bounded ring, and given to any number
 * of readers. A reader that is up to date gets the pipe's own pages by tee(2), so that attached
 * output is copied no more often than kept output; one that is behind is fed from the ring.
 *
 * The ring is a memfd that init keeps a copy of: a header page {magic, size, head, lost, when what
 * came}, then the bytes. After an adoption its header is untrusted.
 */
#include "keeper.h"
#include <fcntl.h>
#include <linux/memfd.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define HEADER     4096u
#define RING_MAGIC 0x72796163u /* "cayr" */
#define STALL_MS   30000
#define BATCH      (256u << 10)

typedef struct ring_head {
    uint32_t magic, size;
    uint64_t head, lost;
    cay__marks marks; /* milliseconds since the command began */
} ring_head;

static void on_source(cay__watch *w, uint32_t ev);
static void on_reader(cay__watch *w, uint32_t ev);

static bool ring_map(ring *r)
{
    r->map = mmap(NULL, HEADER + r->size, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
    if (r->map != MAP_FAILED)
        return true;
    r->map = NULL;
    return false;
}

static bool ring_make(stream *s)
{
    ring *r = &s->ring;
    r->size = s->p->ring_bytes;
    r->fd = (int)syscall(SYS_memfd_create, "cay-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    cay__fd_nonblock(s->w.fd, true); /* until here it was only asked whether there is something */
    if (r->fd < 0 || ftruncate(r->fd, HEADER + r->size) < 0 ||
        fcntl(r->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0 || !ring_map(r)) {
        cay__close_fd(&r->fd);
        return false;
    }
    *(ring_head *)r->map = (ring_head){ .magic = RING_MAGIC, .size = r->size };
    box_tell(s->p->b, CAY_G_KEEP, s->p->id, (uint64_t)s->which, 0, r->fd);
    CAY_FAULT("keeper.ring.made");
    return true;
}

static uint64_t count_held_bytes(const stream *s)
{
    return CAY_MIN(s->head, (uint64_t)s->ring.size);
}

bool ring_adopt(stream *s, int fd)
{
    struct stat st;
    ring_head h;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & (F_SEAL_SHRINK | F_SEAL_GROW)) != (F_SEAL_SHRINK | F_SEAL_GROW) ||
        fstat(fd, &st) < 0 || pread(fd, &h, sizeof h, 0) != sizeof h || h.magic != RING_MAGIC ||
        h.size == 0 || h.size > RING_MAX ||
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
    if (!(s->p->flags & CAY_SPAWN_TTY))
        pos = lseek(fd, 0, SEEK_CUR) - (off_t)HEADER;
    if (pos >= 0 &&
        pos <= (off_t)h.size) /* further than was written down: the kill came before that */
        s->head += (h.size - h.head % h.size + (uint64_t)pos) % h.size;
    s->p->b->kept += count_held_bytes(s);
    return true;
}

static uint64_t oldest_offset(const stream *s)
{
    if (s->head > s->ring.size)
        return s->head - s->ring.size;
    return 0;
}

/* Up to n bytes of the source into the ring. Returns as read(2). The bytes of a pipe are moved to
 * where the memfd's own offset stands, and that is advanced in the same system call: a kill leaves
 * no byte taken but not counted. What one read(2) took of a terminal, which cannot be spliced, goes
 * with a kill in that moment. */
static ssize_t ring_fill(stream *s, size_t n)
{
    ring *r = &s->ring;
    size_t at = s->head % r->size;
    uint64_t before = oldest_offset(s);
    bool tty = s->p->flags & CAY_SPAWN_TTY;
    if (!tty && at == 0)
        lseek(r->fd, HEADER, SEEK_SET);
    ssize_t k;
    if (tty)
        k = read(s->w.fd, r->map + HEADER + at, n);
    else
        k = splice(s->w.fd, NULL, r->fd, NULL, n, SPLICE_F_NONBLOCK);
    if (k > 0) {
        CAY_FAULT("keeper.ring.filled");
        cay__marks_add(&((ring_head *)r->map)->marks, before, s->head,
                       (uint64_t)(cay__clock_ms() - s->p->started_ms));
        s->p->b->kept -= count_held_bytes(s);
        s->head += (uint64_t)k;
        s->p->b->kept += count_held_bytes(s);
        /* Lost is what goes before any reader had it. */
        before = CAY_MAX(before, s->seen);
        if (oldest_offset(s) > before)
            s->lost += oldest_offset(s) - before;
        ((ring_head *)r->map)->head = s->head;
        ((ring_head *)r->map)->lost = s->lost;
    }
    return k;
}

/* A contiguous piece of the ring from offset on. */
static const char *ring_at(const stream *s, uint64_t offset, size_t *n)
{
    size_t at = offset % s->ring.size;
    *n = (size_t)CAY_MIN(s->head - offset, s->ring.size - at);
    return s->ring.map + HEADER + at;
}

static void reader_free(reader *r)
{
    stream *s = r->s;
    UNLINK(s->readers, r);
    if (r->watched)
        cay__loop_del(&keeper.loop, &r->w);
    close(r->w.fd);
    free(r);
}

/* A terminal has no source until init has made it. */
static bool is_over(const stream *s)
{
    return s->p->settled || (s->w.fd < 0 && (s->p->started || !(s->p->flags & CAY_SPAWN_TTY)));
}

/* Not before there is something to give, or the command has turned out to run for a while. */
static bool reader_watch(reader *r)
{
    if (!r->watched) {
        cay__fd_nonblock(r->w.fd, true);
        r->watched = cay__loop_add(&keeper.loop, &r->w);
    }
    return r->watched;
}

/* From the ring, until the reader is up to date or its pipe is full. False when the reader is gone.
 */
static bool reader_feed(reader *r)
{
    stream *s = r->s;
    while (r->at < s->head) {
        size_t n;
        r->at = CAY_MAX(r->at, oldest_offset(s));
        const char *p = ring_at(s, r->at, &n);
        ssize_t k = 0;
        if (reader_watch(r))
            k = write(r->w.fd, p, n);
        if (k < 0 && errno == EAGAIN) {
            cay__loop_set(&keeper.loop, &r->w, EPOLLOUT);
            return true;
        }
        if (k <= 0) {
            reader_free(r);
            return false;
        }
        r->at += (uint64_t)k;
        r->stalled_ms = 0;
        s->seen = CAY_MAX(s->seen, r->at);
    }
    if (is_over(s)) {
        reader_free(r);
        return false;
    }
    cay__loop_set(&keeper.loop, &r->w, 0); /* hang-up is always reported */
    return true;
}

static void on_reader(cay__watch *w, uint32_t ev)
{
    reader *r = (reader *)w;
    stream *s = r->s;
    if (ev & (EPOLLERR | EPOLLHUP))
        reader_free(r);
    else
        reader_feed(r);
    stream_resume(s);
}

void stream_resume(stream *s)
{
    if (!s->p->started)
        return;
    if (s->paused && s->w.fd >= 0)
        s->paused = !cay__loop_add(&keeper.loop, &s->w);
    for (reader *r = s->readers, *next; r; r = next) {
        next = r->next;
        if (!reader_watch(r))
            reader_free(r);
    }
}

bool stream_attach(stream *s, uint64_t offset, int fd, cay_m_data *out)
{
    uint64_t from = offset;
    if (offset == CAY_FROM_NOW)
        from = s->head; /* may be still to come */
    uint64_t at = CAY_MAX(from, oldest_offset(s));
    *out = (cay_m_data){ .offset = at, .lost = at - from, .eof = is_over(s) };
    reader *r = cay__alloc(sizeof *r);
    r->s = s;
    r->at = at;
    r->w = (cay__watch){ .fd = fd, .events = 0, .fn = on_reader };
    r->next = s->readers;
    s->readers = r;
    if (s->p->started && !reader_watch(r)) {
        reader_free(r);
        return false;
    }
    reader_feed(r);
    return true;
}

/* How much may be read now. With on_full block, what a reader has not had is not overwritten, and
 * the writer waits; not for longer than half a minute. */
static size_t get_free_space(stream *s)
{
    size_t n = BATCH / 4;
    if (!(s->p->flags & CAY_SPAWN_BLOCK) || s->ring.fd < 0)
        return n;
    int64_t now = cay__now_ms();
    for (reader *r = s->readers; r; r = r->next) {
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
static ssize_t pass_on(stream *s, size_t most)
{
    reader *r = s->readers;
    if (!r || r->next || r->at != s->head || (s->p->flags & CAY_SPAWN_TTY))
        return 0;
    ssize_t n = tee(s->w.fd, r->w.fd, most, SPLICE_F_NONBLOCK);
    if (n > 0)
        return n;
    return 0;
}

/* Readers get what is there and, when that is all, their end. */
void stream_feed(stream *s)
{
    for (reader *r = s->readers, *next; r; r = next) {
        next = r->next;
        reader_feed(r);
    }
}

static void stream_over(stream *s)
{
    if (!s->paused)
        cay__loop_del(&keeper.loop, &s->w);
    cay__close_fd(&s->w.fd);
    stream_feed(s); /* the command may run on without it */
}

/* One helping from the source. 1: more may come, 0: nothing now, -1: over. */
static int read_source(stream *s)
{
    if (s->ring.fd <
        0) { /* most commands print nothing: no ring until there is something to keep */
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
    stream_feed(s);
    return 1;
}

static void on_source(cay__watch *w, uint32_t ev)
{
    stream *s = (stream *)w;
    (void)ev;
    if (get_free_space(s) == 0) {
        s->paused = true;
        cay__loop_del(&keeper.loop, &s->w); /* a hang-up would be told again and again */
        return;
    }
    if (read_source(s) < 0) {
        stream_over(s);
        proc_settle(s->p);
    }
}

void stream_open(stream *s, int fd)
{
    s->w = (cay__watch){ .fd = fd, .events = EPOLLIN, .fn = on_source };
    s->paused = true;
    stream_resume(s);
}

bool stream_drain(stream *s)
{
    for (int i = 0; s->w.fd >= 0 && i < 64; i++) {
        if (get_free_space(s) == 0)
            return false;
        int k = read_source(s);
        if (k < 0)
            stream_over(s);
        if (k <= 0)
            break;
    }
    return s->w.fd < 0;
}

void stream_close(stream *s)
{
    while (s->readers)
        reader_free(s->readers);
    if (s->w.fd >= 0)
        stream_over(s);
    s->p->b->kept -= count_held_bytes(s);
    if (s->ring.map)
        munmap(s->ring.map, HEADER + s->ring.size);
    s->ring.map = NULL;
    cay__close_fd(&s->ring.fd);
}

size_t stream_read(stream *s, uint64_t offset, char *buf, size_t cap, bool one_time,
                   cay_m_data *out)
{
    uint64_t from = offset == CAY_FROM_NOW ? s->head : offset,
             until = UINT64_MAX; /* may be still to come */
    uint64_t at = from;
    if (s->ring.fd >= 0)
        at = CAY_MAX(from, oldest_offset(s));
    size_t done = 0;
    *out = (cay_m_data){ .offset = at, .lost = at - from };
    if (one_time && s->ring.fd >= 0)
        out->ms = cay__marks_find(&((const ring_head *)s->ring.map)->marks, at, &until);
    cap = (size_t)CAY_MIN(cap, until - at);
    while (s->ring.fd >= 0 && done < cap && at < s->head) {
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
