/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watchers between two requests: what CreateWatcher opened and GetWatcherEvents will ask for. A
 * watch is an open file of the kernel's, so it ends with the server; SDKs are told not_found then,
 * and make another. The queue itself is the sandbox's, and bounded.
 */
#pragma once
#include <server/http/server.h>

typedef struct e2b_watched {
    cay_sandbox *sb; /* counted */
    cay_watch *w;
    char *path, *user; /* whose rights it has; NULL: the sandbox's default user */
    bool entries;      /* described with each event */
} e2b_watched;
void e2b_watched_clear(e2b_watched *y);

struct e2b_watchers *e2b_watchers_new(void);
void e2b_watchers_free(struct e2b_watchers *all);
struct e2b_watchers *cay__server_watchers(cay__server *s);
/* Takes what *y holds, in any case. Of one sandbox there are at most 64; those that nobody asked
 * for in ten minutes are ended. */
int e2b_watchers_add(struct e2b_watchers *all, const char *id, const char *sandbox, e2b_watched *y,
                     cay_err *err);
/* For one at a time, until it is given back. CAY_ENOENT when there is none of that sandbox,
 * CAY_EBUSY when somebody has it. */
int e2b_watchers_take(struct e2b_watchers *all, const char *id, const char *sandbox,
                      e2b_watched **out, cay_err *err);
void e2b_watchers_give(struct e2b_watchers *all, e2b_watched *y);
int e2b_watchers_remove(struct e2b_watchers *all, const char *id, const char *sandbox,
                        cay_err *err);
