/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another root under a sandbox that runs. init says that no process of the tenant is alive, or ends
 * them; a zygote changes the root (daemon/keeper/root.h); what is asked of the sandbox meanwhile
 * waits (hold.c). The old root is torn down by the sweeper, after the answer.
 */
#include "keeper.h"

#define STILL_MS 10   /* what an ended command leaves behind is on its way out */
#define END_MS   5000 /* until every process that was killed is gone */
#define FILES_MS                                                                                   \
    50 /* for file requests that are being served; when processes end anyway, longer               \
        */
#define ANSWER_MS 5000 /* an init that does not answer */
#define TRIES     4    /* helpers that die over it */

typedef struct turn {
    cay__timer timer; /* first, so that a timer is its turn */
    keeper_box *b;
    client *c;
    bool end; /* processes first */
    int tries;
    int64_t began_us, until_ms;
    keeper_job job;
} turn;

void turn_client_gone(const client *c)
{
    CAY_EACH_LINK(b, keeper.boxes)
        if (b->turn && b->turn->c == c)
            b->turn->c = NULL; /* it goes on: half of it is worth nothing */
}

/* Over, and answered: what waited goes on. */
static void finish_turn(turn *t)
{
    keeper_box *b = t->b;
    cay__timer_cancel(&t->timer);
    b->turn = NULL;
    free(t);
    hold_release(b);
}

void turn_drop(keeper_box *b)
{
    if (!b->turn)
        return;
    reply_refused(b->turn->c, CAY_EGONE, "sandbox_gone", "the sandbox ended");
    finish_turn(b->turn);
}

static void fail_turn(turn *t, int sys, const char *step)
{
    box_tell(t->b, CAY_G_SWAPPED, "", 0, 0); /* what init holds back goes on */
    if (sys == EBUSY)
        reply_error(t->c, CAY_EBUSY, sys, "processes_running",
                    t->end ? "processes of the sandbox do not end"
                           : "something runs in the sandbox, or has a file open for writing",
                    step);
    else if (sys == E2BIG)
        reply_error(t->c, CAY_ETOOBIG, sys, "stack_full",
                    "the sandbox stands on as many layers as there may be; let them be merged",
                    NULL);
    else if (sys == ENOTSUP || !strcmp(step, "root directory"))
        reply_error(t->c, CAY_ENOTSUP, sys, "snapshot_unsupported",
                    "this sandbox cannot be put onto another root", step);
    else
        reply_error(t->c, cay_code_of_errno(sys), sys, "swap_failed",
                    "the sandbox could not be put onto another root; it has its former one", step);
    finish_turn(t);
}

static void on_below_measured(job_wait *j, const cay_job_done *d, int *fds, int nfds)
{
    if (!j->b || d->sys)
        return;
    j->b->below_bytes += d->bytes;
    j->b->below_inodes += d->inodes;
}

/* What the sandbox wrote counts as its own when it is in a layer, too. Where a quota holds, the
 * kernel goes on counting it. */
static void count_below(turn *t)
{
    keeper_job j = { .type = KEEPER_JOB_DU };
    if (!t->job.layer[0])
        t->b->below_bytes = t->b->below_inodes = 0;
    if (!t->job.layer[0] || (t->b->flags & CAY_CREATE_QUOTA) || keeper.sweeper.busy > 8)
        return;
    CAY_JOIN(j.name, "layers/", t->job.layer);
    job_send(&keeper.sweeper, &j, NULL, 0, &(job_wait){ .b = t->b, .fn = on_below_measured });
}

static void on_root_swapped(job_wait *j, const cay_job_done *d, int *fds, int nfds)
{
    turn *t = NULL;
    if (j->b)
        t = j->b->turn;
    if (d->trash ||
        nfds) { /* the last to let go of the old root waits for all that is cached of it */
        keeper_job sweep = { .type = KEEPER_JOB_SWEEP };
        keeper.trash |= !job_send(&keeper.sweeper, &sweep, fds, nfds, NULL);
    }
    if (!t)
        return;
    if (d->error.code &&
        ++t->tries < TRIES) { /* its helper died: another goes on from where it was */
        t->until_ms = cay__boot_ms() + END_MS;
        cay__timer_arm(&keeper.loop, &t->timer, cay__boot_ms());
        return;
    }
    box_tell(t->b, CAY_G_SWAPPED, "", 0, 0);
    if (d->swapped)
        count_below(t);
    CAY_FAULT("keeper.swap.done");
    if (d->sys || (!d->swapped && !t->job.rec)) {
        fail_turn(t, CAY_OR(d->sys, EIO), d->step);
        return;
    }
    uint64_t us = (uint64_t)(cay__now_us() - t->began_us);
    cay_m_snapped m = { us, us };
    if (t->job.layer[0])
        reply(t->c, CAY_MSG_SNAPPED, &m);
    else
        reply_ok(t->c);
    finish_turn(t);
}

