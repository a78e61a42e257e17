/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stage: from the last step whose result is there to its end. A result is a snapshot with a label
 * made of the step's key. It is there whole or not at all, so a build that is killed has left what
 * it had done, and the next one begins behind it.
 */
#include "build.h"
#include <base/fault.h>
#include <base/mutant.h>
#include <cay/access.h>
#include <cay/policy.h>

enum { KEY_LEN = 56 }; /* of a key in a label */

static void label_of(const char *key, char out[64])
{
    snprintf(out, 64, "build.%.*s", KEY_LEN, key);
}

bool cay__bstage_saved(const cay_snapshot *s)
{
    CAY_AUTOJSON *meta = NULL;
    return cay__str_starts(s->label, "build.") && cay__hex_len(s->label + 6) == KEY_LEN &&
           !s->label[6 + KEY_LEN] && *s->metadata &&
           cay__json_object("metadata", s->metadata, &meta, NULL) == 0 &&
           json_object_size(meta) == 2 && cay__id_valid(cay__json_str(meta, "build", ""), 'b') &&
           cay__json_str(meta, "step", NULL);
}

/* who: the default user of its commands, "root" or "name:group". t: whose mounts it has, or NULL.
 */
static int open_box(cay__builder *b, const cay__bstage *st, const char *snapshot, bool net,
                    const char *who, const cay__task *t, cay_sandbox **out, cay_err *err)
{
    cay_volume_use volumes[CAY__RECIPE_MOUNTS];
    char user[128];
    const char *colon = strchr(who, ':');
    CAY_FORMAT(user, "%.*s", (int)strcspn(who, ":"), who);
    const cay_pair labels[] = { { CAY__BUILD_LABEL, b->who }, { NULL, NULL } };
    cay_create c = {
        .size = sizeof c,
        .process.user = user,
        .process.group = colon ? colon + 1 : NULL,
        .labels = labels,
        .tenant = b->spec->tenant,
        .limits = b->spec->limits,
        .net.policy = net ? b->net : NULL,
        .from.snapshot = snapshot,
        .services = "{}",
        .from.no_settings = true,
        .files.volumes = volumes,
        .files.nvolumes = t ? cay__lent_volumes(t, volumes) : 0
    }; /* what the template starts is for its sandboxes, not for steps */
    if (!snapshot && !strcmp(st->ref, CAY__BUILD_SCRATCH))
        c.from.template_ = "image";
    else if (!snapshot)
        c.from.template_ = st->ref;
    CAY_FAULT("build.box");
    return cay_client_create(b->client, &b->call, &c, out, err);
}

int cay__bstage_box(cay__builder *b, const cay__bstage *st, const char *snapshot, bool net,
                    cay_sandbox **out, cay_err *err)
{
    return open_box(b, st, snapshot, net, "root", NULL, out, err);
}

/* The snapshot of a key, if it can be relied on. Whoever knows the file can work its keys out, so a
 * label is believed of the tenant's own alone. */
static bool find_cached(cay__builder *b, const char *key, char *id, size_t cap)
{
    char label[64];
    const char *whose = CAY_OR(b->spec->tenant, CAY_TENANT_DEFAULT);
    if (CAY__MUTANT("build-cache"))
        whose = NULL;
    CAY_AUTOPTR(cay_snapshot) s = NULL;
    label_of(key, label);
    if (cay_client_snapshot_of(b->client, &b->call, whose, label, &s, NULL) < 0)
        return false;
    if (b->spec->no_cache || s->maybe_incomplete) {
        cay_snapshot_remove(b->client, &b->call, s->id, NULL, NULL);
        return false;
    }
    return cay__str_copy(id, cap, s->id);
}

