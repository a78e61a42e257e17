/* SPDX-License-Identifier: Apache-2.0 */
#include "client_mounts.h"
#include <lib/client/secret.h>
#include <base/json.h>
#include "manifest.h"
#include <lib/sandbox/limits.h>

typedef cay__mount_list list;

void cay__mounts_clear(cay__mount_list *l)
{
    CAY_EACH_OF(it, l->m, l->n)
        json_decref(it->fields);
}

bool cay__mounts_by_container(const char *provider)
{
    return provider && (!strcmp(provider, "docker") || !strcmp(provider, "podman"));
}

static bool is_storage(const cay_mount_target *t)
{
    return strcmp(t->strategy, "local_bind") != 0;
}

bool cay__mounts_by_engine(const cay__storage_mount *m)
{
    return !strcmp(cay__json_str(json_object_get(m->fields, "mount_strategy"), "type", ""),
                   "docker_volume");
}

static int on_inside(const cay_mount_target *t, void *arg)
{
    *(bool *)arg |= !strcmp(t->strategy, "in_container");
    return 0;
}

bool cay__mounts_wants_inside(const cay__mani *f, const char *provider)
{
    bool any = false;
    if (f->m && cay__mounts_by_container(provider))
        cay_manifest_mounts(f->m, on_inside, &any);
    return any;
}

int cay__mounts_check(const cay_mount_target *t, const char *provider, cay_err *err)
{
    bool engine = !strcmp(t->strategy, "docker_volume");
    if (engine && !cay__mounts_by_container(provider))
        return cay_fail_why(err, CAY_ENOTSUP, "mount_unsupported",
                            "entry %.80s: strategy docker_volume is for providers docker and "
                            "podman; give in_container",
                            t->entry);
    if (!engine && strcmp(t->strategy, "in_container") != 0)
        return cay_fail_why(err, CAY_ENOTSUP, "mount_unsupported",
                            "entry %.80s: strategy %.40s is another provider's; give in_container",
                            t->entry, t->strategy);
    if (cay__mounts_by_container(
            provider)) /* its own programs do it: they are looked for when it runs */
        return 0;
    if (provider && *provider && strcmp(provider, "native") != 0)
        return cay_fail_why(err, CAY_ENOTSUP, "mount_unsupported",
                            "entry %.80s: provider %.40s cannot show storage; use provider native",
                            t->entry, provider);
    return cay__storage_check(&(cay__storage_mount){ .type = t->type, .entry = t->entry }, 1, err);
}

/* Values of keys that are kept elsewhere. */
static int read_references(list *l, const char *entry, json_t *fields)
{
    const char *key;
    json_t *v;
    void *next;
    json_object_foreach_safe(fields, next, key, v) {
        const char *source = cay__json_str(v, "source", NULL);
        cay__value value = { 0 };
        if (!source || strcmp(cay__json_str(v, "type", "ref"), "ref") != 0)
            continue;
        if (!l->f->trusted)
            return cay__bad(l->err, "manifest_invalid", entry, "untrusted_reference",
                            "%.40s refers to the host; a trusted manifest is needed", key);
        int rc = cay__secret_read(l->client, key, source, &value, l->err);
        if (rc < 0)
            return cay_wrap(l->err, rc, "entry %.60s", entry);
        json_object_set_new(fields, key, json_stringn(value.data, value.len));
        cay__value_wipe(&value);
    }
    return 0;
}

static int on_mount(const cay_mount_target *t, void *arg)
{
    list *l = arg;
    const cay__entry *e = cay__entry_find(l->f->m, t->entry);
    if (!is_storage(t))
        return 0;
    if (l->n == CAY__STORAGE_MOST)
        return cay_fail_why(l->err, CAY_ETOOBIG, "too_many_grants", "more than %d storage mounts",
                            CAY__STORAGE_MOST);
    if (e && e->redacted)
        return cay_fail_why(
            l->err, CAY_EINVAL, "mount_credentials",
            "entry %.80s: its keys were given as text, and text is not kept; give them as "
            "references (env:, file:, cmd:, store:) so that it can be started again",
            t->entry);
    cay__storage_mount *m = &l->m[l->n];
    *m = (cay__storage_mount){ .type = cay__arena_str(l->mem, t->type),
                               .target = cay__arena_str(l->mem, t->path),
                               .entry = cay__arena_str(l->mem, t->entry),
                               .rw = !t->read_only };
    CAY_TRY(cay__json_object("mount", t->fields, &m->fields, l->err));
    l->n++;
    return read_references(l, m->entry, m->fields);
}

