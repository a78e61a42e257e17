/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon/init/procfs.h - reading /proc without stdio.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Each line of a file, without its newline, cut at 1 KiB. */
int cay__proc_lines(const char *path, int (*fn)(const char *line, void *arg), void *arg);
int cay__lines_of(int fd, int (*fn)(const char *line, void *arg), void *arg);
/* Each process there is, with its directory; anything but 0 from fn ends it and is returned. */
int cay__proc_each(int (*fn)(int pid, int dir, void *arg), void *arg);
/* Cuts a line at its blanks, at most max fields; how many. */
size_t cay__split(char *line, char **fields, size_t max);
bool cay__hex(const char *s, uint64_t *out);

/* Names in a directory, one after another. */
typedef struct cay__dents {
    int fd;
    long at, n;
    char buf[2048] __attribute__((aligned(8)));
} cay__dents;
const char *cay__dents_next(cay__dents *d);
