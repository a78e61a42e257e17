/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/provider/native/box_ops.h - the calls of cay_provider_ops on files, watches and ports, for a
 * box that has sessions.
 *
 * CAY__SESSION_OPS(static, name, S): functions name_open_read() and so on; S(box) gives the
 * cay__sessions of it. CAY__SESSION_MEMBERS(name): them as members of the table.
 */
#pragma once
#include "client.h"
#include "session.h"

#define CAY__SESSION_OPS(LINKAGE, PREFIX, S)                                                       \
    LINKAGE int PREFIX##_open_read(void *box, const cay_call *c, const char *p, const cay_read *s, \
                                   int *fd, cay_err *e)                                            \
    {                                                                                              \
        return cay__nf_open_read(S(box), c, p, s, fd, e);                                          \
    }                                                                                              \
    LINKAGE int PREFIX##_put(void *box, const cay_call *c, const char *p, const void *d, size_t n, \
                             const cay_write *s, cay_err *e)                                       \
    {                                                                                              \
        return cay__nf_put(S(box), c, p, d, n, s, e);                                              \
    }                                                                                              \
    LINKAGE int PREFIX##_open_write(void *box, const cay_call *c, const char *p,                   \
                                    const cay_write *s, void **up, int *fd, cay_err *e)            \
    {                                                                                              \
        return cay__nf_open_write(S(box), c, p, s, up, fd, e);                                     \
    }                                                                                              \
    LINKAGE int PREFIX##_stat(void *box, const cay_call *c, const char *p, bool f, cay_stat *o,    \
                              cay_err *e)                                                          \
    {                                                                                              \
        return cay__nf_stat(S(box), c, p, f, o, e);                                                \
    }                                                                                              \
    LINKAGE int PREFIX##_mkdir(void *box, const cay_call *c, const char *p, uint32_t m, bool a,    \
                               cay_err *e)                                                         \
    {                                                                                              \
        return cay__nf_mkdir(S(box), c, p, m, a, e);                                               \
    }                                                                                              \
    LINKAGE int PREFIX##_remove(void *box, const cay_call *c, const char *p, bool r, cay_err *e)   \
    {                                                                                              \
        return cay__nf_remove(S(box), c, p, r, e);                                                 \
    }                                                                                              \
    LINKAGE int PREFIX##_rename(void *box, const cay_call *c, const char *f, const char *t,        \
                                cay_err *e)                                                        \
    {                                                                                              \
        return cay__nf_rename(S(box), c, f, t, e);                                                 \
    }                                                                                              \
    LINKAGE int PREFIX##_chmod(void *box, const cay_call *c, const char *p, uint32_t m,            \
                               cay_err *e)                                                         \
    {                                                                                              \
        return cay__nf_chmod(S(box), c, p, m, e);                                                  \
    }                                                                                              \
    LINKAGE int PREFIX##_chown(void *box, const cay_call *c, const char *p, uint32_t u,            \
                               uint32_t g, cay_err *e)                                             \
    {                                                                                              \
        return cay__nf_chown(S(box), c, p, u, g, e);                                               \
    }                                                                                              \
    LINKAGE int PREFIX##_symlink(void *box, const cay_call *c, const char *t, const char *p,       \
                                 cay_err *e)                                                       \
    {                                                                                              \
        return cay__nf_symlink(S(box), c, t, p, e);                                                \
    }                                                                                              \
    LINKAGE int PREFIX##_getxattr(void *box, const cay_call *c, const char *p, const char *n,      \
                                  void *b, size_t *l, cay_err *e)                                  \
    {                                                                                              \
        return cay__nf_getxattr(S(box), c, p, n, b, l, e);                                         \
    }                                                                                              \
    LINKAGE int PREFIX##_setxattr(void *box, const cay_call *c, const char *p, const char *n,      \
                                  const void *v, size_t l, cay_err *e)                             \
    {                                                                                              \
        return cay__nf_setxattr(S(box), c, p, n, v, l, e);                                         \
    }                                                                                              \
    LINKAGE int PREFIX##_listxattr(void *box, const cay_call *c, const char *p,                    \
                                   int (*fn)(const char *, void *), void *a, cay_err *e)           \
    {                                                                                              \
        return cay__nf_listxattr(S(box), c, p, fn, a, e);                                          \
    }                                                                                              \
    LINKAGE int PREFIX##_list_dir(void *box, const cay_call *c, const char *p, unsigned d,         \
                                  int (*fn)(const cay_dirent *, void *), void *a, cay_err *e)      \
    {                                                                                              \
        return cay__nf_list_dir(S(box), c, p, d, fn, a, e);                                        \
    }                                                                                              \
    LINKAGE int PREFIX##_glob(void *box, const cay_call *c, const char *b, const char *p,          \
                              int (*fn)(const cay_dirent *, void *), void *a, cay_err *e)          \
    {                                                                                              \
        return cay__nf_glob(S(box), c, b, p, fn, a, e);                                            \
    }                                                                                              \
    LINKAGE int PREFIX##_grep(void *box, const cay_call *c, const char *b, const cay_grep *g,      \
                              int (*fn)(const cay_match *, void *), void *a, cay_err *e)           \
    {                                                                                              \
        return cay__nf_grep(S(box), c, b, g, fn, a, e);                                            \
    }                                                                                              \
    LINKAGE int PREFIX##_watch_open(void *box, const cay_call *c, const char *p, bool r, void **w, \
                                    int *fd, cay_err *e)                                           \
    {                                                                                              \
        return cay__nf_watch_open(S(box), c, p, r, w, fd, e);                                      \
    }                                                                                              \
    LINKAGE int PREFIX##_ports(void *box, const cay_call *c, int (*fn)(const cay_port *, void *),  \
                               void *a, cay_err *e)                                                \
    {                                                                                              \
        return cay__nf_ports(S(box), c, fn, a, e);                                                 \
    }

#define CAY__SESSION_MEMBERS(P)                                                                    \
    .open_read = P##_open_read, .put = P##_put, .open_write = P##_open_write,                      \
    .commit_write = cay__nf_commit_write, .abort_write = cay__nf_abort_write, .stat = P##_stat,    \
    .mkdir = P##_mkdir, .remove = P##_remove, .rename = P##_rename, .chmod = P##_chmod,            \
    .chown = P##_chown, .symlink = P##_symlink, .getxattr = P##_getxattr,                          \
    .setxattr = P##_setxattr, .listxattr = P##_listxattr, .list_dir = P##_list_dir,                \
    .glob = P##_glob, .grep = P##_grep, .watch_open = P##_watch_open,                              \
    .watch_next = cay__nf_watch_next, .watch_close = cay__nf_watch_close, .ports = P##_ports
#define CAY__PROC_MEMBERS                                                                          \
    .proc_release = cay__proc_release, .proc_id = cay__proc_id, .proc_output = cay__proc_output,   \
    .proc_write = cay__proc_write, .proc_close_stdin = cay__proc_close_stdin,                      \
    .proc_signal = cay__proc_signal, .proc_wait = cay__proc_wait,                                  \
    .proc_exit_fd = cay__proc_exit_fd, .proc_read = cay__proc_read,                                \
    .proc_read_at = cay__proc_read_at, .proc_breaks = cay__proc_breaks,                            \
    .proc_resize = cay__proc_resize

/* Every process inside, and those that ended and are kept: what the peer of the link holds beside
 * what a worker sees. */
int cay__procs_all(cay__link *link, cay__sessions *sessions, const char *id, const cay_call *call,
                   int (*fn)(const cay_proc_info *, void *), void *arg, cay_err *err);
