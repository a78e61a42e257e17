/* SPDX-License-Identifier: Apache-2.0 */
/* Archives are read by tar(1) in a sandbox of their own, which has no network and nothing to lose.
 */
#include "build.h"

void cay__builder_throw(cay__builder *b, cay_sandbox *sb)
{
    if (!sb)
        return;
    cay_sandbox_remove(sb, NULL, NULL); /* whatever became of the call */
    cay_sandbox_unref(sb);
}

static int upload_archive(cay_sandbox *sb, const cay_call *call, int fd, cay_err *err)
{
    cay_upload *up = NULL;
    CAY_AUTOFREE char *buf = cay__alloc(65536);
    CAY_TRY(cay_file_open_write(sb, call, "/tmp/archive",
                                &(cay_write){ .size = sizeof(cay_write), .mode = 0600 }, &up, err));
    lseek(fd, 0, SEEK_SET); /* a pipe is at its start anyway */
    for (ssize_t n; (n = read(fd, buf, 65536)) != 0;) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 || !cay__fd_write_all(cay_upload_fd(up), buf, (size_t)n)) {
            int rc = cay_fail_sys(err, "give the archive to the sandbox that reads it");
            cay_upload_abort(up);
            return rc;
        }
    }
    return cay_upload_commit(up, call, err);
}

static int extract_archive(cay__builder *b, cay_sandbox *sb, int fd, bool owners, cay_err *err)
{
    static const char script[] = "mkdir /tmp/tree && tar -x -f /tmp/archive -C /tmp/tree -p "
                                 "--numeric-owner \"$1\" --warning=no-timestamp && rm /tmp/archive";
    const char *argv[] = {
        "/bin/sh", "-c", script, "sh", owners ? "--same-owner" : "--no-same-owner", NULL
    };
    cay_result res = { .size = sizeof res };
    cay_spawn s = { .size = sizeof s, .argv = argv, .cwd = "/", .user = "root", .profile = "root" };
    CAY_TRY(upload_archive(sb, &b->call, fd, err));
    CAY_TRY(cay_sandbox_run(sb, &b->call, &s, NULL, 0, 4096, &res, err));
    int rc = 0;
    if (res.exit.code) {
        CAY_AUTOBUF why = CAY__BUF(1024);
        cay__buf_safe(&why, CAY_OR(res.errout, ""),
                      CAY_MIN(strcspn(CAY_OR(res.errout, ""), "\n"), (size_t)120), false);
        rc = cay_fail_why(err, CAY_EINVAL, "build_archive", "the archive cannot be unpacked: %s",
                          CAY_OR(why.data, "tar failed"));
    }
    cay_result_clear(&res);
    return rc;
}

int cay__unpack(cay__builder *b, int fd, const char *hash, bool owners, const cay__opened **out,
                cay_err *err)
{
    cay_sandbox *sb = NULL;
    const cay_pair labels[] = { { CAY__BUILD_LABEL, b->who }, { NULL, NULL } };
    for (const cay__opened *o = b->opened; o; o = o->next)
        if (hash && !strcmp(o->hash, hash)) {
            *out = o;
            return 0;
        }
    cay_create c = { .size = sizeof c,
                     .from.template_ = CAY__BUILD_HOST,
                     .process.user = "root",
                     .labels = labels,
                     .tenant = b->spec->tenant,
                     .limits = b->spec->limits };
    CAY_TRY(cay_client_create(b->client, &b->call, &c, &sb, err));
    cay__opened *o = cay__arena_take(&b->mem, sizeof *o);
    int rc = extract_archive(b, sb, fd, owners, err);
    if (rc == 0)
        rc = cay__tree_box(&o->tree, sb, "/tmp/tree", NULL, 0, &b->call, err);
    if (rc < 0) {
        cay__builder_throw(b, sb);
        return rc;
    }
    CAY_COPY(o->hash, CAY_OR(hash, ""));
    o->sb = sb;
    o->next = b->opened;
    b->opened = o;
    *out = o;
    return 0;
}
