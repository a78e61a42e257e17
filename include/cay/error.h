/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay/error.h - what a call that fails tells its caller.
 *
 *   cay_err          a value on the caller's stack, nothing to free
 *   cay_fail()       fill it and return the code        (for implementers)
 *   cay_wrap()       put context in front of a message  (for implementers)
 *   cay_code_name()  the stable name of a code: "ENOENT"
 *
 * A function that can fail returns 0 or one of the negative codes below. `err` may be NULL.
 * On failure `*out` is untouched.
 */
#pragma once
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CAY_API __attribute__((visibility("default")))

typedef enum cay_code {
    CAY_OK = 0,
    CAY_EINVAL = -1,      /* the request is wrong; the message names the field */
    CAY_EAUTH = -2,       /* who are you */
    CAY_EPERM = -3,       /* you may not */
    CAY_ENOENT = -4,      /* no such sandbox, process, file, template */
    CAY_EEXIST = -5,      /* it is there already */
    CAY_ETYPE = -6,       /* there, but of the wrong kind (a directory, a FIFO) */
    CAY_ESTATE = -7,      /* the sandbox is not in a state that allows it */
    CAY_EBUSY = -8,       /* try again soon */
    CAY_EGONE = -9,       /* it ended while you were using it */
    CAY_ERATE = -10,      /* too many requests */
    CAY_ETOOBIG = -11,    /* over a stated limit */
    CAY_ENOSPACE = -12,   /* disk, memory, ids or descriptors ran out */
    CAY_ETIMEOUT = -13,   /* the deadline of the call passed */
    CAY_ECANCELED = -14,  /* the cancel descriptor became readable */
    CAY_ENOTSUP = -15,    /* this provider or host cannot do that */
    CAY_EISOLATION = -16, /* the host cannot give the isolation asked for */
    CAY_EUPSTREAM = -17,  /* a remote service answered wrongly */
    CAY_ESYS = -18,       /* a system call failed; see sys */
} cay_code;

enum { CAY_RETRY_UNKNOWN = 0, CAY_RETRY_YES = 1, CAY_RETRY_NO = 2 };

typedef struct cay_err {
    size_t size;             /* sizeof(cay_err) */
    int code;                /* a cay_code */
    int sys;                 /* the errno behind it, or 0 */
    int retry;               /* would the same call help: CAY_RETRY_… */
    uint32_t retry_after_ms; /* 0 when not known */
    char reason[40];         /* a stable word for programs: "sandbox_not_found" */
    char msg[256];           /* one line, lower case, names the thing and the remedy */
    char detail[768];        /* one JSON object, or empty */
} cay_err;

#define CAY_ERR_INIT                                                                               \
    {                                                                                              \
        .size = sizeof(cay_err)                                                                    \
    }

/* One operation on a sandbox that was done for a call, for whoever traces it. Everything lives
 * during tell(). */
typedef struct cay_op {
    size_t size;
    const char *name;            /* "process.start", "file.read" */
    const char *sandbox;         /* its id; "" when there is none */
    const char *process;         /* the id of a process that it was about; "" without */
    int64_t began_ns, ended_ns;  /* since 1970 */
    const struct cay_err *fault; /* NULL: it was done */
    const char *path; /* of files; else NULL. What follows may hold secrets: no trace is told it */
    const char *const *argv; /* of process.start: the command, or */
    const char *shell, *user;
    uint64_t bytes;       /* of file.write */
    const int *exit_code; /* of process.run, process.wait and shell.run: what the command ended
                             with; NULL when it did not */
    uint16_t port;        /* of port.connect and port.endpoint: the sandbox's; else 0 */
    const struct cay_endpoint
        *endpoint;       /* of port.endpoint: where it is reached; NULL when nowhere */
    const bool *alive;   /* of sandbox.describe: whether it runs; NULL when that is not known */
    uint64_t timeout_ms; /* of process.start; 0: none */
} cay_op;

/* How a call that may block is bounded. NULL means no bound. */
typedef struct cay_call {
    size_t size;
    int64_t deadline_ms;           /* CLOCK_MONOTONIC milliseconds; 0 means none */
    int cancel_fd;                 /* readable means stop: CAY_ECANCELED; 0 means none */
    const char *trace;             /* trace parent, W3C form, or NULL */
    const char *actor;             /* who asks, for the audit trail, or NULL */
    const struct cay_fence *fence; /* what the work may touch: cay/sandbox.h; NULL: everything */
    void (*on_op)(
        void *arg,
        const cay_op *op); /* after each operation, on the thread that did it; NULL: nobody asks */
    void *on_op_arg;
    const char *user; /* whose rights file calls have that name no user themselves: stat, list,
                         mkdir, rename, remove, watch, …; NULL: the sandbox's default user */
} cay_call;

CAY_API const char *cay_code_name(int code);

/* Each fills *err (if any) and returns the code. The _sys forms append the text of errno and keep
 * errno in err->sys; cay_fail_sys() returns the code that errno stands for. */
CAY_API int cay_fail(cay_err *err, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
CAY_API int cay_fail_sys(cay_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
CAY_API int cay_fail_sys_as(cay_err *err, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The same with a stable reason word for programs. */
CAY_API int cay_fail_why(cay_err *err, int code, const char *reason, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Puts "context: " in front of a message that is already there; returns code. A code that is no
 * failure only passes through. */
CAY_API int cay_wrap(cay_err *err, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The cay_code an errno stands for: ENOENT → CAY_ENOENT, … else CAY_ESYS. */
CAY_API int cay_code_of_errno(int e);

#ifdef __cplusplus
}
#endif
