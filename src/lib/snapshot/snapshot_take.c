/* SPDX-License-Identifier: Apache-2.0 */
/* Taking a snapshot: recorded as wanted, made, recorded as made. And what is done when somebody
 * died in between. */
#include <lib/client/remote.h>
#include "diff.h"
#include <lib/manifest/client_manifest.h>
#include "snapshot.h"
#include <base/fault.h>
#include <base/json.h>
#include <cay/access.h>
#include <poll.h>

#define META_BYTES 65536
#define LOCK_STEP  2 /* ms */
#define DECIDE_MS  5000

/* A byte of one file for each sandbox: nothing is left behind. Two sandboxes may share one, and
 * then wait for each other. */
int cay__box_lock(cay_client *client, const cay_call *call, const char *id, bool wait, int *out,
                  cay_err *err)
{
    CAY_AUTOFD fd =
        openat(client->home_fd, "stacks.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    struct flock l = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = cay__hash(id, strlen(id)), .l_len = 1
    };
    if (fd < 0)
        return cay_fail_sys(err, "open stacks.lock");
    while (fcntl(fd, F_OFD_SETLK, &l) < 0) {
        struct pollfd p = { .fd = cay__call_cancel(call), .events = POLLIN };
        if (errno != EAGAIN && errno != EACCES && errno != EINTR)
            return cay_fail_sys(err, "lock stacks.lock");
        if (!wait)
            return cay_fail_why(err, CAY_EBUSY, "stack_busy",
                                "another program works on the layers of sandbox %s; try again", id);
        poll(&p, 1, LOCK_STEP);
        CAY_TRY(cay__call_check(call, "wait for the sandbox's layers", err));
    }
    *out = CAY_STEAL_FD(fd);
    return 0;
}

void cay__upper_path(char *buf, size_t cap, const char *id)
{
    cay__str_join(buf, cap, "sandboxes/", id, "/upper", NULL);
}

/* An inode's number may come again; with the time of its birth it does not. */
void cay__upper_mark(const cay_client *client, const char *path, char *buf)
{
    struct statx st;
    *buf = 0;
    if (statx(client->home_fd, path, AT_SYMLINK_NOFOLLOW, STATX_INO | STATX_BTIME, &st) == 0)
        snprintf(buf, CAY__MARK, "%x:%x:%llx:%llx.%x", st.stx_dev_major, st.stx_dev_minor,
                 (unsigned long long)st.stx_ino, (unsigned long long)st.stx_btime.tv_sec,
                 st.stx_btime.tv_nsec);
}

int cay__box_awake(cay_sandbox *sb, const cay_call *call, const char *verb, void **box,
                   bool *started, cay_err *err)
{
    cay_client *client = sb->owner;
    for (int tries = 0;; tries++) {
        CAY_AUTOFREE cay__row *row = NULL;
        cay__truth t;
        CAY_TRY(cay__client_row(client, sb->id, &row, err));
        int rc = cay__truth_find(client, call, &row->row, &t, err);
        if (rc == 0 && cay__state_live(t.state) && t.box) {
            *box = CAY_STEAL(t.box);
            return 0;
        }
        cay__truth_clear(&t);
        CAY_TRY(rc);
        if (t.state != CAY_STOPPED || tries)
            return cay__wrong_state(sb, verb, t.state, err);
        CAY_TRY(cay_sandbox_resume(sb, call, err));
        *started = true;
    }
}

static int no_record(const cay_sandbox *sb, cay_err *err)
{
    return cay_fail_why(err, CAY_ENOTSUP, "snapshot_ephemeral",
                        "sandbox %s is thrown away with its command and keeps no record; use `cay "
                        "create`, or `cay run --keep`",
                        sb->id);
}

