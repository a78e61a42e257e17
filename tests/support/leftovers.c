/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leftovers - judges whether a test left anything behind. Uses none of our code.
 *
 *     leftovers before FILE [DIR…]     writes down what there is
 *     leftovers after FILE [DIR…]      says what came or went since; exit 1 when something did
 *
 * Looked at: processes (zombies too), the mounts of every mount namespace that a visible process is
 * in, all other kinds of namespace, the groups below our own in every hierarchy, files below the
 * DIRs, unix sockets bound there, loop devices on files there, and the caller's number of open
 * descriptors. Kernel work may end a little late: `after` looks again for up to CAY_SETTLE_MS
 * (20000) before it complains. On a busy machine run it inside `alone`, where nothing else is seen.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef struct list {
    char **line;
    size_t n, cap;
} list;

static list *now; /* nftw(3) takes no argument */

__attribute__((format(printf, 2, 3))) static void add(list *l, const char *fmt, ...)
{
    va_list ap;
    if (l->n == l->cap) {
        l->cap = l->cap ? l->cap * 2 : 256;
        l->line = realloc(l->line, l->cap * sizeof *l->line);
    }
    va_start(ap, fmt);
    if (!l->line || vasprintf(&l->line[l->n], fmt, ap) < 0)
        abort();
    va_end(ap);
    l->n++;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort(list *l)
{
    qsort(l->line, l->n, sizeof *l->line, by_text);
    size_t keep = 0;
    for (size_t i = 0; i < l->n; i++)
        if (keep && !strcmp(l->line[i], l->line[keep - 1]))
            free(l->line[i]);
        else
            l->line[keep++] = l->line[i];
    l->n = keep;
}

static void clear(list *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->line[i]);
    l->n = 0;
}

static ssize_t slurp(const char *path, char *buf, size_t cap)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = 0, got = -1;
    if (fd < 0)
        return -1;
    while ((size_t)n + 1 < cap && (got = read(fd, buf + n, cap - 1 - (size_t)n)) > 0)
        n += got;
    close(fd);
    buf[n] = 0;
    return got < 0 && n == 0 ? -1 : n;
}

static void mounts_of(list *l, int pid, const char *ns)
{
    static char text[1 << 20];
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mountinfo", pid);
    if (slurp(path, text, sizeof text) < 0)
        return;
    for (char *s = text, *save, *line; (line = strtok_r(s, "\n", &save)); s = NULL) {
        char root[PATH_MAX], point[PATH_MAX], *dash = strstr(line, " - ");
        if (dash && sscanf(line, "%*d %*d %*s %4095s %4095s", root, point) == 2)
            add(l, "mount %s %s of %s (%.60s)", ns, point, root, dash + 3);
    }
}

static void namespaces_of(list *l, int pid, list *seen)
{
    static const char *const kinds[] = { "mnt", "net", "pid", "ipc", "uts", "user", "cgroup" };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char path[64], ns[64];
        snprintf(path, sizeof path, "/proc/%d/ns/%s", pid, kinds[i]);
        ssize_t n = readlink(path, ns, sizeof ns - 1);
        if (n < 0)
            continue;
        ns[n] = 0;
        add(l, "namespace %s", ns);
        if (i)
            continue;
        bool known = false;
        for (size_t k = 0; k < seen->n && !known; k++)
            known = !strcmp(seen->line[k], ns);
        if (!known) {
            add(seen, "%s", ns);
            mounts_of(l, pid, ns);
        }
    }
}

static void processes(list *l)
{
    static list seen;
    DIR *d = opendir("/proc");
    clear(&seen);
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[300], stat[1024], *end;
        int pid = atoi(e->d_name);
        unsigned flags = 0;
        unsigned long long start = 0;
        char state = '?';
        if (!isdigit((unsigned char)e->d_name[0]) || pid == getpid())
            continue;
        snprintf(path, sizeof path, "/proc/%d/stat", pid);
        if (slurp(path, stat, sizeof stat) <= 0 || !(end = strrchr(stat, ')')))
            continue;
        sscanf(end + 1,
               " %c %*d %*d %*d %*d %*d %u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
               &state, &flags, &start);
        if (flags & 0x00200000)
            continue; /* PF_KTHREAD: the kernel's own */
        *end = 0;
        char *name = strchr(stat, '(');
        add(l, "process %d %s%s since %llu", pid, name ? name + 1 : "?",
            state == 'Z' ? " (zombie)" : "", start);
        namespaces_of(l, pid, &seen);
    }
    if (d)
        closedir(d);
}

static int group(const char *path, const struct stat *st, int type, struct FTW *f)
{
    (void)st, (void)f;
    if (type == FTW_D)
        add(now, "group %s", path);
    return 0;
}

static bool own_group(const char *controllers, char *out, size_t cap)
{
    char text[8192], *save;
    if (slurp("/proc/self/cgroup", text, sizeof text) < 0)
        return false;
    for (char *s = text, *line; (line = strtok_r(s, "\n", &save)); s = NULL) {
        char *a = strchr(line, ':'), *b = a ? strchr(a + 1, ':') : NULL;
        if (!b)
            continue;
        *b = 0;
        if (!strcmp(a + 1, controllers)) {
            snprintf(out, cap, "%s", strcmp(b + 1, "/") ? b + 1 : "");
            return true;
        }
    }
    return false;
}

