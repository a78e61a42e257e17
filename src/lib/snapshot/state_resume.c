/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way back from a state:
 *
 *   it runs or is paused      that one, untouched
 *   it is stopped, files are  started on them when they are still those of the snapshot and the
 *                             manifest is the same, or when there is no snapshot; else started and
 *                             taken back to the snapshot
 *   it is gone                made again from the snapshot, under its id, with what whoever resumes
 *                             gives
 *
 * A sandbox with a record has its rights by that record; the state adds none. One that is made
 * again has only those given now.
 */
#include <lib/client/remote.h>
#include <lib/manifest/client_manifest.h>
#include <lib/client/client.h>
#include "state.h"
#include <base/fault.h>
#include <cay/snapshot.h>
#include <cay/state.h>
#include <lib/manifest/manifest.h>
#include <lib/sandbox/limits.h>

typedef struct way {
    cay_client *client;
    const cay_call *call;
    const cay__state *s;
    const cay_create *with;
    cay__state_manifest given; /* with->manifest, if there is one */
} way;

const char *cay_resumed_name(cay_resumed how)
{
    static const char *const names[] = { "", "alive", "kept", "restored", "rebuilt" };
    if ((size_t)how < CAY_LEN(names))
        return names[how];
    return "";
}

/* Never a weaker wall because a text says so. */
static int check_provider(const way *w, cay_err *err)
{
    const char *want = cay__text_or(w->with->provider, w->client->provider);
    if (!strcmp(w->s->provider, want) ||
        (!w->client->named && !w->with->provider && !strcmp(w->s->provider, "native")))
        return 0;
    return cay_fail_why(
        err, CAY_EPERM, "state_refused",
        "the state is of provider %.40s and this is %s; name that provider to resume there",
        w->s->provider, want);
}

/* Are its files those of the snapshot, and the manifest the one of the state? What cannot be told
 * counts as changed. */
static bool is_unchanged(const way *w, const cay_row *row)
{
    char print[65];
    CAY_AUTOPTR(cay__spec) spec = NULL;
    CAY_AUTOFREE char *text = NULL;
    __attribute__((cleanup(cay__state_manifest_clear))) cay__state_manifest own = { 0 };
    if (!w->given.text && (cay__spec_read(row, &spec, NULL) < 0 ||
                           cay__mani_text(w->client, spec->create.manifest.text, &text, NULL) < 0 ||
                           cay__state_manifest_of(text, &own, NULL) < 0))
        return false;
    cay__state_fingerprint(w->s->snapshot, CAY_OR(w->given.text, own.text), print);
    return !strcmp(print, w->s->fingerprint) &&
           cay__state_same_files(w->client, w->call, w->s, NULL);
}

/* Its ephemeral variables by who resumes: of the request itself, and of the manifest that is given
 * again. */
static const cay_pair *collect_values(const way *w, cay__arena *mem, cay_manifest **m)
{
    size_t n = 0, own = 0;
    while (w->with->process.env && w->with->process.env[own].key)
        own++;
    if (w->with->manifest.text &&
        cay_manifest_parse(w->with->manifest.text, strlen(w->with->manifest.text),
                           CAY_MANIFEST_TRUSTED, m, NULL) < 0)
        *m = NULL;
    cay_pair *list = cay__arena_take(mem, (own + (*m ? (*m)->nenv : 0) + 1) * sizeof *list);
    CAY_EACH_OF(it, w->with->process.env, own)
        list[n++] = *it;
    for (size_t i = 0; *m && i < (*m)->nenv; i++)
        if ((*m)->env[i].value && (*m)->env[i].ephemeral)
            list[n++] = (cay_pair){ (*m)->env[i].name, (*m)->env[i].value };
    list[n] = (cay_pair){ NULL, NULL };
    return list;
}

static int start_with_values(const way *w, cay_sandbox *sb, cay_err *err)
{
    cay__arena mem = { 0 };
    cay_manifest *m = NULL;
    cay__given given = { .env = collect_values(w, &mem, &m) };
    int rc = cay__sandbox_resume(sb, w->call, &given, err);
    free(given.missing);
    cay_manifest_free(m);
    cay__arena_clear(&mem);
    return rc;
}

