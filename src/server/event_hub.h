/* SPDX-License-Identifier: Apache-2.0 */
/* server/event_hub.h - the ring of the last events, and those who wait for the next one. */
#pragma once
#include "events.h"

enum { CAY__HUB_KEPT = 4096 };

typedef struct cay__hub_event {
    char sandbox[CAY_ID_LEN + 1], tenant[64], kind[16];
    uint64_t number;
    char *json;
    size_t len, net_at; /* where the record stands in it, which ends before the last brace; 0: it
                           has none */
    uint32_t mark;      /* of the record: the log's has the same */
    bool denied;
} cay__hub_event;

typedef struct cay__ear {
    struct cay__ear *next, **prev;
    int bell;        /* an eventfd: something came */
    uint64_t cursor; /* number of the next one to be told */
} cay__ear;

/* Joins, and begins to listen if nobody does yet. */
int cay__hub_join(struct cay__hub *h, cay__ear *ear, cay_err *err);
void cay__hub_leave(struct cay__hub *h, cay__ear *ear);
/* Calls fn for what the ear has not heard, as long as it returns true; *missed: how many are kept
 * no more. */
void cay__hub_hear(struct cay__hub *h, cay__ear *ear, uint64_t *missed,
                   bool (*fn)(const cay__hub_event *e, void *arg), void *arg);
void cay__hub_ring(cay__ear *ear); /* as if something had come */
const char *cay__hub_stream(const struct cay__hub *h);
uint32_t cay__net_mark(const cay_net_record *rec);
