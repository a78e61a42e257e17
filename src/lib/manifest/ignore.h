/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/manifest/ignore.h - patterns of what is left out of a local directory, as a .gitignore has
 * them.
 *
 * *, ? and [set] stay inside one name, ** stands for any number of directories. A pattern with a
 * '/' at its begin or middle counts from the top, any other fits at every depth; with a '/' at its
 * end it fits directories only; '!' takes back; the last that fits decides. As with git nothing
 * below a directory that is left out can be taken back.
 */
#pragma once
#include <base/buf.h>
#include <cay/error.h>

typedef struct cay__ignore_rule {
    const char *pattern;
    bool keep, dirs, anchored;
} cay__ignore_rule;

typedef struct cay__ignore {
    cay__arena mem;
    cay__ignore_rule *rules;
    size_t n;
} cay__ignore;

#define CAY__IGNORE_RULES 10000

/* false: too many. Lines that are blank or begin with '#' are skipped. */
bool cay__ignore_add(cay__ignore *ig, const char *line, size_t len);
bool cay__ignore_text(cay__ignore *ig, const char *text, size_t len);
bool cay__ignored(const cay__ignore *ig, const char *path, bool dir);
/* One pattern, without '!' and slashes around it, against a whole path. */
bool cay__ignore_fits(const char *pattern, const char *path);
void cay__ignore_clear(cay__ignore *ig);
