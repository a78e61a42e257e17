/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An archive into a sandbox that runs. It is read in a sandbox of its own and put aside on the way;
 * only when all of it is sound, and everything it would be written over is looked at, the first
 * file is written, by the calls of the sandbox itself: an archive reaches no further than its user
 * does.
 */
#include "fetch_inside.h"
#include "fetch_source.h"
#include <base/fsop.h>
#include <base/json.h>
#include <cay/workspace.h>
#include <lib/client/remote.h>
#include <lib/client/client.h>

enum { PIECE = 64 << 10, BASE_MAX = 2048 };
#define INPUT_MOST   (2ull << 30)
#define OUTPUT_MOST  (8ull << 30)
#define MEMBERS_MOST 500000ull

static const struct {
    const char *suffix, *scheme;
} known[] = {
    { ".tar", "tar" },     { ".zip", "zip" },  { ".tar.gz", "tar" }, { ".tgz", "tar" },
    { ".tar.bz2", "tar" }, { ".tbz2", "tar" }, { ".tar.xz", "tar" }, { ".txz", "tar" },
    { ".tar.zst", "tar" }, { ".tzst", "tar" },
};

static int scheme_of(const cay_extract *x, const char **out, cay_err *err)
{
    const char *given = x->scheme;
    size_t n = strlen(x->path);
    CAY_EACH(one, known) {
        size_t k = strlen(one->suffix);
        if (given ? !strcmp(given, one->scheme) : n > k && !strcmp(x->path + n - k, one->suffix)) {
            *out = one->scheme;
            return 0;
        }
    }
    int rc = cay_fail_why(
        err, CAY_EINVAL, "invalid_compression_scheme",
        "%.120s: which kind of archive is it? Name the scheme, tar or zip, or end its name so",
        x->path);
    CAY_AUTOJSON *detail = json_pack("{s:s, s:s?}", "path", x->path, "scheme", given);
    CAY_AUTOFREE char *text = NULL;
    if (detail)
        text = cay__json_text(detail, sizeof err->detail - 1);
    if (err && text)
        CAY_COPY(err->detail, text);
    return rc;
}