/* Deepest first is how they are taken away; the other way round they are put in. */
static void add_grants(const list *l, const cay__storage *st, cay_create *c, cay__arena *mem)
{
    cay_grant *g = cay__arena_take(mem, (c->files.ngrants + l->n) * sizeof *g);
    if (c->files.ngrants)
        memcpy(g, c->files.grants, c->files.ngrants * sizeof *g);
    for (size_t i = 0; i < l->n; i++) {
        size_t k = l->n - 1 - i;
        char source[32];
        CAY_FORMAT(source, CAY__GRANT_MOUNT "%d", st->mounts[k]);
        g[c->files.ngrants + i] =
            (cay_grant){ cay__arena_str(mem, source), l->m[k].target, l->m[k].rw };
    }
    c->files.grants = g;
    c->files.ngrants += l->n;
}

int cay__mounts_read(cay__mount_list *l)
{
    return cay_manifest_mounts(l->f->m, on_mount, l);
}

static bool is_acknowledged(const cay_manifest *m, const char *path)
{
    CAY_EACH_OF(ack, m->acks, m->nacks)
        if (!strcmp(*ack, path))
            return true;
    return false;
}

int cay__mounts_refuse(const char *entry, const char *key, cay_err *err)
{
    return cay_fail_why(err, CAY_EPERM, "mount_credentials",
                        "entry %.60s: root inside could read its %s; leave --user root, services "
                        "of root and --sudo out, or use provider native, which mounts from outside",
                        entry, key);
}

const char *cay__mounts_exposed(const cay__mount_list *l, const char **entry)
{
    static const char *const keys[] = { "secret_access_key", "account_key",
                                        "access_token",      "token",
                                        "client_secret",     "service_account_credentials",
                                        "config_credentials" };
    CAY_EACH_OF(it, l->m, l->n)
        for (size_t k = 0; k < CAY_LEN(keys) && !cay__mounts_by_engine(it); k++)
            if (json_object_get(it->fields, keys[k]) && !is_acknowledged(l->f->m, it->target)) {
                *entry = it->entry;
                return keys[k];
            }
    return NULL;
}

/* root, 0, 00, 0:0, root:wheel. Which other names an image has for it is asked inside. */
bool cay__mounts_is_root(const char *user)
{
    size_t n = 0;
    if (user)
        n = strcspn(user, ":");
    return n && (strspn(user, "0") == n || (n == 4 && !strncmp(user, "root", 4)));
}

/* Keys that the sandbox's own root could read are not given to it, unless whoever asks for it has
 * said of this very path that they may be. */
static int check_keys(const list *l, const cay__spec *s, cay_err *err)
{
    const char *entry, *key = cay__mounts_exposed(l, &entry);
    bool root = s->create.isolation.sudo || cay__mounts_is_root(s->create.process.user);
    CAY_EACH_OF(service, s->box.services, s->box.nservices)
        root |= cay__mounts_is_root(service->user);
    if (key && root)
        return cay__mounts_refuse(entry, key, err);
    return 0;
}

/* What a container itself stands on. */
static int check_target(const cay__storage_mount *m, cay_err *err)
{
    static const char *const own[] = { "/.cay", "/proc", "/sys", "/dev" };
    bool bad = !strcmp(m->target, "/");
    CAY_EACH(one, own)
        bad |= cay__path_below(m->target, *one);
    if (bad)
        return cay_fail_why(err, CAY_EINVAL, "mount_target",
                            "entry %.60s: %.120s is the system's own; mount it elsewhere", m->entry,
                            m->target);
    return 0;
}

