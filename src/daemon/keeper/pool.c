/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sandboxes made ahead of time. Parking takes kernel-wide locks, so the pool is filled
 * when nothing else happens: after a few quiet milliseconds, or when it has nearly run out.
 */
#include "keeper.h"
#include "netns.h"
#include <sys/socket.h>
#include <sys/un.h>

#define QUIET_US     4000
#define POOL_BOUND   3     /* ready with the default template, unless $CAY_POOL says otherwise */
#define POOL_RAW     1     /* waiting for any root; none when $CAY_POOL is 0 */
#define POOL_WARM    2     /* ready with each root that was asked for twice and is not forgotten */
#define WARM_MS      60000 /* since it was asked for last: then it is forgotten */
#define POOL_MOST    256
#define POOL_PARKING 2 /* at a time, per zygote */
#define FAILS_MAX    3 /* in a row: then it is no accident */

bool pool_start(void)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const char *given =
        getenv("CAY_POOL"); /* idle ones take some hundred kilobytes each: the operator's to say */
    uint64_t n = POOL_BOUND;
    if (given)
        cay__str_to_u64(given, &n);
    keeper.pool_bound = (unsigned)CAY_MIN(n, (uint64_t)POOL_MOST);
    if (n)
        keeper.pool_raw = POOL_RAW;
    else
        keeper.pool_raw = 0;
    CAY_JOIN(keeper.roots[0].stack, keeper.layer, keeper.layer[0] ? "\n" : "");
    cay__random(&keeper.block_first, sizeof keeper.block_first); /* another state directory's keeper
                                                                    hands out of the same range */
    keeper.nzygotes = (unsigned)CAY_MIN(CAY_MAX(cores, 1), (long)CAY_LEN(keeper.zygotes));
    CAY_EACH_OF(zygote, keeper.zygotes, keeper.nzygotes)
        if (!helper_start(zygote, "zygote", "/s", 0) || !cay__loop_add(&keeper.loop, &zygote->w))
            return false;
    return cay__loop_add(&keeper.loop, &keeper.janitor.w) &&
           cay__loop_add(&keeper.loop, &keeper.sweeper.w) &&
           cay__loop_add(&keeper.loop, &keeper.lender.w);
}

/* The first that is free, so that zygotes find most of them in their cache. */
static uint32_t block_take(void)
{
    if (!(keeper.features & CAY_FEAT_IDMAP))
        return STORE_BASE;
    for (uint32_t i = 0; i < BLOCKS_MAX; i++) {
        uint32_t k = (keeper.block_first + i) % BLOCKS_MAX;
        if (!(keeper.block_used[k / 64] >> (k % 64) & 1)) {
            keeper.block_used[k / 64] |= 1ull << (k % 64);
            return STORE_BASE + (k + 1) * BLOCK_IDS;
        }
    }
    return 0;
}

void pool_dir(const keeper_box *b, char *out, size_t cap)
{
    cay__str_join(out, cap, ".pool-", b->name, NULL);
}

static int listen_socket(const char *name)
{
    struct sockaddr_un sa = { .sun_family = AF_UNIX };
    CAY_AUTOFD s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    CAY_JOIN(sa.sun_path, "/r/", name);
    unlink(sa.sun_path);
    if (s < 0 || bind(s, (struct sockaddr *)&sa, sizeof sa) < 0 || listen(s, 2) < 0)
        return -1;
    return CAY_STEAL_FD(s);
}

/* On a host that cannot, trying again at once would burn a core for ever: 1 s, 2 s, … 64 s. Another
 * root than the default one is not tried again until it is asked for: its layers may be gone. */
void pool_failed(const keeper_box *b, int sys, const char *step)
{
    if (b && b->root) {
        keeper.roots[b->root].asked = 0;
        return;
    }
    keeper.pool_again_ms = cay__boot_ms() + (1000ll << CAY_MIN(keeper.pool_fails, 6u));
    dprintf(2, "park: %s: %s\n", step, strerror(sys));
    if (++keeper.pool_fails < FAILS_MAX)
        return;
    /* Somebody may be waiting for it: say why, instead of trying for ever. */
    while (keeper.waiting) {
        pending *p = keeper.waiting;
        keeper.waiting = p->next;
        reply_error(p->c, CAY_EISOLATION, sys, "park_failed",
                    "a sandbox cannot be made on this host", step);
        pending_free(p);
    }
}