static int check_spec(cay_sandbox *sb, const cay_call *call, cay_snapshot_spec *s, cay_err *err)
{
    CAY_AUTOFREE cay__row *row = NULL;
    CAY_AUTOJSON *meta = NULL;
    CAY_TRY(cay__call_check(call, "snapshot", err));
    s->label = cay__text_or(s->label, NULL);
    CAY_TRY(cay__snap_label_check(s->label, err));
    if (s->metadata && strlen(s->metadata) > META_BYTES)
        return cay_fail_why(err, CAY_ETOOBIG, "metadata_too_big",
                            "metadata is longer than %d bytes", META_BYTES);
    if (s->metadata)
        CAY_TRY(cay__json_object("metadata", s->metadata, &meta, err));
    if (s->quiet && s->stop)
        return cay_fail_why(err, CAY_EINVAL, "spec_invalid", "quiet and stop exclude each other");
    int rc = CAY_ENOENT;
    if (sb->owner)
        rc = cay__client_row(sb->owner, sb->id, &row, err);
    if (rc == CAY_ENOENT)
        return no_record(sb, err);
    CAY_TRY(rc);
    if (row->row.state == CAY_DAMAGED || row->row.state == CAY_DELETING ||
        row->row.state == CAY_CREATING)
        return cay__wrong_state(sb, "snapshot", row->row.state, err);
    if (!CAY__HAS(sb->ops, snapshot))
        return cay_fail_why(err, CAY_ENOTSUP, "snapshot_unsupported",
                            "provider %s cannot take snapshots", sb->ops->name);
    return 0;
}

/* What a fork needs to be like it: the request and the labels. */
static int spec_for_forks(const cay_row *row, char **out, cay_err *err)
{
    CAY_AUTOJSON *o = NULL, *labels = NULL;
    CAY_TRY(cay__json_object("record: spec", row->spec, &o, err));
    CAY_TRY(cay__json_object("record: labels", row->labels, &labels, err));
    json_object_set(o, "labels", labels);
    json_object_del(o, "layers");
    if (json_object_get(o, "on") && !json_object_get(o, "on_since_ms"))
        json_object_set_new(o, "on_since_ms", json_integer(row->created_ms));
    *out = cay__json_text(o, 2 * CAY__SPEC_MAX);
    if (*out)
        return 0;
    return cay_fail_why(err, CAY_ETOOBIG, "spec_too_big", "the record of sandbox %s is too big",
                        row->id);
}

/* It is there: its stack is the sandbox's with it on top. */
static int complete_row(cay_client *client, const cay_snap_row *row, const cay_snapped *how,
                        cay_err *err)
{
    cay__stack stack;
    cay_snap_row done = *row;
    CAY_TRY(cay__stack_read(row->layers, &stack, err));
    CAY_TRY(cay__stack_push(&stack, row->id, err));
    CAY_AUTOFREE char *layers = cay__stack_text(&stack);
    done.layers = layers;
    done.method = how->method;
    done.bytes = how->bytes;
    done.files = how->files;
    done.frozen_us = how->frozen_us;
    done.total_us = how->total_us;
    return client->store->snap_ready(client->db, &done, how->stacked, err);
}

/* Nobody knows how it ended. The layer tells: is it what the sandbox wrote into, then the sandbox
 * stands on it. */
static int find_out(cay_client *client, const cay_snap_row *row, cay_err *err)
{
    char path[64], now[CAY__MARK];
    CAY_JOIN(path, CAY__LAYERS_DIR "/", row->id);
    cay__upper_mark(client, path, now);
    if (!cay__layer_there(client, row->id))
        return client->store->snap_remove(client->db, row->id, err);
    bool swapped = *row->mark && !strcmp(now, row->mark);
    cay_snapped how = { .size = sizeof how,
                        .method = swapped ? "swap" : "copy",
                        .stacked = swapped };
    return complete_row(client, row, &how, err);
}

