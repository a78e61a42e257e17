/* SPDX-License-Identifier: Apache-2.0 */
/* cay serve --user NAME: root gives up being root before anything is opened, and all of it, keeper and sandboxes too, is that user's. */
#include "serve_user.h"
#include "cli.h"
#include "out.h"
#include <base/base.h>
#include <base/fd.h>
#include <base/str.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <sys/stat.h>

/* A directory that is that user's alone; one that is somebody else's is not taken. */
static int own_dir(const char *path, const struct passwd *pw, cay_err *err)
{
    struct stat st;
    bool made = mkdir(path, 0700) == 0;
    if (!made && errno != EEXIST)
        return cay_fail_sys(err, CAY_ESYS, "make %.200s", path);
    CAY_AUTOFD fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || (made && fchown(fd, pw->pw_uid, pw->pw_gid) < 0) || fstat(fd, &st) < 0)
        return cay_fail_sys(err, CAY_ESYS, "%.200s", path);
    if (st.st_uid != pw->pw_uid)
        return cay_fail_why(err, CAY_EPERM, "home_owner", "%.200s is not %.60s's (uid %u): another directory is named by --home", path, pw->pw_name, (unsigned)pw->pw_uid);
    return 0;
}

static bool give_up(const struct passwd *pw)
{
    return initgroups(pw->pw_name, pw->pw_gid) == 0 && setresgid(pw->pw_gid, pw->pw_gid, pw->pw_gid) == 0 && setresuid(pw->pw_uid, pw->pw_uid, pw->pw_uid) == 0 &&
           setresuid(0, 0, 0) < 0; /* there is no way back */
}

int serve_as(const char *name, cay_err *err)
{
    static char home[4096];
    char run[4096];
    const char *named = getenv("CAY_HOME");
    const struct passwd *pw = getpwnam(name);
    if (geteuid() != 0)
        return cay_fail(err, CAY_EPERM, "--user %.60s: only root becomes another user; start it as that one", name);
    if (!pw)
        return cay_fail(err, CAY_EINVAL, "--user %.60s: there is no such user; `useradd --system --home-dir /var/lib/cay-%.60s %.60s` makes it", name, name, name);
    if (pw->pw_uid == 0)
        return cay_fail(err, CAY_EINVAL, "--user %.60s: that is root", name);
    bool fits = cli.home || (named && *named) ? cay__str_copy(home, sizeof home, cli.home ? cli.home : named) : cay__str_join(home, sizeof home, "/var/lib/cay-", name, NULL);
    if (!fits || !cay__str_join(run, sizeof run, "/run/cay-", name, NULL))
        return cay_fail(err, CAY_EINVAL, "--user: the name of a directory is too long");
    CAY_TRY(own_dir(home, pw, err));
    CAY_TRY(own_dir(run, pw, err));
    setenv("CAY_HOME", home, 1);
    setenv("XDG_RUNTIME_DIR", run, 1);
    setenv("HOME", home, 1);
    unsetenv("XDG_DATA_HOME");
    unsetenv("XDG_CONFIG_HOME");
    cli.home = home;
    if (!give_up(pw))
        return cay_fail_sys(err, CAY_ESYS, "become %.60s", name);
    out_note("cay: as %s; a key: setpriv --reuid=%s --regid=%u --init-groups env CAY_HOME=%s XDG_RUNTIME_DIR=%s cay key create --scope admin", name, name, (unsigned)pw->pw_gid, home, run);
    return 0;
}
