/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper.h"
#include <base/fsop.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <termios.h>

keeper_state keeper; /* main.c has it in the product */
extern const char cay_init_image[], cay_init_image_end[];
const char cay_init_image[1], cay_init_image_end[1];

void leave_soon(void) {}

bool home_vanished(void)
{
    return false;
}

static void pair(int sv[2])
{
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sv) < 0)
        abort();
}

static int tree(const char *top, const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", top, name);
    if (mkdir(path, 0755) < 0)
        abort();
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

client *fake_client(int *peer)
{
    int sv[2];
    pair(sv);
    client *c = cay__alloc(sizeof *c);
    c->w.fd = sv[0];
    c->next = keeper.clients;
    keeper.clients = c;
    *peer = sv[1];
    return c;
}

keeper_box *fake_box(const char *id, enum box_phase phase, int *peer)
{
    int sv[2];
    keeper_box *b = box_new();
    pair(sv);
    cay__str_copy(b->id, sizeof b->id, id);
    keeper.nlive += b->id[0] != 0;
    b->ctl.fd = sv[0];
    b->death.fd =
        eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); /* no pidfd: a signal to it reaches nobody */
    b->phase = phase;
    b->state = CAY_RUNNING;
    b->limits = (cay_limits){ .memory = UINT64_MAX, .disk = UINT64_MAX };
    box_watch_init(b);
    *peer = sv[1];
    return b;
}

static void add_proc(fake *f)
{
    int in[2], out[2], err[2];
    if (pipe2(in, O_CLOEXEC | O_NONBLOCK) < 0 || pipe2(out, O_CLOEXEC | O_NONBLOCK) < 0 ||
        pipe2(err, O_CLOEXEC | O_NONBLOCK) < 0)
        abort();
    keeper_proc *p = proc_new(f->b, FAKE_PROC);
    p->pid = 7;
    p->ring_bytes = 4096;
    p->flags = CAY_SPAWN_STDIN;
    p->started = true;
    f->b->nlive++;
    cay__str_copy(p->tag, sizeof p->tag, "tag");
    proc_open_io(p, in[1], out[0], err[0]);
    f->in = in[0];
    f->out = out[1];
    f->err = err[1];
    if (write(f->out, "some output\n", 12) != 12)
        abort();
}

static void add_tty(fake *f)
{
    int unlock = 0, master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    f->tty = -1;
    if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0)
        return;
    f->tty = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    keeper_proc *p = proc_new(f->b, FAKE_TTY);
    p->pid = 8;
    p->ring_bytes = 4096;
    p->flags = CAY_SPAWN_TTY;
    p->started = true;
    f->b->nlive++;
    proc_open_io(p, fcntl(master, F_DUPFD_CLOEXEC, 3), master, -1);
}

static void add_pool(fake *f)
{
    int peer;
    char dir[64];
    keeper_box *b = fake_box("", BOX_BOUND, &peer);
    close(peer);
    cay__str_copy(b->name, sizeof b->name, FAKE_POOL);
    b->pooled = true;
    snprintf(dir, sizeof dir, "sandboxes/.pool-%s", b->name);
    mkdirat(keeper.home_fd, dir, 0755);
    (void)f;
}

