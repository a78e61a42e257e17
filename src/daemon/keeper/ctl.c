/* SPDX-License-Identifier: Apache-2.0 */
/* What init says, what it is told, and its end. */
#include "keeper.h"
#include <sys/socket.h>

bool box_send(keeper_box *b, uint16_t type, const void *body, size_t len, const void *tail,
              size_t tail_len, const int *fds, int nfds)
{
    return cay__msg_send(b->ctl.fd, CAY_INIT_VERSION, type, body, len, tail, tail_len, fds, nfds,
                         0);
}

bool box_tell_fd(keeper_box *b, uint16_t type, const char *id, uint64_t x, uint64_t y, int fd)
{
    cay_g_proc m = { .a = x, .b = y };
    CAY_COPY(m.proc, id);
    return box_send(b, type, &m, sizeof m, NULL, 0, &fd, fd >= 0);
}

static void session_taken(keeper_box *b, const cay_g_result *r)
{
    holder_waiter *s = b->sessions;
    if (!s)
        return;
    b->sessions = s->next;
    if (r->sys)
        cay__answer_error(s->to, cay_code_of_errno(r->sys), r->sys,
                          r->sys == EPERM ? "user_not_mapped" : "user_unknown",
                          "no such user in the sandbox", NULL);
    else
        cay__answer_ok(s->to);
    free(s);
}

/* A service changed, or somebody became another user; or none is started any more, and the sandbox
 * may be frozen. */
static void service_told(keeper_box *b, const cay_g_result *r)
{
    cay_g_result m = *r;
    m.proc[sizeof m.proc - 1] = m.step[sizeof m.step - 1] = 0;
    b->services = true;
    if (m.proc[0])
        event_send(b->id, m.sys ? "sudo" : "service", m.step, m.proc, m.pid);
    b->holding &= m.proc[0] != 0;
    box_spawned(b);
}

static void on_init(keeper_box *b, const cay_msg *h, const void *body, size_t len, int *fds,
                    int nfds)
{
    bool adoption = h->type == CAY_G_READY || h->type == CAY_G_STATE || h->type == CAY_G_NET;
    bool service = h->type == CAY_G_STATE && len >= sizeof(cay_g_state) &&
                   (((const cay_g_state *)body)->spawn.flags & CAY_SPAWN_UNIT);
    size_t least = sizeof(cay_g_result);
    if (h->type == CAY_G_READY)
        least = sizeof(cay_g_hello);
    else if (h->type == CAY_G_EXITED)
        least = sizeof(cay_g_exit);
    else if (h->type == CAY_G_STATE)
        least = sizeof(cay_g_state);
    if ((adoption && !b->adopting && !service) || len < least)
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
    case CAY_G_UNITED: service_told(b, body); break;
    case CAY_G_ENDING: b->ending = true; break;
    default: break;
    }
}

static void on_ctl(cay__watch *w, uint32_t ev)
{
    keeper_box *b = CAY__OWNER(w, keeper_box, ctl);
    char buf[sizeof(cay_msg) + sizeof(cay_g_state) + CAY_LABELS_MAX];
    int fds[CAY__FDS_MAX], nfds = CAY__FDS_MAX;
    ssize_t n = cay__fd_recv(w->fd, buf, sizeof buf, fds, &nfds, MSG_DONTWAIT);
    const cay_msg *h = (const cay_msg *)buf;
    if (n < 0 &&
        (errno == EAGAIN || errno == ECONNRESET)) /* a reset is told once, before the last words */
        return;
    if (n <= 0) { /* init ends, and its pidfd tells the rest; or we had no room for what it sent */
        cay__loop_del(&keeper.loop, w);
        cay__close_fd(&w->fd);
        if (b->phase == BOX_LIVE)
            adopt_ask(b);
        return;
    }
    if (n >= (ssize_t)sizeof *h && h->magic == CAY_MSG_MAGIC)
        on_init(b, h, buf + sizeof *h, (size_t)n - sizeof *h, fds, nfds);
    cay__close_fds(fds, nfds);
}

/* init's pidfd is readable: every process of the sandbox is gone, and so are its mounts unless we
 * hold them. */
static void on_death(cay__watch *w, uint32_t ev)
{
    keeper_box *b = CAY__OWNER(w, keeper_box, death);
    for (int i = 0; i < 64 && b->ctl.fd >= 0; i++)
        on_ctl(&b->ctl, 0); /* its last words */
    proc_lost(b);           /* whose ends are told before its own */
    if (b->phase == BOX_PARKING || (b->phase == BOX_BINDING && !b->pending))
        pool_failed(b, ESRCH, "init ended");
    const char *reason = "init-ended";
    if (b->ending)
        reason = "host-stopped";
    if (b->id[0] && b->phase != BOX_DYING)
        box_set_state(b, CAY_STOPPED, "stopped", reason);
    else if (b->id[0])
        event_send(b->id, b->forget_files ? "removed" : "stopped", b->reason, "", 0);
    if (b->forget_files)
        b->state = CAY_GONE;
    else
        b->state = CAY_STOPPED;
    box_free(b);
    pool_refill_soon();
}

void box_watch_init(keeper_box *b)
{
    b->ctl.events = b->death.events = EPOLLIN;
    b->ctl.fn = on_ctl;
    b->death.fn = on_death;
    cay__loop_add(&keeper.loop, &b->ctl); /* of one that is adopted: not yet there */
    if (!CAY__MUTANT("init-death"))
        cay__loop_add(&keeper.loop, &b->death);
}
