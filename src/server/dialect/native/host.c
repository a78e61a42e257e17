/* SPDX-License-Identifier: Apache-2.0 */
/* What serves all this: its version, the host's walls, what happens, and what is used: of a
 * tenant's share, and in the past day, which server/history.h keeps. */
#include "native.h"
#include <sys/utsname.h>
#include <server/events.h>
#include <server/history.h>

int cay__on_version(cay__req *r, cay_err *err)
{
    return cay__reply_object(r, &(cay__version_told){ CAY_VERSION, "v1" });
}

int cay__on_doctor(cay__req *r, cay_err *err)
{
    struct utsname u;
    const char *provider = NULL;
    cay_probe *p = NULL;
    uname(&u);
    int64_t began = cay__now_us();
    CAY_TRY(cay__req_asked(r, &provider, err));
    CAY_TRY(cay_client_probe(r->client, provider, &p, err));
    cay__doctor_told d = { .version = CAY_VERSION,
                           .kernel = u.release,
                           .machine = u.machine,
                           .isolation = cay_level_name(p->level),
                           .mode = p->mode,
                           .level = (int)p->level,
                           .layers = p->walls,
                           .nlayers = p->nwalls,
                           .home = cay_client_home(r->client),
                           .time_ms = cay__clock_ms(),
                           .took_us = (uint64_t)(cay__now_us() - began) };
    (void)cay__native_spawn_kept(&d.spawn_us, NULL); /* without it there is no yardstick */
    int rc = cay__reply_object(r, &d);
    cay_probe_free(p);
    return rc;
}

static int on_tenant(const cay_tenant *t, void *arg)
{
    return cay__reply_object(arg, t);
}

int cay__on_tenant_usage(cay__req *r, cay_err *err)
{
    const char *asked = cay__req_tenant(r);
    return cay_tenant_get(r->client, CAY_OR(asked, cay__text_or(r->who.tenant, CAY_TENANT_DEFAULT)),
                          on_tenant, r, err);
}

static int listen_to(cay__req *r, const char *sandbox, cay_err *err)
{
    cay__events_query q = { 0 };
    const char *after = cay__head_field(&r->head, "last-event-id");
    CAY_TRY(cay__req_asked(r, &q, err));
    cay__listen_spec spec = { .sandbox = sandbox,
                              .after = CAY_OR(after, q.after),
                              .kinds = q.kinds };
    return cay__events_reply(r, &spec, err);
}

int cay__on_event_stream(cay__req *r, cay_err *err)
{
    return listen_to(r, NULL, err);
}

int cay__on_sandbox_events(cay__req *r, cay_err *err)
{
    return listen_to(r, cay_sandbox_id(r->sb), err);
}

enum { HOUR_MS = 3600000 };

static void add_point(const cay__moment *m, const cay__pace *pace, void *arg)
{
    cay__items_add(arg, &(cay__usage_point){ m->ms, (uint64_t)(pace->cpu * 10), m->memory, m->disk,
                                             (uint64_t)pace->net_rx, (uint64_t)pace->net_tx });
}

static int reply_past(cay__req *r, const char *id, cay_err *err)
{
    CAY_AUTOFD dir = -1;
    int64_t now = cay__clock_ms();
    cay__past_query q = { (uint64_t)(now - HOUR_MS), (uint64_t)now };
    CAY_TRY(cay__req_asked(r, &q, err));
    CAY_TRY(cay__history_dir(r->client, &dir, err));
    cay__items l = cay__items_of(r);
    cay__history_read(dir, id, (int64_t)q.since_ms, (int64_t)q.until_ms, add_point, &l);
    return cay__items_finish(&l, 0, err);
}

int cay__on_sandbox_past(cay__req *r, cay_err *err)
{
    return reply_past(r, cay_sandbox_id(r->sb), err);
}

int cay__on_host_past(cay__req *r, cay_err *err)
{
    return reply_past(r, CAY__HISTORY_ALL, err);
}
