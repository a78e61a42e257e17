/* SPDX-License-Identifier: Apache-2.0 */
#include "client.h"
#include "spec.h"
#include <lib/sandbox/limits.h>
#include <lib/manifest/storage.h>
#include <lib/snapshot/snapshot.h>

#define BOOT_ID "/proc/sys/kernel/random/boot_id"
enum { BOOT_ID_LEN = 36 };

typedef struct full {
    cay_info info; /* first: the caller has a pointer to it */
    cay__arena mem;
} full;

static const char *or_else(cay__arena *mem, const char *s, const char *none)
{
    return cay__arena_str(mem, cay__text_or(s, none));
}

static const cay_pair *copy_pairs(cay__arena *mem, const cay_pair *p)
{
    size_t n = 0;
    while (p && p[n].key)
        n++;
    cay_pair *to = cay__arena_take(mem, (n + 1) * sizeof *to);
    for (size_t i = 0; i < n; i++)
        to[i] = (cay_pair){ cay__arena_str(mem, p[i].key), cay__arena_str(mem, p[i].value) };
    return to;
}

static void add_spec(full *f, const cay_create *c, const char *template_name)
{
    cay_info *i = &f->info;
    i->name = or_else(&f->mem, c->name, "");
    i->template_ =
        or_else(&f->mem, CAY_OR(c->from.root, CAY_OR(template_name, c->from.template_)), "host");
    i->hostname = or_else(&f->mem, c->hostname, "cay");
    i->user = or_else(&f->mem, c->process.user, "user");
    i->workdir = or_else(&f->mem, c->process.workdir, "/workspace");
    i->metadata = or_else(&f->mem, c->metadata, "");
    i->labels = copy_pairs(&f->mem, c->labels);
    if (c->from.settings && c->from.settings->key)
        i->settings = copy_pairs(&f->mem, c->from.settings);
    else
        i->settings = NULL;
    i->limits = c->limits;
    i->on_expiry = c->life.on_expiry;
    i->auto_resume = c->life.auto_resume;
    i->from = or_else(&f->mem, c->from.snapshot, "");
    i->tenant = or_else(&f->mem, c->tenant, CAY_TENANT_DEFAULT);
    if (c->life.idle_ms == CAY_UNLIMITED)
        i->idle_ms = 0;
    else
        i->idle_ms = c->life.idle_ms;
    cay__limits_fill(&i->limits);
}

/* The mode of a policy's text, which was read whole when it was set: a list of thousands does not
 * read all their rules again. */
static const char *net_mode(const char *text)
{
    static const char *const modes[] = { "off", "all", "rules" };
    const char *line = strstr(text, "\nmode ");
    for (size_t i = 0; line && i < CAY_LEN(modes); i++)
        if (cay__str_starts(line + 6, modes[i]) && line[6 + strlen(modes[i])] == '\n')
            return modes[i];
    return "off";
}

static void add_status(full *f, const cay_box_status *st)
{
    cay_info *i = &f->info;
    cay_wall *to = cay__arena_take(&f->mem, (st->nwalls + 1) * sizeof *to);
    for (size_t k = 0; k < st->nwalls; k++)
        to[k] = (cay_wall){ cay__arena_str(&f->mem, st->walls[k].name),
                            cay__arena_str(&f->mem, st->walls[k].state),
                            cay__arena_str(&f->mem, st->walls[k].why),
                            cay__arena_str(&f->mem, st->walls[k].remedy) };
    i->walls = to;
    i->nwalls = st->nwalls;
    i->level = st->level;
    i->deadline_ms = st->deadline_ms;
    i->idle_ms = st->idle_ms;
    i->pid = st->pid;
    i->path = cay__arena_str(&f->mem, st->path);
    if (st->network)
        i->network = cay__arena_str(&f->mem, st->network);
}

cay_info *cay__info_blank(cay__arena **mem)
{
    full *f = cay__alloc(sizeof *f);
    *mem = &f->mem;
    return &f->info;
}

