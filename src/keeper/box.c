/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper.h"
#include "mnt.h"
#include "netns.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define REMOVALS_MAX 12 /* that wait for the sweeper, whose socket holds a few dozen jobs */
#define BIRTH_MS 1000 /* a pause waits so long for commands that are being started */

box *box_new(void)
{
    box *b = cay__alloc(sizeof *b);
    cay_job_name(b->name, getpid());
    b->ctl.fd = b->death.fd = b->userns_fd = b->mnt_fd = b->lower_fd = -1;
    b->cg_fd = b->tenant_fd = b->idle.dir = b->idle.procs = b->net_fd[0] = b->net_fd[1] = b->net_fd[2] = b->net_fd[3] = -1;
    b->next = K.boxes;
    K.boxes = b;
    K.nboxes++;
    return b;
}

box *box_find(const char *id)
{
    for (box *b = K.boxes; b; b = b->next)
        if (b->id[0] && !strncmp(b->id, id, sizeof b->id))
            return b;
    return NULL;
}

static void drop_waiters(box *b)
{
    cay_m_boxinfo info;
    box_info(b, &info);
    for (waiter *w = b->waiters, *next; w; w = next) {
        next = w->next;
        if (w->plain)
            reply_ok(w->c);
        else
            reply(w->c, CAY_MSG_BOX, &info, sizeof info, NULL, 0);
        free(w);
    }
    b->waiters = NULL;
    for (waiter *s = b->sessions, *next; s; s = next) {
        next = s->next;
        if (s->c)
            reply_error(s->c, CAY_EGONE, 0, "sandbox_gone", "the sandbox ended", NULL);
        free(s);
    }
    b->sessions = NULL;
}

/* Out of sight first: the name is free again at once, and a half-removed tree is never taken for a sandbox. mounts: what still
 * holds its mount namespace, or -1. */
bool remove_files(const char *from, int mounts)
{
    char id[CAY_WIRE_ID];
    cay_job j = { .type = CAY_JOB_RMTREE };
    cay__id_make(id, 'b');
    cay__str_join(j.name, sizeof j.name, "sandboxes/.old-", id, NULL);
    if (renameat(K.home_fd, from, K.home_fd, j.name) < 0)
        return false;
    CAY_FAULT("keeper.destroy.renamed");
    if (mounts < 0 && K.sweeper.busy >= REMOVALS_MAX) /* others want something of it, too: it is found by its name */
        return K.trash = true;
    job_send(&K.sweeper, &j, &mounts, mounts >= 0, NULL);
    return true;
}

bool box_remove_files(const char *dir, int mounts)
{
    char from[64];
    return cay__str_join(from, sizeof from, "sandboxes/", dir, NULL) && remove_files(from, mounts);
}

/* The kernel takes net namespaces down in one thread, with the lock that making one needs, and those that wait go in one
 * round: so several are let go together. */
void nets_drop(void)
{
    while (K.nnets)
        cay__close_fd(&K.nets[--K.nnets]);
}

