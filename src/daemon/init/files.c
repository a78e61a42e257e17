/* SPDX-License-Identifier: Apache-2.0 */
/* File operations that are one question and one answer, or a list. */
#include "session_ops.h"
#include <base/base.h>
#include <base/mutant.h>

static cay_ses_stat wire_stat(const struct stat *st)
{
    return (cay_ses_stat){
        .size = (uint64_t)st->st_size,
        .inode = st->st_ino,
        .mtime_ns = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec,
        .mode = st->st_mode,
        .uid = st->st_uid,
        .gid = st->st_gid,
        .nlink = (uint32_t)st->st_nlink,
    };
}

enum { TARGET_MAX = 4095 }; /* the kernel's own limit: none is cut */

int cay__ses_stat(cay__ses *s)
{
    struct stat st;
    char target[TARGET_MAX + 1];
    if (cay__fs_stat(&s->fs, s->path, s->req->flags & CAY_SES_FOLLOW, &st, target, sizeof target) <
        0)
        return -1;
    cay_ses_stat w = wire_stat(&st);
    w.target = (uint16_t)strlen(target);
    return cay__ses_record(s, (cay__ses_part[]){ { &w, sizeof w }, { target, w.target } }, 2);
}

static int send_entry(const cay__fs_entry *e, void *arg)
{
    cay__ses *s = arg;
    char target[TARGET_MAX];
    cay_ses_stat w = wire_stat(e->st);
    size_t n = strlen(e->path);
    ssize_t t = 0;
    if (S_ISLNK(e->st->st_mode))
        t = readlinkat(e->dir, e->name, target, sizeof target);
    if (n > UINT16_MAX) {
        errno = E2BIG;
        return -1;
    }
    w.path = (uint16_t)n;
    w.target = (uint16_t)(t > 0 ? t : 0);
    return cay__ses_record(
        s, (cay__ses_part[]){ { &w, sizeof w }, { e->path, n }, { target, w.target } }, 3);
}

int cay__ses_list(cay__ses *s)
{
    if (s->req->a > UINT32_MAX) {
        errno = EINVAL;
        return -1;
    }
    return cay__fs_walk_path(
        &s->fs, s->path,
        &(cay__fs_walk){ .fn = send_entry, .arg = s, .depth = (unsigned)s->req->a });
}

int cay__ses_glob(cay__ses *s)
{
    return cay__fs_glob(&s->fs, s->path, s->second, send_entry, s);
}

static int send_line(const cay__fs_line *l, void *arg)
{
    size_t n = strlen(l->path);
    if (n > UINT16_MAX) {
        errno = E2BIG;
        return -1;
    }
    cay_ses_line w = {
        .line = l->line, .column = l->column, .path = (uint16_t)n, .text = (uint16_t)l->len
    };
    return cay__ses_record(
        arg, (cay__ses_part[]){ { &w, sizeof w }, { l->path, n }, { l->text, l->len } }, 3);
}

int cay__ses_grep(cay__ses *s)
{
    char include[256] = "";
    if ((s->req->data >= sizeof include && !CAY__MUTANT("fuzz-session_request")) ||
        memchr(s->data, 0, s->req->data)) {
        errno = EINVAL;
        return -1;
    }
    memcpy(include, s->data, s->req->data);
    include[s->req->data] = 0;
    cay__fs_grep_spec spec = {
        .pattern = s->second,
        .plain = s->req->flags & CAY_SES_PLAIN,
        .ignore_case = s->req->flags & CAY_SES_NOCASE,
        .include = include[0] ? include : NULL,
        .max = s->req->a,
    };
    return cay__fs_grep(&s->fs, s->path, &spec, send_line, s);
}

static bool mode_of(const cay__ses *s, uint32_t *mode)
{
    *mode = (uint32_t)s->req->a;
    errno = EINVAL;
    return s->req->a <= 07777;
}

int cay__ses_mkdir(cay__ses *s)
{
    uint32_t mode;
    if (mode_of(s, &mode))
        return cay__fs_mkdir(&s->fs, s->path, mode, s->req->flags & CAY_SES_PARENTS);
    return -1;
}

int cay__ses_remove(cay__ses *s)
{
    return cay__fs_remove(&s->fs, s->path, s->req->flags & CAY_SES_RECURSIVE);
}

int cay__ses_rename(cay__ses *s)
{
    return cay__fs_rename(&s->fs, s->path, s->second);
}

int cay__ses_chmod(cay__ses *s)
{
    uint32_t mode;
    if (mode_of(s, &mode))
        return cay__fs_chmod(&s->fs, s->path, mode);
    return -1;
}

int cay__ses_chown(cay__ses *s)
{
    if (s->req->a > UINT32_MAX || s->req->b > UINT32_MAX) {
        errno = EINVAL;
        return -1;
    }
    return cay__fs_chown(&s->fs, s->path, (uint32_t)s->req->a, (uint32_t)s->req->b);
}

int cay__ses_symlink(cay__ses *s)
{
    return cay__fs_symlink(&s->fs, s->second, s->path);
}

int cay__ses_getxattr(cay__ses *s)
{
    size_t room = CAY_SES_MAX - sizeof(cay_ses_rep);
    int n = cay__fs_getxattr(&s->fs, s->path, s->second, s->out + sizeof(cay_ses_rep), room);
    if (n < 0)
        return -1;
    s->len = (uint32_t)n;
    return 0;
}

int cay__ses_setxattr(cay__ses *s)
{
    bool drop = s->req->flags & CAY_SES_DROP;
    return cay__fs_setxattr(&s->fs, s->path, s->second, drop ? NULL : s->data, s->req->data);
}

static int send_name(const char *name, void *arg)
{
    cay_ses_name w = { (uint16_t)strlen(name) };
    return cay__ses_record(arg, (cay__ses_part[]){ { &w, sizeof w }, { name, w.len } }, 2);
}

int cay__ses_listxattr(cay__ses *s)
{
    return cay__fs_listxattr(&s->fs, s->path, send_name, s);
}

static bool write_of(const cay__ses *s, cay__fs_write *w)
{
    w->parents = s->req->flags & CAY_SES_PARENTS;
    w->append = s->req->flags & CAY_SES_APPEND;
    w->exclusive = s->req->flags & CAY_SES_EXCLUSIVE;
    return mode_of(s, &w->mode);
}

int cay__ses_put(cay__ses *s)
{
    cay__fs_write w;
    if (write_of(s, &w))
        return cay__fs_put(&s->fs, s->path, s->data, s->req->data, &w);
    return -1;
}

int cay__ses_upload(cay__ses *s)
{
    cay__fs_write w;
    cay__fs_upload up;
    if (!write_of(s, &w) || cay__ses_is_pipe(s->fd) < 0 ||
        cay__fs_put_open(&s->fs, s->path, &w, &up) < 0)
        return -1;
    if (cay__ses_answer(s, 0, -1) < 0) {
        cay__fs_put_abort(&up);
        return CAY__SES_END;
    }
    return cay__ses_receive(s, &up);
}
