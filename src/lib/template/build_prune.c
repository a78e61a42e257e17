/* SPDX-License-Identifier: Apache-2.0 */
/* What steps left for later builds is forgotten: their snapshots and caches and nobody else's, and
 * none that a build at work may go on from. */
#include "build.h"
#include <cay/access.h>
#include <cay/note.h>
#include <lib/sandbox/sandbox.h>

typedef struct pruning {
    char (*ids)[CAY_ID_LEN + 1];
    size_t n;
    json_t *busy; /* tenants of which a build is at work: it goes on from any of their snapshots */
} pruning;

static int on_record(const char *key, const char *text, void *arg)
{
    pruning *p = arg;
    CAY_AUTOJSON *o = NULL;
    if (cay__json_object("record", text, &o, NULL) == 0 && cay__record_is(o, "building") &&
        cay__report_alive(o))
        json_object_set_new(p->busy, cay__json_str(o, "tenant", CAY_TENANT_DEFAULT), json_true());
    return 0;
}

static int on_snapshot(const cay_snapshot *s, void *arg)
{
    pruning *p = arg;
    if (!cay__bstage_saved(s) || json_object_get(p->busy, s->tenant))
        return 0;
    CAY_GROW(p->ids, p->n);
    cay__str_copy(p->ids[p->n++], sizeof p->ids[0], s->id);
    return 0;
}

int cay_build_prune(cay_client *client, const cay_call *call, const char *tenant, size_t *n,
                    cay_err *err)
{
    if (client->remote)
        return cay__remote_removed(client->remote, call, CAY__OPERATION(build_prune), n, err);
    CAY_AUTOJSON *busy = json_object();
    pruning p = { .busy = busy };
    size_t gone = 0;
    cay__build_sweep(client);
    int rc = cay_note_list(client, "build", "", on_record, &p, err);
    if (rc == 0)
        rc = cay_client_snapshots(
            client, call,
            &(cay_snapshot_filter){ .size = sizeof(cay_snapshot_filter), .tenant = tenant },
            on_snapshot, &p, err);
    for (size_t i = 0; rc == 0 && i < p.n; i++) {
        rc = cay_snapshot_remove(client, call, p.ids[i], NULL, err);
        gone += rc == 0;
        if (rc == CAY_ENOENT || rc == CAY_EBUSY)
            rc = 0; /* gone meanwhile, or in use: the next time */
    }
    free(p.ids);
    if (rc == 0)
        cay__lent_prune(client, tenant, busy, &gone);
    if (n)
        *n = gone;
    return rc;
}
