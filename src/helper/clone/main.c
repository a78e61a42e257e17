/* SPDX-License-Identifier: Apache-2.0 */
#include "clone.h"
#include <base/base.h>
#include <base/fault.h>
#include <base/image.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>

#define INDEX    "clone.index"
#define ON_INDEX "on.index" /* of what is written above a directory of the host (--on) */
#define TICK_NS  20000000 /* two ticks of the coarsest clock that a filesystem stamps files with */
#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif

/* An upper directory that becomes a layer: the root's, or the one above a directory of the host,
 * which is layers/o…/upper. */
typedef struct part {
    const char *index, *below; /* its index's name; "" or "/upper" */
    char layer[64];
    int upper, stage, to; /* to: where the tree is copied */
    char stage_name[40];
    struct stat st; /* of upper */
    clone_index last;
    clone_tree tree;
} part;

typedef struct job {
    const char *id;
    bool stop;
    int dir, layers; /* sandboxes/<id>, layers/ */
    part root, on;   /* on.upper < 0: it stands on no directory of the host */
    clone_subvol subvol;
    clone_answer answer;
} job;

volatile sig_atomic_t clone_canceled;

static void on_term(int sig)
{
    clone_canceled = 1;
}

__attribute__((format(printf, 4, 5))) static int set_failure(job *j, int code, const char *reason,
                                                             const char *fmt, ...)
{
    int sys = errno;
    va_list ap;
    if (code == CAY_ESYS)
        j->answer.code = cay_code_of_errno(sys);
    else
        j->answer.code = code;
    if (code == CAY_ESYS)
        j->answer.sys = sys;
    else
        j->answer.sys = 0;
    CAY_COPY(j->answer.reason, reason);
    va_start(ap, fmt);
    int n = vsnprintf(j->answer.msg, sizeof j->answer.msg, fmt, ap);
    va_end(ap);
    if (code == CAY_ESYS && n >= 0 && (size_t)n < sizeof j->answer.msg)
        snprintf(j->answer.msg + n, sizeof j->answer.msg - (size_t)n, ": %s", strerror(sys));
    return j->answer.code;
}

