/* SPDX-License-Identifier: Apache-2.0 */
/* /files: whole files up and down, by token or by a URL that was signed with it. */
#include "e2b.h"
#include <net/multipart.h>
#include <zlib.h>

#define METADATA_MAX 4096

CAY_DEFINE_AUTO(cay__multipart, cay__multipart_close)

static int open_daemon(cay__req *r, e2b_daemon *out, cay_err *err)
{
    CAY_TRY(e2b_daemon_open(r, out, err));
    e2b_as(r, out, cay__req_query(r, "username"));
    return 0;
}

static int stat_path(cay__req *r, const e2b_daemon *d, const char *path, cay_stat *st, cay_err *err)
{
    int rc = cay_file_stat(d->sb, &r->call, path, true, st, err);
    if (rc == CAY_ENOENT && !e2b_nobody(err))
        return cay_fail(err, rc, "path '%.150s' does not exist", path);
    return rc;
}

int e2b_files_get(cay__req *r, cay_err *err)
{
    e2b_daemon d;
    cay_stat st = { .size_of = sizeof st };
    int fd;
    CAY_TRY(open_daemon(r, &d, err));
    const char *given = cay__req_query(r, "path");
    if (!given || !*given)
        return cay_fail(err, CAY_EINVAL, "path is missing");
    const char *path = e2b_path(r, &d, given);
    CAY_TRY(stat_path(r, &d, path, &st, err));
    if (st.type != CAY_FILE)
        return cay_fail(err, CAY_EINVAL, "path '%.150s' is a directory", path);
    CAY_TRY(cay__file_open(r, d.sb, path, d.user, &st, &fd, err));
    CAY_AUTOBUF disposition = CAY__BUF(2048);
    cay__buf_str(&disposition, "inline; filename=\"");
    for (const char *c = e2b_leaf(path); *c; c++)
        cay__buf_fmt(
            &disposition, "%c",
            (unsigned char)*c < 0x20 || *c == '"' || *c == '\\' || (unsigned char)*c >= 0x7f ? '_'
                                                                                             : *c);
    cay__buf_str(&disposition, "\"");
    cay__reply_field(r, "Content-Disposition", disposition.full ? "inline" : disposition.data);
    if (e2b_packs(&r->head, st.size))
        return e2b_reply_packed(r, fd, st.size, err);
    return cay__reply_fd(r, 200, "application/octet-stream", fd, (int64_t)st.size);
}

typedef int source(void *arg, void *buf, size_t cap, size_t *n, cay_err *err);

static int read_body(void *arg, void *buf, size_t cap, size_t *n, cay_err *err)
{
    return cay__req_read(arg, buf, cap, n, err);
}

/* Content-Encoding: gzip. */
typedef struct inflater {
    cay__req *r;
    z_stream z;
    bool ended;
    char in[16384];
} inflater;

static int read_gzip(void *arg, void *buf, size_t cap, size_t *n, cay_err *err)
{
    inflater *g = arg;
    g->z.next_out = buf;
    g->z.avail_out = (unsigned)cap;
    while (!g->ended && g->z.avail_out == cap) {
        if (!g->z.avail_in) {
            size_t got;
            CAY_TRY(cay__req_read(g->r, g->in, sizeof g->in, &got, err));
            if (!got)
                return cay_fail(err, CAY_EINVAL, "the gzip body ends early");
            g->z.next_in = (unsigned char *)g->in;
            g->z.avail_in = (unsigned)got;
        }
        int rc = inflate(&g->z, Z_NO_FLUSH);
        if (rc == Z_STREAM_END)
            g->ended = true;
        else if (rc != Z_OK && rc != Z_BUF_ERROR)
            return cay_fail(err, CAY_EINVAL, "the body is not sound gzip");
    }
    *n = cap - g->z.avail_out;
    return 0;
}

static int read_part(void *arg, void *buf, size_t cap, size_t *n, cay_err *err)
{
    return cay__multipart_bytes(arg, buf, cap, n, err);
}

static int copy_source(cay_upload *up, source *src, void *arg, cay_err *err)
{
    char buf[32768];
    for (size_t n;;) {
        CAY_TRY(src(arg, buf, sizeof buf, &n, err));
        if (!n)
            return 0;
        if (!cay__fd_write_all(cay_upload_fd(up), buf, n))
            return cay_fail_sys(err, "write");
    }
}

