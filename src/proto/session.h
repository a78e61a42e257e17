/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proto/session.h - what a client says to the worker inside a sandbox, and what it answers.
 *
 * SOCK_SEQPACKET, one packet a message, at most CAY_SES_MAX bytes, numbers in host order. One
 * request at a time; a client that wants two things at once opens two sessions. A request is a head
 * and path NUL second NUL data; its answer a head and `count` records in `len` bytes. An answer
 * with CAY_SES_MORE is followed by another with the same seq. Records are packed without padding
 * and their names carry no NUL. An `op` and its numbers are never reinterpreted: new needs, new
 * ops.
 *
 * Both sides treat the other as hostile: the worker because a client may be confused, the client
 * because the worker lives among the tenant's processes.
 */
#pragma once
#include <stdint.h>

#define CAY_SES_MAGIC  0x31736566u /* "fes1" */
#define CAY_SES_MAX    65536u      /* a whole packet */
#define CAY_SES_INLINE 32768u      /* data of PUT and SETXATTR */
#define CAY_SES_PATH   4096u       /* a path or pattern, with its NUL */

enum cay_ses_op {
    CAY_SES_READ = 1, /* path; a: offset, b: length or 0; fds: [stream socket with one byte to
                         read]. Answered once all is in it, or with CAY_SES_BUSY before: then the
                         worker fills it and leaves. The byte is taken when everything was sent, so
                         a worker that dies makes ECONNRESET, not an end */
    CAY_SES_PUT,      /* path, data; a: mode; flags */
    CAY_SES_UPLOAD, /* path; a: mode; flags; fds: [read end of a pipe]. Answered when ready to take
                       bytes; then */
    CAY_SES_COMMIT, /* … is answered when the pipe ended and the file is in place. Hang-up instead:
                       no trace */
    CAY_SES_STAT,   /* path; flags FOLLOW → cay_ses_stat */
    CAY_SES_LIST,   /* path; a: depth → cay_ses_stat … */
    CAY_SES_MKDIR,  /* path; a: mode; flags PARENTS */
    CAY_SES_REMOVE,    /* path; flags RECURSIVE */
    CAY_SES_RENAME,    /* path, second: new path */
    CAY_SES_CHMOD,     /* path; a: mode */
    CAY_SES_CHOWN,     /* path; a: uid, b: gid; UINT32_MAX leaves it */
    CAY_SES_SYMLINK,   /* path, second: target */
    CAY_SES_GETXATTR,  /* path, second: name → len bytes, count 0 */
    CAY_SES_SETXATTR,  /* path, second: name, data; flags DROP removes */
    CAY_SES_LISTXATTR, /* path → cay_ses_name … */
    CAY_SES_GLOB,      /* path, second: pattern → cay_ses_stat … */
    CAY_SES_GREP,      /* path, second: pattern, data: include; a: max; flags PLAIN, NOCASE →
                          cay_ses_line … */
    CAY_SES_WATCH,   /* path; flags RECURSIVE. Answered when set, then one cay_ses_change a packet,
                        for ever */
    CAY_SES_PORTS,   /* → cay_ses_port … */
    CAY_SES_CONNECT, /* a: port → a: address family; fds: [socket, not yet connected] */
    CAY_SES_PS,      /* → cay_ses_ps … */
    CAY_SES_FILL, /* fds: [read end of a pipe]: cay_ses_item … until it ends. Answered when ready,
                     then COMMIT as after UPLOAD; of one that failed `a` is its place among them.
                     ENOSYS: this worker cannot, and it is done one by one */
    CAY_SES_OPS,
};

enum {
    CAY_SES_FOLLOW = 1,
    CAY_SES_PARENTS = 2,
    CAY_SES_APPEND = 4,
    CAY_SES_EXCLUSIVE = 8,
    CAY_SES_RECURSIVE = 16,
    CAY_SES_PLAIN = 32,
    CAY_SES_NOCASE = 64,
    CAY_SES_DROP = 128,
};
/* of an answer */
enum { CAY_SES_MORE = 1, CAY_SES_BUSY = 2 };

typedef struct cay_ses_req {
    uint32_t magic;
    uint16_t op, flags;
    uint32_t seq;
    uint32_t path, second, data; /* lengths of the three parts, without the NULs */
    uint64_t a, b;
} cay_ses_req;

typedef struct cay_ses_rep {
    uint32_t magic;
    uint16_t op, flags;
    uint32_t seq;
    int32_t sys; /* errno, 0: worked */
    uint32_t count, len;
    uint64_t a;
} cay_ses_rep;

typedef struct cay_ses_stat { /* then path, then target of a link */
    uint64_t size, inode;
    int64_t mtime_ns;
    uint32_t mode; /* with the type, as in stat(2) */
    uint32_t uid, gid, nlink;
    uint16_t path, target;
    uint32_t spare;
} cay_ses_stat;

typedef struct cay_ses_name {
    uint16_t len;
} cay_ses_name;

typedef struct cay_ses_line { /* then path, then text */
    uint64_t line, column;
    uint16_t path, text;
    uint32_t spare;
} cay_ses_line;

typedef struct cay_ses_change { /* then path, then from */
    uint8_t change;             /* a cay_change */
    uint8_t dir;
    uint16_t path, from;
    uint16_t spare;
} cay_ses_change;

typedef struct cay_ses_item { /* then path, absolute, then len bytes of a file, or a link's target
                               */
    uint64_t len;
    uint32_t mode, gid; /* gid UINT32_MAX: as it comes */
    uint16_t path;
    uint8_t type; /* 'd' directory, 'p' the same where there is none, 'f' file, 'l' link */
    uint8_t spare;
    uint32_t spare2;
} cay_ses_item;

typedef struct cay_ses_port {
    uint16_t port;
    uint16_t family; /* AF_INET or AF_INET6 */
    int32_t pid;     /* 0: not known */
    uint8_t addr[16];
} cay_ses_port;

typedef struct cay_ses_ps { /* then user, then command */
    int32_t pid, ppid;
    uint32_t uid;
    uint8_t state, tty;
    uint16_t user, command;
    uint16_t spare;
    uint32_t spare2;
    uint64_t cpu_us, rss;
    int64_t started_ms; /* wall clock */
} cay_ses_ps;