/* Everything of a box whose init is dead, or never came to be. */
void box_free(box *b)
{
    char dir[48];
    int *const fds[] = { &b->ctl.fd, &b->death.fd, &b->userns_fd, &b->mnt_fd, &b->lower_fd, &b->net_fd[0], &b->net_fd[1], &b->net_fd[2], &b->net_fd[3] };
    UNLINK(K.boxes, b);
    K.nboxes--;
    if (b->lent)
        net_ask(NULL, b, &(cay_m_net){ .op = CAY_NET_DROP }, NULL, 0);
    if (b->id[0])
        K.nlive--;
    cay__timer_cancel(&b->timer);
    cay__timer_cancel(&b->claim);
    freeze_end(b);
    proc_lost(b);
    while (b->procs)
        proc_free(b->procs);
    if (b->pending && !(b->pending->m.flags & CAY_CREATE_KEPT)) /* it never was anybody's */
        b->forget_files = true;
    /* Who waits for the end is answered when a kill of ours could not undo it any more. */
    unlinkat(K.run_fd, b->name, 0);
    CAY_FAULT("keeper.free.files");
    if (b->forget_files && b->id[0])
        box_remove_files(b->id, b->mnt_fd);
    if (b->id[0] && !b->forget_files)
        box_note_gone(b->id, b->reason);
    CAY_FAULT("keeper.free.record");
    journal_put(J_GONE, b, b->id, 0, b->reason);
    drop_waiters(b);
    turn_drop(b);
    reply_error(b->pauser, CAY_EGONE, 0, "sandbox_gone", "the sandbox ended", NULL);
    if (b->pending) {
        reply_error(b->pending->c, CAY_EGONE, 0, "sandbox_gone", "the sandbox ended while it was being made", b->reason);
        pending_free(b->pending);
    }
    for (job_wait *j = K.jobs; j; j = j->next)
        if (j->b == b)
            j->b = NULL;
    if (b->ctl.fd >= 0)
        cay__loop_del(&K.loop, &b->ctl);
    if (b->death.fd >= 0)
        cay__loop_del(&K.loop, &b->death);
    if (K.nnets == CAY_LEN(K.nets))
        nets_drop();
    if (b->net_fd[CAY__NET_DNS_UDP] >= 0)
        K.nets[K.nnets++] = CAY_STEAL_FD(b->net_fd[CAY__NET_DNS_UDP]);
    for (size_t i = 0; i < CAY_LEN(fds); i++)
        cay__close_fd(fds[i]);
    CAY_FAULT("keeper.free.groups");
    cgroup_box_remove(b);
    if (b->pooled) {
        pool_dir(b, dir, sizeof dir);
        box_remove_files(dir, -1);
    }
    uint32_t k = (b->block - STORE_BASE) / BLOCK_IDS - 1;
    if (b->block && k < BLOCKS_MAX) /* one that was adopted has it from the journal */
        K.block_used[k / 64] &= ~(1ull << (k % 64));
    free(b);
}

void box_note_gone(const char *id, const char *reason)
{
    cay_m_boxinfo *g = &K.gone[K.ngone++ % CAY_LEN(K.gone)];
    *g = (cay_m_boxinfo){ .state = CAY_STOPPED };
    cay__str_copy(g->id, sizeof g->id, id);
    cay__str_copy(g->reason, sizeof g->reason, reason);
}

void box_info(const box *b, cay_m_boxinfo *out)
{
    memset(out, 0, sizeof *out);
    memcpy(out->id, b->id, sizeof out->id);
    cay__str_copy(out->reason, sizeof out->reason, b->reason);
    out->state = b->phase == BOX_DYING ? CAY_STOPPED : b->state;
    out->pid = b->pid;
    out->flags = b->flags;
    out->block = b->block;
    out->procs = b->nlive;
    out->created_ms = b->created_ms;
    out->deadline_ms = b->deadline_boot ? cay__wall_ms() + b->deadline_boot - cay__boot_ms() : 0;
    out->idle_ms = b->idle_ms;
    out->cookie = b->cookie;
}

void box_set_state(box *b, cay_state s, const char *kind, const char *reason)
{
    b->state = s;
    cay__str_copy(b->reason, sizeof b->reason, reason);
    journal_put(J_DEADLINE, b, b->id, (int)s, "");
    event_send(b->id, kind, reason, "", 0);
}

/* Without a group to freeze, init stops every process by signal: they can tell, and a new one is a gap. */
void box_freeze(box *b, bool on)
{
    if (!cgroup_freeze(b, on))
        box_tell(b, CAY_G_SIGNAL, "", on ? SIGSTOP : SIGCONT, 0, -1);
}

/* A command that is born into a frozen group holds init up until it thaws, so those on their way come first. One that
 * is stopped by its own sandbox is not waited for. */
static void freeze_now(cay__timer *t)
{
    box *b = (box *)((char *)t - offsetof(box, timer));
    cay__timer_cancel(t);
    CAY_FAULT("keeper.pause.freeze");
    box_freeze(b, true);
    CAY_FAULT("keeper.pause.frozen");
    box_set_state(b, CAY_PAUSED, "paused", b->pausing);
    reply_ok(b->pauser);
    b->pausing = NULL;
    b->pauser = NULL;
}

void box_spawned(box *b)
{
    for (proc *p = b->procs; p && b->pausing; p = p->next)
        if (!p->started)
            return;
    if (b->pausing && !b->holding)
        freeze_now(&b->timer);
}

void box_pause(box *b, const char *reason, client *c)
{
    b->pausing = reason;
    b->pauser = c;
    b->timer.fn = freeze_now;
    cay__timer_arm(&K.loop, &b->timer, cay__boot_ms() + BIRTH_MS);
    b->holding = b->units && box_tell(b, CAY_G_UNIT, "", CAY_GU_HOLD, 0, -1);
    box_spawned(b);
}

