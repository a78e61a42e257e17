/* SPDX-License-Identifier: Apache-2.0 */
#include <base/base.h>
#include <base/json.h>
#include <cay/client.h>
#include <cay/managed.h>
#include <cay/state.h>
#include <pthread.h>

enum { PORTS_MAX = 64 };

typedef struct hook {
    int (*fn)(void *arg, cay_err *err);
    void *arg;
} hook;

struct cay_managed {
    cay_sandbox *sb;
    uint16_t ports[PORTS_MAX];
    size_t nports;
    bool save, remove;
    cay_archive_limits limits; /* all zero: none */
    pthread_mutex_t lock;      /* of what follows; held while it is closed */
    hook *hooks;
    size_t nhooks;
    bool closed;
    int rc; /* how closing went, for all who ask */
    cay_err why;
    char *state;
};

static bool is_declared(const cay_managed *s, uint16_t port)
{
    CAY_EACH_OF(it, s->ports, s->nports)
        if (*it == port)
            return true;
    return false;
}

int cay_managed_open(cay_sandbox *sb, const cay_managed_spec *given, cay_managed **out,
                     cay_err *err)
{
    cay_managed_spec spec;
    cay_archive_limits limits;
    CAY_TRY(cay__spec_take(&spec, sizeof spec, given, "cay_managed_spec", err));
    CAY_TRY(cay__spec_take(&limits, sizeof limits, spec.archive_limits, "cay_archive_limits", err));
    cay_managed *s = cay__alloc(sizeof *s);
    pthread_mutex_init(&s->lock, NULL);
    s->limits = limits;
    s->save = spec.save;
    s->remove = spec.remove;
    s->why = (cay_err)CAY_ERR_INIT;
    for (const uint16_t *p = spec.ports; p && *p; p++) {
        if (is_declared(s, *p))
            continue;
        if (s->nports == PORTS_MAX) {
            free(s);
            return cay_fail(err, CAY_ETOOBIG, "a session has at most %d ports", PORTS_MAX);
        }
        s->ports[s->nports++] = *p;
    }
    s->sb = cay_sandbox_ref(sb);
    *out = s;
    return 0;
}

void cay_managed_free(cay_managed *s)
{
    if (!s)
        return;
    pthread_mutex_destroy(&s->lock);
    cay_sandbox_unref(s->sb);
    free(s->hooks);
    free(s->state);
    free(s);
}

cay_sandbox *cay_managed_sandbox(const cay_managed *s)
{
    return s->sb;
}

int cay_managed_before_stop(cay_managed *s, int (*fn)(void *arg, cay_err *err), void *arg,
                            cay_err *err)
{
    pthread_mutex_lock(&s->lock);
    bool closed = s->closed;
    if (!closed) {
        CAY_GROW(s->hooks, s->nhooks);
        s->hooks[s->nhooks++] = (hook){ fn, arg };
    }
    pthread_mutex_unlock(&s->lock);
    if (closed)
        return cay_fail(err, CAY_ESTATE, "the session is closed");
    return 0;
}

/* The first failure is kept. */
static void record_failure(cay_managed *s, int rc, const cay_err *err)
{
    if (rc >= 0 || s->rc < 0)
        return;
    s->rc = rc;
    s->why = *err;
}

static void close_once(cay_managed *s, const cay_call *call)
{
    cay_save_state save = { .size = sizeof save, .snapshot = true };
    for (size_t i = 0; s->rc == 0 && i < s->nhooks; i++) {
        cay_err err = CAY_ERR_INIT;
        record_failure(s, s->hooks[i].fn(s->hooks[i].arg, &err), &err);
    }
    if (s->rc == 0 && s->save) {
        cay_err err = CAY_ERR_INIT;
        int rc = cay_sandbox_save_state(s->sb, call, &save, &s->state, &err);
        if (rc < 0 && s->remove)
            cay_wrap(&err, rc, "sandbox %s is not removed, for it could not be saved",
                     cay_sandbox_id(s->sb));
        record_failure(s, rc, &err);
        if (rc < 0)
            return; /* removing it would lose the only copy */
    }
    if (s->remove) {
        cay_err err = CAY_ERR_INIT;
        record_failure(s, cay_sandbox_remove(s->sb, NULL, &err),
                       &err); /* also when whoever closes it has no time left */
    }
}

int cay_managed_close(cay_managed *s, const cay_call *call, cay_err *err)
{
    pthread_mutex_lock(&s->lock);
    if (!s->closed)
        close_once(s, call);
    s->closed = true;
    int rc = s->rc;
    if (rc < 0 && err)
        *err = s->why;
    pthread_mutex_unlock(&s->lock);
    return rc;
}

const char *cay_managed_state(const cay_managed *s)
{
    return s->state;
}

/* what differs from the
 * sandbox's own */

int cay_managed_rm(cay_managed *s, const cay_call *call, const char *path, bool recursive,
                   cay_err *err)
{
    cay_err own = CAY_ERR_INIT;
    int rc = cay_file_remove(s->sb, call, path, recursive, &own);
    if (rc == CAY_ENOENT && recursive)
        return 0;
    return cay__err_pass(rc, &own, err);
}

int cay_managed_extract(cay_managed *s, const cay_call *call, const cay_extract *given,
                        cay_extracted *out, cay_err *err)
{
    cay_extract x;
    CAY_TRY(cay__spec_take(&x, sizeof x, given, "cay_extract", err));
    if (!x.limits)
        x.limits = &s->limits;
    return cay_sandbox_extract(s->sb, call, &x, out, err);
}

int cay_managed_connect(cay_managed *s, const cay_call *call, uint16_t port, int *fd, cay_err *err)
{
    if (is_declared(s, port))
        return cay_port_connect(s->sb, call, port, fd, err);
    int rc = cay_fail_why(err, CAY_EPERM, "exposed_port_unavailable",
                          "port %u was not declared when the session was opened", port);
    CAY_AUTOJSON *list = json_array();
    CAY_EACH_OF(it, s->ports, s->nports)
        json_array_append_new(list, json_integer(*it));
    CAY_AUTOJSON *detail = json_pack("{s:s, s:i, s:O}", "reason", "not_configured", "port", port,
                                     "exposed_ports", list);
    CAY_AUTOFREE char *text = cay__json_text(detail, sizeof err->detail - 1);
    if (err)
        err->retry = CAY_RETRY_NO;
    if (err && text)
        CAY_COPY(err->detail, text);
    return rc;
}
