/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An archive as a tar (POSIX pax): a snapshot's (tar.zst; cay.json first, the tree below root/,
 * cay.sha256 last), or the Agents SDK's (plain tar of the workspace, its root "."), or an image's
 * layer (plain tar, names without anything before them, whiteouts: image-spec layer.md).
 */
#include "pack.h"
#include <base/tar.h>
#include <zstd.h>

enum { FULL = 256 << 10, LEVEL = 3 };

struct tarring {
    cay__member member;
    uint64_t size; /* of the file under way */
    ZSTD_CCtx *z;  /* NULL: plain */
    char *room;    /* of what it gives */
    size_t room_len;
};

static int write_compressed(writer *w, const void *p, size_t n, ZSTD_EndDirective how, cay_err *err)
{
    struct tarring *t = w->t;
    ZSTD_inBuffer in = { p, n, 0 };
    size_t left;
    do {
        ZSTD_outBuffer out = { t->room, t->room_len, 0 };
        left = ZSTD_compressStream2(t->z, &out, &in, how);
        if (ZSTD_isError(left))
            return cay_fail(err, CAY_ESYS, "compress the archive: %s", ZSTD_getErrorName(left));
        if (out.pos && !cay__fd_write_all(w->fd, out.dst, out.pos))
            return cay_fail_sys(err, "write the archive");
    } while (in.pos < in.size || (how == ZSTD_e_end && left));
    return 0;
}

static int write_bytes(writer *w, const void *p, size_t n, cay_err *err)
{
    if (w->t->z)
        return write_compressed(w, p, n, ZSTD_e_continue, err);
    if (cay__fd_write_all(w->fd, p, n))
        return 0;
    return cay_fail_sys(err, "write the archive");
}

static int flush_output(writer *w, cay_err *err)
{
    if (w->out.full)
        return cay_fail(err, CAY_ETOOBIG, "a member's name and attributes are too long");
    CAY_TRY(write_bytes(w, w->out.data, w->out.len, err));
    w->out.len = 0;
    return 0;
}

static int init_tar(writer *w, bool ours, cay_err *err)
{
    w->t = cay__alloc(sizeof *w->t);
    if (!ours)
        return 0;
    w->t->z = ZSTD_createCCtx();
    w->t->room_len = ZSTD_CStreamOutSize();
    w->t->room = cay__alloc(w->t->room_len);
    if (!w->t->z)
        abort();
    size_t rc = ZSTD_CCtx_setParameter(w->t->z, ZSTD_c_compressionLevel, LEVEL);
    if (w->threads > 1) /* a library without threads is slower, not wrong */
        (void)ZSTD_CCtx_setParameter(w->t->z, ZSTD_c_nbWorkers, (int)w->threads);
    if (ZSTD_isError(rc))
        return cay_fail(err, CAY_ESYS, "compress the archive: %s", ZSTD_getErrorName(rc));
    return 0;
}

static int text_member(writer *w, const char *name, const char *text, cay_err *err)
{
    cay__member *m = &w->t->member;
    *m = (cay__member){ .type = '0', .mode = 0644, .size = strlen(text) };
    if (!CAY_COPY(m->name, name))
        return cay_fail_why(err, CAY_ETOOBIG, "archive_path",
                            "%.100s…: a path of more than 4,000 bytes fits no archive", name);
    cay__tar_head(&w->out, m);
    cay__buf_str(&w->out, text);
    cay__tar_pad(&w->out, m->size);
    return flush_output(w, err);
}

static int open_snapshot(writer *w, const char *meta, cay_err *err)
{
    CAY_TRY(init_tar(w, true, err));
    return text_member(w, "cay.json", meta, err);
}

static int open_tar(writer *w, const char *meta, cay_err *err)
{
    return init_tar(w, false, err);
}

/* root/PATH, ./PATH, or of an image PATH; directories end in a slash. */
static void format_name(const writer *w, const char *path, bool dir, char room[CAY__TAR_NAME])
{
    const char *top;
    if (w->ops->image)
        top = "";
    else if (w->ops->wants_gone)
        top = "root";
    else
        top = ".";
    const char *slash = "";
    if (*top && !strcmp(path, "."))
        path = "";
    else if (*top)
        slash = "/";
    snprintf(room, CAY__TAR_NAME, "%s%s%s%s", top, slash, path, dir ? "/" : "");
}

/* An empty file in dir, "" for the root, that says what is hidden. */
static int write_whiteout(writer *w, const char *dir, size_t len, const char *name, cay_err *err)
{
    char room[CAY__ITEM_PATH + 16];
    CAY_FORMAT(room, "%.*s%s.wh.%s", (int)len, dir, len ? "/" : "", name);
    return text_member(w, room, "", err);
}

