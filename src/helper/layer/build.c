/* SPDX-License-Identifier: Apache-2.0 */
/* build LAYER ENTRIES EACH BELOW…: a manifest's plan becomes a layer, by one worker per CPU. */
#include "build.h"
#include <base/mutant.h>
#include <proto/claim.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

enum { WORKERS_MAX = 64, TELL_MS = 100 };
#define COPY_MAX (1u << 30)
#define PLAN_MAX (1ll << 30) /* as lib/manifest/plan_wire.c makes them */

static void *take_list(cay__rec *r, size_t *n, size_t one, size_t least)
{
    uint64_t count = cay__rec_get_num(r);
    if (r->bad || count > r->left / least) { /* each has at least so many bytes in the plan */
        r->bad = true;
        count = 0;
    }
    *n = (size_t)count;
    return cay__alloc((size_t)(count + 1) * one);
}

static void read_heads(build *b, cay__rec *r)
{
    b->roots = take_list(r, &b->nroots, sizeof *b->roots, 20);
    CAY_EACH_OF(root, b->roots, b->nroots) {
        *root = (build_root){ .path = cay__rec_get_str(r), .fd = -1 };
        root->dev = cay__rec_get_num(r);
        root->ino = cay__rec_get_num(r);
    }
    b->groups = take_list(r, &b->ngroups, sizeof *b->groups, 13);
    CAY_EACH_OF(group, b->groups, b->ngroups) {
        group->name = cay__rec_get_str(r);
        group->users = take_list(r, &group->n, sizeof *group->users, 5);
        CAY_EACH_OF(it, group->users, group->n)
            *it = cay__rec_get_str(r);
    }
    b->users = take_list(r, &b->nusers, sizeof *b->users, 5);
    b->uids = cay__alloc((b->nusers + 1) * sizeof *b->uids);
    CAY_EACH_OF(user, b->users, b->nusers)
        *user = cay__rec_get_str(r);
    b->owner = cay__rec_get_str(r);
}

static void read_node(build *b, cay__rec *r, build_node *n)
{
    n->type = (char)cay__rec_get_num(r);
    n->mode = (uint32_t)cay__rec_get_num(r) & 07777;
    n->entry = (uint32_t)cay__rec_get_num(r);
    n->group = cay__rec_get_str(r);
    n->path = cay__rec_get_str(r);
    n->root = (uint32_t)cay__rec_get_num(r);
    n->text = cay__rec_get_bytes(r, &n->len);
    if (n->type == 'f' && n->root) {
        n->size = cay__rec_get_num(r);
        n->dev = cay__rec_get_num(r);
        n->ino = cay__rec_get_num(r);
        n->mtime = (int64_t)cay__rec_get_num(r);
        n->ctime = (int64_t)cay__rec_get_num(r);
    }
    r->bad |= !strchr("dflp", n->type) || !n->type || n->root > b->nroots || *n->path == '/' ||
              !*n->path || strstr(n->path, "..") == n->path || strstr(n->path, "/../") ||
              (strlen(n->path) > 2 && !strcmp(n->path + strlen(n->path) - 3, "/.."));
}

static int read_plan(build *b, const void *data, size_t len, cay_err *err)
{
    cay__rec r = { .p = data, .left = len };
    read_heads(b, &r);
    b->nodes = take_list(&r, &b->nnodes, sizeof *b->nodes, 40);
    for (size_t i = 0; i < b->nnodes && !r.bad; i++)
        read_node(b, &r, &b->nodes[i]);
    if (r.bad)
        return cay_fail_why(err, CAY_EINVAL, "protocol", "the plan has a wrong form");
    return 0;
}

static int fail_changed(const char *path, cay_err *err)
{
    return cay_fail_why(err, CAY_EBUSY, "path_changed_during_copy",
                        "%.150s changed while it was being copied; try again when it is at rest",
                        path);
}

static int open_roots(build *b, cay_err *err)
{
    CAY_EACH_OF(r, b->roots, b->nroots) {
        struct stat st;
        r->fd = cay__fd_openat2(AT_FDCWD, r->path, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0,
                                RESOLVE_NO_SYMLINKS);
        if (r->fd < 0 && b->t->apart) /* helper/root_helper/jail.c */
            return cay_fail_why(err, CAY_EPERM, "apart_refused",
                                "%.150s: a server beside a keeper of root's copies nothing but "
                                "what is in its own state directory",
                                r->path);
        if (r->fd < 0 || fstat(r->fd, &st) < 0 || st.st_dev != r->dev || st.st_ino != r->ino)
            return fail_changed(r->path, err);
    }
    return 0;
}