/* ---- messages from init ---- */

static void session_taken(box *b, const cay_g_result *r)
{
    waiter *s = b->sessions;
    if (!s)
        return;
    b->sessions = s->next;
    if (s->c && r->sys)
        reply_error(s->c, cay_code_of_errno(r->sys), r->sys, r->sys == EPERM ? "user_not_mapped" : "user_unknown",
                    "no such user in the sandbox", NULL);
    else if (s->c)
        reply_ok(s->c);
    free(s);
}

/* A service changed, or somebody became another user; or none is started any more, and the sandbox may be frozen. */
static void unit_told(box *b, const cay_g_result *r)
{
    cay_g_result m = *r;
    m.proc[sizeof m.proc - 1] = m.step[sizeof m.step - 1] = 0;
    b->units = true;
    if (m.proc[0])
        event_send(b->id, m.sys ? "sudo" : "service", m.step, m.proc, m.pid);
    b->holding &= m.proc[0] != 0;
    box_spawned(b);
}

static void on_init(box *b, const cay_msg *h, const void *body, size_t len, int *fds, int nfds)
{
    bool adoption = h->type == CAY_G_READY || h->type == CAY_G_STATE || h->type == CAY_G_NET;
    bool unit = h->type == CAY_G_STATE && len >= sizeof(cay_g_state) && (((const cay_g_state *)body)->spawn.flags & CAY_SPAWN_UNIT);
    if ((adoption && !b->adopting && !unit) || len < (h->type == CAY_G_READY ? sizeof(cay_g_hello) : h->type == CAY_G_EXITED ? sizeof(cay_g_exit)
               : h->type == CAY_G_STATE ? sizeof(cay_g_state) : sizeof(cay_g_result)))
        return;
    switch (h->type) {
    case CAY_G_BOUND: box_bound(b, body); break;
    case CAY_G_SPAWNED: proc_started(b, body, fds, nfds); break;
    case CAY_G_EXITED: proc_exited(b, body); break;
    case CAY_G_TAKEN: session_taken(b, body); break;
    case CAY_G_STILL: turn_still(b, body, fds, nfds); break;
    case CAY_G_READY: adopt_done(b); break;
    case CAY_G_STATE: adopt_state(b, body, len, fds, nfds); break;
    case CAY_G_NET: net_adopt(b, fds, nfds); break;
    case CAY_G_UNITED: unit_told(b, body); break;
    default: break;
    }
}

static void on_ctl(cay__watch *w, uint32_t ev)
{
    box *b = (box *)((char *)w - offsetof(box, ctl));
    char buf[sizeof(cay_msg) + sizeof(cay_g_state) + CAY_LABELS_MAX];
    int fds[CAY__FDS_MAX], nfds = CAY__FDS_MAX;
    (void)ev;
    ssize_t n = cay__fd_recv(w->fd, buf, sizeof buf, fds, &nfds, MSG_DONTWAIT);
    const cay_msg *h = (const cay_msg *)buf;
    if (n < 0 && (errno == EAGAIN || errno == ECONNRESET)) /* a reset is told once, before the last words */
        return;
    if (n <= 0) { /* init ends, and its pidfd tells the rest; or we had no room for what it sent */
        cay__loop_del(&K.loop, w);
        cay__close_fd(&w->fd);
        if (b->phase == BOX_LIVE)
            adopt_ask(b);
        return;
    }
    if (n >= (ssize_t)sizeof *h && h->magic == CAY_MSG_MAGIC)
        on_init(b, h, buf + sizeof *h, (size_t)n - sizeof *h, fds, nfds);
    for (int k = 0; k < nfds; k++)
        cay__close_fd(&fds[k]);
}

/* init's pidfd is readable: every process of the sandbox is gone, and so are its mounts unless we hold them. */
static void on_death(cay__watch *w, uint32_t ev)
{
    box *b = (box *)((char *)w - offsetof(box, death));
    (void)ev;
    for (int i = 0; i < 64 && b->ctl.fd >= 0; i++)
        on_ctl(&b->ctl, 0); /* its last words */
    if (b->phase == BOX_PARKING || (b->phase == BOX_BINDING && !b->pending))
        pool_failed(ESRCH, "init ended");
    if (b->id[0] && b->phase != BOX_DYING)
        box_set_state(b, CAY_STOPPED, "stopped", "init-ended");
    else if (b->id[0])
        event_send(b->id, b->forget_files ? "removed" : "stopped", b->reason, "", 0);
    b->state = b->forget_files ? CAY_GONE : CAY_STOPPED;
    box_free(b);
    pool_refill_soon();
}

