/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of files, out and in: constant memory, whatever their size. */
#include "native.h"
#include <inttypes.h>
#include <net/multipart.h>
#include <server/http/limits.h>
#include <server/http/range.h>
#include <strings.h>
#include <time.h>

enum { SMALL = 65536 };

static void version_of(const cay_stat *st, char *etag, size_t cap)
{
    snprintf(etag, cap, "\"%" PRIx64 "-%" PRIx64 "-%" PRIx64 "\"", st->inode,
             (uint64_t)st->mtime_ns, st->size);
}

static void tell_version(cay__req *r, const cay_stat *st, const char *etag)
{
    char when[64];
    time_t t = (time_t)(st->mtime_ns / 1000000000);
    struct tm tm;
    cay__reply_field(r, "ETag", etag);
    cay__reply_field(r, "Accept-Ranges", "bytes");
    cay__reply_field(r, "X-Content-Type-Options", "nosniff");
    if (gmtime_r(&t, &tm) && strftime(when, sizeof when, "%a, %d %b %Y %H:%M:%S GMT", &tm))
        cay__reply_field(r, "Last-Modified", when);
}

/* The file itself, at the first byte that is wanted. It stays on disk while its client reads, even
 * if its sandbox is removed: so a tenant has few at once. */
static int open_kept(cay__req *r, const char *path, const cay_read *spec, int *out, cay_err *err)
{
    CAY_TRY(cay__crowd_enter(r, "ask for it", err));
    CAY_TRY(cay_sandbox_stopped_open(r->sb, &r->call, path, out, err));
    CAY_TRY_SYS(lseek(*out, (off_t)spec->offset, SEEK_SET), err, "read %.200s", path);
    return 0;
}

/* One look at it, what is wanted of it, and its bytes: 1 when another file was put in its place
 * meanwhile. */
