/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/fsop.h - file operations beneath a root directory descriptor.
 *
 *   cay__fs_open_read()  a regular file, never blocks
 *   cay__fs_put_open()   write beside, then commit
 *   cay__fs_stat()       follow or not
 *   cay__fs_put()        the same for bytes in hand
 *   cay__fs_walk()       everything below a directory
 *   cay__fs_remove()     a tree, following nothing
 *   cay__fs_glob()       shell patterns with **
 *   cay__fs_grep()       lines that match
 *
 * Paths are bytes: absolute ones begin at the root descriptor, others at the working directory,
 * "~/" at home. Links are resolved inside the root by openat2(2); whoever exchanges directories and
 * links meanwhile gets an error or an operation inside, never one outside. Memory does not grow
 * with the size of files or directories.
 *
 * Functions return 0, or -1 with errno: EISDIR, ENOTDIR and ENXIO mean "of another kind". A
 * callback that returns anything but 0 ends the walk, and the function returns that value.
 */
#pragma once
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#define CAY__FS_PATH_MAX 4096

static inline int cay__fs_fail(int e)
{
    errno = e;
    return -1;
}

typedef struct cay__fs {
    int root;            /* directory that stands for "/" */
    const char *workdir; /* absolute below it; NULL: "/" */
    const char *home;    /* for "~" and "~/…"; NULL: "/" */
    /* Asked now and then while a tree is walked or searched; true ends it with ECANCELED. May be
     * NULL. */
    bool (*stop)(void *arg);
    void *stop_arg;
} cay__fs;

/* The path as an absolute one below the root, in buf of CAY__FS_PATH_MAX bytes. */
int cay__fs_path(const cay__fs *fs, const char *path, char *buf);
/* Opens with openat2(2) below the root; flags as for open(2), O_CLOEXEC and O_NOCTTY added. */
int cay__fs_open(const cay__fs *fs, const char *path, int flags);
/* A regular file for reading; anything else fails at once. st may be NULL. */
int cay__fs_open_read(const cay__fs *fs, const char *path, struct stat *st);
/* target: of a link when not following, cut at cap; may be NULL. */
int cay__fs_stat(const cay__fs *fs, const char *path, bool follow, struct stat *st, char *target,
                 size_t cap);
/* mode 0: 0755. With parents an existing directory is fine. */
int cay__fs_mkdir(const cay__fs *fs, const char *path, uint32_t mode, bool parents);
int cay__fs_rename(const cay__fs *fs, const char *from, const char *to);
int cay__fs_chmod(const cay__fs *fs, const char *path, uint32_t mode);
int cay__fs_chown(const cay__fs *fs, const char *path, uint32_t uid, uint32_t gid);
int cay__fs_symlink(const cay__fs *fs, const char *target, const char *path);
/* Only "user.…", and not overlayfs's own. get gives the size, or -1; value NULL removes. */
int cay__fs_getxattr(const cay__fs *fs, const char *path, const char *name, void *buf, size_t cap);
int cay__fs_setxattr(const cay__fs *fs, const char *path, const char *name, const void *value,
                     size_t len);
int cay__fs_listxattr(const cay__fs *fs, const char *path, int (*fn)(const char *name, void *arg),
                      void *arg);
/* Removes a file, a link itself or an empty directory; a whole tree when recursive. Crosses no
 * mount: that is EBUSY, after all else was removed. */
int cay__fs_remove(const cay__fs *fs, const char *path, bool recursive);

/* The directory that holds the last part of path, and that part in name (256 bytes). */
int cay__fs_parent(const cay__fs *fs, const char *path, char *name);

typedef struct cay__fs_entry {
    const char *path; /* relative to where the walk began */
    const char *name; /* its last part */
    int dir;          /* descriptor of the directory that holds it */
    unsigned depth;   /* 1: directly in the base */
    const struct stat *st;
} cay__fs_entry;

enum {
    CAY__FS_ONE_MOUNT = 1, /* enter no mount point */
    CAY__FS_STRICT = 2,    /* what cannot be entered is an error in the end */
};
enum { CAY__FS_SKIP = -1000 }; /* callback: do not enter this directory, go on */