static int save_snapshot(cay__builder *b, cay_sandbox *sb, const cay__task *t, const char *key,
                         char *id, size_t cap, cay_err *err)
{
    char label[64];
    CAY_AUTOPTR(cay_snapshot) s = NULL;
    CAY_AUTOJSON *meta =
        json_pack("{s:s, s:s*}", "build", b->report.id, "step", t ? t->step->text : "FROM");
    CAY_AUTOFREE char *text = NULL;
    if (meta)
        text = cay__json_text(meta, 4096);
    if (!text) { /* a step of many words */
        CAY_AUTOJSON *brief = json_pack("{s:s, s:s}", "build", b->report.id, "step", "");
        text = cay__json_text(brief, 4096);
    }
    cay_snapshot_spec spec = {
        .size = sizeof spec, .label = label, .metadata = text, .quiet = true
    };
    if (key)
        label_of(key, label);
    CAY_FAULT("build.save");
    int rc = CAY_EEXIST;
    if (key)
        rc = cay_sandbox_snapshot(sb, &b->call, &spec, &s, err);
    if (rc == CAY_EEXIST) { /* somebody builds the same, or it is only to go on from */
        spec.label = NULL;
        rc = cay_sandbox_snapshot(sb, &b->call, &spec, &s, err);
        if (rc == 0 && b->nloose < CAY_LEN(b->loose))
            cay__str_copy(b->loose[b->nloose++], sizeof b->loose[0], s->id);
    }
    CAY_TRY(rc);
    CAY_FAULT("build.saved");
    cay__str_copy(id, cap, s->id);
    return 0;
}

static void say_step(cay__builder *b, const cay__task *t, bool is_cached)
{
    if (!t->no)
        return;
    b->report.step = b->at = t->no;
    b->done += !is_cached;
    cay__report_say(&b->report, CAY_BUILD_STEP, is_cached, "%s", t->step->text);
}

/* Whatever becomes of the command, nothing that was lent to it stays. */
static int run_mounted(cay__builder *b, cay_sandbox *sb, const cay__task *t, cay_err *err)
{
    int rc = cay__lent_place(b, sb, t, err);
    if (rc == 0)
        rc = cay__task_run(b, sb, t, err);
    int after = cay__lent_clear(sb, t, rc < 0 ? NULL : err);
    CAY_TRY(rc);
    return after;
}

static int run_task(cay__builder *b, cay_sandbox *sb, const cay__task *t, cay_err *err)
{
    CAY_FAULT("build.step");
    switch (t->step->kind) {
    case CAY__STEP_RUN:
        if (t->step->offline)
            CAY_TRY(cay_sandbox_set_policy(sb, &b->call, "cay-net 1\nmode off\n", NULL, err));
        CAY_TRY(run_mounted(b, sb, t, err));
        if (t->step->offline)
            return cay_sandbox_set_policy(sb, &b->call, b->net, NULL, err);
        return 0;
    case CAY__STEP_WORKDIR: return cay__task_workdir(b, sb, t, err);
    default: return cay__task_put(b, sb, t, err);
    }
}

/* Where the steps are done. */
typedef struct bench {
    cay_sandbox *sb;
    const char *who;       /* its default user */
    const cay__task *with; /* whose mounts it has, or NULL */
    char at[80];           /* the snapshot that it stands on, or "" */
    bool moved;            /* there is more in it than that */
} bench;

static void close_bench(cay__builder *b, bench *w)
{
    cay__builder_throw(b, w->sb);
    w->sb = NULL;
    if (w->with)
        cay__lent_close(b, w->with);
    w->with = NULL;
}

/* A group beside the account's own is an affair of the sandbox's default user, so a step with one
 * has a sandbox for itself and those like it; and one with mounts has its own. */
static int change_box(cay__builder *b, const cay__bstage *st, bench *w, const cay__task *t,
                      cay_err *err)
{
    const char *who = "root";
    if (t->step->kind == CAY__STEP_RUN && strchr(t->user, ':'))
        who = t->user;
    cay_sandbox *next = NULL;
    if (!strcmp(who, w->who) && !w->with && !t->nmounts)
        return 0;
    if (w->moved)
        CAY_TRY(save_snapshot(b, w->sb, t, NULL, w->at, sizeof w->at, err));
    int rc = cay__lent_open(b, t, err);
    if (rc == 0)
        rc = open_box(b, st, cay__text_or(w->at, NULL), true, who, t, &next, err);
    if (rc < 0) {
        cay__lent_close(b, t);
        return rc;
    }
    close_bench(b, w);
    w->sb = next;
    w->who = who;
    w->with = CAY_IF(t->nmounts, t);
    w->moved = false;
    return 0;
}

