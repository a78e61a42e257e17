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

void support_home_remove(char *home)
{
    CAY_AUTOFD fd = open(home, O_PATH | O_DIRECTORY | O_CLOEXEC);
    char run[CAY__RUN_MAX];
    if (fd >= 0 && cay__run_dir(fd, run, sizeof run, false, NULL) == 0)
        rmdir(run); /* a keeper that still runs has its socket there: then it stays */
    CAY_AUTOFD root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    cay__fs fs = { .root = root };
    if (cay__fs_remove(&fs, home, true) < 0)
        fprintf(stderr, "cannot remove %s: %s\n", home, strerror(errno));
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