void box_watch_init(box *b)
{
    b->ctl.events = b->death.events = EPOLLIN;
    b->ctl.fn = on_ctl;
    b->death.fn = on_death;
    cay__loop_add(&K.loop, &b->ctl); /* of one that is adopted: not yet there */
    if (!CAY__MUTANT("init-death"))
        cay__loop_add(&K.loop, &b->death);
}

/* ---- binding a root ---- */

const char *pending_field(const pending *p, unsigned field)
{
    const char *s = p->config, *end = p->config + p->config_len;
    for (; field && s < end; field--)
        s += strlen(s) + 1;
    return s < end ? s : "";
}

/* Not the one that every sandbox is parked with. */
bool special_root(const pending *p)
{
    return p->m.grants_store || (p->m.flags & (CAY_CREATE_ROOT_FD | CAY_CREATE_KEPT | CAY_CREATE_DURABLE | CAY_CREATE_ON)) || p->m.nlayers || strcmp(p->m.layer, K.layer) != 0;
}

/* Sends BIND with all descriptors; returns the step that failed. root: another than it was parked with, or -1. */
static const char *send_bind(box *b, pending *p, int root)
{
    struct {
        cay_msg    h;
        cay_g_bind m;
        char       tail[CAY_GRANTS_MAX * 256];
    } pkt;
    int fds[CAY__FDS_MAX], n = 0;
    int grants = p && (p->m.flags & CAY_CREATE_ROOT_FD) ? 1 : 0;

    memset(&pkt, 0, offsetof(__typeof__(pkt), tail));
    pkt.h = (cay_msg){ CAY_MSG_MAGIC, CAY_INIT_VERSION, CAY_G_BIND, 0, 0 };
    pkt.m.flags = (grants || (p && (p->m.flags & CAY_CREATE_IMAGE)) ? CAY_GB_FOREIGN : CAY_GB_USR) | (p && (p->m.flags & CAY_CREATE_DURABLE) ? CAY_GB_DURABLE : 0);
    if (p) {
        pkt.m.grants_rw = p->m.grants_rw & ~(p->m.grants_store | p->m.grants_mount); /* the host's own tools obey nothing in a volume */
        cay__str_copy(pkt.m.hostname, sizeof pkt.m.hostname, pending_field(p, 2));
    }
    if (K.mode == CAY_MODE_ROOT || root >= 0) {
        pkt.m.flags |= root >= 0 ? CAY_GB_OVERLAY : CAY_GB_HERE;
        if (root >= 0)
            fds[n++] = root;
    } else {
        cay__str_copy(pkt.m.layer, sizeof pkt.m.layer, p ? p->m.layer : K.layer);
        if (p && special_root(p))
            cay__str_copy(pkt.m.dir, sizeof pkt.m.dir, b->id);
        else
            pool_dir(b, pkt.m.dir, sizeof pkt.m.dir);
        if (grants) {
            pkt.m.flags |= CAY_GB_LOWER;
            fds[n++] = p->mounts[0];
        }
    }
    size_t at = 0;
    for (int i = grants; p && i < p->nmounts; i++) {
        bool own = ((p->m.grants_store | p->m.grants_mount) >> (i - grants) & 1) || ((p->m.flags & CAY_CREATE_ON) && i == grants);
        if (K.mode == CAY_MODE_ROOT && !own && mnt_setattr(p->mounts[i], "", AT_EMPTY_PATH, MOUNT_ATTR_IDMAP, 0, b->userns_fd) < 0)
            return "a granted directory's filesystem cannot show other owners";
        fds[n++] = p->mounts[i];
        size_t len = strlen(p->targets[i - grants]) + 1;
        memcpy(pkt.tail + at, p->targets[i - grants], len);
        at += len;
        pkt.m.ngrants++;
    }
    return cay__fd_send(b->ctl.fd, &pkt, offsetof(__typeof__(pkt), tail) + at, fds, n, 0) < 0 ? "init" : NULL;
}

static void bind_failed(box *b, int sys, const char *step)
{
    pending *p = b->pending;
    if (p) {
        dprintf(2, "bind: %s: %s\n", step, strerror(sys));
        reply_error(p->c, cay_code_of_errno(sys), sys, "bind_failed", "the root could not be mounted", step);
        b->pending = NULL;
        b->forget_files = !(p->m.flags & CAY_CREATE_KEPT);
        pending_free(p);
    } else {
        pool_failed(sys, step);
    }
    box_stop(b, "bind-failed", b->forget_files);
}

