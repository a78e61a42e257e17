/* SPDX-License-Identifier: Apache-2.0 */
/* A snapshot after each command, when the sandbox was asked for it; the oldest go again. */
#include "snapshot.h"
#include <base/json.h>

typedef struct prune {
    cay__snaprow **at; /* automatic ones of this sandbox without a label, oldest first */
    size_t n;
} prune;

static void prune_free(prune *p)
{
    CAY_EACH_OF(it, p->at, p->n)
        free(*it);
    free(p->at);
}

/* Whoever gave it a label wants it for good. */
static int on_snapshot_row(const cay_snap_row *row, void *arg)
{
    prune *p = arg;
    if (!row->automatic || *row->label || strcmp(row->state, "ready") != 0)
        return 0;
    CAY_GROW(p->at, p->n);
    p->at[p->n++] = cay__snaprow_copy(row);
    return 0;
}

static cay__snaprow **find_snapshot(prune *p, const char *id)
{
    for (size_t i = p->n; i-- > 0;)
        if (p->at[i] && !strcmp(p->at[i]->row.id, id))
            return &p->at[i];
    return NULL;
}

/* The newest `keep` of those that the present state descends from stay; what was undone goes with
 * the next checkpoint. */
static int prune_checkpoints(cay_client *client, const char *sandbox, const char *newest,
                             unsigned keep, cay_err *err)
{
    __attribute__((cleanup(prune_free))) prune p = { 0 };
    char at[CAY_ID_LEN + 1];
    CAY_TRY(client->store->snap_list(client->db, sandbox, NULL, on_snapshot_row, &p, err));
    if (p.n <= keep)
        return 0;
    CAY_COPY(at, newest);
    for (unsigned kept = 0; kept < keep && *at;) {
        CAY_AUTOFREE cay__snaprow *other = NULL;
        cay__snaprow **mine = find_snapshot(&p, at);
        if (mine) {
            CAY_COPY(at, (*mine)->row.parent);
            free(CAY_STEAL(*mine));
            kept++;
        } else { /* one with a label stands between */
            bool there = cay__snap_row(client, at, &other, NULL) == 0;
            CAY_COPY(at, CAY_TEXT_IF(there, other->row.parent));
        }
    }
    for (size_t i = 0; i < p.n; i++) {
        int rc = 0;
        if (p.at[i])
            rc = client->store->snap_remove(client->db, p.at[i]->row.id, err);
        if (rc < 0 && rc != CAY_ENOENT)
            return rc;
    }
    return 0;
}

int cay__checkpoint_drop(cay_client *client, const char *sandbox, cay_err *err)
{
    return prune_checkpoints(client, sandbox, "", 0, err);
}

static int make_checkpoint(cay_sandbox *sb, cay_err *err)
{
    char id[CAY_ID_LEN + 1];
    CAY_TRY(cay__snap_take(sb, NULL, NULL, true, id, err));
    return prune_checkpoints(sb->owner, sb->id, id, sb->checkpoint, err);
}

void cay__checkpoint_arm(cay_sandbox *sb, unsigned keep)
{
    sb->checkpoint = keep;
    sb->ended = CAY_IF(keep, make_checkpoint);
}

void cay__checkpoint_look(cay_sandbox *sb, const cay_row *row)
{
    CAY_AUTOJSON *o = NULL;
    if (row->state == CAY_DAMAGED || !strstr(row->spec, "\"checkpoint\"") ||
        cay__json_object("", row->spec, &o, NULL) < 0)
        return;
    int64_t keep = cay__json_int(o, "checkpoint", 0);
    if (keep > 0 && keep <= INT32_MAX)
        cay__checkpoint_arm(sb, (unsigned)keep);
}

int cay__checkpoint_begin(cay_sandbox *sb, const cay_call *call, unsigned keep, cay_err *err)
{
    char id[CAY_ID_LEN + 1];
    cay__checkpoint_arm(sb, keep);
    return cay__snap_take(sb, call, NULL, true, id, err);
}

/* the mark for the small program
 */

int cay__checkpoint_mark(cay_client *client, const char *id, cay_err *err)
{
    char path[64];
    CAY_JOIN(path, CAY__MARKS_DIR "/", id);
    if (mkdirat(client->home_fd, CAY__MARKS_DIR, 0700) < 0 && errno != EEXIST)
        return cay_fail_sys(err, "make " CAY__MARKS_DIR);
    CAY_AUTOFD fd =
        openat(client->home_fd, path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return cay_fail_sys(err, "make %s", path);
    return 0;
}

void cay__checkpoint_unmark(cay_client *client, const char *id)
{
    char path[64];
    if (cay__id_valid(id, 'c') && CAY_JOIN(path, CAY__MARKS_DIR "/", id))
        unlinkat(client->home_fd, path, 0);
}
