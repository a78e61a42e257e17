/* SPDX-License-Identifier: Apache-2.0 */
/*
 * helper/layer/tool.h - cay-layer from inside: what a verb is given, and how one is added.
 *
 *     cay-layer VERB [UID]
 *       3: socket of records (proto/record.h)   4: state directory
 *       5: user namespace to enter, if any      6…: the verb's own descriptors
 *
 * UID: cay-hand runs it for a server of that user's (proto/root_helper.h). main.c enters the
 * namespaces, reads the request and calls the verb; the verb returns 0 after it has put its result
 * into t->out (sent as DONE), or a code with its error. As root ids on disk are TOOL_STORE + id;
 * otherwise we are root of the user namespace they belong to, and id 0 is the caller. The mount
 * namespace is ours alone, so a verb mounts what it likes.
 *
 * A new verb: a file verb.c with `int verb_run(tool *t, cay_err *err)`, its declaration below, its
 * row in main.c's table. Records of its own start at CAY__REC_VERB. What it makes is made below
 * layers/ under a name of tool_stage() and renamed when it is whole; whoever finds such a name
 * after a crash may remove it.
 *
 *   verb    arguments               answer (DONE)
 *   digest  layer                   hex digest, bytes, files
 *   build   new entries each below… nodes, bytes; a plan (build.h) at TOOL_FD; records: so far
 *   remove  layer…                  -; also what crashes left behind
 *   purge   name…                   -; of the state directory itself, unfinished purges too
 *   volume  make NAME               -; volumes/NAME, user 1000's; one that is there stays
 *           look NAME               bytes, files
 *           remove NAME             -; out of sight by one rename
 *           sweep                   -; what was removed goes
 *   apply   top=PATH since=MS [dry] [force], TOOL_FD: the directory; then ITEM records and GO
 *                                   -; a RESULT for each
 *   diff    words, see diff.c       changes, texts left out; CHANGE and TEXT records before
 *   look    words, see look.c       -; ENTRY records before; open: the file by socket TOOL_FD
 *   on      fill|back|finish|drop ID LAYER
 *                                   -; what is above a directory of the host (on.c)
 *   merge   below… -- layer… new    -; bottom first; what hides something below stays;
 *                                   below: also one path of the host
 */
#pragma once
#include <base/base.h>
#include <base/fault.h>
#include <proto/record.h>

enum { TOOL_SOCK = 3, TOOL_HOME, TOOL_USER, TOOL_FD, TOOL_FDS = 8 }; /* so many of a verb's own */
#define TOOL_STORE     0x70000000u /* as STORE_BASE of daemon/keeper/keeper.h */
#define TOOL_STACK_MAX 128

typedef struct tool {
    bool apart; /* for a server that is not root, of `uid`: nothing of the host is named, and only
                   that user's files are copied */
    uid_t uid;
    bool root; /* plain root: ids are moved by TOOL_STORE, overlay's attributes are trusted.* */
    int home, layers; /* the state directory and layers/ in it, in our mount namespace; also the
                         working directory */
    const char **args;
    size_t nargs;
    cay__buf out; /* what DONE will carry */
    unsigned ticks, views;
    mode_t umask;        /* the caller's; ours is 0 */
    const char *scratch; /* what stack_open() covered */
    const char *bottom;  /* a directory of the host below every stack, or NULL */
} tool;

/* What ids on disk are moved by. */
static inline uint32_t tool_base(const tool *t)
{
    return CAY_FLAG_IF(t->root, TOOL_STORE);
}

/* Arguments by their words: KEY=VALUE, or a word alone. */
typedef struct tool_word {
    const char *key;    /* with its "=" */
    const char **value; /* where its value goes */
    bool *flag;         /* becomes true */
    uint64_t *number;   /* its value, at most `most` */
    const char **list;  /* its values, at most `most`, counted in *n */
    size_t *n, most;
} tool_word;
int tool_words(const tool *t, const char *verb, const tool_word *words, size_t n, cay_err *err);
#define TOOL_WORDS(t, verb, words, err) tool_words(t, verb, words, CAY_LEN(words), err)

