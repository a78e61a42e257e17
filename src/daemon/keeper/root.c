/* SPDX-License-Identifier: Apache-2.0 */
/*
 * On disk everything belongs to one fixed range of ids that means nothing to the host; idmapped
 * clones of sandboxes/ and layers/ show it as the sandbox's own. Where overlayfs takes no such
 * clones (before Linux 5.19, and on some filesystems) that range is every sandbox's. The last
 * reference to a mount waits for a grace period when it is dropped, and a user namespace wants a
 * process to be born, so the clones of a block of ids are kept: blocks are handed out again, lowest
 * first.
 */
#include "root.h"
#include <proto/mnt.h>
#include "overlay.h"
#include "stack.h"
#include <base/base.h>
#include <base/kernel.h>
#include <proto/init.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>

#define KEPT 64

typedef struct clones {
    uint32_t block;
    int userns, boxes, layers;
} clones;

static clones kept[KEPT];
static unsigned kept_next;
static bool attach; /* this kernel wants layers of a mount that is attached */

static bool make_dir(const keeper_job *job, int at, const char *name)
{
    if (mkdirat(at, name, 0755) < 0)
        return errno == EEXIST;
    return job->mode != CAY_MODE_ROOT ||
           fchownat(at, name, STORE_BASE, STORE_BASE, AT_SYMLINK_NOFOLLOW) == 0;
}

bool root_trash(int at, const char *name)
{
    char old[64], id[CAY_WIRE_ID];
    cay__id_make(id, 'b');
    CAY_JOIN(old, "sandboxes/.old-", id);
    return renameat(at, name, AT_FDCWD, old) == 0;
}

bool root_fresh(const keeper_job *job, int at)
{
    return make_dir(job, at, "upper") && make_dir(job, at, "work");
}

bool root_dirs(const keeper_job *job, int disk, bool *trash)
{
    char path[96];
    struct stat st;
    CAY_JOIN(path, "sandboxes/", job->name);
    if (mkdir(path, 0711) < 0 && errno != EEXIST)
        return false;
    CAY_AUTOFD at = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (at < 0 || !swap_bury(at, trash) || !root_fresh(job, disk >= 0 ? disk : at) ||
        !stack_write(at, "stack", job->path))
        return false;
    if (disk >= 0 || fstatat(at, "work/work", &st, AT_SYMLINK_NOFOLLOW) < 0)
        return true;
    /* `volatile` marks a work directory as used, for good. */
    *trash |= root_trash(at, "work");
    return make_dir(job, at, "work") && *trash;
}

bool root_write_map(int pid, const char *file, const char *text)
{
    char path[64];
    proc_path(path, sizeof path, pid, file);
    return cay__fd_write_file(AT_FDCWD, path, text);
}

int root_open_userns(int pid)
{
    char path[64];
    proc_path(path, sizeof path, pid, "ns/user");
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* A user namespace that nobody lives in, for its maps. */
static int map_userns(const char *uids, const char *gids)
{
    int go[2];
    if (pipe2(go, O_CLOEXEC) < 0)
        return -1;
    int pid = (int)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid == 0) {
        char c;
        close(go[1]);
        _exit(read(go[0], &c, 1) == 1);
    }
    close(go[0]);
    int fd = -1;
    if (pid > 0) {
        if (root_write_map(pid, "uid_map", uids) && root_write_map(pid, "gid_map", gids))
            fd = root_open_userns(pid);
        int e = errno;
        kill(pid, SIGKILL);
        errno = e;
    }
    close(go[1]);
    return fd;
}

static void add_map(char map[256], uint32_t from, uint32_t to, uint32_t n)
{
    char a[21], b[21], c[21];
    size_t len = strlen(map);
    if (n)
        cay__str_join(map + len, 256 - len, cay__str_u64(a, from), " ", cay__str_u64(b, to), " ",
                      cay__str_u64(c, n), "\n", NULL);
}

/* Maps the store's range onto this block. */
static int store_userns(uint32_t block)
{
    char map[256] = "";
    add_map(map, STORE_BASE, block, BLOCK_IDS);
    return map_userns(map, map);
}

/* Not of the state directory itself: that one is closed to everybody but its owner, whom the map
 * does not have. */
int root_clone(const char *dir, int userns)
{
    CAY_AUTOFD tree = mnt_open_tree(AT_FDCWD, dir, OPEN_TREE_CLONE);
    uint64_t set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (userns >= 0 ? MOUNT_ATTR_IDMAP : 0);
    if (tree < 0 || mnt_setattr(tree, "", AT_EMPTY_PATH, set, 0, userns) < 0)
        return -1;
    return CAY_STEAL_FD(tree);
}

