/* SPDX-License-Identifier: Apache-2.0 */
/* What is done to a whole sandbox. Each may be asked twice, and by two programs at once. */
#include "remote.h"
#include <lib/snapshot/diff.h>
#include <lib/manifest/client_manifest.h>
#include <lib/manifest/client_mounts.h>
#include "secret.h"
#include "client.h"
#include <lib/snapshot/snapshot.h>
#include "spec.h"
#include <base/fault.h>
#include <poll.h>
#include <lib/manifest/manifest.h>
#include <lib/sandbox/limits.h>

#define WAIT_STEP_MS 100

/* A sandbox as it is now. Without a record (row NULL) it lives as long as its clients. */
typedef struct look {
    cay_client *client;
    cay__row *row;
    cay__truth t;
    void *box; /* to work on; NULL when it is not alive */
} look;

static void look_clear(look *l)
{
    cay__truth_clear(&l->t);
    free(l->row);
}
#define AUTOLOOK __attribute__((cleanup(look_clear))) look

static int look_unrecorded(cay_sandbox *sb, const cay_call *call, look *l, cay_err *err)
{
    l->box = atomic_load(&sb->box);
    l->t = (cay__truth){ .state = CAY_GONE, .ops = sb->ops };
    if (!l->box)
        return 0;
    cay_err own = CAY_ERR_INIT;
    l->t.status = (cay_box_status){ .size = sizeof l->t.status };
    int rc = sb->ops->status(l->box, call, &l->t.status, &own);
    if (rc == 0) {
        l->t.asked = true;
        l->t.state = l->t.status.state;
        CAY_COPY(l->t.reason, CAY_OR(l->t.status.reason, ""));
    }
    if (rc == CAY_EGONE || rc == CAY_ENOENT ||
        l->t.state == CAY_STOPPED) { /* nothing is kept of it */
        l->t.state = CAY_GONE;
        l->box = NULL;
        return 0;
    }
    return cay__err_pass(rc, &own, err);
}

static int look_at(cay_sandbox *sb, const cay_call *call, look *l, cay_err *err)
{
    *l = (look){ .client = sb->owner };
    int rc = CAY_ENOENT;
    if (l->client)
        rc = cay__client_row(l->client, sb->id, &l->row, err);
    if (rc == CAY_ENOENT)
        rc = look_unrecorded(sb, call, l, err);
    else if (rc == 0 && (rc = cay__truth_find(l->client, call, &l->row->row, &l->t, err)) == 0) {
        if (cay__state_live(l->t.state))
            l->box = l->t.box;
        else
            l->box = NULL;
    }
    if (rc == 0)
        atomic_store(&sb->state, l->t.state);
    return rc;
}

int cay__wrong_state(const cay_sandbox *sb, const char *verb, cay_state s, cay_err *err)
{
    switch (s) {
    case CAY_GONE:
        return cay_fail_why(err, CAY_ENOENT, "sandbox_not_found", "%s: sandbox %s is gone", verb,
                            sb->id);
    case CAY_DELETING:
        return cay_fail_why(err, CAY_EGONE, "sandbox_deleting", "%s: sandbox %s is being removed",
                            verb, sb->id);
    case CAY_CREATING:
        return cay_fail_why(err, CAY_EBUSY, "sandbox_creating",
                            "%s: sandbox %s is still being made", verb, sb->id);
    case CAY_STOPPED:
        return cay_fail_why(err, CAY_ESTATE, "sandbox_stopped",
                            "%s: sandbox %s is stopped; try: cay resume %s", verb, sb->id, sb->id);
    case CAY_DAMAGED:
        return cay_fail_why(err, CAY_ESTATE, "sandbox_damaged",
                            "%s: the record of sandbox %s is damaged; try: cay rm -f %s", verb,
                            sb->id, sb->id);
    default:
        return cay_fail_why(err, CAY_ESTATE, "sandbox_state", "%s: sandbox %s is %s", verb, sb->id,
                            cay_state_name(s));
    }
}

/* The fact is there; a record that has gone meanwhile or says so already is fine. */
static int note_state(cay_sandbox *sb, look *l, cay_state to, const char *reason, cay_err *err)
{
    atomic_store(&sb->state, to);
    if (l->row)
        return cay__client_move(l->client, sb->id, to, reason, NULL, err);
    return 0;
}

