/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe - the hostile program of the attack cases. One static file, put into a sandbox and run
 * there:
 *
 *     probe NAME ARG…
 *
 * It tries what NAME tells and prints one line a finding, "ok NAME detail" or "breach NAME detail",
 * then "done NAME". The driver outside believes nothing else: a probe that dies early has not
 * passed.
 */
#pragma once
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

typedef struct probe {
    const char *name;
    void (*run)(int argc, char **argv);
} probe;

extern const probe ns_probes[], fs_probes[], proc_probes[], fd_probes[], sys_probes[], res_probes[],
    tty_probes[], net_probes[], egress_probes[];

__attribute__((format(printf, 1, 2))) void ok(const char *fmt, ...);
__attribute__((format(printf, 1, 2))) void breach(const char *fmt, ...);
/* The call must have failed with this errno: rc and errno are looked at. */
void must_fail(const char *what, long rc, int want);
/* As above, with two that are as good. */
void must_fail_by(const char *what, long rc, int want, int other);
/* The whole file, NUL-terminated; -1 and errno. */
ssize_t slurp(const char *path, char *buf, size_t cap);
/* A line of /proc/PID/status without its name, or "". */
const char *status_line(const char *pid, const char *key, char *buf, size_t cap);
/* Every number in /proc; calls fn for each. */
void each_pid(void (*fn)(int pid));
void nap(unsigned ms);