int root_usr(const keeper_job *job, int userns)
{
    const uint64_t set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
    CAY_AUTOFD t = mnt_open_tree(AT_FDCWD, "/usr", OPEN_TREE_CLONE | AT_RECURSIVE);
    if (t < 0 || mnt_setattr(t, "", AT_EMPTY_PATH | AT_RECURSIVE, set, 0, -1) < 0)
        return -1;
    /* Owners as root saw them; where the filesystem cannot, they show as nobody. */
    if (job->mode == CAY_MODE_ROOT)
        mnt_setattr(t, "", AT_EMPTY_PATH, MOUNT_ATTR_IDMAP, 0, userns);
    return CAY_STEAL_FD(t);
}

static const clones *clones_of(uint32_t block)
{
    CAY_EACH_OF(it, kept, KEPT)
        if (it->block == block)
            return it;
    bool mapped = block != STORE_BASE;
    CAY_AUTOFD ns = -1;
    if (mapped)
        ns = store_userns(block);
    CAY_AUTOFD boxes = -1;
    if (ns >= 0 || !mapped)
        boxes = root_clone("sandboxes", ns);
    CAY_AUTOFD layers = -1;
    if (boxes >= 0)
        layers = root_clone("layers", ns);
    if (layers < 0)
        return NULL;
    clones *c = &kept[kept_next++ % KEPT];
    if (c->block) {
        cay__close_fd(&c->userns);
        close(c->boxes);
        close(c->layers);
    }
    *c = (clones){ block, CAY_STEAL_FD(ns), CAY_STEAL_FD(boxes), CAY_STEAL_FD(layers) };
    return c;
}

bool root_map(uint32_t block, const int *mounts, int n, const char **step)
{
    const clones *c = NULL;
    if (block == STORE_BASE)
        return true;
    if (n > 0)
        c = clones_of(block);
    *step = "volume: its filesystem cannot show other owners";
    CAY_EACH_OF(mount, mounts, n)
        if (!c || mnt_setattr(*mount, "", AT_EMPTY_PATH, MOUNT_ATTR_IDMAP, 0, c->userns) < 0)
            return false;
    return true;
}

/* The mounter's fsuid must lie in the block, or overlayfs cannot make its work directory and comes
 * up read-only without a word. */
static int overlay_as(const keeper_job *job, const overlay_at *at, const char *spot,
                      const char **step)
{
    if (job->mode != CAY_MODE_ROOT)
        return cay__overlay(at, spot, true, !job->durable, step);
    prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP);
    setfsgid(job->block);
    setfsuid(job->block);
    int mnt = cay__overlay(at, spot, false, !job->durable, step), e = errno;
    setfsuid(0);
    setfsgid(0);
    prctl(PR_SET_SECUREBITS, 0);
    errno = e;
    return mnt;
}

/* Before Linux 6.15: clones of our own, attached in the zygote's mount namespace for the moment of
 * the mount. */