static void rooted(job_wait *j, const cay_job_done *d, int *fds, int nfds)
{
    box *b = j->b;
    K.trash |= d->trash;
    if (!b && j->dir[0] && !box_find(j->dir))
        box_remove_files(j->dir, -1);
    if (!b || b->phase != BOX_BINDING)
        return;
    pending *p = b->pending;
    if (p && (p->m.flags & CAY_CREATE_ON) && nfds > 0) { /* instead of the directory itself */
        int *shown = &p->mounts[(p->m.flags & CAY_CREATE_ROOT_FD) != 0];
        close(*shown);
        *shown = CAY_STEAL_FD(fds[--nfds]);
    }
    const char *step = d->sys ? d->step : send_bind(b, p, nfds ? fds[0] : -1);
    if (step)
        bind_failed(b, d->sys ? d->sys : errno, step);
}

/* A root of its own wants directories and, as root, an overlay: a zygote's work. */
static const char *ask_root(box *b, pending *p)
{
    int *lower = p->m.flags & CAY_CREATE_ROOT_FD ? &p->mounts[0] : NULL, fds[1 + CAY_GRANTS_MAX], n = 0, first = lower != NULL;
    cay_job j = { .type = CAY_JOB_ROOT, .mode = (uint32_t)K.mode, .block = b->block, .durable = p->m.flags & CAY_CREATE_DURABLE, .lower = lower != NULL,
                  .inside = K.mode != CAY_MODE_ROOT && !p->m.nlayers && !lower, .on = p->m.flags & CAY_CREATE_ON };
    if (lower && K.mode == CAY_MODE_ROOT && mnt_setattr(*lower, "", AT_EMPTY_PATH, MOUNT_ATTR_IDMAP, 0, b->userns_fd) < 0)
        return "the root directory's filesystem cannot show other owners";
    if (!lower && !(p->m.flags & CAY_CREATE_IMAGE) && strcmp(p->m.layer, K.layer) && rootfs_seal(p->m.layer) < 0)
        return "layer";
    cay__str_copy(j.name, sizeof j.name, b->id);
    cay__str_copy(j.path, sizeof j.path, p->stack);
    /* Volumes keep their owners as layers do, and are shown through the same map. */
    for (int i = 0; i < p->nmounts; i++)
        if (i < first || (j.on && i == first) || p->m.grants_store >> (i - first) & 1)
            fds[n++] = p->mounts[i];
    job_wait w = { .b = b, .fn = rooted };
    if (!(p->m.flags & CAY_CREATE_KEPT))
        memcpy(w.dir, b->id, sizeof w.dir);
    return job_send(job_zygote(), &j, fds, n, &w) ? NULL : "zygote";
}

void box_bind(box *b, pending *p)
{
    b->phase = BOX_BINDING;
    b->pending = p;
    if (p) {
        p->b = b;
        /* From here on the box is the sandbox's: a crash finds it by this record. */
        cay__str_copy(b->id, sizeof b->id, p->m.id);
        b->flags = p->m.flags;
        K.nlive++;
        journal_put(J_TAKEN, b, b->id, 0, "");
    }
    CAY_FAULT("keeper.bind.intent");
    const char *step = p && special_root(p) ? ask_root(b, p) : send_bind(b, p, -1);
    CAY_FAULT("keeper.bind.sent");
    if (step)
        bind_failed(b, errno, step);
}

static void enqueue(pending *p)
{
    if (pool_take(p))
        return;
    pending **q = &K.waiting;
    while (*q)
        q = &(*q)->next;
    *q = p;
    p->next = NULL;
    cay__timer_cancel(&K.refill);
    pool_refill_soon();
}

void box_bound(box *b, const cay_g_result *r)
{
    char step[sizeof r->step];
    cay__str_copy(step, sizeof step, r->step);
    pending *p = b->pending;
    if (r->sys || b->phase != BOX_BINDING) {
        bind_failed(b, r->sys, step);
        return;
    }
    b->phase = BOX_BOUND;
    K.pool_fails = 0;
    CAY_FAULT("keeper.bind.bound");
    if (p) {
        b->pending = NULL;
        box_hand_out(b, p);
    } else {
        pool_serve();
    }
}

