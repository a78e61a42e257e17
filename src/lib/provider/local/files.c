/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a local box: asked of workers that cay-local starts below root/. */
#include "local.h"

int cay__local_session(void *arg, const cay_call *call, const char *user, int *sock, cay_err *err)
{
    local_box *b = arg;
    return cay__link_session(&b->link, b->id, call, user, sock, err);
}

/* A process inside is shown the host's paths; given back, they mean the same file. */
static const char *translate_path(const local_box *b, const char *path)
{
    size_t n = strlen(b->path);
    if (strncmp(path, b->path, n) != 0 || (path[n] && path[n] != '/'))
        return path;
    if (path[n])
        return path + n;
    return "/";
}

int cay__local_open_read(void *box, const cay_call *call, const char *path, const cay_read *spec,
                         int *fd, cay_err *err)
{
    local_box *b = box;
    return cay__nf_open_read(&b->sessions, call, translate_path(b, path), spec, fd, err);
}

int cay__local_put(void *box, const cay_call *call, const char *path, const void *data, size_t len,
                   const cay_write *spec, cay_err *err)
{
    local_box *b = box;
    return cay__nf_put(&b->sessions, call, translate_path(b, path), data, len, spec, err);
}

int cay__local_open_write(void *box, const cay_call *call, const char *path, const cay_write *spec,
                          void **up, int *fd, cay_err *err)
{
    local_box *b = box;
    return cay__nf_open_write(&b->sessions, call, translate_path(b, path), spec, up, fd, err);
}

int cay__local_fill(void *box, const cay_call *call, const cay_fill *spec, cay_err *err)
{
    local_box *b = box;
    return cay__nf_fill(&b->sessions, call, spec, err);
}

int cay__local_stat(void *box, const cay_call *call, const char *path, bool follow, cay_stat *out,
                    cay_err *err)
{
    local_box *b = box;
    return cay__nf_stat(&b->sessions, call, translate_path(b, path), follow, out, err);
}

int cay__local_mkdir(void *box, const cay_call *call, const char *path, uint32_t mode, bool parents,
                     cay_err *err)
{
    local_box *b = box;
    return cay__nf_mkdir(&b->sessions, call, translate_path(b, path), mode, parents, err);
}

int cay__local_remove(void *box, const cay_call *call, const char *path, bool recursive,
                      cay_err *err)
{
    local_box *b = box;
    return cay__nf_remove(&b->sessions, call, translate_path(b, path), recursive, err);
}

int cay__local_rename(void *box, const cay_call *call, const char *from, const char *to,
                      cay_err *err)
{
    local_box *b = box;
    return cay__nf_rename(&b->sessions, call, translate_path(b, from), translate_path(b, to), err);
}

int cay__local_chmod(void *box, const cay_call *call, const char *path, uint32_t mode, cay_err *err)
{
    local_box *b = box;
    return cay__nf_chmod(&b->sessions, call, translate_path(b, path), mode, err);
}

int cay__local_chown(void *box, const cay_call *call, const char *path, uint32_t uid, uint32_t gid,
                     cay_err *err)
{
    local_box *b = box;
    return cay__nf_chown(&b->sessions, call, translate_path(b, path), uid, gid, err);
}

int cay__local_symlink(void *box, const cay_call *call, const char *target, const char *path,
                       cay_err *err)
{
    local_box *b = box;
    return cay__nf_symlink(&b->sessions, call, target, translate_path(b, path), err);
}

int cay__local_getxattr(void *box, const cay_call *call, const char *path, const char *name,
                        void *buf, size_t *len, cay_err *err)
{
    local_box *b = box;
    return cay__nf_getxattr(&b->sessions, call, translate_path(b, path), name, buf, len, err);
}

int cay__local_setxattr(void *box, const cay_call *call, const char *path, const char *name,
                        const void *value, size_t len, cay_err *err)
{
    local_box *b = box;
    return cay__nf_setxattr(&b->sessions, call, translate_path(b, path), name, value, len, err);
}

int cay__local_listxattr(void *box, const cay_call *call, const char *path,
                         int (*fn)(const char *, void *), void *arg, cay_err *err)
{
    local_box *b = box;
    return cay__nf_listxattr(&b->sessions, call, translate_path(b, path), fn, arg, err);
}

int cay__local_list_dir(void *box, const cay_call *call, const char *path, unsigned depth,
                        int (*fn)(const cay_dirent *, void *), void *arg, cay_err *err)
{
    local_box *b = box;
    return cay__nf_list_dir(&b->sessions, call, translate_path(b, path), depth, fn, arg, err);
}

int cay__local_glob(void *box, const cay_call *call, const char *base, const char *pattern,
                    int (*fn)(const cay_dirent *, void *), void *arg, cay_err *err)
{
    local_box *b = box;
    return cay__nf_glob(&b->sessions, call, translate_path(b, base), pattern, fn, arg, err);
}

int cay__local_grep(void *box, const cay_call *call, const char *base, const cay_grep *spec,
                    int (*fn)(const cay_match *, void *), void *arg, cay_err *err)
{
    local_box *b = box;
    return cay__nf_grep(&b->sessions, call, translate_path(b, base), spec, fn, arg, err);
}

int cay__local_watch_open(void *box, const cay_call *call, const char *path, bool recursive,
                          void **w, int *fd, cay_err *err)
{
    local_box *b = box;
    return cay__nf_watch_open(&b->sessions, call, translate_path(b, path), recursive, w, fd, err);
}
