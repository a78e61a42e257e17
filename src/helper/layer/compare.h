/* SPDX-License-Identifier: Apache-2.0 */
/*
 * helper/layer/compare.h - two trees side by side, and what differs.
 *
 * A tree is a view: a base that the kernel shows (a stack, or a directory of the host), and perhaps
 * the upper directory of a living sandbox on top of it, which is read as it is and without a mount,
 * because overlayfs must not have it twice. Where both views have the same base only the uppers are
 * walked: the cost is that of the changes.
 */
#pragma once
#include "tool.h"

typedef struct view {
    crawl base, top;
} view;

/* One name in the directory where a view is. */
typedef struct entry {
    bool there, in_top;
    int dir; /* where it is, -1: nowhere */
    struct stat st;
} entry;

/* Takes both descriptors over; top -1: there is none. */
void view_open(view *v, int base, int top);
void view_close(view *v);
void view_look(const view *v, const char *name, entry *out);
/* Into a directory that view_look() found. `other`: what shows through from below is not what has
 * this name there. */
int view_down(const tool *t, view *v, const char *name, bool *other);
void view_nothing(view *v);
int view_up(view *v);

/* What a file is like, by the words of docs/workspaces.md. */
enum { CHANGE_CONTENT = 1, CHANGE_MODE = 2, CHANGE_OWNER = 4 };

typedef struct change {
    char kind; /* 'A' added, 'M' modified, 'D' deleted, 'T' another type, 'R' a directory that was
                  renamed */
    const char *path, *from; /* from: R, and files below one when every file is wanted; else NULL */
    const char *name;        /* last part of path, in the directories of a and b */
    const char *from_name;   /* in the directory of a */
    entry a, b;
    unsigned what; /* CHANGE_…, of M */
} change;

typedef struct compare {
    tool *t;
    view a, b;
    bool same_base;    /* both stand on the same */
    bool every;        /* each file below a deleted or renamed directory, not only the directory */
    bool renames;      /* R instead of D and A, where the base is the same */
    bool owners;       /* owners count */
    const char *under; /* the views stand in this directory of their roots, NULL: in the roots */
    const char *skip;  /* one name at the top that is left out, or NULL */
    int (*fn)(struct compare *c, const change *ch, cay_err *err);
    void *arg;
} compare;

/* To a directory of both roots; a side that has none there has nothing. */
int compare_under(compare *c, const char *name, cay_err *err);
/* The views stand where the comparison begins. */
int compare_run(compare *c, cay_err *err);
/* Do both have the same bytes? Holes cost nothing. -1 and errno. */
int compare_bytes(int a, int b, uint64_t size);
