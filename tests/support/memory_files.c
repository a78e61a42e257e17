/* SPDX-License-Identifier: Apache-2.0 */
#include "memory.h"
#include <base/fd.h>
#include <base/str.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* "/workspace/a/../b" → "/workspace/b"; ".." at the top stays there. */
static void absolute(const char *path, char out[PATH_MAX])
{
    char in[2 * PATH_MAX];
    size_t n = 0;
    snprintf(in, sizeof in, "%s%s", path[0] == '/' ? "" : "/workspace/", path);
    char *save = NULL;
    for (char *part = strtok_r(in, "/", &save); part; part = strtok_r(NULL, "/", &save)) {
        if (strcmp(part, ".") == 0)
            continue;
        if (strcmp(part, "..") == 0) {
            while (n > 0 && out[--n] != '/')
                continue;
            continue;
        }
        n += (size_t)snprintf(out + n, PATH_MAX - n, "/%s", part);
        if (n >= PATH_MAX)
            n = PATH_MAX - 1;
    }
    out[n] = 0;
    if (n == 0)
        strncpy(out, "/", 2);
}

static mfile *exact(mbox *b, const char *abs)
{
    for (mfile *f = b->files; f; f = f->next)
        if (strcmp(f->path, abs) == 0)
            return f;
    return NULL;
}

static mfile *follow(mbox *b, mfile *f)
{
    for (int i = 0; f && f->type == CAY_LINK; i++) {
        char to[2 * PATH_MAX], abs[PATH_MAX], dir[PATH_MAX];
        if (i > 8)
            return NULL;
        snprintf(dir, sizeof dir, "%s", f->path);
        *strrchr(dir, '/') = 0;
        snprintf(to, sizeof to, "%s/%s", f->data[0] == '/' ? "" : dir, f->data);
        absolute(to, abs);
        f = exact(b, abs);
    }
    return f;
}

mfile *memory_file_find(mbox *b, const char *path)
{
    char abs[PATH_MAX];
    absolute(path, abs);
    return follow(b, exact(b, abs));
}

static int64_t now_ns(void)
{
    return cay__clock_ms() * 1000000;
}

static mfile *add(mbox *b, const char *abs, char type, uint32_t mode)
{
    mfile *f = cay__alloc(sizeof *f), **at = &b->files;
    *f = (mfile){ .path = cay__strdup(abs),
                  .type = type,
                  .mode = mode,
                  .data = cay__strdup(""),
                  .mtime_ns = now_ns() };
    while (*at && strcmp((*at)->path, abs) < 0)
        at = &(*at)->next;
    f->next = *at;
    *at = f;
    return f;
}

static void drop(mbox *b, mfile *f)
{
    mfile **at = &b->files;
    while (*at != f)
        at = &(*at)->next;
    *at = f->next;
    free(f->path);
    free(f->data);
    free(f);
}

void memory_files_init(mbox *b)
{
    add(b, "/", CAY_DIR, 0755);
    add(b, "/workspace", CAY_DIR, 0755);
    add(b, "/home", CAY_DIR, 0755);
}

void memory_files_free(mbox *b)
{
    while (b->files)
        drop(b, b->files);
}

mfile *memory_files_copy(const mfile *files)
{
    mfile *all = NULL, **at = &all;
    for (; files; files = files->next, at = &(*at)->next) {
        mfile *f = cay__alloc(sizeof *f);
        *f = *files;
        f->path = cay__strdup(files->path);
        f->data = cay__alloc(files->len + 1);
        memcpy(f->data, files->data, files->len);
        f->next = NULL;
        *at = f;
    }
    return all;
}

void memory_files_drop(mfile *files)
{
    for (mfile *next; files; files = next) {
        next = files->next;
        free(files->path);
        free(files->data);
        free(files);
    }
}

static int refused(cay_err *err, const char *path, int sys)
{
    errno = sys;
    return cay_fail_sys(err, "%s", path);
}

/* The directory above must be one; with parents it is made. */
static int check_parent(mbox *b, const char *abs, bool parents, cay_err *err)
{
    char dir[PATH_MAX];
    const char *name = strrchr(abs, '/') + 1;
    if (strlen(name) > NAME_MAX)
        return refused(err, abs, ENAMETOOLONG);
    snprintf(dir, sizeof dir, "%s", abs);
    *strrchr(dir, '/') = 0;
    mfile *d = exact(b, dir[0] ? dir : "/");
    if (d && d->type != CAY_DIR)
        return refused(err, abs, ENOTDIR);
    if (d)
        return 0;
    if (!parents)
        return refused(err, abs, ENOENT);
    CAY_TRY(check_parent(b, dir, true, err));
    add(b, dir, CAY_DIR, 0755);
    return 0;
}

static bool has_file_above(mbox *b, const char *abs)
{
    for (mfile *f = b->files; f; f = f->next)
        if (f->type == CAY_FILE && cay__str_starts(abs, f->path) && abs[strlen(f->path)] == '/')
            return true;
    return false;
}