/* Where the sandbox has a disk image, what it wrote is in there. */
static int open_disk(job *j, int *disk)
{
    const char *step;
    CAY_AUTOFD image = openat(j->dir, "image", O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (image < 0) {
        if (errno == ENOENT)
            return 0;
        return set_failure(j, CAY_ESYS, "", "open the disk image of sandbox %s", j->id);
    }
    *disk = cay__image_mount(image, &step);
    if (*disk < 0)
        return set_failure(j, CAY_ESYS, "disk_image", "disk image: %s", step);
    return 0;
}

static int enter_sandbox(job *j)
{
    char path[64];
    struct rlimit r;
    signal(SIGPIPE, SIG_IGN);
    sigaction(SIGTERM, &(struct sigaction){ .sa_handler = on_term }, NULL);
    prctl(PR_SET_NAME, "cay-clone");
    for (int fd = CLONE_HOME; fd <= CLONE_USER; fd++)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    if (getrlimit(RLIMIT_NOFILE, &r) == 0) { /* two descriptors for each level of the tree */
        r.rlim_cur = r.rlim_max;
        setrlimit(RLIMIT_NOFILE, &r);
    }
    /* Rootless: the ids on disk are those of the keeper's user namespace, and its processes are
     * below it. */
    if (geteuid() != 0 &&
        (setns(CLONE_USER, CLONE_NEWUSER) < 0 || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0))
        return set_failure(j, CAY_ESYS, "", "enter the keeper's user namespace");
    umask(0);
    CAY_JOIN(path, "sandboxes/", j->id);
    j->dir = cay__dir_at(CLONE_HOME, path);
    CAY_AUTOFD disk = -1;
    if (j->dir >= 0 && open_disk(j, &disk) < 0)
        return j->answer.code;
    if (j->dir < 0)
        j->root.upper = -1;
    else
        j->root.upper = cay__dir_at(disk >= 0 ? disk : j->dir, "upper");
    if (j->dir < 0)
        j->on.upper = -1;
    else
        j->on.upper = cay__dir_at(j->dir, "on/upper");
    j->layers = cay__dir_at(CLONE_HOME, "layers");
    if (j->root.upper < 0 || j->layers < 0 || fstat(j->root.upper, &j->root.st) < 0 ||
        (j->on.upper >= 0 && fstat(j->on.upper, &j->on.st) < 0))
        return set_failure(j, CAY_ESYS, "", "open what sandbox %s has written", j->id);
    return 0;
}

/* The name and the lock that cay-layer knows, which removes what a killed one of us leaves. */
static int make_stage(job *j, part *p)
{
    char id[24];
    cay__id_make(id, 'l');
    CAY_JOIN(p->stage_name, ".stage-", id);
    if (mkdirat(j->layers, p->stage_name, 0700) < 0)
        return set_failure(j, CAY_ESYS, "", "make layers/%s", p->stage_name);
    p->stage = cay__dir_at(j->layers, p->stage_name);
    if (p->stage < 0 || flock(p->stage, LOCK_EX | LOCK_NB) < 0)
        return set_failure(j, CAY_ESYS, "", "make layers/%s", p->stage_name);
    p->to = p->stage;
    if (*p->below && (mkdirat(p->stage, p->below + 1, 0700) < 0 ||
                      (p->to = cay__dir_at(p->stage, p->below + 1)) < 0))
        return set_failure(j, CAY_ESYS, "", "make layers/%s%s", p->stage_name, p->below);
    CAY_FAULT("clone.stage");
    return 0;
}

static void prepare_part(const job *j, part *p)
{
    clone_tree *t = &p->tree;
    struct statfs fs;
    char base[80];
    t->upper = p->upper;
    t->to = p->to;
    t->base = t->near = -1;
    t->last = &p->last;
    if (index_load(&p->last, j->dir, p->index, &p->st) && CAY_JOIN(base, p->last.layer, p->below))
        t->base = cay__dir_at(j->layers, base);
    t->next.dev = p->st.st_dev;
    t->next.ino = p->st.st_ino;
    CAY_COPY(t->next.layer, p->layer);
    if (fstatfs(p->upper, &fs) < 0)
        return;
    t->doubt = fs.f_type == TMPFS_MAGIC;
    if (fs.f_type == XFS_SUPER_MAGIC || fs.f_type == BTRFS_SUPER_MAGIC)
        t->how = COPY_SHARED;
    else
        t->how = COPY_BYTES;
    /* A reflink writes out what the file still has in memory: better now than while everything
     * stands still. */
    if (t->how == COPY_SHARED)
        syncfs(p->upper);
}

static int fail_interrupted(job *j)
{
    return set_failure(j, CAY_EBUSY, "snapshot_interrupted",
                       "the sandbox went on before its snapshot was complete; try again");
}

/* What only those that stand still can tell. */
static void read_frozen_state(part *p, const clone_hold *h)
{
    clone_tree *t = &p->tree;
    clock_gettime(CLOCK_REALTIME, &t->fresh);
    t->fresh.tv_nsec -= TICK_NS;
    if (t->fresh.tv_nsec < 0) {
        t->fresh.tv_sec--;
        t->fresh.tv_nsec += 1000000000;
    }
    mapped_files(&t->mapped, h->init, p->upper, *p->below ? "/workspace" : "");
}

/* h NULL: in a snapshot, where nothing moves. */
static int walk_part(job *j, part *p, const clone_hold *h)
{
    clone_tree *t = &p->tree;
    CAY_FAULT("clone.walk");
    if (!clone_tree_walk(t)) {
        int sys = errno;
        t->path[CAY_MIN(sizeof t->path - 1, 160u)] = 0;
        if (clone_canceled)
            return set_failure(j, CAY_ECANCELED, "canceled", "the snapshot was canceled");
        if (h && !hold_still(h))
            return fail_interrupted(j);
        errno = sys;
        if (errno == ENAMETOOLONG)
            return set_failure(
                j, CAY_ETOOBIG, "tree_too_deep",
                "directories are nested too deep at /%s to be copied; end the processes "
                "and try again",
                t->path);
        return set_failure(j, CAY_ESYS, "", "copy /%s", t->path);
    }
    CAY_FAULT("clone.walked");
    if (!h || hold_still(h))
        return 0;
    return fail_interrupted(j);
}

/* What apply wrote to the directory until now is no conflict for who goes on from here. */
static int take_applied(job *j)
{
    struct stat st;
    CAY_AUTOFD on = cay__dir_at(j->dir, "on");
    bool shared = false;
    if (on >= 0 && fstatat(on, "applied", &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
        return 0;
    if (on >= 0 && copy_file(on, "applied", j->on.stage, &st, COPY_BYTES, &shared))
        return 0;
    return set_failure(j, CAY_ESYS, "", "copy what was applied");
}

static int publish_part(job *j, part *p)
{
    /* One that a lost answer's predecessor left; its other half was never there. */
    if (*p->below)
        clone_tree_remove(j->layers, p->layer);
    if (syscall(SYS_renameat2, j->layers, p->stage_name, j->layers, p->layer, RENAME_NOREPLACE) < 0)
        return set_failure(j, CAY_ESYS, "", "publish layer %s", p->layer);
    p->stage_name[0] = 0;
    CAY_FAULT("clone.published");
    char fresh[40];
    CAY_JOIN(fresh, p->index, ".new");
    index_save(&p->tree.next, j->dir, p->index, fresh); /* without one the next clone copies more */
    return 0;
}

/* The one above the directory first: the layer of the root is what tells that all is there. */
static int publish_all(job *j)
{
    if (j->on.upper >= 0)
        CAY_TRY(publish_part(j, &j->on));
    return publish_part(j, &j->root);
}

/* The uppers as they were at the moment of the snapshot; what is linked to and the index stay those
 * of the living ones. */
static bool walk_there(job *j, part *const *parts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char path[64];
        CAY_JOIN(path, "sandboxes/", j->id, i ? "/on/upper" : "/upper");
        int fd = subvol_open(&j->subvol, path, &parts[i]->st);
        if (fd < 0)
            return false;
        parts[i]->tree.upper = fd; /* until the end of this program */
    }
    return true;
}

static int run_job(job *j)
{
    struct stat st;
    clone_hold h = { .events = -1, .guard = -1 };
    CAY_TRY(enter_sandbox(j));
    CAY_COPY(j->answer.method, "copy");
    /* An answer that was lost: the layer is there, whole. */
    if (fstatat(j->layers, j->root.layer, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return 0;
    part *const parts[] = { &j->root, &j->on };
    size_t n = 1;
    if (j->on.upper >= 0)
        n = 2;
    CAY_EACH_OF(it, parts, n) {
        CAY_TRY(make_stage(j, *it));
        prepare_part(j, *it);
    }
    bool can = subvol_prepare(&j->subvol, CLONE_HOME, j->layers, &j->root.st) &&
               (n == 1 || j->on.st.st_dev == j->root.st.st_dev);
    int rc = hold_begin(&h, j->id, j->stop, &j->answer);
    for (size_t i = 0; rc == 0 && i < n; i++)
        read_frozen_state(parts[i], &h);
    bool there = rc == 0 && can && subvol_take(&j->subvol) && walk_there(j, parts, n);
    if (there && !hold_still(&h))
        rc = fail_interrupted(j);
    for (size_t i = 0; rc == 0 && !there && i < n; i++)
        rc = walk_part(j, parts[i], &h);
    if (rc == 0 && n > 1)
        rc = take_applied(j);
    hold_end(&h, j->id);
    j->answer.frozen_us = (uint64_t)(h.until_us - h.since_us);
    for (size_t i = 0; rc == 0 && there && i < n; i++)
        rc = walk_part(j, parts[i], NULL);
    subvol_end(&j->subvol, j->layers);
    if (rc == 0)
        rc = publish_all(j);
    if (j->root.tree.shared || j->on.tree.shared)
        CAY_COPY(j->answer.method, "reflink");
    if (there)
        CAY_COPY(j->answer.method, "btrfs");
    j->answer.bytes = j->root.tree.bytes + j->on.tree.bytes;
    j->answer.files = j->root.tree.files + j->on.tree.files;
    return rc;
}

static bool name_valid(const char *s)
{
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-");
    return n && n < 64 && !s[n] && s[0] != '-';
}

int main(int argc, char **argv)
{
    int64_t since = cay__now_us();
    job j = { .dir = -1,
              .layers = -1,
              .root = { .index = INDEX,
                        .below = "",
                        .upper = -1,
                        .stage = -1,
                        .tree = { .base = -1, .near = -1 } },
              .subvol = { .root = -1, .stage = -1 },
              .on = { .index = ON_INDEX,
                      .below = "/upper",
                      .upper = -1,
                      .stage = -1,
                      .tree = { .base = -1, .near = -1 } } };
#ifdef CAY_FAULTS
    if (argc == 2 && !strcmp(argv[1], "--faults")) {
        cay__fault_list((void (*)(const char *))(void *)puts);
        return 0;
    }
    cay__fault_load();
#endif
    if (argc < 3 || !cay__id_valid(argv[1], 'c') || !name_valid(argv[2]) ||
        fcntl(CLONE_ANSWER, F_GETFD) < 0) {
        dprintf(2,
                "cay-clone is started by libcay; it copies what a running sandbox has written\n");
        return 2;
    }
    j.id = argv[1];
    CAY_COPY(j.root.layer, argv[2]);
    CAY_JOIN(j.on.layer, "o", argv[2] + 1);
    j.stop = argc > 3 && !strcmp(argv[3], "--stop");
    copy_of_sandboxes = argc > 4 && !strcmp(argv[4], "--apart");
    int rc = run_job(&j);
    part *const parts[] = { &j.root, &j.on };
    for (size_t i = 0; i < CAY_LEN(parts); i++)
        if (parts[i]->stage_name[0])
            clone_tree_remove(j.layers, parts[i]->stage_name);
    j.answer.total_us = (uint64_t)(cay__now_us() - since);
    CAY_FAULT("clone.answer");
    bool said = cay__fd_write_all(CLONE_ANSWER, &j.answer, sizeof j.answer);
    for (size_t i = 0; i < CAY_LEN(parts); i++) {
        index_free(&parts[i]->last);
        index_free(&parts[i]->tree.next);
        inode_set_free(&parts[i]->tree.mapped);
    }
    return rc < 0 || !said;
}