/* All of it, in a file without a name, at its start. */
static int spool_archive(const cay_client *client, const cay_call *call, int from, uint64_t most,
                         int *out, cay_err *err)
{
    CAY_AUTOFD fd = openat(client->home_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    CAY_AUTOFREE char *buf = cay__alloc(PIECE);
    uint64_t sum = 0;
    if (fd < 0)
        return cay_fail_sys(err, "a file for the archive");
    for (ssize_t n; (n = read(from, buf, PIECE)) != 0;) {
        if (n < 0 && errno == EINTR)
            continue;
        CAY_TRY(cay__call_check(call, "reading the archive", err));
        if (n < 0)
            return cay_fail_sys(err, "read the archive");
        if ((sum += (uint64_t)n) > most)
            return cay_fail_why(err, CAY_ETOOBIG, "archive_limit",
                                "the archive is larger than %llu bytes", (unsigned long long)most);
        if (!cay__fd_write_all(fd, buf, (size_t)n))
            return cay_fail_sys(err, "keep the archive");
    }
    if (lseek(fd, 0, SEEK_SET) != 0)
        return cay_fail_sys(err, "keep the archive");
    *out = CAY_STEAL_FD(fd);
    return 0;
}

typedef struct placing {
    cay_sandbox *sb;
    const cay_call *call;
    char base[BASE_MAX];
    bool look; /* nothing is written yet */
    cay_extracted n;
    int rc;
    cay_err *err;
} placing;

static int fail_blocked(placing *p, const char *path, const char *why)
{
    return cay_fail_why(p->err, CAY_ETYPE, "workspace_archive_write_error", "%.150s: %s", path,
                        why);
}

static int check_existing(placing *p, const cay__fs_entry *e, const char *path)
{
    cay_stat st = { .size_of = sizeof st };
    cay_err own = CAY_ERR_INIT;
    int rc = cay_file_stat(p->sb, p->call, path, false, &st, &own);
    if (rc == CAY_ENOENT)
        return 0;
    if (rc < 0 && p->err)
        *p->err = own;
    CAY_TRY(rc);
    if (st.type == CAY_LINK)
        return fail_blocked(p, path, "there is a link already, and no archive goes through one");
    if (S_ISDIR(e->st->st_mode) != (st.type == CAY_DIR))
        return fail_blocked(p, path,
                            S_ISDIR(e->st->st_mode)
                                ? "there is a file already, and the archive has a directory"
                                : "there is a directory already, and the archive has a file");
    return 0;
}

static int upload_file(placing *p, int from, const char *path, uint32_t mode, uint64_t *bytes)
{
    cay_write spec = { .size = sizeof spec, .mode = mode & 0777, .parents = true };
    CAY_AUTOFREE char *buf = cay__alloc(PIECE);
    cay_upload *up = NULL;
    CAY_TRY(cay_file_open_write(p->sb, p->call, path, &spec, &up, p->err));
    for (ssize_t n; (n = read(from, buf, PIECE)) != 0;) {
        if (n < 0 && errno == EINTR)
            continue;
        int rc;
        if (n < 0)
            rc = cay_fail_sys(p->err, "read a member");
        else
            rc = cay__call_check(p->call, "extracting", p->err);
        if (rc == 0 && !cay__fd_write_all(cay_upload_fd(up), buf, (size_t)n))
            rc = cay_fail_sys(p->err, "write %.150s", path);
        if (rc < 0) {
            cay_upload_abort(up);
            return rc;
        }
        *bytes += (uint64_t)n;
    }
    return cay_upload_commit(up, p->call, p->err);
}

static int write_entry(placing *p, const cay__fs_entry *e, const char *path)
{
    if (S_ISDIR(e->st->st_mode)) {
        p->n.dirs++;
        return cay_file_mkdir(p->sb, p->call, path, e->st->st_mode & 0777, true, p->err);
    }
    CAY_AUTOFD fd = openat(e->dir, e->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return cay_fail_sys(p->err, "read %.150s", e->path);
    p->n.files++;
    return upload_file(p, fd, path, e->st->st_mode, &p->n.bytes);
}

static int on_entry(const cay__fs_entry *e, void *arg)
{
    placing *p = arg;
    char path[BASE_MAX + CAY__ITEM_PATH + 2];
    CAY_FORMAT(path, "%s%s%s", p->base, CAY_TEXT_IF(*p->base, "/"), e->path);
    if (p->look)
        p->rc = check_existing(p, e, path);
    else
        p->rc = write_entry(p, e, path);
    return p->rc;
}

static int walk_entries(placing *p, int dir)
{
    int fd = fcntl(dir, F_DUPFD_CLOEXEC, 3);
    cay__fs_walk w = { .fn = on_entry, .arg = p };
    p->rc = 0;
    int rc = -1;
    if (fd >= 0)
        rc = cay__fs_walk_fd(fd, &w);
    if (p->rc < 0)
        return p->rc;
    if (rc < 0)
        return cay_fail_sys(p->err, "look through the archive");
    return 0;
}

static int unpack_archive(cay_client *client, const cay_call *call, const char *scheme,
                          const cay_archive_limits *l, int in, int dir, cay_err *err)
{
    CAY_AUTOPTR(cay__oneshot) o = NULL;
    char input[24], output[24], members[24];
    const char *const args[] = { "--max-input",
                                 cay__str_u64(input, l->max_input_bytes),
                                 "--max-output",
                                 cay__str_u64(output, l->max_extracted_bytes),
                                 "--max-members",
                                 cay__str_u64(members, l->max_members),
                                 "extract",
                                 scheme,
                                 NULL };
    cay__sink sink = { .root = dir,
                       .threads = 1,
                       .max_bytes = l->max_extracted_bytes,
                       .max_items = 2 * l->max_members };
    CAY_TRY(cay__oneshot_open(client, call, &(cay__oneshot_spec){ 0 }, &o, err));
    return cay__oneshot_unpack(o, call, args, in, &sink, err);
}

/* What nobody bounds is bounded by what we unpack at all. */
static int limits_of(const cay_extract *x, cay_archive_limits *out, cay_err *err)
{
    CAY_TRY(cay__spec_take(out, sizeof *out, x->limits, "cay_archive_limits", err));
    out->max_input_bytes = CAY_MIN(CAY_OR(out->max_input_bytes, INPUT_MOST), INPUT_MOST);
    out->max_extracted_bytes = CAY_MIN(CAY_OR(out->max_extracted_bytes, OUTPUT_MOST), OUTPUT_MOST);
    out->max_members = CAY_MIN(CAY_OR(out->max_members, MEMBERS_MOST), MEMBERS_MOST);
    return 0;
}

int cay_sandbox_extract(cay_sandbox *sb, const cay_call *call, const cay_extract *given,
                        cay_extracted *out, cay_err *err)
{
    CAY__OP(call, "file.extract", sb->id, err);
    cay_extract x;
    cay_archive_limits most;
    const char *scheme = NULL;
    CAY_TRY(cay__spec_take(&x, sizeof x, given, "cay_extract", err));
    if (!x.path || !*x.path || strlen(x.path) >= BASE_MAX || x.path[strlen(x.path) - 1] == '/')
        return cay_fail(
            err, CAY_EINVAL,
            "\"%.100s\" names no archive; its members are put into the directory that it is in",
            CAY_OR(x.path, ""));
    CAY_TRY(scheme_of(&x, &scheme, err));
    CAY_TRY(limits_of(&x, &most, err));
    CAY_TRY(cay__remote_none(sb->owner, "extract", err));
    placing p = { .sb = sb, .call = call, .look = true, .err = err };
    const char *slash = strrchr(x.path, '/');
    if (slash)
        CAY_FORMAT(p.base, "%.*s", (int)CAY_MAX(slash - x.path, (ptrdiff_t)1), x.path);
    CAY_AUTOFD in = -1;
    CAY_TRY(spool_archive(sb->owner, call, x.fd, most.max_input_bytes, &in, err));
    __attribute__((cleanup(cay__stage_remove))) cay__fetch_stage stage = { .home = -1, .fd = -1 };
    CAY_TRY(cay__stage_make(sb->owner, &stage, err));
    CAY_TRY(unpack_archive(sb->owner, call, scheme, &most, in, stage.fd, err));
    CAY_TRY(walk_entries(&p, stage.fd));
    p.look = false;
    uint64_t kept = 0;
    if (lseek(in, 0, SEEK_SET) != 0)
        return cay_fail_sys(err, "read the archive again");
    CAY_TRY(upload_file(&p, in, x.path, 0644, &kept));
    CAY_TRY(walk_entries(&p, stage.fd));
    if (out)
        cay__answer_give(out, &p.n, sizeof p.n);
    return 0;
}
