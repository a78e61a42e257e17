/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/call.h - what a caller hands in: a cay_call, with its deadline and its cancel descriptor,
 * and public structs that begin with their size, and so may grow.
 */
#pragma once
#include <cay/error.h>

/* 0 while the call may go on; CAY_ETIMEOUT or CAY_ECANCELED, naming `what`, once it may not. */
int cay__call_check(const cay_call *call, const char *what, cay_err *err);
/* Waits until fd has one of `events` (or has failed or hung up). */
int cay__call_wait(const cay_call *call, int fd, short events, const char *what, cay_err *err);
/* Milliseconds that poll(2) may wait; -1 without a deadline. */
int cay__call_left(const cay_call *call);
/* The same call with its cancel, which ends in so many milliseconds at the latest; `call` may be
 * NULL. */
cay_call cay__call_within(const cay_call *call, int ms);
/* A copy to change, as large as it is here: what an older caller's struct does not have is 0.
 * `call` may be NULL. */
cay_call cay__call_copy(const cay_call *call);
/* Its cancel descriptor, or -1: poll(2) skips it then. */
int cay__call_cancel(const cay_call *call);
/* Whose rights its file calls have, or NULL. */
const char *cay__call_user(const cay_call *call);

/* An operation that is told to call->on_op when its function returns. CAY__OP() stands first in the
 * function; what failed is read from err. */
typedef struct cay__op {
    const cay_call *call; /* NULL: nobody asks */
    const char *name;
    char sandbox[24], process[24]; /* ids */
    int64_t began_ns;
    const cay_err *err;
    int before;                      /* what err held before */
    const char *path, *shell, *user; /* where it is known; they outlive the operation */
    const char *const *argv;
    uint64_t bytes;
    int exit_code;
    bool exited;        /* exit_code is known */
    bool alive, looked; /* looked: alive is known */
    uint16_t port;
    const struct cay_endpoint *endpoint; /* outlives the operation */
    uint64_t timeout_ms;
} cay__op;
#define CAY__OP(call, name, sandbox, err)                                                          \
    __attribute__((cleanup(cay__op_end), unused)) cay__op op_ =                                    \
        cay__op_begin(call, name, sandbox, err)
cay__op cay__op_begin(const cay_call *call, const char *name, const char *sandbox,
                      const cay_err *err);
void cay__op_end(cay__op *op);
/* What is known later. */
void cay__op_sandbox(cay__op *op, const char *id);
void cay__op_process(cay__op *op, const char *id);
void cay__op_exit(cay__op *op, int code);
void cay__op_alive(cay__op *op, bool alive);

/* Copies a caller's spec, which begins with its size, into our possibly longer or shorter struct:
 * what the caller does not know is zero; a field that we do not know must be zero. src may be NULL.
 */
int cay__spec_take(void *dst, size_t dst_size, const void *src, const char *name, cay_err *err);
/* The other way round for an answer; a size of 0 in *dst means all of it. Keeps the caller's size.
 */
void cay__answer_give(void *dst, const void *src, size_t src_size);