static int start_stopped(const way *w, const cay_row *row, cay_sandbox *sb, cay_resumed *how,
                         cay_err *err)
{
    cay_snapshot *snap = NULL;
    *how = CAY_RESUMED_KEPT;
    bool restorable = w->s->snapshot[0] &&
                      cay_client_snapshot(w->client, w->call, w->s->snapshot, &snap, NULL) == 0;
    if (snap)
        cay_snapshot_free(snap);
    bool same = !restorable || is_unchanged(w, row);
    CAY_FAULT("state.decided");
    CAY_TRY(start_with_values(w, sb, err));
    if (same)
        return 0;
    *how = CAY_RESUMED_RESTORED;
    snap = NULL;
    CAY_TRY(cay_sandbox_undo(sb, w->call, w->s->snapshot, &snap, err));
    cay_snapshot_free(snap);
    return 0;
}

static int reconnect_sandbox(const way *w, const cay_row *row, cay_sandbox **out, cay_resumed *how,
                             cay_err *err)
{
    cay_sandbox *sb = NULL;
    cay_info *info = NULL;
    if (strcmp(row->provider, w->s->provider) != 0)
        return cay_fail_why(err, CAY_EPERM, "state_refused",
                            "sandbox %s is of provider %s, not %.40s as the state says", row->id,
                            row->provider, w->s->provider);
    CAY_TRY(cay_client_find(w->client, w->call, w->s->id, &sb, err));
    int rc = cay_sandbox_describe(sb, w->call, &info, err);
    cay_state state = CAY_STATE_NONE;
    if (rc == 0)
        state = info->state;
    if (rc == 0 && info->level < (cay_level)w->s->level && cay__state_live(state))
        rc = cay_fail_why(err, CAY_EISOLATION, "level_missing",
                          "sandbox %s has level %d and its state says %d", row->id,
                          (int)info->level, w->s->level);
    if (rc == 0)
        cay_info_free(info);
    *how = CAY_RESUMED_ALIVE;
    if (rc == 0) {
        if (state == CAY_STOPPED)
            rc = start_stopped(w, row, sb, how, err);
        else
            rc = cay_sandbox_resume(sb, w->call, err);
    }
    if (rc < 0)
        cay_sandbox_unref(sb);
    else
        *out = sb;
    return rc;
}

static int check_snapshot(const way *w, cay_err *err)
{
    cay_snapshot *snap = NULL;
    cay_err own = CAY_ERR_INIT;
    if (w->s->on)
        return cay_fail_why(err, CAY_EGONE, "state_lost",
                            "sandbox %s is gone, and one that was made on a directory of the host "
                            "cannot be made again from a "
                            "snapshot; make a new one on it",
                            w->s->id);
    if (!w->s->snapshot[0])
        return cay_fail_why(err, CAY_EGONE, "state_lost",
                            "sandbox %s is gone and its state has no snapshot; save states with a "
                            "snapshot to outlive it",
                            w->s->id);
    int rc = cay_client_snapshot(w->client, w->call, w->s->snapshot, &snap, &own);
    if (rc == CAY_ENOENT)
        return cay_fail_why(err, CAY_EGONE, "state_lost", "sandbox %s and its snapshot %s are gone",
                            w->s->id, w->s->snapshot);
    CAY_TRY(cay__err_pass(rc, &own, err));
    bool ours = !strcmp(snap->sandbox, w->s->id) && !strcmp(snap->provider, w->s->provider);
    cay_snapshot_free(snap);
    /* Somebody else's files do not come by a state that names them. */
    if (ours)
        return 0;
    return cay_fail_why(err, CAY_EPERM, "state_refused", "snapshot %s is not one of sandbox %s",
                        w->s->snapshot, w->s->id);
}