static int get_once(cay__req *r, const cay__file_query *q, int nth, cay_err *err)
{
    const char *if_none = cay__head_field(&r->head, "if-none-match"),
               *if_range = cay__head_field(&r->head, "if-range");
    cay_stat st = { .size_of = sizeof st };
    char etag[80], range[80];
    uint64_t from = 0, len = 0;
    CAY_AUTOFD fd = -1;
    if (q->kept)
        CAY_TRY(cay_sandbox_stopped_stat(r->sb, &r->call, q->path, &st, err));
    else
        CAY_TRY(cay_file_stat(r->sb, &r->call, q->path, true, &st, err));
    if (st.type != CAY_FILE)
        return cay_fail_why(err, CAY_ETYPE, "not_a_file", "%.200s is not a file", q->path);
    version_of(&st, etag, sizeof etag);
    if (if_none &&
        (strstr(if_none, etag) ||
         !strcmp(if_none, "*"))) { /* one of a list: with its quotes it is part of no other */
        tell_version(r, &st, etag);
        return cay__reply(r, 304, NULL, NULL, 0);
    }
    int part = 0;
    if (!if_range || !strcmp(if_range, etag))
        part = cay__range_parse(cay__head_field(&r->head, "range"), st.size, &from, &len);
    if (part < 0) {
        tell_version(r, &st, etag);
        CAY_FORMAT(range, "bytes */%" PRIu64, st.size);
        cay__reply_field(r, "Content-Range", range);
        return cay_fail_why(err, CAY_EINVAL, "range_not_satisfiable",
                            "the file has %" PRIu64 " bytes", st.size);
    }
    /* Not beyond what was promised, should it grow; a file of no size may be one of proc(5), which
     * has no size but bytes. */
    cay_read spec = {
        .size = sizeof spec, .offset = from, .length = part ? len : st.size, .user = q->user
    };
    int rc;
    if (q->kept)
        rc = open_kept(r, q->path, &spec, &fd, err);
    else
        rc = cay_file_open_read(r->sb, &r->call, q->path, &spec, &fd, err);
    if (rc == 0 && !q->kept)
        rc = cay__file_again(r->sb, &r->call, q->path, &st, nth, err);
    if (rc)
        return rc;
    tell_version(r, &st, etag);
    if (part) {
        CAY_FORMAT(range, "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, from, from + len - 1, st.size);
        cay__reply_field(r, "Content-Range", range);
    }
    return cay__reply_fd(r, part ? 206 : 200, "application/octet-stream", CAY_STEAL_FD(fd),
                         spec.length ? (int64_t)spec.length : -1);
}

int cay__on_file_get(cay__req *r, cay_err *err)
{
    cay__file_query q = { 0 };
    int rc = 1;
    CAY_TRY(cay__req_asked(r, &q, err));
    CAY_TRY(cay__native_wake(r, &q, err));
    for (int i = 1; rc == 1; i++)
        rc = get_once(r, &q, i, err);
    return rc;
}

static int take_mode(const char *s, uint32_t *out, cay_err *err)
{
    char *end = NULL;
    if (!s)
        return 0;
    unsigned long v = 0;
    if (*s >= '0' && *s <= '7' && strlen(s) <= 5)
        v = strtoul(s, &end, 8);
    if (!end || *end || v > 07777)
        return cay_fail_why(err, CAY_EINVAL, "bad_query",
                            "?mode=%.20s: want permissions in octal, such as 0644", s);
    *out = (uint32_t)v;
    return 0;
}

int cay__native_body(void *arg, void *buf, size_t cap, size_t *n, cay_err *err)
{
    return cay__req_read(arg, buf, cap, n, err);
}

static int give_part(void *arg, void *buf, size_t cap, size_t *n, cay_err *err)
{
    return cay__multipart_bytes(arg, buf, cap, n, err);
}

/* The other end knows better why it stopped reading than our EPIPE does. */
static int end_upload(cay_upload *up, const cay_call *call, int rc, cay_err *err)
{
    cay_err why = CAY_ERR_INIT;
    if (rc >= 0)
        return cay_upload_commit(up, call, err);
    if (!err || err->sys != EPIPE) {
        cay_upload_abort(up);
        return rc;
    }
    int told = cay_upload_commit(up, call, &why);
    if (told < 0)
        *err = why;
    if (told < 0)
        return told;
    return rc;
}

/* Bytes from anywhere become a file, all at once when they are complete. */
int cay__native_store(cay__req *r, const char *path, const cay_write *spec, cay__native_give *fn,
                      void *arg, uint64_t *total, cay_err *err)
{
    cay_upload *up;
    CAY_AUTOFREE char *piece = cay__alloc(SMALL);
    size_t n;
    int rc = 0;
    *total = 0;
    CAY_TRY(cay_file_open_write(r->sb, &r->call, path, spec, &up, err));
    while ((rc = fn(arg, piece, SMALL, &n, err)) >= 0 && n) {
        *total += n;
        if (!cay__fd_write_all(cay_upload_fd(up), piece, n)) {
            rc = cay_fail_sys(err, "write %.200s", path);
            break;
        }
    }
    return end_upload(up, &r->call, rc, err);
}

/* What is small goes in one call. */
static int store_body(cay__req *r, const char *path, const cay_write *spec, cay_err *err)
{
    uint64_t total;
    size_t len = 0, n = 1;
    if (r->head.body == CAY__BODY_CHUNKED ||
        (r->head.body == CAY__BODY_LENGTH && r->head.length > SMALL))
        return cay__native_store(r, path, spec, cay__native_body, r, &total, err);
    char *data = cay__arena_take(&r->arena, SMALL);
    while (n && len < SMALL) {
        CAY_TRY(cay__req_read(r, data + len, SMALL - len, &n, err));
        len += n;
    }
    return cay_file_put(r->sb, &r->call, path, data, len, spec, err);
}

int cay__on_file_put(cay__req *r, cay_err *err)
{
    cay__file_query q = { 0 };
    bool there = false;
    CAY_TRY(cay__req_asked(r, &q, err));
    cay_write spec = { .size = sizeof spec,
                       .parents = q.parents,
                       .append = q.append,
                       .exclusive = q.exclusive,
                       .user = q.user };
    CAY_TRY(take_mode(q.mode, &spec.mode, err));
    CAY_TRY(cay_file_exists(r->sb, &r->call, q.path, &there, err));
    CAY_TRY(store_body(r, q.path, &spec, err));
    return cay__reply_file(r, there ? 200 : 201, q.path, true, err);
}

/* A name of the peer's, below the directory that it may write to: no way up, and none to elsewhere.
 */
bool cay__native_below(const char *name)
{
    if (!*name || *name == '/')
        return false;
    for (const char *p = name; p; p = strchr(p, '/') ? strchr(p, '/') + 1 : NULL)
        if (!strncmp(p, "..", 2) && (!p[2] || p[2] == '/'))
            return false;
    return true;
}

static int store_part(const cay__file_query *q, cay__multipart *m, const cay__form_part *part,
                      cay__items *l, cay_err *err)
{
    char path[4096];
    uint64_t total;
    cay_write spec = { .size = sizeof spec, .parents = true, .user = q->user };
    cay_dirent e = { .path = part->filename, .st = { .size_of = sizeof e.st } };
    if (!part->file)
        return cay_fail_why(err, CAY_EINVAL, "multipart_part",
                            "part %.60s has no filename; each part has to be a file", part->name);
    if (!cay__native_below(part->filename) || !CAY_JOIN(path, q->path, "/", part->filename))
        return cay_fail_why(err, CAY_EINVAL, "multipart_part",
                            "filename %.100s: want a path below ?path=, without ..",
                            part->filename);
    CAY_TRY(cay__native_store(l->r, path, &spec, give_part, m, &total, err));
    CAY_TRY(cay_file_stat(l->r->sb, &l->r->call, path, false, &e.st, err));
    return cay__items_add(l, &e);
}

int cay__on_file_post(cay__req *r, cay_err *err)
{
    cay__multipart *m = NULL;
    cay__form_part part;
    cay__file_query q = { 0 };
    const char *type = cay__head_field(&r->head, "content-type");
    CAY_TRY(cay__req_asked(r, &q, err));
    if (!type || strncasecmp(type, "multipart/form-data", 19))
        return cay_fail_why(err, CAY_EINVAL, "content_type",
                            "want Content-Type: multipart/form-data; one file goes by PUT");
    CAY_TRY(cay__multipart_open(type, cay__native_body, r, &m, err));
    cay__items l = cay__items_of(r);
    int rc;
    while ((rc = cay__multipart_next(m, &part, err)) > 0)
        if ((rc = store_part(&q, m, &part, &l, err)) < 0)
            break;
    cay__multipart_close(m);
    return cay__items_finish(&l, rc, err);
}
