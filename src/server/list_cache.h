/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server/list_cache.h - answers that list sandboxes, kept for as long as they are true.
 *
 *   cay__cached_list_reply()  answers with what was kept, if nothing has changed since
 *   cay__cached_list_saw()    what the new answer tells of
 *   cay__cached_list_keep()   keeps it
 *   cay__mark_put()       where the next page begins, for any kind of list
 *
 * Whether something has changed is cay_client_version()'s word, asked for before the list is made:
 * a change that comes meanwhile makes what is kept worthless and never wrong.
 */
#pragma once
#include <server/http/server.h>

enum { CAY__LISTED_PROVIDERS = 4, CAY__LISTED_NEXT = CAY_ID_LEN + 24 };

struct cay__listed *cay__listed_new(void);
void cay__listed_free(struct cay__listed *l);

typedef struct cay__cached_list {
    cay__req *r;
    char key[400]; /* what was asked, by whom; "": too long to be kept */
    char known[CAY__LISTED_PROVIDERS + 1][32]; /* whose sandboxes the last such answer told of */
    char seen[CAY__LISTED_PROVIDERS + 1][32];  /* and this one does */
    bool judged;                               /* version is that of `known` */
    bool many;                                 /* more of them than are followed */
    uint64_t version;
    char next[CAY__LISTED_NEXT]; /* for protocols that tell where to go on in a line of the head:
                                    x-next-token */
} cay__cached_list;

/* True when it answered. */
bool cay__cached_list_reply(cay__cached_list *l, cay__req *r);
void cay__cached_list_saw(cay__cached_list *l, const cay_info *info);
void cay__cached_list_keep(cay__cached_list *l, const char *body, size_t len);

/* "ID.CREATED_MS" of the last one told: with the time a list goes on also when that one is gone.
 * One who asks may leave the time out. */
void cay__mark_put(char out[CAY__LISTED_NEXT], const char *id, int64_t created_ms);
bool cay__mark_valid(const char *mark, char kind);