/* A name that a layer may have: no slash, no dot in front, at most 63 bytes. Fails naming it. */
int tool_layer_name(const char *name, cay_err *err);
/* One name of a directory, and not the way out of it. */
bool tool_one_name(const char *name);
/* Opens layers/<name>. */
int tool_layer_open(tool *t, const char *name, int *fd, cay_err *err);
/* Makes layers/.stage-…/t for something that is not whole yet and opens it; tool_publish() renames
 * it, tool_unstage() removes it. */
int tool_stage(tool *t, char name[40], int *fd, cay_err *err);
int tool_publish(tool *t, const char *stage, const char *layer, cay_err *err);
void tool_unstage(tool *t, const char *stage);
/* Now and then, in loops: CAY_ECANCELED once nobody waits for the answer. */
int tool_check(tool *t, cay_err *err);
/* Sends a record before the result. */
int tool_say(tool *t, uint32_t type, cay__buf *b, cay_err *err);

/* PROGRESS, now and then; *said: the bytes that were told last. */
int tool_progress(tool *t, uint64_t *said, uint64_t items, uint64_t bytes, cay_err *err);

/* build.c: the user namespace has one id. */
bool tool_one_id(void);

/* Mounts the merged view of a stack, bottom first, read-only; the descriptor of its root. /tmp is
 * gone for us then: what a verb needs of the host's tree it has opened before. */
int stack_open(tool *t, const char *const *layers, size_t n, int *fd, cay_err *err);

/* What a snapshot has above a directory of the host, layers/o…/upper, and that directory, over one
 * name of a view. dir is of stack_host_dir(), which is asked before the first view is opened. */
int stack_cover(tool *t, int view, const char *name, const char *layer, int dir, cay_err *err);
int stack_host_dir(int given, int *fd, cay_err *err);

/* sandboxes/ID/upper, sandboxes/ID/on/upper or, of a snapshot, layers/o…/upper; path NULL: -1. */
int tool_top_open(tool *t, const char *path, int *fd, cay_err *err);

/* Down by one name, up again. The descriptors of the last 128 levels are kept; further up it goes
 * by "..", checked by device and inode, so that neither stack nor descriptors grow with the depth a
 * sandbox chose. */
typedef struct crawl {
    struct crawl_level *lv;
    size_t n;
} crawl;

void crawl_open(crawl *c, int fd); /* takes the descriptor over */
void crawl_close(crawl *c);
int crawl_fd(const crawl *c); /* of the directory it is in, -1: this tree has none here */
int crawl_root(const crawl *c);
int crawl_down(crawl *c, const char *name); /* never by a link; -1 and errno */
void crawl_nothing(crawl *c);               /* down to where this tree has nothing */
void crawl_jump(crawl *c,
                int fd); /* down to somewhere else in the same tree (-1: nothing); takes fd over */
int crawl_up(crawl *c);  /* -1: the way up is not the way down: somebody moves directories */
#define CRAWL_DEPTH 100000 /* levels; a deeper tree is ETOOBIG */

/* Names of a directory, sorted by byte. */
typedef struct name_list {
    char **v;
    size_t n, at; /* at: the next one, for who walks */
    size_t bytes;
} name_list;
/* Adds those of fd (-1: none); EFBIG beyond a ceiling. */
int names_read(name_list *l, int fd);
void names_add(name_list *l, const char *name);
void names_sort(name_list *l); /* and drop doubles */
void names_clear(name_list *l);
#define TOOL_AUTONAMES __attribute__((cleanup(names_clear))) name_list

/* A walk: calls enter() for each entry in order of the path; it tells whether to go down. leave()
 * follows when all that is below has been seen. */
typedef struct walk {
    tool *t;
    int dir;          /* that the entry is in */
    const char *path; /* of the entry, without a leading slash */
    int (*enter)(struct walk *w, const char *name, const struct stat *st, bool *down, cay_err *err);
    int (*leave)(struct walk *w, const char *name, cay_err *err);
    void *arg;
    cay_err *err;
    int rc; /* what ended it */
} walk;
int walk_tree(walk *w, int root, cay_err *err); /* takes root over */