/* ---- handing out ---- */

static uint64_t cpu_mask(const box *b)
{
    long cores = CAY_MIN(sysconf(_SC_NPROCESSORS_ONLN), 64);
    uint64_t want = b->limits.cpu_milli == UINT64_MAX ? 64 : (b->limits.cpu_milli + 999) / 1000, mask = 0;
    if ((b->flags & CAY_CREATE_NO_PIN) || want >= (uint64_t)cores)
        return 0;
    for (uint64_t i = 0; i < want; i++)
        mask |= 1ull << (K.cpu_next++ % (unsigned)cores);
    return mask;
}

static bool send_config(box *b, const pending *p)
{
    struct {
        cay_msg      h;
        cay_g_config m;
    } head = { { CAY_MSG_MAGIC, CAY_INIT_VERSION, CAY_G_CONFIG, 0, 0 }, { 0 } };
    head.m.nofile = b->limits.nofile;
    head.m.fsize = b->limits.disk;
    /* Without a memory group the data segment of each process is what can be bounded. */
    head.m.as_limit = K.features & CAY_FEAT_MEMORY ? UINT64_MAX : b->limits.memory;
    head.m.cpus = cpu_mask(b);
    struct iovec iov[2] = { { &head, sizeof head }, { p->config, p->config_len } };
    CAY_AUTOFD procs = b->tenant_fd < 0 ? -1 : openat(b->tenant_fd, "cgroup.procs", O_WRONLY | O_CLOEXEC);
    return cay__fd_sendv(b->ctl.fd, iov, 2, (int[]){ procs, b->tenant_fd }, procs >= 0 ? 2 : 0, 0) >= 0;
}

static void take_request(box *b, const cay_m_create *m)
{
    if (!b->id[0])
        K.nlive++;
    memcpy(b->id, m->id, sizeof b->id);
    b->flags = m->flags;
    b->limits = (cay_limits){ m->memory, m->swap, m->cpu_milli, m->pids, m->disk, m->inodes, m->nofile, m->io_read, m->io_write };
    b->created_ms = cay__wall_ms();
}

static void box_own(box *b, client *c)
{
    b->owner = c;
    b->owner_pid = c ? c->pid : 0;
    b->owner_start = cay__start_time(b->owner_pid);
    if (!b->adopting)
        cay__timer_cancel(&b->claim);
}

void box_hand_out(box *b, pending *p)
{
    char from[64], to[64], dir[48];
    take_request(b, &p->m);
    b->maker = p->c ? p->c->pid : 0;
    journal_put(J_TAKEN, b, b->id, 0, "");
    CAY_FAULT("keeper.create.recorded");
    b->loose = !p->m.ngrants && !special_root(p);
    if (p->m.flags & CAY_CREATE_ROOT_FD)
        b->lower_fd = CAY_STEAL_FD(p->mounts[0]);
    pool_dir(b, dir, sizeof dir);
    if (b->pooled && special_root(p)) {
        box_remove_files(dir, -1);
    } else if (b->pooled) {
        cay__str_join(from, sizeof from, "sandboxes/", dir, NULL);
        cay__str_join(to, sizeof to, "sandboxes/", b->id, NULL);
        if (renameat(K.home_fd, from, K.home_fd, to) < 0) {
            reply_error(p->c, errno == ENOTEMPTY || errno == EEXIST ? CAY_EEXIST : CAY_ESYS, errno, "", "its directory could not be made", NULL);
            pending_free(p);
            b->id[0] = 0; /* that directory is another's */
            K.nlive--;
            box_stop(b, "directory", true);
            return;
        }
    }
    b->pooled = false;
    CAY_FAULT("keeper.create.named");
    if (!cgroup_limits(b)) {
        reply_error(p->c, CAY_EINVAL, errno, "limit_refused", "the kernel refused a limit", strerror(errno));
        b->forget_files = !(b->flags & CAY_CREATE_KEPT);
        pending_free(p);
        box_stop(b, "limits", b->forget_files);
        return;
    }
    b->phase = BOX_LIVE;
    send_config(b, p);
    CAY_FAULT("keeper.create.configured");
    deadline_set(b, p->m.ttl_ms, p->m.idle_ms);
    if (b->flags & CAY_CREATE_EPHEMERAL)
        box_own(b, p->c);
    /* Whole now: from here on a crash leaves it to the next keeper, and a client that asks again gets this one. */
    journal_put(J_MORE, b, b->id, 0, "");
    CAY_FAULT("keeper.create.more");
    journal_put(J_LIVE, b, b->id, 0, "");
    box_set_state(b, CAY_RUNNING, "created", "");
    if (!p->c && (b->flags & CAY_CREATE_EPHEMERAL))
        box_stop(b, "client-gone", true);
    CAY_FAULT("keeper.create.answer");
    cay_m_boxinfo info;
    box_info(b, &info);
    reply(p->c, CAY_MSG_BOX, &info, sizeof info, NULL, 0);
    pending_free(p);
    if (b->flags & CAY_CREATE_KEPT)
        net_restore(b);
    pool_refill_soon();
}