static void on_box_parked(job_wait *j, const cay_job_done *d, int *fds, int nfds)
{
    static const uint32_t how[4] = { [CAY__NET_NAT] = CAY_FEAT_NAT,
                                     [CAY__NET_TPROXY] = CAY_FEAT_NFT,
                                     [CAY__NET_PORTS] = CAY_FEAT_PORTS };
    keeper_box *b = j->b;
    keeper.trash |= d->trash;
    pool_refill_soon(); /* its zygote has time again */
    if (d->shared && b) {
        keeper.features &= ~(uint32_t)CAY_FEAT_IDMAP;
        box_free(b);
        return;
    }
    if (d->sys || nfds != (d->how ? 7 : 3) || !b) {
        pool_failed(b, d->sys, d->step);
        if (b)
            box_free(b);
        return;
    }
    b->pid = d->pid;
    b->start = d->start;
    b->death.fd = CAY_STEAL_FD(fds[0]);
    b->ctl.fd = CAY_STEAL_FD(fds[1]);
    b->userns_fd = CAY_STEAL_FD(fds[2]);
    for (int i = 3; i < nfds; i++)
        b->net_fd[i - 3] = CAY_STEAL_FD(fds[i]);
    b->net = d->how;
    b->cookie = d->cookie;
    uint32_t before = keeper.features;
    keeper.features |= CAY_FEAT_NET_TRIED | how[d->how & 3];
    if (keeper.features != before)
        hello_write();
    cay__fd_nonblock(b->ctl.fd, true);
    journal_put(J_PARKED, b, "", 0, "");
    cgroup_box_enable(b);
    cgroup_limits_ahead(b);
    CAY_FAULT("keeper.park.recorded");
    box_watch_init(b);
    if (b->ahead)
        b->phase = BOX_BINDING; /* it says BOUND by itself */
    else
        pool_parked(b); /* it is told at once what to be: init reads that when it is ready */
}

/* Without a range of its own a sandbox would have the host's ids. root: which of keeper.roots it is
 * to be bound to, or -1. */
static bool park_box(bool uid0, int root)
{
    bool room = keeper.nboxes < BLOCKS_MAX - 8, ahead = root >= 0;
    uint32_t block = 0;
    if (room && keeper.mode == CAY_MODE_ROOT)
        block = block_take();
    if (!room || (keeper.mode == CAY_MODE_ROOT && !block))
        return false;
    keeper_box *b = box_new();
    b->uid0 = uid0;
    b->ahead = ahead;
    if (ahead)
        b->root = root;
    else
        b->root = 0;
    b->pooled = true;
    b->phase = BOX_PARKING;
    b->block = block;
    journal_put(J_PARKING, b, "", 0, "");
    CAY_FAULT("keeper.park.intent");
    keeper_job j = { .type = KEEPER_JOB_PARK,
                     .mode = (uint32_t)keeper.mode,
                     .block = block,
                     .uid0 = uid0,
                     .ahead = ahead,
                     .image = keeper.roots[b->root].image };
    int fds[KEEPER_JOB_GROUPS_MAX], n;
    helper *z = job_zygote();
    pool_dir(b, j.name, sizeof j.name);
    CAY_COPY(j.path, keeper.roots[b->root].stack);
    if (!job_send(z, &j, NULL, 0, &(job_wait){ .b = b, .fn = on_box_parked })) {
        box_free(b);
        return false;
    }
    CAY_FAULT("keeper.park.sent");
    memset(fds, -1, sizeof fds);
    fds[0] = listen_socket(b->name);
    if (fds[0] < 0 || !cgroup_box_make(b))
        n = -1;
    else
        n = cgroup_join_files(b, fds + 1, &j);
    j.type = KEEPER_JOB_GROUPS;
    cay__fd_send(z->w.fd, &j, sizeof j, fds, n + 1,
                 0); /* the zygote waits for it: there is room, or soon will be */
    CAY_FAULT("keeper.park.groups");
    CAY_EACH(it, fds)
        cay__close_fd(it); /* init holds the socket; we come back through the path */
    return true;
}

typedef struct counts {
    unsigned parking, raw_parking, uid0,
        raw; /* at the zygotes; of these for any root, for uid 0; waiting for any root */
    unsigned have[ROOTS], ready[ROOTS]; /* with each root: in all, not with a zygote any more */
} counts;

static counts count_boxes(void)
{
    counts c = { 0 };
    CAY_EACH_LINK(b, keeper.boxes) {
        bool parking = b->phase == BOX_PARKING,
             ready = b->phase == BOX_BOUND || (b->phase == BOX_BINDING && !b->pending);
        c.parking += parking;
        c.raw_parking += parking && !b->ahead && !b->uid0;
        c.uid0 += parking && b->uid0;
        c.raw += b->phase == BOX_PARKED && !b->uid0;
        c.ready[b->root] += ready;
        c.have[b->root] += ready || (parking && b->ahead);
    }
    return c;
}

