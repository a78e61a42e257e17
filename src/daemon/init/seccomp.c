/* SPDX-License-Identifier: Apache-2.0 */
#include <proto/seccomp.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <seccomp_filter.h> /* generated */

static int install_filter(const struct sock_filter *ins, size_t n)
{
    struct sock_fprog prog = { .len = (unsigned short)n, .filter = (struct sock_filter *)ins };
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0)
        return -errno;
    return 0;
}

#define INSTALL(filter) install_filter(filter, sizeof filter / sizeof *filter)

int cay__seccomp_install(int profile)
{
    switch (profile) {
    case CAY_PROFILE_DEFAULT: return INSTALL(cay__filter_default);
    case CAY_PROFILE_STRICT: return INSTALL(cay__filter_strict);
    case CAY_PROFILE_NESTED: return INSTALL(cay__filter_nested);
    }
    return -EINVAL;
}

int cay__seccomp_install_keyed(const uint64_t key[CAY_CLONE_KEY])
{
    enum { WORDS = 2 * CAY_CLONE_KEY, LOCK = 2 + 2 * WORDS + 1 };
    struct sock_filter f[LOCK + sizeof cay__filter_default / sizeof *cay__filter_default];
    uint32_t word[WORDS];
    size_t n = 0;
    memcpy(word, key, sizeof word); /* in memory order, as seccomp_data has its arguments */
    f[n++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    f[n] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0,
                                        (uint8_t)(LOCK - n - 1));
    n++;
    for (unsigned i = 0; i < WORDS; i++) {
        f[n++] = (struct sock_filter)BPF_STMT(
            BPF_LD | BPF_W | BPF_ABS, (uint32_t)(offsetof(struct seccomp_data, args[2]) + 4 * i));
        f[n] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, word[i], 0,
                                            (uint8_t)(LOCK - n - 1));
        n++;
    }
    f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    memcpy(f + n, cay__filter_default, sizeof cay__filter_default); /* its jumps are relative */
    return install_filter(f, sizeof f / sizeof *f);
}

int cay__seccomp_level1(int network)
{
    if (network)
        return INSTALL(cay__filter_level1_network);
    return INSTALL(cay__filter_level1);
}