typedef struct cay__fs_walk {
    int (*fn)(const cay__fs_entry *e, void *arg);    /* before what is inside a directory */
    int (*leave)(const cay__fs_entry *e, void *arg); /* after it; may be NULL */
    void *arg;
    unsigned depth; /* 1: one directory; 0: all the way down */
    int flags;
    /* What cannot be looked at or entered, with errno, in place of CAY__FS_STRICT: anything but 0
     * ends the walk. Entries that vanish meanwhile are not told. May be NULL. */
    int (*failed)(const char *path, void *arg);
    uint32_t room; /* bytes for names, up to 1 GiB; 0: 1 MiB. More saves reading directories of very
                      many names again and again; a path has a quarter of it. */
    bool (*stop)(void *arg); /* as in cay__fs, for walk_fd */
    void *stop_arg;
} cay__fs_walk;

/* The one walk of a tree. Those that remain beside it go through several trees in step and hold a
 * descriptor in each: helper/clone/tree.c copies from one into another, and what a directory looks
 * like comes last; helper/layer/compare.c and merge.c follow overlay layers, which jump.
 *
 * Takes fd. Sorted by name in each directory; holds at most two dozen descriptors however deep.
 * Kernel filesystems (proc, sysfs, cgroup) below the base are named, not entered. */
int cay__fs_walk_fd(int fd, const cay__fs_walk *w);
int cay__fs_walk_path(const cay__fs *fs, const char *path, const cay__fs_walk *w);

/* fn gets what matches; pattern: *, ?, [a-z], [!x], \x, and ** for any number of directories. As in
 * a shell a leading dot is matched only by a dot. EINVAL: absolute or with "..". */
int cay__fs_glob(const cay__fs *fs, const char *base, const char *pattern,
                 int (*fn)(const cay__fs_entry *e, void *arg), void *arg);
/* The whole of s against one pattern without slashes. */
bool cay__fs_match(const char *pat, const char *s);
/* A whole path against a pattern with slashes; partial: could something below path match? */
bool cay__fs_match_path(const char *pat, const char *path, bool partial);

typedef struct cay__fs_grep_spec {
    const char *pattern; /* POSIX extended expression, or plain text */
    bool plain, ignore_case;
    const char *include; /* pattern for file names, for paths when it has a slash; or NULL */
    uint64_t max;        /* matching lines; 0: 10,000 */
} cay__fs_grep_spec;
typedef struct cay__fs_line {
    const char *path;
    uint64_t line, column; /* from 1 */
    const char *text;      /* cut at 4096 bytes */
    size_t len;
} cay__fs_line;
/* base may be a directory or one file. Binary files are skipped; lines over 64 KiB are searched in
 * pieces. EINVAL: the expression is wrong. */
int cay__fs_grep(const cay__fs *fs, const char *base, const cay__fs_grep_spec *spec,
                 int (*fn)(const cay__fs_line *l, void *arg), void *arg);

typedef struct cay__fs_write {
    uint32_t mode; /* permission bits; 0: what the replaced file had, else 0644 */
    bool parents, append, exclusive;
} cay__fs_write;

/* Bytes written to fd are invisible until commit renames them into place. */
typedef struct cay__fs_upload {
    int fd, dir;
    cay__fs_write spec;
    uint32_t uid, gid; /* of the replaced file */
    bool replaces;
    char tmp[32], name[256];
} cay__fs_upload;

/* Temporary names begin so; the letter after tells whether a file is being replaced. Watches hide
 * them. */
#define CAY__FS_TMP     ".cay-put-"
#define CAY__FS_TMP_NEW 'n'
#define CAY__FS_TMP_OLD 'r'

int cay__fs_put_open(const cay__fs *fs, const char *path, const cay__fs_write *spec,
                     cay__fs_upload *up);
int cay__fs_put_commit(cay__fs_upload *up); /* ends it either way */
void cay__fs_put_abort(cay__fs_upload *up);
int cay__fs_put(const cay__fs *fs, const char *path, const void *data, size_t len,
                const cay__fs_write *spec);