/* Nothing but a root is to be made for it. */
static bool is_plain(const pending *p)
{
    const char *host = pending_field(p, 2);
    return !(p->m.flags & (CAY_CREATE_ROOT_FD | CAY_CREATE_KEPT | CAY_CREATE_DURABLE |
                           CAY_CREATE_ON | CAY_CREATE_DISK | CAY_CREATE_UID0)) &&
           !p->m.ngrants && (!*host || !strcmp(host, "cay"));
}

/* Which of keeper.roots is all that it wants, or -1. */
static int root_of(const pending *p)
{
    for (int i = 0; is_plain(p) && i < ROOTS; i++)
        if (keeper.roots[i].image == !!(p->m.flags & CAY_CREATE_IMAGE) &&
            !strcmp(keeper.roots[i].stack, p->stack))
            return i;
    return -1;
}

static unsigned count_to_keep(int root)
{
    const warm *r = &keeper.roots[root];
    if (!root) {
        if (keeper.layer[0])
            return keeper.pool_bound;
        return 0;
    }
    if (r->asked > 1 && cay__boot_ms() - r->at_ms < WARM_MS)
        return CAY_MIN(keeper.pool_bound, (unsigned)POOL_WARM);
    return 0;
}

/* A root that is not known takes the place of the one that was asked for longest ago, unless
 * sandboxes are ready with that. */
void pool_learn(const pending *p)
{
    int i = root_of(p), old = 0;
    counts c;
    if (i < 0)
        c = count_boxes();
    else
        c = (counts){ 0 };
    for (int k = 1; i < 0 && k < ROOTS; k++)
        if (!count_to_keep(k) && !c.have[k] &&
            (!old || keeper.roots[k].at_ms < keeper.roots[old].at_ms))
            old = k;
    if (old && is_plain(p) && p->m.nlayers &&
        ((p->m.flags & CAY_CREATE_IMAGE) || !strcmp(p->m.layer, keeper.layer))) {
        keeper.roots[i = old] = (warm){ .image = p->m.flags & CAY_CREATE_IMAGE };
        CAY_COPY(keeper.roots[i].stack, p->stack);
    }
    if (i > 0) {
        keeper.roots[i].asked++;
        keeper.roots[i].at_ms = cay__boot_ms();
    }
}

void pool_forget(void)
{
    CAY_EACH_LINK(b, keeper.boxes)
        if (b->phase == BOX_BOUND && !count_to_keep(b->root))
            box_stop(b, "pool", true);
}

/* A layer goes. What is ready on it, or just being made, is in a place that nobody finds, and is
 * dropped from there. */
void pool_unlayer(const char *layer)
{
    for (int i = 1; i < ROOTS; i++)
        if (strstr(keeper.roots[i].stack, layer))
            keeper.roots[i] = (warm){ .asked = 0 };
}

/* A box for a waiting create: ready made if the request is an ordinary one, else one to bind now.
 */
static keeper_box *find_for(const pending *p)
{
    bool uid0 = p->m.flags & CAY_CREATE_UID0;
    int root = root_of(p);
    keeper_box *raw = NULL;
    CAY_EACH_LINK(b, keeper.boxes) {
        if (b->phase == BOX_PARKED && b->uid0 == uid0)
            raw = b;
        if (b->phase == BOX_BOUND && b->root == root)
            return b;
    }
    return raw;
}

bool pool_take(pending *p)
{
    keeper_box *b = find_for(p);
    if (b && b->block == STORE_BASE && (p->m.flags & CAY_CREATE_OWN_IDS)) {
        reply_refused(p->c, CAY_EISOLATION, "feature_missing",
                      "own-ids is off here: all sandboxes share one range");
        pending_free(p);
    } else if (b && b->phase == BOX_BOUND)
        box_hand_out(b, p);
    else if (b)
        box_bind(b, p);
    return b;
}

void pool_serve(void)
{
    for (pending *p = keeper.waiting; p;) {
        if (!find_for(p)) {
            p = p->next;
            continue;
        }
        CAY_UNLINK(keeper.waiting, p);
        pool_take(p);
        p = keeper.waiting; /* an answer that finds its client gone takes others out of the list */
    }
}

