/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Standing still without a freezer: SIGSTOP for every process of the sandbox, init first, so that
 * nobody sees a child of its stop. A stopped process neither runs nor forks, so once two walks find
 * the same processes and all of them at rest, it is so. The guard is a process of its own: it lives
 * on when cay-clone is killed, sees its socket end, and continues what it stopped.
 */
#include "clone.h"
#include <base/base.h>
#include <base/fault.h>
#include <dirent.h>
#include <linux/nsfs.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#define STOP_MS 5000

void proc_path(char out[64], int pid, const char *file)
{
    char n[21];
    cay__str_join(out, 64, "/proc/", cay__str_u64(n, (uint64_t)pid), file, NULL);
}

static bool pid_ns(int pid, struct stat *st)
{
    char path[64];
    proc_path(path, pid, "/ns/pid");
    return stat(path, st) == 0;
}

/* In that namespace, or in one below it. */
static bool is_in_namespace(int pid, const struct stat *ns, const struct stat *own)
{
    char path[64];
    struct stat st;
    if (!pid_ns(pid, &st) || st.st_ino == own->st_ino)
        return false;
    if (st.st_ino == ns->st_ino)
        return true;
    proc_path(path, pid, "/ns/pid");
    CAY_AUTOFD fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0) {
        int up = ioctl(fd, NS_GET_PARENT);
        cay__close_fd(&fd);
        fd = up;
        if (fd >= 0 && fstat(fd, &st) == 0 && st.st_ino == ns->st_ino)
            return true;
    }
    return false;
}

bool each_process(int init, bool (*fn)(int pid, void *arg), void *arg)
{
    struct stat ns, own;
    uint64_t pid;
    if (!pid_ns(init, &ns) || !pid_ns(getpid(), &own) || ns.st_ino == own.st_ino)
        return false;
    DIR *d = opendir("/proc");
    bool ok = d && fn(init, arg);
    for (struct dirent *e; ok && (e = readdir(d));)
        if (e->d_name[0] >= '1' && e->d_name[0] <= '9' && cay__str_to_u64(e->d_name, &pid) &&
            (int)pid != init && is_in_namespace((int)pid, &ns, &own))
            ok = fn((int)pid, arg);
    if (d)
        closedir(d);
    return ok;
}

/* The letter of /proc/…/stat. */
static char state_of(const char *file)
{
    char buf[512];
    const char *end = NULL;
    if (cay__fd_read_file(AT_FDCWD, file, buf, sizeof buf) > 0)
        end = strrchr(buf, ')');
    if (end && end[1])
        return end[2];
    return 'X';
}

/* A parent that waits for its vfork(2) child sleeps until that one, which stands still, goes on. */
static bool waits_for_child(const char *task)
{
    char path[360], buf[64];
    CAY_JOIN(path, task, "/syscall");
    if (cay__fd_read_file(AT_FDCWD, path, buf, sizeof buf) <= 0 || buf[0] < '0' || buf[0] > '9')
        return false;
    long call = strtol(buf, NULL, 10);
#ifdef SYS_vfork
    if (call == SYS_vfork)
        return true;
#endif
    return call == SYS_clone || call == SYS_clone3;
}

/* A frozen one sleeps where signals are taken, and the kernel says so only of one that is on no run
 * queue. A kernel without names of its functions says 0: then all that sleep are taken for frozen,
 * which `guess` allows. */
static bool in_the_freezer(const char *task, bool guess)
{
    char path[360], buf[64] = "";
    CAY_JOIN(path, task, "/wchan");
    if (cay__fd_read_file(AT_FDCWD, path, buf, sizeof buf) <= 0 || !strcmp(buf, "0"))
        return guess;
    return !strcmp(buf, "get_signal") || !strcmp(buf, "do_freezer_trap");
}

/* Every thread: stopped, traced and stopped, or dead; or frozen. */
static bool at_rest(int pid, bool frozen, bool guess)
{
    char dir[64], task[340], file[360];
    proc_path(dir, pid, "/task");
    DIR *d = opendir(dir);
    bool rest = true;
    for (struct dirent *e; d && rest && (e = readdir(d));) {
        if (e->d_name[0] == '.')
            continue;
        CAY_JOIN(task, dir, "/", e->d_name);
        CAY_JOIN(file, task, "/stat");
        char s = state_of(file);
        rest = strchr("TtZX", s) || (s == 'D' && waits_for_child(task)) ||
               (s == 'S' && frozen && in_the_freezer(task, guess));
    }
    if (d)
        closedir(d);
    return rest;
}

static bool on_frozen(int pid, void *arg)
{
    return at_rest(pid, true, *(bool *)arg);
}

bool all_frozen(int init, bool guess)
{
    return each_process(init, on_frozen, &guess);
}

#define PROCESSES_MAX 65536

/* Shared with cay-clone, which continues them if the guard is killed. */
typedef struct stopped {
    int pid;
    bool ours; /* else it stood still already */
    uint64_t start;
} stopped;

typedef struct guard_list {
    _Atomic size_t n;
    uint64_t mark; /* of what all had run until they were stopped */
    stopped at[PROCESSES_MAX];
} guard_list;

static guard_list *guarded;
static struct {
    size_t seen; /* in this walk */
    bool fresh;  /* somebody new was met */
    bool moving; /* somebody is not at rest yet */
} sweep;

