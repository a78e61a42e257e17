/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay serve --user NAME: root gives up being root before anything is opened, and all of it, keeper
 * and sandboxes too, is that user's. With --root-keeper the server alone is: cay-hand stays root,
 * gives it up for the server and keeps what needs root (proto/root_helper.h).
 */
#include "main.h"
#include "cli.h"
#include "out.h"
#include <base/base.h>
#include <base/sanitize.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <sys/syscall.h>

/* A directory that is that user's alone; one that is somebody else's is not taken. */
static int own_dir(const char *path, const struct passwd *pw, cay_err *err)
{
    struct stat st;
    bool made = mkdir(path, 0700) == 0;
    if (!made && errno != EEXIST)
        return cay_fail_sys(err, "make %.200s", path);
    CAY_AUTOFD fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || (made && fchown(fd, pw->pw_uid, pw->pw_gid) < 0) || fstat(fd, &st) < 0)
        return cay_fail_sys(err, "%.200s", path);
    if (st.st_uid != pw->pw_uid)
        return cay_fail_why(err, CAY_EPERM, "home_owner",
                            "%.200s is not %.60s's (uid %u): another directory is named by --home",
                            path, pw->pw_name, (unsigned)pw->pw_uid);
    return 0;
}

static bool give_up(const struct passwd *pw)
{
    return initgroups(pw->pw_name, pw->pw_gid) == 0 &&
           setresgid(pw->pw_gid, pw->pw_gid, pw->pw_gid) == 0 &&
           setresuid(pw->pw_uid, pw->pw_uid, pw->pw_uid) == 0 &&
           setresuid(0, 0, 0) < 0; /* there is no way back */
}

/* Variables that a server reads and that are not root's own matters; docs/server.md names them. */
static bool is_kept_variable(const char *var)
{
    static const char *const begin[] = {
        "CAY_",        "SANDBOX_",         "OTEL_",    "LC_", "DOCKER_",
        "AWS_REGION=", "AWS_ENDPOINT_URL", "SSL_CERT_"
    };
    static const char *const whole[] = {
        "PATH",           "LANG",           "TZ",
        "TERM",           "NO_COLOR",       "TMPDIR",
        "http_proxy",     "https_proxy",    "no_proxy",
        "HTTP_PROXY",     "HTTPS_PROXY",    "NO_PROXY",
        "CURL_CA_BUNDLE", "CONTAINER_HOST", "CREDENTIALS_DIRECTORY"
    };
    CAY_EACH(item, begin)
        if (cay__str_starts(var, *item))
            return true;
    CAY_EACH(it, whole)
        if (cay__str_starts(var, *it) && var[strlen(*it)] == '=')
            return true;
    return CAY__SANITIZED && strstr(var, "SAN_OPTIONS=");
}

/* What root had open, where it stood and what its shell knew is not that user's. */
static int leave_behind(const opt_list *listen, cay_err *err)
{
    size_t n = 0;
    for (char **v = environ; v && *v; v++)
        if (is_kept_variable(*v))
            environ[n++] = *v;
    if (environ)
        environ[n] = NULL;
    if (chdir("/") < 0 || syscall(SYS_close_range, 3u, ~0u, 4u /* CLOSE_RANGE_CLOEXEC */) < 0)
        return cay_fail_sys(err, "leave what root has open");
    CAY_EACH_OF(it, listen->v, listen->n) {
        uint64_t fd;
        if (cay__str_starts(*it, "fd:") && cay__str_to_u64(*it + 3, &fd) && fd >= 3 && fd < 1024)
            fcntl((int)fd, F_SETFD, 0); /* if it is none, the server says so */
    }
    return 0;
}

int serve_as(const char *name, bool root_keeper, const opt_list *listen, cay_err *err)
{
    static char home[PATH_MAX];
    char run[PATH_MAX], given[PATH_MAX];
    const char *named = getenv("CAY_HOME");
    const struct passwd *pw = getpwnam(name);
    if (geteuid() != 0)
        return cay_fail(err, CAY_EPERM,
                        "--user %.60s: only root becomes another user; start it as that one", name);
    if (!pw)
        return cay_fail(err, CAY_EINVAL,
                        "--user %.60s: there is no such user; `useradd --system --home-dir "
                        "/var/lib/cay-%.60s %.60s` makes it",
                        name, name, name);
    if (pw->pw_uid == 0)
        return cay_fail(err, CAY_EINVAL, "--user %.60s: that is root", name);
    bool fits;
    if (cli.home || (named && *named))
        fits = CAY_COPY(given, CAY_OR(cli.home, named));
    else
        fits = CAY_JOIN(given, "/var/lib/cay-", name);
    if (!fits || !CAY_JOIN(run, "/run/cay-", name))
        return cay_fail(err, CAY_EINVAL, "--user: the name of a directory is too long");
    CAY_TRY(own_dir(given, pw, err));
    CAY_TRY(own_dir(run, pw, err));
    if (!realpath(given, home))
        return cay_fail_sys(err, "%.200s", given);
    CAY_TRY(leave_behind(listen, err));
    setenv("CAY_HOME", home, 1);
    setenv("XDG_RUNTIME_DIR", run, 1);
    setenv("HOME", home, 1);
    cli.home = home;
    if (!root_keeper && !give_up(pw))
        return cay_fail_sys(err, "become %.60s", name);
    out_note("cay: as %s; a key: setpriv --reuid=%s --regid=%u --init-groups env CAY_HOME=%s "
             "XDG_RUNTIME_DIR=%s cay key create --scope admin",
             name, name, (unsigned)pw->pw_gid, home, run);
    return 0;
}
