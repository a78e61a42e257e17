/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After a crash or a reboot records and facts differ. Whoever opens the client next brings them
 * together:
 *
 *   creating, its maker dead    nobody was told of it: removed
 *   running or paused, no box   stopped, with the reason
 *   stopped, "starting"         running if it is alive, else stopped
 *   deleting                    the deletion is finished
 *   no record, after a reboot   removed
 *   snapshot "making", no maker completed when its layer is there, else dropped
 *
 * One program at a time does it; the others go on, since every look at a single sandbox does the
 * same for it.
 */
#include "client.h"
#include <lib/snapshot/snapshot.h>
#include <base/fault.h>
#include <base/json.h>
#include <sys/file.h>

#define GRACE_MS  600000 /* a maker that cannot be looked at */
#define START_MS  60000
#define FINISH_MS 20000

/* Field 22 of proc(5) stat: with the pid it names a process for ever. */
static int64_t start_time(int64_t pid)
{
    char path[64], text[1024];
    CAY_FORMAT(path, "/proc/%lld/stat", (long long)pid);
    if (cay__fd_read_file(AT_FDCWD, path, text, sizeof text) <= 0)
        return -1;
    char *p = strrchr(text, ')'); /* the name before it may hold anything */
    for (int field = 2; p && field < 22; field++)
        p = strchr(p + 1, ' ');
    if (p)
        return strtoll(p, NULL, 10);
    return -1;
}

/* Records carry the wall clock, which may be set: a time that is far ahead has passed, too. */
static bool is_older_than(int64_t since_ms, int64_t most_ms)
{
    int64_t age = cay__clock_ms() - since_ms;
    return age > most_ms || age < -most_ms;
}

static int64_t pid_space(void)
{
    struct stat st;
    if (stat("/proc/self/ns/pid", &st) == 0)
        return (int64_t)st.st_ino;
    return 0;
}

void cay__creator_text(char *buf, size_t cap)
{
    snprintf(buf, cap, "{\"creator\":{\"pid\":%d,\"start\":%lld,\"space\":%lld,\"boot_ms\":%lld}}",
             (int)getpid(), (long long)start_time(getpid()), (long long)pid_space(),
             (long long)cay__boot_ms());
}

void cay__creator_now(const cay_client *client, char *buf, size_t cap)
{
    const char *at = strstr(client->owner, "\"boot_ms\":");
    int pid = 0;
    if (!at || sscanf(client->owner, "{\"creator\":{\"pid\":%d", &pid) != 1 || pid != getpid()) {
        cay__creator_text(buf, cap);
        return;
    }
    snprintf(buf, cap, "%.*s\"boot_ms\":%lld}}", (int)(at - client->owner), client->owner,
             (long long)cay__boot_ms());
}

bool cay__maker_is_dead(const cay_row *row)
{
    CAY_AUTOJSON *j = NULL;
    const json_t *c = NULL;
    if (cay__json_object("", row->box, &j, NULL) == 0)
        c = json_object_get(j, "creator");
    int64_t pid = cay__json_int(c, "pid", 0), start = cay__json_int(c, "start", -1),
            since = cay__json_int(c, "boot_ms", -1);
    if (!c || pid <= 0 || cay__json_int(c, "space", 0) != pid_space()) {
        if (since < 0)
            return is_older_than(row->created_ms, GRACE_MS);
        return cay__boot_ms() - since > GRACE_MS;
    }
    return start_time(pid) != start;
}

typedef struct work {
    cay_client *client;
    bool rebooted;
    /* ids that the provider `of` has; a list is asked for once */
    const cay_provider_ops *of;
    bool listed;
    cay__id *ids;
    size_t n, cap;
} work;

static int add_id(const char *id, void *arg)
{
    work *w = arg;
    if (w->n == w->cap) {
        if (w->cap)
            w->cap = 2 * w->cap;
        else
            w->cap = 64;
        w->ids = realloc(w->ids, w->cap * sizeof *w->ids);
        if (!w->ids)
            abort();
    }
    cay__str_copy(w->ids[w->n++], sizeof *w->ids, id);
    return 0;
}