bool guard_prepare(void)
{
    guarded = mmap(NULL, sizeof *guarded, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return guarded != MAP_FAILED;
}

/* By pidfd: what has the number later is not meant. */
static bool send_to(int pid, uint64_t start, int sig)
{
    CAY_AUTOFD fd = (int)syscall(SYS_pidfd_open, pid, 0);
    return fd >= 0 && cay__start_time(pid) == start &&
           syscall(SYS_pidfd_send_signal, fd, sig, NULL, 0) == 0;
}

static bool on_stop(int pid, void *arg)
{
    char file[64];
    uint64_t start = cay__start_time(pid);
    if (!start)
        return true;
    sweep.seen++;
    sweep.moving |= !at_rest(pid, false, false);
    CAY_EACH_OF(it, guarded->at, guarded->n)
        if (it->pid == pid && it->start == start)
            return true;
    sweep.fresh = true;
    if (guarded->n == PROCESSES_MAX)
        return false;
    proc_path(file, pid, "/stat");
    /* One that stands still already does so for a reason of its own, and is not continued either.
     */
    bool ours = state_of(file) != 'T';
    guarded->at[guarded->n] = (stopped){ pid, ours, start };
    guarded->n++; /* known before it is stopped, to whoever continues it */
    if (ours)
        send_to(pid, start, SIGSTOP);
    return true;
}

static bool stop_all(int init)
{
    for (int64_t end = cay__now_ms() + STOP_MS; cay__now_ms() < end;) {
        size_t before = sweep.seen;
        sweep.seen = 0;
        sweep.fresh = sweep.moving = false;
        if (!each_process(init, on_stop, NULL)) {
            errno = ESRCH;
            return false;
        }
        if (!sweep.fresh && !sweep.moving && sweep.seen == before)
            return true;
        if (!sweep.fresh)
            usleep(200);
    }
    errno = ETIMEDOUT;
    return false;
}

static uint64_t mix_hash(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

static uint64_t number_after(const char *text, const char *word)
{
    const char *at = strstr(text, word);
    if (at)
        return strtoull(at + strlen(word), NULL, 10);
    return 0;
}

/* The end of a file that others make as long as they like: groups stand in the middle. */
static bool read_end(const char *path, char *buf, size_t cap)
{
    CAY_AUTOFD fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t have = 0, keep = cap / 2;
    for (ssize_t n; fd >= 0 && (n = read(fd, buf + have, cap - 1 - have)) > 0;) {
        have += (size_t)n;
        if (have > keep) {
            memmove(buf, buf + have - keep, keep);
            have = keep;
        }
    }
    buf[have] = 0;
    return have;
}

/* One thread: its times and how often it was given a processor. 0: it is dead, which waits for
 * nobody. */
static uint64_t ran_until_now(const char *task, uint64_t tid)
{
    char path[360], buf[4096];
    unsigned long long user = 0, kernel = 0;
    /* The letter T comes a moment before the thread leaves its processor; this file is told when it
     * has. */
    CAY_JOIN(path, task, "/syscall");
    cay__fd_read_file(AT_FDCWD, path, buf, sizeof buf);
    CAY_JOIN(path, task, "/stat");
    const char *end = NULL;
    if (cay__fd_read_file(AT_FDCWD, path, buf, sizeof buf) > 0)
        end = strrchr(buf, ')');
    if (!end ||
        sscanf(end + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user, &kernel) !=
            2 ||
        strchr("ZX", end[2]))
        return 0;
    CAY_JOIN(path, task, "/status");
    if (!read_end(path, buf, sizeof buf))
        return 0;
    return mix_hash(mix_hash(mix_hash(mix_hash(tid, user), kernel),
                             number_after(buf, "\nvoluntary_ctxt_switches:")),
                    number_after(buf, "\nnonvoluntary_ctxt_switches:"));
}

static bool on_mark(int pid, void *arg)
{
    char dir[64], task[340];
    uint64_t *sum = arg, tid;
    proc_path(dir, pid, "/task");
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));)
        if (cay__str_to_u64(e->d_name, &tid)) {
            CAY_JOIN(task, dir, "/", e->d_name);
            *sum += ran_until_now(task, tid);
        }
    if (d)
        closedir(d);
    return true;
}

static bool on_rest(int pid, void *arg)
{
    return at_rest(pid, false, false);
}

/* A process may be continued by a timer of its own, run, and be stopped again: so what counts is
 * that nobody ran. */
bool guard_kept(int init)
{
    uint64_t now = 0;
    return each_process(init, on_rest, NULL) && each_process(init, on_mark, &now) &&
           now == guarded->mark;
}

/* Children before their parents: a parent that runs again finds none of them stopped. */
void guard_release(void)
{
    for (; guarded->n; guarded->n--) {
        const stopped *s = &guarded->at[guarded->n - 1];
        if (s->ours)
            send_to(s->pid, s->start, SIGCONT);
    }
}

void guard_main(int sock, int init)
{
    char said[5] = "y", c;
    setsid(); /* what ends cay-clone's whole group is not for us */
    prctl(PR_SET_NAME, "cay-guard");
    for (int i = 1; i < 32; i++)
        signal(i, i == SIGCHLD ? SIG_DFL : SIG_IGN);
    if (!stop_all(init) || !each_process(init, on_mark, &guarded->mark)) {
        int sys = errno;
        said[0] = 'n';
        memcpy(said + 1, &sys, sizeof sys);
    }
    CAY_FAULT("clone.guard.stopped");
    if (send(sock, said, sizeof said, MSG_NOSIGNAL) == sizeof said)
        while (read(sock, &c, 1) < 0 && errno == EINTR)
            ;
    guard_release();
    _exit(0);
}
