/* SPDX-License-Identifier: Apache-2.0 */
/*
 * look WORD…: what a sandbox that does not run has at a path.
 *
 *   a=LAYER        the stack, bottom first
 *   top=PATH       what it wrote above it, below the state directory: sandboxes/ID/upper
 *   root=DIR       below the stack, a directory of the host
 *   path=PATH      from its root; no link is followed on the way
 *   list | stat | open
 *
 * READY: all is open, and what becomes of the sandbox makes no difference any more. ENTRY: bytes
 * name, numbers mode, size, uid, gid, inode, links, seconds and nanoseconds of its last change,
 * bytes target of a link. list: one for each in the directory; stat and open: of the path itself.
 * open: the file, opened to be read, has then gone through the socket at TOOL_FD. DONE: nothing.
 */
#include "compare.h"
#include <linux/limits.h>
#include <sys/socket.h>

#define ENTRIES_MAX 200000u

typedef struct ask {
    const char *layers[TOOL_STACK_MAX];
    size_t n;
    const char *top, *path;
    bool list, open;
} ask;

static int parse_args(tool *t, ask *q, cay_err *err)
{
    const tool_word words[] = { { "top=", &q->top },
                                { "root=", &t->bottom },
                                { "path=", &q->path },
                                { "list", .flag = &q->list },
                                { "open", .flag = &q->open },
                                { "stat" },
                                { "a=", .list = q->layers, .n = &q->n, .most = TOOL_STACK_MAX } };
    CAY_TRY(TOOL_WORDS(t, "look", words, err));
    if (q->path)
        return 0;
    return cay_fail(err, CAY_EINVAL, "look: no path");
}

static int send_entry(tool *t, cay__buf *rec, const char *name, const entry *e, cay_err *err)
{
    char target[PATH_MAX] = "";
    const struct stat *st = &e->st;
    ssize_t n = 0;
    if (S_ISLNK(st->st_mode))
        n = readlinkat(e->dir, name, target, sizeof target - 1);
    target[CAY_MAX(n, 0)] = 0;
    uint32_t base = tool_base(t); /* ids as they are inside */
    cay__rec_bytes(rec, name, strlen(name));
    const uint64_t numbers[] = { st->st_mode,
                                 (uint64_t)st->st_size,
                                 st->st_uid >= base ? st->st_uid - base : st->st_uid,
                                 st->st_gid >= base ? st->st_gid - base : st->st_gid,
                                 st->st_ino,
                                 st->st_nlink,
                                 (uint64_t)st->st_mtim.tv_sec,
                                 (uint64_t)st->st_mtim.tv_nsec };
    CAY_EACH(number, numbers)
        cay__rec_num(rec, *number);
    cay__rec_bytes(rec, target, strlen(target));
    return tool_say(t, CAY__REC_ENTRY, rec, err);
}

static int list_entries(tool *t, const view *v, cay_err *err)
{
    TOOL_AUTONAMES all = { 0 };
    CAY_AUTOBUF rec = CAY__BUF(CAY__REC_MAX);
    if (names_read(&all, crawl_fd(&v->base)) < 0 || names_read(&all, crawl_fd(&v->top)) < 0)
        return cay_fail_sys(err, "list the directory");
    names_sort(&all);
    CAY_EACH_OF(name, all.v, CAY_MIN(all.n, (size_t)ENTRIES_MAX)) {
        entry e;
        view_look(v, *name, &e);
        if (e.there)
            CAY_TRY(send_entry(t, &rec, *name, &e, err));
        CAY_TRY(tool_check(t, err));
    }
    return 0;
}

/* Only a file is opened, and it is looked at again then: nothing else may be read, waited for or
 * rewound by that. Handed over and not copied: a file of any size, holes and all, takes no room of
 * the host's while somebody reads it. */
