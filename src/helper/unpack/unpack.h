/* SPDX-License-Identifier: Apache-2.0 */
/*
 * helper/unpack/unpack.h - cay-unpack: an archive on standard input, what is in it as items
 * (proto/item.h) on standard output.
 *
 *     cay-unpack [LIMITS] PROFILE FORMAT        cay-unpack [LIMITS] walk DIRECTORY
 *
 * It runs inside a sandbox of its own, with no network and nothing to lose, and writes no file but
 * a spool for zip. libarchive reads; what it reads is judged before (tarcheck.c) and after
 * (names.c). The first thing that is wrong ends it: FAIL names the member, and whoever reads the
 * items throws away what it has. A PROFILE says what may be in the archive, a FORMAT how it is
 * written.
 */
#pragma once
#include <proto/item.h>
#include <base/base.h>
#include <base/tar.h>

typedef enum links { LINKS_NONE, LINKS_INSIDE, LINKS_ANY } links;

typedef struct profile {
    const char *name;
    links symlinks;
    bool hard;   /* links to an earlier regular member */
    bool owners; /* ids as archived; else all is uid and gid 1000 */
    bool ours; /* notes, removed files, opaque directories, attributes; the tree is below "root" */
    bool
        oci; /* a layer of an image: whiteouts by name, all mode bits, a directory may come again */
    bool hydrate; /* modes as the Agents SDK restores them */
} profile;
const profile *profile_find(const char *name); /* NULL: there is none */

typedef struct limits {
    uint64_t input, output, members, ratio,
        ratio_from; /* ratio: output to input, beyond ratio_from bytes of output */
} limits;

/* A name that was seen, as 128 bits of a keyed hash, so that long names cost no more than short
 * ones. */
typedef struct seen {
    uint64_t a, b;
    uint8_t kind; /* 0: free */
} seen;

typedef struct unpack {
    const profile *as;
    limits max;
    cay__items_out out;
    uint64_t in, bytes, members, items;
    seen *names;
    size_t nnames, cap; /* cap: a power of two */
    uint64_t key[4];
    char parent[CAY__ITEM_PATH]; /* the last one that was found sound */
    bool failed;
    char *gone; /* oci: paths that are removed, each after 'w', or 'o' for a directory that hides
                   what is below, ended by NUL */
    size_t gone_len, gone_cap;
} unpack;

/* Tells FAIL, once. Returns -1, which everybody passes up. */
int fail(unpack *u, const char *member, const char *reason, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void put_note(unpack *u, const char *name, const char *text, size_t len);
/* One more member: too many? */
int count_member(unpack *u, const char *path);
/* n more bytes come out: over a limit? */
int grow(unpack *u, const char *member, uint64_t n);

void names_start(unpack *u);
void names_stop(unpack *u);
/* "./a//b/" → "a/b", "" → "."; refused: absolute, "..", drive letters, backslashes, over-long. */
int name_clean(unpack *u, const char *raw, char out[CAY__ITEM_PATH]);
/* The member is new, and below directories only; those that no member was are told as items. */
int name_add(unpack *u, const char *path, char kind);
/* The target of a symbolic link stays inside, or the profile does not care. */
int link_check(unpack *u, const char *path, const char *target);
/* What is at path: a CAY__ITEM_… type, 0: nothing. */
char name_kind(const unpack *u, const char *path);

/* 1: the member was one, and is kept in mind. 0: it was not. */
int whiteout(unpack *u, const char *path);
/* After the last member: what they say of this layer. A file or directory of the layer itself is
 * not removed by it, whichever came first. */
int whiteouts_tell(unpack *u);

typedef struct tarcheck {
    uint64_t max_size; /* of one member */
    uint64_t skip;     /* bytes of data and padding still to come */
    cay__tar_block block;
    size_t have;
    char *body; /* of a pax or long-name member */
    size_t body_len, body_want;
    char kind; /* of that member */
    uint64_t pax_size;
    bool has_size, has_path, has_link, ended, sparse_more;
    char name[101];     /* as far as the header at hand tells */
    const char *reason; /* after a refusal */
    char why[160];
} tarcheck;
/* false: refused; reason and why are told. */
bool tarcheck_feed(tarcheck *t, const void *data, size_t len);
void tarcheck_clear(tarcheck *t);

typedef struct input input;
input *input_open(unpack *u, int fd);
void input_close(input *s);
/* Some bytes; *n 0 at the end. -1: told already. */
int input_read(input *s, const void **p, size_t *n);
/* oci: reads to the end and tells the SHA-256 of all of it, which is the layer's diff id. */
int input_sum(input *s, char hex[65]);
void input_back(input *s, const void *p, size_t n); /* the last bytes read come again */

int read_tar(unpack *u, input *s);
int read_zip(unpack *u, input *s);
int read_js(unpack *u, input *s);
int read_tree(unpack *u, const char *dir);
/* Sets the profile that fits when it is not chosen yet. */
int read_any(unpack *u, input *s, const char *format);
