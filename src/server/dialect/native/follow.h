/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server/dialect/native/follow.h - both streams of a process to one who listens, each byte with its
 * offset.
 *
 * A descriptor of cay_proc_output() tells when there is something; the bytes are read by offset, so
 * that what the ring dropped meanwhile is known exactly. What was read is then taken out of the
 * descriptor, too, since a process with on_full block waits for that.
 */
#pragma once
#include "native.h"

typedef struct cay__follow cay__follow;

/* How it is told; each adds to out. */
typedef struct cay__follow_ops {
    void (*start)(cay__follow *f, cay__buf *out); /* first; may be NULL */
    void (*data)(cay__follow *f, int which, uint64_t offset, const char *data, size_t n, bool last,
                 cay__buf *out); /* last: n is 0, no more comes */
    void (*lost)(cay__follow *f, int which, uint64_t offset, uint64_t bytes, cay__buf *out);
    void (*end)(cay__follow *f, const cay_exit *e, cay__buf *out);
    void (*fail)(cay__follow *f, const cay_err *err, cay__buf *out);
    void (*beat)(cay__follow *f, cay__buf *out); /* nothing else for 15 s; may be NULL */
    bool times;
} cay__follow_ops;

typedef struct cay__followed {
    int fd;        /* -1: over */
    uint64_t at;   /* of the next byte */
    uint64_t debt; /* bytes that were read and are still in fd */
    int64_t
        time_ms; /* when those that are told now came, for a teller that wants that; 0: not known */
    char carry[4]; /* the teller's: the beginning of a character */
    size_t ncarry;
} cay__followed;

struct cay__follow {
    cay_proc *p;
    const cay__follow_ops *teller;
    cay__followed s[2];
    int kick; /* eventfd: something is to be done that no stream tells */
    bool started;
    unsigned ready; /* streams to look at */
    void *more;     /* the teller's */
};

/* Takes p. offset: of stdout and stderr; CAY_FROM_NOW: from here on. */
int cay__follow_open(cay__follow *f, const cay_call *call, cay_proc *p, const uint64_t offset[2],
                     const cay__follow_ops *t, cay_err *err);
void cay__follow_close(cay__follow *f);
/* The functions of a pump whose self begins with a cay__follow. */
void cay__follow_pump(cay__follow *f, cay__pump *out);
int cay__follow_work(cay__pump *p, cay__buf *out);