/* Extended attributes that belong to the content, sorted; those that overlayfs only notes for
 * itself are left out, and this mode's own, trusted.overlay.X or user.overlay.X, appear as
 * overlay.X. `name` is one name in dir. */
typedef struct xattr {
    char name[256];
    char *value;
    size_t len;
} xattr;
typedef struct xattrs {
    xattr *v;
    size_t n;
} xattrs;
int xattrs_read(const tool *t, int dir, const char *name, xattrs *out);
void xattrs_clear(xattrs *x);
const xattr *xattrs_find(const xattrs *x, const char *name);
/* Sets one, by its outer name; overlay.X becomes what this mode calls it. */
int xattr_set(const tool *t, int dir, const char *name, const xattr *x);
bool meta_whiteout(const struct stat *st);
/* For a server of this user's, which is not root (t->apart): a file that is of nobody in a sandbox
 * was put there by somebody who could not read it, and is not read for them. */
void meta_apart(uid_t uid);
bool meta_foreign(const struct stat *st); /* sets errno */
/* Marks of overlayfs on a directory, merge.c: what is below does not show; it is shown from another
 * path. */
bool meta_opaque(const tool *t, int dir, const char *name);
bool meta_redirect(const tool *t, int dir, const char *name, char *to, size_t cap);
/* Opens what a redirect names: an absolute path from the tree's root, or a name in `dir` (-1:
 * none). No link is followed. */
int meta_follow(int root, int dir, const char *to);
/* A path that reaches name in dir for calls that have no *at form and follow no link in its last
 * part. */
bool meta_path(char out[300], int dir,
               const char *name); /* false: ENAMETOOLONG, it is more than one name */

int build_run(tool *t, cay_err *err);
int digest_run(tool *t, cay_err *err);
int on_run(tool *t, cay_err *err);
/* Files with several names that are kept in mind while a tree is told, and the bytes of their
 * paths; beyond that "too_many_links". A sandbox chooses both how many there are and how long their
 * paths. */
#define LINKS_MAX  (4u << 20)
#define LINK_BYTES (256u << 20)
typedef struct tool_link {
    dev_t dev;
    ino_t ino;
    uint64_t entry; /* of the walk, the first that had it; from 1. 0: a free place */
    char *path;
} tool_link;
typedef struct tool_links {
    tool_link *v;
    size_t n, cap; /* a hash table, cap is a power of two */
    size_t path_bytes;
} tool_links;
/* *out: its first name, or NULL when this is it, which is kept; its path too, unless that is NULL.
 */
int tool_links_first(tool_links *l, const struct stat *st, uint64_t entry, const char *path,
                     const tool_link **out, cay_err *err);
void tool_links_clear(tool_links *l);
/* A file to read, whose time of the last access stays where it may. */
int tool_file(int dir, const char *name);
/* The same for who wants to see all that it passes: each entry, then its bytes if it is a file
 * (holes left out) and where they end. `other`: the first name of a file that has several, for
 * those after it. */
typedef struct digest_hooks {
    int (*node)(void *arg, int dir, const char *name, const char *path, const struct stat *st,
                const char *other, const xattrs *x, cay_err *err);
    int (*data)(void *arg, const void *p, size_t n, uint64_t at, cay_err *err);
    int (*end)(void *arg, uint64_t size, cay_err *err);
} digest_hooks;
typedef struct digested {
    char hex[65];
    uint64_t bytes, files;
} digested;
int digest_layer(tool *t, const char *layer, const digest_hooks *hooks, void *arg, digested *out,
                 cay_err *err);
int remove_run(tool *t, cay_err *err);
int purge_run(tool *t, cay_err *err);
int volume_run(tool *t, cay_err *err);
int merge_run(tool *t, cay_err *err);
int diff_run(tool *t, cay_err *err);
int look_run(tool *t, cay_err *err);
int apply_run(tool *t, cay_err *err);
/* All that is below fd, which is closed. */
int remove_tree(tool *t, int fd, cay_err *err);
/* What the dead left below layers/. */
int remove_sweep(tool *t, cay_err *err);
