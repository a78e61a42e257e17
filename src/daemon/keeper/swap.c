/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one place where something of ours enters a sandbox from outside: setns(2) into its mount
 * namespace alone, for the calls between two look-ups, by a process that is in no other of its
 * namespaces, so that nothing inside can see or signal it. The old root becomes read-only first:
 * the kernel refuses that while anything is open for writing, which is the proof that nothing is
 * lost.
 */
#include <proto/mnt.h>
#include "mountinfo.h"
#include "root.h"
#include "stack.h"
#include <base/base.h>
#include <base/fault.h>
#include <base/sanitize.h>
#include <daemon/init/init.h>
#include <linux/openat2.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/mman.h>

#define INTENT  "swap"
#define STACK   65536
#define LOCK_MS 5000 /* for one that a dead zygote began and that still runs */

/* Mapped for the time of one swap: what is written in memory of the zygote's own, every init that
 * comes from it has a copy of. */
typedef struct swap {
    const keeper_job *job;
    int at; /* the sandbox's directory */
    int pidfd, lower;
    int old;  /* init's root, as it was found */
    int root; /* the new one */
    mountinfo m;
    stack now, then;           /* what it stands on, and will */
    char next[CAY_STACK_TEXT]; /* the second as text */
    char aside[96];            /* below the state directory */
    keeper_job make;           /* the new root, as a create would ask for it */
    swap_result *out;
    char mem[STACK] __attribute__((aligned(16))); /* stack of who is inside */
} swap;

static struct {
    swap *s;
    const char *(*fn)(swap *s);
    const char *step;
    int sys;
    bool done;
} visitor;

static int inside_main(void *arg)
{
    visitor.step = "mount namespace";
    if (syscall(SYS_setns, visitor.s->pidfd, CLONE_NEWNS) == 0) {
        if (visitor.s->job->mode ==
            CAY_MODE_ROOT) { /* what is made in the new root is the sandbox's */
            prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP);
            setfsgid(visitor.s->job->block);
            setfsuid(visitor.s->job->block);
        }
        visitor.step = visitor.fn(visitor.s);
    }
    visitor.sys = errno;
    visitor.done = true;
    _exit(0);
}

/* Runs fn in the sandbox's mount namespace and nowhere else of it, by a process that shares our
 * memory. Nothing ends it when we end: a swap that is past the middle is sooner done than mended.
 */
