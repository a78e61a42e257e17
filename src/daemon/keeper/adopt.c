/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking over from a keeper that died. The journal says which inits there were; each that still is
 * the same process (pid and start time) is asked through its socket what it holds. The rest is
 * cleared away.
 */
#include "keeper.h"
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#ifndef NS_GET_PARENT
#define NS_GET_PARENT _IO(0xb7, 0x2)
#endif
#define EXITS 8192
#define CLAIM_MS                                                                                   \
    10000            /* a client of an ephemeral sandbox comes back within this time, or it ends */
#define LOOK_MS 1000 /* unless its process is known: then as soon as that one is dead */
#define ASK_MS  100  /* between two tries to reach an init */

static struct {
    jkept *live;
    size_t n, cap;
    jrec exits[EXITS]; /* why commands ended, or are about to, as the dead keeper knew it: the last
                          ones */
    size_t nexits;
    char boot[CAY_WIRE_ID];
    char instance[CAY_WIRE_ID];
    int heir;
} adoption;

void boot_id(char out[CAY_WIRE_ID])
{
    char buf[64] = "";
    cay__fd_read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", buf, sizeof buf);
    memset(out, 0, CAY_WIRE_ID);
    for (size_t i = 0, n = 0; buf[i] && n < CAY_WIRE_ID - 1; i++)
        if (buf[i] != '-' && buf[i] != '\n')
            out[n++] = buf[i];
}

static jkept *find_entry(const char *name, bool make)
{
    CAY_EACH_OF(it, adoption.live, adoption.n)
        if (!strcmp(it->r.box, name))
            return it;
    if (!make)
        return NULL;
    if (adoption.n == adoption.cap &&
        !(adoption.live = realloc(adoption.live,
                                  (adoption.cap = adoption.cap * 2 + 64) * sizeof *adoption.live)))
        abort();
    memset(&adoption.live[adoption.n], 0, sizeof *adoption.live);
    return &adoption.live[adoption.n++];
}

static void on_record(const jrec *r, void *arg)
{
    jkept *e;
    /* Names become paths below the state directory, whatever the sum says. */
    if (r->op != J_OPEN && (!cay__id_valid(r->box, 'b') || (r->id[0] && !cay__id_valid(r->id, 0))))
        return;
    switch (r->op) {
    case J_OPEN:
        adoption.n = adoption.nexits = 0;
        memcpy(adoption.boot, r->id, sizeof adoption.boot);
        memcpy(adoption.instance, r->box, sizeof adoption.instance);
        break;
    case J_PARKING:
    case J_PARKED:
    case J_TAKEN:
    case J_LIVE: find_entry(r->box, true)->r = *r; break;
    case J_MORE:
        if ((e = find_entry(r->box, false)))
            e->more = *r;
        break;
    case J_DEADLINE:
        if ((e = find_entry(r->box, false))) {
            e->r.a = r->a;
            e->r.b = r->b;
            e->r.code = CAY_OR(r->code, e->r.code);
        }
        break;
    case J_GONE:
        if ((e = find_entry(r->box, false)))
            *e = adoption.live[--adoption.n];
        if (r->id[0] && !(r->flags & CAY_CREATE_EPHEMERAL))
            box_note_gone(r->id, r->reason);
        break;
    case J_EXIT: adoption.exits[adoption.nexits++ % EXITS] = *r; break;
    default: break;
    }
}

static bool is_alive(const jrec *r)
{
    return r->pid > 0 && r->start && cay__start_time(r->pid) == r->start;
}

/* Before the namespaces: where an init of the last keeper lives is where the next keeper must live
 * too. */
int adopt_plan(void)
{
    char now[CAY_WIRE_ID], path[64];
    adoption.n = adoption.nexits = 0;
    adoption.boot[0] = 0;
    journal_read(on_record, NULL);
    boot_id(now);
    if (strcmp(now, adoption.boot)) /* another boot: nothing of it runs, no pid means anything */
        adoption.n = 0;
    size_t all = CAY_MIN(adoption.nexits, (size_t)EXITS);
    adoption.nexits = 0;
    CAY_EACH_OF(exit, adoption.exits, all)
        if (find_entry(exit->box, false))
            adoption.exits[adoption.nexits++] = *exit;
    CAY_EACH_OF(it, adoption.live, adoption.n) {
        if (!is_alive(&it->r))
            continue;
        adoption.heir = it->r.pid;
        if (geteuid() == 0)
            break;
        proc_path(path, sizeof path, it->r.pid, "ns/user");
        CAY_AUTOFD own = open(path, O_RDONLY | O_CLOEXEC);
        int parent = -1;
        if (own >= 0)
            parent = ioctl(own, NS_GET_PARENT);
        if (parent >= 0)
            return parent;
    }
    return -1;
}

int adopt_heir(void)
{
    return adoption.heir;
}

const char *adopt_instance(void)
{
    if (cay__id_valid(adoption.instance, 'i'))
        return adoption.instance;
    return NULL;
}

