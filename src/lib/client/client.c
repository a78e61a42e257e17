/* SPDX-License-Identifier: Apache-2.0 */
#include "remote.h"
#include <lib/manifest/client_manifest.h>
#include "client.h"
#include <lib/snapshot/snapshot.h>
#include <base/buf.h>
#include <base/str.h>
#include <jansson.h>
#include <lib/provider/native/root_helper.h>
#include <lib/provider/provider.h>

static size_t count(const cay_provider_ops *const *list)
{
    size_t n = 0;
    while (list && list[n])
        n++;
    return n;
}

/* Later ones replace earlier ones of the same name, so that a program may bring its own "native".
 */
static void add_places(cay_service *svc, const cay_provider_ops *const *list)
{
    for (; list && *list; list++) {
        cay__place *p = svc->places;
        while (p < svc->places + svc->nplaces && strcmp(p->ops->name, (*list)->name) != 0)
            p++;
        p->ops = *list;
        if (p == svc->places + svc->nplaces)
            svc->nplaces++;
    }
}

static int open_all(cay_service *svc, const cay_open *spec, cay_err *err)
{
    CAY_TRY(cay__home_find(spec->home, svc->home, sizeof svc->home, err));
    CAY_TRY(cay__home_open(svc->home, &svc->home_fd, err));
    CAY_TRY(cay__run_dir(svc->home_fd, svc->run, sizeof svc->run, false, err));
    svc->store = &cay__store_sqlite;
    CAY_TRY(svc->store->open(svc->home, &svc->db, err));
    if (!spec->host)
        return cay__hand_gone(svc->home_fd) ? 0 : cay__reconcile(svc, err);
    CAY_TRY(cay__back_far.open(spec, &svc->far, err));
    svc->back = &cay__back_far;
    return 0;
}

int cay_service_open(const cay_open *given, cay_service **out, cay_err *err)
{
    cay_open spec;
    CAY_TRY(cay__spec_take(&spec, sizeof spec, given, "cay_open", err));
    json_object_seed(0);
    cay_service *svc = cay__alloc(sizeof *svc);
    atomic_init(&svc->refs, 1);
    pthread_mutex_init(&svc->lock, NULL);
    svc->home_fd = -1;
    cay__creator_text(svc->owner, sizeof svc->owner);
    svc->named = spec.provider && *spec.provider;
    svc->provider = cay__strdup(svc->named ? spec.provider : "native");
    svc->libexec = spec.libexec ? cay__strdup(spec.libexec) : NULL;
    svc->places = cay__alloc((count(cay__providers) + count(spec.extra)) * sizeof *svc->places);
    add_places(svc, cay__providers);
    add_places(svc, spec.extra);
    int rc = open_all(svc, &spec, err);
    if (rc < 0)
        cay__svc_unref(svc);
    else
        *out = svc;
    return rc;
}

void cay__svc_unref(cay_service *svc)
{
    if (atomic_fetch_sub(&svc->refs, 1) > 1)
        return;
    for (size_t i = 0; i < svc->nplaces; i++) {
        void *self = atomic_load(&svc->places[i].self);
        if (self)
            svc->places[i].ops->close(self);
    }
    if (svc->back)
        svc->back->close(svc->far);
    if (svc->db)
        svc->store->close(svc->db);
    cay__keyring_free(svc->keys);
    cay__auditor_free(svc->auditor);
    cay__close_fd(&svc->home_fd);
    pthread_mutex_destroy(&svc->lock);
    free(svc->places);
    free(svc->provider);
    free(svc->libexec);
    free(svc);
}

void cay_service_close(cay_service *svc)
{
    if (svc)
        cay__svc_unref(svc);
}

int cay__back_none(const cay_service *svc, const char *what, cay_err *err)
{
    return svc && svc->back
               ? cay_fail_why(err, CAY_ENOTSUP, "remote_unsupported",
                              "%s: a server is not asked for that; do it on its host", what)
               : 0;
}

const char *cay_service_host(const cay_service *svc)
{
    return svc->back ? svc->back->url(svc) : NULL;
}

const char *cay_service_home(const cay_service *svc)
{
    return svc->home;
}

