/* SPDX-License-Identifier: Apache-2.0 */
/* Members of a tar or zip, as libarchive reads them, into items. */
#include "unpack.h"
#include <archive.h>
#include <archive_entry.h>
#include <base/mutant.h>

typedef struct feed {
    unpack *u;
    input *s;
    tarcheck check;
} feed;

static int fail_corrupt(unpack *u, struct archive *a, const char *member)
{
    const char *why = archive_error_string(a);
    return fail(u, member, "archive_corrupt", "%.150s", CAY_OR(why, "it cannot be read"));
}

/* Bytes up to `to` are a hole. */
static int emit_zeros(unpack *u, const char *path, uint64_t *at, uint64_t to)
{
    static const char none[CAY__ITEM_PIECE];
    if (to < *at)
        return fail(u, path, "archive_corrupt", "its bytes overlap");
    CAY_TRY(grow(u, path, to - *at));
    for (; *at < to; *at += CAY_MIN(to - *at, sizeof none))
        cay__item_data(&u->out, none, (size_t)CAY_MIN(to - *at, sizeof none));
    return 0;
}

static int read_contents(unpack *u, struct archive *a, struct archive_entry *e, const char *path)
{
    uint64_t at = 0,
             want = archive_entry_size_is_set(e) ? (uint64_t)archive_entry_size(e) : UINT64_MAX;
    const void *p;
    size_t n;
    la_int64_t from;
    for (;;) {
        int rc = archive_read_data_block(a, &p, &n, &from);
        if (rc == ARCHIVE_EOF)
            break;
        if (rc != ARCHIVE_OK) /* warnings too: a zip whose sizes or checksums disagree */
            return fail_corrupt(u, a, path);
        if (from < 0 || emit_zeros(u, path, &at, (uint64_t)from) < 0 || grow(u, path, n) < 0) {
            if (u->failed)
                return -1;
            return fail(u, path, "archive_corrupt", "a negative offset");
        }
        cay__item_data(&u->out, p, n);
        at += n;
        if (at > want)
            return fail(u, path, "archive_corrupt", "more bytes than it declares");
    }
    if (want != UINT64_MAX && at < want && emit_zeros(u, path, &at, want) < 0)
        return -1;
    cay__item_done(&u->out);
    return 0;
}

/* What the Agents SDK makes of a mode: at most 0755, the owner may read and write, execute bits
 * stay if the owner had one. */
static uint32_t file_mode(const unpack *u, uint32_t mode)
{
    if (u->as->oci) /* set-uid too: nothing is gained by it where every mount says nosuid */
        return mode & 07777;
    if (!u->as->hydrate) {
        if (u->as->ours)
            return mode & 0777;
        return (mode & 0777) | 0600;
    }
    mode = (mode & 0755) | 0600;
    if (mode & 0100)
        return mode;
    return mode & ~0111u;
}

static uint32_t dir_mode(const unpack *u, uint32_t mode)
{
    if (u->as->oci)
        return mode & 07777;
    if (u->as->ours)
        return mode & 03777; /* sticky and set-group directories are part of a workspace; files
                                never gain anything */
    if (u->as->hydrate)
        return (mode & 0755) | 0700;
    return (mode & 0777) | 0700;
}

/* Attributes of an archive of ours: the tenant's user.*, and two words of cay's own that no
 * filesystem can have. */
static int read_attrs(unpack *u, struct archive_entry *e, cay__item *it, char *room)
{
    const char *name;
    const void *value;
    size_t len;
    if (!u->as->ours && !u->as->oci)
        return 0;
    for (int left = archive_entry_xattr_reset(e); left > 0; left--) {
        if (archive_entry_xattr_next(e, &name, &value, &len) != ARCHIVE_OK || !name)
            return fail(u, it->path, "archive_corrupt", "attributes that cannot be read");
        if (u->as->oci &&
            (strncmp(name, "user.", 5) || !name[5] || !strncmp(name, "user.overlay.", 13)) &&
            strcmp(name, "security.capability"))
            continue; /* labels of another host's security modules, and what would be overlayfs's
                         own */
        if (u->as->oci && !len)
            continue; /* a pax record without a value takes the attribute away (POSIX pax, extended
                         headers), and so engines read it */
        if (u->as->ours && !strcmp(name, "cay.whiteout") && it->type == CAY__ITEM_FILE) {
            it->type = CAY__ITEM_GONE;
            continue;
        }
        if (u->as->ours && !strcmp(name, "cay.opaque") && it->type == CAY__ITEM_DIR) {
            it->flags |= CAY__ITEM_OPAQUE;
            continue;
        }
        uint16_t a = (uint16_t)(strlen(name) + 1);
        uint32_t b = (uint32_t)len;
        if ((!u->as->oci && (strncmp(name, "user.", 5) || !strncmp(name, "user.overlay.", 13))) ||
            strlen(name) > 255)
            return fail(u, it->path, "archive_special",
                        "attribute \"%.60s\" is none that an archive may set", name);
        if (it->extra_len + sizeof a + sizeof b + a + len > CAY__ITEM_EXTRA)
            return fail(u, it->path, "archive_limit", "more than 64 KiB of attributes");
        char *p = room + it->extra_len;
        memcpy(p, &a, sizeof a);
        memcpy(p + sizeof a, &b, sizeof b);
        memcpy(p + sizeof a + sizeof b, name, a);
        memcpy(p + sizeof a + sizeof b + a, value, len);
        it->extra_len += sizeof a + sizeof b + a + len;
    }
    it->extra = room;
    return 0;
}