void adopt_state(keeper_box *b, const cay_g_state *s, size_t len, int *fds, int nfds)
{
    int slot[5] = { -1, -1, -1, -1, -1 }, at = 0;
    char id[CAY_WIRE_ID];
    CAY_COPY(id, s->spawn.proc);
    keeper_proc *old = NULL;
    if (cay__id_valid(id, 'p'))
        old = proc_find(b, id);
    if (old && s->ended) /* it was lost to us for a while only */
        proc_exited(b, &s->exit);
    if (old && (old->flags & CAY_SPAWN_UNIT)) /* its next run */
        old->pid = s->exit.pid;
    if (!cay__id_valid(id, 'p') || old || b->nprocs >= PROCS_MAX)
        return;
    for (int i = 0; i < 5; i++)
        if (s->fds >> i & 1 && at < nfds)
            slot[i] = CAY_STEAL_FD(fds[at++]);
    keeper_proc *p = proc_new(b, id);
    memcpy(p->tag, s->spawn.tag, sizeof p->tag);
    memcpy(p->title, s->spawn.title, sizeof p->title);
    p->tag[sizeof p->tag - 1] = p->title[sizeof p->title - 1] = 0;
    proc_label(p, (const char *)(s + 1), len - sizeof *s);
    p->pid = s->exit.pid;
    p->flags = s->spawn.flags & (CAY_SPAWN_ALL | CAY_SPAWN_UNIT);
    if (s->spawn.ring >= 4096 && s->spawn.ring <= CAY__RING_MAX)
        p->ring_bytes = s->spawn.ring & ~4095u;
    else
        p->ring_bytes = CAY__RING_DEFAULT;
    p->started_ms = CAY_MAX(s->spawn.started_ms, 0); /* the time since then has to be a number */
    p->started = true;
    proc_count(p, 1);
    for (int i = 0; i < 2; i++) {
        cay__stream_set(&p->out[i], p->flags, p->ring_bytes, p->started_ms);
        if (slot[3 + i] >= 0 && !cay__ring_adopt(&p->out[i], slot[3 + i]))
            close(slot[3 + i]);
    }
    if ((p->flags & CAY_SPAWN_TTY) && slot[1] >= 0 && slot[0] < 0)
        slot[0] = fcntl(slot[1], F_DUPFD_CLOEXEC, 3);
    proc_open_io(p, slot[0], slot[1], slot[2]);
    cgroup_exec_adopt(p, s->spawn.group);
    CAY_EACH_OF(it, adoption.exits, adoption.nexits)
        if (!strcmp(it->id, id)) {
            p->killing = !strcmp(it->reason, "time");
            if (s->ended)
                memcpy(p->exit.reason, it->reason, sizeof p->exit.reason);
        }
    if (s->ended)
        proc_exited(b, &s->exit);
    else if (s->spawn.timeout_ms)
        proc_arm(p, CAY_MIN((uint64_t)CAY_MAX(CAY_MAX(s->spawn.deadline, 0) - cay__boot_ms(), 1),
                            s->spawn.timeout_ms));
}

static int dial_init(const char *name)
{
    struct sockaddr_un sa = { .sun_family = AF_UNIX };
    CAY_AUTOFD s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    CAY_JOIN(sa.sun_path, "/r/", name);
    if (s < 0 || connect(s, (struct sockaddr *)&sa, sizeof sa) < 0)
        return -1;
    return CAY_STEAL_FD(s);
}

/* init may be slow, stopped, or held up by a command that is just being born. As long as it lives
 * it is asked again: only its death, which its pidfd tells, ends the sandbox. */
static void request_adoption(cay__timer *t)
{
    keeper_box *b = CAY__OWNER(t, keeper_box, claim);
    cay_g_hello m = { CAY_INIT_VERSION, 0, "" };
    memcpy(m.instance, keeper.instance, sizeof m.instance);
    b->ctl.fd = dial_init(b->name);
    if (b->ctl.fd >= 0 && box_send(b, CAY_G_ADOPT, &m, sizeof m, NULL, 0, NULL, 0) &&
        cay__loop_add(&keeper.loop, &b->ctl))
        return;
    if (!t->at_ms)
        dprintf(2, "%lld adopt %s: %s; asked again\n", (long long)cay__clock_ms(), b->id,
                strerror(errno));
    cay__close_fd(&b->ctl.fd);
    adopt_ask(b);
}

void adopt_ask(keeper_box *b)
{
    b->adopting = true;
    b->claim.fn = request_adoption;
    arm_timer(&b->claim, ASK_MS);
}

static bool owner_lives(const keeper_box *b)
{
    return b->owner_start && cay__start_time(b->owner_pid) == b->owner_start;
}

/* Before leaving: whose owner died since it was last looked for is not left to the next keeper. */
void adopt_last_look(void)
{
    CAY_EACH_LINK(b, keeper.boxes)
        if (b->phase == BOX_LIVE && (b->flags & CAY_CREATE_EPHEMERAL) && !b->owner &&
            b->owner_start && !owner_lives(b))
            box_stop(b, "client-gone", true);
}

static void on_claim_timeout(cay__timer *t)
{
    keeper_box *b = CAY__OWNER(t, keeper_box, claim);
    if (b->owner)
        return;
    if (owner_lives(b))
        arm_timer(t, LOOK_MS); /* it had no reason yet to come back */
    else
        box_stop(b, "client-gone", true);
}