int cay_sandbox_pause(cay_sandbox *sb, const cay_call *call, cay_err *err)
{
    CAY__OP(call, "sandbox.pause", sb->id, err);
    if (cay__remote_of(sb))
        return cay__remote_order(sb, call, CAY__OPERATION(sandbox_pause), CAY_PAUSED, err);
    AUTOLOOK l = { 0 };
    CAY_TRY(look_at(sb, call, &l, err));
    if (l.t.state == CAY_PAUSED)
        return 0;
    if (l.t.state != CAY_RUNNING)
        return cay__wrong_state(sb, "pause", l.t.state, err);
    if (!sb->ops->pause)
        return cay__no_such_op(sb, "pause", err);
    CAY_TRY(sb->ops->pause(l.box, call, err));
    CAY_FAULT("pause.done");
    return note_state(sb, &l, CAY_PAUSED, "", err);
}

/* The handle may be from before the sandbox was started again. */
static void adopt_box(cay_sandbox *sb, look *l, cay_state state)
{
    if (l->t.box && !atomic_load(&sb->box))
        cay__handle_rebox(sb, CAY_STEAL(l->t.box), state);
}

/* With secrets: started without the lines that bind them, then the values, then those. */
static int start_box(cay_client *client, const cay_provider_ops *ops, void *self,
                     const cay_call *asked, const char *id, cay__spec *spec, cay__given *given,
                     void **box, cay_err *err)
{
    cay_call own;
    CAY_TRY(cay__spec_take(&own, sizeof own, asked, "cay_call", err));
    own.user = NULL; /* what is put into it is its own user's, whoever woke it */
    const cay_call *call = NULL;
    if (asked)
        call = &own;
    cay__spec plain = *spec;
    CAY__AUTOMANI f = { 0 };
    CAY__AUTOSTORAGE storage = CAY__STORAGE_NONE;
    if (plain.create.net.nsecrets)
        CAY_TRY(cay__secrets_net_before(plain.create.net.policy, spec->mem,
                                        &plain.create.net.policy, err));
    CAY_TRY(cay__mani_prepare(client, &plain.create, spec->mem, &f, err));
    f.given = given;
    CAY_TRY(cay__mani_build(client, call, ops, &plain, &f, err));
    plain.create.process.env = cay__mani_env(&f, plain.create.process.env, spec->mem);
    CAY_TRY(cay__services_take(&plain, err));
    plain.box.services_wait = cay__services_wait(&plain, &f);
    CAY_TRY(cay__mounts_open(client, call, id, &f, &plain, &storage, err));
    CAY_TRY(ops->start(self, call, id, cay__spec_box(&plain), box, err));
    int rc =
        cay__box_fill(client, call, ops, id, &spec->create, &plain, &f, &storage, false, *box, err);
    if (rc < 0) {
        if (ops->stop)
            ops->stop(*box, NULL, NULL);
        ops->release(CAY_STEAL(*box));
    }
    return rc;
}

static int start_again(cay_sandbox *sb, const cay_call *call, look *l, cay__given *given,
                       cay_err *err)
{
    cay__place *p;
    cay__spec *spec = NULL;
    void *self, *box = NULL;
    CAY_AUTOFREE char *text = NULL;
    cay_client *client = l->client;

    CAY_TRY(cay__client_place(client, l->row->row.provider, &p, err));
    if (!p->ops->start)
        return cay__no_such_op(sb, "start again", err);
    CAY_TRY(cay__client_self(client, p, &self, err));
    CAY_AUTOFREE char *reason = cay__strdup(l->row->row.reason);
    /* The intent first: if this program dies now, the next one looks whether it runs. From now on
     * nobody merges its layers. */
    int rc =
        CAY__STORE(client, move, sb->id, CAY__BIT(CAY_STOPPED), CAY_STOPPED, "starting", NULL, err);
    if (rc == CAY_ESTATE) /* somebody was faster: what it is now decides */
        return cay__sandbox_resume(sb, call, given, err);
    CAY_TRY(rc);
    CAY_FAULT("resume.intended");
    CAY_AUTOFD lock = -1;
    rc = cay__stack_renew(client, call, sb->id, &l->row, &lock, err);
    if (rc == 0 && l->row->row.state != CAY_STOPPED) { /* likewise */
        cay__close_fd(&lock);
        return cay__sandbox_resume(sb, call, given, err);
    }
    if (rc == 0)
        rc = cay__spec_read(&l->row->row, &spec, err);
    if (rc == 0)
        rc = cay__create_check(cay__spec_box(spec), client->home_fd, client->run, err);
    if (rc == 0)
        rc = start_box(client, p->ops, self, call, sb->id, spec, given, &box, err);
    if (rc < 0)
        CAY__STORE(client, move, sb->id, CAY__BIT(CAY_STOPPED), CAY_STOPPED, reason, NULL, NULL);
    cay__spec_free(spec);
    CAY_FAULT("resume.started");
    CAY_TRY(rc);
    rc = cay__box_text(p->ops, box, &text, err);
    if (rc == 0)
        rc = cay__client_move(client, sb->id, CAY_RUNNING, "", text, err);
    if (rc == CAY_ENOENT || rc == CAY_ESTATE) { /* removed meanwhile: it must not live on */
        if (p->ops->destroy(box, NULL, NULL) < 0)
            p->ops->release(box);
        return cay_fail_why(err, CAY_EGONE, "sandbox_gone",
                            "sandbox %s was removed while it was being started", sb->id);
    }
    cay__handle_rebox(sb, box, CAY_RUNNING);
    return rc;
}