/* One that was parked for any root gets one of which there are too few. */
static bool bind_ahead(keeper_box *b, counts *c)
{
    if (b->phase != BOX_PARKED || b->uid0 || c->raw <= keeper.pool_raw ||
        cay__boot_ms() < keeper.pool_again_ms)
        return false;
    /* As root it stands on the default one already: another wants directories of its own, and is
     * parked so. */
    for (int i = 0; i < (keeper.mode == CAY_MODE_ROOT ? 1 : ROOTS); i++)
        if (c->ready[i] < count_to_keep(i)) {
            b->root = i;
            c->ready[i]++;
            box_bind(b, NULL);
            return true;
        }
    return false;
}

void pool_parked(keeper_box *b)
{
    b->phase = BOX_PARKED;
    pool_serve();
    counts c = count_boxes();
    bind_ahead(b, &c);
}

/* What somebody waits for is made at once; what is only kept ready waits for quiet, unless nearly
 * gone. */
static void on_refill_timer(cay__timer *t)
{
    counts c = count_boxes();
    unsigned want[ROOTS] = { 0 }, other = 0, want0 = 0, most = POOL_PARKING * keeper.nzygotes,
             raw = keeper.pool_raw, have_raw = c.raw + c.raw_parking;
    bool can = keeper.mode == CAY_MODE_ROOT && keeper.layer[0],
         all = cay__now_us() - keeper.last_request_us >= QUIET_US, lack = false;
    CAY_EACH_LINK(p, keeper.waiting) {
        int i = root_of(p);
        if (p->m.flags & CAY_CREATE_UID0)
            want0++;
        else if (can && i >= 0 &&
                 (!i || keeper.roots[i].asked)) /* else it failed, and shows why when it is bound */
            want[i]++;
        else
            other++;
    }
    for (int i = 0; i < ROOTS; i++) {
        all |= c.ready[i] < CAY_MIN(count_to_keep(i), 2u);
        if (!can)
            raw += count_to_keep(i);
        if (!can)
            have_raw += c.ready[i];
    }
    all &= cay__boot_ms() >= keeper.pool_again_ms;
    for (int ready = 0; ready <= all; ready++) {
        for (; c.parking < most && want0 > c.uid0 && park_box(true, -1); c.uid0++)
            c.parking++;
        for (int i = 0; can && i < ROOTS; i++)
            for (; c.parking < most && c.have[i] < want[i] + (ready ? count_to_keep(i) : 0) &&
                   park_box(false, i);
                 c.have[i]++)
                c.parking++;
        for (; c.parking < most && have_raw < other + (ready ? raw : 0) && park_box(false, -1);
             have_raw++)
            c.parking++;
    }
    CAY_EACH_LINK(b, keeper.boxes)
        c.raw -= bind_ahead(b, &c);
    for (int i = 0; can && i < ROOTS; i++)
        lack |= c.have[i] < want[i] + count_to_keep(i);
    /* One that is being made comes back to this by itself; looking before would only keep us from
     * the rest. */
    if (c.parking < most && (lack || have_raw < other + raw))
        cay__timer_arm(&keeper.loop, &keeper.refill,
                       CAY_MAX(cay__boot_ms() + QUIET_US / 1000 + 1,
                               keeper.waiting ? 0 : keeper.pool_again_ms));
}

void pool_refill_soon(void)
{
    int64_t at = cay__boot_ms();
    if (keeper.leaving)
        return;
    if (!keeper.waiting)
        at = CAY_MAX(at + QUIET_US / 1000 + 1, keeper.pool_again_ms);
    if (keeper.refill.prev && keeper.refill.at_ms <= at)
        return;
    keeper.refill.fn = on_refill_timer;
    cay__timer_arm(&keeper.loop, &keeper.refill, at);
}

/* Before leaving: what is only parked goes, with groups, sockets and directories; sandboxes too
 * when `all`. */
void pool_drain(bool all)
{
    unsigned left = 1;
    keeper.leaving = true;
    cay__timer_cancel(&keeper.refill);
    for (int64_t end = cay__boot_ms() + 5000; (left || keeper.sweeper.busy) && cay__boot_ms() < end;
         cay__loop_step(&keeper.loop, 20)) {
        left = 0;
        CAY_EACH_LINK_SAFE(b, keeper.boxes) {
            if (b->phase == BOX_LIVE && !all)
                continue;
            left++; /* one that a zygote works on has no pid yet */
            if (b->pid > 0)
                box_stop(b, "leaving", all);
        }
    }
    nets_drop();
    CAY_FAULT("keeper.leave.groups");
    if (!keeper.boxes)
        cgroup_leave();
}
