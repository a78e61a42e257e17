/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay/workspace.h - what changed in a sandbox, and putting it into a directory of yours.
 *
 *   cay_client_diff()     between any two points
 *   cay_sandbox_apply()    into the directory it was made on
 *   cay_sandbox_stopped_list(), _stat(), _open()  files of one that is stopped, without starting it
 *   cay_sandbox_extract()  an archive into one that runs
 *
 * A point is a sandbox as it is now, running or stopped, or a snapshot. docs/workspaces.md tells
 * more.
 */
#pragma once
#include <cay/sandbox.h>
#include <cay/client.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cay_file_change {
    size_t size;
    char kind; /* 'A' added, 'M' modified, 'D' deleted, 'T' of another type now, 'R' a directory
                  that was renamed */
    const char *path; /* below /workspace; with `all` from / on. Any bytes but NUL: escape it before
                         a terminal sees it */
    const char *from; /* R: what it was called before; else "" */
    uint32_t old_mode, new_mode; /* type and permissions, 0: it was not, or is no more */
    uint64_t old_size, new_size;
    bool content, mode, owner; /* M: which of them changed */
    const char *text; /* with `patch`: this change as git writes it; any bytes. NULL: it has none */
    size_t text_len;
    const char *old_digest; /* with `digest`: SHA-256 in hex of what the file held, or of where the
                               link led; "": it was neither */
} cay_file_change;
typedef int cay_file_change_fn(const cay_file_change *change, void *arg);

typedef struct cay_diff {
    size_t size;
    const char *a;    /* sandbox or snapshot: id, unique prefix, name or label */
    const char *b;    /* likewise; NULL: from what sandbox a started from to what it is now */
    bool all;         /* the whole root, not only /workspace */
    bool every;       /* each file below deleted and renamed directories, not only these */
    bool patch;       /* with the text of each change; implies `every` */
    unsigned context; /* lines around a change; 0: three */
    bool digest; /* with old_digest; implies `every`, and a renamed directory is one that went and
                    one that came */
} cay_diff;

/* Calls fn for each change, in the order of paths; a non-zero return stops and is returned. A
 * sandbox may go on meanwhile. CAY_ETOOBIG beyond a million changes. *left_out (may be NULL): how
 * many texts a patch of more than 64 MiB leaves out. */
CAY_API int cay_client_diff(cay_client *client, const cay_call *call, const cay_diff *diff,
                            cay_file_change_fn *fn, void *arg, uint64_t *left_out, cay_err *err);

typedef enum cay_apply_result {
    CAY_APPLY_DONE = 0,
    CAY_APPLY_CONFLICT, /* the directory has it otherwise since the sandbox was made; `force` takes
                           it all the same */
    CAY_APPLY_GUARDED,  /* a file that tools run or obey without being asked: it has to be named */
    CAY_APPLY_REFUSED, /* not a file, directory or link; a link that leaves; a way that is barred */
    CAY_APPLY_GONE,    /* the sandbox took it back meanwhile */
    CAY_APPLY_DECLINED, /* choose() said no */
    CAY_APPLY_SAME, /* of what changed nothing is taken over: owners, set-uid bits, rights to write
                       for all */
} cay_apply_result;

typedef struct cay_apply {
    size_t size;
    const char
        *dir; /* NULL: the directory that the sandbox was made on (cay_create.from.directory) */
    const char *const *paths; /* only these and what is below them, relative to /workspace; each
                                 must name a change */
    size_t npaths;
    bool force;                 /* conflicts, too */
    bool dry;                   /* judge everything and write nothing */
    bool text;                  /* choose() gets each change with its patch */
    cay_file_change_fn *choose; /* 1: take it, 0: leave it, negative: stop
                                                           before anything is written; NULL: all */
    void (*told)(const cay_file_change *c, cay_apply_result result, const char *why,
                 void *arg); /* each one, once it is done or left; or NULL */
    void *arg;
    const char *since; /* of a server's sandbox: the snapshot from which on changes count; NULL:
                          since it was made */
} cay_apply;

typedef struct cay_applied {
    size_t size;
    size_t done, declined;
    size_t left; /* conflicts, guarded, refused, gone */
} cay_applied;

/* Puts what the sandbox changed into the directory. Each file is the old one or the new one at any
 * time, whoever is killed. Owners are the directory's, set-uid bits go, group and others get no
 * right to write that they do not have or the umask does not give. CAY_ESTATE, "on_missing": it was
 * not made on a directory. Of a server's sandbox into a directory of this machine, which `dir`
 * names: what is there has to be what the sandbox began with (`since`), by its digest; else it is a
 * conflict. */
CAY_API int cay_sandbox_apply(cay_sandbox *sb, const cay_call *call, const cay_apply *spec,
                              cay_applied *out, cay_err *err);

/* Zero: no bound of yours; 2 GiB in, 8 GiB out and 500,000 members are never exceeded, nor is 200
 * times as much out as in. */
typedef struct cay_archive_limits {
    size_t size;
    uint64_t max_input_bytes, max_extracted_bytes, max_members;
} cay_archive_limits;

typedef struct cay_extract {
    size_t size;
    const char
        *path; /* where the archive is put; its members go into the directory that it is in */
    int fd;    /* its bytes, read to their end */
    const char *scheme; /* "tar" (compressed or not) or "zip"; NULL: as the path ends. Else
                           CAY_EINVAL "invalid_compression_scheme" */
    const cay_archive_limits *limits; /* or NULL: none. Beyond them: CAY_ETOOBIG "archive_limit" */
} cay_extract;

typedef struct cay_extracted {
    size_t size;
    uint64_t files, dirs, bytes;
} cay_extracted;

/* Links, devices, names that lead out, members twice: CAY_EINVAL "archive_…", and nothing is
 * written; so when a member would go over a link, or a file over a directory: CAY_ETYPE
 * "workspace_archive_write_error". The archive is read in a sandbox of its own, which this machine
 * has to be able to make. out may be NULL. */
CAY_API int cay_sandbox_extract(cay_sandbox *sb, const cay_call *call, const cay_extract *spec,
                                cay_extracted *out, cay_err *err);

/* what is kept of one that is
 * stopped */

/* Read where it is kept, without starting it: what its template of the host's own directories and
 * mounts would show is not there, and no link is followed. CAY_ESTATE when it is not stopped;
 * CAY_ENOTSUP, "kept_unsupported", where its provider keeps no files here or /workspace is a
 * directory of the host. */
CAY_API int cay_sandbox_stopped_list(cay_sandbox *sb, const cay_call *call, const char *path,
                                     cay_dirent_fn *fn, void *arg, cay_err *err);
CAY_API int cay_sandbox_stopped_stat(cay_sandbox *sb, const cay_call *call, const char *path,
                                     cay_stat *out, cay_err *err);
/* The file itself, to be read and closed by the caller; not a copy: should the sandbox start again
 * and write to it, that is seen. */
CAY_API int cay_sandbox_stopped_open(cay_sandbox *sb, const cay_call *call, const char *path,
                                     int *out, cay_err *err);

#ifdef __cplusplus
}
#endif
