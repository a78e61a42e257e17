/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The create request: directories to be shown come first, then a box of the pool or one that is
 * made for it; then it is handed out under its name, with limits and an owner.
 */
#include "keeper.h"
#include <proto/mnt.h>

static uint64_t cpu_mask(const keeper_box *b)
{
    long cores = CAY_MIN(sysconf(_SC_NPROCESSORS_ONLN), 64);
    uint64_t want = b->limits.cpu_milli == UINT64_MAX ? 64 : (b->limits.cpu_milli + 999) / 1000,
             mask = 0;
    if ((b->flags & CAY_CREATE_NO_PIN) || want >= (uint64_t)cores)
        return 0;
    for (uint64_t i = 0; i < want; i++)
        mask |= 1ull << (keeper.cpu_next++ % (unsigned)cores);
    return mask;
}

static void send_config(keeper_box *b, const pending *p)
{
    cay_g_config m = { .nofile = b->limits.nofile,
                       .fsize = b->limits.disk,
                       .as_limit = UINT64_MAX,
                       .cpus = cpu_mask(b) };
    /* Without a memory group the data segment of each process is what can be bounded. */
    if (!(keeper.features & CAY_FEAT_MEMORY))
        m.as_limit = b->limits.memory;
    CAY_AUTOFD procs = -1;
    if (b->tenant_fd >= 0)
        procs = openat(b->tenant_fd, "cgroup.procs", O_WRONLY | O_CLOEXEC);
    box_send(b, CAY_G_CONFIG, &m, sizeof m, p->config, p->config_len,
             (int[]){ procs, b->tenant_fd }, CAY_FLAG_IF(procs >= 0, 2));
}

void box_take(keeper_box *b, const cay_m_create *m)
{
    if (!b->id[0])
        keeper.nlive++;
    memcpy(b->id, m->id, sizeof b->id);
    b->flags = m->flags;
    b->created_ms = cay__clock_ms();
}

static void box_own(keeper_box *b, client *c)
{
    b->owner = c;
    if (c)
        b->owner_pid = c->pid;
    else
        b->owner_pid = 0;
    b->owner_start = cay__start_time(b->owner_pid);
    if (!b->adopting)
        cay__timer_cancel(&b->claim);
}

void box_hand_out(keeper_box *b, pending *p)
{
    char from[64], to[64], dir[48];
    box_take(b, &p->m);
    if (p->c)
        b->maker = p->c->pid;
    else
        b->maker = 0;
    journal_box(J_TAKEN, b);
    CAY_FAULT("keeper.create.recorded");
    b->loose = !p->m.ngrants && (b->root || !special_root(p));
    if (p->m.flags & CAY_CREATE_ROOT_FD)
        b->lower_fd = CAY_STEAL_FD(p->mounts[0]);
    pool_dir(b, dir, sizeof dir);
    if (b->pooled && special_root(p) && !b->root) {
        box_remove_files(dir, -1);
    } else if (b->pooled) {
        CAY_JOIN(from, "sandboxes/", dir);
        CAY_JOIN(to, "sandboxes/", b->id);
        if (renameat(keeper.home_fd, from, keeper.home_fd, to) < 0) {
            reply_error(p->c, errno == ENOTEMPTY || errno == EEXIST ? CAY_EEXIST : CAY_ESYS, errno,
                        "", "its directory could not be made", NULL);
            pending_free(p);
            b->id[0] = 0; /* that directory is another's */
            keeper.nlive--;
            box_stop(b, "directory", true);
            return;
        }
    }
    b->pooled = false;
    CAY_FAULT("keeper.create.named");
    const cay_m_create *m = &p->m;
    b->io_disk = m->io_disk;
    if (!cgroup_limits(b, &(cay_limits){ m->memory, m->swap, m->cpu_milli, m->pids, m->disk,
                                         m->inodes, m->nofile, m->io_read, m->io_write })) {
        reply_error(p->c, CAY_EINVAL, errno, "limit_refused", "the kernel refused a limit",
                    strerror(errno));
        b->forget_files = !(b->flags & CAY_CREATE_KEPT);
        pending_free(p);
        box_stop(b, "limits", b->forget_files);
        return;
    }
    b->phase = BOX_LIVE;
    if (p->policy >= 0) /* its directory has its name, and nothing is refused any more: the lender
                           works beside us */
        net_ask(p->c, b, &(cay_m_net){ .op = CAY_NET_SET }, &p->policy, 1);
    send_config(b, p);
    CAY_FAULT("keeper.create.configured");
    deadline_set(b, p->m.ttl_ms, p->m.idle_ms);
    if (b->flags & CAY_CREATE_EPHEMERAL)
        box_own(b, p->c);
    /* Whole now: from here on a crash leaves it to the next keeper, and a client that asks again
     * gets this one. */
    journal_box(J_MORE, b);
    CAY_FAULT("keeper.create.more");
    journal_box(J_LIVE, b);
    box_set_state(b, CAY_RUNNING, b->flags & CAY_CREATE_KEPT ? "resumed" : "created", "");
    if (!p->c && (b->flags & CAY_CREATE_EPHEMERAL))
        box_stop(b, "client-gone", true);
    CAY_FAULT("keeper.create.answer");
    cay_m_boxinfo info = box_info(b);
    reply(p->policy < 0 ? p->c : NULL, CAY_MSG_BOX, &info);
    pending_free(p);
    if (b->flags & CAY_CREATE_KEPT)
        net_restore(b);
    pool_refill_soon();
}

