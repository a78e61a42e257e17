/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/manifest/plan.h - from a manifest to the list of what is made, and the name of the layer that
 * holds it.
 *
 *   cay__plan_make()  entries → nodes; local sources are looked at, nothing is read or made
 *   cay__plan_name()  what the nodes are, as the name of a layer: the same content has the same
 *                     name
 *   cay__plan_fetch()  what entries take from elsewhere joins the nodes; only for who builds
 *   cay__plan_wire()   the nodes for cay-layer (helper/layer/build.h tells the form)
 *   cay__plan_apply()  the nodes through the file calls of a sandbox: what is ephemeral, and all of
 * it where there are no layers
 *
 * A local file is what its device, inode, size, mtime and ctime say: a byte that changes behind a
 * restored mtime shows in ctime. Each is looked at again, before and after, by who copies it.
 */
#pragma once
#include "ignore.h"
#include <cay/sandbox.h>
#include "fetch.h"
#include "manifest.h"

typedef struct cay__ident {
    uint64_t size, dev, ino;
    int64_t mtime, ctime; /* nanoseconds */
} cay__ident;

typedef struct cay__node {
    char type; /* 'd' 'f' 'l' 'p'; 'g': to be fetched, text is its identity */
    bool ephemeral;
    uint32_t mode, entry; /* entry: index + 1; 0: of the system */
    uint32_t root;        /* index + 1 of where a local file comes from; 0: its bytes are here */
    const char *path;     /* below the sandbox's root: "workspace/a" */
    const char *group;    /* name or "" */
    const char *text;     /* bytes, path in the root, target, identity */
    size_t len;
    cay__ident id;
} cay__node;

typedef struct cay__plan_source {
    const char *path; /* without links */
    uint64_t dev, ino;
    int fd; /* O_PATH */
} cay__plan_source;

typedef struct cay__plan {
    cay__arena mem;
    const cay_manifest *m;
    cay__node *nodes;
    cay__plan_source *sources;
    cay__fetched *fetched;
    size_t n, nsources, nfetched;
    uint32_t *index; /* nodes by path, as in cay_manifest */
    size_t nindex;
    uint64_t bytes, files, skipped; /* skipped: sockets, pipes and devices in local directories */
    const char *net;
    bool ephemeral; /* some node is */
    cay__dir near,
        above; /* make.c: where parents are there, and whether what is in it is ephemeral */
    int wire;  /* wire.c: a sealed memfd that naming left behind, or -1 */
} cay__plan;

#define CAY__PLAN_FILES 1000000u /* members of all local directories together */
#define CAY__PLAN_BYTES (64ull << 30)

/* Which entries, and from where. */
typedef struct cay__plan_ask {
    const char *base;   /* directory that local sources are below, or NULL: there may be none */
    cay_client *client; /* for who fetches */
    const char *net;    /* policy of the sandbox, for them too */
    bool (*want)(const cay__plan *p, const cay__entry *e, void *arg); /* NULL: all */
    void *arg;
} cay__plan_ask;
int cay__plan_make(cay__plan *p, const cay_manifest *m, const cay__plan_ask *ask,
                   const cay_call *call, cay_err *err);
void cay__plan_clear(cay__plan *p);
/* more: what else decides, such as tenant and stack. name: 'm' and 19 of [a-z2-7]. */
int cay__plan_name(cay__plan *p, const char *more, char name[CAY_ID_LEN + 1], cay_err *err);
int cay__plan_fetch(cay__plan *p, cay_client *client, const cay_call *call, cay_err *err);
/* A sealed memfd. */
int cay__plan_wire(cay__plan *p, int *fd, cay_err *err);
/* only: ephemeral ones alone. */
int cay__plan_apply(const cay__plan *p, cay_sandbox *sb, const cay_call *call, bool only_ephemeral,
                    cay_err *err);

/* Adds a node, or puts it in the place of one of the same path. CAY_EINVAL when a file and a
 * directory want the same path. */
int cay__plan_add(cay__plan *p, const cay__node *n, cay_err *err);
/* All of a directory below fd (taken over), as members of e at `path`. source + rel: where it is.
 */
int cay__plan_walk(cay__plan *p, const cay__entry *e, int fd, uint32_t source, const char *rel,
                   const char *path, const cay__ignore *ignore, cay_err *err);
int cay__plan_file(cay__plan *p, const cay__entry *e, uint32_t source, const char *rel,
                   const char *path, const struct stat *st, cay_err *err);
/* A `want` too. */
bool cay__plan_ephemeral(const cay__plan *p, const cay__entry *e, void *unused);
int cay__local_bad(cay_err *err, const cay__entry *e, const char *what, const char *word, int sys);