int cay__svc_place(cay_service *svc, const char *name, cay__place **out, cay_err *err)
{
    CAY_AUTOBUF known = CAY__BUF(120);
    for (size_t i = 0; i < svc->nplaces; i++) {
        if (!strcmp(svc->places[i].ops->name, name)) {
            *out = &svc->places[i];
            return 0;
        }
        cay__buf_fmt(&known, "%s%s", i ? ", " : "", svc->places[i].ops->name);
    }
    return cay_fail_why(err, CAY_ENOENT, "provider_not_found",
                        "there is no provider %.60s; there are: %s", name,
                        known.data ? known.data : "none");
}

int cay__svc_self(cay_service *svc, cay__place *p, void **self, cay_err *err)
{
    void *mine = NULL, *now = atomic_load(&p->self);
    if (!now) {
        cay_provider_conf conf = { .size = sizeof conf,
                                   .home = svc->home,
                                   .libexec = svc->libexec,
                                   .instance = svc->store->instance(svc->db) };
        int rc = p->ops->open(&conf, &mine, err);
        if (rc < 0)
            return cay_wrap(err, rc, "provider %s", p->ops->name);
        /* Another thread may have been faster: its one stays. */
        if (atomic_compare_exchange_strong(&p->self, &now, mine))
            now = mine;
        else
            p->ops->close(mine);
    }
    *self = now;
    return 0;
}

static int copy_row(const cay_row *row, void *arg)
{
    *(cay__row **)arg = cay__row_copy(row);
    return 0;
}

int cay__svc_row(cay_service *svc, const char *id, cay__row **out, cay_err *err)
{
    return svc->store->get(svc->db, id, copy_row, out, err);
}

int cay__svc_move(cay_service *svc, const char *id, cay_state to, const char *reason,
                  const char *box, cay_err *err)
{
    cay_err own = CAY_ERR_INIT;
    int rc = svc->store->move(svc->db, id, cay__state_from(to), to, reason, box, &own);
    if (rc == CAY_ESTATE) {
        CAY_AUTOFREE cay__row *row = NULL;
        if (cay__svc_row(svc, id, &row, NULL) == 0 && row->row.state == to)
            return 0;
    }
    if (rc < 0 && err)
        *err = own;
    return rc;
}

int cay_service_probe(cay_service *svc, const char *provider, cay_probe **out, cay_err *err)
{
    cay__place *p;
    void *self;
    CAY__BACK(svc, probe, svc, out, err);
    CAY_TRY(cay__svc_place(svc, provider && *provider ? provider : svc->provider, &p, err));
    if (!p->ops->probe)
        return cay_fail_why(err, CAY_ENOTSUP, "not_supported",
                            "provider %s cannot tell what it gives", p->ops->name);
    CAY_TRY(cay__svc_self(svc, p, &self, err));
    return p->ops->probe(self, out, err);
}

static int knows(const char *id, void *arg)
{
    cay_service *svc = arg;
    CAY_AUTOFREE cay__row *row = NULL;
    /* When in doubt it is known: only a clear "no such record" lets something be removed. */
    return cay__svc_row(svc, id, &row, NULL) != CAY_ENOENT;
}

int cay__svc_sweep(cay_service *svc, const cay_call *call, bool all, size_t *removed, cay_err *err)
{
    size_t sum = 0;
    for (size_t i = 0; i < svc->nplaces; i++) {
        cay__place *p = &svc->places[i];
        size_t n = 0;
        void *self;
        if (!p->ops->gc || (!all && !atomic_load(&p->self)))
            continue;
        CAY_TRY(cay__svc_self(svc, p, &self, err));
        int rc = p->ops->gc(self, call, knows, svc, &n, err);
        if (rc < 0)
            return cay_wrap(err, rc, "provider %s", p->ops->name);
        sum += n;
    }
    if (removed)
        *removed = sum;
    return 0;
}

int cay_service_gc(cay_service *svc, const cay_call *call, size_t *removed, cay_err *err)
{
    size_t boxes = 0, layers = 0;
    CAY__BACK(svc, gc, svc, call, removed, err);
    CAY_TRY(cay__reconcile(svc, err));
    CAY_TRY(cay__svc_sweep(svc, call, true, &boxes, err));
    CAY_TRY(cay__layers_sweep(svc, call, &layers, err));
    cay__mani_sweep(svc);
    CAY_TRY(cay_service_settle(svc, call, err));
    if (removed)
        *removed = boxes + layers;
    return 0;
}
