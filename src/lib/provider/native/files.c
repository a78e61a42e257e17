/* SPDX-License-Identifier: Apache-2.0 */
/* File calls that are a question and its answer. */
#include "session_call.h"
#include <base/base.h>

int cay__nf_mkdir(void *box, const cay_call *call, const char *path, uint32_t mode, bool parents,
                  cay_err *err)
{
    return cay__ses_simple(box, call,
                           CAY__SES_ASK(MKDIR, "make directory", .path = path, .a = mode,
                                        .flags = CAY_FLAG_IF(parents, CAY_SES_PARENTS)),
                           err);
}

int cay__nf_remove(void *box, const cay_call *call, const char *path, bool recursive, cay_err *err)
{
    return cay__ses_simple(box, call,
                           CAY__SES_ASK(REMOVE, "remove", .path = path,
                                        .flags = CAY_FLAG_IF(recursive, CAY_SES_RECURSIVE)),
                           err);
}

int cay__nf_rename(void *box, const cay_call *call, const char *from, const char *to, cay_err *err)
{
    return cay__ses_simple(box, call, CAY__SES_ASK(RENAME, "rename", .path = from, .second = to),
                           err);
}

int cay__nf_chmod(void *box, const cay_call *call, const char *path, uint32_t mode, cay_err *err)
{
    return cay__ses_simple(box, call, CAY__SES_ASK(CHMOD, "chmod", .path = path, .a = mode), err);
}

int cay__nf_chown(void *box, const cay_call *call, const char *path, uint32_t uid, uint32_t gid,
                  cay_err *err)
{
    return cay__ses_simple(box, call,
                           CAY__SES_ASK(CHOWN, "chown", .path = path, .a = uid, .b = gid), err);
}

int cay__nf_symlink(void *box, const cay_call *call, const char *target, const char *path,
                    cay_err *err)
{
    return cay__ses_simple(box, call,
                           CAY__SES_ASK(SYMLINK, "symlink", .path = path, .second = target), err);
}

int cay__nf_setxattr(void *box, const cay_call *call, const char *path, const char *name,
                     const void *value, size_t len, cay_err *err)
{
    cay__ses_ask *ask = CAY__SES_ASK(SETXATTR, "set attribute of", .path = path, .second = name,
                                     .data = value, .len = len);
    if (len > CAY_SES_INLINE)
        return cay_fail_why(err, CAY_ETOOBIG, "attribute_too_big", "attribute %s: at most %u bytes",
                            name, CAY_SES_INLINE);
    if (!value) {
        ask->flags = CAY_SES_DROP;
        ask->len = 0;
    }
    return cay__ses_simple(box, call, ask, err);
}

int cay__nf_getxattr(void *box, const cay_call *call, const char *path, const char *name, void *buf,
                     size_t *len, cay_err *err)
{
    cay__ses_ask *ask = CAY__SES_ASK(GETXATTR, "attribute of", .path = path, .second = name);
    cay_ses_rep *rep;
    CAY_AUTOFREE char *in = calloc(1, CAY_SES_MAX);
    if (!in)
        return cay_fail(err, CAY_ENOSPACE, "attribute of %s: out of memory", path);
    CAY_TRY(cay__ses_once(box, call, ask, in, CAY_SES_MAX, &rep, NULL, err));
    size_t size = rep->len;
    if (buf && size > *len)
        return cay_fail_why(err, CAY_ETOOBIG, "attribute_too_big",
                            "attribute %s of %s: %zu bytes, room for %zu", name, ask->path, size,
                            *len);
    if (buf)
        memcpy(buf, in + sizeof *rep, size);
    *len = size;
    return 0;
}

typedef struct walker {
    int (*name)(const char *, void *);
    cay_dirent_fn *entry;
    cay_match_fn *match;
    void *arg;
    uint64_t left; /* of what was asked for; a worker that sends more lies */
    int stop;
    char *path, *text; /* of CAY_SES_MAX bytes */
} walker;

static int record_stop(walker *w, int rc)
{
    w->stop = rc;
    if (rc)
        return CAY__SES_STOP;
    return 0;
}

/* What every list shares: room for names on the heap, and the caller's function. */
static int walk_entries(cay__sessions *s, const cay_call *call, cay__ses_ask *ask, walker w,
                        int (*each)(cay__ses_rd *, void *), cay_err *err)
{
    CAY_AUTOFREE char *mem = malloc(2 * CAY_SES_MAX);
    if (!mem)
        return cay_fail(err, CAY_ENOSPACE, "%s: out of memory", ask->what);
    w.path = mem;
    w.text = mem + CAY_SES_MAX;
    return cay__ses_stream(s, call, ask, each, &w, &w.stop, err);
}

static int take_name(cay__ses_rd *r, void *arg)
{
    walker *w = arg;
    cay_ses_name n;
    if (!cay__ses_take(r, &n, sizeof n) || !cay__ses_take_str(r, n.len, w->path, 256) ||
        !cay__str_starts(w->path, "user."))
        return CAY__SES_BAD;
    return record_stop(w, w->name(w->path, w->arg));
}

int cay__nf_listxattr(void *box, const cay_call *call, const char *path, cay__on_id *fn, void *arg,
                      cay_err *err)
{
    return walk_entries(box, call, CAY__SES_ASK(LISTXATTR, "attributes of", .path = path),
                        (walker){ .name = fn, .arg = arg }, take_name, err);
}

