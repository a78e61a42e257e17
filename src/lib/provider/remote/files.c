/* SPDX-License-Identifier: Apache-2.0 */
/* Files on a server, and what changes there. */
#include "remote.h"
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>

enum { SMALL = 65536 };

/* A query for that path, with the rights of whoever the call is for. */
static cay__file_query query_of(const cay_call *call, const char *user, const char *path)
{
    return (cay__file_query){ .path = path, .user = CAY_OR(user, cay__call_user(call)) };
}

static int memory_file(int *out, cay_err *err)
{
    *out = memfd_create("file", MFD_CLOEXEC);
    CAY_TRY_SYS(*out, err, "memory for a file");
    return 0;
}

/* A short one without a thread. */
static int small_body(cay__answer *a, const cay_call *call, int *fd, cay_err *err)
{
    char buf[SMALL];
    CAY_AUTOFD mem = -1;
    size_t n;
    CAY_TRY(memory_file(&mem, err));
    for (;;) {
        CAY_TRY(cay__answer_bytes(a, call, buf, sizeof buf, &n, err));
        if (!n)
            break;
        if (!cay__fd_write_all(mem, buf, n))
            return cay_fail_sys(err, "memory for a file");
    }
    lseek(mem, 0, SEEK_SET);
    *fd = CAY_STEAL_FD(mem);
    return 0;
}

int cay__remote_open_read(void *box, const cay_call *call, const char *path, const cay_read *spec,
                          int *fd, cay_err *err)
{
    cay__remote_box *b = box;
    char range[80] = "";
    CAY_AUTOPTR(cay__answer) a = NULL;
    cay_err why = CAY_ERR_INIT;
    cay__file_query q = query_of(call, spec->user, path);
    if (spec->length)
        CAY_FORMAT(range, "Range: bytes=%llu-%llu\r\n", (unsigned long long)spec->offset,
                   (unsigned long long)(spec->offset + spec->length - 1));
    else if (spec->offset)
        CAY_FORMAT(range, "Range: bytes=%llu-\r\n", (unsigned long long)spec->offset);
    int rc = cay__box_stream(b, call, CAY__REQUEST(file_get, .query = &q, .more = range), &a, &why);
    if (rc < 0 && *range &&
        cay_err_is(&why, CAY_REASON_RANGE_NOT_SATISFIABLE)) /* beyond its end there is nothing */
        return memory_file(fd, err);
    if (rc < 0)
        return cay__err_pass(rc, &why, err);
    const cay__head *h = cay__answer_head(a);
    if (h->body != CAY__BODY_LENGTH || h->length > SMALL)
        return cay__remote_pump(b->remote, CAY_STEAL(a), NULL, NULL, fd, err);
    return small_body(a, call, fd, err);
}

static int put_file(cay__remote_box *b, const cay_call *call, const char *path, const cay_write *w,
                    cay__request body, cay_err *err)
{
    char mode[16];
    cay__file_query q = query_of(call, w->user, path);
    CAY_FORMAT(mode, "%04o", w->mode);
    if (w->mode)
        q.mode = mode;
    q.parents = w->parents;
    q.append = w->append;
    q.exclusive = w->exclusive;
    body.op = CAY__OPERATION(file_put);
    body.query = &q;
    return cay__box_do(b, call, body, err);
}

int cay__remote_put(void *box, const cay_call *call, const char *path, const void *data, size_t len,
                    const cay_write *spec, cay_err *err)
{
    if (!len)
        data = "";
    return put_file(box, call, path, spec, (cay__request){ .data = data, .len = len }, err);
}

/* What is written stays here, in a file without a name, until it is sent as a whole: an upload that
 * is cut, or given up, was never there. */
typedef struct upload {
    cay__remote_box *box;
    char *path, *user;
    cay_write spec;
    int fd;
} upload;

static void upload_free(upload *u)
{
    cay__close_fd(&u->fd);
    free(u->path);
    free(u->user);
    free(u);
}

