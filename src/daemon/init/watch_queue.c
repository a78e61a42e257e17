/* SPDX-License-Identifier: Apache-2.0 */
#include "watch_queue.h"
#include <base/base.h>
#include <sys/mman.h>

enum { BYTES = 1 << 18, COUNT = 4096, RESERVE = 64, LOOK_BACK = 64 };

/* prev: distance to the record before, so that the newest can be looked at first */
typedef struct record {
    uint32_t hash;
    uint16_t len, prev;
    uint16_t path, from;
    char what;
    bool dir;
    char text[]; /* path NUL from NUL */
} record;

bool cay__wqueue_open(cay__wqueue *q)
{
    *q = (cay__wqueue){ 0 };
    q->mem = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                  -1, 0);
    if (q->mem == MAP_FAILED)
        q->mem = NULL;
    return q->mem;
}

void cay__wqueue_close(cay__wqueue *q)
{
    if (q->mem)
        munmap(q->mem, BYTES);
    *q = (cay__wqueue){ 0 };
}

size_t cay__wqueue_size(const cay__wqueue *q)
{
    return q->count;
}

static record *record_at(const cay__wqueue *q, uint32_t pos)
{
    return (record *)(void *)(q->mem + pos);
}

static record *newest_record(const cay__wqueue *q)
{
    if (!q->count)
        return NULL;
    /* the length of the last record stands behind it */
    uint16_t len;
    memcpy(&len, q->mem + q->tail, sizeof len);
    return record_at(q, q->tail - len);
}

/* Is this the latest word on that path? */
static bool is_known_change(const cay__wqueue *q, uint32_t hash, char what, const char *path)
{
    record *r = newest_record(q);
    for (uint32_t i = 0; r && i < q->count && i < LOOK_BACK; i++) {
        if (r->what == 'm' && !strcmp(r->text + r->path + 1, path))
            return false;
        if (r->hash == hash && !strcmp(r->text, path))
            return r->what == what;
        if (!r->prev)
            break;
        r = record_at(q, (uint32_t)((char *)r - q->mem) - r->prev);
    }
    return false;
}

static bool append_record(cay__wqueue *q, uint32_t limit, char what, bool dir, const char *path,
                          const char *from)
{
    size_t np = strlen(path), nf = strlen(from);
    size_t len = (sizeof(record) + np + nf + 2 + 7) & ~(size_t)7;
    if (q->tail + len + 2 > BYTES && q->head) {
        memmove(q->mem, q->mem + q->head, q->tail - q->head + 2);
        q->tail -= q->head;
        q->head = 0;
    }
    if (q->tail + len + 2 > limit || len > UINT16_MAX)
        return false;
    record *last = newest_record(q), *r = record_at(q, q->tail);
    *r = (record){ .hash = cay__hash(path, np),
                   .len = (uint16_t)len,
                   .prev = last ? last->len : 0,
                   .path = (uint16_t)np,
                   .from = (uint16_t)nf,
                   .what = what,
                   .dir = dir };
    memcpy(r->text, path, np + 1);
    memcpy(r->text + np + 1, from, nf + 1);
    q->tail += (uint32_t)len;
    memcpy(q->mem + q->tail, &r->len, sizeof r->len);
    q->count++;
    return true;
}

void cay__wqueue_lost(cay__wqueue *q)
{
    if (!q->full && !q->ended)
        append_record(q, BYTES - RESERVE, 'o', false, "", "");
    q->full = true;
}

void cay__wqueue_add(cay__wqueue *q, char what, bool dir, const char *path, const char *from)
{
    if (q->full || q->ended ||
        (what != 'm' && is_known_change(q, cay__hash(path, strlen(path)), what, path)))
        return;
    if (q->count >= COUNT || !append_record(q, BYTES - 2 * RESERVE, what, dir, path, from))
        cay__wqueue_lost(q);
}

void cay__wqueue_end(cay__wqueue *q)
{
    if (!q->ended)
        append_record(q, BYTES, 'r', true, ".", "");
    q->ended = true;
}

bool cay__wqueue_first(const cay__wqueue *q, cay__change *out)
{
    if (!q->count)
        return false;
    const record *r = record_at(q, q->head);
    *out = (cay__change){ r->what, r->dir, r->text, r->text + r->path + 1 };
    return true;
}

void cay__wqueue_pop(cay__wqueue *q)
{
    q->head += record_at(q, q->head)->len;
    q->count--;
    if (!q->count)
        q->head = q->tail = 0;
    else
        record_at(q, q->head)->prev = 0;
    if (q->count <= COUNT / 2 && q->tail - q->head < BYTES / 2)
        q->full = false;
}