static int overlay_attached(const keeper_job *job, int userns, overlay_at *at, const char **step)
{
    CAY_AUTOFD boxes =
        at->disk ? fcntl(at->boxes, F_DUPFD_CLOEXEC, 3) : root_clone("sandboxes", userns);
    CAY_AUTOFD layers = -1;
    if (boxes >= 0)
        layers = root_clone("layers", userns);
    int mnt = -1, e;
    at->boxes = at->layers = -1;
    *step = "state clone";
    if (layers < 0 || mnt_move(boxes, "", AT_FDCWD, "/m/sandboxes", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return -1;
    /* The one below may be asked for again: a copy of it is attached, where a detached mount can be
     * copied. */
    CAY_AUTOFD base = -1;
    if (at->base >= 0)
        base = mnt_open_tree(at->base, "", OPEN_TREE_CLONE | AT_EMPTY_PATH);
    if (at->base >= 0 && base < 0)
        base = fcntl(at->base, F_DUPFD_CLOEXEC, 3);
    /* Once attached, for the first root, it cannot be had again. */
    bool below = at->base < 0 || mnt_move(base, "", AT_FDCWD, "/l", MOVE_MOUNT_F_EMPTY_PATH) == 0;
    if (!below)
        *step = "a snapshot above --root: Linux 6.15";
    else if (mnt_move(layers, "", AT_FDCWD, "/m/layers", MOVE_MOUNT_F_EMPTY_PATH) == 0 &&
             chdir("/m/layers") == 0)
        mnt = overlay_as(job, at, "/t", step);
    e = errno;
    if (chdir("/s") < 0)
        _exit(1); /* every name of ours starts there */
    umount2("/m/sandboxes", MNT_DETACH);
    umount2("/m/layers", MNT_DETACH);
    umount2("/l", MNT_DETACH);
    errno = e;
    return mnt;
}

static const clones *clones_for(const keeper_job *job)
{
    static clones plain = { .userns = -1, .boxes = -1, .layers = -1 };
    if (job->mode == CAY_MODE_ROOT)
        return clones_of(job->block);
    if (plain.boxes < 0) { /* all sandboxes of an ordinary user have one map */
        plain.boxes = open("sandboxes", O_PATH | O_DIRECTORY | O_CLOEXEC);
        plain.layers = open("layers", O_PATH | O_DIRECTORY | O_CLOEXEC);
    }
    if (plain.boxes < 0 || plain.layers < 0)
        return NULL;
    return &plain;
}

static int overlay_of(const keeper_job *job, const clones *c, overlay_at at, const char **step)
{
    int mnt = -1;
    *step = "overlay";
    errno = EINVAL;
    if (c->userns >= 0 && cay__kernel_lacks(CAY_KERNEL_OVERLAY_IDMAP))
        return -1;
    if (!attach)
        mnt = overlay_as(job, &at, NULL, step);
    if (mnt >= 0)
        return mnt;
    mnt = overlay_attached(job, c->userns, &at, step);
    attach |= mnt >= 0;
    return mnt;
}

int root_make(const keeper_job *job, int lower, int disk, const char **step)
{
    stack s; /* nothing static here: what a zygote writes later, every init before it has its own
                copy of */
    *step = "stack";
    if (!stack_parse(&s, job->path))
        return -1;
    *step = "state clone";
    const clones *c = clones_for(job);
    if (!c)
        return -1;
    *step = "root directory";
    errno = ENOENT;
    if (s.foreign != (lower >= 0))
        return -1;
    return overlay_of(
        job, c,
        disk >= 0
            ? (overlay_at){ disk, c->layers, lower, s.name, s.n, ".", false, true }
            : (overlay_at){ c->boxes, c->layers, lower, s.name, s.n, job->name, false, false },
        step);
}

bool root_shared(const keeper_job *job)
{
    keeper_job plain = *job;
    const char *step;
    /* Nothing else than what this kernel or filesystem answers for good takes the ranges away. */
    if (job->mode != CAY_MODE_ROOT || job->block == STORE_BASE || errno != EINVAL)
        return false;
    plain.block = STORE_BASE;
    CAY_AUTOFD root = root_make(&plain, -1, -1, &step);
    errno = EINVAL;
    return root >= 0;
}

/* Ids of the host as they are, but its owner and the sandbox's user change places: what is the
 * owner's is the user's inside. */
static void swap_map(char map[256], uint32_t owner, uint32_t block)
{
    uint32_t lo = CAY_MIN(owner, 1000u), hi = CAY_MAX(owner, 1000u);
    map[0] = 0;
    add_map(map, 0, block, lo);
    add_map(map, lo, block + (hi < BLOCK_IDS ? hi : lo), lo == owner || hi < BLOCK_IDS);
    add_map(map, lo + 1, block + lo + 1, CAY_MIN(hi, BLOCK_IDS) - CAY_MIN(lo + 1, hi));
    add_map(map, hi, block + lo, hi != lo);
    add_map(map, hi + 1, block + hi + 1, hi < BLOCK_IDS ? BLOCK_IDS - hi - 1 : 0);
}

static bool on_dirs(const keeper_job *job, const struct stat *st, bool *trash)
{
    char path[96];
    struct stat old;
    uid_t owner = 0;
    if (job->mode == CAY_MODE_ROOT)
        owner = STORE_BASE + 1000;
    CAY_JOIN(path, "sandboxes/", job->name, "/on");
    if (mkdir(path, 0711) < 0 && errno != EEXIST)
        return false;
    CAY_AUTOFD at = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (at < 0)
        return false;
    if (fstatat(at, "work/work", &old, AT_SYMLINK_NOFOLLOW) == 0 &&
        !(*trash |= root_trash(at, "work")))
        return false;
    bool fresh = fstatat(at, "upper", &old, AT_SYMLINK_NOFOLLOW) < 0;
    if (!root_fresh(job, at))
        return false;
    /* What is seen of the directory itself: permissions as it has them, the user's. */
    return !fresh || (fchownat(at, "upper", owner, owner, AT_SYMLINK_NOFOLLOW) == 0 &&
                      fchmodat(at, "upper", (st->st_mode & 0777) | 0700, 0) == 0);
}

int root_on(const keeper_job *job, int lower, bool *trash, const char **step)
{
    char uids[256], gids[256], dir[64];
    struct stat st;
    *step = "directories";
    const clones *c = clones_for(job);
    if (!c || fstat(lower, &st) < 0 || !on_dirs(job, &st, trash))
        return -1;
    if (job->mode == CAY_MODE_ROOT) {
        *step = "its filesystem cannot show other owners";
        swap_map(uids, st.st_uid, job->block);
        swap_map(gids, st.st_gid, job->block);
        CAY_AUTOFD ns = map_userns(uids, gids);
        if (ns < 0 || mnt_setattr(lower, "", AT_EMPTY_PATH, MOUNT_ATTR_IDMAP, 0, ns) < 0)
            return -1;
    }
    CAY_JOIN(dir, job->name, "/on");
    /* What is applied to the directory changes it below the overlay: nothing there may stand on a
     * name that goes. */
    return overlay_of(job, c, (overlay_at){ c->boxes, c->layers, lower, NULL, 0, dir, true, false },
                      step);
}
