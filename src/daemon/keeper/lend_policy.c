/* SPDX-License-Identifier: Apache-2.0 */
/* Policies on disk, sandboxes/ID/policy: "cay-policy REVISION", spaces up to 39 bytes, newline, the
 * text. */
#include "lend_inside.h"
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { HEAD = 40 };

static void path_of(char *out, size_t cap, const char *id, const char *name)
{
    cay__str_join(out, cap, "sandboxes/", id, name, NULL);
}

static bool copy_text(int from, off_t at, int to)
{
    char buf[16384];
    for (ssize_t n; (n = pread(from, buf, sizeof buf, at)) != 0; at += n)
        if (n < 0 || !cay__fd_write_all(to, buf, (size_t)n))
            return false;
    return true;
}

bool policy_write_new(const char *id, uint64_t revision, int text)
{
    char path[64], head[HEAD], n[21];
    path_of(path, sizeof path, id, "/policy.new");
    memset(head, ' ', sizeof head);
    CAY_JOIN(head, "cay-policy ", cay__str_u64(n, revision));
    head[strlen(head)] = ' ';
    head[HEAD - 1] = '\n';
    unlink(path);
    CAY_AUTOFD fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    return fd >= 0 && cay__fd_write_all(fd, head, sizeof head) && copy_text(text, 0, fd);
}

void policy_drop_new(const char *id)
{
    char path[64];
    path_of(path, sizeof path, id, "/policy.new");
    unlink(path);
}

bool policy_keep_new(const char *id)
{
    char from[64], to[64];
    path_of(from, sizeof from, id, "/policy.new");
    path_of(to, sizeof to, id, "/policy");
    return rename(from, to) == 0;
}

static int text_memfd(int from, off_t at, const char *words)
{
    CAY_AUTOFD fd = (int)syscall(SYS_memfd_create, "cay-policy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 ||
        !(words ? cay__fd_write_all(fd, words, strlen(words)) : copy_text(from, at, fd)) ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
        return -1;
    return CAY_STEAL_FD(fd);
}

int policy_off(void)
{
    return text_memfd(-1, 0, "cay-net 1\nmode off\n");
}

int policy_read(const char *id, uint64_t *revision)
{
    char path[64], head[HEAD + 1] = "";
    path_of(path, sizeof path, id, "/policy");
    CAY_AUTOFD fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return -1;
    bool good = cay__fd_read_all(fd, head, HEAD) == HEAD && cay__str_starts(head, "cay-policy ") &&
                head[HEAD - 1] == '\n';
    head[11 + strcspn(head + 11, " \n")] = 0;
    errno = EUCLEAN;
    if (good && cay__str_to_u64(head + 11, revision))
        return text_memfd(fd, HEAD, NULL);
    return -1;
}
