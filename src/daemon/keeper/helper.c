/* SPDX-License-Identifier: Apache-2.0 */
/* The helpers: processes from the sealed image that do for the keeper what may block. What they are
 * asked and what they answer is in job.h. */
#include "keeper.h"
#include <linux/memfd.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#define LIFE_MS 1000 /* one that does not live so long is not started again */

extern const char cay_init_image[], cay_init_image_end[];

static int helper_child(void *arg)
{
    const helper *h = arg;
    char mode[] = { (char)('0' + keeper.mode), 0 };
    char *const argv[] = { "cay-init", (char *)h->role, (char *)h->dir,
                           mode,       keeper.argv[2],  keeper.argv[0],
                           NULL };
    char *env[] = { NULL, NULL, NULL, NULL };
#ifdef CAY_FAULTS
    char fault[128], lack[256];
    size_t n = 0;
    if (getenv("CAY_LACK") && CAY_JOIN(lack, "CAY_LACK=", getenv("CAY_LACK")))
        env[n++] = lack;
    if (getenv("CAY_FAULT") && CAY_JOIN(fault, "CAY_FAULT=", getenv("CAY_FAULT"))) {
        env[n++] = fault;
        env[n++] = "CAY_FAULT_HITS=/proc/self/fd/4";
    }
#endif
    /* The janitor stays in the host's tree, in a mount namespace that follows the host's; one that
     * takes its place, too. */
    if ((h->ns < 0 && unshare(CLONE_NEWNS) < 0) || (h->ns > 0 && setns(h->ns, CLONE_NEWNS) < 0) ||
        dup2(h->w.fd, 3) < 0)
        _exit(1);
    unsigned first = 4;
#ifdef CAY_FAULTS
    if (cay__fault_load() >= 0 && dup2(cay__fault_load(), 4) == 4 && fcntl(4, F_SETFD, 0) == 0)
        first = 5;
#endif
    syscall(SYS_close_range, first, ~0u, 4u /* CLOSE_RANGE_CLOEXEC */);
    syscall(SYS_execveat, keeper.memfd, "", argv, env, AT_EMPTY_PATH);
    _exit(127);
}

static void helper_on(cay__watch *w, uint32_t ev);

bool helper_start(helper *h, const char *role, const char *dir, int ns)
{
    int sv[2];
    char path[48];
    static char stack[16384] __attribute__((aligned(16)));
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
        return false;
    *h = (helper){
        { .fd = sv[1], .events = EPOLLIN, .fn = helper_on }, role, dir, 0, ns, cay__boot_ms(), 0
    };
    h->pid = clone(helper_child, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, h);
    CAY__STACK_USED(stack, sizeof stack);
    close(sv[1]);
    h->w.fd = sv[0];
    proc_path(path, sizeof path, h->pid, "ns/mnt");
    if (h->pid > 0 && ns < 0)
        h->ns = open(path, O_RDONLY | O_CLOEXEC);
    else
        h->ns = ns;
    return h->pid > 0 && h->ns >= 0;
}

/* What it was at is lost: who waits is told, removals are found again by their names, inits that
 * were half made end by themselves. One that dies again at once takes us along: the next keeper
 * starts whole, and adopts. */
static void helper_lost(helper *h)
{
    cay_job_done d = { .sys = EAGAIN,
                       .step = "a helper ended; try again",
                       .error = { CAY_EBUSY, 0, "keeper_busy", "a helper ended; try again" } };
    dprintf(2, "%lld %s ended\n", (long long)cay__clock_ms(), h->role);
    cay__loop_del(&keeper.loop, &h->w);
    cay__close_fd(&h->w.fd);
    h->busy = 0;
    if (!keeper.stop.fn) /* else it was asked to end, as we were */
        keeper.broken = cay__boot_ms() - h->since_ms < LIFE_MS ||
                        !helper_start(h, h->role, h->dir, h->ns) ||
                        !cay__loop_add(&keeper.loop, &h->w);
    if (keeper.broken) /* it may be all of us that systemd asks to end, the new one, too */
        leave_soon();
    keeper.trash = keeper.strays = true;
    CAY_EACH_LINK_SAFE(j, keeper.jobs) {
        if (j->h != h)
            continue;
        CAY_UNLINK(keeper.jobs, j);
        j->fn(j, &d, NULL, 0);
        free(j);
    }
    for (keeper_box *b = keeper.boxes; b && h == &keeper.lender; b = b->next)
        b->restore |= b->lent;
    pool_refill_soon();
}

static bool seal_image(void)
{
    size_t n = (size_t)(cay_init_image_end - cay_init_image);
    keeper.memfd = (int)syscall(SYS_memfd_create, "cay-init", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return keeper.memfd >= 0 && cay__fd_write_all(keeper.memfd, cay_init_image, n) &&
           fcntl(keeper.memfd, F_ADD_SEALS,
                 F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) == 0;
}

#ifdef CAY_FAULTS
int pool_print_faults(void);
int pool_print_faults(void)
{
    char *argv[] = { "cay-init", "--faults", NULL }, *env[] = { NULL };
    if (seal_image())
        syscall(SYS_execveat, keeper.memfd, "", argv, env, AT_EMPTY_PATH);
    return 1;
}
#endif

bool pool_start_janitor(const char *home)
{
    return seal_image() && helper_start(&keeper.janitor, "janitor", home, -1) &&
           helper_start(&keeper.sweeper, "sweeper", home, -1) &&
           helper_start(&keeper.lender, "lender", home, -1);
}

/* False when the helper has more before it than its socket holds: a removal is then found again by
 * its name. */
bool job_send(helper *h, keeper_job *j, const int *fds, int nfds, const job_wait *wait)
{
    j->seq = ++keeper.job_seq;
    if (cay__fd_send(h->w.fd, j, sizeof *j, fds, nfds, MSG_DONTWAIT) < 0) {
        keeper.trash |= j->type == KEEPER_JOB_RMTREE;
        return false;
    }
    h->busy++;
    if (wait) {
        job_wait *w = cay__alloc(sizeof *w);
        *w = *wait;
        w->seq = j->seq;
        w->h = h;
        w->next = keeper.jobs;
        keeper.jobs = w;
    }
    return true;
}

static void helper_on(cay__watch *w, uint32_t ev)
{
    helper *h = (helper *)w;
    int fds[CAY__FDS_MAX], nfds = CAY__FDS_MAX;
    cay_job_done d;
    ssize_t n = cay__fd_recv(w->fd, &d, sizeof d, fds, &nfds, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN &&
                   errno != ECONNRESET)) { /* a reset is told before its last words */
        helper_lost(h);
        return;
    }
    if (n != sizeof d)
        return;
    h->busy -= h->busy > 0;
    d.step[sizeof d.step - 1] = 0;
    for (job_wait **p = &keeper.jobs; *p; p = &(*p)->next)
        if ((*p)->seq == d.seq) {
            job_wait *j = *p;
            *p = j->next;
            j->fn(j, &d, fds, nfds);
            free(j);
            break;
        }
    cay__close_fds(fds, nfds);
    if (keeper.trash && !keeper.sweeper.busy)
        sweep_dirs(false);
}

helper *job_zygote(void)
{
    helper *best = &keeper.zygotes[0];
    for (unsigned i = 1; i < keeper.nzygotes; i++)
        if (keeper.zygotes[i].busy < best->busy)
            best = &keeper.zygotes[i];
    return best;
}
