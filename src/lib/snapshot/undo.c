/* SPDX-License-Identifier: Apache-2.0 */
/* Taking back: the sandbox stands on a snapshot again, and what it wrote since is gone. */
#include <lib/client/remote.h>
#include "diff.h"
#include <lib/manifest/client_mounts.h>
#include "snapshot.h"
#include <base/fault.h>
#include <base/json.h>

static int fail_nothing(const cay_sandbox *sb, const char *why, cay_err *err)
{
    return cay_fail_why(err, CAY_ESTATE, "undo_nothing",
                        "undo: %s; `cay snapshots %s` shows what there is to go back to", why,
                        sb->id);
}

/* Without --to: what it stands on, unless that was taken after the last command. */
static int find_last(cay_sandbox *sb, const char *from, cay__snaprow **out, cay_err *err)
{
    cay_client *client = sb->owner;
    if (!from || !*from)
        return fail_nothing(sb, "this sandbox has no snapshot", err);
    int rc = cay__snap_find(client, from, out, err);
    if (rc == CAY_ENOENT)
        return fail_nothing(sb, "the snapshot it stands on was removed", err);
    if (rc < 0 || !(*out)->row.automatic)
        return rc;
    CAY_AUTOFREE cay__snaprow *after = CAY_STEAL(*out);
    rc = CAY_ENOENT;
    if (*after->row.parent)
        rc = cay__snap_find(client, after->row.parent, out, err);
    if (rc == CAY_ENOENT)
        return fail_nothing(sb, "nothing is kept from before the last command", err);
    return rc;
}

/* Is `id` of this sandbox, or before what it stands on? */
static int check_ancestry(cay_sandbox *sb, const cay_snap_row *to, const char *from, cay_err *err)
{
    char at[CAY_ID_LEN + 1];
    if (!strcmp(to->sandbox, sb->id))
        return 0;
    for (CAY_COPY(at, CAY_OR(from, "")); *at;) {
        CAY_AUTOFREE cay__snaprow *row = NULL;
        if (!strcmp(at, to->id))
            return 0;
        if (cay__snap_row(sb->owner, at, &row, NULL) < 0)
            break;
        CAY_COPY(at, row->row.parent);
    }
    return cay_fail_why(err, CAY_EINVAL, "snapshot_foreign",
                        "snapshot %s is not of sandbox %s; `cay fork %s` makes a new one from it",
                        to->id, sb->id, to->id);
}

static int choose_target(cay_sandbox *sb, const char *to, cay__snaprow **out, cay_err *err)
{
    CAY_AUTOFREE cay__row *row = NULL;
    CAY_AUTOPTR(cay__spec) spec = NULL;
    CAY_TRY(cay__client_row(sb->owner, sb->id, &row, err));
    CAY_TRY(cay__spec_read(&row->row, &spec, err));
    int rc;
    if (to)
        rc = cay__snap_find_of(sb->owner, row->row.tenant, to, out, err);
    else
        rc = find_last(sb, spec->create.from.snapshot, out, err);
    if (rc == 0 && to)
        rc = check_ancestry(sb, &(*out)->row, spec->create.from.snapshot, err);
    return rc;
}

/* The intent, which holds the layers, too. */
static int record_intent(cay_client *client, const char *id, const cay_snap_row *to,
                         const char *mark, cay_err *err)
{
    CAY_AUTOJSON *o = json_object(), *layers = NULL;
    CAY_AUTOFREE cay__snaprow *still = NULL;
    CAY_TRY(cay__json_any("layers", to->layers, &layers, err));
    json_object_set_new(o, "to", json_string(to->id));
    json_object_set_new(o, "mark", json_string(mark));
    json_object_set(o, "layers", layers);
    CAY_AUTOFREE char *text = cay__json_text(o, 16384);
    CAY_TRY(client->store->layer_job_put(client->db, "undo", id, text, err));
    CAY_FAULT("undo.intended");
    int rc = cay__snap_row(client, to->id, &still,
                           err); /* from now on its layers stay; until now they might have gone */
    if (rc < 0)
        client->store->layer_job_drop(client->db, "undo", id, NULL);
    return rc;
}

/* box NULL: it is stopped, and what is above a directory of the host goes back. */
static int go_back(cay_sandbox *sb, const cay_call *call, void *box, const cay_snap_row *to,
                   cay_err *err)
{
    cay_client *client = sb->owner;
    char upper[64], before[CAY__MARK], after[CAY__MARK];
    cay__stack stack;
    CAY_TRY(cay__stack_read(to->layers, &stack, err));
    cay__upper_path(upper, sizeof upper, sb->id);
    cay__upper_mark(client, upper, before);
    CAY_TRY(record_intent(client, sb->id, to, before, err));
    int rc;
    if (box) {
        rc = sb->ops->restack(box, call, stack.name, stack.n, err);
        CAY_FAULT("undo.restacked");
    } else {
        rc = cay__on_ask(client, call, "back", sb->id, to->id, err);
        CAY_FAULT("on.back");
    }
    cay__upper_mark(client, upper, after);
    if (rc < 0 && strcmp(before, after) == 0) {
        client->store->layer_job_drop(client->db, "undo", sb->id, NULL);
        return rc;
    }
    if (rc < 0 && !box) /* past its middle */
        CAY_TRY(cay__on_ask(client, NULL, "finish", sb->id, to->id, err));
    rc = client->store->restack(client->db, sb->id, to->layers, to->id,
                                err); /* an answer that was lost changes nothing */
    CAY_FAULT("undo.recorded");
    return rc;
}

