/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proto/mnt.h - the mount calls and their constants, the same under glibc and musl.
 *
 * glibc 2.36's <sys/mount.h> and <linux/mount.h> exclude each other and musl's lacks the new calls,
 * so the kernel's header is taken and the two old functions are declared here.
 */
#pragma once
#include <base/kernel.h>
#include <base/mutant.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

int mount(const char *source, const char *target, const char *type, unsigned long flags,
          const void *data);
int umount2(const char *target, int flags);
#ifndef MNT_DETACH
#define MNT_DETACH 2
#endif
#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif

static inline int mnt_open_tree(int dir, const char *path, unsigned flags)
{
    return (int)syscall(SYS_open_tree, dir, path, OPEN_TREE_CLOEXEC | flags);
}
static inline int mnt_move(int from, const char *path, int to, const char *target, unsigned flags)
{
    return (int)syscall(SYS_move_mount, from, path, to, target, flags);
}
static inline int mnt_setattr(int dir, const char *path, unsigned flags, uint64_t set,
                              uint64_t clear, int userns)
{
    if (cay__kernel_lacks(CAY_KERNEL_MOUNT_SETATTR) ||
        ((set & MOUNT_ATTR_IDMAP) && cay__kernel_lacks(CAY_KERNEL_IDMAP)))
        return -1;
    struct mount_attr a = { .attr_set = set,
                            .attr_clr = clear,
                            .userns_fd = userns < 0 ? 0 : (uint64_t)userns };
    return (int)syscall(SYS_mount_setattr, dir, path, flags, &a, sizeof a);
}
/* Nothing that is mounted elsewhere appears below it, nor the other way round. */
static inline int mnt_private(int tree, unsigned rec)
{
    struct mount_attr a = { .propagation = CAY__MUTANT("propagation")
                                               ? 0
                                               : 1u << 18 }; /* MS_PRIVATE of mount(2) */
    return (int)syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH | rec, &a, sizeof a);
}