int cay__sandbox_resume(cay_sandbox *sb, const cay_call *call, cay__given *given, cay_err *err)
{
    AUTOLOOK l = { 0 };
    CAY_TRY(look_at(sb, call, &l, err));
    if (given && given->strict && given->env && l.t.state != CAY_STOPPED)
        return cay_fail_why(
            err, CAY_ESTATE, "sandbox_state",
            "sandbox %s is %s: variables are given when it starts; stop it first (cay kill %s)",
            sb->id, cay_state_name(l.t.state), sb->id);
    switch (l.t.state) {
    case CAY_RUNNING: adopt_box(sb, &l, CAY_RUNNING); return 0;
    case CAY_STOPPED: return start_again(sb, call, &l, given, err);
    case CAY_PAUSED: break;
    default: return cay__wrong_state(sb, "resume", l.t.state, err);
    }
    if (!sb->ops->resume)
        return cay__no_such_op(sb, "resume", err);
    CAY_TRY(sb->ops->resume(l.box, call, err));
    CAY_FAULT("resume.done");
    adopt_box(sb, &l, CAY_RUNNING);
    return note_state(sb, &l, CAY_RUNNING, "", err);
}

int cay_sandbox_resume(cay_sandbox *sb, const cay_call *call, cay_err *err)
{
    CAY__OP(call, "sandbox.resume", sb->id, err);
    if (cay__remote_of(sb))
        return cay__remote_order(sb, call, CAY__OPERATION(sandbox_resume), CAY_RUNNING, err);
    return cay__sandbox_resume(sb, call, NULL, err);
}

int cay_sandbox_restart(cay_sandbox *sb, const cay_call *call, const cay_pair *env, char **missing,
                        cay_err *err)
{
    CAY__OP(call, "sandbox.resume", sb->id, err);
    cay__given given = { .env = env && env->key ? env : NULL, .strict = true };
    if (given.env)
        CAY_TRY(cay__remote_none(sb->owner, "variables at a resume", err));
    if (cay__remote_of(sb))
        return cay__remote_order(sb, call, CAY__OPERATION(sandbox_resume), CAY_RUNNING, err);
    int rc = cay__sandbox_resume(sb, call, &given, err);
    if (rc == 0 && missing)
        *missing = CAY_STEAL(given.missing);
    free(given.missing);
    return rc;
}

int cay_sandbox_wake(cay_sandbox *sb, const cay_call *call, cay_err *err)
{
    if (cay__remote_of(sb)) /* the server does, where that was asked for */
        return 0;
    CAY_AUTOFREE cay__row *row = NULL;
    cay__spec *spec = NULL;
    cay_state now = (cay_state)atomic_load(&sb->state);
    if ((now != CAY_PAUSED && now != CAY_STOPPED) || !sb->owner ||
        cay__client_row(sb->owner, sb->id, &row, NULL) < 0 ||
        cay__spec_read(&row->row, &spec, NULL) < 0)
        return 0;
    bool asked = spec->create.life.auto_resume;
    cay__spec_free(spec);
    if (asked)
        return cay_sandbox_resume(sb, call, err);
    return 0;
}

