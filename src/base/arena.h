/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/arena.h - things that are made one by one and freed together.
 */
#pragma once
#include <stddef.h>

typedef struct cay__arena {
    struct cay__piece *last;
} cay__arena;

void *cay__arena_take(cay__arena *a, size_t n);     /* zeroed */
char *cay__arena_str(cay__arena *a, const char *s); /* a copy; NULL gives "" */
void *cay__arena_adopt(cay__arena *a, void *p);     /* free() it with the rest; gives p back */
void cay__arena_clear(cay__arena *a);
/* One that goes with the block it is declared in. */
#define CAY__AUTOARENA __attribute__((cleanup(cay__arena_clear))) cay__arena
