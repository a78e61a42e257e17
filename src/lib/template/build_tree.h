/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/template/build_tree.h - where COPY takes files from: a directory of this host, or one inside
 * a sandbox.
 *
 *   cay__tree_dir()   all that is below a directory, without what .dockerignore leaves out
 *   cay__tree_box()   all that is below a path inside a sandbox
 *   cay__tree_open()  the bytes of a file        cay__tree_pick()  what a source of COPY means
 *
 * No link of a directory of the host is ever followed on the way to a file, and nothing outside of
 * it is reached.
 */
#pragma once
#include <base/buf.h>
#include <cay/sandbox.h>

#define CAY__TREE_FILES 500000u

typedef struct cay__twig {
    char type; /* 'f' 'd' 'l' */
    uint32_t mode, uid, gid;
    uint64_t size;
    const char *path;   /* below the top, without a slash at either end; "" is the top itself */
    const char *target; /* of a link */
} cay__twig;

typedef struct cay__tree {
    cay__arena mem;
    cay__twig *twigs; /* by path */
    size_t n;
    int dir;          /* or -1 */
    cay_sandbox *sb;  /* or NULL; not owned */
    const char *base; /* in the sandbox */
    uint64_t bytes;
} cay__tree;

/* fd is taken over. ignore: the text of .dockerignore, or NULL. */
int cay__tree_dir(cay__tree *t, int fd, const char *ignore, size_t len, const cay_call *call,
                  cay_err *err);
int cay__tree_box(cay__tree *t, cay_sandbox *sb, const char *base, const char *ignore, size_t len,
                  const cay_call *call, cay_err *err);
void cay__tree_clear(cay__tree *t);
const cay__twig *cay__tree_find(const cay__tree *t, const char *path);
int cay__tree_open(const cay__tree *t, const cay__twig *w, const cay_call *call, int *fd,
                   cay_err *err);
/* Bytes of one file, at most max; NUL-terminated, the caller's. CAY_ENOENT. */
int cay__tree_get(const cay__tree *t, const char *path, size_t max, const cay_call *call,
                  char **data, size_t *len, cay_err *err);
/* sha256 of a file's bytes. */
int cay__tree_hash(const cay__tree *t, const cay__twig *w, const cay_call *call, char out[65],
                   cay_err *err);

/* One file, directory or link to be put into place: at the target when name is "", else at or below
 * it. */
typedef struct cay__leaf {
    const cay__twig *twig;
    const char *name; /* below the target */
    bool file;        /* the source was one file: the target itself, unless that is a directory */
    char digest[65];  /* of a file whose content decided the key; else "" */
} cay__leaf;
typedef struct cay__pick {
    cay__arena *mem;
    cay__leaf *leaves;
    size_t n;
} cay__pick;
void cay__pick_clear(cay__pick *p);
/* Adds what `pattern` means: a file, or what is in a directory; *, ? and [set] fit names.
 * CAY_ENOENT, "build_copy". */
int cay__tree_pick(const cay__tree *t, const char *pattern, cay__pick *out, cay_err *err);
