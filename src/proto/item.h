/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proto/item.h - a tree as a stream of items: what cay-unpack says after it has read an archive.
 *
 *   cay__item_put()    one item: a file, directory, link, …
 *   cay__item_next()   read one
 *   cay__item_data()   bytes of the file just put
 *   cay__item_bytes()  read some of its bytes
 *   cay__item_done()   no more of them
 *   cay__sink_run()    a whole stream into a directory
 *
 * An item is a fixed head, then path, link target and attributes; a file's bytes follow in lengths
 * and pieces, so that its size need not be known. The stream ends with END and is worth nothing
 * without it. Both ends are programs of one build on one machine; still the reader believes
 * nothing, because the writer has just read what a stranger made.
 */
#pragma once
#include <cay/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#define CAY__ITEM_PATH  4096u       /* with room for a NUL */
#define CAY__ITEM_EXTRA (64u << 10) /* attributes, and the text of NOTE */
#define CAY__ITEM_PIECE (64u << 10) /* most bytes of one piece */

enum {
    CAY__ITEM_FILE = 'f',
    CAY__ITEM_DIR = 'd',
    CAY__ITEM_LINK = 'l',
    CAY__ITEM_HARD = 'h', /* target: path of an earlier file */
    CAY__ITEM_GONE = 'w', /* what a lower layer has there is removed; with OPAQUE: only what it has
                             in this directory, which came before */
    CAY__ITEM_NOTE = 'n', /* path: its name; extra: its text; no part of the tree */
    CAY__ITEM_END = 'e',  /* size: bytes of all files; mode: how many items there were */
    CAY__ITEM_FAIL =
        '!', /* instead of END. path: the member; target: a reason's word; extra: one line */
};
enum {
    CAY__ITEM_OPAQUE = 1, /* DIR: nothing of a lower layer shows through */
    CAY__ITEM_IMPLIED = 2 /* DIR: no member of its own, only members below it */
};

typedef struct cay__item {
    char type;
    unsigned flags;
    uint32_t mode, uid, gid;
    int64_t mtime; /* seconds */
    uint32_t nsec;
    uint64_t size;    /* FILE: as declared, UINT64_MAX when that is not known */
    const char *path; /* relative; "." is the root itself. NUL-terminated, like target */
    const char *target;
    const char
        *extra; /* attributes: uint16_t, uint32_t (lengths of name and value), name, value; … */
    size_t extra_len;
} cay__item;

typedef struct cay__items_out {
    int fd;
    char *buf;
    size_t len;
    bool failed;  /* nobody reads any more */
    bool in_file; /* bytes may come */
} cay__items_out;

void cay__items_start(cay__items_out *o, int fd);
void cay__item_put(cay__items_out *o, const cay__item *it);
void cay__item_data(cay__items_out *o, const void *p, size_t n);
void cay__item_done(cay__items_out *o); /* after the last bytes of a FILE */
bool cay__items_flush(cay__items_out *o);
void cay__items_stop(cay__items_out *o); /* frees; does not flush */

typedef struct cay__items_in {
    int fd; /* -1: what is in buf is all there is */
    uint8_t *buf;
    size_t at, len, cap;
    bool open_file; /* bytes of the last FILE are not all read */
    char path[CAY__ITEM_PATH], target[CAY__ITEM_PATH];
    char *extra;
} cay__items_in;

void cay__items_open(cay__items_in *in, int fd);
void cay__items_close(cay__items_in *in); /* fd stays the caller's */
/* The next item; END is the last. A stream that stops before it is CAY_EUPSTREAM,
 * "archive_truncated"; FAIL is the error it tells. */
int cay__item_next(cay__items_in *in, cay__item *out, cay_err *err);
/* Some bytes of the FILE just read, valid until the next call; *n 0: there are no more. */
int cay__item_bytes(cay__items_in *in, const char **p, size_t *n, cay_err *err);
/* One attribute after another: false when there are no more, or they are not whole (*at is then
 * past extra_len). */
bool cay__item_attr(const cay__item *it, size_t *at, const char **name, const char **value,
                    size_t *len);

/* "a/b", or "." when `dot`: relative, no empty, "." or ".." part, none longer than 255 bytes, no
 * NUL. */
bool cay__item_path_ok(const char *path, bool dot);

typedef struct cay__sink {
    int root; /* an empty directory; everything is made beneath it, no link is followed */
    const char
        *below; /* a path in it that everything goes under, made when missing; NULL: root itself */
    const char *only; /* a directory of the archive: what is in it, and nothing else, goes to the
                         root; NULL: all */
    unsigned threads; /* more that write small files; 0: none */
    bool owners; /* chown to uid_base + uid, gid likewise; else files are whoever's this process is
                  */
    uint32_t uid_base;
    uint32_t uid, gid; /* of directories that nobody described, and of all when `one_owner` */
    bool one_owner;
    const char *overlay; /* "trusted.overlay." or "user.overlay.": GONE and opaque directories may
                            come; NULL: refused */
    uint64_t max_bytes, max_items; /* 0: no limit */
    bool image; /* set-uid bits and capabilities of files are kept as they come; a directory may
                   come again */
    /* What the layers below have at the path of a directory that nobody described, or of what is
     * removed; false: nothing. May be NULL. */
    bool (*lower)(const char *path, struct stat *st, void *arg);
    /* A NOTE; may be NULL. Before the first of the others it may change below, overlay and owner
     * here. */
    int (*note)(const char *name, const char *text, size_t len, void *arg, cay_err *err);
    /* Every item and its bytes as they pass, for a digest; may be NULL. */
    void (*seen)(const cay__item *it, const void *data, size_t len, void *arg);
    /* Now and then; negative stops. May be NULL. */
    int (*check)(uint64_t items, uint64_t bytes, void *arg, cay_err *err);
    void *arg;
    uint64_t items, bytes; /* answer: what came, wanted or not */
} cay__sink;
/* A directory above path, in this layer, hides what lower ones have there. overlay: as in
 * cay__sink. */
bool cay__opaque_above(int root, const char *path, const char *overlay);
/* Reads up to END. What was made before a failure is left to the caller to remove. */
int cay__sink_run(cay__sink *s, int fd, cay_err *err);
