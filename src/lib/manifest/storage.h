/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/manifest/storage.h - object storage shown inside a sandbox as a directory.
 *
 *   cay__storage_conf()  the fields of a manifest's mount → what rclone, or mount(8), is to be told
 *   cay__storage_open()  starts cay-mount, which serves them outside of every sandbox; gives a
 *                        detached mount for each
 *   cay__storage_hold()  from now on they live as long as that process
 *   cay__storage_show()  the one that was opened into a sandbox that runs; it lives as long as that
 *   cay__storage_hide()  and away again
 *   cay__storage_close()  gives them up, unless they are held or shown
 *
 * Keys go to cay-mount over a socket and from there into a file in memory that only it and rclone
 * see; they stand in no argument, no variable and no file of the state directory. Mounts stand in
 * cay-mount's own mount namespace: the host never sees them, and nothing is left of them when it
 * ends.
 */
#pragma once
#include <cay/error.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define CAY__STORAGE_MOST 12

typedef struct cay__storage_mount {
    const char *type;   /* "s3_mount", … */
    const char *target; /* absolute path inside */
    const char *entry;  /* for messages */
    bool rw;
    json_t *fields; /* its own, secrets as values */
} cay__storage_mount;

/* What is told to the program that serves it. */
typedef struct cay__storage_plan {
    bool kernel;  /* mount(8) -t s3files instead of rclone */
    char *config; /* rclone's file; "" of kernel */
    char *remote; /* "name:bucket/prefix", or the file system's id and path */
    char *file;   /* a second file that the config refers to as PLACE/N.file, or "" */
    char **args;  /* more of the command line, NULL-terminated; of kernel: one, the options */
    size_t nargs;
} cay__storage_plan;

/* id: of the sandbox; index: of the mount; place: where cay-mount has its files. CAY_EINVAL
 * "mount_config_invalid" names the field. */
int cay__storage_conf(const cay__storage_mount *m, const char *id, size_t index, const char *place,
                      cay__storage_plan *out, cay_err *err);
void cay__storage_plan_clear(cay__storage_plan *p);
/* `text` with every value of a secret field replaced, for messages. */
void cay__storage_redact(const cay__storage_mount *m, char *text);

typedef struct cay__storage {
    int sock; /* to cay-mount, or -1 */
    int mounts[CAY__STORAGE_MOST];
    size_t n;
} cay__storage;
#define CAY__STORAGE_NONE                                                                          \
    {                                                                                              \
        .sock = -1                                                                                 \
    }

/* Whether this host can: root, /dev/fuse, rclone (or mount.s3files). CAY_ENOTSUP
 * "mount_missing_tool" or "mount_unsupported", with the remedy. */
int cay__storage_check(const cay__storage_mount *m, size_t n, cay_err *err);
int cay__storage_open(const char *home, const char *libexec, const cay_call *call, const char *id,
                      const cay__storage_mount *m, size_t n, cay__storage *out, cay_err *err);
/* id: of the sandbox, pid: of its init. */
int cay__storage_hold(cay__storage *s, const char *id, int pid, cay_err *err);
/* The storage of a sandbox that runs: fn for each, with why "" or what ended it. Without any there
 * is nothing to tell. */
void cay__storage_look(int home_fd, const char *id,
                       void (*fn)(const char *target, const char *why, void *arg), void *arg);
void cay__storage_close(cay__storage *s);
/* name: of this mount among all of the state directory, at most 60 bytes. CAY_EEXIST when it is
 * taken, CAY_ENOENT when target is no directory. */
int cay__storage_show(cay__storage *s, int pid, const char *name, const char *target, cay_err *err);
/* Returns when all that was written is brought away. CAY_ENOENT when there is none of that name. */
int cay__storage_hide(const char *home, const char *name, const cay_call *call, cay_err *err);
