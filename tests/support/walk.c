/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walk DIR: one line for each name below DIR on its own file system, so that two trees can be
 * compared: name, kind, mode, owner, group, size, time, links, target of a link, device, SHA-256 of
 * the content, attributes. What is not plain text in names and values is written as \xNN. Static:
 * it runs inside images.
 */
#include "../../src/base/sha256.c"
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

static dev_t top;
static int bad;

static void put(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (s[i] > ' ' && s[i] < 0x7f && s[i] != '\\' && s[i] != '|')
            putchar(s[i]);
        else
            printf("\\x%02x", (unsigned char)s[i]);
}

static void content(const char *path)
{
    static char buf[1 << 16];
    char hex[CAY__SHA256_HEX];
    cay__sha256 s;
    ssize_t n;
    int fd = open(path, O_RDONLY | O_NOFOLLOW);
    if (fd < 0) {
        perror(path);
        bad = 1;
        return;
    }
    cay__sha256_begin(&s);
    while ((n = read(fd, buf, sizeof buf)) > 0)
        cay__sha256_add(&s, buf, (size_t)n);
    cay__sha256_end(&s, hex);
    close(fd);
    fputs(hex, stdout);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void attributes(const char *path)
{
    static char names[1 << 16], value[1 << 16];
    char *list[256];
    size_t n = 0;
    ssize_t len = llistxattr(path, names, sizeof names);
    for (char *p = names; len > 0 && p < names + len && n < 256; p += strlen(p) + 1)
        list[n++] = p;
    qsort(list, n, sizeof *list, by_name);
    for (size_t i = 0; i < n; i++) {
        ssize_t v = lgetxattr(path, list[i], value, sizeof value);
        put(list[i], strlen(list[i]));
        putchar('=');
        put(value, v > 0 ? (size_t)v : 0);
        putchar(';');
    }
}

static void one(const char *path, const char *name, const struct stat *st)
{
    char to[4096];
    put(name, strlen(name));
    printf("|%o|%o|%u|%u|%lld|%lld|%lu|", st->st_mode & S_IFMT, st->st_mode & 07777, st->st_uid,
           st->st_gid, S_ISDIR(st->st_mode) ? 0LL : (long long)st->st_size, (long long)st->st_mtime,
           S_ISDIR(st->st_mode) ? 0ul : (unsigned long)st->st_nlink);
    if (S_ISLNK(st->st_mode)) {
        ssize_t n = readlink(path, to, sizeof to);
        put(to, n > 0 ? (size_t)n : 0);
    }
    printf("|%u:%u|", S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode) ? major(st->st_rdev) : 0,
           S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode) ? minor(st->st_rdev) : 0);
    if (S_ISREG(st->st_mode))
        content(path);
    putchar('|');
    attributes(path);
    putchar('\n');
}

static void walk(const char *path, size_t skip)
{
    struct dirent **list;
    int n = scandir(*path ? path : "/", &list, NULL, alphasort);
    if (n < 0) {
        perror(path);
        bad = 1;
        return;
    }
    for (int i = 0; i < n; i++) {
        char next[8192];
        struct stat st;
        const char *d = list[i]->d_name;
        if (strcmp(d, ".") && strcmp(d, "..") &&
            snprintf(next, sizeof next, "%s/%s", path, d) < (int)sizeof next) {
            if (lstat(next, &st) < 0) {
                perror(next);
                bad = 1;
            } else {
                one(next, next + skip, &st);
                if (S_ISDIR(st.st_mode) && st.st_dev == top)
                    walk(next, skip);
            }
        }
        free(list[i]);
    }
    free(list);
}

int main(int argc, char **argv)
{
    struct stat st;
    const char *dir = argc > 1 && strcmp(argv[1], "/") ? argv[1] : "";
    if (stat(*dir ? dir : "/", &st) < 0) {
        perror(dir);
        return 1;
    }
    top = st.st_dev;
    walk(dir, strlen(dir) + 1);
    return bad;
}
