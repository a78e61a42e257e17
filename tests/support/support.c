/* SPDX-License-Identifier: Apache-2.0 */
#include "support.h"
#include <base/base.h>
#include <base/fd.h>
#include <base/fsop.h>
#include <base/path.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>

char *support_home(void)
{
    const char *tmp = getenv("TMPDIR");
    char path[4096];
    snprintf(path, sizeof path, "%s/cay-test-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(path))
        abort();
    return cay__strdup(path);
}

typedef struct leaving {
    int root;
    const char *home;
    char run[CAY__RUN_MAX], sock[CAY__RUN_MAX + 16];
} leaving;

/* A keeper may still be removing what was destroyed, under ids that only it may touch. */
static bool home_gone(void *arg)
{
    leaving *l = arg;
    cay__fs fs = { .root = l->root };
    return cay__fs_remove(&fs, l->home, true) == 0 || errno == ENOENT;
}

static bool keeper_gone(void *arg)
{
    leaving *l = arg;
    return access(l->sock, F_OK) < 0;
}

void support_home_remove(char *home)
{
    CAY_AUTOFD fd = open(home, O_PATH | O_DIRECTORY | O_CLOEXEC);
    CAY_AUTOFD root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    leaving l = { .root = root, .home = home };
    bool run = fd >= 0 && cay__run_dir(fd, l.run, sizeof l.run, false, NULL) == 0;
    bool gone = support_until(home_gone, &l, 2000);
    if (!gone &&
        geteuid() ==
            0) /* an ordinary user's overlays leave what only the keeper or root can remove */
        fprintf(stderr, "cannot remove %s: %s\n", home, strerror(errno));
    cay__close_fd(&fd);
    snprintf(l.sock, sizeof l.sock, "%s/keeper.sock", l.run);
    /* Its directory's number may be given to the next home, and that must not find this keeper. */
    if (run && gone && support_until(keeper_gone, &l, 5000))
        rmdir(l.run);
    free(home);
}

const char *support_libexec(void)
{
    const char *s = getenv("CAY_LIBEXEC");
    return s && *s ? s : SUPPORT_BUILD;
}

bool support_until(bool (*fn)(void *arg), void *arg, int ms)
{
    int64_t end = cay__now_ms() + ms;
    while (!fn(arg)) {
        if (cay__now_ms() > end)
            return false;
        poll(NULL, 0, 5);
    }
    return true;
}