/* Everything but the names, which follow. */
static bool take_stat(cay__ses_rd *r, cay_ses_stat *in, cay_stat *out)
{
    if (!cay__ses_take(r, in, sizeof *in))
        return false;
    mode_t t = in->mode & S_IFMT;
    out->size_of = sizeof *out; /* field by field: a page for a link's target is not cleared for
                                   each file of a list */
    if (t == S_IFREG)
        out->type = CAY_FILE;
    else if (t == S_IFDIR)
        out->type = CAY_DIR;
    else if (t == S_IFLNK)
        out->type = CAY_LINK;
    else
        out->type = CAY_OTHER;
    out->mode = in->mode & 07777;
    out->uid = in->uid;
    out->gid = in->gid;
    out->size = in->size;
    out->inode = in->inode;
    out->nlink = in->nlink;
    out->mtime_ns = in->mtime_ns;
    out->target[0] = 0;
    return true;
}

static int take_entry(cay__ses_rd *r, void *arg)
{
    walker *w = arg;
    cay_ses_stat in;
    cay_dirent e;
    e.path = w->path;
    if (!take_stat(r, &in, &e.st) || !cay__ses_take_path(r, in.path, w->path, CAY_SES_MAX) ||
        !cay__ses_take_str(r, in.target, e.st.target, sizeof e.st.target))
        return CAY__SES_BAD;
    return record_stop(w, w->entry(&e, w->arg));
}

int cay__nf_list_dir(void *box, const cay_call *call, const char *path, unsigned depth,
                     cay_dirent_fn *fn, void *arg, cay_err *err)
{
    return walk_entries(box, call, CAY__SES_ASK(LIST, "list", .path = path, .a = depth),
                        (walker){ .entry = fn, .arg = arg }, take_entry, err);
}

int cay__nf_glob(void *box, const cay_call *call, const char *base, const char *pattern,
                 cay_dirent_fn *fn, void *arg, cay_err *err)
{
    int rc = walk_entries(box, call, CAY__SES_ASK(GLOB, "glob in", .path = base, .second = pattern),
                          (walker){ .entry = fn, .arg = arg }, take_entry, err);
    if (rc == CAY_EINVAL && err && err->sys == EINVAL)
        return cay_fail_why(err, CAY_EINVAL, "pattern_invalid",
                            "pattern %s: relative to its base, without \"..\"", pattern);
    return rc;
}

static int take_match(cay__ses_rd *r, void *arg)
{
    walker *w = arg;
    cay_ses_line in;
    if (!w->left-- || !cay__ses_take(r, &in, sizeof in) ||
        !cay__ses_take_path(r, in.path, w->path, CAY_SES_MAX) || in.text > 4096 ||
        !cay__ses_take(r, w->text, in.text))
        return CAY__SES_BAD;
    w->text[in.text] = 0;
    cay_match m = { w->path, in.line, in.column, w->text, in.text };
    return record_stop(w, w->match(&m, w->arg));
}

int cay__nf_grep(void *box, const cay_call *call, const char *base, const cay_grep *spec,
                 cay_match_fn *fn, void *arg, cay_err *err)
{
    const char *include = CAY_OR(spec->include, "");
    uint64_t max = CAY_OR(spec->max, 10000);
    if (strlen(include) >= 256)
        return cay_fail_why(err, CAY_EINVAL, "include_invalid",
                            "include: a pattern of more than 255 bytes");
    int rc = walk_entries(
        box, call,
        CAY__SES_ASK(GREP, "grep in", .path = base, .second = spec->pattern, .data = include,
                     .len = strlen(include), .a = max,
                     .flags = (uint16_t)(CAY_FLAG_IF(spec->plain, CAY_SES_PLAIN) |
                                         CAY_FLAG_IF(spec->ignore_case, CAY_SES_NOCASE))),
        (walker){ .match = fn, .arg = arg, .left = max }, take_match, err);
    if (rc == CAY_EINVAL && err && err->sys == EINVAL)
        return cay_fail_why(err, CAY_EINVAL, "pattern_invalid",
                            "pattern %s: not a POSIX extended regular expression; ask for plain "
                            "text, or escape ( [ { * + ?",
                            spec->pattern);
    return rc;
}

int cay__nf_stat(void *box, const cay_call *call, const char *path, bool follow, cay_stat *out,
                 cay_err *err)
{
    cay__ses_ask *ask =
        CAY__SES_ASK(STAT, "stat", .path = path, .flags = CAY_FLAG_IF(follow, CAY_SES_FOLLOW));
    cay__ses_conn c;
    struct {
        cay_ses_rep rep;
        char body[sizeof(cay_ses_stat) + 4096];
    } in;
    cay_ses_rep *rep;
    cay_ses_stat w;
    cay_stat st;
    in.rep = (cay_ses_rep){ 0 };
    CAY_TRY(cay__ses_begin(box, call, ask, &c, err));
    int rc = cay__ses_next(&c, call, ask, &in, sizeof in, &rep, NULL, err);
    if (rc < 0) { /* most often it is not there, and the worker goes on */
        cay__ses_release(box, &c, &in.rep, rc);
        return rc;
    }
    cay__ses_rd r = { in.body, rep->len };
    if (rep->count != 1 || !take_stat(&r, &w, &st) || w.path ||
        !cay__ses_take_str(&r, w.target, st.target, sizeof st.target) || r.left) {
        cay__ses_hang_up(&c);
        return cay__ses_lied(ask, err);
    }
    cay__ses_give(box, &c);
    *out = st;
    return 0;
}
