/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server/http/limits.h - limits that hold for every request, and those for long ones.
 *
 *   gate     which Host and Origin a request may name, and how many requests a key may send
 *   crowd    how many long requests of one tenant are at work at once
 *   uploads  how many large bodies of one tenant are read at once
 *
 * A page of somebody else's may point a name of its own at 127.0.0.1 and then ask us with the
 * visitor's browser; so a Host that is a name has to be one of ours, and an Origin too. An address
 * as Host is fine: no page can have that origin but ours.
 */
#pragma once
#include "server.h"

typedef struct cay__gate cay__gate;
typedef struct cay__gate_conf {
    const char *domain; /* of previews; it and what is below it is ours; NULL: localhost */
    const char *const *hosts,
        *const *origins; /* more that are ours: names; "https://console.example.org".
                            NULL-terminated, or NULL */
    unsigned rate,
        burst; /* requests a second of one key, and how many at once; 0: 2,000 and 4,000 */
} cay__gate_conf;

/* CAY_EINVAL: a name or origin that no request can have, so that it would be allowed in vain. */
int cay__gate_check(const cay__gate_conf *conf, cay_err *err);
cay__gate *cay__gate_new(const cay__gate_conf *conf); /* copies what it keeps */
void cay__gate_free(cay__gate *g);
/* host: of the request, with its port, or "". CAY_EPERM, "host_not_allowed". */
int cay__gate_host(const cay__gate *g, const char *host, cay_err *err);
/* origin: or NULL. CAY_EPERM, "origin_not_allowed". */
int cay__gate_origin(const cay__gate *g, const char *host, const char *origin, cay_err *err);
/* One more by this key, at now_us of a clock that only goes forward. CAY_ERATE, "rate_limit", with
 * the time to wait. */
int cay__gate_rate(cay__gate *g, const char *key, int64_t now_us, cay_err *err);

/*
 * How many long requests of one tenant are at work at once.
 *
 * An import, an export, an upload of a context or a read of what a stopped sandbox left holds a
 * worker or a file for as long as its client likes. A tenant has so many of them at once and no
 * more, so that it cannot take all workers from the others, nor hold what was removed on disk
 * without bound.
 */

enum { CAY__CROWD_MOST = 4 };

struct cay__crowd *cay__crowd_new(void);
void cay__crowd_free(struct cay__crowd *c);
/* Counts the request until its end, among those of its tenant that do `what`; CAY_ERATE,
 * "too_many_at_once". */
int cay__crowd_enter(cay__req *r, const char *what, cay_err *err);
/* The same for a request without a key that is a tenant's all the same; `most` of them at once. */
int cay__crowd_enter_of(cay__req *r, const char *tenant, unsigned most, const char *what,
                        cay_err *err);

/*
 * How many large bodies of one tenant workers read at once.
 *
 * A body comes as fast as its client likes, and a worker waits for it. A tenant has a quarter of
 * the workers for that; more of its requests wait in line without one, so that the others of the
 * server are served whatever one of them sends. Who sends too little for long is cut (body.c), so
 * that a line moves.
 */

struct cay__uploads *cay__uploads_new(unsigned workers);
void cay__uploads_free(struct cay__uploads *u);
/* On a worker, before the handler. False: it waits in line, belongs to whoever ends before it, and
 * is not to be touched any more; the workers get it again in its turn. */
bool cay__uploads_enter(cay__req *r);