/* What can be told now is: a directory in its place, one that is missing above it, a file that may
 * not be there. */
static int check_write(cay__remote_box *b, const cay_call *call, const char *path,
                       const cay_write *spec, cay_err *err)
{
    cay_stat st = { .size_of = sizeof st };
    cay_err why = CAY_ERR_INIT;
    int rc = cay__remote_file_stat(b, call, path, true, &st, &why);
    if (rc == 0 && spec->exclusive)
        return cay_fail_why(err, CAY_EEXIST, "file_exists", "%.150s: there is one", path);
    if (rc == 0 && st.type != CAY_FILE)
        return cay_fail_why(err, CAY_ETYPE, "not_a_regular_file", "%.150s is no regular file",
                            path);
    const char *slash = strrchr(path, '/');
    if (rc == CAY_ENOENT && !spec->parents && slash && slash != path) {
        CAY_AUTOFREE char *dir = strndup(path, (size_t)(slash - path));
        rc = cay__remote_file_stat(b, call, dir, true, &st, &why);
        if (rc == CAY_ENOENT)
            return cay_fail_why(err, CAY_ENOENT, "", "%.150s: its directory is not there", path);
    }
    if (rc == 0 || rc == CAY_ENOENT)
        return 0;
    return cay__err_pass(rc, &why, err);
}