static void enqueue_pending(pending *p)
{
    pool_learn(p);
    if (pool_take(p))
        return;
    CAY_APPEND(keeper.waiting, p);
    cay__timer_cancel(&keeper.refill);
    pool_refill_soon();
}

void pending_free(pending *p)
{
    hold_created(p);
    cay__close_fds(p->fds, p->nfds);
    cay__close_fds(p->mounts, p->nmounts);
    cay__close_fd(&p->disk);
    cay__close_fd(&p->policy);
    free(p->config);
    free(p);
}

/* Who is not root sends descriptors that it could open and root could read: of those it gives only
 * volumes, which stand where root alone makes names. The janitor opens the path itself and
 * compares, so that a mount of the sender's does not lead elsewhere. */
static bool is_volume(const char *path)
{
    const char *rest = "";
    if (cay__str_starts(path, keeper.argv[1]))
        rest = path + strlen(keeper.argv[1]);
    return cay__str_starts(rest, "/volumes/") && rest[9] && rest[9] != '.' &&
           !strchr(rest + 9, '/');
}

static bool may_grant(const client *c, const cay_m_create *m)
{
    uint32_t all;
    if (m->ngrants >= 32)
        all = ~0u;
    else
        all = (1u << m->ngrants) - 1;
    return !c->limited || CAY__MUTANT("apart-grant") ||
           !((m->flags & (CAY_CREATE_ROOT_FD | CAY_CREATE_ON | CAY_CREATE_DISK)) ||
             m->grants_mount || (all & ~m->grants_store));
}

static void clone_next(pending *p);

static void on_grant_cloned(job_wait *j, const cay_job_done *d, int *fds, int nfds)
{
    pending *p = j->p;
    if (d->sys || nfds != 1 || !p->c) { /* nothing is made for who has gone */
        reply_error(p->c, cay_code_of_errno(d->sys), d->sys, "grant_refused",
                    "a directory could not be shown inside", d->step);
        pending_free(p);
        return;
    }
    p->mounts[p->nmounts++] = fds[0];
    fds[0] = -1;
    clone_next(p);
}