/* below: what the sandbox shall stand on instead of the stack it has; NULL: on that. */
static int make_snapshot(cay_client *client, const cay_call *call, const cay_provider_ops *ops,
                         void *box, const cay_snap_row *row, const cay__stack *below,
                         const cay_snapshot_spec *s, cay_err *err)
{
    char last[CAY_ID_LEN + 1] = "";
    cay_snapped made = { .size = sizeof made };
    client->store->snap_last(client->db, row->sandbox, row->layers, last, NULL);
    cay_snap want = {
        .size = sizeof want, .layer = row->id, .last = cay__text_or(last, NULL), .how = CAY_SNAP_ANY
    };
    if (s->quiet)
        want.how = CAY_SNAP_QUIET;
    else if (s->stop)
        want.how = CAY_SNAP_STOP;
    if (below) {
        want.layers = below->name;
        want.nlayers = below->n;
    }
    CAY_TRY(client->store->snap_insert(client->db, row, err));
    CAY_FAULT("snapshot.recorded");
    int rc;
    if (CAY_FAULT_FAILS("snapshot.make"))
        rc = cay_fail_sys(err, "make the snapshot");
    else
        rc = ops->snapshot(box, call, &want, &made, err);
    CAY_FAULT("snapshot.made");
    if (rc == 0)
        rc = complete_row(client, row, &made, err);
    else if (!cay__layer_there(client, row->id))
        client->store->snap_remove(client->db, row->id, NULL);
    else /* its answer was lost, but it is there */
        rc = find_out(client, row, err);
    CAY_FAULT("snapshot.ready");
    return rc;
}

/* Under the lock: the stack that the sandbox has now is the one below. */
static int record_and_take(cay_sandbox *sb, const cay_call *call, void *box,
                           const cay_snapshot_spec *s, bool automatic, char *id, cay_err *err)
{
    cay_client *client = sb->owner;
    CAY_AUTOFREE cay__row *box_row = NULL;
    CAY_AUTOFREE char *layers = NULL, *forks = NULL;
    char boot[64], mark[CAY__MARK], upper[64];
    CAY_AUTOPTR(cay__spec) spec = NULL;
    cay__stack stack;
    CAY_TRY(cay__client_row(client, sb->id, &box_row, err));
    CAY_TRY(spec_for_forks(&box_row->row, &forks, err));
    CAY_TRY(cay__spec_read(&box_row->row, &spec, err));
    CAY_TRY(cay__stack_of(spec->box.layers, spec->box.nlayers, &stack, err));
    bool merged = cay__stack_merged(client, &stack);
    if (stack.n == CAY__STACK_MAX)
        CAY_TRY(cay__stack_push(&stack, id, err)); /* tells why not */
    const cay_create *c = &spec->create;
    layers = cay__stack_text(&stack);
    cay__boot_id(boot, sizeof boot);
    cay__upper_path(upper, sizeof upper, sb->id);
    cay__upper_mark(client, upper, mark);
    cay_snap_row row = { .size = sizeof row,
                         .id = id,
                         .sandbox = sb->id,
                         .parent = c->from.snapshot,
                         .label = s->label,
                         .provider = sb->ops->name,
                         .template_ = CAY_OR(c->from.root, CAY_OR(c->from.template_, "host")),
                         .state = "making",
                         .boot = boot,
                         .mark = mark,
                         .metadata = s->metadata,
                         .layers = layers,
                         .spec = forks,
                         .automatic = automatic };
    return make_snapshot(client, call, sb->ops, box, &row, CAY_IF(merged, &stack), s, err);
}

/* By the sandbox and the word, so that nothing has to be written down to find it again. */
static void id_of_once(const char *sandbox, const char *once, char *id)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz234567";
    char hex[65];
    CAY_AUTOBUF b = CAY__BUF(8192);
    cay__buf_fmt(&b, "snapshot %s %s", sandbox, once);
    cay_idempotency_hash(b.data, b.len, hex);
    id[0] = 's';
    for (int i = 1; i < CAY_ID_LEN; i++) {
        char two[3] = { hex[2 * i], hex[2 * i + 1], 0 };
        id[i] = letters[strtoul(two, NULL, 16) & 31];
    }
    id[CAY_ID_LEN] = 0;
}

/* 1: it was taken before. Under the lock, so nobody is at it: one that is still being made was left
 * by somebody who died. */
static int taken_before(cay_client *client, const char *id, cay_err *err)
{
    CAY_AUTOFREE cay__snaprow *row = NULL;
    int rc = cay__snap_row(client, id, &row, NULL);
    if (rc < 0) {
        if (rc == CAY_ENOENT)
            return 0;
        return rc;
    }
    if (strcmp(row->row.state, "making") == 0)
        return cay_fail_why(err, CAY_EBUSY, "snapshot_busy",
                            "snapshot %s was begun and not finished; try again", id);
    return 1;
}