/* above a directory of the host
 */

/* Two overlays cannot be exchanged at one moment under a sandbox that runs, so it is stopped, and
 * started again. */
static int stop_it(cay_sandbox *sb, const cay_call *call, bool *ran, int *lock, cay_err *err)
{
    cay_client *client = sb->owner;
    for (int tries = 0; tries < 3;
         tries++) { /* another program may start it in between; under the lock nobody does */
        CAY_AUTOFREE cay__row *row = NULL;
        cay__truth t;
        CAY_TRY(cay__box_lock(client, call, sb->id, true, lock, err));
        CAY_TRY(cay__client_row(client, sb->id, &row, err));
        CAY_TRY(cay__truth_find(client, call, &row->row, &t, err));
        cay_state now = t.state;
        cay__truth_clear(&t);
        if (now == CAY_STOPPED)
            return 0;
        cay__close_fd(lock);
        if (!cay__state_live(now))
            return cay__wrong_state(sb, "undo", now, err);
        *ran = true;
        CAY_TRY(cay_sandbox_kill(sb, call, err));
    }
    return cay_fail_why(err, CAY_EBUSY, "stack_busy",
                        "another program starts sandbox %s again and again; try later", sb->id);
}

static int undo_on(cay_sandbox *sb, const cay_call *call, const char *to, cay__snaprow **target,
                   cay_err *err)
{
    CAY_AUTOFD lock = -1;
    bool ran = false;
    CAY_TRY(choose_target(sb, to, target, err)); /* before anything is stopped */
    free(CAY_STEAL(*target));
    int rc = stop_it(sb, call, &ran, &lock, err);
    if (rc == 0)
        rc = cay__stack_settle(sb->owner, sb->id, err);
    if (rc == 0)
        rc = choose_target(sb, to, target, err);
    if (rc == 0)
        rc = go_back(sb, call, NULL, &(*target)->row, err);
    cay__close_fd(&lock);
    int again = 0;
    if (ran)
        again = cay_sandbox_resume(sb, call, CAY_IF(rc == 0, err));
    CAY_TRY(rc);
    return again;
}

static bool is_on(const cay_row *row)
{
    CAY_AUTOPTR(cay__spec) spec = NULL;
    return cay__spec_read(row, &spec, NULL) == 0 && spec->create.from.directory;
}

/* A container that mounts storage itself does so when it starts. */
static bool mounts_inside(cay_client *client, const cay_row *row)
{
    CAY_AUTOPTR(cay__spec) spec = NULL;
    bool does = false;
    if (cay__mounts_by_container(row->provider) && cay__spec_read(row, &spec, NULL) == 0) {
        CAY__AUTOMANI f = { 0 };
        does = cay__mani_prepare(client, &spec->create, spec->mem, &f, NULL) == 0 &&
               cay__mounts_wants_inside(&f, row->provider);
    }
    return does;
}

int cay_sandbox_undo(cay_sandbox *sb, const cay_call *call, const char *to, cay_snapshot **out,
                     cay_err *err)
{
    CAY__OP(call, "sandbox.undo", sb->id, err);
    if (cay__remote_of(sb)) {
        cay__undo_body body = { to };
        return cay__remote_snapshot(cay__remote_of(sb), call,
                                    &CAY__REQUEST(sandbox_undo, .path = { sb->id }, .body = &body),
                                    out, err);
    }
    CAY_AUTOFREE cay__snaprow *target = NULL;
    CAY_AUTOFREE cay__row *row = NULL;
    CAY_AUTOFD lock = -1;
    void *box = NULL;
    bool started = false;
    cay_client *client = sb->owner;
    CAY_TRY(cay__call_check(call, "undo", err));
    int rc = CAY_ENOENT;
    if (client)
        rc = cay__client_row(client, sb->id, &row, err);
    if (rc == CAY_ENOENT)
        return fail_nothing(sb, "this sandbox keeps no record", err);
    CAY_TRY(rc);
    if (row->row.state == CAY_DAMAGED || row->row.state == CAY_DELETING ||
        row->row.state == CAY_CREATING)
        return cay__wrong_state(sb, "undo", row->row.state, err);
    if (!CAY__HAS(sb->ops, restack))
        return cay_fail_why(err, CAY_ENOTSUP, "snapshot_unsupported",
                            "undo: provider %s has no snapshots", sb->ops->name);
    if (is_on(&row->row)) {
        rc = undo_on(sb, call, to, &target, err);
        goto end;
    }
    CAY_TRY(choose_target(sb, to, &target, err));
    CAY_TRY(cay__box_awake(sb, call, "undo", &box, &started, err));
    rc = cay__box_lock(client, call, sb->id, true, &lock, err);
    free(CAY_STEAL(target));
    if (rc == 0)
        rc = cay__stack_settle(client, sb->id, err);
    if (rc == 0) /* again: another program may have been at it */
        rc = choose_target(sb, to, &target, err);
    if (rc == 0)
        rc = go_back(sb, call, box, &target->row, err);
    sb->ops->release(box);
    cay__close_fd(&lock);
    bool again = rc == 0 && !started && mounts_inside(client, &row->row);
    if (again)
        rc = cay_sandbox_kill(sb, call, err);
    if (again && rc == 0)
        rc = cay_sandbox_resume(sb, call, err);
    if (started)
        cay_sandbox_kill(sb, NULL, NULL);
end:
    if (rc < 0)
        return cay_wrap(err, rc, "undo %s", sb->id);
    if (out)
        *out = cay__snapshot_new(&target->row);
    return 0;
}
