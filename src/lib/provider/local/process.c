/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Provider process, level 1: for hosts that forbid namespaces. Every process enters the jail of
 * jail.h before it executes; the rest is as in provider local. What has no wall here is told layer
 * by layer.
 */
#include "local.h"
#include <base/kernel.h>
#include <base/path.h>
#include <linux/landlock.h>
#include <lib/provider/provider.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define NO_NS    "level 1 has no namespaces"
#define NEED_NS  "use a host that allows user namespaces; cay doctor names what forbids them"
#define NO_GROUP "level 1 has no control group"
#define OFF(n)                                                                                     \
    {                                                                                              \
        n, "off", NO_NS, NEED_NS                                                                   \
    }
#define SCOPE_AT 8 /* the row that depends on the kernel */
static const cay_wall with_scope[] = {
    OFF("user-namespace"),
    OFF("mount-namespace"),
    OFF("pid-namespace"),
    OFF("ipc-namespace"),
    OFF("net-namespace"),
    { "no-new-privs", "on", "", "" },
    { "capabilities", "on", "", "" },
    { "landlock", "on",
      "writes only below the sandbox's own directory; reads there and in the system's programs",
      "" },
    [SCOPE_AT] = { "signal-scope", "on", "", "" },
    { "seccomp", "on", "", "" },
    { "socket-filter", "on",
      "no socket but connected pairs: network off, no service of the host within reach", "" },
    { "file-metadata", "off",
      "chmod, chown, utimes and extended attributes reach whatever this user owns: Landlock has no "
      "rule for them",
      NEED_NS },
    { "freeze", "soft", NO_GROUP ": processes are stopped one by one", NEED_NS },
    { "memory-limit", "soft", NO_GROUP ": the data segment of each process is bounded instead",
      NEED_NS },
    { "pids-limit", "soft", NO_GROUP ": the user's processes together are bounded", NEED_NS },
    { "cpu-limit", "off", NO_GROUP, NEED_NS },
    { "io-limit", "off", NO_GROUP, NEED_NS },
    { "disk-quota", "soft", "each file is bounded, their sum is not", NEED_NS },
    { "nofile-limit", "on", "", "" },
    { "egress-policy", "off", "there is no network inside", NEED_NS },
    { "own-ids", "off", "its processes are this user's", NEED_NS },
};
static const cay_wall no_scope = { "signal-scope", "off",
                                   "this kernel's Landlock cannot keep signals inside",
                                   "use a kernel since 6.12" };

static int landlock_abi(void)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (abi >= 6 && cay__kernel_lacks(CAY_KERNEL_LANDLOCK_SCOPE))
        return 5;
    if (abi > 0)
        return (int)abi;
    return 0;
}

static const cay_wall *list_layers(size_t *n)
{
    static cay_wall old[CAY_LEN(with_scope)];
    *n = CAY_LEN(with_scope);
    if (landlock_abi() >= 6)
        return with_scope;
    /* The same bytes, whoever writes them. */
    memcpy(old, with_scope, sizeof old);
    old[SCOPE_AT] = no_scope;
    return old;
}

/* cay-local tries every step on itself and tells the one that failed. */
static int try_jail(const local *l, char *line, size_t cap, cay_err *err)
{
    char prog[4096];
    int fds[2];
    pid_t pid;
    posix_spawn_file_actions_t acts;
    char *argv[] = { prog, "--try", NULL }, *env[] = { NULL };
    CAY_TRY(cay__libexec_find(l->libexec, "cay-local", prog, sizeof prog, err));
    CAY_TRY_SYS(pipe2(fds, O_CLOEXEC), err, "pipe");
    CAY_AUTOFD rd = fds[0], wr = fds[1];
    posix_spawn_file_actions_init(&acts);
    posix_spawn_file_actions_adddup2(&acts, wr, 1);
    int e = posix_spawn(&pid, prog, &acts, NULL, argv, env);
    posix_spawn_file_actions_destroy(&acts);
    if (e) {
        errno = e;
        return cay_fail_sys(err, "start %s", prog);
    }
    cay__close_fd(&wr);
    ssize_t n = cay__fd_read_all(rd, line, cap - 1);
    line[CAY_MAX(n, 0)] = 0;
    line[strcspn(line, "\n")] = 0;
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    return 0;
}

static const struct {
    const char *step, *why, *remedy;
} causes[] = {
    { "root",
      "as root every file of root could be given away by chmod, which no layer of level 1 covers",
      "run cay as an ordinary user" },
    { "landlock", "the kernel has no Landlock, or one too old to hold (before 6.2)",
      "boot a kernel since 6.2 with lsm=landlock,…" },
    { "seccomp", "the kernel has no system call filter",
      "use a kernel with CONFIG_SECCOMP_FILTER" },
};

