/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An archive by libarchive: a snapshot's (tar.zst; cay.json first, the tree below root/, cay.sha256 last), or the Agents SDK's (plain tar of
 * the workspace, its root "."), or an image's layer (plain tar, names without anything before them, whiteouts: image-spec layer.md).
 */
#include "pack.h"
#include <archive.h>
#include <archive_entry.h>
#include <base/fd.h>
#include <locale.h>
#include <stdio.h>

enum { BLOCKS = 256 << 10 };

static int broken(writer *w, const char *what, cay_err *err)
{
    const char *why = archive_error_string(w->a);
    errno = archive_errno(w->a);
    return cay_fail(err, errno > 0 && errno < 4096 ? cay_code_of_errno(errno) : CAY_ESYS, "%.150s: %.100s", what, why ? why : "cannot be written");
}

static la_ssize_t on_write(struct archive *a, void *arg, const void *p, size_t n)
{
    writer *w = arg;
    if (cay__fd_write_all(w->fd, p, n))
        return (la_ssize_t)n;
    archive_set_error(a, errno, "%s", strerror(errno));
    return ARCHIVE_FATAL;
}

static int start(writer *w, bool ours, cay_err *err)
{
    char n[16];
    setlocale(LC_CTYPE, "C.UTF-8"); /* names that are not ASCII are UTF-8, or bytes */
    w->a = archive_write_new();
    w->e = archive_entry_new();
    if (!w->a || !w->e)
        abort();
    int rc = archive_write_set_format_pax_restricted(w->a);
    if (rc == ARCHIVE_OK && ours)
        rc = archive_write_add_filter_zstd(w->a);
    snprintf(n, sizeof n, "%u", w->threads);
    if (ours && w->threads > 1) /* without the option it is slower, not wrong */
        (void)archive_write_set_filter_option(w->a, "zstd", "threads", n);
    if (rc == ARCHIVE_OK)
        rc = archive_write_set_format_option(w->a, "pax", "xattrheader", "SCHILY");
    archive_write_set_bytes_per_block(w->a, BLOCKS);
    archive_write_set_bytes_in_last_block(w->a, 1);
    if (rc == ARCHIVE_OK)
        rc = archive_write_open(w->a, w, NULL, on_write, NULL);
    return rc == ARCHIVE_OK ? 0 : broken(w, "the archive", err);
}

static int text_member(writer *w, const char *name, const char *text, cay_err *err)
{
    size_t n = strlen(text);
    archive_entry_clear(w->e);
    archive_entry_set_pathname(w->e, name);
    archive_entry_set_filetype(w->e, AE_IFREG);
    archive_entry_set_perm(w->e, 0644);
    archive_entry_set_size(w->e, (la_int64_t)n);
    if (archive_write_header(w->a, w->e) != ARCHIVE_OK || archive_write_data(w->a, text, n) != (la_ssize_t)n)
        return broken(w, name, err);
    return 0;
}

static int open_snapshot(writer *w, const char *meta, cay_err *err)
{
    CAY_TRY(start(w, true, err));
    return text_member(w, "cay.json", meta, err);
}

static int open_tar(writer *w, const char *meta, cay_err *err)
{
    (void)meta;
    return start(w, false, err);
}

/* root/PATH, ./PATH, or of an image PATH; in room. */
static const char *place(const writer *w, const char *path, char room[CAY__ITEM_PATH + 8])
{
    if (w->ops->image)
        return path;
    const char *top = w->ops->wants_gone ? "root" : ".";
    if (!strcmp(path, "."))
        return top;
    snprintf(room, CAY__ITEM_PATH + 8, "%s/%s", top, path);
    return room;
}

/* An empty file in dir, "" for the root, that says what is hidden. */
static int whiteout(writer *w, const char *dir, size_t len, const char *name, cay_err *err)
{
    char room[CAY__ITEM_PATH + 16];
    snprintf(room, sizeof room, "%.*s%s.wh.%s", (int)len, dir, len ? "/" : "", name);
    return text_member(w, room, "", err);
}

