/* SPDX-License-Identifier: Apache-2.0 */
#include "procfs.h"
#include <base/base.h>
#include <sys/syscall.h>

struct dent {
    uint64_t ino;
    int64_t off;
    uint16_t len;
    uint8_t type;
    char name[];
};

const char *cay__dents_next(cay__dents *d)
{
    for (;;) {
        if (d->at >= d->n) {
            d->n = syscall(SYS_getdents64, d->fd, d->buf, sizeof d->buf);
            d->at = 0;
            if (d->n <= 0)
                return NULL;
        }
        struct dent *e = (struct dent *)(void *)(d->buf + d->at);
        d->at += e->len;
        if (e->name[0] != '.')
            return e->name;
    }
}

int cay__proc_each(int (*fn)(int pid, int dir, void *arg), void *arg)
{
    CAY_AUTOFD proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (proc < 0)
        return -1;
    cay__dents d = { .fd = proc };
    for (const char *name; (name = cay__dents_next(&d));) {
        uint64_t pid;
        if (!cay__str_to_u64(name, &pid) || pid > INT32_MAX)
            continue;
        CAY_AUTOFD dir = openat(proc, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
        int rc = 0;
        if (dir >= 0)
            rc = fn((int)pid, dir, arg);
        if (rc)
            return rc;
    }
    return 0;
}

int cay__proc_lines(const char *path, int (*fn)(const char *line, void *arg), void *arg)
{
    CAY_AUTOFD fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    return cay__lines_of(fd, fn, arg);
}

int cay__lines_of(int fd, int (*fn)(const char *line, void *arg), void *arg)
{
    char buf[8192], line[1024];
    size_t len = 0;
    for (;;) {
        ssize_t n = read(fd, buf, sizeof buf);
        if (n < 0 && errno == EINTR)
            continue;
        for (ssize_t i = 0; i < n; i++) {
            if (buf[i] != '\n') {
                if (len < sizeof line - 1)
                    line[len++] = buf[i];
                continue;
            }
            line[len] = 0;
            len = 0;
            int rc = fn(line, arg);
            if (rc)
                return rc;
        }
        if (n <= 0) {
            if (n < 0)
                return -1;
            return 0;
        }
    }
}

size_t cay__split(char *line, char **fields, size_t max)
{
    size_t n = 0;
    for (char *p = line; n < max;) {
        p += strspn(p, " \t");
        if (!*p)
            break;
        fields[n++] = p;
        p += strcspn(p, " \t");
        if (*p)
            *p++ = 0;
    }
    return n;
}

bool cay__hex(const char *s, uint64_t *out)
{
    uint64_t v = 0;
    size_t n = 0;
    for (; s[n]; n++) {
        int d = cay__hex_digit(s[n]);
        if (d < 0 || n >= 16)
            return false;
        v = v << 4 | (uint64_t)d;
    }
    *out = v;
    return n > 0;
}
