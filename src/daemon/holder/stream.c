/* SPDX-License-Identifier: Apache-2.0 */
#include "stream.h"
#include <base/base.h>
#include <base/fd.h>
#include <stdint.h>
#include <sys/mman.h>

enum { CHUNK = 65536, STALL_MS = 30000, LAST_MAX = 1 << 20 };

struct reader {
    cay__watch w;
    stream *s;
    uint64_t pos;
    reader *next;
};

static uint64_t end_offset(const stream *s)
{
    if (s->over)
        return s->final;
    return s->end;
}

static void reader_free(reader *r)
{
    reader **p = &r->s->readers;
    while (*p != r)
        p = &(*p)->next;
    *p = r->next;
    cay__loop_del(r->s->loop, &r->w);
    close(r->w.fd);
    free(r);
}

/* Writes what the pipe takes. Frees the reader when it is through or gone. */
static void reader_push(reader *r)
{
    stream *s = r->s;
    while (r->pos < end_offset(s)) {
        if (r->pos < s->start)
            r->pos = CAY_MIN(s->start, end_offset(s));
        uint64_t at = r->pos % s->cap;
        size_t n = (size_t)CAY_MIN(end_offset(s) - r->pos, s->cap - at);
        ssize_t k = 0;
        if (n)
            k = write(r->w.fd, s->ring + at, n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0 && errno == EAGAIN) {
            cay__loop_set(s->loop, &r->w, EPOLLOUT);
            return;
        }
        if (k < 0) {
            reader_free(r);
            return;
        }
        r->pos += (uint64_t)k;
        s->taken = CAY_MAX(s->taken, r->pos);
    }
    if (s->over)
        reader_free(r);
    else
        cay__loop_set(s->loop, &r->w, 0); /* ERR still tells when the other end is closed */
}

static void push_all(stream *s)
{
    for (reader *r = s->readers, *next; r; r = next) {
        next = r->next;
        reader_push(r);
    }
}

/* Room that may be filled now without a blocking reader losing anything. */
static size_t get_free_space(const stream *s)
{
    uint64_t low = s->end;
    for (const reader *r = s->block && !s->over ? s->readers : NULL; r; r = r->next)
        low = CAY_MIN(low, CAY_MAX(r->pos, s->start));
    return (size_t)(s->cap - (s->end - low));
}

static void append_bytes(stream *s, const char *p, size_t n)
{
    cay__marks_add(s->marks, s->start, s->end, (uint64_t)(cay__clock_ms() - s->began));
    for (size_t done = 0; done < n;) {
        uint64_t at = s->end % s->cap;
        size_t k = (size_t)CAY_MIN(n - done, s->cap - at);
        memcpy(s->ring + at, p + done, k);
        done += k;
        s->end += k;
    }
    if (s->end - s->start > s->cap) {
        uint64_t first = s->end - s->cap, from = CAY_MAX(s->start, s->taken);
        if (first > from)
            s->lost += first - from;
        s->start = first;
    }
}

static void source_close(stream *s)
{
    if (s->w.fd < 0)
        return;
    if (!s->held)
        cay__loop_del(s->loop, &s->w);
    close(s->w.fd);
    s->w.fd = -1;
    cay__timer_cancel(&s->stall);
}

/* false: nothing more now. */
static bool read_source(stream *s)
{
    static char chunk[CHUNK];
    size_t want = CAY_MIN(get_free_space(s), sizeof chunk);
    if (want == 0)
        return false;
    ssize_t n = read(s->w.fd, chunk, want);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return errno == EINTR;
    if (n <= 0) { /* a terminal without a process answers EIO */
        source_close(s);
        return false;
    }
    append_bytes(s, chunk, (size_t)n);
    return true;
}

/* Leaves the source alone while a reader must catch up. It leaves the loop altogether, because a
 * hang-up is told whether one asks for it or not. */
static void update_hold(stream *s)
{
    if (s->w.fd < 0)
        return;
    bool full = get_free_space(s) == 0;
    if (full && !s->held)
        cay__loop_del(s->loop, &s->w);
    if (!full && s->held)
        cay__loop_add(s->loop, &s->w);
    s->held = full;
    if (!full)
        cay__timer_cancel(&s->stall);
    else if (!s->stall.prev)
        cay__timer_arm(s->loop, &s->stall, cay__boot_ms() + STALL_MS);
}

static void on_stall(cay__timer *t)
{
    stream *s = (stream *)((char *)t - offsetof(stream, stall));
    s->block = false;
    update_hold(s);
}

