/* SPDX-License-Identifier: Apache-2.0 */
/*
 * helper/clone/clone.h - cay-clone: a layer of what a sandbox has written, taken while its
 * processes run.
 *
 *   main.c    start, namespaces, order of steps
 *   hold.c    everything stands still: by the keeper, or by signals
 *   tree.c    walks the upper directory
 *   stop.c    the guard that stops by signals, and continues
 *   copy.c    one file with all that belongs to it
 *   mapped.c  which files are mapped by the processes
 *   index.c   what the last clone saw
 *   subvol.c  on btrfs: a snapshot to walk in
 *
 * Everything stands still for as long as the tree is walked (on btrfs: until a snapshot is there
 * that can be walked), so that the layer is one moment in time. A file that has not changed since
 * the last clone is a hard link into that layer: layers are immutable, while the upper directory,
 * whose files are written in place, is never linked with. The layer appears under its name in one
 * step. Whatever ends this program lets the sandbox go on: the keeper sees its connection end.
 */
#pragma once
#include <proto/clone.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/types.h>

typedef struct clone_mark {
    uint64_t ino, size;
    int64_t ctime_s, mtime_s;
    uint32_t ctime_ns, mtime_ns;
    uint32_t path; /* offset of its name below the layer, in the names */
    uint32_t spare;
} clone_mark;

typedef struct clone_index {
    clone_mark *marks;
    size_t n, cap;
    char *names;
    size_t names_len, names_cap;
    char layer[64];
    uint64_t dev, ino; /* the upper directory that was cloned */
    uint32_t *by_ino;  /* hash of a loaded one */
    size_t nhash;
} clone_index;

/* False, and empty: there is none for this upper directory, of this boot. */
bool index_load(clone_index *x, int dir, const char *name, const struct stat *upper);
bool index_save(const clone_index *x, int dir, const char *name, const char *temp);
const clone_mark *index_find(const clone_index *x,
                             const struct stat *st); /* the file as it is now, if it is the same */
void index_add(clone_index *x, const struct stat *st, const char *path);
void index_free(clone_index *x);

typedef struct clone_hold {
    int events; /* cgroup.events, or -1: by signals */
    int guard;  /* socket of the guard, or -1 */
    int guard_pid;
    int init; /* pid of the sandbox's first process */
    int64_t since_us, until_us;
} clone_hold;

/* Answers a cay_code and fills *a. */
int hold_begin(clone_hold *h, const char *id, bool stop, clone_answer *a);
bool hold_still(const clone_hold *h); /* it did all the time */
void hold_end(clone_hold *h, const char *id);

void proc_path(char out[64], int pid, const char *file); /* /proc/PID and that */
/* Processes of a pid namespace and of those below it. fn's false ends the walk, and is answered. */
bool each_process(int init, bool (*fn)(int pid, void *arg), void *arg);
/* Each of them is in the freezer. guess: on a kernel that does not tell, one that sleeps is. */
bool all_frozen(int init, bool guess);
bool guard_prepare(void);  /* before the fork: what both know */
bool guard_kept(int init); /* nobody of those that were stopped has run since */
void guard_release(void);  /* continues those that were stopped, if that was not done */
/* Never returns. Stops all, writes one byte ('y', or 'n' and errno), waits until `sock` ends,
 * continues those it stopped. */
_Noreturn void guard_main(int sock, int init);

typedef struct inode_set {
    uint64_t *ino;
    size_t n, cap;
    bool all; /* somebody could not be asked: take every file for mapped */
} inode_set;

/* at: where inside the directory is shown; "": at the root. */
void mapped_files(inode_set *s, int init, int upper, const char *at);
void inode_set_sort(inode_set *s);
bool inode_set_has(const inode_set *s, uint64_t ino);
void inode_set_free(inode_set *s);

enum copy_how { COPY_BYTES, COPY_SHARED }; /* by reflink where the file is large */

/* An open file or directory is the one that was looked at. copy_of_sandboxes: and somebody's of a
 * sandbox (--apart: the caller is not root, and could have moved it there). */
extern bool copy_of_sandboxes;
bool copy_same(int fd, const struct stat *st);
bool copy_file(int from, const char *name, int to, const struct stat *st, enum copy_how how,
               bool *shared);
bool copy_special(int from, const char *name, int to,
                  const struct stat *st); /* links, pipes, sockets, whiteouts */
bool copy_looks(int from, int to,
                const struct stat *st); /* owner, attributes, mode, times of an open one */
bool same_bytes(int a, const char *name, int b, const char *path, off_t size);

typedef struct clone_subvol {
    int root, stage; /* of the subvolume; the directory that its snapshot is in */
    char home[4096]; /* the state directory, from there */
    char stage_name[40];
} clone_subvol;

bool subvol_prepare(clone_subvol *s, int home, int layers,
                    const struct stat *upper); /* before the freeze; false: there is no way */
bool subvol_take(clone_subvol *s);
int subvol_open(const clone_subvol *s, const char *path,
                const struct stat *want); /* a directory below the state directory, as it was; -1 */
void subvol_end(clone_subvol *s, int layers);
void subvol_destroy(int stage); /* what a killed one left in its directory */

typedef struct clone_tree {
    int upper, to; /* directories */
    int base;      /* the last clone's layer, or -1 */
    const clone_index *last;
    int near; /* a directory of it, whose name is near_path */
    char near_path[4096];
    size_t near_len;
    clone_index next;
    inode_set mapped;
    enum copy_how how;
    bool doubt;            /* timestamps do not tell all: look at the bytes too */
    struct timespec fresh; /* what changed after this may change once more without a trace */
    uint64_t bytes, files, copied;
    bool shared;     /* some file shares its blocks with the one it is a copy of */
    char path[4096]; /* where we are, for messages too */
    size_t len;
    unsigned depth;
} clone_tree;

extern volatile sig_atomic_t clone_canceled;

bool clone_tree_walk(clone_tree *t);
void clone_tree_remove(int at, const char *name);
