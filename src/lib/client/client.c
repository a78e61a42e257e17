/* SPDX-License-Identifier: Apache-2.0 */
#include "remote.h"
#include <lib/manifest/client_manifest.h>
#include "client.h"
#include <lib/snapshot/snapshot.h>
#include <jansson.h>
#include <lib/provider/native/root_helper.h>
#include <lib/provider/provider.h>

static size_t count_providers(const cay_provider_ops *const *list)
{
    size_t n = 0;
    while (list && list[n])
        n++;
    return n;
}

/* Later ones replace earlier ones of the same name, so that a program may bring its own "native".
 */
static void add_places(cay_client *client, const cay_provider_ops *const *list)
{
    for (; list && *list; list++) {
        cay__place *p = client->places;
        while (p < client->places + client->nplaces && strcmp(p->ops->name, (*list)->name) != 0)
            p++;
        p->ops = *list;
        if (p == client->places + client->nplaces)
            client->nplaces++;
    }
}

static int open_all(cay_client *client, const cay_open *spec, cay_err *err)
{
    CAY_TRY(cay__home_find(spec->home, client->home, sizeof client->home, err));
    CAY_TRY(cay__home_open(client->home, &client->home_fd, err));
    CAY_TRY(cay__run_dir(client->home_fd, client->run, sizeof client->run, false, err));
    client->store = &cay__store_sqlite;
    CAY_TRY(client->store->open(client->home, &client->db, err));
    if (!spec->host) {
        if (cay__hand_gone(client->home_fd))
            return 0;
        return cay__reconcile(client, err);
    }
    return cay__remote_open(spec, &client->remote, err);
}

int cay_client_open(const cay_open *given, cay_client **out, cay_err *err)
{
    cay_open spec;
    CAY_TRY(cay__spec_take(&spec, sizeof spec, given, "cay_open", err));
    json_object_seed(0);
    cay_client *client = cay__alloc(sizeof *client);
    atomic_init(&client->refs, 1);
    pthread_mutex_init(&client->lock, NULL);
    client->home_fd = -1;
    cay__creator_text(client->owner, sizeof client->owner);
    client->named = spec.provider && *spec.provider;
    client->provider = cay__strdup(client->named ? spec.provider : "native");
    client->libexec = CAY_IF(spec.libexec, cay__strdup(spec.libexec));
    client->layers = (cay__layer_at){ client->home, client->libexec };
    client->places = cay__alloc((count_providers(cay__providers) + count_providers(spec.extra)) *
                                sizeof *client->places);
    add_places(client, cay__providers);
    add_places(client, spec.extra);
    int rc = open_all(client, &spec, err);
    if (rc < 0)
        cay__client_unref(client);
    else
        *out = client;
    return rc;
}

void cay__client_unref(cay_client *client)
{
    if (atomic_fetch_sub(&client->refs, 1) > 1)
        return;
    CAY_EACH_OF(place, client->places, client->nplaces) {
        void *self = atomic_load(&place->self);
        if (self)
            place->ops->close(self);
    }
    if (client->remote)
        cay__remote_close(client->remote);
    if (client->db)
        client->store->close(client->db);
    cay__keyring_free(client->keys);
    cay__auditor_free(client->auditor);
    cay__close_fd(&client->home_fd);
    pthread_mutex_destroy(&client->lock);
    free(client->places);
    free(client->provider);
    free(client->libexec);
    free(client);
}

void cay_client_close(cay_client *client)
{
    if (client)
        cay__client_unref(client);
}

int cay__remote_none(const cay_client *client, const char *what, cay_err *err)
{
    if (client && client->remote)
        return cay_fail_why(err, CAY_ENOTSUP, "remote_unsupported",
                            "%s: a server is not asked for that; do it on its host", what);
    return 0;
}

const char *cay_client_host(const cay_client *client)
{
    if (client->remote)
        return cay__remote_url(client->remote);
    return NULL;
}

const char *cay_client_home(const cay_client *client)
{
    return client->home;
}

