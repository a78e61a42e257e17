/* SPDX-License-Identifier: Apache-2.0 */
/* Files on a server, and what changes there. */
#include "remote_box.h"
#include <base/call.h>
#include <base/fd.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

enum { SMALL = 65536 };

static void as_user(cay__buf *target, const cay_call *call, const char *user)
{
    user = CAY_OR(user, cay__call_user(call));
    if (user)
        cay__far_query(target, "user", user);
}

static void at_path(cay__buf *target, const cay__far_box *b, const char *rest, const char *path,
                    const cay_call *call, const char *user)
{
    cay__far_at(target, b, rest);
    cay__far_query(target, "path", path);
    as_user(target, call, user);
}

static int memory_file(int *out, cay_err *err)
{
    *out = memfd_create("file", MFD_CLOEXEC);
    if (*out < 0)
        return cay_fail_sys(err, CAY_ESYS, "memory for a file");
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
            return cay_fail_sys(err, CAY_ESYS, "memory for a file");
    }
    lseek(mem, 0, SEEK_SET);
    *fd = CAY_STEAL_FD(mem);
    return 0;
}

int cay__far_open_read(void *box, const cay_call *call, const char *path, const cay_read *spec,
                       int *fd, cay_err *err)
{
    cay__far_box *b = box;
    CAY__FAR_TARGET(target);
    char range[80] = "";
    cay__answer *a;
    cay_err why = CAY_ERR_INIT;
    at_path(&target, b, "/files", path, call, spec->user);
    if (spec->length)
        snprintf(range, sizeof range, "Range: bytes=%llu-%llu\r\n",
                 (unsigned long long)spec->offset,
                 (unsigned long long)(spec->offset + spec->length - 1));
    else if (spec->offset)
        snprintf(range, sizeof range, "Range: bytes=%llu-\r\n", (unsigned long long)spec->offset);
    int rc = cay__far_ask(b->far, call,
                          &(cay__ask){ .method = "GET", .target = target.data, .fields = range },
                          &a, &why);
    if (rc < 0 && *range &&
        cay_err_is(&why, CAY_REASON_RANGE_NOT_SATISFIABLE)) /* beyond its end there is nothing */
        return memory_file(fd, err);
    if (rc < 0) {
        if (err)
            *err = why;
        return rc;
    }
    const cay__head *h = cay__answer_head(a);
    if (h->body != CAY__BODY_LENGTH || h->length > SMALL)
        return cay__far_pump(b->far, a, NULL, NULL, fd, err);
    rc = small_body(a, call, fd, err);
    cay__answer_end(a);
    return rc;
}

static int put_file(cay__far_box *b, const cay_call *call, const char *path, const cay_write *w,
                    const cay__ask *body, cay_err *err)
{
    CAY__FAR_TARGET(target);
    char mode[16];
    cay__answer *a;
    cay__ask ask = *body;
    at_path(&target, b, "/files", path, call, w->user);
    snprintf(mode, sizeof mode, "%04o", w->mode);
    if (w->mode)
        cay__far_query(&target, "mode", mode);
    if (w->parents)
        cay__far_query(&target, "parents", "1");
    if (w->append)
        cay__far_query(&target, "append", "1");
    if (w->exclusive)
        cay__far_query(&target, "exclusive", "1");
    ask.method = "PUT";
    ask.target = target.data;
    ask.type = "application/octet-stream";
    CAY_TRY(cay__far_ask(b->far, call, &ask, &a, err));
    cay__answer_end(a);
    return 0;
}

int cay__far_put(void *box, const cay_call *call, const char *path, const void *data, size_t len,
                 const cay_write *spec, cay_err *err)
{
    return put_file(box, call, path, spec, &(cay__ask){ .body = len ? data : "", .len = len }, err);
}

/* What is written stays here, in a file without a name, until it is sent as a whole: an upload that
 * is cut, or given up, was never there. */
