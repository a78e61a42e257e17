/* SPDX-License-Identifier: Apache-2.0 */
/* fill make DIR N: N files of 1 kB in a hundred directories. fill churn DIR: rewrites twenty of
 * them, one after another, until it is killed. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char text[1024];

/* Letters that no archive makes small: half of their bits are random. */
static void scribble(unsigned seed)
{
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)('a' + ((seed = seed * 1664525 + 1013904223) >> 28));
}

static int put(const char *dir, unsigned i)
{
    char path[256];
    snprintf(path, sizeof path, "%s/d%u/f%u", dir, i % 100, i);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    int ok = fd >= 0 && write(fd, text, sizeof text) == sizeof text;
    close(fd);
    return ok;
}

int main(int argc, char **argv)
{
    char path[256];
    if (argc < 3)
        return 2;
    scribble(1);
    if (!strcmp(argv[1], "churn"))
        for (unsigned i = 0;; i = (i + 1) % 20) {
            text[0] = text[0] == 'z' ? 'a' : text[0] + 1;
            if (!put(argv[2], i))
                return 1;
            nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
        }
    mkdir(argv[2], 0755);
    for (unsigned i = 0; i < 100; i++) {
        snprintf(path, sizeof path, "%s/d%u", argv[2], i);
        mkdir(path, 0755);
    }
    for (unsigned i = 0, n = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 0; i < n; i++) {
        scribble(i);
        if (!put(argv[2], i))
            return 1;
    }
    return 0;
}