int cay__client_place(cay_client *client, const char *name, cay__place **out, cay_err *err)
{
    CAY_AUTOBUF known = CAY__BUF(120);
    for (size_t i = 0; i < client->nplaces; i++) {
        if (!strcmp(client->places[i].ops->name, name)) {
            *out = &client->places[i];
            return 0;
        }
        cay__buf_fmt(&known, "%s%s", i ? ", " : "", client->places[i].ops->name);
    }
    return cay_fail_why(err, CAY_ENOENT, "provider_not_found",
                        "there is no provider %.60s; there are: %s", name,
                        CAY_OR(known.data, "none"));
}

int cay__client_self(cay_client *client, cay__place *p, void **self, cay_err *err)
{
    void *mine = NULL, *now = atomic_load(&p->self);
    if (!now) {
        cay_provider_conf conf = { .size = sizeof conf,
                                   .home = client->home,
                                   .libexec = client->libexec,
                                   .instance = client->store->instance(client->db) };
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

int cay__client_row(cay_client *client, const char *id, cay__row **out, cay_err *err)
{
    return CAY__STORE(client, get, id, copy_row, out, err);
}

int cay__client_move(cay_client *client, const char *id, cay_state to, const char *reason,
                     const char *box, cay_err *err)
{
    cay_err own = CAY_ERR_INIT;
    int rc = CAY__STORE(client, move, id, cay__state_from(to), to, reason, box, &own);
    if (rc == CAY_ESTATE) {
        CAY_AUTOFREE cay__row *row = NULL;
        if (cay__client_row(client, id, &row, NULL) == 0 && row->row.state == to)
            return 0;
    }
    return cay__err_pass(rc, &own, err);
}

int cay_client_probe(cay_client *client, const char *provider, cay_probe **out, cay_err *err)
{
    cay__place *p;
    void *self;
    if (client->remote)
        return cay__remote_probe(client->remote, out, err);
    CAY_TRY(cay__client_place(client, cay__text_or(provider, client->provider), &p, err));
    if (!p->ops->probe)
        return cay_fail_why(err, CAY_ENOTSUP, "not_supported",
                            "provider %s cannot tell what it gives", p->ops->name);
    CAY_TRY(cay__client_self(client, p, &self, err));
    return p->ops->probe(self, out, err);
}

static int is_known_sandbox(const char *id, void *arg)
{
    cay_client *client = arg;
    CAY_AUTOFREE cay__row *row = NULL;
    /* When in doubt it is known: only a clear "no such record" lets something be removed. */
    return cay__client_row(client, id, &row, NULL) != CAY_ENOENT;
}

int cay__client_sweep(cay_client *client, const cay_call *call, bool all, size_t *removed,
                      cay_err *err)
{
    size_t sum = 0;
    CAY_EACH_OF(p, client->places, client->nplaces) {
        size_t n = 0;
        void *self;
        if (!p->ops->gc || (!all && !atomic_load(&p->self)))
            continue;
        CAY_TRY(cay__client_self(client, p, &self, err));
        int rc = p->ops->gc(self, call, is_known_sandbox, client, &n, err);
        if (rc < 0)
            return cay_wrap(err, rc, "provider %s", p->ops->name);
        sum += n;
    }
    if (removed)
        *removed = sum;
    return 0;
}

int cay_client_gc(cay_client *client, const cay_call *call, size_t *removed, cay_err *err)
{
    size_t boxes = 0, layers = 0;
    if (client->remote)
        return cay__remote_removed(client->remote, call, CAY__OPERATION(gc), removed, err);
    CAY_TRY(cay__reconcile(client, err));
    CAY_TRY(cay__client_sweep(client, call, true, &boxes, err));
    CAY_TRY(cay__layers_sweep(client, call, &layers, err));
    cay__mani_sweep(client);
    CAY_TRY(cay_client_maintain(client, call, err));
    if (removed)
        *removed = boxes + layers;
    return 0;
}