typedef struct upload {
    cay__far_box *box;
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
static int check_write(cay__far_box *b, const cay_call *call, const char *path,
                       const cay_write *spec, cay_err *err)
{
    cay_stat st = { .size_of = sizeof st };
    cay_err why = CAY_ERR_INIT;
    int rc = cay__far_file_stat(b, call, path, true, &st, &why);
    if (rc == 0 && spec->exclusive)
        return cay_fail_why(err, CAY_EEXIST, "file_exists", "%.150s: there is one", path);
    if (rc == 0 && st.type != CAY_FILE)
        return cay_fail_why(err, CAY_ETYPE, "not_a_regular_file", "%.150s is no regular file",
                            path);
    const char *slash = strrchr(path, '/');
    if (rc == CAY_ENOENT && !spec->parents && slash && slash != path) {
        CAY_AUTOFREE char *dir = strndup(path, (size_t)(slash - path));
        rc = cay__far_file_stat(b, call, dir, true, &st, &why);
        if (rc == CAY_ENOENT)
            return cay_fail_why(err, CAY_ENOENT, "", "%.150s: its directory is not there", path);
    }
    if (rc == 0 || rc == CAY_ENOENT)
        return 0;
    if (err)
        *err = why;
    return rc;
}

int cay__far_open_write(void *box, const cay_call *call, const char *path, const cay_write *spec,
                        void **up, int *fd, cay_err *err)
{
    cay__far_box *b = box;
    CAY_TRY(check_write(b, call, path, spec, err));
    const char *tmp = getenv("TMPDIR");
    CAY_AUTOFD file =
        open(CAY_OR(b->home, cay__text_or(tmp, "/tmp")), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (file < 0)
        CAY_TRY(memory_file(&file, err));
    upload *u = cay__alloc(sizeof *u);
    const char *user = CAY_OR(spec->user, cay__call_user(call));
    *u = (upload){ .box = b,
                   .path = cay__strdup(path),
                   .user = user ? cay__strdup(user) : NULL,
                   .spec = *spec,
                   .fd = CAY_STEAL_FD(file) };
    u->spec.user = u->user;
    *up = u;
    *fd = u->fd;
    return 0;
}

int cay__far_commit_write(void *up, const cay_call *call, cay_err *err)
{
    upload *u = up;
    struct stat st;
    int rc = 0;
    if (fstat(u->fd, &st) < 0 || lseek(u->fd, 0, SEEK_SET) < 0)
        rc = cay_fail_sys(err, CAY_ESYS, "read what was written");
    if (rc == 0)
        rc = put_file(u->box, call, u->path, &u->spec,
                      &(cay__ask){ .from_fd = true, .fd = u->fd, .len = (size_t)st.st_size }, err);
    upload_free(u);
    return rc;
}

void cay__far_abort_write(void *up)
{
    upload_free(up);
}

int cay__far_file_stat(void *box, const cay_call *call, const char *path, bool follow,
                       cay_stat *out, cay_err *err)
{
    cay__far_box *b = box;
    CAY__FAR_TARGET(target);
    CAY_AUTOJSON *answer = NULL;
    at_path(&target, b, "/files/stat", path, call, NULL);
    if (follow)
        cay__far_query(&target, "follow", "1");
    CAY_TRY(cay__far_json(b->far, call, "GET", &target, NULL, &answer, err));
    cay__far_stat(answer, out);
    return 0;
}

/* A change by POST, whose paths are members of the body: bytes that are no UTF-8 cannot be said. */
static int post_change(cay__far_box *b, const cay_call *call, const char *verb, json_t *body,
                       cay_err *err)
{
    CAY__FAR_TARGET(target);
    if (!body)
        return cay_fail_why(err, CAY_ENOTSUP, "not_utf8",
                            "a name that is not UTF-8 cannot be given to a server for that");
    cay__far_at(&target, b, "/files/");
    cay__buf_str(&target, verb);
    as_user(&target, call, NULL);
    return cay__far_json(b->far, call, "POST", &target, body, NULL, err);
}

static json_t *format_mode(uint32_t mode)
{
    return json_sprintf("%04o", mode);
}

int cay__far_mkdir(void *box, const cay_call *call, const char *path, uint32_t mode, bool parents,
                   cay_err *err)
{
    json_t *body = json_pack("{s:s,s:b}", "path", path, "parents", (int)parents);
    if (mode)
        json_object_set_new(body, "mode", format_mode(mode));
    return post_change(box, call, "mkdir", body, err);
}

int cay__far_remove(void *box, const cay_call *call, const char *path, bool recursive, cay_err *err)
{
    cay__far_box *b = box;
    CAY__FAR_TARGET(target);
    at_path(&target, b, "/files", path, call, NULL);
    if (recursive)
        cay__far_query(&target, "recursive", "1");
    return cay__far_json(b->far, call, "DELETE", &target, NULL, NULL, err);
}

int cay__far_rename(void *box, const cay_call *call, const char *from, const char *to, cay_err *err)
{
    return post_change(box, call, "rename", json_pack("{s:s,s:s}", "from", from, "to", to), err);
}

int cay__far_chmod(void *box, const cay_call *call, const char *path, uint32_t mode, cay_err *err)
{
    return post_change(box, call, "chmod",
                       json_pack("{s:s,s:o}", "path", path, "mode", format_mode(mode)), err);
}

int cay__far_chown(void *box, const cay_call *call, const char *path, uint32_t uid, uint32_t gid,
                   cay_err *err)
{
    json_t *body = json_pack("{s:s}", "path", path);
    if (uid != UINT32_MAX)
        json_object_set_new(body, "uid", json_integer(uid));
    if (gid != UINT32_MAX)
        json_object_set_new(body, "gid", json_integer(gid));
    return post_change(box, call, "chown", body, err);
}

int cay__far_symlink(void *box, const cay_call *call, const char *target, const char *path,
                     cay_err *err)
{
    return post_change(box, call, "symlink", json_pack("{s:s,s:s}", "target", target, "path", path),
                       err);
}

int cay__far_getxattr(void *box, const cay_call *call, const char *path, const char *name,
                      void *buf, size_t *len, cay_err *err)
{
    cay__far_box *b = box;
    CAY__FAR_TARGET(target);
    cay__answer *a;
    char value[65536];
    size_t n = 0, k = 1;
    int rc = 0;
    at_path(&target, b, "/files/xattr", path, call, NULL);
    cay__far_query(&target, "name", name);
    CAY_TRY(
        cay__far_ask(b->far, call, &(cay__ask){ .method = "GET", .target = target.data }, &a, err));
    while (rc == 0 && k && n < sizeof value) {
        rc = cay__answer_bytes(a, call, value + n, sizeof value - n, &k, err);
        if (rc == 0)
            n += k;
    }
    cay__answer_end(a);
    CAY_TRY(rc);
    size_t room = *len;
    *len = n;
    if (buf && room < n)
        return cay_fail_why(err, CAY_ETOOBIG, "xattr_too_big",
                            "%.100s: attribute %.60s has %zu bytes", path, name, n);
    if (buf)
        memcpy(buf, value, n);
    return 0;
}

int cay__far_setxattr(void *box, const cay_call *call, const char *path, const char *name,
                      const void *value, size_t len, cay_err *err)
{
    cay__far_box *b = box;
    CAY__FAR_TARGET(target);
    cay__answer *a;
    at_path(&target, b, "/files/xattr", path, call, NULL);
    cay__far_query(&target, "name", name);
    cay__ask ask = { .method = value ? "PUT" : "DELETE",
                     .target = target.data,
                     .type = "application/octet-stream",
                     .body = value,
                     .len = len };
    CAY_TRY(cay__far_ask(b->far, call, &ask, &a, err));
    cay__answer_end(a);
    return 0;
}

int cay__far_listxattr(void *box, const cay_call *call, const char *path,
                       int (*fn)(const char *, void *), void *arg, cay_err *err)
{
    cay__far_box *b = box;
    CAY__FAR_TARGET(target);
    CAY_AUTOJSON *answer = NULL;
    size_t i;
    json_t *o;
    at_path(&target, b, "/files/xattrs", path, call, NULL);
    CAY_TRY(cay__far_json(b->far, call, "GET", &target, NULL, &answer, err));
    json_array_foreach(json_object_get(answer, "items"), i, o)
    {
        if (json_is_string(o))
            CAY_TRY(fn(json_string_value(o), arg));
    }
    return 0;
}

static int for_each_entry(const json_t *answer, int (*fn)(const cay_dirent *, void *), void *arg)
{
    size_t i;
    json_t *o;
    json_array_foreach(json_object_get(answer, "items"), i, o)
    {
        CAY_AUTOFREE char *path = cay__far_path(o, "path");
        cay_dirent ent = { .path = path, .st = { .size_of = sizeof ent.st } };
        cay__far_stat(o, &ent.st);
        int rc = fn(&ent, arg);
        if (rc)
            return rc;
    }
    return 0;
}

int cay__far_list_dir(void *box, const cay_call *call, const char *path, unsigned depth,
                      int (*fn)(const cay_dirent *, void *), void *arg, cay_err *err)
{
    cay__far_box *b = box;
    CAY__FAR_TARGET(target);
    CAY_AUTOJSON *answer = NULL;
    at_path(&target, b, "/files/list", path, call, NULL);
    cay__far_query_u64(&target, "depth", depth);
    CAY_TRY(cay__far_json(b->far, call, "GET", &target, NULL, &answer, err));
    return for_each_entry(answer, fn, arg);
}

int cay__far_glob(void *box, const cay_call *call, const char *base, const char *pattern,
                  int (*fn)(const cay_dirent *, void *), void *arg, cay_err *err)
{
    cay__far_box *b = box;
    CAY__FAR_TARGET(target);
    CAY_AUTOJSON *answer = NULL;
    at_path(&target, b, "/files/glob", base, call, NULL);
    cay__far_query(&target, "pattern", pattern);
    CAY_TRY(cay__far_json(b->far, call, "GET", &target, NULL, &answer, err));
    return for_each_entry(answer, fn, arg);
}

int cay__far_grep(void *box, const cay_call *call, const char *base, const cay_grep *spec,
                  int (*fn)(const cay_match *, void *), void *arg, cay_err *err)
{
    cay__far_box *b = box;
    CAY__FAR_TARGET(target);
    CAY_AUTOJSON *answer = NULL;
    size_t i;
    json_t *o, *body = json_pack("{s:s,s:s,s:b,s:b,s:s*}", "path", base, "pattern", spec->pattern,
                                 "plain", (int)spec->plain, "ignore_case", (int)spec->ignore_case,
                                 "include", spec->include);
    if (!body)
        return cay_fail_why(err, CAY_ENOTSUP, "not_utf8",
                            "a pattern that is not UTF-8 cannot be given to a server");
    if (spec->max)
        json_object_set_new(body, "max", json_integer((json_int_t)spec->max));
    cay__far_at(&target, b, "/files/grep");
    as_user(&target, call, NULL);
    CAY_TRY(cay__far_json(b->far, call, "POST", &target, body, &answer, err));
    json_array_foreach(json_object_get(answer, "items"), i, o)
    {
        CAY_AUTOFREE char *path = cay__far_path(o, "path"), *text = cay__far_path(o, "text");
        cay_match m = { .path = path,
                        .line = (uint64_t)cay__json_int(o, "line", 0),
                        .column = (uint64_t)cay__json_int(o, "column", 0),
                        .text = text,
                        .text_len = strlen(text) };
        int rc = fn(&m, arg);
        if (rc)
            return rc;
    }
    return 0;
}

/* A packet: the change's letter, 'd' for a directory, then both names with their NULs. */
typedef struct watch {
    int fd;
    char packet[16384];
} watch;

static size_t pack_change(void *arg, const char *name, const json_t *o, unsigned lost, char *packet,
                          size_t cap)
{
    static const struct {
        const char *word;
        cay_change change;
    } kinds[] = { { "create", CAY_CHANGE_CREATE }, { "write", CAY_CHANGE_WRITE },
                  { "remove", CAY_CHANGE_REMOVE }, { "rename", CAY_CHANGE_RENAME },
                  { "chmod", CAY_CHANGE_CHMOD },   { "overflow", CAY_CHANGE_OVERFLOW } };
    (void)arg, (void)lost;
    if (!name) {
        memcpy(packet, "of\0", 4);
        packet[0] = CAY_CHANGE_OVERFLOW;
        return 4;
    }
    if (strcmp(name, "change") != 0)
        return 0;
    CAY_AUTOFREE char *path = cay__far_path(o, "path"), *from = cay__far_path(o, "from");
    size_t np = strlen(path) + 1, nf = strlen(from) + 1;
    packet[0] = CAY_CHANGE_OVERFLOW; /* what cannot be told is: list again */
    for (size_t i = 0; i < CAY_LEN(kinds); i++)
        if (!strcmp(kinds[i].word, cay__far_word(o, "change")))
            packet[0] = (char)kinds[i].change;
    if (cay__json_bool(o, "directory", false))
        packet[1] = 'd';
    else
        packet[1] = 'f';
    if (2 + np + nf > cap)
        return 0;
    memcpy(packet + 2, path, np);
    memcpy(packet + 2 + np, from, nf);
    return 2 + np + nf;
}

int cay__far_watch_open(void *box, const cay_call *call, const char *path, bool recursive, void **w,
                        int *fd, cay_err *err)
{
    cay__far_box *b = box;
    CAY__FAR_TARGET(target);
    cay__answer *a;
    int local;
    at_path(&target, b, "/files/watch", path, call, NULL);
    if (recursive)
        cay__far_query(&target, "recursive", "1");
    CAY_TRY(
        cay__far_ask(b->far, call, &(cay__ask){ .method = "GET", .target = target.data }, &a, err));
    CAY_TRY(cay__far_events(a, call, "ready", pack_change, NULL, &local, err));
    watch *mine = cay__alloc(sizeof *mine);
    mine->fd = *fd = local;
    *w = mine;
    return 0;
}

int cay__far_watch_next(void *w, const cay_call *call, cay_watch_event *out, cay_err *err)
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

void cay__far_watch_close(void *w)
{
    watch *m = w;
    cay__close_fd(&m->fd);
    free(m);
}