static int want(mbox *b, const char *path, bool following, mfile **out, cay_err *err)
{
    char abs[PATH_MAX];
    absolute(path, abs);
    mfile *f = exact(b, abs);
    if (following)
        f = follow(b, f);
    if (!f)
        return refused(err, path, has_file_above(b, abs) ? ENOTDIR : ENOENT);
    *out = f;
    return 0;
}

#define LOCKED(b, body)                                                                            \
    ({                                                                                             \
        pthread_mutex_lock(&memory_lock);                                                          \
        int locked_ = (body);                                                                      \
        pthread_mutex_unlock(&memory_lock);                                                        \
        locked_;                                                                                   \
    })

static int read_it(mbox *b, const char *path, const cay_read *r, int *fd, cay_err *err)
{
    mfile *f;
    CAY_TRY(want(b, path, true, &f, err));
    if (f->type != CAY_FILE)
        return refused(err, path, EISDIR);
    size_t from = CAY_MIN((size_t)r->offset, f->len), n = f->len - from;
    if (r->length)
        n = CAY_MIN(n, (size_t)r->length);
    CAY_AUTOFD m = memfd_create("memory", MFD_CLOEXEC);
    if (m < 0 || !cay__fd_write_all(m, f->data + from, n) || lseek(m, 0, SEEK_SET) < 0)
        return cay_fail_sys(err, "memfd");
    *fd = CAY_STEAL_FD(m);
    return 0;
}

int memory_open_read(void *box, const cay_call *call, const char *path, const cay_read *spec,
                     int *fd, cay_err *err)
{
    (void)call;
    return LOCKED(box, read_it(box, path, spec, fd, err));
}

static int put_it(mbox *b, const char *path, const void *data, size_t len, const cay_write *w,
                  cay_err *err)
{
    char abs[PATH_MAX];
    absolute(path, abs);
    mfile *f = follow(b, exact(b, abs));
    if (f && f->type != CAY_FILE)
        return refused(err, path, EISDIR);
    if (f && w->exclusive)
        return refused(err, path, EEXIST);
    if (!f) {
        CAY_TRY(check_parent(b, abs, w->parents, err));
        f = add(b, abs, CAY_FILE, w->mode ? w->mode : 0644);
    } else if (w->mode) {
        f->mode = w->mode;
    }
    size_t old = w->append ? f->len : 0;
    char *fresh = cay__alloc(old + len + 1);
    memcpy(fresh, f->data, old);
    if (len)
        memcpy(fresh + old, data, len);
    free(f->data);
    f->data = fresh;
    f->len = old + len;
    f->mtime_ns = now_ns();
    return 0;
}

int memory_put(void *box, const cay_call *call, const char *path, const void *data, size_t len,
               const cay_write *spec, cay_err *err)
{
    (void)call;
    return LOCKED(box, put_it(box, path, data, len, spec, err));
}

typedef struct upload {
    mbox *b;
    char path[PATH_MAX];
    cay_write spec;
    int fd;
} upload;

int memory_open_write(void *box, const cay_call *call, const char *path, const cay_write *spec,
                      void **up, int *fd, cay_err *err)
{
    (void)call;
    char abs[PATH_MAX];
    absolute(path, abs);
    CAY_TRY(LOCKED(box, check_parent(box, abs, spec->parents, err)));
    upload *u = cay__alloc(sizeof *u);
    *u = (upload){ .b = box, .spec = *spec, .fd = memfd_create("upload", MFD_CLOEXEC) };
    snprintf(u->path, sizeof u->path, "%s", path);
    *up = u;
    *fd = u->fd;
    return 0;
}

int memory_commit_write(void *up, const cay_call *call, cay_err *err)
{
    upload *u = up;
    struct stat st;
    int rc = cay_fail(err, CAY_ESYS, "upload");
    if (fstat(u->fd, &st) == 0) {
        CAY_AUTOFREE char *data = cay__alloc((size_t)st.st_size);
        if (pread(u->fd, data, (size_t)st.st_size, 0) == st.st_size)
            rc = memory_put(u->b, call, u->path, data, (size_t)st.st_size, &u->spec, err);
    }
    memory_abort_write(u);
    return rc;
}

void memory_abort_write(void *up)
{
    upload *u = up;
    close(u->fd);
    free(u);
}

static void describe(const mfile *f, cay_stat *out)
{
    *out = (cay_stat){ .size_of = sizeof *out,
                       .type = (cay_file_type)f->type,
                       .mode = f->mode,
                       .size = f->len,
                       .nlink = 1,
                       .inode = (uint64_t)(uintptr_t)f,
                       .mtime_ns = f->mtime_ns };
    if (f->type == CAY_LINK)
        cay__str_copy(out->target, sizeof out->target, f->data);
}

