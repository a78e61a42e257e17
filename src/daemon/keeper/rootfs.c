/* SPDX-License-Identifier: Apache-2.0 */
/* The directories that roots are made of; zygotes make the roots (root.c). */
#include "keeper.h"

/* For the sandbox's ordinary user. */
static int make_dir(int at, const char *name)
{
    uid_t owner = 0;
    if (keeper.mode != CAY_MODE_SINGLE)
        owner = 1000 + (keeper.mode == CAY_MODE_ROOT ? STORE_BASE : 0);
    if (mkdirat(at, name, 0755) < 0) {
        if (errno == EEXIST)
            return 0;
        return -1;
    }
    return fchownat(at, name, owner, owner, AT_SYMLINK_NOFOLLOW);
}

/* Ids of a sandbox have to pass, whoever made them before us and under which umask. The group of a
 * server that is not root may look (helper/root_helper/trees.c). */
static bool make_passable(const char *name)
{
    struct stat st;
    return fstatat(keeper.home_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           fchmodat(keeper.home_fd, name,
                    0711 | (keeper.mode == CAY_MODE_ROOT && st.st_gid ? 0040 : 0), 0) == 0;
}

int rootfs_open(void)
{
    if ((mkdirat(keeper.home_fd, "sandboxes", 0711) < 0 && errno != EEXIST) ||
        (mkdirat(keeper.home_fd, "layers", 0711) < 0 && errno != EEXIST))
        return -1;
    CAY_AUTOFD mark = openat(keeper.home_fd, CAY_HOME_MARK, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (mark < 0 && mknodat(keeper.home_fd, CAY_HOME_MARK, S_IFREG | 0400, 0) < 0)
        return -1;
    if (!make_passable("sandboxes") || !make_passable("layers"))
        return -1;
    if (keeper.layer[0])
        return rootfs_seal(keeper.layer);
    return 0;
}

/* What needs an owner that only exists in our user namespace is put into a layer of template host
 * here: into the default one as we start, into another when a host that changed meanwhile has
 * brought it. */
int rootfs_seal(const char *layer)
{
    char path[128];
    if (keeper.mode ==
        CAY_MODE_ROOT) /* they are made with the layer (lib/provider/native/layer.c) */
        return 0;
    CAY_JOIN(path, "layers/", layer);
    CAY_AUTOFD at = openat(keeper.home_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (at < 0)
        return -1;
    if (make_dir(at, "workspace") < 0)
        return -1;
    CAY_AUTOFD home = openat(at, "home", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (home < 0)
        return -1;
    return make_dir(home, "user");
}