static int write_item(writer *w, const cay__item *it, cay_err *err);
static int image_item(writer *w, const cay__item *it, cay_err *err)
{
    const char *slash = strrchr(it->path, '/');
    if (it->type == CAY__ITEM_GONE)
        return write_whiteout(w, it->path, slash ? (size_t)(slash - it->path) : 0,
                              slash ? slash + 1 : it->path, err);
    cay__item own = *it;
    own.flags = 0;
    if (strcmp(it->path, ".")) /* the root is the sandbox's own */
        CAY_TRY(write_item(w, &own, err));
    if (it->flags & CAY__ITEM_OPAQUE)
        return write_whiteout(w, it->path, strcmp(it->path, ".") ? strlen(it->path) : 0, ".wh..opq",
                              err);
    return 0;
}

/* As star, GNU tar and libarchive have them; a name has no "=" in it (pack.c). */
static void add_attr(cay__buf *records, const char *name, const void *value, size_t len)
{
    char key[300];
    CAY_FORMAT(key, "SCHILY.xattr.%.255s", name);
    cay__tar_record(records, key, value, len);
}

static void records_of(const writer *w, const cay__item *it, cay__buf *records)
{
    const char *name, *value;
    size_t at = 0, len;
    char when[40];
    if (it->nsec || it->mtime < 0 || it->mtime >> 33) {
        int64_t s = it->mtime;
        uint32_t ns = it->nsec;
        if (s < 0 && ns) { /* the text's fraction counts away from zero */
            s++;
            ns = 1000000000 - ns;
        }
        int n =
            CAY_FORMAT(when, "%s%lld.%09u", it->mtime < 0 && s == 0 ? "-" : "", (long long)s, ns);
        cay__tar_record(records, "mtime", when, (size_t)n);
    }
    if (it->type == CAY__ITEM_GONE)
        add_attr(records, "cay.whiteout", "1", 1);
    if (it->flags & CAY__ITEM_OPAQUE)
        add_attr(records, "cay.opaque", "1", 1);
    while (w->ops->wants_gone && it->extra_len && cay__item_attr(it, &at, &name, &value, &len))
        add_attr(records, name, value, len);
}

static int write_item(writer *w, const cay__item *it, cay_err *err)
{
    cay__member *m = &w->t->member;
    CAY_AUTOBUF records = CAY__BUF(1u << 19);
    bool dir = it->type == CAY__ITEM_DIR;
    if (dir)
        m->type = '5';
    else if (it->type == CAY__ITEM_LINK)
        m->type = '2';
    else if (it->type == CAY__ITEM_HARD)
        m->type = '1';
    else
        m->type = '0';
    m->mode = CAY_FLAG_IF(it->type != CAY__ITEM_GONE, it->mode);
    m->uid = it->uid;
    m->gid = it->gid;
    m->mtime = it->mtime;
    m->size = w->t->size = CAY_FLAG_IF(it->type == CAY__ITEM_FILE, it->size);
    m->target[0] = 0;
    format_name(w, it->path, dir, m->name);
    if (it->type == CAY__ITEM_LINK)
        CAY_FORMAT(m->target, "%s", it->target);
    if (it->type == CAY__ITEM_HARD)
        format_name(w, it->target, false, m->target);
    records_of(w, it, &records);
    if (records.full)
        return cay_fail(err, CAY_ETOOBIG, "%.150s: its attributes are too long", it->path);
    cay__tar_head_with(&w->out, m, &records);
    if (w->out.len > FULL)
        return flush_output(w, err);
    return 0;
}

static int write_data(writer *w, const void *p, size_t n, cay_err *err)
{
    if (n < FULL / 4) { /* small ones go together */
        cay__buf_add(&w->out, p, n);
        if (w->out.len > FULL)
            return flush_output(w, err);
        return 0;
    }
    CAY_TRY(flush_output(w, err));
    return write_bytes(w, p, n, err);
}

static int write_hole(writer *w, uint64_t n, cay_err *err)
{
    static const char none[1 << 16];
    for (; n; n -= CAY_MIN(n, sizeof none))
        CAY_TRY(write_data(w, none, (size_t)CAY_MIN(n, sizeof none), err));
    return 0;
}

static int finish_item(writer *w, cay_err *err)
{
    cay__tar_pad(&w->out, w->t->size);
    return 0;
}

static int close_any(writer *w, const char *digest, cay_err *err)
{
    static const char end[1024];
    if (w->ops->wants_gone && !w->ops->image)
        CAY_TRY(text_member(w, "cay.sha256", digest, err));
    cay__buf_add(&w->out, end, sizeof end);
    CAY_TRY(flush_output(w, err));
    if (w->t->z)
        return write_compressed(w, "", 0, ZSTD_e_end, err);
    return 0;
}

static void free_tar(writer *w)
{
    if (!w->t)
        return;
    ZSTD_freeCCtx(w->t->z);
    free(w->t->room);
    free(w->t);
    w->t = NULL;
}

const writer_ops write_snapshot = { "snapshot",  open_snapshot, write_item, write_data, write_hole,
                                    finish_item, close_any,     free_tar,   true,       true };
const writer_ops write_tar = { "tar",       open_tar,  write_item, write_data, write_hole,
                               finish_item, close_any, free_tar,   false,      false };
const writer_ops write_oci = { "oci",     open_tar, image_item, write_data, write_hole, finish_item,
                               close_any, free_tar, true,       true,       true };