/* Grants one after another through the janitor; then the request goes on. */
static void clone_next(pending *p)
{
    if (p->nmounts == p->nfds) {
        enqueue_pending(p);
        return;
    }
    int i = p->nmounts;
    bool root = (p->m.flags & CAY_CREATE_ROOT_FD) && i == 0;
    int grant = i - ((p->m.flags & CAY_CREATE_ROOT_FD) ? 1 : 0);
    if (grant >= 0 && p->m.grants_mount >> grant &
                          1) { /* made for this sandbox: only what a grant may be is looked after */
        uint64_t set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                       (p->m.grants_rw >> grant & 1 ? 0 : MOUNT_ATTR_RDONLY);
        int sys = 0;
        if (mnt_setattr(p->fds[i], "", AT_EMPTY_PATH, set, 0, -1) < 0 ||
            mnt_private(p->fds[i], 0) < 0)
            sys = errno;
        on_grant_cloned(&(job_wait){ .p = p }, &(cay_job_done){ .sys = sys, .step = "flags" },
                        &p->fds[i], 1);
        return;
    }
    keeper_job j = { .type = KEEPER_JOB_CLONE,
                     .rec = 0,
                     .ro = root || !(p->m.grants_rw >> grant & 1) };
    char link[48], n[21];
    CAY_JOIN(link, "/proc/self/fd/", cay__str_u64(n, (uint64_t)p->fds[i]));
    ssize_t len = readlink(link, j.path, sizeof j.path - 1);
    if (len <= 0 || j.path[0] != '/') {
        reply_error(p->c, CAY_EINVAL, errno, "grant_refused", "a granted directory has no path",
                    NULL);
        pending_free(p);
        return;
    }
    j.path[len] = 0;
    if (p->limited && !is_volume(j.path) && !CAY__MUTANT("apart-volume")) {
        reply_refused(p->c, CAY_EPERM, "grant_refused",
                      "a server that is not root grants nothing but volumes");
        pending_free(p);
        return;
    }
    int fds[2] = { p->fds[i], -1 };
    if (job_send(&keeper.janitor, &j, fds, 1, &(job_wait){ .p = p, .fn = on_grant_cloned }))
        return;
    reply_error(p->c, CAY_EBUSY, errno, "keeper_busy",
                "too many directories are being shown at once; try again", NULL);
    pending_free(p);
}

const char *names_take(const char *s, const char *end, uint64_t n, char stack[CAY_STACK_TEXT])
{
    for (size_t at = strlen(stack), len; n; n--, at += len + 1, s += len + 1) {
        len = strnlen(s, (size_t)(end - s));
        if (s + len >= end || !cay__layer_valid(s) ||
            !cay__str_join(stack + at, CAY_STACK_TEXT - at, s, "\n", NULL))
            return NULL;
    }
    return s;
}

static bool take_targets(pending *p, const char *tail, size_t len)
{
    const char *s = tail, *end = tail + len;
    CAY_JOIN(p->stack, p->m.flags & CAY_CREATE_ROOT_FD ? "/" : p->m.layer, "\n");
    CAY_EACH_OF(target, p->targets, p->m.ngrants) {
        size_t n = strnlen(s, (size_t)(end - s));
        if (s + n >= end || n >= sizeof *target || s[0] != '/')
            return false;
        memcpy(*target, s, n + 1);
        s += n + 1;
    }
    if (!(s = names_take(s, end, p->m.nlayers, p->stack)))
        return false;
    p->config_len = (size_t)(end - s);
    p->config = cay__alloc(p->config_len + 1);
    memcpy(p->config, s, p->config_len);
    /* user, workdir, hostname and shell must be there: init looks them up by place */
    unsigned nul = 0;
    CAY_EACH_OF(it, p->config, p->config_len)
        nul += *it == 0;
    return nul >= 4 && p->config[p->config_len - 1] == 0;
}

