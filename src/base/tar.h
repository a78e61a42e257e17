/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/tar.h - tar archives as they come and go: ustar, pax, and the long names of GNU.
 *
 *   cay__tar_next()   the next member of a stream      cay__tar_bytes()  what it holds, in pieces
 *   cay__tar_head()   the head of a member, written
 *
 * Memory is constant. A name is told as it stands: whoever writes files by it judges it. Sums are
 * checked, numbers have one spelling.
 */
#pragma once
#include "buf.h"

enum { CAY__TAR_NAME = 4096 };

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
