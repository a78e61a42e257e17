/* SPDX-License-Identifier: Apache-2.0 */
/* File calls held to the fence of their call, by the path after links were looked through. Commands
 * are held to it by the kernel. */
#include "sandbox.h"
#include <base/path.h>
#include <linux/limits.h>

enum { LINKS = 40 };

const cay_fence *cay__fence_of(const cay_call *call)
{
    if (call && call->size > offsetof(cay_call, fence))
        return call->fence;
    return NULL;
}

/* Every link on the way, and the last one where the call would follow it, is replaced by where it
 * leads. */
static int look_through(cay_sandbox *sb, const cay_call *call, char *path, cay_err *err)
{
    char part[PATH_MAX], next[2 * PATH_MAX];
    unsigned links = 0;
    for (size_t at = 1; sb->ops->stat && path[at - 1] && path[at];) {
        size_t end = at + strcspn(path + at, "/");
        cay_stat st = { .size_of = sizeof st };
        CAY_FORMAT(part, "%.*s", (int)end, path);
        int rc = sb->ops->stat(sb->box, call, part, false, &st, err);
        if (rc == CAY_ENOENT)
            return 0;
        CAY_TRY(rc);
        if (st.type == CAY_LINK) {
            if (++links > LINKS || strlen(st.target) >= sizeof st.target - 1)
                return cay_fail_why(err, CAY_EPERM, "fence",
                                    "%.200s: its links cannot be followed to their end", path);
            *strrchr(part, '/') = 0;
            CAY_FORMAT(next, "%s%s", st.target, path + end);
            if (!cay__path_clean(part, next, path, PATH_MAX))
                return cay_fail_why(err, CAY_EPERM, "fence",
                                    "%.200s: its links lead to too long a path", path);
            at = 1;
            continue;
        }
        if (path[end])
            at = end + 1;
        else
            at = end;
        if (!path[end])
            return 0;
    }
    return 0;
}

static bool is_within_list(const char *const *list, const char *path)
{
    for (; list && *list; list++) {
        size_t n = strlen(*list);
        while (n > 1 && (*list)[n - 1] == '/')
            n--;
        if ((n == 1 && **list == '/') || (!strncmp(path, *list, n) && (!path[n] || path[n] == '/')))
            return true;
    }
    return false;
}

int cay__fence_path(cay_sandbox *sb, const cay_call *call, const char *path, bool write,
                    cay_err *err)
{
    const cay_fence *f = cay__fence_of(call);
    char whole[PATH_MAX];
    if (!f || !(write ? f->write : f->read))
        return 0;
    if (!cay__path_clean(CAY_OR(f->workdir, "/workspace"), path, whole, sizeof whole))
        return cay_fail_why(err, CAY_EPERM, "fence", "%.200s: too long a path", path);
    CAY_TRY(look_through(sb, call, whole, err));
    if (is_within_list(f->write, whole) || (!write && is_within_list(f->read, whole)))
        return 0;
    return cay_fail_why(err, CAY_EPERM, "fence",
                        "%.150s may not be %s here: it is not among the paths that are allowed",
                        path, write ? "written" : "read");
}

int cay__fence_spawn(const cay_sandbox *sb, const cay_call *call, cay_spawn *s, cay_err *err)
{
    if (!s->fence)
        s->fence = cay__fence_of(call);
    if (!s->fence)
        return 0;
    const char *const *const lists[] = { s->fence->read, s->fence->write, s->fence->exec };
    size_t n = 0;
    CAY_EACH(list, lists)
        for (const char *const *p = *list; p && *p; p++)
            if (**p != '/' || strlen(*p) >= PATH_MAX || ++n > CAY_FENCE_MAX)
                return cay_fail_why(err, CAY_EINVAL, "fence_invalid",
                                    "fence path \"%.100s\": want absolute paths, at most %d", *p,
                                    CAY_FENCE_MAX);
    if (!CAY__HAS(sb->ops, fences))
        return cay_fail_why(err, CAY_ENOTSUP, "fence_unsupported",
                            "provider %s cannot hold a command to lists of paths: the kernel has "
                            "to, in a native sandbox",
                            sb->ops->name);
    return 0;
}
