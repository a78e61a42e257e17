/* SPDX-License-Identifier: Apache-2.0 */
/* A stack as one read-only tree, shown by the kernel in our own mount namespace. */
#include "tool.h"
#include <proto/mnt.h>

/* Covered by a small file system of ours; any directory that every host has will do, since we open
 * nothing below it. */
static const char *const covers[] = { "/tmp", "/var", "/mnt", "/usr" };

static int mount_scratch(tool *t, cay_err *err)
{
    if (t->scratch)
        return 0;
    CAY_EACH(cover, covers) {
        char empty[32];
        size_t n = strlen(*cover);
        if (t->bottom && !strncmp(t->bottom, *cover, n) && (t->bottom[n] == '/' || !t->bottom[n]))
            continue; /* it would be gone */
        if (mount("tmpfs", *cover, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=700,size=1m") <
            0)
            continue;
        CAY_JOIN(empty, *cover, "/empty");
        if (mkdir(empty, 0755) < 0)
            break;
        t->scratch = *cover;
        return 0;
    }
    return cay_fail_sys(err, "mount a small file system");
}

/* By mount(2): its options fit one page, where fsconfig(2) takes 256 bytes a string. Names are
 * relative to layers/. */
static int mount_overlay(tool *t, const char *options, int *fd)
{
    char at[32], n[21];
    CAY_JOIN(at, t->scratch, "/v", cay__str_u64(n, t->views++));
    if (mkdir(at, 0755) < 0 || fchdir(t->layers) < 0)
        return -1;
    int rc = mount("overlay", at, "overlay", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, options),
        e = errno;
    if (fchdir(t->home) < 0)
        return -1;
    errno = e;
    if (rc < 0)
        *fd = -1;
    else
        *fd = open(at, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*fd < 0)
        return -1;
    return 0;
}

/* A directory of the host, whose name may have what separates options and layers. */
static bool add_escaped(char *to, size_t cap, size_t *len, const char *path)
{
    for (; *path && *len + 4 < cap; path++) {
        if (strchr(":,\\", *path))
            to[(*len)++] = '\\';
        to[(*len)++] = *path;
    }
    to[(*len)++] = ':';
    to[*len] = 0;
    return !*path;
}

/* A directory that the caller opened, as it is in our mount namespace: only what is of that may be
 * shown. */
int stack_host_dir(int given, int *fd, cay_err *err)
{
    char link[64], path[4096], n[21];
    struct stat want, have;
    CAY_JOIN(link, "/proc/self/fd/", cay__str_u64(n, (uint64_t)given));
    ssize_t len = readlink(link, path, sizeof path - 1);
    path[CAY_MAX(len, 0)] = 0;
    CAY_AUTOFD at = -1;
    if (len > 0)
        at = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (at < 0 || fstat(given, &want) < 0 || fstat(at, &have) < 0)
        return cay_fail_sys(err, "open the directory underneath");
    if (want.st_dev != have.st_dev || want.st_ino != have.st_ino)
        return cay_fail(err, CAY_EBUSY, "%.150s was moved just now; try again", path);
    *fd = CAY_STEAL_FD(at);
    return 0;
}

int stack_cover(tool *t, int view, const char *name, const char *layer, int dir, cay_err *err)
{
    char options[256], to[64], n[21];
    CAY_AUTOFD there = -1, shown = -1;
    CAY_TRY(tool_layer_open(t, layer, &there, err));
    CAY_TRY(mount_scratch(t, err));
    CAY_AUTOFD at = openat(view, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (at < 0)
        return cay_fail_sys(err, "enter /%s", name);
    CAY_JOIN(options, t->root ? "redirect_dir=nofollow" : "userxattr,redirect_dir=nofollow",
             ",index=off,metacopy=off,lowerdir=", layer, "/upper:/proc/self/fd/",
             cay__str_u64(n, (uint64_t)dir));
    CAY_TRY_SYS(mount_overlay(t, options, &shown), err, "show what is above the directory");
    CAY_JOIN(to, "/proc/self/fd/", cay__str_u64(n, (uint64_t)at));
    char from[32];
    CAY_JOIN(from, t->scratch, "/v", cay__str_u64(n, t->views - 1));
    CAY_TRY_SYS(mount(from, to, NULL, MS_BIND, NULL), err, "show /%s", name);
    return 0;
}

int stack_open(tool *t, const char *const *layers, size_t n, int *fd, cay_err *err)
{
    char options[4096];
    if (n == 0 && !t->bottom)
        return cay_fail(err, CAY_EINVAL, "a stack without layers");
    if (n > TOOL_STACK_MAX)
        return cay_fail(err, CAY_ETOOBIG, "a stack of %zu layers; %d are the most", n,
                        TOOL_STACK_MAX);
    CAY_EACH_OF(layer, layers, n) {
        CAY_AUTOFD there = -1;
        CAY_TRY(tool_layer_open(t, *layer, &there, err));
    }
    CAY_TRY(mount_scratch(t, err));
    bool fits =
        CAY_JOIN(options, t->root ? "redirect_dir=follow" : "userxattr,redirect_dir=nofollow",
                 ",index=off,metacopy=off,lowerdir=");
    size_t len = strlen(options);
    for (size_t i = n; fits && i-- > 0;) {
        fits = cay__str_join(options + len, sizeof options - len, layers[i], ":", NULL);
        len += strlen(options + len);
    }
    fits = fits && (!t->bottom || add_escaped(options, sizeof options, &len, t->bottom));
    /* Nothing at the bottom: an overlay without an upper wants two layers. */
    if (!fits || !cay__str_join(options + len, sizeof options - len, t->scratch, "/empty", NULL))
        return cay_fail(err, CAY_ETOOBIG, "the names of %zu layers are too long", n);
    CAY_TRY_SYS(mount_overlay(t, options, fd), err, "show a stack of %zu layers", n);
    return 0;
}