static uint32_t on_disk(const build *b, uint32_t id)
{
    if (b->single)
        return 0;
    return id + tool_base(b->t);
}

static int make_dir(build *b, const build_node *n, cay_err *err)
{
    uint32_t mode = n->mode, uid = on_disk(b, n->uid), gid = on_disk(b, n->gid);
    struct stat st;
    if (n->type == 'p') {
        CAY_AUTOFD there = build_below(b, n->path, O_PATH);
        mode = 0755;
        if (there < 0 && errno != ENOENT)
            return cay_fail_sys(err, "root: /%.150s below it", n->path);
        if (there >= 0 && fstat(there, &st) == 0 && S_ISDIR(st.st_mode)) {
            mode = st.st_mode & 07777;
            uid = st.st_uid;
            gid = st.st_gid;
        }
    }
    if ((mkdirat(b->stage, n->path, 0755) < 0 && errno != EEXIST) ||
        fchownat(b->stage, n->path, uid, gid, AT_SYMLINK_NOFOLLOW) < 0 ||
        fchmodat(b->stage, n->path, mode, 0) < 0)
        return cay_fail_sys(err, "entry %.150s", n->path);
    return 0;
}

static bool same_file(int fd, const build_node *n)
{
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == n->size &&
           st.st_dev == n->dev && st.st_ino == n->ino &&
           st.st_mtim.tv_sec * 1000000000ll + st.st_mtim.tv_nsec == n->mtime &&
           st.st_ctim.tv_sec * 1000000000ll + st.st_ctim.tv_nsec == n->ctime;
}

/* By reference where the file system shares blocks, else inside the kernel, else by hand. */
static int copy_bytes(int from, int to, uint64_t size)
{
    if (ioctl(to, FICLONE, from) == 0)
        return 0;
    for (uint64_t done = 0; done < size;) {
        ssize_t n = copy_file_range(from, NULL, to, NULL, CAY_MIN(size - done, COPY_MAX), 0);
        if (n == 0)
            break;
        if (n < 0 && done == 0 &&
            (errno == EXDEV || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP ||
             errno == ETXTBSY)) {
            char buf[65536];
            while ((n = read(from, buf, sizeof buf)) > 0)
                if (!cay__fd_write_all(to, buf, (size_t)n))
                    return -1;
            return (int)n;
        }
        if (n < 0)
            return -1;
        done += (uint64_t)n;
    }
    return 0;
}

/* What was looked at is what is copied: the same inode, of the same time, before and after. */
static int copy_file(build *b, const build_node *n, int to, cay_err *err)
{
    const build_root *r = &b->roots[n->root - 1];
    CAY_AUTOFD from = cay__fd_openat2(*n->text ? r->fd : AT_FDCWD, cay__text_or(n->text, r->path),
                                      O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY, 0,
                                      RESOLVE_NO_SYMLINKS | (*n->text ? RESOLVE_BENEATH : 0));
    if (from < 0 && (errno == EACCES || errno == EPERM))
        return cay_fail_sys(err, "entry %.150s", n->path);
    if (from < 0 || !same_file(from, n))
        return fail_changed(n->path, err);
    struct stat st;
    if (b->t->apart && !CAY__MUTANT("apart-owner") &&
        (fstat(from, &st) < 0 || st.st_uid != b->t->uid))
        return cay_fail_why(err, CAY_EPERM, "apart_refused",
                            "entry %.150s: a server beside a keeper of root's copies no files but "
                            "those of its own user",
                            n->path);
    CAY_TRY_SYS(copy_bytes(from, to, n->size), err, "entry %.150s", n->path);
    CAY_FAULT("layer.build.copied");
    if (!same_file(from, n))
        return fail_changed(n->path, err);
    struct timespec times[2] = { { .tv_nsec = UTIME_NOW },
                                 { n->mtime / 1000000000ll, (long)(n->mtime % 1000000000ll) } };
    if (times[1].tv_nsec >= 0 && futimens(to, times) < 0)
        return cay_fail_sys(err, "entry %.150s", n->path);
    return 0;
}

/* The directory of the last file is kept open: most neighbours share it. */
typedef struct worker {
    build *b;
    cay__claim *claim;
    const uint32_t *list;
    _Atomic uint64_t *bytes, *files;
    pthread_t id;
    int rc, dir;
    char dir_path[4096];
    cay_err err;
} worker;

/* The directory that has it, and its name in there; NULL: that cannot be reached, or only over a
 * link. */