static int hard_link(unpack *u, const char *path, const char *raw)
{
    char to[CAY__ITEM_PATH];
    if (!u->as->hard)
        return fail(u, path, "archive_link", "a hard link; this kind of archive may have none");
    CAY_TRY(name_clean(u, u->as->ours && !strncmp(raw, "root/", 5) ? raw + 5 : raw, to));
    if (name_kind(u, to) != CAY__ITEM_FILE && !CAY__MUTANT("archive-hard-link"))
        return fail(u, path, "archive_link", "a hard link to \"%.100s\", which is no earlier file",
                    to);
    CAY_TRY(name_add(u, path, CAY__ITEM_FILE));
    cay__item_put(&u->out, &(cay__item){ .type = CAY__ITEM_HARD, .path = path, .target = to });
    return 0;
}

/* The kind, 's' for one that is left out, or 0 after a refusal. */
static char kind_of(unpack *u, struct archive_entry *e, const char *path)
{
    switch (archive_entry_filetype(e)) {
    case AE_IFREG: return CAY__ITEM_FILE;
    case AE_IFDIR: return CAY__ITEM_DIR;
    case AE_IFLNK: return CAY__ITEM_LINK;
    case AE_IFBLK:
    case AE_IFCHR:
        /* A sandbox has a /dev of its own. Elsewhere one could be overlayfs's mark of a removed
         * file, or a way to a disk. */
        if (u->as->oci && !strncmp(path, "dev/", 4))
            return 's';
        break;
    case AE_IFIFO:
    case AE_IFSOCK:
        if (u->as->oci)
            return 's';
        break;
    default: break;
    }
    if (CAY__MUTANT("fuzz-zip"))
        return 'x';
    fail(u, path, "archive_special", "a device, FIFO, socket or unknown kind of file");
    return 0;
}

static int read_note(unpack *u, struct archive *a, struct archive_entry *e, const char *name)
{
    char text[4096];
    size_t len = 0;
    for (la_ssize_t n; (n = archive_read_data(a, text + len, sizeof text - len)) != 0;
         len += (size_t)n)
        if (n < 0 || len + (size_t)n >= sizeof text)
            return fail(u, name, "archive_corrupt",
                        "a description that is too long or cannot be read");
    put_note(u, name, text, len);
    if (archive_entry_filetype(e) == AE_IFREG)
        return 0;
    return fail(u, name, "archive_corrupt", "a description that is no file");
}

static int read_member(unpack *u, struct archive *a, struct archive_entry *e)
{
    char path[CAY__ITEM_PATH], room[CAY__ITEM_EXTRA];
    const char *raw = archive_entry_pathname(e), *to;
    if (!raw)
        return fail(u, "", "archive_path", "a name that cannot be read");
    if (u->as->ours && !strncmp(raw, "cay.", 4))
        return read_note(u, a, e, raw);
    if (u->as->ours && strncmp(raw, "root/", 5) && strcmp(raw, "root"))
        return fail(u, raw, "archive_path", "not below root/, where the tree of a snapshot is");
    CAY_TRY(name_clean(u, u->as->ours ? raw + 4 + (raw[4] == '/') : raw, path));
    if (archive_entry_is_encrypted(e))
        return fail(u, path, "archive_format", "it is encrypted");
    int removes = 0;
    if (u->as->oci)
        removes = whiteout(u, path);
    if (removes) {
        if (removes < 0)
            return -1;
        return 0;
    }
    if ((to = archive_entry_hardlink(e)))
        return hard_link(u, path, to);
    cay__item it = { .path = path,
                     .type = kind_of(u, e, path),
                     .mtime = archive_entry_mtime(e),
                     .size = UINT64_MAX,
                     .nsec = (uint32_t)archive_entry_mtime_nsec(e),
                     .uid = 1000,
                     .gid = 1000 };
    if (!it.type || it.type == 's') {
        if (it.type)
            return 0;
        return -1;
    }
    if (it.type == CAY__ITEM_FILE && archive_entry_size_is_set(e)) {
        it.size = (uint64_t)archive_entry_size(e);
        if (archive_entry_size(e) < 0 || it.size > u->max.output)
            return fail(u, path, "archive_limit", "it declares more bytes than may come out");
    }
    if (u->as->owners) {
        it.uid = (uint32_t)archive_entry_uid(e);
        it.gid = (uint32_t)archive_entry_gid(e);
        if ((uint64_t)archive_entry_uid(e) > 65535 || (uint64_t)archive_entry_gid(e) > 65535)
            return fail(u, path, "archive_special", "an owner beyond 65535");
    }
    if (it.type == CAY__ITEM_DIR)
        it.mode = dir_mode(u, archive_entry_perm(e));
    else
        it.mode = file_mode(u, archive_entry_perm(e));
    CAY_TRY(read_attrs(u, e, &it, room));
    if (it.type == CAY__ITEM_LINK) {
        it.target = archive_entry_symlink(e);
        it.mode = 0777;
        CAY_TRY(link_check(u, path, CAY_OR(it.target, "")));
    }
    if (it.type != CAY__ITEM_DIR && !strcmp(path, "."))
        return fail(u, raw, "archive_path", "the root is no directory");
    CAY_TRY(name_add(u, path, it.type));
    cay__item_put(&u->out, &it);
    if (it.type == CAY__ITEM_FILE)
        return read_contents(u, a, e, path);
    return 0;
}