static void groups(void)
{
    char text[65536], *save;
    if (slurp("/proc/self/mountinfo", text, sizeof text) < 0)
        return;
    for (char *s = text, *line; (line = strtok_r(s, "\n", &save)); s = NULL) {
        char point[PATH_MAX], type[32], super[256], own[PATH_MAX], path[2 * PATH_MAX];
        char *dash = strstr(line, " - ");
        if (!dash || sscanf(line, "%*d %*d %*s %*s %4095s", point) != 1 ||
            sscanf(dash, " - %31s %*s %255s", type, super) != 2 || strncmp(type, "cgroup", 6))
            continue;
        /* v1: the controllers are the last words of the options, as /proc/self/cgroup has them */
        const char *names = strcmp(type, "cgroup2") ? super : "";
        if (!strncmp(names, "rw,", 3) || !strncmp(names, "ro,", 3))
            names += 3;
        if (!own_group(names, own, sizeof own))
            continue;
        snprintf(path, sizeof path, "%s%s", point, own);
        nftw(path, group, 16, FTW_PHYS | FTW_MOUNT);
    }
}

static int file(const char *path, const struct stat *st, int type, struct FTW *f)
{
    (void)type, (void)f;
    add(now, "file %s (%o)", path, (unsigned)st->st_mode & S_IFMT);
    return 0;
}

static void sockets(list *l, char **dirs, int n)
{
    static char text[4 << 20];
    if (slurp("/proc/net/unix", text, sizeof text) < 0)
        return;
    for (char *s = text, *save, *line; (line = strtok_r(s, "\n", &save)); s = NULL)
        for (int i = 0; i < n; i++) {
            char *at = strstr(line, dirs[i]);
            if (at)
                add(l, "socket %s", at);
        }
}

/* Loop devices are the whole machine's: another test's are not ours to judge. */
static void loops(list *l, char **dirs, int n)
{
    DIR *d = opendir("/sys/block");
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[PATH_MAX], back[PATH_MAX];
        if (strncmp(e->d_name, "loop", 4))
            continue;
        snprintf(path, sizeof path, "/sys/block/%s/loop/backing_file", e->d_name);
        if (slurp(path, back, sizeof back) <= 0)
            continue;
        bool ours = n == 0;
        for (int i = 0; i < n; i++)
            ours |= !strncmp(back, dirs[i], strlen(dirs[i]));
        if (ours)
            add(l, "loop %s on %s", e->d_name, strtok(back, "\n"));
    }
    if (d)
        closedir(d);
}

static void descriptors(list *l)
{
    char path[64];
    int n = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", getppid());
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));)
        n += e->d_name[0] != '.';
    if (d)
        closedir(d);
    add(l, "descriptors of %d: %d", getppid(), n);
}

static void look(list *l, char **dirs, int ndirs)
{
    now = l;
    clear(l);
    processes(l);
    groups();
    for (int i = 0; i < ndirs; i++)
        nftw(dirs[i], file, 16, FTW_PHYS);
    sockets(l, dirs, ndirs);
    loops(l, dirs, ndirs);
    descriptors(l);
    sort(l);
}

static int write_down(const list *l, const char *name)
{
    FILE *f = fopen(name, "w");
    for (size_t i = 0; f && i < l->n; i++)
        fprintf(f, "%s%c", l->line[i], 0); /* names may hold newlines */
    if (!f || fclose(f) != 0) {
        perror(name);
        return 2;
    }
    return 0;
}

static int read_back(list *l, const char *name)
{
    FILE *f = fopen(name, "r");
    char *line = NULL;
    size_t cap = 0;
    if (!f) {
        perror(name);
        return -1;
    }
    while (getdelim(&line, &cap, 0, f) > 0)
        add(l, "%s", line);
    free(line);
    fclose(f);
    sort(l);
    return 0;
}

/* That a process or its namespaces went is no leak; that a mount, group or file of somebody went is
 * damage. */
static bool may_go(const char *line)
{
    return !strncmp(line, "process", 7) || !strncmp(line, "namespace", 9) ||
           !strncmp(line, "socket", 6) || !strncmp(line, "descriptors", 11) ||
           !strncmp(line, "mount", 5);
}

static int differ(const list *was, const list *is, bool say)
{
    int n = 0;
    for (size_t a = 0, b = 0; a < was->n || b < is->n;) {
        int c = a == was->n ? 1 : b == is->n ? -1 : strcmp(was->line[a], is->line[b]);
        if (c > 0) {
            if (say)
                printf("left: %s\n", is->line[b]);
            n++, b++;
        } else if (c < 0) {
            if (!may_go(was->line[a])) {
                if (say)
                    printf("gone: %s\n", was->line[a]);
                n++;
            }
            a++;
        } else {
            a++, b++;
        }
    }
    return n;
}

int main(int argc, char **argv)
{
    list was = { 0 }, is = { 0 };
    const char *ms = getenv("CAY_SETTLE_MS");
    if (argc < 3 || (strcmp(argv[1], "before") && strcmp(argv[1], "after"))) {
        fprintf(stderr, "usage: leftovers before|after FILE [DIR…]\n");
        return 2;
    }
    look(&is, argv + 3, argc - 3);
    if (!strcmp(argv[1], "before"))
        return write_down(&is, argv[2]);
    if (read_back(&was, argv[2]) < 0)
        return 2;
    for (int left = ms ? atoi(ms) : 20000; left > 0 && differ(&was, &is, false); left -= 50) {
        nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
        look(&is, argv + 3, argc - 3);
    }
    return differ(&was, &is, true) ? 1 : 0;
}
