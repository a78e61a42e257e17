/* SPDX-License-Identifier: Apache-2.0 */
/* Where a sandbox mounts or writes something of its own, a root filesystem has a directory or
 * nothing: a link there would lead elsewhere, a file cannot be mounted upon. */
#include "template.h"
#include <base/str.h>
#include <fcntl.h>
#include <sys/stat.h>

static const char *const needed[] = { "proc", "dev", "run", "etc", "tmp", "workspace" };

/* What the uppermost layer that has it shows; false: none has. A mark of removal (a character
 * device 0:0) is nothing. */
static bool find_topmost(const cay_client *client, const cay__stack *s, const char *name,
                         mode_t *kind)
{
    struct stat st;
    char path[100];
    for (size_t i = s->n; i-- > 0;) {
        cay__str_join(path, sizeof path, CAY__LAYERS_DIR "/", s->name[i], "/", name, NULL);
        if (fstatat(client->home_fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        *kind = st.st_mode & S_IFMT;
        return !S_ISCHR(st.st_mode);
    }
    return false;
}

int cay__template_root_check(const cay_client *client, const char *base, const char *layers,
                             cay_err *err)
{
    cay__stack s;
    mode_t kind;
    if (strcmp(base, CAY__BASE_IMAGE) != 0)
        return 0;
    CAY_TRY(cay__stack_read(layers, &s, err));
    for (size_t i = 0; i < CAY_LEN(needed); i++)
        if (find_topmost(client, &s, needed[i], &kind) && kind != S_IFDIR)
            return cay_fail_why(err, CAY_EINVAL, "image_root",
                                "its /%s is %s, and a sandbox needs a directory there or nothing: "
                                "make the image with one",
                                needed[i], kind == S_IFLNK ? "a symbolic link" : "no directory");
    return 0;
}