void fake_open(fake *f)
{
    int sv[2];
    *f = (fake){ .dir = "/dev/shm/cay-fake-XXXXXX" };
    memset(&keeper, 0, sizeof keeper);
    signal(SIGPIPE, SIG_IGN); /* as main.c does */
    if (!cay__loop_open(&keeper.loop) || !mkdtemp(f->dir))
        abort();
    keeper.mode = CAY_MODE_SINGLE;
    keeper.journal_fd = keeper.listen_fd = keeper.lock_fd = keeper.memfd = keeper.cg.v2_fd = -1;
    for (int i = 0; i < KEEPER_JOB_V1_MAX; i++)
        keeper.cg.v1_fd[i] = -1;
    cay__str_copy(keeper.instance, sizeof keeper.instance, "iaaaaaaaaaaaaaaaaaaa");
    cay__str_copy(keeper.layer, sizeof keeper.layer, "l");
    keeper.home_fd = tree(f->dir, "home");
    keeper.run_fd = tree(f->dir, "run");
    mkdirat(keeper.home_fd, "sandboxes", 0755);
    mkdirat(keeper.home_fd, "layers", 0755);
    pair(sv);
    f->helper = sv[1];
    keeper.janitor.w = keeper.sweeper.w = keeper.zygotes[0].w = (cay__watch){ .fd = sv[0] };
    keeper.nzygotes = 1;
    f->c[0] = fake_client(&f->peer[0]);
    f->c[1] = fake_client(&f->peer[1]);
    f->b = fake_box(FAKE_BOX, BOX_LIVE, &f->init);
    add_proc(f);
    add_tty(f);
    add_pool(f);
}

static void drain(int fd)
{
    static char buf[CAY_MSG_MAX];
    int fds[CAY__FDS_MAX], nfds = CAY__FDS_MAX;
    while (fd >= 0 && cay__fd_recv(fd, buf, sizeof buf, fds, &nfds, MSG_DONTWAIT) > 0) {
        for (int i = 0; i < nfds; i++)
            close(fds[i]);
        nfds = CAY__FDS_MAX;
    }
}

/* Every job is answered: a grant's clone is the directory itself, everything else has nothing to
 * show. */
static void answer_jobs(fake *f)
{
    keeper_job j;
    int fds[CAY__FDS_MAX], nfds = CAY__FDS_MAX;
    while (cay__fd_recv(f->helper, &j, sizeof j, fds, &nfds, MSG_DONTWAIT) == sizeof j) {
        cay_job_done d = { .seq = j.seq,
                           .sys = j.type == KEEPER_JOB_PARK ? EPERM : 0,
                           .step = "fake" };
        for (job_wait **p = &keeper.jobs; *p; p = &(*p)->next)
            if ((*p)->seq == d.seq) {
                job_wait *w = *p;
                *p = w->next;
                w->fn(w, &d, fds, nfds);
                free(w);
                break;
            }
        for (int i = 0; i < nfds; i++)
            cay__close_fd(&fds[i]);
        nfds = CAY__FDS_MAX;
    }
}

void fake_turn(fake *f)
{
    for (int i = 0; i < 3; i++) {
        for (keeper_box *b = keeper.boxes; b; b = b->next)
            if (b->phase == BOX_DYING && b->death.fd >= 0)
                eventfd_write(b->death.fd, 1); /* as the kernel would say */
        cay__loop_step(&keeper.loop, 0);
        answer_jobs(f);
    }
    drain(f->init);
    drain(f->peer[0]);
    drain(f->peer[1]);
}

void fake_close(fake *f)
{
    while (keeper.clients)
        client_close(keeper.clients);
    while (keeper.boxes)
        box_free(keeper.boxes);
    while (keeper.waiting) {
        pending *p = keeper.waiting;
        keeper.waiting = p->next;
        pending_free(p);
    }
    while (keeper.jobs) {
        job_wait *w = keeper.jobs;
        keeper.jobs = w->next;
        if (w->p)
            pending_free(w->p);
        free(w);
    }
    int fds[] = { f->helper, f->init, f->peer[0], f->peer[1],         f->out,
                  f->err,    f->in,   f->tty,     keeper.janitor.w.fd };
    for (size_t i = 0; i < CAY_LEN(fds); i++)
        cay__close_fd(&fds[i]);
    cay__close_fd(&keeper.home_fd);
    cay__close_fd(&keeper.run_fd);
    close(keeper.loop.ep);
    CAY_AUTOFD root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    cay__fs fs = { .root = root };
    if (cay__fs_remove(&fs, f->dir, true) < 0)
        abort();
}
