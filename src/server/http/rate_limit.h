/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server/http/rate_limit.h - what is asked of every request before anybody looks at what it wants:
 * for whom it is meant, which page sent it, how many came.
 *
 * A page of somebody else's may point a name of its own at 127.0.0.1 and then ask us with the
 * visitor's browser; so a Host that is a name has to be one of ours, and an Origin too. An address
 * as Host is fine: no page can have that origin but ours.
 */
#pragma once
#include <cay/error.h>

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
