/* SPDX-License-Identifier: Apache-2.0 */
#include "seccomp.h"
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <seccomp_filter.h> /* generated */

static int install(const struct sock_filter *ins, size_t n)
{
    struct sock_fprog prog = {.len = (unsigned short)n, .filter = (struct sock_filter *)ins};
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0 ? -errno : 0;
}

#define INSTALL(filter) install(filter, sizeof filter / sizeof *filter)

int cay__seccomp_install(int profile)
{
    switch (profile) {
    case CAY_PROFILE_DEFAULT: return INSTALL(cay__filter_default);
    case CAY_PROFILE_STRICT: return INSTALL(cay__filter_strict);
    case CAY_PROFILE_NESTED: return INSTALL(cay__filter_nested);
    }
    return -EINVAL;
}

int cay__seccomp_level1(int network)
{
    return network ? INSTALL(cay__filter_level1_network) : INSTALL(cay__filter_level1);
}
