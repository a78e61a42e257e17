/* SPDX-License-Identifier: Apache-2.0 */
#include "probe.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static const probe *const themes[] = { ns_probes,  fs_probes,  proc_probes,
                                       fd_probes,  sys_probes, res_probes,
                                       tty_probes, net_probes, egress_probes };
static const char *name;

/* One write a line: probes fork, and their lines must not tear. */
static void say(const char *word, const char *fmt, va_list ap)
{
    char line[1024];
    int n = snprintf(line, sizeof line, "%s %s ", word, name);
    n += vsnprintf(line + n, sizeof line - (size_t)n - 1, fmt, ap);
    if ((size_t)n > sizeof line - 2)
        n = sizeof line - 2;
    for (int i = 0; i < n; i++)
        if (line[i] == '\n')
            line[i] = ' ';
    line[n++] = '\n';
    if (write(1, line, (size_t)n) < 0)
        _exit(9);
}

void ok(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say("ok", fmt, ap);
    va_end(ap);
}

void breach(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say("breach", fmt, ap);
    va_end(ap);
}

void must_fail_by(const char *what, long rc, int want, int other)
{
    int e = errno;
    if (rc >= 0)
        breach("%s worked, and gave %ld", what, rc);
    else if (e != want && e != other)
        breach("%s: %s, not %s", what, strerror(e), strerror(want));
    else
        ok("%s: %s", what, strerror(e));
}

void must_fail(const char *what, long rc, int want)
{
    must_fail_by(what, rc, want, want);
}

ssize_t slurp(const char *path, char *buf, size_t cap)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = 0, got = 0;
    buf[0] = 0;
    if (fd < 0)
        return -1;
    while ((size_t)n + 1 < cap && (got = read(fd, buf + n, cap - 1 - (size_t)n)) > 0)
        n += got;
    int e = errno;
    close(fd);
    buf[n] = 0;
    errno = e;
    return got < 0 && n == 0 ? -1 : n;
}

const char *status_line(const char *pid, const char *key, char *buf, size_t cap)
{
    char path[64], text[8192];
    snprintf(path, sizeof path, "/proc/%s/status", pid);
    buf[0] = 0;
    if (slurp(path, text, sizeof text) < 0)
        return buf;
    for (char *s = text, *save, *line; (line = strtok_r(s, "\n", &save)); s = NULL) {
        size_t n = strlen(key);
        if (!strncmp(line, key, n) && line[n] == ':') {
            snprintf(buf, cap, "%s", line + n + 1 + strspn(line + n + 1, " \t"));
            return buf;
        }
    }
    return buf;
}

void each_pid(void (*fn)(int pid))
{
    DIR *d = opendir("/proc");
    for (struct dirent *e; d && (e = readdir(d));)
        if (atoi(e->d_name) > 0)
            fn(atoi(e->d_name));
    if (d)
        closedir(d);
}

void nap(unsigned ms)
{
    nanosleep(&(struct timespec){ ms / 1000, (long)(ms % 1000) * 1000000 }, NULL);
}

int main(int argc, char **argv)
{
    name = argc > 1 ? argv[1] : "";
    for (size_t i = 0; i < sizeof themes / sizeof *themes; i++)
        for (const probe *p = themes[i]; p->name; p++)
            if (!strcmp(p->name, name)) {
                p->run(argc - 2, argv + 2);
                dprintf(1, "done %s\n", name);
                return 0;
            }
    dprintf(2, "probe: no case %s\n", name);
    return 2;
}