static int hand_over(const entry *e, const char *name, cay_err *err)
{
    struct stat st = e->st;
    CAY_AUTOFD in = -1;
    if (S_ISREG(st.st_mode))
        in = openat(e->dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (S_ISREG(st.st_mode) && (in < 0 || fstat(in, &st) < 0))
        return cay_fail_sys(err, "open %.200s", name);
    if (!S_ISREG(st.st_mode))
        return cay_fail_why(err, CAY_ETYPE, "not_a_file", "%.200s is not a file", name);
    if (meta_foreign(&st))
        return cay_fail_why(err, CAY_EPERM, "apart_refused",
                            "%.200s belongs to nobody of a sandbox", name);
    const int fds[] = { in };
    if (cay__fd_send(TOOL_FD, "", 1, fds, 1, MSG_DONTWAIT) == 1)
        return 0;
    return cay_fail_sys(err, "hand over %.200s", name);
}

/* One part of the path after the other; the last is `name` in the directory where the view is then,
 * "" for the root. */
static int walk_path(tool *t, view *v, char *path, const char **name, cay_err *err)
{
    entry e;
    bool other;
    char *rest = path, *part;
    *name = "";
    while ((part = strsep(&rest, "/"))) {
        if (!*part || !strcmp(part, "."))
            continue;
        if (!strcmp(part, ".."))
            return cay_fail_why(err, CAY_EINVAL, "path_invalid",
                                "a path here goes down and never up");
        if (**name) {
            view_look(v, *name, &e);
            if (!e.there)
                return cay_fail_why(err, CAY_ENOENT, "file_not_found", "there is no %.200s", *name);
            if (!S_ISDIR(e.st.st_mode))
                return cay_fail_why(
                    err, CAY_ETYPE, "not_a_directory",
                    "%.200s is not a directory; links are not followed in what does not run",
                    *name);
            CAY_TRY_SYS(view_down(t, v, *name, &other), err, "enter %.200s", *name);
        }
        *name = part;
    }
    return 0;
}

static int serve_request(tool *t, const ask *q, view *v, cay_err *err)
{
    char path[PATH_MAX];
    const char *name;
    entry e;
    bool other;
    if (!CAY_COPY(path, q->path))
        return cay_fail_why(err, CAY_EINVAL, "path_invalid", "the path is too long");
    CAY_TRY(walk_path(t, v, path, &name, err));
    if (!*name) {
        if (q->list)
            return list_entries(t, v, err);
        return cay_fail_why(err, CAY_ETYPE, "not_a_file", "/ is not a file");
    }
    view_look(v, name, &e);
    if (!e.there)
        return cay_fail_why(err, CAY_ENOENT, "file_not_found", "there is no %.200s", q->path);
    if (q->list) {
        if (!S_ISDIR(e.st.st_mode))
            return cay_fail_why(err, CAY_ETYPE, "not_a_directory", "%.200s is not a directory",
                                q->path);
        CAY_TRY_SYS(view_down(t, v, name, &other), err, "enter %.200s", name);
        return list_entries(t, v, err);
    }
    if (q->open)
        CAY_TRY(hand_over(&e, name, err));
    CAY_AUTOBUF rec = CAY__BUF(CAY__REC_MAX);
    return send_entry(t, &rec, name, &e, err);
}

int look_run(tool *t, cay_err *err)
{
    ask q = { .n = 0 };
    view v;
    CAY_AUTOFD base = -1, top = -1;
    CAY_TRY(parse_args(t, &q, err));
    CAY_TRY(stack_open(t, q.layers, q.n, &base, err));
    CAY_TRY(tool_top_open(t, q.top, &top, err));
    view_open(&v, CAY_STEAL_FD(base), CAY_STEAL_FD(top));
    CAY_AUTOBUF none = CAY__BUF(64);
    int rc = tool_say(t, CAY__REC_READY, &none, err);
    if (rc == 0)
        rc = serve_request(t, &q, &v, err);
    view_close(&v);
    return rc;
}
