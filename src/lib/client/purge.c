/* SPDX-License-Identifier: Apache-2.0 */
/* A state directory goes, with all that is in it. */
#include "remote.h"
#include <lib/store/db.h>
#include "client.h"

/* Everything that a program of ours makes there. egress.conf and secrets.conf are what an operator
 * wrote: they stay. */
static const char *const ours[] = {
    "sandboxes",
    "layers",
    "manifests",
    "local",
    "process",
    "docker",
    "podman",
    "volumes",
    "blobs",
    "net",
    "audit",
    "fetch",
    "builds",
    "checkpoint",
    "e2b",
    "history",
    "chat",
    "keeper.log",
    "keeper.log.new",
    "alive",
    "server.url",
    "reserve",
    "reconcile.lock",
    "stacks.lock",
    "layers.lock",
    "volumes.lock",
    "settle.lock",
    "store.lock",
    "store.db",
    "store.db-wal",
    "store.db-shm",
    "store.db-journal",
    NULL,
};

typedef struct purge {
    cay_client *client;
    const cay_call *call;
    bool forget;
    void (*left)(const char *what, void *arg);
    void *arg;
    cay__id *ids;
    size_t n, cap;
} purge;

static int on_box(const cay_info *i, void *arg)
{
    purge *p = arg;
    if (p->n == p->cap && !(p->ids = realloc(p->ids, (p->cap = p->cap * 2 + 64) * sizeof *p->ids)))
        abort();
    cay__str_copy(p->ids[p->n++], sizeof *p->ids, i->id);
    return 0;
}

static int remove_box(purge *p, const char *id, cay_err *err)
{
    cay_err why = CAY_ERR_INIT;
    cay_sandbox *sb = NULL;
    int rc = cay_client_find(p->client, p->call, id, &sb, &why);
    if (rc == 0)
        rc = cay_sandbox_remove(sb, p->call, &why);
    cay_sandbox_unref(sb);
    if (rc == CAY_ENOENT || rc == 0)
        return 0;
    if (p->forget && rc != CAY_ECANCELED) {
        char text[400];
        CAY_FORMAT(text, "sandbox %s: %s", id, why.msg);
        if (p->left)
            p->left(text, p->arg);
        return 0;
    }
    if (err)
        *err = why;
    return cay_wrap(err, rc, "sandbox %s", id);
}

/* The kernel writes blanks, tabs, newlines and backslashes of a path as a backslash and three octal
 * digits. */
static void unescape_path(char *s)
{
    char *to = s;
    for (; *s; s++) {
        bool octal = *s == '\\' && strspn(s + 1, "01234567") >= 3;
        *to++ = octal ? (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0')) : *s;
        if (octal)
            s += 3;
    }
    *to = 0;
}

static int no_mounts(const cay_client *client, cay_err *err)
{
    CAY_AUTOFREE char *home = realpath(client->home, NULL), *line = NULL;
    size_t cap = 0, n = home ? strlen(home) : 0;
    FILE *f = NULL;
    if (home)
        f = fopen("/proc/self/mountinfo", "re");
    int rc = 0;
    if (!f)
        return cay_fail_sys(err, "look for mounts below %.180s", client->home);
    while (rc == 0 && getline(&line, &cap, f) > 0) {
        char *at = line;
        for (int i = 0; at && i < 4; i++) {
            if (strchr(at, ' '))
                at = strchr(at, ' ') + 1;
            else
                at = NULL;
        }
        if (!at)
            continue;
        at[strcspn(at, " ")] = 0;
        unescape_path(at);
        if (!strncmp(at, home, n) && at[n] == '/')
            rc = cay_fail_why(err, CAY_EBUSY, "home_mounted",
                              "something is mounted on %.180s; unmount it first", at);
    }
    fclose(f);
    return rc;
}

static void tell_left(purge *p)
{
    CAY_AUTODIR *d = cay__dir_open(p->client->home_fd, NULL);
    for (struct dirent *e; d && p->left && (e = cay__dir_next(d));)
        p->left(e->d_name, p->arg);
}

static int remove_all(purge *p, cay_err *err)
{
    cay__place *place;
    void *self;
    CAY_TRY(cay_client_list(p->client, p->call, NULL, on_box, p, err));
    CAY_EACH_OF(it, p->ids, p->n)
        CAY_TRY(remove_box(p, *it, err));
    CAY_EACH_OF(it, p->client->places, p->client->nplaces) {
        place = it;
        if (CAY__HAS(place->ops, purge)) {
            CAY_TRY(cay__client_self(p->client, place, &self, err));
            CAY_TRY(place->ops->purge(self, p->call, ours, err));
        }
    }
    return 0;
}

int cay_client_purge(cay_client *client, const cay_call *call, bool forget,
                     void (*left)(const char *what, void *arg), void *arg, cay_err *err)
{
    purge p = { .client = client, .call = call, .forget = forget, .left = left, .arg = arg };
    if (client->remote)
        return cay__purge_remote(client, call, forget, left, arg, err);
    CAY_TRY(no_mounts(client, err));
    CAY_TRY(cay__db_alone(client->db, err));
    int rc = remove_all(&p, err);
    free(p.ids);
    if (rc < 0) {
        cay__db_shared(client->db);
        return rc;
    }
    if (rmdir(client->home) < 0)
        tell_left(&p);
    return 0;
}