static const char *run_inside(swap *s, const char *(*fn)(swap *s))
{
    visitor = (__typeof__(visitor)){ .s = s, .fn = fn };
    int pid = clone(inside_main, s->mem + sizeof s->mem, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
    int e = errno;
    CAY__STACK_USED(s->mem, sizeof s->mem);
    if (pid < 0)
        errno = e;
    else if (visitor.done)
        errno = visitor.sys;
    else
        errno = ECHILD;
    if (pid < 0 || !visitor.done)
        return "helper";
    return visitor.step;
}

static const char *seal_root(swap *s)
{
    if (mnt_setattr(s->old, "", AT_EMPTY_PATH, MOUNT_ATTR_RDONLY, 0, -1) < 0)
        return "read-only";
    CAY_FAULT("zygote.swap.seal");
    return NULL;
}

static const char *unseal_root(swap *s)
{
    if (mnt_setattr(s->old, "", AT_EMPTY_PATH, 0, MOUNT_ATTR_RDONLY, -1) < 0)
        return "writable again";
    return NULL;
}

static int open_mountpoint(int root, const char *path)
{
    return cay__fd_openat2(root, path + 1, O_PATH | O_NOFOLLOW, 0,
                           RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
}

/* Where in `root` something is to be mounted that is a directory, or is none. */
static int open_target(int root, const char *path, bool dir)
{
    char up[4096];
    const char *name = strrchr(path, '/');
    if (dir)
        return root_dir(root, path);
    if ((size_t)(name - path) >= sizeof up)
        return -1;
    memcpy(up, path, (size_t)(name - path));
    up[name - path] = 0;
    CAY_AUTOFD at = root_dir(root, up);
    if (at < 0 || (mknodat(at, name + 1, S_IFREG | 0444, 0) < 0 && errno != EEXIST))
        return -1;
    return openat(at, name + 1, O_PATH | O_NOFOLLOW | O_CLOEXEC);
}

static bool move_submount(int from, int to, const char *path)
{
    struct stat st;
    CAY_AUTOFD src = open_mountpoint(from, path);
    CAY_AUTOFD dst =
        src < 0 || fstat(src, &st) < 0 ? -1 : open_target(to, path, S_ISDIR(st.st_mode));
    return dst >= 0 &&
           mnt_move(src, "", dst, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) == 0;
}

/* Everything that is mounted right below `parent`, with all that is mounted inside each. */
static bool move_all(const mountinfo *m, int parent, int from, int to)
{
    size_t i = 0;
    for (; i < m->n && (m->line[i].parent != parent || !m->line[i].path[1] ||
                        move_submount(from, to, m->line[i].path));
         i++)
        ;
    if (i == m->n)
        return true;
    int e = errno;
    while (i-- > 0)
        if (m->line[i].parent == parent && m->line[i].path[1])
            move_submount(to, from, m->line[i].path);
    errno = e;
    return false;
}

static const char *change_root(swap *s)
{
    const char *step = "root";
    if (mnt_move(s->root, "", s->old, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
        return step;
    CAY_FAULT("zygote.swap.attached");
    step = "mounts";
    int id = s->m.line[s->m.root].id;
    if (move_all(&s->m, id, s->old, s->root)) {
        CAY_FAULT("zygote.swap.moved");
        if (fchdir(s->root) == 0 && syscall(SYS_pivot_root, ".", ".") == 0) {
            CAY_FAULT("zygote.swap.pivoted");
            if (umount2(".", MNT_DETACH) == 0)
                return NULL;
            return "old root";
        }
        step = "pivot";
        int e = errno;
        move_all(&s->m, id, s->root, s->old);
        errno = e;
    }
    int e = errno;
    if (fchdir(s->root) == 0)
        umount2(".", MNT_DETACH);
    errno = e;
    return step;
}

/* One that died left a second root on top: the new one, half furnished, while the other is still
 * read-only; or else the old one. */
static const char *remove_cover(swap *s)
{
    CAY_AUTOFD top = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (top < 0 ||
        (s->m.line[s->m.root].ro && !move_all(&s->m, s->m.line[s->m.cover].id, top, s->old)))
        return "mounts";
    if (umount2("/", MNT_DETACH) == 0)
        return NULL;
    return "second root";
}

static bool has_entry(int at, const char *name)
{
    struct stat st;
    return fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Puts a directory out of sight, if it is there. */
static bool trash_dir(int at, const char *name, bool *trash)
{
    if (!has_entry(at, name))
        return true;
    return root_trash(at, name) && (*trash = true);
}

static void remove_intent(int at)
{
    int e = errno;
    unlinkat(at, "stack.new", 0);
    unlinkat(at, INTENT, 0);
    errno = e;
}

static const char *commit_swap(swap *s)
{
    if (renameat(s->at, "stack.new", s->at, "stack") < 0 && errno != ENOENT)
        return "stack";
    CAY_FAULT("zygote.swap.committed");
    if (!cay__str_starts(s->aside, "layers/"))
        trash_dir(s->at, "aside", &s->out->trash);
    trash_dir(s->at, "work.old", &s->out->trash);
    remove_intent(s->at);
    s->out->swapped = true;
    return NULL;
}

/* As it was; what cannot be undone keeps its intent, and the next request tries again. */
static void take_back(swap *s)
{
    int e = errno;
    bool ok = !has_entry(AT_FDCWD, s->aside) || (trash_dir(s->at, "upper", &s->out->trash) &&
                                                 renameat(AT_FDCWD, s->aside, s->at, "upper") == 0);
    if (ok && has_entry(s->at, "work.old"))
        ok = trash_dir(s->at, "work", &s->out->trash) &&
             renameat(s->at, "work.old", s->at, "work") == 0;
    if (ok && !run_inside(s, unseal_root))
        remove_intent(s->at);
    errno = e;
}

/* A new upper and work; the old ones, which the old root still has, are put aside. */
static const char *change_dirs(swap *s)
{
    if (!has_entry(AT_FDCWD, s->aside) && renameat(s->at, "upper", AT_FDCWD, s->aside) < 0)
        return "layer";
    CAY_FAULT("zygote.swap.aside");
    if (has_entry(s->at, "work.old") ? !trash_dir(s->at, "work", &s->out->trash)
                                     : renameat(s->at, "work", s->at, "work.old") < 0)
        return "work";
    if (root_fresh(s->job, s->at))
        return NULL;
    return "directories";
}

static const char *go_on(swap *s)
{
    const char *step = change_dirs(s);
    if (step)
        return step;
    CAY_FAULT("zygote.swap.dirs");
    s->make = *s->job;
    CAY_COPY(s->make.path, s->next);
    CAY_AUTOFD root = root_make(&s->make, s->lower, -1, &step);
    if (root < 0)
        return step;
    CAY_FAULT("zygote.swap.mounted");
    s->root = root;
    return run_inside(s, change_root);
}

static const char *inspect_mounts(swap *s)
{
    if (!mountinfo_read(&s->m, s->job->pid))
        return "mountinfo";
    if (s->m.cover < 0)
        return NULL;
    const char *step = run_inside(s, remove_cover);
    return CAY_OR(step, mountinfo_read(&s->m, s->job->pid) ? NULL : "mountinfo");
}

/* From wherever it stands. found: another began it. */
static const char *finish_swap(swap *s, bool found)
{
    const char *step = inspect_mounts(s);
    if (step && !found)
        remove_intent(s->at); /* nothing was done */
    if (step)
        return step;
    bool aside = has_entry(AT_FDCWD, s->aside), sealed = s->m.line[s->m.root].ro;
    if (!sealed && aside)
        return commit_swap(s);
    if (found && !aside) { /* it had not come far */
        if (!sealed || !(step = run_inside(s, unseal_root)))
            remove_intent(s->at);
        return step;
    }
    if (!sealed && (step = run_inside(s, seal_root))) {
        take_back(s); /* who was killed in there may have come so far */
        return step;
    }
    CAY_FAULT("zygote.swap.sealed");
    step = go_on(s);
    if (step && errno == ECHILD) { /* the one inside was killed, wherever it was */
        const char *more = inspect_mounts(s);
        step = CAY_OR(more, !s->m.line[s->m.root].ro ? NULL : step);
    }
    if (!step) {
        s->out->old = fcntl(s->old, F_DUPFD_CLOEXEC, 3);
        return commit_swap(s);
    }
    take_back(s);
    return step;
}

static void put_aside(swap *s, const char *layer)
{
    if (*layer)
        CAY_JOIN(s->aside, "layers/", layer);
    else
        CAY_JOIN(s->aside, "sandboxes/", s->job->name, "/aside");
}

static bool append_layer(swap *s, const char *name)
{
    size_t n = strlen(s->next);
    return cay__str_join(s->next + n, sizeof s->next - n, name, "\n", NULL);
}

/* What is wanted, written down before anything is done. */
static const char *write_intent(swap *s)
{
    const char *layer = s->job->layer;
    const stack *now = &s->now;
    if (!stack_read(&s->now, s->at, "stack"))
        return "stack";
    if (*layer && now->n && !strcmp(now->name[now->n - 1], layer)) {
        s->out->swapped = true; /* asked again after a lost answer */
        return NULL;
    }
    put_aside(s, layer);
    errno = EEXIST;
    if (has_entry(AT_FDCWD, s->aside))
        return "layer";
    /* Its bottom, what is wanted above, or all of the present one, and a layer. */
    bool ok = append_layer(s, now->foreign ? "/" : now->name[0]), same = *layer && !s->job->path[0];
    for (size_t i = now->foreign ? 0 : 1; ok && same && i < now->n; i++)
        ok = append_layer(s, now->name[i]);
    ok = ok &&
         cay__str_join(s->next + strlen(s->next), sizeof s->next - strlen(s->next), s->job->path,
                       NULL) &&
         (!*layer || append_layer(s, layer));
    errno = E2BIG;
    if (!ok || !stack_parse(&s->then, s->next))
        return "stack";
    if (stack_write(s->at, "stack.new", s->next) && stack_write(s->at, INTENT, s->aside))
        return NULL;
    return "intent";
}

/* The wish of one that died. 0: there is none. */
static int read_intent(swap *s)
{
    char text[sizeof s->aside];
    if (cay__fd_read_file(s->at, INTENT, text, sizeof text) <= 0)
        return 0;
    bool layer = cay__str_starts(text, "layers/");
    put_aside(s, layer ? text + 7 : "");
    if (strcmp(text, s->aside) || (layer && !cay__layer_valid(text + 7)))
        return -1;
    if (cay__fd_read_file(s->at, "stack.new", s->next, sizeof s->next) < 0)
        s->next[0] = 0; /* it was in place already */
    return 1;
}

static bool lock_wait(int fd, int ms)
{
    for (int64_t end = cay__now_ms() + ms; flock(fd, LOCK_EX | LOCK_NB) < 0;) {
        if (errno != EWOULDBLOCK || cay__now_ms() >= end) {
            errno = EBUSY;
            return false;
        }
        usleep(50);
    }
    return true;
}

/* File workers hold it shared while they serve: from here on they wait. A lock belongs to one
 * opening of the file, so it is opened anew. */
static int lock_workers(int fd, int ms)
{
    char path[48], n[21];
    CAY_JOIN(path, "/proc/self/fd/", cay__str_u64(n, (uint64_t)fd));
    CAY_AUTOFD own = open(path, O_RDWR | O_CLOEXEC);
    if (own >= 0 && lock_wait(own, ms))
        return CAY_STEAL_FD(own);
    return -1;
}

static const char *open_all(swap *s, int pidfd)
{
    char path[96];
    s->pidfd = pidfd;
    CAY_JOIN(path, "sandboxes/", s->job->name);
    if ((s->at = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
        return "directory";
    proc_path(path, sizeof path, s->job->pid, "root");
    s->old = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    /* That was the right process if the right one still lives. */
    if (s->old < 0 || syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0) < 0)
        return "init";
    return NULL;
}

static const char *perform_swap(swap *s)
{
    int found = read_intent(s);
    const char *step = NULL;
    if (found) {
        if (found < 0)
            step = "intent";
        else
            step = finish_swap(s, true);
        if (step || s->job->rec ||
            s->out->swapped) /* what was asked for now is asked again, if it is another */
            return step;
        s->next[0] = 0;
    }
    if (s->job->rec)
        step = NULL;
    else
        step = write_intent(s);
    CAY_FAULT("zygote.swap.intent");
    if (!step && !s->job->rec && !s->out->swapped)
        return finish_swap(s, false);
    remove_intent(s->at);
    return step;
}

const char *swap_run(const keeper_job *job, const int *fds, int nfds, swap_result *out)
{
    *out = (swap_result){ .old = -1 };
    errno = EINVAL;
    if (nfds < 2)
        return "job";
    CAY_AUTOFD workers = lock_workers(fds[1], (int)job->wait_ms);
    if (workers < 0)
        return "files";
    swap *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (s == MAP_FAILED)
        return "memory";
    s->job = job;
    s->out = out;
    s->at = s->old = s->root = -1;
    if (nfds > 2)
        s->lower = fds[2];
    else
        s->lower = -1;
    const char *step = open_all(s, fds[0]);
    CAY_AUTOFD lock = -1;
    if (!step)
        lock = openat(s->at, INTENT, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (!step && (lock < 0 || !lock_wait(lock, LOCK_MS)))
        step = "intent";
    if (!step)
        step = perform_swap(s);
    int e = errno;
    cay__close_fd(&s->at);
    cay__close_fd(&s->old);
    munmap(s, sizeof *s);
    errno = e;
    return step;
}

bool swap_bury(int at, bool *trash)
{
    char aside[96];
    if (cay__fd_read_file(at, INTENT, aside, sizeof aside) > 0 && has_entry(at, "aside") &&
        !cay__str_starts(aside, "layers/") &&
        (!trash_dir(at, "upper", trash) || renameat(at, "aside", at, "upper") < 0))
        return false;
    if (!trash_dir(at, "work.old", trash))
        return false;
    remove_intent(at);
    return true;
}
