/* SPDX-License-Identifier: Apache-2.0 */
/*
 * helper/layer/build.h - what a layer is built from, as lib/manifest/plan_wire.c writes it into a
 * sealed memfd.
 *
 *   roots     count; path without links, device, inode: where local members come from
 *   accounts  count of groups; name, count, users… · count of users; name · owner
 *   nodes     count; type 'd' 'f' 'l' 'p', mode, entry, group, path, root + 1, then
 *             'f' root 0: bytes
 *             'f' root N: path in it, size, device, inode, mtime, ctime
 *             'l': target
 *
 * 'p' is a directory above the manifest's root: as the stack below has it, else root's with mode
 * 0755. Groups and owner are names, because ids are known only where the accounts are made. Type
 * 'f' with entry 0 and 'd' alike belong to root.
 */
#pragma once
#include "tool.h"

typedef struct build_node {
    char type;
    uint32_t mode, entry, root;
    const char *path, *group;
    const char *text; /* bytes, path in the root, or target */
    size_t len;
    uint64_t size, dev, ino;
    int64_t mtime, ctime;
    uint32_t uid, gid;
} build_node;

typedef struct build_root {
    const char *path;
    uint64_t dev, ino;
    int fd;
} build_root;

typedef struct build_group {
    const char *name, **users;
    size_t n;
    uint32_t gid;
} build_group;

typedef struct build {
    tool *t;
    build_root *roots;
    build_group *groups;
    const char **users;
    uint32_t *uids;
    build_node *nodes;
    size_t nroots, ngroups, nusers, nnodes;
    const char *owner;
    const char *const *below; /* the stack that it will stand on, bottom first */
    size_t nbelow;
    int stage;
    bool single; /* the map has one id */
} build;

/* accounts.c: ids for the names, and etc/passwd and etc/group in the stage if there are accounts.
 */
int build_accounts(build *b, cay_err *err);
/* The first of the stack, from the top, that has this path; -1 and errno. No link is followed. */
int build_below(build *b, const char *path, int flags);
