/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon/keeper/stack.h - the layers that a root stands on, bottom first.
 *
 * As text, a name a line; "/" in the first says that the bottom is a directory of the host, which
 * comes along as a descriptor. A sandbox's own is in the file `stack` of its directory.
 */
#pragma once
#include <cay/sys/provider.h>
#include "job.h"
#include <stdbool.h>

typedef struct stack {
    const char *name[CAY_STACK_MAX]; /* into text */
    size_t n;
    bool foreign;
    char text[CAY_STACK_TEXT];
} stack;

bool stack_parse(
    stack *s,
    const char *text); /* false, errno EINVAL: not a stack, or E2BIG: more than there may be */
bool stack_read(stack *s, int dir, const char *file);
bool stack_write(int dir, const char *file, const char *text);
