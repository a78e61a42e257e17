/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon/init/seccomp_table.h - the rows of seccomp_table.def as an array, and what their words
 * mean.
 *
 * For the generator and the tests: it defines data, so nothing that runs in a sandbox includes it.
 */
#pragma once
#include <asm/unistd.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>

/* Calls younger than the oldest kernel headers we build with have one number on every architecture.
 */
#ifndef __NR_memfd_secret
#define __NR_memfd_secret 447
#endif
#ifndef __NR_cachestat
#define __NR_cachestat 451
#endif
#ifndef __NR_fchmodat2
#define __NR_fchmodat2 452
#endif
#ifndef __NR_map_shadow_stack
#define __NR_map_shadow_stack 453
#endif
#ifndef __NR_futex_wake
#define __NR_futex_wake    454
#define __NR_futex_wait    455
#define __NR_futex_requeue 456
#endif
#ifndef __NR_statmount
#define __NR_statmount 457
#define __NR_listmount 458
#endif
#ifndef __NR_lsm_get_self_attr
#define __NR_lsm_get_self_attr 459
#define __NR_lsm_set_self_attr 460
#define __NR_lsm_list_modules  461
#endif
#ifndef __NR_mseal
#define __NR_mseal 462
#endif
#ifndef __NR_setxattrat
#define __NR_setxattrat    463
#define __NR_getxattrat    464
#define __NR_listxattrat   465
#define __NR_removexattrat 466
#endif
#ifndef __NR_open_tree_attr
#define __NR_open_tree_attr 467
#endif
#ifndef __NR_file_getattr
#define __NR_file_getattr 468
#define __NR_file_setattr 469
#endif
#ifndef __NR_listns
#define __NR_listns 470
#endif
#ifdef __x86_64__
#ifndef __NR_uretprobe
#define __NR_uretprobe 335
#endif
#ifndef __NR_uprobe
#define __NR_uprobe 336
#endif
#endif

enum {
    CAY__SYS_PROFILES = 3,
    CAY__SYS_MAX = 1024
}; /* every number from CAY__SYS_MAX on is ENOSYS */

typedef enum cay__sysact {
    CAY__SYS_ALLOW,
    CAY__SYS_EPERM,
    CAY__SYS_ENOSYS,
    CAY__SYS_R_IOCTL,
    CAY__SYS_R_CLONE,
    CAY__SYS_R_UNSHARE,
    CAY__SYS_R_PRCTL,
    CAY__SYS_R_PERSONALITY,
    CAY__SYS_R_SECCOMP,
    CAY__SYS_R_SOCKET,
    CAY__SYS_R_SOCKETPAIR,
    CAY__SYS_R_SETSOCKOPT,
    CAY__SYS_R_SETRLIMIT,
    CAY__SYS_R_PRLIMIT,
    CAY__SYS_R_L1_SOCKET,
    CAY__SYS_R_L1_SOCKETPAIR,
    CAY__SYS_R_L1_PRLIMIT,
    CAY__SYS_ACTS,
} cay__sysact;

typedef struct cay__sysrow {
    const char *name; /* NULL: a group, whose title is in why[0] */
    int nr;
    uint8_t act[CAY__SYS_PROFILES]; /* by CAY_PROFILE_…: default, strict, nested */
    const char *why[2];             /* a row: why; a group: title and why */
} cay__sysrow;

static const cay__sysrow cay__sysrows[] = {
#define GROUP(title, reason) { .name = NULL, .nr = -1, .why = { title, reason } },
#define ROW(id, d, s, n, reason)                                                                   \
    { .name = #id,                                                                                 \
      .nr = __NR_##id,                                                                             \
      .act = { CAY__SYS_##d, CAY__SYS_##s, CAY__SYS_##n },                                         \
      .why = { reason, NULL } },
#define LEVEL1(id, action, reason)
#include "seccomp_table.def"
};
enum { CAY__SYS_ROWS = sizeof cay__sysrows / sizeof *cay__sysrows };

/* Only act[0] is used. */
static const cay__sysrow cay__sysrows_level1[] = {
#define GROUP(title, reason)
#define ROW(id, d, s, n, reason)
#define LEVEL1(id, action, reason)                                                                 \
    { .name = #id, .nr = __NR_##id, .act = { CAY__SYS_##action }, .why = { reason, NULL } },
#include "seccomp_table.def"
};
enum { CAY__SYS_LEVEL1 = sizeof cay__sysrows_level1 / sizeof *cay__sysrows_level1 };
