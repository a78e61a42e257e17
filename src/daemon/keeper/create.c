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

static bool send_config(keeper_box *b, const pending *p)
{
    struct {
        cay_msg h;
        cay_g_config m;
    } head = { { CAY_MSG_MAGIC, CAY_INIT_VERSION, CAY_G_CONFIG, 0, 0 }, { 0 } };
    head.m.nofile = b->limits.nofile;
    head.m.fsize = b->limits.disk;
    /* Without a memory group the data segment of each process is what can be bounded. */
    if (keeper.features & CAY_FEAT_MEMORY)
        head.m.as_limit = UINT64_MAX;
    else
        head.m.as_limit = b->limits.memory;
    head.m.cpus = cpu_mask(b);
    struct iovec iov[2] = { { &head, sizeof head }, { p->config, p->config_len } };
    CAY_AUTOFD procs = -1;
    if (b->tenant_fd >= 0)
        procs = openat(b->tenant_fd, "cgroup.procs", O_WRONLY | O_CLOEXEC);
    return cay__fd_sendv(b->ctl.fd, iov, 2, (int[]){ procs, b->tenant_fd }, procs >= 0 ? 2 : 0,
                         0) >= 0;
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
    journal_put(J_TAKEN, b, b->id, 0, "");
    CAY_FAULT("keeper.create.recorded");
    b->loose = !p->m.ngrants && (b->root || !special_root(p));
    if (p->m.flags & CAY_CREATE_ROOT_FD)
        b->lower_fd = CAY_STEAL_FD(p->mounts[0]);
    pool_dir(b, dir, sizeof dir);
    if (b->pooled && special_root(p) && !b->root) {
        box_remove_files(dir, -1);
    } else if (b->pooled) {
        cay__str_join(from, sizeof from, "sandboxes/", dir, NULL);
        cay__str_join(to, sizeof to, "sandboxes/", b->id, NULL);
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
    journal_put(J_MORE, b, b->id, 0, "");
    CAY_FAULT("keeper.create.more");
    journal_put(J_LIVE, b, b->id, 0, "");
    box_set_state(b, CAY_RUNNING, b->flags & CAY_CREATE_KEPT ? "resumed" : "created", "");
    if (!p->c && (b->flags & CAY_CREATE_EPHEMERAL))
        box_stop(b, "client-gone", true);
    CAY_FAULT("keeper.create.answer");
    cay_m_boxinfo info;
    box_info(b, &info);
    reply(p->policy < 0 ? p->c : NULL, CAY_MSG_BOX, &info, sizeof info, NULL, 0);
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
    pending **q = &keeper.waiting;
    while (*q)
        q = &(*q)->next;
    *q = p;
    p->next = NULL;
    cay__timer_cancel(&keeper.refill);
    pool_refill_soon();
}

void pending_free(pending *p)
{
    hold_created(p);
    CAY_EACH_OF(it, p->fds, p->nfds)
        cay__close_fd(it);
    CAY_EACH_OF(mount, p->mounts, p->nmounts)
        cay__close_fd(mount);
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
    cay__str_join(link, sizeof link, "/proc/self/fd/", cay__str_u64(n, (uint64_t)p->fds[i]), NULL);
    ssize_t len = readlink(link, j.path, sizeof j.path - 1);
    if (len <= 0 || j.path[0] != '/') {
        reply_error(p->c, CAY_EINVAL, errno, "grant_refused", "a granted directory has no path",
                    NULL);
        pending_free(p);
        return;
    }
    j.path[len] = 0;
    if (p->limited && !is_volume(j.path) && !CAY__MUTANT("apart-volume")) {
        reply_error(p->c, CAY_EPERM, 0, "grant_refused",
                    "a server that is not root grants nothing but volumes", NULL);
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
    cay__str_join(p->stack, sizeof p->stack, p->m.flags & CAY_CREATE_ROOT_FD ? "/" : p->m.layer,
                  "\n", NULL);
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
    for (pending *p = keeper.waiting; p; p = p->next)
        twice |= !strcmp(p->m.id, m->id);
    if (twice && !reply_error(c, CAY_EEXIST, 0, "sandbox_exists",
                              "another sandbox of this id is there, or being made", NULL))
        return;
    if (old &&
        old->phase ==
            BOX_LIVE) { /* asked again after a lost answer: the same sandbox, owned by who asks */
        cay_m_boxinfo info;
        if (old->flags & CAY_CREATE_EPHEMERAL)
            box_own(old, c);
        box_info(old, &info);
        if (net && nfds &&
            (!old->adopting ||
             reply_error(c, CAY_EBUSY, 0, "sandbox_adopting",
                         "its init has not answered the new keeper yet; try again", NULL)))
            net_ask(c, old, &(cay_m_net){ .op = CAY_NET_SET }, &r->fds[nfds - 1], 1);
        else if (!net)
            reply(c, CAY_MSG_BOX, &info, sizeof info, NULL, 0);
        return;
    }
    bool root = m->flags & CAY_CREATE_ROOT_FD, disk = m->flags & CAY_CREATE_DISK;
    bool bad = !cay__id_valid(m->id, 'c') || m->ngrants > CAY_GRANTS_MAX ||
               ((m->flags & CAY_CREATE_ON) && !m->ngrants) ||
               nfds != (int)m->ngrants + root + disk + net || m->nlayers >= CAY_STACK_MAX ||
               !memchr(m->layer, 0, sizeof m->layer) ||
               (m->layer[0] && !cay__layer_valid(m->layer));
    if (old && !reply_error(c, CAY_EBUSY, 0, "sandbox_ending",
                            "the sandbox of this id is just ending", NULL))
        return;
    if (bad && !reply_error(c, CAY_EINVAL, 0, "bad_request",
                            "the create request is not well-formed", NULL))
        return;
    if (!m->layer[0] && !root &&
        !reply_error(c, CAY_EINVAL, 0, "bad_request", "create names neither a layer nor a root",
                     NULL))
        return;
    if (!may_grant(c, m) &&
        !reply_error(c, CAY_EPERM, 0, "grant_refused",
                     "a server that is not root grants no directory of the host: root's own cay "
                     "does, or a server without --root-keeper",
                     NULL))
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
        reply_error(c, CAY_EINVAL, 0, "bad_request", "the config of a create is not well-formed",
                    NULL);
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
    for (pending *p = keeper.waiting, *next; p; p = next) {
        next = p->next;
        if (p->c != c)
            continue;
        UNLINK(keeper.waiting, p);
        p->c = NULL;
        pending_free(p);
    }
    for (job_wait *j = keeper.jobs; j; j = j->next) {
        if (j->p && j->p->c == c)
            j->p->c = NULL;
        if (j->c == c)
            j->c = NULL;
    }
    for (keeper_box *b = keeper.boxes, *next; b; b = next) {
        next = b->next;
        cay__waiter_drop(&b->waiters, c->w.fd);
        for (holder_waiter *s = b->sessions; s; s = s->next)
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
