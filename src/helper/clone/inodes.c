/* SPDX-License-Identifier: Apache-2.0 */
#include "clone.h"
#include <stdlib.h>
#include <string.h>

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    if (x < y)
        return -1;
    return x > y;
}

void inode_set_sort(inode_set *s)
{
    if (s->n)
        qsort(s->ino, s->n, sizeof *s->ino, by_number);
}

bool inode_set_has(const inode_set *s, uint64_t ino)
{
    return s->all || (s->n && bsearch(&ino, s->ino, s->n, sizeof ino, by_number));
}

void inode_set_free(inode_set *s)
{
    free(s->ino);
    memset(s, 0, sizeof *s);
}