/* The plain variables of the state, then those given. */
static const cay_pair *join_env(const cay_pair *a, const cay_pair *b, cay__arena *mem)
{
    size_t n = 0, k = 0;
    for (const cay_pair *p = a; p && p->key; p++)
        n++;
    for (const cay_pair *p = b; p && p->key; p++)
        n++;
    cay_pair *env = cay__arena_take(mem, (n + 1) * sizeof *env);
    for (const cay_pair *p = a; p && p->key; p++)
        env[k++] = *p;
    for (const cay_pair *p = b; p && p->key; p++)
        env[k++] = *p;
    return env;
}

static int rebuild_sandbox(const way *w, cay_sandbox **out, cay_err *err)
{
    CAY__AUTOARENA mem = { 0 };
    const cay_create *given = w->with;
    CAY__OP(w->call, "sandbox.restore", w->s->id, err);
    CAY_TRY(check_snapshot(w, err));
    CAY_TRY(cay__state_match(w->s, given, given->manifest.text ? &w->given : NULL, err));
    cay_create c = w->s->spec->create;
    c.provider = w->s->provider;
    c.isolation.min_level = CAY_MAX(w->s->level, given->isolation.min_level);
    c.from.snapshot = w->s->snapshot;
    c.from.root = given->from.root;
    if (given->process.user)
        c.process.user = given->process.user, c.process.group = given->process.group;
    c.from.directory = given->from.directory;
    c.net.policy = given->net.policy;
    c.files.grants = given->files.grants, c.files.ngrants = given->files.ngrants;
    c.files.volumes = given->files.volumes, c.files.nvolumes = given->files.nvolumes;
    c.net.secrets = given->net.secrets, c.net.nsecrets = given->net.nsecrets;
    c.manifest.text = given->manifest.text, c.manifest.base = given->manifest.base,
    c.manifest.trusted = true;
    c.process.env = join_env(c.process.env, given->process.env, &mem);
    /* The snapshot has what the manifest put there, and what became of it: only what is written at
     * each start is written. */
    c.manifest.applied = true;
    return cay__create_as(w->client, w->call, w->s->id, &c, out, err);
}

static int check_given(way *w, cay_err *err)
{
    if (w->with->manifest.text)
        CAY_TRY(cay__state_manifest_of(w->with->manifest.text, &w->given, err));
    /* Rights of a mount are bound anew at every resume, or not at all. */
    if (w->s->mounts && !w->with->manifest.text)
        return cay__state_match(w->s, w->with, NULL, err);
    if (w->s->mounts)
        return cay__state_topology(w->s->manifest, w->given.text, err);
    return 0;
}

int cay_client_resume_state(cay_client *client, const cay_call *call, const cay_resume_state *given,
                            cay_sandbox **out, cay_resumed *how, cay_err *err)
{
    CAY_TRY(cay__remote_none(client, "session state", err));
    cay_resume_state r;
    cay_create with = { .size = sizeof with };
    CAY_AUTOFREE cay__row *row = NULL;
    cay__state *s = NULL;
    cay_resumed did = CAY_RESUMED_REBUILT;
    CAY_TRY(cay__spec_take(&r, sizeof r, given, "cay_resume_state", err));
    if (r.with)
        CAY_TRY(cay__spec_take(&with, sizeof with, r.with, "cay_create", err));
    CAY_TRY(cay__call_check(call, "resume", err));
    CAY_TRY(cay__state_read(CAY_OR(r.state, ""), r.state ? r.len : 0, &s, err));
    way w = { .client = client, .call = call, .s = s, .with = &with };
    int rc = check_provider(&w, err);
    if (rc == 0)
        rc = check_given(&w, err);
    if (rc == 0 && (rc = cay__client_row(client, s->id, &row, err)) == 0)
        rc = reconnect_sandbox(&w, &row->row, out, &did, err);
    else if (rc == CAY_ENOENT)
        rc = rebuild_sandbox(&w, out, err);
    if (rc == 0 && how)
        *how = did;
    cay__state_manifest_clear(&w.given);
    cay__state_free(s);
    return rc;
}