/* ---- ending ---- */

void box_stop(box *b, const char *reason, bool forget_files)
{
    b->forget_files |= forget_files;
    if (b->phase == BOX_DYING)
        return;
    cay__str_copy(b->reason, sizeof b->reason, reason);
    b->phase = BOX_DYING;
    CAY_FAULT("keeper.stop.kill");
    if (b->death.fd < 0) {
        box_free(b);
        return;
    }
    /* Its mounts wait for grace periods when they go, and nobody has to wait for that when they are only its own: the sweeper
     * lets go of them before it removes the files, while it keeps up. Older kernels say no, and it is init's end that takes
     * longer. */
    if (b->loose && b->forget_files && K.sweeper.busy < 4)
        b->mnt_fd = ioctl(b->death.fd, _IO(0xff, 3), 0); /* PIDFD_GET_MNT_NAMESPACE, Linux 6.11 */
    /* pid 1 of its namespace: the kernel takes the rest along. A v2-frozen process dies too. */
    syscall(SYS_pidfd_send_signal, b->death.fd, CAY__MUTANT("destroy-kill") ? 0 : SIGKILL, NULL, 0);
    CAY_FAULT("keeper.stop.killed");
}

/* ---- the create request ---- */

void pending_free(pending *p)
{
    for (int i = 0; i < p->nfds; i++)
        cay__close_fd(&p->fds[i]);
    for (int i = 0; i < p->nmounts; i++)
        cay__close_fd(&p->mounts[i]);
    free(p->config);
    free(p);
}

static void clone_next(pending *p);

static void cloned(job_wait *j, const cay_job_done *d, int *fds, int nfds)
{
    pending *p = j->p;
    if (d->sys || nfds != 1 || !p->c) { /* nothing is made for who has gone */
        reply_error(p->c, cay_code_of_errno(d->sys), d->sys, "grant_refused", "a directory could not be shown inside", d->step);
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
        enqueue(p);
        return;
    }
    int i = p->nmounts;
    bool root = (p->m.flags & CAY_CREATE_ROOT_FD) && i == 0;
    int grant = i - ((p->m.flags & CAY_CREATE_ROOT_FD) ? 1 : 0);
    if (grant >= 0 && p->m.grants_mount >> grant & 1) { /* made for this sandbox: only what a grant may be is looked after */
        uint64_t set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (p->m.grants_rw >> grant & 1 ? 0 : MOUNT_ATTR_RDONLY);
        int sys = mnt_setattr(p->fds[i], "", AT_EMPTY_PATH, set, 0, -1) < 0 || mnt_private(p->fds[i], 0) < 0 ? errno : 0;
        cloned(&(job_wait){ .p = p }, &(cay_job_done){ .sys = sys, .step = "flags" }, &p->fds[i], 1);
        return;
    }
    cay_job j = { .type = CAY_JOB_CLONE, .rec = 0, .ro = root || !(p->m.grants_rw >> grant & 1) };
    char link[48], n[21];
    cay__str_join(link, sizeof link, "/proc/self/fd/", cay__str_u64(n, (uint64_t)p->fds[i]), NULL);
    ssize_t len = readlink(link, j.path, sizeof j.path - 1);
    if (len <= 0 || j.path[0] != '/') {
        reply_error(p->c, CAY_EINVAL, errno, "grant_refused", "a granted directory has no path", NULL);
        pending_free(p);
        return;
    }
    j.path[len] = 0;
    int fds[2] = { p->fds[i], -1 };
    if (job_send(&K.janitor, &j, fds, 1, &(job_wait){ .p = p, .fn = cloned }))
        return;
    reply_error(p->c, CAY_EBUSY, errno, "keeper_busy", "too many directories are being shown at once; try again", NULL);
    pending_free(p);
}