static int item(writer *w, const cay__item *it, cay_err *err);
static int image_item(writer *w, const cay__item *it, cay_err *err)
{
    const char *slash = strrchr(it->path, '/');
    if (it->type == CAY__ITEM_GONE)
        return whiteout(w, it->path, slash ? (size_t)(slash - it->path) : 0, slash ? slash + 1 : it->path, err);
    cay__item own = *it;
    own.flags = 0;
    if (strcmp(it->path, ".")) /* the root is the sandbox's own */
        CAY_TRY(item(w, &own, err));
    return it->flags & CAY__ITEM_OPAQUE ? whiteout(w, it->path, strcmp(it->path, ".") ? strlen(it->path) : 0, ".wh..opq", err) : 0;
}

static int item(writer *w, const cay__item *it, cay_err *err)
{
    char room[CAY__ITEM_PATH + 8], other[CAY__ITEM_PATH + 8];
    struct archive_entry *e = w->e;
    const char *name, *value;
    size_t at = 0, len;
    archive_entry_clear(e);
    archive_entry_set_pathname(e, place(w, it->path, room));
    archive_entry_set_perm(e, it->type == CAY__ITEM_GONE ? 0 : (unsigned short)it->mode);
    archive_entry_set_uid(e, it->uid);
    archive_entry_set_gid(e, it->gid);
    archive_entry_set_mtime(e, it->mtime, (long)it->nsec);
    archive_entry_set_size(e, it->type == CAY__ITEM_FILE ? (la_int64_t)it->size : 0);
    archive_entry_set_filetype(e, it->type == CAY__ITEM_DIR ? AE_IFDIR : it->type == CAY__ITEM_LINK ? AE_IFLNK : AE_IFREG);
    if (it->type == CAY__ITEM_LINK)
        archive_entry_set_symlink(e, it->target);
    if (it->type == CAY__ITEM_HARD)
        archive_entry_set_hardlink(e, place(w, it->target, other));
    if (it->type == CAY__ITEM_GONE)
        archive_entry_xattr_add_entry(e, "cay.whiteout", "1", 1);
    if (it->flags & CAY__ITEM_OPAQUE)
        archive_entry_xattr_add_entry(e, "cay.opaque", "1", 1);
    while (w->ops->wants_gone && it->extra_len && cay__item_attr(it, &at, &name, &value, &len))
        archive_entry_xattr_add_entry(e, name, value, len);
    int rc = archive_write_header(w->a, e);
    return rc == ARCHIVE_OK || rc == ARCHIVE_WARN ? 0 : broken(w, it->path, err);
}

static int data(writer *w, const void *p, size_t n, cay_err *err)
{
    return archive_write_data(w->a, p, n) == (la_ssize_t)n ? 0 : broken(w, "bytes of a file", err);
}

static int hole(writer *w, uint64_t n, cay_err *err)
{
    static const char none[1 << 16];
    for (; n; n -= CAY_MIN(n, sizeof none))
        CAY_TRY(data(w, none, (size_t)CAY_MIN(n, sizeof none), err));
    return 0;
}

static int done(writer *w, cay_err *err)
{
    (void)w, (void)err;
    return 0;
}

static int close_any(writer *w, const char *digest, cay_err *err)
{
    int rc = w->ops->wants_gone && !w->ops->image ? text_member(w, "cay.sha256", digest, err) : 0;
    if (rc == 0 && archive_write_close(w->a) != ARCHIVE_OK)
        rc = broken(w, "the archive", err);
    return rc;
}

static void drop(writer *w)
{
    if (w->a)
        archive_write_fail(w->a); /* else it would be finished now, to nobody's use; after close that changes nothing */
    archive_entry_free(w->e);
    archive_write_free(w->a);
}

const writer_ops write_snapshot = { "snapshot", open_snapshot, item, data, hole, done, close_any, drop, true, true };
const writer_ops write_tar = { "tar", open_tar, item, data, hole, done, close_any, drop, false, false };
const writer_ops write_oci = { "oci", open_tar, image_item, data, hole, done, close_any, drop, true, true, true };
