/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proto/landlock_abi.h - the kernel's Landlock interface up to ABI 7, as we use it.
 *
 * Our own, because the headers we build with may be older than the kernel we run on.
 * See landlock(7) and Documentation/userspace-api/landlock.rst.
 */
#pragma once
#include <stdint.h>

#define CAY_LL_CREATE_VERSION (1u << 0) /* landlock_create_ruleset(2) then tells the ABI */

enum { CAY_LL_RULE_PATH = 1, CAY_LL_RULE_PORT = 2 };

/* A shorter size is an older ABI to the kernel. */
typedef struct cay__ll_ruleset {
    uint64_t fs;
    uint64_t net;   /* ABI 4 */
    uint64_t scope; /* ABI 6 */
} cay__ll_ruleset;

typedef struct __attribute__((packed)) cay__ll_path {
    uint64_t access;
    int32_t fd;
} cay__ll_path;

#define CAY_LL_FS_EXECUTE          (1ull << 0)
#define CAY_LL_FS_WRITE_FILE       (1ull << 1)
#define CAY_LL_FS_READ_FILE        (1ull << 2)
#define CAY_LL_FS_READ_DIR         (1ull << 3)
#define CAY_LL_FS_REMOVE_DIR       (1ull << 4)
#define CAY_LL_FS_REMOVE_FILE      (1ull << 5)
#define CAY_LL_FS_MAKE_CHAR        (1ull << 6)
#define CAY_LL_FS_MAKE_DIR         (1ull << 7)
#define CAY_LL_FS_MAKE_REG         (1ull << 8)
#define CAY_LL_FS_MAKE_SOCK        (1ull << 9)
#define CAY_LL_FS_MAKE_FIFO        (1ull << 10)
#define CAY_LL_FS_MAKE_BLOCK       (1ull << 11)
#define CAY_LL_FS_MAKE_SYM         (1ull << 12)
#define CAY_LL_FS_REFER            (1ull << 13) /* ABI 2 */
#define CAY_LL_FS_TRUNCATE         (1ull << 14) /* ABI 3 */
#define CAY_LL_FS_IOCTL_DEV        (1ull << 15) /* ABI 5 */

#define CAY_LL_NET_BIND_TCP        (1ull << 0) /* ABI 4 */
#define CAY_LL_NET_CONNECT_TCP     (1ull << 1)

#define CAY_LL_SCOPE_ABSTRACT_UNIX (1ull << 0) /* ABI 6 */
#define CAY_LL_SCOPE_SIGNAL        (1ull << 1)

#define CAY_LL_LOG_SAME_EXEC_OFF   (1u << 0) /* ABI 7, flags of landlock_restrict_self(2) */
#define CAY_LL_LOG_NEW_EXEC_ON     (1u << 1)
#define CAY_LL_LOG_SUBDOMAINS_OFF  (1u << 2)

#ifndef __NR_landlock_create_ruleset
#define __NR_landlock_create_ruleset 444
#define __NR_landlock_add_rule       445
#define __NR_landlock_restrict_self  446
#endif
