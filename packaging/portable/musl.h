/* SPDX-License-Identifier: Apache-2.0 */
/* What glibc has and Debian 12's musl lacks; packaging/tarball includes it before each source. */
#pragma once
#ifndef __ASSEMBLER__ /* sources of images are assembler */
#include <limits.h>
#include <linux/stat.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE (1 << 0)
#define RENAME_EXCHANGE  (1 << 1)
#endif

#ifndef W_EXITCODE
#define W_EXITCODE(code, sig) ((code) << 8 | (sig))
#endif

static inline int renameat2(int from, const char *old, int to, const char *new, unsigned flags)
{
    return (int)syscall(SYS_renameat2, from, old, to, new, flags);
}

static inline int statx(int fd, const char *path, int flags, unsigned mask, struct statx *out)
{
    return (int)syscall(SYS_statx, fd, path, flags, mask, out);
}

/* musl's conditions wait by the wall clock: the time that is left by the other one is put onto it.
 */
static inline int pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                         clockid_t clock, const struct timespec *end)
{
    struct timespec now, wall;
    clock_gettime(clock, &now);
    clock_gettime(CLOCK_REALTIME, &wall);
    wall.tv_sec += end->tv_sec - now.tv_sec;
    wall.tv_nsec += end->tv_nsec - now.tv_nsec;
    if (wall.tv_nsec < 0) {
        wall.tv_sec--;
        wall.tv_nsec += 1000000000;
    } else if (wall.tv_nsec >= 1000000000) {
        wall.tv_sec++;
        wall.tv_nsec -= 1000000000;
    }
    return pthread_cond_timedwait(cond, mutex, &wall);
}
#endif