static bool take_targets(pending *p, const char *tail, size_t len)
{
    const char *s = tail, *end = tail + len;
    size_t at = 0;
    cay__str_join(p->stack, sizeof p->stack, p->m.flags & CAY_CREATE_ROOT_FD ? "/" : p->m.layer, "\n", NULL);
    for (uint32_t i = 0; i < p->m.ngrants; i++) {
        size_t n = strnlen(s, (size_t)(end - s));
        if (s + n >= end || n >= sizeof p->targets[i] || s[0] != '/')
            return false;
        memcpy(p->targets[i], s, n + 1);
        s += n + 1;
    }
    for (uint32_t i = 0; i < p->m.nlayers; i++, s += at + 1) {
        size_t n = strlen(p->stack);
        at = strnlen(s, (size_t)(end - s));
        if (s + at >= end || !cay__layer_valid(s) || !cay__str_join(p->stack + n, sizeof p->stack - n, s, "\n", NULL))
            return false;
    }
    p->config_len = (size_t)(end - s);
    p->config = cay__alloc(p->config_len + 1);
    memcpy(p->config, s, p->config_len);
    /* user, workdir, hostname and shell must be there: init looks them up by place */
    unsigned nul = 0;
    for (size_t i = 0; i < p->config_len; i++)
        nul += p->config[i] == 0;
    return nul >= 4 && p->config[p->config_len - 1] == 0;
}

void box_create(client *c, const cay_m_create *m, const char *tail, size_t len, int *fds, int nfds)
{
    box *old = box_find(m->id);
    bool twice = old && old->phase == BOX_LIVE && old->maker && old->maker != c->pid && !(m->flags & CAY_CREATE_KEPT);
    for (pending *p = K.waiting; p; p = p->next)
        twice |= !strcmp(p->m.id, m->id);
    if (twice && !reply_error(c, CAY_EEXIST, 0, "sandbox_exists", "another sandbox of this id is there, or being made", NULL))
        return;
    if (old && old->phase == BOX_LIVE) { /* asked again after a lost answer: the same sandbox, owned by who asks */
        cay_m_boxinfo info;
        if (old->flags & CAY_CREATE_EPHEMERAL)
            box_own(old, c);
        box_info(old, &info);
        reply(c, CAY_MSG_BOX, &info, sizeof info, NULL, 0);
        return;
    }
    bool root = m->flags & CAY_CREATE_ROOT_FD;
    if (old || !cay__id_valid(m->id, 'c') || m->ngrants > CAY_GRANTS_MAX || ((m->flags & CAY_CREATE_ON) && !m->ngrants) || nfds != (int)m->ngrants + (root ? 1 : 0) ||
        m->nlayers >= CAY_STACK_MAX || !memchr(m->layer, 0, sizeof m->layer) || (m->layer[0] && !cay__layer_valid(m->layer))) {
        reply_error(c, old ? CAY_EBUSY : CAY_EINVAL, 0, old ? "sandbox_ending" : "bad_request", old ? "the sandbox of this id is just ending" : "the create request is not well-formed", NULL);
        return;
    }
    if (!m->layer[0] && !root && !reply_error(c, CAY_EINVAL, 0, "bad_request", "create names neither a layer nor a root", NULL))
        return;
    pending *p = cay__alloc(sizeof *p);
    p->c = c;
    p->m = *m;
    if (!take_targets(p, tail, len)) {
        reply_error(c, CAY_EINVAL, 0, "bad_request", "the config of a create is not well-formed", NULL);
        pending_free(p);
        return;
    }
    for (int i = 0; i < nfds; i++)
        p->fds[p->nfds++] = CAY_STEAL_FD(fds[i]);
    CAY_FAULT("keeper.create.start");
    clone_next(p);
}

void box_on_client_gone(client *c)
{
    for (pending *p = K.waiting, *next; p; p = next) {
        next = p->next;
        if (p->c != c)
            continue;
        UNLINK(K.waiting, p);
        pending_free(p);
    }
    for (job_wait *j = K.jobs; j; j = j->next) {
        if (j->p && j->p->c == c)
            j->p->c = NULL;
        if (j->c == c)
            j->c = NULL;
    }
    for (box *b = K.boxes, *next; b; b = next) {
        next = b->next;
        waiter_drop(&b->waiters, c);
        for (waiter *s = b->sessions; s; s = s->next)
            if (s->c == c)
                s->c = NULL;
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