int cay__remote_open_write(void *box, const cay_call *call, const char *path, const cay_write *spec,
                           void **up, int *fd, cay_err *err)
{
    cay__remote_box *b = box;
    CAY_TRY(check_write(b, call, path, spec, err));
    const char *tmp = getenv("TMPDIR");
    CAY_AUTOFD file =
        open(CAY_OR(b->home, cay__text_or(tmp, "/tmp")), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (file < 0)
        CAY_TRY(memory_file(&file, err));
    upload *u = cay__alloc(sizeof *u);
    const char *user = CAY_OR(spec->user, cay__call_user(call));
    *u = (upload){ .box = b, .path = cay__strdup(path), .spec = *spec, .fd = CAY_STEAL_FD(file) };
    if (user)
        u->user = cay__strdup(user);
    u->spec.user = u->user;
    *up = u;
    *fd = u->fd;
    return 0;
}

int cay__remote_commit_write(void *up, const cay_call *call, cay_err *err)
{
    upload *u = up;
    struct stat st;
    int rc = 0;
    if (fstat(u->fd, &st) < 0 || lseek(u->fd, 0, SEEK_SET) < 0)
        rc = cay_fail_sys(err, "read what was written");
    if (rc == 0)
        rc = put_file(u->box, call, u->path, &u->spec,
                      (cay__request){ .from_fd = true, .fd = u->fd, .len = (size_t)st.st_size },
                      err);
    upload_free(u);
    return rc;
}

void cay__remote_abort_write(void *up)
{
    upload_free(up);
}

int cay__remote_file_stat(void *box, const cay_call *call, const char *path, bool follow,
                          cay_stat *out, cay_err *err)
{
    CAY__AUTOARENA mem = { 0 };
    cay_dirent d = { .st = { .nlink = 1 } };
    cay__file_query q = query_of(call, NULL, path);
    q.follow = follow;
    CAY_TRY(cay__box_get(box, call, CAY__REQUEST(file_stat, .query = &q), &mem, &d, err));
    d.st.size_of = sizeof d.st;
    cay__answer_give(out, &d.st, sizeof d.st);
    return 0;
}

/* A change by POST, whose paths are members of the body: bytes that are no UTF-8 cannot be said. */
static int post_change(cay__remote_box *b, const cay_call *call, const cay__operation *op,
                       const cay__edit_body *body, cay_err *err)
{
    cay__file_query q = query_of(call, NULL, NULL);
    if (!cay__shape_utf8(op->body, body))
        return cay_fail_why(err, CAY_ENOTSUP, "not_utf8",
                            "a name that is not UTF-8 cannot be given to a server for that");
    return cay__box_do(b, call, (cay__request){ .op = op, .query = &q, .body = body }, err);
}

int cay__remote_mkdir(void *box, const cay_call *call, const char *path, uint32_t mode,
                      bool parents, cay_err *err)
{
    cay__edit_body body = { .path = path, .mode = mode, .parents = parents };
    return post_change(box, call, CAY__OPERATION(file_mkdir), &body, err);
}

int cay__remote_remove(void *box, const cay_call *call, const char *path, bool recursive,
                       cay_err *err)
{
    cay__file_query q = query_of(call, NULL, path);
    q.recursive = recursive;
    return cay__box_do(box, call, CAY__REQUEST(file_delete, .query = &q), err);
}

int cay__remote_rename(void *box, const cay_call *call, const char *from, const char *to,
                       cay_err *err)
{
    cay__edit_body body = { .from = from, .to = to };
    return post_change(box, call, CAY__OPERATION(file_rename), &body, err);
}

int cay__remote_chmod(void *box, const cay_call *call, const char *path, uint32_t mode,
                      cay_err *err)
{
    cay__edit_body body = { .path = path, .mode = mode };
    return post_change(box, call, CAY__OPERATION(file_chmod), &body, err);
}

int cay__remote_chown(void *box, const cay_call *call, const char *path, uint32_t uid, uint32_t gid,
                      cay_err *err)
{
    cay__edit_body body = { .path = path, .uid = uid, .gid = gid };
    return post_change(box, call, CAY__OPERATION(file_chown), &body, err);
}

int cay__remote_symlink(void *box, const cay_call *call, const char *target, const char *path,
                        cay_err *err)
{
    cay__edit_body body = { .target = target, .path = path };
    return post_change(box, call, CAY__OPERATION(file_symlink), &body, err);
}

int cay__remote_getxattr(void *box, const cay_call *call, const char *path, const char *name,
                         void *buf, size_t *len, cay_err *err)
{
    CAY_AUTOPTR(cay__answer) a = NULL;
    char value[65536];
    size_t n = 0, room = *len;
    cay__file_query q = query_of(call, NULL, path);
    q.name = name;
    CAY_TRY(cay__box_stream(box, call, CAY__REQUEST(file_xattr_get, .query = &q), &a, err));
    CAY_TRY(cay__remote_fill(a, call, value, sizeof value, &n, err));
    *len = n;
    if (buf && room < n)
        return cay_fail_why(err, CAY_ETOOBIG, "xattr_too_big",
                            "%.100s: attribute %.60s has %zu bytes", path, name, n);
    if (buf)
        memcpy(buf, value, n);
    return 0;
}

int cay__remote_setxattr(void *box, const cay_call *call, const char *path, const char *name,
                         const void *value, size_t len, cay_err *err)
{
    cay__file_query q = query_of(call, NULL, path);
    cay__request put = CAY__REQUEST(file_xattr_put, .query = &q, .data = value, .len = len);
    q.name = name;
    if (!value)
        put.op = CAY__OPERATION(file_xattr_delete);
    return cay__box_do(box, call, put, err);
}

int cay__remote_listxattr(void *box, const cay_call *call, const char *path, cay__on_id *fn,
                          void *arg, cay_err *err)
{
    CAY__AUTOARENA mem = { 0 };
    cay__names names = { 0 };
    cay__file_query q = query_of(call, NULL, path);
    CAY_TRY(cay__box_get(box, call, CAY__REQUEST(file_xattrs, .query = &q), &mem, &names, err));
    for (const char *const *p = names.items; *p; p++)
        CAY_TRY(fn(*p, arg));
    return 0;
}

static void size_entry(cay_dirent *d)
{
    d->st.size_of = sizeof d->st;
}

int cay__remote_list_dir(void *box, const cay_call *call, const char *path, unsigned depth,
                         cay_dirent_fn *fn, void *arg, cay_err *err)
{
    cay__file_query q = query_of(call, NULL, path);
    const char *all = NULL;
    q.depth = depth;
    if (!depth) /* left out it is 1 */
        all = "&depth=0";
    return CAY__BOX_CLEAN(cay_dirent, size_entry, box, call,
                          CAY__REQUEST(file_list, .query = &q, .tail = all), fn, arg, err);
}

int cay__remote_glob(void *box, const cay_call *call, const char *base, const char *pattern,
                     cay_dirent_fn *fn, void *arg, cay_err *err)
{
    cay__file_query q = query_of(call, NULL, base);
    q.pattern = pattern;
    return CAY__BOX_CLEAN(cay_dirent, size_entry, box, call, CAY__REQUEST(file_glob, .query = &q),
                          fn, arg, err);
}

int cay__remote_grep(void *box, const cay_call *call, const char *base, const cay_grep *spec,
                     cay_match_fn *fn, void *arg, cay_err *err)
{
    cay__file_query q = query_of(call, NULL, NULL);
    cay__grep_body body = { .g = *spec, .path = base };
    if (!cay__shape_utf8(&cay__grep_shape, &body))
        return cay_fail_why(err, CAY_ENOTSUP, "not_utf8",
                            "a pattern that is not UTF-8 cannot be given to a server");
    return CAY__BOX_EACH(cay_match, box, call, CAY__REQUEST(file_grep, .query = &q, .body = &body),
                         fn, arg, err);
}

/* A packet: the change's letter, 'd' for a directory, then both names with their NULs. */
typedef struct watch {
    int fd;
    char packet[16384];
} watch;

static size_t pack_change(void *arg, const char *name, const json_t *o, unsigned lost, char *packet,
                          size_t cap)
{
    CAY__AUTOARENA mem = { 0 };
    cay_watch_event e = { .change = CAY_CHANGE_OVERFLOW, .path = "", .from = "" };
    if (name && strcmp(name, "change") != 0)
        return 0;
    if (name) /* what cannot be told is an overflow: list again */
        cay__shape_read(&mem, o, &cay__watch_event_shape, CAY__F_OUT, &e, NULL);
    size_t np = strlen(e.path) + 1, nf = strlen(e.from) + 1;
    if (2 + np + nf > cap)
        return 0;
    packet[0] = (char)e.change;
    packet[1] = e.dir ? 'd' : 'f';
    memcpy(packet + 2, e.path, np);
    memcpy(packet + 2 + np, e.from, nf);
    return 2 + np + nf;
}

int cay__remote_watch_open(void *box, const cay_call *call, const char *path, bool recursive,
                           void **w, int *fd, cay_err *err)
{
    cay__answer *a;
    int local;
    cay__file_query q = query_of(call, NULL, path);
    q.recursive = recursive;
    CAY_TRY(cay__box_stream(box, call, CAY__REQUEST(file_watch, .query = &q), &a, err));
    CAY_TRY(cay__remote_packets(a, call, "ready", pack_change, NULL, &local, err));
    watch *mine = cay__alloc(sizeof *mine);
    mine->fd = *fd = local;
    *w = mine;
    return 0;
}

int cay__remote_watch_next(void *w, const cay_call *call, cay_watch_event *out, cay_err *err)
{
    watch *m = w;
    CAY_TRY(cay__call_wait(call, m->fd, POLLIN, "watch", err));
    ssize_t n = recv(m->fd, m->packet, sizeof m->packet, 0);
    if (n < 4)
        return cay_fail_why(err, CAY_EGONE, "watch_gone",
                            "the watch is over: its directory, or the server, is gone");
    cay_watch_event e = { .size = sizeof e,
                          .change = (cay_change)m->packet[0],
                          .dir = m->packet[1] == 'd',
                          .path = m->packet + 2 };
    e.from = e.path + strlen(e.path) + 1;
    cay__answer_give(out, &e, sizeof e);
    return 0;
}

void cay__remote_watch_close(void *w)
{
    watch *m = w;
    cay__close_fd(&m->fd);
    free(m);
}
