/* SPDX-License-Identifier: Apache-2.0 */
/* A root filesystem of Debian packages, by mmdebstrap on this host and with the rights of who calls
 * it. Its scripts run in a user namespace of its own. */
#include "main.h"
#include <base/base.h>
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

/* Nothing that could be an option, or more than one word. */
static bool word_ok(const char *s, size_t n, const char *more)
{
    for (size_t i = 0; i < n; i++)
        if (!((s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z') ||
              (s[i] >= '0' && s[i] <= '9') || (i && strchr(more, s[i]))))
            return false;
    return n > 0 && n < 200;
}

static int include_text(const opt_list *packages, cay__buf *out, cay_err *err)
{
    cay__buf_str(out, "--include=ca-certificates");
    CAY_EACH_OF(package, packages->v, packages->n)
        for (const char *s = *package, *e; *s; s = *e ? e + 1 : e) {
            e = s + strcspn(s, ", ");
            if (e > s && !word_ok(s, (size_t)(e - s), "+.-:=~_"))
                return cay_fail_why(err, CAY_EINVAL, "debian_package",
                                    "--packages: %.*s is no package",
                                    (int)CAY_MIN(e - s, (ptrdiff_t)60), s);
            if (e > s)
                cay__buf_str(out, ",");
            cay__buf_add(out, s, (size_t)(e - s));
        }
    if (out->full)
        return cay_fail_why(err, CAY_ETOOBIG, "debian_package", "--packages: too many");
    return 0;
}

static int run_mmdebstrap(char *const *argv, int to, int *code, cay_err *err)
{
    posix_spawn_file_actions_t acts;
    pid_t pid;
    int status = 0;
    posix_spawn_file_actions_init(&acts);
    posix_spawn_file_actions_adddup2(&acts, to, 1);
    errno = posix_spawnp(&pid, argv[0], &acts, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&acts);
    if (errno == ENOENT)
        return cay_fail_why(err, CAY_ENOTSUP, "debian_tool",
                            "mmdebstrap is not installed: apt-get install mmdebstrap");
    if (errno)
        return cay_fail_sys(err, "start mmdebstrap");
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return cay_fail_sys(err, "wait for mmdebstrap");
    if (WIFEXITED(status))
        *code = WEXITSTATUS(status);
    else
        *code = 128 + WTERMSIG(status);
    return 0;
}

int cli_debian(const cli_debian_ask *ask, int *out, cay_err *err)
{
    CAY_AUTOBUF include = CAY__BUF(64u << 10);
    const char
        *tmp = getenv("TMPDIR"),
        *mirror =
            ask->mirror; /* without one, mmdebstrap takes Debian's own with updates and security */
    char *argv[12];
    int n = 0, code = 0;
    if (!word_ok(ask->suite, strlen(ask->suite), ".-"))
        return cay_fail_why(err, CAY_EINVAL, "debian_suite",
                            "--debian: %.60s is no release; it is bookworm, trixie, stable …",
                            ask->suite);
    if (mirror && ((!cay__str_starts(mirror, "http://") && !cay__str_starts(mirror, "https://") &&
                    !cay__str_starts(mirror, "file:/")) ||
                   strpbrk(mirror, " \t\n\"'")))
        return cay_fail_why(err, CAY_EINVAL, "debian_mirror", "--mirror: %.100s is no URL", mirror);
    CAY_TRY(include_text(ask->packages, &include, err));
    CAY_AUTOFD fd = open(cay__text_or(tmp, "/var/tmp"), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0)
        return cay_fail_sys(err, "a file for the root filesystem in %.150s",
                            cay__text_or(tmp, "/var/tmp"));
    const char *const words[] = { "mmdebstrap",
                                  "--quiet",
                                  "--mode=unshare",
                                  "--variant=minbase",
                                  "--format=tar",
                                  include.data,
                                  "--aptopt=Acquire::Languages \"none\"",
                                  ask->suite,
                                  "-",
                                  mirror };
    for (size_t i = 0; i < CAY_LEN(words); i++)
        if (ask->quiet || i != 1)
            argv[n++] = (char *)(uintptr_t)words[i];
    argv[n] = NULL;
    CAY_TRY(run_mmdebstrap(argv, fd, &code, err));
    if (code)
        return cay_fail_why(err, CAY_EUPSTREAM, "debian_failed",
                            "mmdebstrap ended with %d; what it said is above", code);
    *out = CAY_STEAL_FD(fd);
    return 0;
}