static int read_members(unpack *u, struct archive *a)
{
    for (struct archive_entry *e;;) {
        int rc = archive_read_next_header(a, &e);
        if (u->failed)
            return -1;
        if (rc == ARCHIVE_EOF)
            return 0;
        if (rc != ARCHIVE_OK)
            return fail_corrupt(
                u, a,
                rc == ARCHIVE_WARN && archive_entry_pathname(e) ? archive_entry_pathname(e) : "");
        CAY_TRY(read_member(u, a, e));
    }
}

static la_ssize_t on_read(struct archive *a, void *arg, const void **p)
{
    feed *f = arg;
    size_t n;
    if (input_read(f->s, p, &n) < 0) {
        archive_set_error(a, EIO, "the input is not sound");
        return ARCHIVE_FATAL;
    }
    if (!tarcheck_feed(&f->check, *p, n)) {
        fail(f->u, f->check.name, f->check.reason, "%s", f->check.why);
        archive_set_error(a, EINVAL, "refused");
        return ARCHIVE_FATAL;
    }
    return (la_ssize_t)n;
}

int read_tar(unpack *u, input *s)
{
    feed f = { .u = u, .s = s, .check = { .max_size = u->max.output } };
    struct archive *a = archive_read_new();
    if (!a)
        abort();
    archive_read_support_format_tar(a);
    int rc;
    if (archive_read_open2(a, &f, NULL, on_read, NULL, NULL) == ARCHIVE_OK)
        rc = read_members(u, a);
    else if (u->failed)
        rc = -1;
    else
        rc = fail_corrupt(u, a, "");
    if (rc == 0 &&
        !f.check.ended) /* a tar that stops where a member may begin could have been cut there */
        rc = fail(u, "", "archive_corrupt", "it ends without the mark that ends a tar");
    if (rc == 0 && u->as->oci)
        rc = whiteouts_tell(u);
    if (rc == 0 && u->as->oci) {
        char hex[65];
        if ((rc = input_sum(s, hex)) == 0)
            put_note(u, "diff-id", hex, 64);
    }
    archive_read_free(a);
    tarcheck_clear(&f.check);
    return rc;
}

/* The list of members is at the end of a zip, so the whole of it is put into a file without a name
 * first. */
static int spool_input(unpack *u, input *s, int *out)
{
    const void *p;
    size_t n;
    CAY_AUTOFD fd = open(".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0)
        fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0)
        return fail(u, "", "archive_reader", "no room for a copy: %s", strerror(errno));
    do {
        CAY_TRY(input_read(s, &p, &n));
        if (!cay__fd_write_all(fd, p, n))
            return fail(u, "", "archive_reader", "no room for a copy: %s", strerror(errno));
    } while (n);
    if (lseek(fd, 0, SEEK_SET) != 0)
        return fail(u, "", "archive_reader", "rewind: %s", strerror(errno));
    *out = CAY_STEAL_FD(fd);
    return 0;
}

int read_zip(unpack *u, input *s)
{
    CAY_AUTOFD fd = -1;
    CAY_TRY(spool_input(u, s, &fd));
    struct archive *a = archive_read_new();
    if (!a)
        abort();
    archive_read_support_format_zip_seekable(a);
    int rc;
    if (archive_read_open_fd(a, fd, 64 << 10) == ARCHIVE_OK)
        rc = read_members(u, a);
    else
        rc = fail_corrupt(u, a, "");
    archive_read_free(a);
    return rc;
}
