/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server/events.h - what happens, told to any number of listeners from one subscription, and kept
 * for a while for those who come back.
 */
#pragma once
#include <server/http/server.h>
#include <cay/manifest.h>
#include <cay/policy.h>

struct cay__hub *cay__hub_new(cay_client *client);
void cay__hub_free(struct cay__hub *h); /* no listener is left */

/* An event `progress` of a manifest that is being put in place, to that tenant's listeners. key:
 * the request's Idempotency-Key, or NULL. */
void cay__hub_progress(struct cay__hub *h, const char *tenant, const char *key,
                       const cay_manifest_progress *p);

typedef struct cay__listen_spec {
    const char *sandbox;      /* whole id; NULL: of all that the one who asks may see */
    const char *after;        /* id of the last event that was heard, or NULL */
    const char *const *kinds; /* NULL-terminated; NULL: all */
} cay__listen_spec;
/* Answers with the stream. */
int cay__events_reply(cay__req *r, const cay__listen_spec *spec, cay_err *err);

/* The network log of one sandbox, first what there is and then what comes. It is opened before the
 * log is read, so that nothing is missed in between; what both tell is told once. */
typedef struct cay__net_follow cay__net_follow;
int cay__net_follow_open(cay__req *r, const char *sandbox, bool denied, cay__net_follow **out,
                         cay_err *err);
void cay__net_follow_record(cay__net_follow *f, const cay_net_record *rec);
int cay__net_follow_reply(cay__net_follow *f); /* takes it */
void cay__net_follow_drop(cay__net_follow *f);