static keeper_box *box_of(const jrec *r)
{
    keeper_box *b = box_new();
    memcpy(b->name, r->box, sizeof b->name);
    memcpy(b->id, r->id, sizeof b->id);
    b->flags = r->flags;
    keeper.nlive += b->id[0] != 0;
    return b;
}

static void take_over(const jkept *e)
{
    const jrec *r = &e->r;
    cay_m_usage u = { 0 };
    keeper_box *b = box_of(r);
    b->block = r->block;
    b->pid = r->pid;
    b->start = r->start;
    b->phase = BOX_LIVE;
    if (r->code == CAY_PAUSED)
        b->state = CAY_PAUSED;
    else
        b->state = CAY_RUNNING;
    b->created_ms = r->time_ms;
    b->deadline_boot = r->a;
    b->idle_ms = (uint64_t)r->b;
    b->owner_pid = e->more.pid;
    b->owner_start = e->more.start;
    b->limits.disk = (uint64_t)e->more.a;
    b->limits.inodes = (uint64_t)e->more.b;
    b->cookie = e->more.cookie;
    b->net = e->more.net;
    uint32_t k = (b->block - STORE_BASE) / BLOCK_IDS - 1;
    if (b->block && k < BLOCKS_MAX)
        keeper.block_used[k / 64] |= 1ull << (k % 64);
    b->death.fd = (int)syscall(SYS_pidfd_open, b->pid, 0);
    cgroup_box_open(b);
    if (b->cg_fd >= 0) /* whoever it stood still for finds that its keeper is gone */
        cay__fd_write_file(b->cg_fd, "cgroup.freeze", "0");
    cgroup_usage(b, &u);
    b->oom_seen = u.oom_kills;
    b->pids_seen = u.pids_hits;
    /* The pid could have been reused between the look and the descriptor: look again through the
     * held one. */
    if (b->death.fd < 0 || cay__start_time(b->pid) != b->start) {
        b->forget_files = b->flags & CAY_CREATE_EPHEMERAL;
        CAY_COPY(b->reason, "lost");
        box_free(b);
        return;
    }
    /* A kill between the freezing and its record leaves what nobody was told: the record counts. */
    if (b->state == CAY_RUNNING)
        cgroup_freeze(b, false);
    box_watch_init(b);
    deadline_touch(b);
    deadline_arm(b);
    b->adopting = true;
    request_adoption(&b->claim);
}

/* It has told everything. */
void adopt_done(keeper_box *b)
{
    b->adopting = false;
    cay__timer_cancel(&b->claim);
    if ((b->flags & CAY_CREATE_EPHEMERAL) && !b->owner) {
        b->claim.fn = on_claim_timeout;
        arm_timer(&b->claim, b->owner_start ? 0 : CLAIM_MS);
    }
    CAY_FAULT("keeper.adopt.one");
    turn_adopt(b);
}

/* A parked one of the last keeper, or a sandbox that ended unseen: nothing of it stays but its
 * files. */
static void clear_away(const jrec *r)
{
    if (is_alive(r)) {
        CAY_AUTOFD fd = (int)syscall(SYS_pidfd_open, r->pid, 0);
        if (fd >= 0 && cay__start_time(r->pid) == r->start) {
            syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
            /* until it is gone its groups are busy */
            for (int i = 0; i < 200 && cay__start_time(r->pid) == r->start; i++)
                usleep(1000);
        }
    }
    keeper_box *b = box_of(r);
    /* Files of one that nobody was told of go too, unless they are older than it. */
    b->forget_files =
        (r->flags & CAY_CREATE_EPHEMERAL) || (r->op == J_TAKEN && !(r->flags & CAY_CREATE_KEPT));
    CAY_COPY(b->reason, "lost");
    box_free(b);
}

/* Directories of pools and of removals that were cut short, and sockets nobody listens on. */
void sweep_dirs(bool pool)
{
    keeper_job j = { .type = KEEPER_JOB_SWEEP, .rec = pool };
    keeper.trash = !job_send(&keeper.sweeper, &j, NULL, 0, NULL);
}

void adopt_run(void)
{
    char now[CAY_WIRE_ID];
    boot_id(now);
    /* The journal names every one of them until each is dealt with: a kill in here loses nothing.
     * Nor does one after us, of what only the keeper before us knew. */
    journal_start(now, adoption.live, adoption.n, adoption.exits, adoption.nexits);
    CAY_FAULT("keeper.adopt.start");
    CAY_EACH_OF(item, adoption.live, adoption.n)
        if (item->r.op == J_LIVE && is_alive(&item->r)) {
            take_over(item);
            item->r.op = 0;
        }
    CAY_FAULT("keeper.adopt.taken");
    CAY_EACH_OF(it, adoption.live, adoption.n)
        if (it->r.op)
            clear_away(&it->r);
    CAY_FAULT("keeper.adopt.cleared");
    sweep_dirs(true);
    CAY_FAULT("keeper.adopt.swept");
    keeper.strays = !cgroup_reap_strays();
    free(adoption.live);
}