static int stat_it(mbox *b, const char *path, bool following, cay_stat *out, cay_err *err)
{
    mfile *f;
    CAY_TRY(want(b, path, following, &f, err));
    describe(f, out);
    return 0;
}

int memory_stat(void *box, const cay_call *call, const char *path, bool following, cay_stat *out,
                cay_err *err)
{
    (void)call;
    return LOCKED(box, stat_it(box, path, following, out, err));
}

static int make_it(mbox *b, const char *path, char type, uint32_t mode, const char *target,
                   bool parents, cay_err *err)
{
    char abs[PATH_MAX];
    absolute(path, abs);
    mfile *f = exact(b, abs);
    if (f && (type != CAY_DIR || !parents || f->type != CAY_DIR))
        return refused(err, path, EEXIST);
    if (f)
        return 0;
    CAY_TRY(check_parent(b, abs, parents, err));
    f = add(b, abs, type, mode);
    if (target) {
        free(f->data);
        f->data = cay__strdup(target);
        f->len = strlen(target);
    }
    return 0;
}

int memory_mkdir(void *box, const cay_call *call, const char *path, uint32_t mode, bool parents,
                 cay_err *err)
{
    (void)call;
    return LOCKED(box, make_it(box, path, CAY_DIR, mode ? mode : 0755, NULL, parents, err));
}

int memory_symlink(void *box, const cay_call *call, const char *target, const char *path,
                   cay_err *err)
{
    (void)call;
    return LOCKED(box, make_it(box, path, CAY_LINK, 0777, target, false, err));
}

static bool below(const mfile *f, const char *dir)
{
    size_t n = strlen(dir);
    return strncmp(f->path, dir, n) == 0 && (f->path[n] == '/' || (n == 1 && f->path[1]));
}

static int remove_it(mbox *b, const char *path, bool recursive, cay_err *err)
{
    mfile *f;
    CAY_TRY(want(b, path, false, &f, err));
    CAY_AUTOFREE char *dir = cay__strdup(f->path);
    for (mfile *k = b->files, *next; k; k = next) {
        next = k->next;
        if (!below(k, dir))
            continue;
        if (!recursive)
            return refused(err, path, ENOTEMPTY);
        drop(b, k);
    }
    drop(b, f);
    return 0;
}

int memory_remove(void *box, const cay_call *call, const char *path, bool recursive, cay_err *err)
{
    (void)call;
    return LOCKED(box, remove_it(box, path, recursive, err));
}

static int rename_it(mbox *b, const char *from, const char *to, cay_err *err)
{
    char abs[PATH_MAX];
    mfile *f;
    CAY_TRY(want(b, from, false, &f, err));
    absolute(to, abs);
    CAY_TRY(check_parent(b, abs, false, err));
    mfile *old = exact(b, abs);
    if (old && old != f)
        drop(b, old);
    CAY_AUTOFREE char *was = cay__strdup(f->path);
    for (mfile *k = b->files; k; k = k->next) {
        char fresh[2 * PATH_MAX];
        if (k != f && !below(k, was))
            continue;
        snprintf(fresh, sizeof fresh, "%s%s", abs, k->path + strlen(was));
        free(k->path);
        k->path = cay__strdup(fresh);
    }
    return 0;
}

int memory_rename(void *box, const cay_call *call, const char *from, const char *to, cay_err *err)
{
    (void)call;
    return LOCKED(box, rename_it(box, from, to, err));
}

static int chmod_it(mbox *b, const char *path, uint32_t mode, cay_err *err)
{
    mfile *f;
    CAY_TRY(want(b, path, true, &f, err));
    f->mode = mode;
    return 0;
}

int memory_chmod(void *box, const cay_call *call, const char *path, uint32_t mode, cay_err *err)
{
    (void)call;
    return LOCKED(box, chmod_it(box, path, mode, err));
}

static int list_it(mbox *b, const char *path, unsigned depth, int (*fn)(const cay_dirent *, void *),
                   void *arg, cay_err *err)
{
    mfile *d;
    int rc = 0;
    CAY_TRY(want(b, path, true, &d, err));
    if (d->type != CAY_DIR)
        return refused(err, path, ENOTDIR);
    size_t n = strlen(d->path) + (d->path[1] ? 1 : 0);
    for (mfile *f = b->files; f && rc == 0; f = f->next) {
        unsigned level = 1;
        if (!below(f, d->path))
            continue;
        for (const char *p = f->path + n; *p; p++)
            level += *p == '/';
        cay_dirent e = { .path = f->path + n };
        describe(f, &e.st);
        if (!depth || level <= depth)
            rc = fn(&e, arg);
    }
    return rc;
}

int memory_list_dir(void *box, const cay_call *call, const char *path, unsigned depth,
                    int (*fn)(const cay_dirent *, void *), void *arg, cay_err *err)
{
    (void)call;
    return LOCKED(box, list_it(box, path, depth, fn, arg, err));
}