/* 0, or CAY_EISOLATION with the layer that is missing in *out. */
static int check_jail(const local *l, cay_wall *out, cay_err *err)
{
    char line[128];
    static const cay_wall other = { "level-1", "off", "a step of the jail failed", "" };
    CAY_TRY(try_jail(l, line, sizeof line, err));
    if (!strcmp(line, "ok"))
        return 0;
    *out = other;
    size_t n = strcspn(line, ":");
    CAY_EACH(cause, causes)
        if (strlen(cause->step) == n && !strncmp(line, cause->step, n))
            *out = (cay_wall){ strcmp(cause->step, "root") ? cause->step : "own-ids", "off",
                               cause->why, cause->remedy };
    return cay_fail_why(err, CAY_EISOLATION, "level_missing",
                        "level 1 (process) cannot be had here: %s (%s)%s%s", out->why, line,
                        *out->remedy ? "; " : "", out->remedy);
}

static int op_probe(void *self, cay_probe **out, cay_err *err)
{
    cay_wall bad;
    cay_err why = CAY_ERR_INIT;
    size_t n;
    const cay_wall *all = list_layers(&n);
    int rc = check_jail(self, &bad, &why);
    if (rc < 0 && rc != CAY_EISOLATION) {
        if (err)
            *err = why;
        return rc;
    }
    if (rc < 0)
        *out = cay__probe_new(CAY_LEVEL_NONE, "none", &bad, 1);
    else
        *out = cay__probe_new(CAY_LEVEL_PROCESS, "process", all, n);
    return 0;
}

static int fail_unsupported(cay_err *err, const char *what, const char *remedy)
{
    return cay_fail_why(err, CAY_ENOTSUP, "not_supported",
                        "level 1 (process) cannot give %s: it has no namespaces; %s", what, remedy);
}

static bool is_unusual(const char *given, const char *usual)
{
    return given && *given && strcmp(given, usual) != 0;
}

static int check_features(const char *const *require, cay_err *err)
{
    size_t n;
    const cay_wall *all = list_layers(&n);
    for (; require && *require; require++) {
        const cay_wall *hit = NULL;
        CAY_EACH_OF(it, all, n)
            if (!strcmp(it->name, *require))
                hit = it;
        if (!hit || strcmp(hit->state, "on") != 0)
            return cay_fail_why(err, CAY_EISOLATION, "feature_missing",
                                "level 1 (process) lacks %.60s: %s; %s", *require,
                                hit ? hit->why : "no such feature",
                                hit ? hit->remedy : "cay doctor lists those there are");
    }
    return 0;
}

static int check_spec(local *l, const cay_box_spec *spec, cay_err *err)
{
    const cay_create *s = spec->create;
    cay_wall bad;
    if (s->isolation.min_level > CAY_LEVEL_PROCESS)
        return cay_fail_why(err, CAY_EISOLATION, "level_missing",
                            "provider process gives level 1 and %d was asked for; %s",
                            s->isolation.min_level, NEED_NS);
    CAY_TRY(check_features(s->isolation.require, err));
    if (is_unusual(s->from.template_, "host"))
        return fail_unsupported(err, "templates other than host", NEED_NS);
    if (s->from.root && *s->from.root)
        return fail_unsupported(err, "another root filesystem (--root)", NEED_NS);
    if (s->files.ngrants)
        return fail_unsupported(err, "mounts", "copy the directory in with cay cp");
    if (spec->nlayers)
        return cay_fail_why(
            err, CAY_ENOTSUP, "snapshot_unsupported",
            "provider process has no snapshots: its workspace is a plain directory; %s", NEED_NS);
    if (is_unusual(s->hostname, "cay"))
        return fail_unsupported(err, "a host name of its own", "leave --hostname out");
    if (is_unusual(s->process.user, "user"))
        return fail_unsupported(err, "another user", "leave --user out: commands run as you");
    if (s->process.workdir && (s->process.workdir[0] != '/' || strlen(s->process.workdir) > 256 ||
                               strstr(s->process.workdir, "..")))
        return cay_fail_why(err, CAY_EINVAL, "spec_invalid",
                            "workdir %.60s: give an absolute path of at most 256 bytes",
                            s->process.workdir);
    return check_jail(l, &bad, err);
}

static const local_kind process = { "process", "/p", CAY_LEVEL_PROCESS, check_spec, list_layers };

static int op_open(const cay_provider_conf *conf, void **self, cay_err *err)
{
    return cay__local_open(conf, &process, self, err);
}

const cay_provider_ops cay__process = { CAY__LOCAL_OPS, .name = "process", .open = op_open,
                                        .probe = op_probe };
