/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store into a shared mapping changes a file without a word: its timestamps move when a page is
 * first made writable, if at all. So whatever a process maps shared counts as changed. Names come
 * from /proc/PID/maps, where the kernel tells where a file is now, seen from the root of the
 * sandbox; below the upper directory files have the same names.
 */
#include "clone.h"
#include <base/base.h>
#include <dirent.h>
#include <linux/openat2.h>

typedef struct look {
    inode_set *set;
    int upper;
    const char *at; /* where inside it is mounted; "": at the root */
} look;

static void add_inode(inode_set *s, uint64_t ino)
{
    if (s->n && s->ino[s->n - 1] == ino)
        return;
    if (s->n == s->cap && !(s->ino = realloc(s->ino, (s->cap = s->cap * 2 + 64) * sizeof *s->ino)))
        abort();
    s->ino[s->n++] = ino;
}

static void add_path(const look *l, const char *path)
{
    struct stat st;
    size_t n = strlen(l->at);
    if (strncmp(path, l->at, n) != 0)
        return;
    path += n;
    while (*path == '/')
        path++;
    CAY_AUTOFD fd = -1;
    if (*path)
        fd = cay__fd_openat2(l->upper, path, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0,
                             RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    if (fd >= 0 && fstat(fd, &st) == 0)
        add_inode(l->set, st.st_ino);
}

/* A newline in a name is written \012; a backslash is not escaped, so both readings count. */
static bool unescape_newlines(char *path)
{
    bool any = false;
    char *to = path;
    for (const char *p = path; *p; p++)
        if (!strncmp(p, "\\012", 4)) {
            *to++ = '\n';
            p += 3;
            any = true;
        } else {
            *to++ = *p;
        }
    *to = 0;
    return any;
}

static void on_line(const look *l, char *line)
{
    static const char gone[] = " (deleted)";
    char *perms = strchr(line, ' ');
    char *path = strchr(line, '/');
    if (!perms || strlen(perms) < 5 || perms[4] != 's' || !path)
        return;
    size_t n = strlen(path), k = sizeof gone - 1;
    add_path(l, path);
    if (n > k && !strcmp(path + n - k, gone)) { /* or a file that is called so */
        path[n - k] = 0;
        add_path(l, path);
    }
    if (unescape_newlines(path))
        add_path(l, path);
}

static bool read_maps(const look *l, const char *file)
{
    CAY_AUTOFREE char *line = NULL;
    size_t cap = 0;
    FILE *f = fopen(file, "re");
    if (!f)
        return errno == ENOENT || errno == ESRCH;
    for (ssize_t n; (n = getline(&line, &cap, f)) > 0;) {
        if (line[n - 1] == '\n')
            line[n - 1] = 0;
        on_line(l, line);
    }
    bool ok = !ferror(f);
    fclose(f);
    return ok;
}

/* Threads share their memory, but a first thread that ended shows none while others go on: one of
 * each has to answer. */
static bool on_process(int pid, void *arg)
{
    const look *l = arg;
    char path[64], t[300];
    proc_path(path, pid, "/task");
    DIR *d = opendir(path);
    if (!d)
        return errno == ENOENT || errno == ESRCH;
    bool ok = true, first = true;
    char state[512];
    for (struct dirent *e; ok && (e = readdir(d));) {
        if (e->d_name[0] == '.')
            continue;
        CAY_JOIN(t, path, "/", e->d_name, "/stat");
        const char *end = NULL;
        if (cay__fd_read_file(AT_FDCWD, t, state, sizeof state) > 0)
            end = strrchr(state, ')');
        if (!end || end[1] == 0 || end[2] == 'Z' || end[2] == 'X')
            continue;
        CAY_JOIN(t, path, "/", e->d_name, "/maps");
        ok = read_maps(l, t);
        first = false;
        if (ok)
            break;
    }
    closedir(d);
    return ok || first;
}

void mapped_files(inode_set *s, int init, int upper, const char *at)
{
    look l = { s, upper, at };
    if (!each_process(init, on_process, &l))
        s->all = true;
    inode_set_sort(s);
}