void box_create(const request *r)
{
    client *c = r->c;
    const cay_m_create *m = r->body;
    int nfds = r->nfds;
    keeper_box *old = box_find(m->id);
    bool net = m->flags & CAY_CREATE_NET, twice = old && old->phase == BOX_LIVE && old->maker &&
                                                  old->maker != c->pid &&
                                                  !(m->flags & CAY_CREATE_KEPT);
    CAY_EACH_LINK(p, keeper.waiting)
        twice |= !strcmp(p->m.id, m->id);
    if (twice && !reply_refused(c, CAY_EEXIST, "sandbox_exists",
                                "another sandbox of this id is there, or being made"))
        return;
    if (old &&
        old->phase ==
            BOX_LIVE) { /* asked again after a lost answer: the same sandbox, owned by who asks */
        if (old->flags & CAY_CREATE_EPHEMERAL)
            box_own(old, c);
        cay_m_boxinfo info = box_info(old);
        if (net && nfds &&
            (!old->adopting ||
             reply_refused(c, CAY_EBUSY, "sandbox_adopting",
                           "its init has not answered the new keeper yet; try again")))
            net_ask(c, old, &(cay_m_net){ .op = CAY_NET_SET }, &r->fds[nfds - 1], 1);
        else if (!net)
            reply(c, CAY_MSG_BOX, &info);
        return;
    }
    bool root = m->flags & CAY_CREATE_ROOT_FD, disk = m->flags & CAY_CREATE_DISK;
    bool bad = !cay__id_valid(m->id, 'c') || m->ngrants > CAY_GRANTS_MAX ||
               ((m->flags & CAY_CREATE_ON) && !m->ngrants) ||
               nfds != (int)m->ngrants + root + disk + net || m->nlayers >= CAY_STACK_MAX ||
               !memchr(m->layer, 0, sizeof m->layer) ||
               (m->layer[0] && !cay__layer_valid(m->layer));
    if (old &&
        !reply_refused(c, CAY_EBUSY, "sandbox_ending", "the sandbox of this id is just ending"))
        return;
    if (bad &&
        !reply_refused(c, CAY_EINVAL, "bad_request", "the create request is not well-formed"))
        return;
    if (!m->layer[0] && !root &&
        !reply_refused(c, CAY_EINVAL, "bad_request", "create names neither a layer nor a root"))
        return;
    if (!may_grant(c, m) &&
        !reply_refused(c, CAY_EPERM, "grant_refused",
                       "a server that is not root grants no directory of the host: root's own cay "
                       "does, or a server without --root-keeper"))
        return;
    pending *p = cay__alloc(sizeof *p);
    p->c = c;
    p->limited = c->limited;
    p->m = *m;
    p->m.flags &= ~(uint32_t)CAY_CREATE_NET;
    if (net)
        p->policy = CAY_STEAL_FD(r->fds[--nfds]);
    else
        p->policy = -1;
    if (disk)
        p->disk = CAY_STEAL_FD(r->fds[--nfds]);
    else
        p->disk = -1;
    if (!take_targets(p, r->tail, r->tail_len)) {
        reply_refused(c, CAY_EINVAL, "bad_request", "the config of a create is not well-formed");
        pending_free(p);
        return;
    }
    CAY_EACH_OF(it, r->fds, nfds)
        p->fds[p->nfds++] = CAY_STEAL_FD(*it);
    CAY_FAULT("keeper.create.start");
    c->creating = p;
    clone_next(p);
}

void box_on_client_gone(client *c)
{
    CAY_EACH_LINK_SAFE(p, keeper.waiting) {
        if (p->c != c)
            continue;
        CAY_UNLINK(keeper.waiting, p);
        p->c = NULL;
        pending_free(p);
    }
    CAY_EACH_LINK(j, keeper.jobs) {
        if (j->p && j->p->c == c)
            j->p->c = NULL;
        if (j->c == c)
            j->c = NULL;
    }
    CAY_EACH_LINK_SAFE(b, keeper.boxes) {
        cay__waiter_drop(&b->waiters, c->w.fd);
        CAY_EACH_LINK(s, b->sessions)
            if (s->to == c->w.fd)
                s->to = -1;
        if (b->pending && b->pending->c == c)
            b->pending->c = NULL;
        if (b->pauser == c)
            b->pauser = NULL;
        if (b->owner == c) {
            b->owner = NULL;
            box_stop(b, "client-gone", true);
        }
    }
}