static const char *enter_parent(worker *w, const char *path, int *dir)
{
    const char *slash = strrchr(path, '/');
    size_t n = 0;
    if (slash)
        n = (size_t)(slash - path);
    *dir = w->b->stage;
    if (!n)
        return path;
    errno = ENAMETOOLONG;
    if (n >= sizeof w->dir_path)
        return NULL;
    if (w->dir < 0 || strlen(w->dir_path) != n || memcmp(w->dir_path, path, n)) {
        cay__close_fd(&w->dir);
        memcpy(w->dir_path, path, n);
        w->dir_path[n] = 0;
        w->dir = cay__fd_openat2(w->b->stage, w->dir_path, O_PATH | O_DIRECTORY | O_CLOEXEC, 0,
                                 RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    }
    *dir = w->dir;
    if (w->dir < 0)
        return NULL;
    return slash + 1;
}

static int make_node(worker *w, const build_node *n, cay_err *err)
{
    build *b = w->b;
    uint32_t uid = on_disk(b, n->uid), gid = on_disk(b, n->gid);
    int dir;
    const char *name = enter_parent(w, n->path, &dir);
    if (!name)
        return cay_fail_sys(err, "entry %.150s", n->path);
    if (n->type == 'l') {
        if (symlinkat(n->text, dir, name) < 0 ||
            fchownat(dir, name, uid, gid, AT_SYMLINK_NOFOLLOW) < 0)
            return cay_fail_sys(err, "entry %.150s", n->path);
        return 0;
    }
    CAY_AUTOFD fd =
        openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, n->mode & 0777);
    if (fd < 0 || (!n->root && !cay__fd_write_all(fd, n->text, n->len)) || fchown(fd, uid, gid) < 0)
        return cay_fail_sys(err, "entry %.150s", n->path);
    if (n->root)
        CAY_TRY(copy_file(b, n, fd, err));
    if (n->mode & 07000 && fchmod(fd, n->mode) < 0)
        return cay_fail_sys(err, "entry %.150s", n->path);
    atomic_fetch_add(w->bytes, n->root ? n->size : n->len);
    return 0;
}

static void *run_worker(void *arg)
{
    worker *w = arg;
    cay__share s;
    while (w->rc == 0 && cay__claim_take(w->claim, &s)) {
        for (size_t i = s.at; w->rc == 0 && i < s.end; i++) {
            w->rc = make_node(w, &w->b->nodes[w->list[i]], &w->err);
            atomic_fetch_add(w->files, 1);
        }
        cay__claim_done(w->claim, &s, w->rc < 0);
    }
    cay__close_fd(&w->dir);
    return NULL;
}

static unsigned count_cpus(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return (unsigned)CAY_MIN(CPU_COUNT(&set), WORKERS_MAX);
    return 1;
}

static int report_progress(build *b, uint64_t files, uint64_t bytes, cay_err *err)
{
    CAY_AUTOBUF out = CAY__BUF(64);
    cay__rec_num(&out, files);
    cay__rec_num(&out, bytes);
    b->t->ticks = 63; /* look at once whether somebody still waits */
    CAY_TRY(tool_check(b->t, err));
    return tool_say(b->t, CAY__REC_VERB, &out, err);
}

static int make_files(build *b, unsigned entries, unsigned each, uint64_t *total, cay_err *err)
{
    CAY_AUTOFREE uint32_t *list = cay__alloc((b->nnodes + 1) * sizeof *list),
                          *of = cay__alloc((b->nnodes + 1) * sizeof *of);
    _Atomic uint64_t bytes = 0, files = 0;
    cay__claim claim;
    size_t n = 0;
    for (uint32_t i = 0; i < b->nnodes; i++)
        if (b->nodes[i].type == 'f' || b->nodes[i].type == 'l') {
            of[n] = b->nodes[i].entry;
            list[n++] = i;
        }
    unsigned count = (unsigned)CAY_MAX(CAY_MIN((size_t)count_cpus(), n / 8 + 1), 1);
    worker *w = cay__alloc(count * sizeof *w);
    cay__claim_open(&claim, of, n, entries, each);
    for (unsigned i = 0; i < count; i++) {
        w[i] = (worker){ .b = b,
                         .claim = &claim,
                         .list = list,
                         .bytes = &bytes,
                         .files = &files,
                         .dir = -1,
                         .err = CAY_ERR_INIT };
        if (i && pthread_create(&w[i].id, NULL, run_worker, &w[i]) != 0)
            count = i; /* those that there are do it */
    }
    /* The first worker is this thread, which tells now and then how far they are. */
    int rc = 0;
    int64_t told = cay__now_ms();
    cay__share s;
    while (rc == 0 && w[0].rc == 0 && cay__claim_take(&claim, &s)) {
        for (size_t i = s.at; rc == 0 && w[0].rc == 0 && i < s.end; i++) {
            w[0].rc = make_node(&w[0], &b->nodes[list[i]], &w[0].err);
            atomic_fetch_add(&files, 1);
            if (cay__now_ms() - told >= TELL_MS) {
                told = cay__now_ms();
                rc = report_progress(b, files, bytes, err);
            }
        }
        cay__claim_done(&claim, &s, rc < 0 || w[0].rc < 0);
    }
    cay__close_fd(&w[0].dir);
    for (unsigned i = 1; i < count; i++)
        pthread_join(w[i].id, NULL);
    for (unsigned i = 0; i < count && rc == 0; i++)
        if ((rc = w[i].rc) < 0 && err)
            *err = w[i].err;
    cay__claim_close(&claim);
    free(w);
    *total = bytes;
    return rc;
}