/* "kernel": mounting takes a capability alone; "fuse": /dev/fuse as well. */
static const char *needs_of(const cay__storage_mount *m)
{
    const json_t *pattern =
        json_object_get(json_object_get(m->fields, "mount_strategy"), "pattern");
    bool kernel = !strcmp(cay__json_str(pattern, "type", ""), "s3files") ||
                  !strcmp(cay__json_str(pattern, "mode", ""), "nfs");
    if (kernel)
        return "kernel";
    return "fuse";
}

static int check_network(const cay__storage_mount *m, cay_err *err)
{
    const char *url = cay__json_str(m->fields, "endpoint_url", "");
    if (strstr(url, "://127.") || strstr(url, "://localhost"))
        return 0;
    return cay_fail_why(
        err, CAY_EINVAL, "mount_config_invalid",
        "entry %.80s: a container without a network reaches no storage; give option network=bridge",
        m->entry);
}

/* The engine gives the container what mounting needs, and mounts by its drivers. In no record: what
 * asks for it is the manifest. */
static int ask_engine(const list *l, const char *id, cay__spec *s, cay_err *err)
{
    size_t n = 0;
    cay_create *c = &s->create;
    bool net = false;
    const char *needs = NULL, *volumes;
    CAY_TRY(check_keys(l, s, err));
    for (; c->options && c->options[n].key; n++)
        net |= !strcmp(c->options[n].key, "network") && strcmp(c->options[n].value, "none") != 0;
    CAY_EACH_OF(it, l->m, l->n) {
        CAY_TRY(check_target(it, err));
        if (cay__mounts_by_engine(it))
            continue;
        if (!net)
            CAY_TRY(check_network(it, err));
        if (!needs || strcmp(needs, "fuse") != 0)
            needs = needs_of(it);
    }
    CAY_TRY(cay__mounts_volumes(l, id, &volumes));
    cay_pair *all = cay__arena_take(s->mem, (n + 3) * sizeof *all);
    if (n)
        memcpy(all, c->options, n * sizeof *all);
    if (needs)
        all[n++] = (cay_pair){ "mounts", needs };
    if (*volumes)
        all[n++] = (cay_pair){ "storage", volumes };
    c->options = all;
    /* Nobody works in it before storage is mounted. */
    s->box.services_wait |= needs && s->box.nservices > 0;
    return 0;
}

int cay__mounts_open(cay_client *client, const cay_call *call, const char *id, const cay__mani *f,
                     cay__spec *s, cay__storage *st, cay_err *err)
{
    CAY__AUTOMOUNTS l = { .client = client, .f = f, .mem = s->mem, .err = err };
    const char *provider = s->create.provider;
    if (!f->m)
        return 0;
    CAY_TRY(cay__mounts_read(&l));
    if (!l.n)
        return 0;
    if (cay__mounts_by_container(provider))
        return ask_engine(&l, id, s, err);
    if (provider && strcmp(provider, "native") != 0)
        return cay_fail_why(err, CAY_ENOTSUP, "mount_unsupported",
                            "provider %.40s cannot show storage; use provider native", provider);
    CAY_EACH_OF(it, l.m, l.n)
        if (json_object_get(
                json_object_get(json_object_get(it->fields, "mount_strategy"), "pattern"),
                "config_file_path"))
            return cay_fail_why(err, CAY_ENOTSUP, "mount_unsupported",
                                "entry %.60s: config_file_path is a file of an image, for "
                                "providers docker and podman; give its fields here",
                                it->entry);
    CAY_TRY(cay__storage_open(client->home, client->libexec, call, id, l.m, l.n, st, err));
    add_grants(&l, st, &s->create, s->mem);
    return 0;
}

int cay__mounts_hold(cay__storage *st, const cay_provider_ops *ops, const char *id, void *box,
                     const cay_call *call, cay_err *err)
{
    cay_box_status s = { .size = sizeof s };
    if (st->sock < 0)
        return 0;
    CAY_TRY(ops->status(box, call, &s, err));
    return cay__storage_hold(st, id, s.pid, err);
}
