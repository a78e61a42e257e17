/* SPDX-License-Identifier: Apache-2.0 */
/*
 * helper/layer/pathmap.h - numbers by path: which of many renamed directories this one is, without
 * looking at all of them.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef struct pathmap {
    struct pathmap_slot *v;
    size_t n, cap;
    uint64_t seed;
} pathmap;

#define PATHMAP_NONE ((size_t)-1)

/* The path is not copied. One that is there keeps its first number. */
void pathmap_put(pathmap *m, const char *path, size_t number);
size_t pathmap_get(const pathmap *m, const char *path, size_t len);
/* The longest path in it that `path` lies below. */
size_t pathmap_above(const pathmap *m, const char *path);
void pathmap_clear(pathmap *m);
