/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon/init/session_ops.h - the worker's own parts: one request being served, and how answers are
 * packed.
 *
 * An operation returns 0 or -1 with errno, and session.c answers; or it answers itself and returns
 * CAY__SES_DONE, or CAY__SES_END when the session is over with it.
 */
#pragma once
#include <proto/session.h>
#include <base/fsop.h>
#include <stdbool.h>
#include <stddef.h>

enum { CAY__SES_DONE = 1, CAY__SES_END = 2 };

typedef struct cay__ses {
    int sock;
    cay__fs fs;
    const cay_ses_req *req;
    const char *path, *second, *data; /* the first two end with NUL */
    int fd;                           /* the descriptor that came along, or -1; the session's */
    char *in;                         /* CAY_SES_MAX bytes: the request */
    char *out;           /* CAY_SES_MAX bytes: the answer being packed, after its head */
    uint32_t len, count; /* what follows the answer's head so far */
    int64_t sent_ms;     /* when the last packet of this answer left */
    uint64_t a;
    uint16_t flags; /* of the final answer */
    int lock; /* held while a request is served, whose root is then "/"; -1: it has one root for
                 ever */
} cay__ses;

/* Takes the lock and opens the root; and gives both back, which an operation does by itself when it
 * needs names no more but goes on for long. Nothing where there is no lock. */
bool cay__ses_enter(cay__ses *s);
void cay__ses_leave(cay__ses *s);

/* Adds one record made of up to three parts; sends what is there when it is full or old. -1: client
 * gone, or the record can never fit (E2BIG). */
typedef struct cay__ses_part {
    const void *p;
    size_t n;
} cay__ses_part;
int cay__ses_record(cay__ses *s, const cay__ses_part *parts, int n);
/* Sends the answer with errno `sys`, and a descriptor unless it is -1. */
int cay__ses_answer(cay__ses *s, int sys, int fd);
/* The client closed its end. */
bool cay__ses_gone(void *s);

/* pump.c: 0 when fd is the read end of a pipe; the pipe's bytes into an upload, then its COMMIT. */
int cay__ses_is_pipe(int fd);
int cay__ses_receive(cay__ses *s, cay__fs_upload *up);
bool cay__ses_committed(cay__ses *s);

int cay__ses_read(cay__ses *s);
int cay__ses_put(cay__ses *s);
int cay__ses_upload(cay__ses *s);
int cay__ses_stat(cay__ses *s);
int cay__ses_list(cay__ses *s);
int cay__ses_mkdir(cay__ses *s);
int cay__ses_remove(cay__ses *s);
int cay__ses_rename(cay__ses *s);
int cay__ses_chmod(cay__ses *s);
int cay__ses_chown(cay__ses *s);
int cay__ses_symlink(cay__ses *s);
int cay__ses_getxattr(cay__ses *s);
int cay__ses_setxattr(cay__ses *s);
int cay__ses_listxattr(cay__ses *s);
int cay__ses_glob(cay__ses *s);
int cay__ses_grep(cay__ses *s);
int cay__ses_watch(cay__ses *s);
int cay__ses_ports(cay__ses *s);
int cay__ses_connect(cay__ses *s);
int cay__ses_ps(cay__ses *s);
__attribute__((weak)) int cay__ses_fill(
    cay__ses *s); /* fill.c: not in native's init, where a manifest is a layer */
