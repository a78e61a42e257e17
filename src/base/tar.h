/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/tar.h - tar archives as they come and go: ustar, pax, and the long names of GNU.
 *
 *   cay__tar_next()   the next member of a stream      cay__tar_bytes()  what it holds, in pieces
 *   cay__tar_head()   the head of a member, written
 *
 * Memory is constant. A name is told as it stands: whoever writes files by it judges it. Sums are
 * checked, numbers have one spelling.
 *
 * Two readers need other loops and use the blocks and records below: cay-unpack judges each block
 * before libarchive reads it, because libarchive also knows sparse members, old formats and zip;
 * image archives of many gigabytes are indexed by pread(2) without reading what members hold.
 */
#pragma once
#include "buf.h"

enum { CAY__TAR_NAME = 4096, CAY__TAR_BLOCK = 512 };

typedef struct cay__member {
    char type; /* '0' file, '1' hard link, '2' symbolic link, '5' directory, others as they are */
    char name[CAY__TAR_NAME], target[CAY__TAR_NAME];
    uint32_t mode, uid, gid;
    uint64_t size;
    int64_t mtime; /* seconds */
} cay__member;

typedef int cay__tar_read(void *arg, void *buf, size_t cap, size_t *n,
                          cay_err *err); /* *n 0 at the end */
typedef struct cay__tar {
    cay__tar_read *read;
    void *arg;
    uint64_t left, pad; /* of the member under way */
} cay__tar;

/* 1: *out is filled; 0: the end. CAY_EINVAL, "archive_corrupt". What is left of the member before
 * is skipped. */
int cay__tar_next(cay__tar *t, cay__member *out, cay_err *err);
/* *n 0 at the end of the member. */
int cay__tar_bytes(cay__tar *t, void *buf, size_t cap, size_t *n, cay_err *err);

/* What does not fit the old fields goes before it as pax records, and so do others that the caller
 * has (NULL: none). */
void cay__tar_head(cay__buf *b, const cay__member *m);
void cay__tar_head_with(cay__buf *b, const cay__member *m, const cay__buf *records);
void cay__tar_record(cay__buf *b, const char *key, const void *value, size_t len);
void cay__tar_pad(cay__buf *b, uint64_t size); /* up to a whole block, after so many bytes */

/* A block as it is in the archive: ustar, or GNU's, whose magic is "ustar  ". */
typedef struct cay__tar_block {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100], magic[6],
        version[2], user[32], group[32], major[8], minor[8], prefix[155], rest[12];
} cay__tar_block;
_Static_assert(sizeof(cay__tar_block) == CAY__TAR_BLOCK, "one block");

/* Octal digits with blanks before and blanks or NULs behind, or base 256 after the byte 0x80. */
bool cay__tar_number(const char *field, size_t n, uint64_t *out);
bool cay__tar_sum_agrees(const cay__tar_block *b);
bool cay__tar_is_end(const cay__tar_block *b); /* nothing but zeros */
void cay__tar_block_name(const cay__tar_block *b, char out[257]);
uint64_t cay__tar_padded(uint64_t size); /* rounded up to whole blocks */

/* "LENGTH KEY=VALUE\n", one after another: 1 with *out, 0 at the end, -1: it is not sound. A record
 * without '=' has no key (key_len 0). */
typedef struct cay__pax_record {
    const char *key, *value;
    size_t key_len, value_len;
} cay__pax_record;
int cay__pax_next(const char **at, const char *end, cay__pax_record *out);
bool cay__pax_is(const cay__pax_record *r, const char *key);