static bool ask_zygote(turn *t, int lock)
{
    keeper_box *b = t->b;
    int fds[3] = { b->death.fd, lock, b->lower_fd };
    cay__timer_cancel(&t->timer);
    CAY_FAULT("keeper.swap.send");
    bool ok = job_send(job_zygote(), &t->job, fds, b->lower_fd >= 0 ? 3 : 2,
                       &(job_wait){ .b = b, .fn = on_root_swapped });
    CAY_FAULT("keeper.swap.sent");
    return ok;
}

static void on_init_silent(cay__timer *timer)
{
    fail_turn((turn *)timer, ETIMEDOUT, "init does not answer");
}

static void ask_init(cay__timer *timer)
{
    turn *t = (turn *)timer;
    t->timer.fn = on_init_silent;
    arm_timer(&t->timer, ANSWER_MS);
    if (!box_tell(t->b, CAY_G_QUIET, "", t->end, 0))
        fail_turn(t, errno, "init");
}

void turn_still(keeper_box *b, const cay_g_result *r, int *fds, int nfds)
{
    turn *t = b->turn;
    if (!t || t->timer.fn != on_init_silent)
        return;
    t->timer.fn = ask_init;
    if (r->sys == EBUSY && cay__boot_ms() < t->until_ms)
        arm_timer(&t->timer, 1);
    else if (r->sys)
        fail_turn(t, r->sys, "a process is alive");
    else if (nfds != 1 || !ask_zygote(t, fds[0]))
        fail_turn(t, EAGAIN, "zygote");
}

static turn *turn_new(client *c, keeper_box *b, bool end)
{
    turn *t = cay__alloc(sizeof *t);
    *t = (turn){ .b = b, .c = c, .end = end, .began_us = cay__now_us() };
    t->until_ms = cay__boot_ms();
    if (end)
        t->until_ms += END_MS;
    else if (!b->nlive)
        t->until_ms += STILL_MS;
    t->job = (keeper_job){ .type = KEEPER_JOB_SWAP,
                           .mode = (uint32_t)keeper.mode,
                           .block = b->block,
                           .durable = b->flags & CAY_CREATE_DURABLE,
                           .pid = b->pid,
                           .wait_ms = end ? END_MS : FILES_MS };
    CAY_COPY(t->job.name, b->id);
    t->timer.fn = ask_init;
    b->turn = t;
    return t;
}

/* The overlay over a directory of the host is another than the root's, and has no layers; from a
 * disk of its own nothing is renamed into one. */
static bool has_on(const request *r)
{
    if ((r->b->flags & CAY_CREATE_DISK) &&
        !reply_refused(
            r->c, CAY_ENOTSUP, "snapshot_image",
            "what it writes lives in a disk image (--require disk-quota), which cannot be "
            "exchanged while it runs: fork the snapshot instead"))
        return true;
    return (r->b->flags & CAY_CREATE_ON) &&
           !reply_refused(r->c, CAY_ENOTSUP, "snapshot_on",
                          "what is written above a directory of the host is copied, not put onto "
                          "another root");
}

void turn_ask(const request *r)
{
    const cay_m_layer *m = r->body;
    const char *end = r->tail + r->tail_len;
    bool restack = r->type == CAY_MSG_RESTACK,
         named = restack || (memchr(m->layer, 0, sizeof m->layer) && cay__layer_valid(m->layer));
    if (has_on(r))
        return;
    turn *t = turn_new(r->c, r->b, restack);
    if (!named || m->a >= CAY_STACK_MAX || names_take(r->tail, end, m->a, t->job.path) != end) {
        r->b->turn = NULL;
        free(t);
        reply_refused(r->c, CAY_EINVAL, "layer_name",
                      named ? "the list of layers is not well-formed"
                            : "a layer's name is 1 to 63 of a-z, 0-9 and -");
        return;
    }
    if (!restack)
        memcpy(t->job.layer, m->layer, sizeof t->job.layer);
    CAY_FAULT("keeper.swap.ask");
    ask_init(&t->timer);
}

void turn_adopt(keeper_box *b)
{
    char path[64];
    struct stat st;
    CAY_JOIN(path, "sandboxes/", b->id, "/swap");
    if (b->turn || (fstatat(keeper.home_fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0 &&
                    (b->state != CAY_RUNNING || box_tell(b, CAY_G_SWAPPED, "", 0, 0))))
        return; /* there is nothing to finish, and whoever held its services is dead */
    turn *t = turn_new(NULL, b, false);
    t->job.rec = 1;
    t->until_ms = cay__boot_ms() + END_MS;
    ask_init(&t->timer);
}