int cay__snap_take(cay_sandbox *sb, const cay_call *call, const cay_snapshot_spec *given,
                   bool automatic, char *id, cay_err *err)
{
    cay_snapshot_spec s;
    CAY_AUTOFD lock = -1;
    void *box = NULL;
    bool started = false;
    CAY__AUTOMANI passing = { 0 };
    CAY_TRY(cay__spec_take(&s, sizeof s, given, "cay_snapshot_spec", err));
    CAY_TRY(check_spec(sb, call, &s, err));
    if (s.once)
        id_of_once(sb->id, s.once, id);
    else
        cay__id_make(id, 's');
    CAY_TRY(cay__box_awake(sb, call, "snapshot", &box, &started, err));
    int rc = cay__box_lock(sb->owner, call, sb->id, true, &lock, err);
    bool before = false;
    if (rc == 0 && s.once) {
        rc = taken_before(sb->owner, id, err);
        before = rc > 0;
        if (before)
            rc = 0;
    }
    if (rc == 0 && !before)
        rc = cay__mani_hide(sb, call, &passing, err);
    if (rc == 0 && !before)
        rc = record_and_take(sb, call, box, &s, automatic, id, err);
    int back = cay__mani_unhide(sb, call, &passing, CAY_IF(rc == 0, err));
    if (rc >= 0)
        rc = back;
    sb->ops->release(box);
    cay__close_fd(&lock);
    if (started)
        cay_sandbox_kill(sb, NULL, NULL);
    return cay_wrap(err, rc, "snapshot %s", sb->id);
}

int cay_sandbox_snapshot(cay_sandbox *sb, const cay_call *call, const cay_snapshot_spec *spec,
                         cay_snapshot **out, cay_err *err)
{
    CAY__OP(call, "sandbox.snapshot", sb->id, err);
    if (cay__remote_of(sb)) {
        cay_snapshot_spec s;
        CAY_TRY(cay__spec_take(&s, sizeof s, spec, "cay_snapshot_spec", err));
        return cay__remote_snapshot(cay__remote_of(sb), call,
                                    &CAY__REQUEST(snapshot_create, .path = { sb->id }, .body = &s),
                                    out, err);
    }
    char id[CAY_ID_LEN + 1];
    CAY_TRY(cay__snap_take(sb, call, spec, false, id, err));
    if (out)
        return cay_client_snapshot(sb->owner, call, id, out, err);
    return 0;
}

static bool at_it(const cay_client *client, const char *id)
{
    char path[64], text[128];
    CAY_JOIN(path, "sandboxes/", id, "/swap");
    return cay__fd_read_file(client->home_fd, path, text, sizeof text) > 0;
}

static int no_process(const cay_proc_info *info, void *arg)
{
    return 0;
}

/* Whoever asked for it may have died with the question on its way: a keeper goes on with it, and
 * writes down that it does only when the sandbox stands still. Until then it keeps everybody
 * waiting who asks for what runs there, so that its answer tells that all that was asked before is
 * over. */
static bool caught_up(const cay__truth *t)
{
    cay_call call = { .size = sizeof call, .deadline_ms = cay__now_ms() + DECIDE_MS };
    /* To be paused waited in the same line. */
    return t->state == CAY_PAUSED || !t->box || !CAY__HAS(t->ops, procs) ||
           t->ops->procs(t->box, &call, no_process, NULL, NULL) == 0;
}

/* A provider that died over it finishes or takes back before it serves the sandbox again: only then
 * the disk tells. One that is not alive is as it was left. */
static bool is_decided(cay_client *client, const char *id)
{
    CAY_AUTOFREE cay__row *row = NULL;
    cay__truth t = { 0 };
    if (cay__client_row(client, id, &row, NULL) < 0)
        return true;
    int rc = cay__truth_find(client, NULL, &row->row, &t, NULL);
    bool live = rc == 0 && cay__state_live(t.state), over = !live || caught_up(&t);
    cay__truth_clear(&t);
    for (int64_t until = cay__now_ms() + DECIDE_MS;
         live && at_it(client, id) && cay__now_ms() < until;)
        poll(NULL, 0, LOCK_STEP);
    return rc == 0 && over && !(live && at_it(client, id));
}

