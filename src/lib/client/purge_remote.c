/* SPDX-License-Identifier: Apache-2.0 */
/* Of a client of a server: all that its key may remove goes, one after the other. The
 * server, its keys, tenants and stored secrets stay. */
#include "remote.h"
#include "client.h"

typedef struct remote_purge {
    cay_client *client;
    const cay_call *call;
    bool forget;
    void (*left)(const char *what, void *arg);
    void *arg;
    char (*names)[CAY_VOLUME_NAME + 1]; /* ids are shorter */
    size_t n, cap;
} remote_purge;

static int add_name(remote_purge *p, const char *name)
{
    if (p->n == p->cap &&
        !(p->names = realloc(p->names, (p->cap = p->cap * 2 + 64) * sizeof *p->names)))
        abort();
    cay__str_copy(p->names[p->n++], sizeof *p->names, name);
    return 0;
}

static int on_box(const cay_info *i, void *arg)
{
    return add_name(arg, i->id);
}

static int on_snapshot(const cay_snapshot *s, void *arg)
{
    return add_name(arg, s->id);
}

static int on_template(const cay_template *t, void *arg)
{
    if (t->id && *t->id)
        return add_name(arg, t->id);
    return 0; /* `host` has none, and is no record */
}

static int on_volume(const cay_volume *v, void *arg)
{
    return add_name(arg, v->name);
}

static int list_boxes(remote_purge *p, cay_err *err)
{
    return cay_client_list(p->client, p->call, NULL, on_box, p, err);
}

static int list_snapshots(remote_purge *p, cay_err *err)
{
    return cay_client_snapshots(p->client, p->call, NULL, on_snapshot, p, err);
}

static int list_templates(remote_purge *p, cay_err *err)
{
    return cay_template_list(p->client, p->call, NULL, on_template, p, err);
}

static int list_volumes(remote_purge *p, cay_err *err)
{
    return cay_volume_list(p->client, p->call, on_volume, p, err);
}

static int drop_box(remote_purge *p, const char *id, cay_err *err)
{
    cay_sandbox *sb = NULL;
    int rc = cay_client_find(p->client, p->call, id, &sb, err);
    if (rc == 0)
        rc = cay_sandbox_remove(sb, p->call, err);
    cay_sandbox_unref(sb);
    return rc;
}

static int drop_snapshot(remote_purge *p, const char *id, cay_err *err)
{
    return cay_snapshot_remove(p->client, p->call, id, NULL, err);
}

static int drop_template(remote_purge *p, const char *id, cay_err *err)
{
    return cay_template_remove(p->client, p->call, NULL, id, err);
}

static int drop_volume(remote_purge *p, const char *name, cay_err *err)
{
    return cay_volume_remove(p->client, p->call, name, err);
}

/* Volumes are free when their sandboxes are gone, templates when nothing stands on them. */
static const struct {
    const char *what;
    int (*list)(remote_purge *p, cay_err *err);
    int (*drop)(remote_purge *p, const char *name, cay_err *err);
} kinds[] = { { "sandbox", list_boxes, drop_box },
              { "snapshot", list_snapshots, drop_snapshot },
              { "template", list_templates, drop_template },
              { "volume", list_volumes, drop_volume } };

/* What the key may not see or remove is not its tenant's: a template that another one shares, the
 * volumes of the machine. */
static int one_kind(remote_purge *p, size_t k, cay_err *err)
{
    p->n = 0;
    int rc = kinds[k].list(p, err);
    if (rc == CAY_EPERM)
        return 0;
    for (size_t i = 0; rc == 0 && i < p->n; i++) {
        cay_err why = CAY_ERR_INIT;
        int got = kinds[k].drop(p, p->names[i], &why);
        if (got == 0 || got == CAY_ENOENT)
            continue;
        if (got == CAY_EPERM || (p->forget && got != CAY_ECANCELED)) {
            char text[400];
            CAY_FORMAT(text, "%s %s: %s", kinds[k].what, p->names[i], why.msg);
            if (p->left)
                p->left(text, p->arg);
            continue;
        }
        if (err)
            *err = why;
        rc = cay_wrap(err, got, "%s %s", kinds[k].what, p->names[i]);
    }
    return rc;
}

int cay__purge_remote(cay_client *client, const cay_call *call, bool forget,
                      void (*left)(const char *what, void *arg), void *arg, cay_err *err)
{
    remote_purge p = { .client = client, .call = call, .forget = forget, .left = left, .arg = arg };
    int rc = 0;
    for (size_t k = 0; rc == 0 && k < CAY_LEN(kinds); k++)
        rc = one_kind(&p, k, err);
    free(p.names);
    return rc;
}
