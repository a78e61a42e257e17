/* SPDX-License-Identifier: Apache-2.0 */
/*
 * support/tree.h - a temporary directory with "in" (the root under test) and "out" (what must not
 * change), made and removed without the code under test.
 */
#pragma once
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct tree {
    char top[64], in[80], out[80];
    int root;
} tree;

static inline void tree_write(const char *dir, const char *name, const char *text)
{
    char p[512];
    snprintf(p, sizeof p, "%s/%s", dir, name);
    FILE *f = fopen(p, "w");
    if (!f || fputs(text, f) < 0 || fclose(f))
        abort();
}

/* Whole file as text; "" when it is not there. */
static inline const char *tree_read(const char *dir, const char *name)
{
    static char buf[4096];
    char p[512];
    snprintf(p, sizeof p, "%s/%s", dir, name);
    FILE *f = fopen(p, "r");
    size_t n = f ? fread(buf, 1, sizeof buf - 1, f) : 0;
    buf[n] = 0;
    if (f)
        fclose(f);
    return buf;
}

static inline void tree_open(tree *t)
{
    snprintf(t->top, sizeof t->top, "%s/cay-test-XXXXXX",
             access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    if (!mkdtemp(t->top))
        abort();
    snprintf(t->in, sizeof t->in, "%s/in", t->top);
    snprintf(t->out, sizeof t->out, "%s/out", t->top);
    if (mkdir(t->in, 0755) || mkdir(t->out, 0755))
        abort();
    tree_write(t->out, "secret", "outside");
    t->root = open(t->in, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static inline int tree_rm_(const char *p, const struct stat *st, int type, struct FTW *f)
{
    (void)st, (void)type, (void)f;
    return remove(p);
}

static inline void tree_close(tree *t)
{
    close(t->root);
    nftw(t->top, tree_rm_, 64, FTW_DEPTH | FTW_PHYS);
}