cay_info *cay__info_new(const char *id, const cay_row *row, const cay__truth *t)
{
    full *f = cay__alloc(sizeof *f);
    cay_info *i = &f->info;
    cay__spec *spec = NULL;
    i->size = sizeof *i;
    i->id = cay__arena_str(&f->mem, id);
    i->state = t->state;
    i->reason = cay__arena_str(&f->mem, t->reason);
    i->path = i->network = i->boot_id = "";
    const char *provider = "";
    if (row)
        provider = row->provider;
    else if (t->ops)
        provider = t->ops->name;
    i->provider = cay__arena_str(&f->mem, provider);
    if (row) {
        i->created_ms = row->created_ms;
        i->changed_ms = row->changed_ms;
    }
    if (!row || row->state == CAY_DAMAGED || cay__spec_read(row, &spec, NULL) < 0)
        add_spec(f, &(cay_create){ .name = row ? row->name : NULL }, NULL);
    else
        add_spec(f, &spec->create, spec->box.template_name);
    if (spec && t->ops && CAY__HAS(t->ops, policy))
        i->network = net_mode(CAY_OR(spec->create.net.policy, ""));
    cay__spec_free(spec);
    if (t->asked)
        add_status(f, &t->status);
    return i;
}

static void add_mount(const char *target, const char *why, void *arg)
{
    full *f = arg;
    cay_info *i = &f->info;
    char name[1100];
    cay_wall *to = cay__arena_take(&f->mem, (i->nwalls + 1) * sizeof *to);
    if (i->nwalls)
        memcpy(to, i->walls, i->nwalls * sizeof *to);
    CAY_JOIN(name, "storage ", target);
    to[i->nwalls++] = (cay_wall){
        cay__arena_str(&f->mem, name), *why ? "off" : "on", cay__arena_str(&f->mem, why),
        *why ? "cay kill it and cay resume it: its storage is mounted again then" : ""
    };
    i->walls = to;
}

void cay__info_mounts(cay_client *client, cay_info *info)
{
    if (cay__state_live(info->state))
        cay__storage_look(client->home_fd, info->id, add_mount, info);
}

static bool is_boot_id(const char *s)
{
    return strlen(s) == BOOT_ID_LEN && strspn(s, "0123456789abcdef-") == BOOT_ID_LEN;
}

/* By its init's root, which root may see, and else by a worker inside. A worker is a sign of use,
 * so one with an idle deadline is not asked. */
static void read_boot_id(const cay_info *i, const cay_provider_ops *ops, void *box,
                         const cay_call *call, char *out, size_t cap)
{
    char path[96];
    CAY_FORMAT(path, "/proc/%d/root%s", i->pid, BOOT_ID);
    if (cay__fd_read_file(AT_FDCWD, path, out, cap) >= 0 || i->idle_ms || !ops->open_read)
        return;
    const cay_read spec = { .size = sizeof spec };
    CAY_AUTOFD fd = -1;
    if (ops->open_read(box, call, BOOT_ID, &spec, &fd, NULL) < 0)
        return;
    ssize_t n = cay__fd_read_all(fd, out, cap - 1);
    out[CAY_MAX(n, 0)] = 0;
}

void cay__info_boot_id(cay_info *info, const cay_provider_ops *ops, void *box, const cay_call *call)
{
    full *f = (full *)info;
    char own[64] = "", host[64];
    if (info->state != CAY_RUNNING || info->level < CAY_LEVEL_ROOTLESS || info->pid <= 0)
        return;
    read_boot_id(info, ops, box, call, own, sizeof own);
    own[strcspn(own, "\n")] = 0;
    cay__boot_id(host, sizeof host);
    /* An engine's containers see the host's. */
    if (is_boot_id(own) && strcmp(own, host) != 0)
        info->boot_id = cay__arena_str(&f->mem, own);
}

void cay_info_free(cay_info *info)
{
    full *f = (full *)info;
    if (f)
        cay__arena_clear(&f->mem);
    free(f);
}