typedef struct mending {
    cay_client *client;
    const char *only; /* a sandbox whose lock the caller has; NULL: all that nobody is at */
} mending;

static bool can_settle(const mending *m, const char *sandbox, int *lock)
{
    if (m->only ? strcmp(m->only, sandbox) != 0
                : cay__box_lock(m->client, NULL, sandbox, false, lock, NULL) < 0)
        return false;
    return is_decided(m->client, sandbox);
}

static int settle_row(const cay_snap_row *row, void *arg)
{
    const mending *m = arg;
    cay_client *client = m->client;
    CAY_AUTOFD lock = -1;
    if (strcmp(row->state, "making") != 0 || !can_settle(m, row->sandbox, &lock))
        return 0;
    CAY_AUTOFREE cay__snaprow *now = NULL;
    if (cay__snap_row(client, row->id, &now, NULL) == 0 && !strcmp(now->row.state, "making"))
        find_out(client, &now->row, NULL);
    return 0;
}

static int still_there(const cay_layer_job *job, void *arg)
{
    return !strcmp(job->subject, arg);
}

/* Was it made on a directory of the host? */
static bool is_on_host_dir(const cay_client *client, const char *id)
{
    char path[64];
    struct stat st;
    CAY_JOIN(path, "sandboxes/", id, "/on");
    char fresh[64];
    CAY_JOIN(fresh, "sandboxes/", id, "/on.new");
    return fstatat(client->home_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0 ||
           fstatat(client->home_fd, fresh, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* The sandbox has another directory to write into: then it stands on the layers it was to go back
 * to. */
static int settle_undo(const cay_layer_job *job, void *arg)
{
    const mending *m = arg;
    cay_client *client = m->client;
    CAY_AUTOFD lock = -1;
    CAY_AUTOJSON *o = NULL;
    char upper[64], aside[64], now[CAY__MARK];
    struct stat st;
    if (!can_settle(m, job->subject, &lock) ||
        client->store->layer_job_list(client->db, "undo", still_there, (void *)job->subject,
                                      NULL) != 1)
        return 0;
    int rc = cay__json_object("job", job->detail, &o, NULL);
    CAY_AUTOFREE char *layers = NULL;
    if (rc == 0)
        layers = cay__json_text(json_object_get(o, "layers"), 8192);
    cay__upper_path(upper, sizeof upper, job->subject);
    cay__upper_mark(client, upper, now);
    /* What a sandbox that is not alive had put aside it gets back when it starts. */
    CAY_JOIN(aside, "sandboxes/", job->subject, "/aside");
    /* What was to be above it: put in place, or dropped. Until that is done the job stays, and the
     * sandbox does not start. */
    if (is_on_host_dir(client, job->subject) &&
        cay__on_ask(client, NULL,
                    strcmp(now, cay__json_str(o, "mark", "")) != 0 ? "finish" : "drop",
                    job->subject, cay__json_str(o, "to", ""), NULL) < 0)
        return 0;
    if (!*now)
        cay__upper_mark(client, upper, now);
    bool done = layers && *now && strcmp(now, cay__json_str(o, "mark", "")) != 0 &&
                fstatat(client->home_fd, aside, &st, AT_SYMLINK_NOFOLLOW) < 0;
    if (done)
        rc = client->store->restack(client->db, job->subject, layers, cay__json_str(o, "to", ""),
                                    NULL);
    if (rc < 0 || !done)
        client->store->layer_job_drop(client->db, "undo", job->subject, NULL);
    return 0;
}

void cay__snap_reconcile(cay_client *client, const char *only)
{
    mending m = { client, only };
    unsigned what = 0;
    if (client->store->unsettled(client->db, "", &what, NULL) < 0 || !(what & CAY_STORE_BROKEN))
        return;
    client->store->snap_list(client->db, only, NULL, settle_row, &m, NULL);
    client->store->layer_job_list(client->db, "undo", settle_undo, &m, NULL);
}
