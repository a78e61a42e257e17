/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon/init/watch_queue.h - changes that wait for the client, bounded in number and bytes.
 *
 * A change that is already the latest thing waiting for its path is not added again. When there is
 * no room one OVERFLOW is put at the end and everything is dropped until half of it was taken.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct cay__wqueue {
    char *mem; /* packed records, used from head to tail */
    uint32_t head, tail, count;
    bool full, ended;
} cay__wqueue;

typedef struct cay__change {
    char what; /* a cay_change */
    bool dir;
    const char *path, *from;
} cay__change;

bool cay__wqueue_open(cay__wqueue *q);
void cay__wqueue_close(cay__wqueue *q);
void cay__wqueue_add(cay__wqueue *q, char what, bool dir, const char *path, const char *from);
void cay__wqueue_lost(cay__wqueue *q); /* some change could not be told */
void cay__wqueue_end(
    cay__wqueue *q); /* the watched directory itself is gone: REMOVE of "." last, once */
size_t cay__wqueue_size(const cay__wqueue *q);
/* The oldest; its strings live until pop or add. */
bool cay__wqueue_first(const cay__wqueue *q, cay__change *out);
void cay__wqueue_pop(cay__wqueue *q);
