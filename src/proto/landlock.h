/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proto/landlock.h - a second fence around files, ports and signals that no capability opens again.
 *
 *   cay__landlock_abi()     what the kernel offers
 *   cay__landlock_scopes()  levels 2 and 3: keep signals and abstract sockets inside
 *   cay__landlock_grants()  only these trees, each with these rights
 *   cay__landlock_level1()  the main layer where there are no namespaces
 *
 * Each restricts the caller and what it starts, for ever; the caller has set PR_SET_NO_NEW_PRIVS.
 * Landlock says nothing of stat(2), chmod(2), chown(2), utimes or extended attributes: at level 1
 * these reach whatever the user owns. The caller has no capability left, for CAP_PERFMON alone
 * reads the environment of processes outside.
 */
#pragma once
#include <stddef.h>

typedef enum cay__ll_class {
    CAY_LL_READ,   /* read files, list directories */
    CAY_LL_EXEC,   /* and execute */
    CAY_LL_WRITE,  /* and make, change, remove anything but device nodes */
    CAY_LL_DEVICE, /* a device node: read, write, ioctl */
    CAY_LL_RUN,    /* execute a file, and read it; nothing else */
    CAY_LL_START,  /* execute only */
    CAY_LL_CHANGE, /* make, change, remove; not read, not execute */
    CAY_LL_KEEP    /* and read */
} cay__ll_class;

typedef struct cay__ll_grant {
    const char *path; /* opened when fd is -1, links followed */
    int fd;           /* O_PATH will do; stays the caller's */
    cay__ll_class access;
} cay__ll_grant;

/* 0 when the kernel has no Landlock or it is switched off. */
int cay__landlock_abi(void);

/* 0 with nothing done below ABI 6; or -errno. */
int cay__landlock_scopes(void);

enum {
    CAY_LL_NO_TCP = 1,   /* no bind, no connect (ABI 4) */
    CAY_LL_OPTIONAL = 2, /* grants that are not there are passed over */
};

/* 0, or -errno with *bad (may be NULL) the index of the grant that was at fault, else n. -ENOSYS
 * below ABI 3: until then truncate(2) goes round every rule. */
int cay__landlock_grants(const cay__ll_grant *grants, size_t n, unsigned flags, size_t *bad);

/* Grants as strings one behind the other, each NUL-terminated: a letter, then an absolute path. r:
 * read; w: read and change; c: change only; x: execute, and read that file; e: execute only; d: use
 * a device. What is not there is passed over. No scopes: who is fenced may signal its neighbours.
 * 0, or -errno; -ENOSYS below ABI 3. */
int cay__landlock_fence(const char *list, size_t len);

/* The system's programs and a few harmless files read-only, plus the caller's grants (workspace,
 * private temporary directory); TCP only with network. Errors as cay__landlock_grants(). */
int cay__landlock_level1(const cay__ll_grant *own, size_t n, int network, size_t *bad);
