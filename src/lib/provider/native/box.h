/* SPDX-License-Identifier: Apache-2.0 */
/* lib/provider/native/box.h - what the files of a box share: handles (box.c), create requests
 * (create.c), owners (own.c), handles without a service (alone.c). */
#pragma once
#include "native.h"

/* A create that goes out with the first command: one round trip for both. */
struct wish {
    cay_m_create m;
    size_t len;
    char tail[];
};

typedef struct cay__look {
    cay_m_boxinfo info; /* of the last */
    int n;
} cay__look;

cay__nbox *cay__nbox_new(cay__native *n, const char *id);
/* How many boxes have an id that begins so, and what the keeper says of one. */
int cay__nbox_look_up(cay__native *n, const cay_call *call, const char *id, cay__look *l,
                      cay_err *err);
/* A handle on the one that was found. CAY_EGONE: there is none, or it is stopped. */
int cay__nbox_seen(cay__native *n, const cay__look *l, const char *id, cay__nbox **out,
                   cay_err *err);

/* The connection keeps it alive from now on; and no longer. */
void cay__nbox_own(cay__nbox *b, int sock);
void cay__nbox_disown(cay__nbox *b);