static int finish_tasks(cay__builder *b, cay__bstage *st, bench *w, size_t from, cay_err *err)
{
    for (size_t i = from; i < st->ntasks; i++) {
        const cay__task *t = &st->tasks[i];
        say_step(b, t, false);
        if (cay__report_canceled(&b->report))
            return cay_fail_why(err, CAY_ECANCELED, "build_canceled", "build %s was canceled",
                                b->report.id);
        int rc = change_box(b, st, w, t, err);
        if (rc == 0)
            rc = run_task(b, w->sb, t, err);
        w->moved = true;
        if (rc == 0 && t->saves)
            rc = save_snapshot(b, w->sb, t, t->key, st->done, sizeof st->done, err);
        if (rc == 0 && t->saves) {
            CAY_COPY(w->at, st->done);
            w->moved = false;
        }
        if (rc < 0)
            return cay__plan_bad(b, t->step, rc, err);
    }
    if (st->ntasks)
        return 0;
    return save_snapshot(b, w->sb, NULL, st->base_key, st->done, sizeof st->done, err);
}

/* The stages that it takes from, but for those that are there already. */
static int make_sources(cay__builder *b, cay__bstage *st, size_t from, cay_err *err)
{
    if (from == 0 && st->base >= 0)
        CAY_TRY(cay__bstage_make(b, (size_t)st->base, err));
    for (size_t i = from; i < st->ntasks; i++) {
        if (st->tasks[i].origin == CAY__FROM_STAGE)
            CAY_TRY(cay__bstage_make(b, st->tasks[i].stage, err));
        CAY_EACH_OF(mount, st->tasks[i].mounts, st->tasks[i].nmounts) {
            const cay__task *copy = mount->copy;
            if (copy && copy->origin == CAY__FROM_STAGE)
                CAY_TRY(cay__bstage_make(b, copy->stage, err));
        }
    }
    return 0;
}

int cay__bstage_make(cay__builder *b, size_t which, cay_err *err)
{
    cay__bstage *st = &b->stages[which];
    bench w = { .who = "root" };
    size_t from = st->ntasks;
    char below[80] = "";
    if (*st->done)
        return 0;
    /* Behind the last that is there: all before it is in it. */
    while (from && !(st->tasks[from - 1].saves &&
                     find_cached(b, st->tasks[from - 1].key, below, sizeof below)))
        from--;
    CAY_TRY(make_sources(b, st, from, err));
    CAY_EACH_OF(task, st->tasks, from)
        say_step(b, task, true);
    if (from && from == st->ntasks) {
        CAY_COPY(st->done, below);
        return 0;
    }
    if (!from && st->base >= 0)
        CAY_COPY(below, b->stages[st->base].done);
    if (!st->ntasks && *below) { /* FROM alone */
        CAY_COPY(st->done, below);
        return 0;
    }
    if (!st->ntasks && find_cached(b, st->base_key, st->done, sizeof st->done))
        return 0;
    CAY_TRY(cay__bstage_box(b, st, cay__text_or(below, NULL), true, &w.sb, err));
    CAY_COPY(w.at, below);
    int rc = finish_tasks(b, st, &w, from, err);
    if (rc < 0 && rc != CAY_ECANCELED && b->spec->keep_failed && !*b->kept) {
        CAY_COPY(b->kept, cay_sandbox_id(w.sb));
        const cay_pair none[] = { { NULL, NULL } };
        cay_sandbox_update(w.sb, NULL, &(cay_update){ .size = sizeof(cay_update), .labels = none },
                           NULL);
        cay_sandbox_unref(w.sb);
        return rc; /* its volumes go with the next build after it was removed */
    }
    close_bench(b, &w);
    return rc;
}