/* X-Metadata-KEY: the whole set of a file, new with each upload. Looked at before anything is
 * written. */
static int read_metadata(cay__req *r, json_t *out, cay_err *err)
{
    size_t total = 0;
    CAY_EACH_OF(f, r->head.fields, r->head.nfields) {
        if (!cay__str_starts(f->name, "x-metadata-"))
            continue;
        const char *key = f->name + 11;
        total += strlen(key) + f->value_len;
        if (!*key || strlen(key) > 246 || total > METADATA_MAX)
            return cay_fail(err, CAY_EINVAL,
                            "metadata: keys have 1 to 246 bytes, and all of it at most %d",
                            METADATA_MAX);
        for (const char *c = f->value; *c; c++)
            if ((unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7f)
                return cay_fail(err, CAY_EINVAL, "metadata %.60s is not printable ASCII", key);
        json_object_set_new(out, key, json_string(f->value));
    }
    return 0;
}

static int set_metadata(cay__req *r, const e2b_daemon *d, const char *path, json_t *metadata,
                        cay_err *err)
{
    const char *key;
    json_t *v;
    json_object_foreach(metadata, key, v) {
        char name[280];
        CAY_FORMAT(name, "user.e2b.%s", key);
        CAY_TRY(cay_file_setxattr(d->sb, &r->call, path, name, json_string_value(v),
                                  json_string_length(v), err));
    }
    return 0;
}

static int store_file(cay__req *r, const e2b_daemon *d, const char *path, source *src, void *arg,
                      json_t *done, cay_err *err)
{
    const cay_write spec = { .size = sizeof spec, .parents = true, .user = d->user };
    CAY_AUTOPTR(cay_upload) up = NULL;
    cay_stat st = { .size_of = sizeof st };
    CAY_AUTOJSON *metadata = json_object();
    json_t *one;
    size_t i;
    CAY_TRY(read_metadata(r, metadata, err));
    json_array_foreach(done, i, one)
        if (!strcmp(cay__json_str(one, "path", ""), path))
            return cay_fail(err, CAY_EINVAL, "path %.150s is given twice", path);
    if (cay_file_stat(d->sb, &r->call, path, true, &st, NULL) == 0 && st.type == CAY_DIR)
        return cay_fail(err, CAY_EINVAL, "path '%.150s' is a directory", path);
    CAY_TRY(cay_file_open_write(d->sb, &r->call, path, &spec, &up, err));
    CAY_TRY(copy_source(up, src, arg, err));
    CAY_TRY(cay_upload_commit(CAY_STEAL(up), &r->call, err));
    CAY_TRY(set_metadata(r, d, path, metadata, err));
    json_array_append_new(done,
                          json_pack("{s:o,s:o,s:s,s:O*}", "path", cay__json_bytes(path), "name",
                                    cay__json_bytes(e2b_leaf(path)), "type", "file", "metadata",
                                    CAY_IF(json_object_size(metadata), metadata)));
    return 0;
}

static int put_parts(cay__req *r, const e2b_daemon *d, const char *type, const char *path,
                     json_t *done, cay_err *err)
{
    CAY_AUTOPTR(cay__multipart) m = NULL;
    cay__form_part part;
    int rc;
    CAY_TRY(cay__multipart_open(type, read_body, r, &m, err));
    while ((rc = cay__multipart_next(m, &part, err)) > 0) {
        if (strcmp(part.name, "file"))
            continue;
        const char *to = CAY_OR(path, part.filename);
        if (!*to)
            return cay_fail(err, CAY_EINVAL, "a file has neither path nor filename");
        CAY_TRY(store_file(r, d, e2b_path(r, d, to), read_part, m, done, err));
    }
    return rc;
}

int e2b_files_post(cay__req *r, cay_err *err)
{
    e2b_daemon d;
    CAY_TRY(open_daemon(r, &d, err));
    const char *type = cay__head_field(&r->head, "content-type"), *path = cay__req_query(r, "path"),
               *coding = cay__head_field(&r->head, "content-encoding");
    CAY_AUTOJSON *done = json_array();
    int rc;
    if (type && !strncasecmp(type, "multipart/form-data", 19)) {
        rc = put_parts(r, &d, type, cay__text_or(path, NULL), done, err);
    } else if (!type || strncasecmp(type, "application/octet-stream", 24)) {
        return cay_fail_why(
            err, CAY_EINVAL, "content_type",
            "content type %.60s: multipart/form-data and application/octet-stream are read",
            CAY_OR(type, "none"));
    } else if (!path || !*path) {
        return cay_fail(err, CAY_EINVAL, "path is missing");
    } else if (coding && !strcasecmp(coding, "gzip")) {
        inflater *g = cay__arena_take(&r->arena, sizeof *g);
        g->r = r;
        if (inflateInit2(&g->z, 16 + MAX_WBITS) != Z_OK)
            return cay_fail(err, CAY_ENOSPACE, "out of memory");
        rc = store_file(r, &d, e2b_path(r, &d, path), read_gzip, g, done, err);
        inflateEnd(&g->z);
    } else {
        rc = store_file(r, &d, e2b_path(r, &d, path), read_body, r, done, err);
    }
    CAY_TRY(rc);
    return cay__reply_json(r, 200, json_incref(done));
}

typedef struct parts {
    cay__req *r;
    const e2b_daemon *d;
    const json_t *list;
    size_t i;
    int fd;
} parts;

static int read_parts(void *arg, void *buf, size_t cap, size_t *n, cay_err *err)
{
    parts *p = arg;
    const cay_read spec = { .size = sizeof spec, .user = p->d->user };
    for (;;) {
        *n = 0;
        if (p->fd < 0 && p->i == json_array_size(p->list))
            return 0;
        if (p->fd < 0)
            CAY_TRY(cay_file_open_read(
                p->d->sb, &p->r->call,
                e2b_path(p->r, p->d, json_string_value(json_array_get(p->list, p->i))), &spec,
                &p->fd, err));
        ssize_t got = read(p->fd, buf, cap);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return cay_fail_sys(err, "read");
        if (got > 0) {
            *n = (size_t)got;
            return 0;
        }
        cay__close_fd(&p->fd);
        p->i++;
    }
}

static int check_parts(cay__req *r, const e2b_daemon *d, const json_t *list, const char *to,
                       cay_err *err)
{
    const json_t *v;
    size_t i;
    if (!json_is_array(list) || !json_array_size(list) || json_array_size(list) > 1000)
        return cay_fail(err, CAY_EINVAL, "source_paths is a list of 1 to 1000 paths");
    json_array_foreach(list, i, v) {
        cay_stat st = { .size_of = sizeof st };
        const char *s = cay__json_cstr(v);
        if (!s || !*s)
            return cay_fail(err, CAY_EINVAL, "source_paths[%zu] is not a path", i);
        const char *path = e2b_path(r, d, s);
        if (!strcmp(path, to))
            return cay_fail(err, CAY_EINVAL, "source_paths[%zu] is the destination itself", i);
        CAY_TRY(stat_path(r, d, path, &st, err));
        if (st.type != CAY_FILE)
            return cay_fail(err, CAY_EINVAL, "path '%.150s' is not a file", path);
    }
    return 0;
}

int e2b_files_compose(cay__req *r, cay_err *err)
{
    e2b_daemon d;
    json_t *in;
    const json_t *v;
    size_t i;
    CAY_AUTOJSON *done = json_array();
    CAY_TRY(e2b_daemon_open(r, &d, err));
    CAY_TRY(cay__req_json(r, 0, &in, err));
    const char *to = cay__json_str(in, "destination", "");
    e2b_as(r, &d, cay__json_str(in, "username", NULL));
    if (!*to)
        return cay_fail(err, CAY_EINVAL, "destination is missing");
    to = e2b_path(r, &d, to);
    parts p = { .r = r, .d = &d, .list = json_object_get(in, "source_paths"), .fd = -1 };
    CAY_TRY(check_parts(r, &d, p.list, to, err));
    int rc = store_file(r, &d, to, read_parts, &p, done, err);
    cay__close_fd(&p.fd);
    CAY_TRY(rc);
    json_array_foreach(p.list, i, v) /* they are in it now */
        if (cay_file_remove(d.sb, &r->call, e2b_path(r, &d, json_string_value(v)), false, NULL) ==
            CAY_EGONE)
            return cay_fail(err, CAY_EGONE, "the sandbox ended");
    return cay__reply_json(r, 200, json_incref(json_array_get(done, 0)));
}