static void on_source(cay__watch *w, uint32_t events)
{
    stream *s = (stream *)((char *)w - offsetof(stream, w));
    (void)events;
    read_source(s);
    push_all(s);
    update_hold(s);
    if (s->w.fd < 0)
        s->closed(s);
}

static void on_reader(cay__watch *w, uint32_t events)
{
    reader *r = (reader *)((char *)w - offsetof(reader, w));
    stream *s = r->s;
    if (events & (EPOLLERR | EPOLLHUP))
        reader_free(r);
    else
        reader_push(r);
    cay__timer_cancel(&s->stall); /* somebody reads, or nobody is left to wait for */
    update_hold(s);
}

bool cay__stream_open(stream *s, cay__loop *loop, int fd, uint32_t cap, bool block)
{
    s->loop = loop;
    s->cap = cap;
    s->block = block;
    s->stall.fn = on_stall;
    s->marks = cay__alloc(sizeof *s->marks);
    s->began = cay__clock_ms();
    s->w = (cay__watch){ .fd = fd, .events = EPOLLIN, .fn = on_source };
    s->ring = mmap(NULL, cap, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (s->ring == MAP_FAILED) {
        s->ring = NULL;
        free(s->marks);
        s->marks = NULL;
        close(fd);
        s->w.fd = -1;
        return false;
    }
    cay__fd_nonblock(fd, true);
    return cay__loop_add(loop, &s->w);
}

void cay__stream_close(stream *s)
{
    if (!s->ring)
        return;
    while (s->readers)
        reader_free(s->readers);
    source_close(s);
    munmap(s->ring, s->cap);
    s->ring = NULL;
    free(s->marks);
    s->marks = NULL;
}

void cay__stream_attach(stream *s, int fd, uint64_t offset, uint64_t *from, uint64_t *lost)
{
    reader *r = cay__alloc(sizeof *r);
    uint64_t pos = offset;
    if (offset == UINT64_MAX)
        pos = end_offset(s); /* may be still to come */
    if (pos < s->start)
        *lost = s->start - pos;
    else
        *lost = 0;
    *from = pos + *lost;
    *r = (reader){
        .w = { .fd = fd, .events = 0, .fn = on_reader }, .s = s, .pos = *from, .next = s->readers
    };
    s->readers = r;
    cay__fd_nonblock(fd, true);
    cay__loop_add(s->loop, &r->w);
    reader_push(r);
    update_hold(s);
}

size_t cay__stream_read(stream *s, uint64_t offset, char *buf, size_t cap, uint64_t *from,
                        uint64_t *lost, bool *eof, uint32_t *ms)
{
    uint64_t pos = offset;
    if (offset == UINT64_MAX)
        pos = s->end;
    if (pos < s->start)
        *lost = s->start - pos;
    else
        *lost = 0;
    pos += *lost;
    *from = pos;
    if (ms && s->marks) {
        uint64_t until;
        *ms = cay__marks_find(s->marks, pos, &until);
        cap = (size_t)CAY_MIN(cap, until - pos);
    }
    size_t n = 0;
    if (pos < s->end)
        n = (size_t)CAY_MIN(cap, s->end - pos);
    for (size_t done = 0; done < n;) {
        uint64_t at = (pos + done) % s->cap;
        size_t k = (size_t)CAY_MIN(n - done, s->cap - at);
        memcpy(buf + done, s->ring + at, k);
        done += k;
    }
    if (n)
        s->taken = CAY_MAX(s->taken, pos + n);
    *eof = s->over && pos + n >= s->final;
    return n;
}

/* A ring that holds `more` beyond what the readers still have to get. */
static void grow_ring(stream *s, uint32_t more)
{
    uint64_t keep = s->end - s->start;
    uint32_t cap = (uint32_t)keep + more;
    char *ring = mmap(NULL, cap, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (ring == MAP_FAILED)
        return;
    for (uint64_t o = s->start; o < s->end; o++)
        ring[o % cap] = s->ring[o % s->cap];
    munmap(s->ring, s->cap);
    s->ring = ring;
    s->cap = cap;
}

void cay__stream_end(stream *s)
{
    if (s->over)
        return;
    if (s->w.fd >= 0 && s->block && s->readers)
        grow_ring(s,
                  LAST_MAX); /* what the pipe still has must not push out what a reader waits for */
    uint64_t from = s->end;
    while (s->w.fd >= 0 && s->end - from < LAST_MAX && read_source(s))
        continue;
    s->over = true;
    s->final = s->end;
    push_all(s);
    update_hold(s);
}