/* /proc/self/uid_map: one line that maps one id, or more. */
bool tool_one_id(void)
{
    char text[256];
    unsigned long inside, outside, count;
    return cay__fd_read_file(AT_FDCWD, "/proc/self/uid_map", text, sizeof text) > 0 &&
           sscanf(text, "%lu %lu %lu", &inside, &outside, &count) == 3 && count == 1 &&
           strchr(text, '\n') == strrchr(text, '\n');
}

static int fill_stage(build *b, const char *const *args, cay_err *err)
{
    uint64_t bytes = 0;
    CAY_TRY(open_roots(b, err));
    CAY_TRY(build_accounts(b, err));
    CAY_FAULT("layer.build.staged");
    for (size_t i = 0; i < b->nnodes; i++)
        if (b->nodes[i].type == 'd' || b->nodes[i].type == 'p')
            CAY_TRY(make_dir(b, &b->nodes[i], err));
    CAY_TRY(make_files(b, (unsigned)strtoul(args[1], NULL, 10),
                       (unsigned)strtoul(args[2], NULL, 10), &bytes, err));
    CAY_FAULT("layer.build.filled");
    if (CAY_FAULT_FAILS("layer.build.fails"))
        return cay_fail_sys(err, "build %s", args[0]);
    CAY_TRY(report_progress(b, b->nnodes, bytes, err));
    cay__rec_num(&b->t->out, b->nnodes);
    cay__rec_num(&b->t->out, bytes);
    return 0;
}

static void clear_build(build *b)
{
    CAY_EACH_OF(root, b->roots, b->nroots)
        cay__close_fd(&root->fd);
    CAY_EACH_OF(group, b->groups, b->ngroups)
        free(group->users);
    free(b->roots);
    free(b->groups);
    free(b->users);
    free(b->uids);
    free(b->nodes);
}

int build_run(tool *t, cay_err *err)
{
    char stage[40];
    struct stat st;
    CAY_AUTOFD at = -1;
    if (t->nargs < 3 || fstat(TOOL_FD, &st) < 0 || !st.st_size)
        return cay_fail_why(err, CAY_EINVAL, "protocol",
                            "build wants a layer, two limits and a plan");
    CAY_TRY(tool_layer_name(t->args[0], err));
    for (size_t i = 3; i < t->nargs; i++)
        if (t->args[i][0] != '/')
            CAY_TRY(tool_layer_name(t->args[i], err));
    /* What is looked at is what is used: nobody can change it any more. */
    const int seals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;
    if ((fcntl(TOOL_FD, F_GET_SEALS) & seals) != seals || st.st_size > PLAN_MAX)
        return cay_fail_why(err, CAY_EINVAL, "protocol",
                            "the plan is not sealed, or longer than %u MiB",
                            (unsigned)(PLAN_MAX >> 20));
    void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, TOOL_FD, 0);
    if (map == MAP_FAILED)
        return cay_fail_sys(err, "read the plan");
    build b = {
        .t = t, .below = t->args + 3, .nbelow = t->nargs - 3, .single = !t->root && tool_one_id()
    };
    int rc = read_plan(&b, map, (size_t)st.st_size, err);
    if (rc == 0 && (rc = tool_stage(t, stage, &at, err)) == 0) {
        b.stage = at;
        rc = fill_stage(&b, t->args, err);
        /* Somebody else had the same wish: theirs is as good. */
        if (rc == 0 && (rc = tool_publish(t, stage, t->args[0], err)) == CAY_EEXIST) {
            tool_unstage(t, stage);
            rc = 0;
        } else if (rc < 0)
            tool_unstage(t, stage);
        CAY_FAULT("layer.build.published");
    }
    clear_build(&b);
    munmap(map, (size_t)st.st_size);
    return rc;
}