static int by_id(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Should its box be looked for? A provider that lists it has it; one that cannot be opened is left
 * alone. */
static bool is_missing(work *w, const cay_row *row)
{
    cay__place *p;
    void *self;
    if (cay__client_place(w->client, row->provider, &p, NULL) < 0 || !p->ops->list)
        return true; /* not listed: attach() will tell */
    if (w->of != p->ops) {
        w->of = p->ops;
        w->n = 0;
        w->listed = cay__client_self(w->client, p, &self, NULL) == 0 &&
                    p->ops->list(self, NULL, add_id, w, NULL) == 0;
        if (w->n)
            qsort(w->ids, w->n, sizeof *w->ids, by_id);
    }
    return w->listed && !(w->n && bsearch(row->id, w->ids, w->n, sizeof *w->ids, by_id));
}

static void settle_live(work *w, const cay_row *row)
{
    cay__truth t = { 0 };
    cay__place *p;
    void *box;
    cay_err err = CAY_ERR_INIT;
    if (!w->rebooted && !is_missing(w, row))
        return;
    int rc = cay__box_attach(w->client, NULL, row, &p, &box, &err);
    if (rc == CAY_EGONE) {
        const char *why = "reboot";
        if (!w->rebooted)
            why = cay__gone_reason(err.reason);
        CAY__STORE(w->client, move, row->id, CAY__BIT(row->state), CAY_STOPPED, why, NULL, NULL);
        return;
    }
    if (rc == 0)
        p->ops->release(box);
    cay__truth_find(w->client, NULL, row, &t, NULL);
    cay__truth_clear(&t);
}

static void settle_start(cay_client *client, const cay_row *row)
{
    cay__place *p;
    void *box;
    CAY_AUTOFREE char *text = NULL;
    cay_box_status st = { .size = sizeof st };
    int rc = cay__box_attach(client, NULL, row, &p, &box, NULL);
    if (rc == 0) {
        if (p->ops->status(box, NULL, &st, NULL) == 0 && cay__state_live(st.state) &&
            cay__box_text(p->ops, box, &text, NULL) == 0) {
            CAY__STORE(client, move, row->id, CAY__BIT(CAY_STOPPED), CAY_RUNNING, "", text, NULL);
            p->ops->release(box);
            return;
        }
        p->ops->release(box);
    }
    if ((rc == 0 || rc == CAY_EGONE) && is_older_than(row->changed_ms, START_MS))
        CAY__STORE(client, move, row->id, CAY__BIT(CAY_STOPPED), CAY_STOPPED, "lost", NULL, NULL);
}

static void finish_delete(cay_client *client, const cay_row *row)
{
    cay_call call = { .size = sizeof call, .deadline_ms = cay__now_ms() + FINISH_MS };
    cay__delete_finish(client, &call, row, NULL); /* what fails stays recorded for the next time */
}

static int settle_row(const cay_row *row, void *arg)
{
    work *w = arg;
    cay_client *client = w->client;
    CAY_FAULT("reconcile.row");
    switch (row->state) {
    case CAY_CREATING:
        if ((w->rebooted || cay__maker_is_dead(row)) &&
            CAY__STORE(client, move, row->id, CAY__BIT(CAY_CREATING), CAY_DELETING,
                       "its maker died", NULL, NULL) == 0)
            finish_delete(client, row);
        break;
    case CAY_DELETING: finish_delete(client, row); break;
    case CAY_RUNNING:
    case CAY_PAUSED: settle_live(w, row); break;
    case CAY_STOPPED:
        if (!strcmp(row->reason, "starting"))
            settle_start(client, row);
        break;
    default: break;
    }
    return 0;
}

static int needs_it(const cay_row *row, void *arg)
{
    return row->state != CAY_DAMAGED &&
           (row->state != CAY_STOPPED || !strcmp(row->reason, "starting"));
}

static int same_text(const char *value, void *arg)
{
    return strcmp(value, arg) == 0;
}

static void boot_note(char *buf, size_t cap)
{
    char id[64];
    cay__boot_id(id, sizeof id);
    snprintf(buf, cap, "\"%.40s\"", id);
}

/* Snapshots and undos that somebody began and did not end. */
static bool has_broken(cay_client *client)
{
    unsigned what = 0;
    return CAY__STORE(client, unsettled, "", &what, NULL) == 0 && (what & CAY_STORE_BROKEN);
}

int cay__reconcile(cay_client *client, cay_err *err)
{
    char boot[64];
    boot_note(boot, sizeof boot);
    int known = CAY__STORE(client, note_get, "service", "boot", same_text, boot, NULL);
    int any = CAY__STORE(client, list, NULL, needs_it, NULL, err);
    if (any < 0)
        return any;
    bool broken = has_broken(client);
    if (!any && !broken && known == 1)
        return 0;
    CAY_AUTOFD lock =
        openat(client->home_fd, "reconcile.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB) < 0)
        return 0; /* somebody is at it, or the disk is full; single looks do the same */
    if (broken)   /* before a sandbox is started on layers that it may not know of */
        cay__snap_reconcile(client, NULL);
    work w = { .client = client, .rebooted = known == 0 };
    int rc = CAY__STORE(client, list, NULL, settle_row, &w, err);
    free(w.ids);
    if (rc == 0 && w.rebooted)
        cay__client_sweep(client, NULL, false, NULL, NULL);
    if (rc == 0 && known != 1)
        CAY__STORE(client, note_put, "service", "boot", boot, NULL);
    return rc;
}
