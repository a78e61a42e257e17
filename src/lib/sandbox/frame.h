/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/sandbox/frame.h - where one command's output begins and ends in a stream of a shell.
 *
 * The shell prints RS cay<NONCE RS before a command and RS cay>NONCE CODE KIND RS after it, on both
 * of its streams; RS is the byte 036, and every command has a nonce of its own. What is between the
 * marks of ours is its output; what looks like a mark and is none is output as well.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#define CAY__FRAME_MARK 48 /* longer than any mark */
#define CAY__NONCE      21 /* as an id, with its NUL */

typedef struct cay__frame {
    char nonce[CAY__NONCE]; /* ours, or "" */
    char open[CAY__NONCE];  /* whose output comes now; "": between two commands */
    bool any;               /* a mark was seen: the shell is there */
    bool begun, done;       /* our own ones */
    int code;               /* of ours, once done */
    char kind;              /* 'b' bash, 's' sh, as the last mark said */
    char hold[CAY__FRAME_MARK];
    size_t held;
} cay__frame;

/* The marks of `nonce` are waited for from now on. */
void cay__frame_expect(cay__frame *f, const char *nonce);
/* Takes the next bytes of the stream and hands on those between our marks, in pieces. A return of
 * fn other than 0 is returned; the rest of the bytes is taken all the same, without calling it
 * again. */
int cay__frame_feed(cay__frame *f, const char *data, size_t len,
                    int (*fn)(const char *data, size_t len, void *arg), void *arg);
