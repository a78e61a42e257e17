/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/capability/skill.h - one skill: its front matter, and copying it in.
 */
#pragma once
#include <cay/sys/capability.h>

enum { CAY__SKILL_BYTES = 64 << 20, CAY__SKILL_FILES = 2000, CAY__SKILL_HEAD = 64 << 10 };

typedef struct cay__front {
    char name[128], description[1024]; /* "" when it tells none; one line each, sound UTF-8 */
} cay__front;
/* The block between two lines "---" at the start of a SKILL.md: "key: value", quotes taken away. */
void cay__skill_front(const char *text, size_t len, cay__front *out);
/* A name that is one directory: letters, digits, . _ and -, not beginning with a dot. */
bool cay__skill_name(const char *name);

/* Copies the directory `name` below dir (a descriptor of the host) to `to` in the sandbox; links
 * and odd files are refused. */
int cay__skill_copy(cay_sandbox *sb, const cay_call *call, int dir, const char *name,
                    const char *to, const char *user, cay_err *err);
