/* SPDX-License-Identifier: Apache-2.0 */
/* A file and what stat(2) tells of it are two questions, and another file may be put in its place
 * between them: then the bytes of one would go out under the length of the other. */
#include "server.h"
#include <base/base.h>

int cay__file_again(cay_sandbox *sb, const cay_call *call, const char *path, const cay_stat *st,
                    int nth, cay_err *err)
{
    cay_stat now = { .size_of = sizeof now };
    CAY_TRY(cay_file_stat(sb, call, path, true, &now, err));
    bool same = now.inode == st->inode;
    if (same && now.mtime_ns == st->mtime_ns && now.size == st->size)
        return 0;
    if (nth < CAY__FILE_TRIES)
        return 1;
    if (same)
        return 0;
    return cay_fail_why(err, CAY_EBUSY, "file_changing",
                        "%.200s: another file is put in its place again and again; try again",
                        path);
}

int cay__file_open(cay__req *r, cay_sandbox *sb, const char *path, const char *user, cay_stat *st,
                   int *fd, cay_err *err)
{
    for (int i = 1;; i++) {
        const cay_read spec = { .size = sizeof spec, .user = user, .length = st->size };
        CAY_AUTOFD got = -1;
        CAY_TRY(cay_file_open_read(sb, &r->call, path, &spec, &got, err));
        int rc = cay__file_again(sb, &r->call, path, st, i, err);
        if (rc == 0)
            *fd = CAY_STEAL_FD(got);
        if (rc != 1)
            return rc;
        CAY_TRY(cay_file_stat(sb, &r->call, path, true, st, err));
    }
}
