/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/path.h - where the state directory and the sockets are, and paths as texts.
 *
 *   cay__home_find()  which directory is meant      cay__home_open()  make, check and open it
 *   cay__run_dir()    where its sockets live        cay__libexec_find()  our other programs
 *   cay__path_clean() joined, without . and ..
 *
 * Used by the library and by the static programs: no JSON, no heap.
 */
#pragma once
#include <cay/error.h>

#define CAY__HOME_MAX 2048
/* A socket's path has 108 bytes; a run directory leaves this many of them for "/name". */
#define CAY__RUN_LEAVES 24
#define CAY__RUN_MAX    (108 - CAY__RUN_LEAVES)

/* The absolute path of the state directory: `given` (NULL or "": not given), else $CAY_HOME, else
 * /var/lib/cay as root, else $XDG_DATA_HOME/cay or ~/.local/share/cay. Nothing is made. */
int cay__home_find(const char *given, char *buf, size_t cap, cay_err *err);

#define CAY__HOME_APART                                                                            \
    "apart" /* a file that says: root's keeper holds this for a server that is not root            \
               (helper/root_helper/trees.c) */

/* Makes the directory (0700, parents too) if it is missing and opens it. Refused, naming the
 * remedy: not a directory, of another owner, writable by others, full of something else, a server's
 * that is not root, on a filesystem over a network. */
int cay__home_open(const char *home, int *dirfd, cay_err *err);

/* /run/cay, $XDG_RUNTIME_DIR/cay, /run/user/UID/cay or /tmp/cay-UID, then 8 hex digits of the state
 * directory's device and inode. What exists on the way must be a directory of ours that nobody else
 * may enter, else CAY_EPERM. `make` makes what is missing. */
int cay__run_dir(int home_fd, char *buf, size_t cap, bool make, cay_err *err);

/* The path of one of our programs that people do not call: in `given` (or NULL), $CAY_LIBEXEC,
 * ../libexec/cay of the running program, beside it, or where it was installed; the first that says
 * something about it counts. */
int cay__libexec_find(const char *given, const char *name, char *buf, size_t cap, cay_err *err);

/* The file of certificate authorities to use instead of those that the TLS library finds: `given`
 * unless that is NULL or "". A portable program looks where distributions have it, as its library
 * knows only /etc/ssl. NULL: the library's own. */
const char *cay__trust_roots(const char *given);

/* The name of a network filesystem by its statfs(2) magic, else NULL. */
const char *cay__fs_remote(uint64_t magic);

/* Joins base and path (base counts when path is relative) into an absolute path without ".", ".."
 * and double slashes; ".." at the top stays there. Texts alone: nothing is looked up. False when it
 * does not fit. */
bool cay__path_clean(const char *base, const char *path, char *buf, size_t cap);

/* Is it one of base/guarded.h, or inside one, at any depth and in any case? What tools run or obey
 * without being asked. */
bool cay__path_guarded(const char *path);
/* Would a link at `path` with this target point out of the directory that path is relative to?
 * Absolute ones do, and those that go up after a name may: that can be another link. */
bool cay__link_leaves(const char *path, const char *target);
/* Is `path` the same as `top`, or below it? A trailing slash of top does not count; "" and "." are
 * above all. */
bool cay__path_within(const char *path, const char *top);