int cay_sandbox_extend(cay_sandbox *sb, const cay_call *call, uint64_t ttl_ms, uint64_t idle_ms,
                       cay_err *err)
{
    CAY__OP(call, "sandbox.extend", sb->id, err);
    if (cay__remote_of(sb))
        return sb->ops->extend(sb->box, call, ttl_ms, idle_ms, err);
    AUTOLOOK l = { 0 };
    uint64_t most = (uint64_t)100 * 366 * 86400000;
    if ((ttl_ms > most && ttl_ms != CAY_UNLIMITED) || (idle_ms > most && idle_ms != CAY_UNLIMITED))
        return cay_fail_why(err, CAY_EINVAL, "limit_out_of_range",
                            "ttl and idle time are at most a hundred years");
    CAY_TRY(look_at(sb, call, &l, err));
    if (!l.box)
        return cay__wrong_state(sb, "extend", l.t.state, err);
    if (sb->ops->extend)
        return sb->ops->extend(l.box, call, ttl_ms, idle_ms, err);
    return cay__no_such_op(sb, "extend", err);
}

int cay_sandbox_usage(cay_sandbox *sb, const cay_call *call, cay_usage *out, cay_err *err)
{
    CAY__OP(call, "sandbox.usage", sb->id, err);
    if (cay__remote_of(sb))
        return sb->ops->usage(sb->box, call, out, err);
    AUTOLOOK l = { 0 };
    cay_usage u = { .size = sizeof u };
    CAY_TRY(look_at(sb, call, &l, err));
    if (!l.box)
        return cay__wrong_state(sb, "usage", l.t.state, err);
    if (!sb->ops->usage)
        return cay__no_such_op(sb, "usage", err);
    CAY_TRY(sb->ops->usage(l.box, call, &u, err));
    cay__answer_give(out, &u, sizeof u);
    return 0;
}

static int describe_sandbox(cay_sandbox *sb, const cay_call *call, cay_info **out, cay_err *err)
{
    if (cay__remote_of(sb))
        return cay__remote_describe(sb, call, out, err);
    AUTOLOOK l = { 0 };
    CAY_TRY(look_at(sb, call, &l, err));
    if (!l.row && l.t.state == CAY_GONE)
        return cay__wrong_state(sb, "describe", CAY_GONE, err);
    *out = cay__info_new(sb->id, l.row ? &l.row->row : NULL, &l.t);
    if (l.client)
        cay__info_mounts(l.client, *out);
    void *box = CAY_OR(l.t.box, atomic_load(&sb->box));
    if (box)
        cay__info_boot_id(*out, sb->ops, box, call);
    return 0;
}

int cay_sandbox_describe(cay_sandbox *sb, const cay_call *call, cay_info **out, cay_err *err)
{
    CAY__OP(call, "sandbox.describe", sb->id, err);
    CAY_TRY(describe_sandbox(sb, call, out, err));
    cay__op_alive(&op_, (*out)->state == CAY_RUNNING);
    return 0;
}

/* Ends a box by a handle of its own, so that calls under way on other handles stay safe. */
static int wipe_unrecorded(cay_sandbox *sb, const cay_call *call, cay_err *err)
{
    cay_row row = {
        .size = sizeof row, .id = sb->id, .provider = sb->ops->name, .state = CAY_RUNNING
    };
    if (sb->owner)
        CAY_TRY(cay__box_wipe(sb->owner, call, &row, err));
    if (sb->owner) {
        cay__volumes_forget(sb->owner, sb->id);
        cay__stack_release(sb->owner, sb->id);
    }
    atomic_store(&sb->state, CAY_GONE);
    return 0;
}

int cay_sandbox_kill(cay_sandbox *sb, const cay_call *call, cay_err *err)
{
    CAY__OP(call, "sandbox.kill", sb->id, err);
    if (cay__remote_of(sb))
        return cay__remote_order(sb, call, CAY__OPERATION(sandbox_kill), CAY_STOPPED, err);
    AUTOLOOK l = { 0 };
    CAY_TRY(look_at(sb, call, &l, err));
    if (!l.row)
        return wipe_unrecorded(sb, call, err);
    if (l.t.state == CAY_STOPPED)
        return 0;
    if (!l.box)
        return cay__wrong_state(sb, "kill", l.t.state, err);
    if (!sb->ops->stop)
        return cay__no_such_op(sb, "kill and keep the files", err);
    int rc = sb->ops->stop(l.box, call, err);
    CAY_FAULT("kill.done");
    if (rc < 0 && rc != CAY_EGONE)
        return rc;
    return note_state(sb, &l, CAY_STOPPED, "killed", err);
}

int cay__delete_finish(cay_client *client, const cay_call *call, const cay_row *row, cay_err *err)
{
    CAY_FAULT("remove.intended");
    CAY_TRY(cay__box_wipe(client, call, row, err));
    CAY_FAULT("remove.wiped");
    cay__expose_forget(client, row->id);
    cay__alias_forget(client, row->id);
    cay__start_forget(client, row->id);
    cay__volumes_forget(client, row->id);
    cay__checkpoint_unmark(client, row->id);
    CAY_TRY(cay__checkpoint_drop(client, row->id, err));
    int rc = CAY__STORE(client, remove, row->id, err);
    if (rc == CAY_ENOENT)
        return 0;
    return rc;
}

int cay_sandbox_remove(cay_sandbox *sb, const cay_call *call, cay_err *err)
{
    CAY__OP(call, "sandbox.remove", sb->id, err);
    if (cay__remote_of(sb))
        return cay__remote_order(sb, call, CAY__OPERATION(sandbox_delete), CAY_GONE, err);
    CAY_AUTOFREE cay__row *row = NULL;
    cay_client *client = sb->owner;
    CAY_TRY(cay__call_check(call, "remove", err));
    int rc = CAY_ENOENT;
    if (client)
        rc = cay__client_row(client, sb->id, &row, err);
    if (rc == CAY_ENOENT)
        return wipe_unrecorded(sb, call, err);
    CAY_TRY(rc);
    rc = cay__client_move(client, sb->id, CAY_DELETING, row->row.reason, NULL, err);
    if (rc == 0)
        rc = cay__delete_finish(client, call, &row->row, err);
    if (rc < 0 && rc != CAY_ENOENT)
        return cay_wrap(err, rc, "remove %s", sb->id);
    atomic_store(&sb->state, CAY_GONE);
    return 0;
}

static int sleep_within_call(const cay_call *call, int ms, cay_err *err)
{
    int left = cay__call_left(call);
    struct pollfd p = { .fd = cay__call_cancel(call), .events = POLLIN };
    poll(&p, 1, left >= 0 ? CAY_MIN(left, ms) : ms);
    return cay__call_check(call, "wait", err);
}

int cay_sandbox_wait(cay_sandbox *sb, const cay_call *call, cay_state *state, cay_err *err)
{
    CAY__OP(call, "sandbox.wait", sb->id, err);
    if (cay__remote_of(sb)) {
        cay_state end;
        CAY_TRY(sb->ops->wait(sb->box, call, &end, err));
        if (state)
            *state = end;
        return 0;
    }
    for (;;) {
        AUTOLOOK l = { 0 };
        cay_state seen;
        CAY_TRY(look_at(sb, call, &l, err));
        if (l.t.state == CAY_STOPPED || l.t.state == CAY_GONE || l.t.state == CAY_DAMAGED) {
            if (state)
                *state = l.t.state;
            return 0;
        }
        bool asks = l.box && sb->ops->wait;
        int rc = 0;
        if (asks)
            rc = sb->ops->wait(l.box, call, &seen, err);
        if (rc < 0 && rc != CAY_EGONE)
            return rc;
        CAY_TRY(sleep_within_call(call, asks ? WAIT_STEP_MS / 10 : WAIT_STEP_MS, err));
    }
}

/* Other words for a sandbox that is there. */
int cay_sandbox_update(cay_sandbox *sb, const cay_call *call, const cay_update *given, cay_err *err)
{
    cay_client *client = sb->owner;
    cay_update u;
    CAY_AUTOFREE char *labels = NULL;
    CAY_TRY(cay__spec_take(&u, sizeof u, given, "cay_update", err));
    CAY_TRY(cay__call_check(call, "update", err));
    if (!client)
        return cay_fail_why(err, CAY_ENOTSUP, "not_supported",
                            "sandbox %s has no record that could be changed", sb->id);
    /* As strict as when it is made. */
    cay_create c = { .size = sizeof c,
                     .name = cay__text_or(u.name, NULL),
                     .labels = u.labels,
                     .metadata = u.metadata };
    CAY_TRY(cay__create_check(&(cay_box_spec){ .create = &c }, client->home_fd, client->run, err));
    CAY_TRY(cay__metadata_check(u.metadata, err));
    if (u.labels && !(labels = cay__pairs_text(u.labels)))
        return cay_fail_why(err, CAY_ETOOBIG, "labels_too_big", "the labels are too long together");
    return CAY__STORE(client, rename, sb->id, u.name, labels, u.metadata, err);
}
