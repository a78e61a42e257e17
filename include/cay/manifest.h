/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay/manifest.h - what is put into a sandbox before its first process: files, directories,
 * repositories, mounts, accounts, variables.
 *
 *   cay_manifest_parse()     from JSON, keys in snake_case or camelCase
 *   cay_manifest_new()       an empty one, for the builders
 *   cay_manifest_file()      … and the other builders add one thing each
 *   cay_manifest_check()     is the whole of it sound
 *   cay_manifest_to_json()   the canonical form, without secret values
 *   cay_manifest_describe()  a tree for people and models
 *   cay_manifest_entries()   what it holds, depth first
 *   cay_manifest_change()    may a live sandbox follow this change
 *   cay_manifest_schema()  its form, for editors
 *
 * A manifest is given to cay_create as JSON text. Paths of entries are relative to its root, use
 * '/', and never leave it. Whatever is wrong is told with the path of the entry, before anything is
 * made: err->reason is "invalid_manifest_path", "mount_config_invalid", "git_subpath_error" or
 * "manifest_invalid", and err->detail is {"entry":…,"reason":…} with one of the words of
 * docs/manifest.md. A manifest belongs to one thread at a time.
 */
#pragma once
#include <cay/error.h>
#include <cay/client.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cay_manifest cay_manifest;

/* Most bytes of its text, entries, directories inside each other, and bytes of one path. */
#define CAY_MANIFEST_BYTES   (64u << 20)
#define CAY_MANIFEST_ENTRIES 200000u
#define CAY_MANIFEST_DEPTH   64u
#define CAY_MANIFEST_PATH    4096u

/* TRUSTED: written by who runs this program. Without it path grants, credential acknowledgements,
 * storage mounts, a policy, root as run_as and references to the host's variables, files, commands
 * and secrets are refused. */
enum { CAY_MANIFEST_TRUSTED = 1 };

CAY_API int cay_manifest_parse(const char *text, size_t len, unsigned flags, cay_manifest **out,
                               cay_err *err);
CAY_API cay_manifest *cay_manifest_new(void); /* trusted: a program says what it wants itself */
CAY_API void cay_manifest_free(cay_manifest *m);
/* What single steps cannot see: names of groups that are not there, credential files that are
 * entries, … parse() has done it. */
CAY_API int cay_manifest_check(const cay_manifest *m, cay_err *err);
/* snake_case, every default left out, entries in the order given. Values that are ephemeral or
 * secret are not in it; what was left out is marked by "redacted": true beside it. The caller frees
 * *json. */
CAY_API int cay_manifest_to_json(const cay_manifest *m, char **json, cay_err *err);
/* JSON Schema (2020-12) of the form, in snake_case: for editors and programs that write manifests.
 * It is wider than parse(), which judges what no schema can say. The caller frees it. */
CAY_API char *cay_manifest_schema(void);
CAY_API const char *cay_manifest_root(
    const cay_manifest *m); /* "/workspace" unless it says otherwise */
CAY_API const char *cay_manifest_run_as(const cay_manifest *m); /* NULL: nobody in particular */

/* What every entry may have; NULL for none of it. */
typedef struct cay_entry {
    size_t size;
    const char *description;
    bool ephemeral;          /* written after the start, never part of a snapshot */
    const char *group;       /* a group or user of the manifest */
    const char *permissions; /* "rwxr-x---", "-rwxr-x---" or octal "0750"; NULL: 0755 */
} cay_entry;

CAY_API int cay_manifest_file(cay_manifest *m, const char *path, const void *data, size_t len,
                              const cay_entry *e, cay_err *err);
CAY_API int cay_manifest_dir(cay_manifest *m, const char *path, const cay_entry *e, cay_err *err);
CAY_API int cay_manifest_local_file(cay_manifest *m, const char *path, const char *src,
                                    const cay_entry *e, cay_err *err);

typedef struct cay_local_dir {
    size_t size;
    const char *src;            /* NULL: an empty directory */
    const char *const *exclude; /* patterns as in a .gitignore; NULL-terminated */
    const char *ignore_file;    /* a file of such patterns inside src: ".gitignore" */
} cay_local_dir;
CAY_API int cay_manifest_local_dir(cay_manifest *m, const char *path, const cay_local_dir *spec,
                                   const cay_entry *e, cay_err *err);

typedef struct cay_git_repo {
    size_t size;
    const char *repo;          /* "owner/name" */
    const char *host;          /* NULL: "github.com" */
    const char *ref;           /* branch, tag or commit; NULL: the default branch */
    bool whole;                /* all of its history */
    unsigned depth;            /* commits of history; 0: 1 */
    const char *const *sparse; /* directories to check out; NULL: all */
    const char *subpath;       /* only this directory of it */
    const char *credentials; /* "env:…", "file:…", "cmd:…", "store:…": used outside, never inside */
} cay_git_repo;
CAY_API int cay_manifest_git_repo(cay_manifest *m, const char *path, const cay_git_repo *spec,
                                  const cay_entry *e, cay_err *err);

typedef struct cay_remote {
    size_t size;
    const char *url;         /* http or https */
    const cay_pair *headers; /* ends with a NULL key; a value of env:…, file:…, cmd:… or store:… is
                                read from there */
    const char *sha256; /* 64 hex digits; NULL: whatever comes */
    uint64_t max_bytes; /* 0: 256 MiB a file, 1 GiB an archive */
    const char *format; /* of an archive: "tar", "zip"; NULL: by its name and first bytes */
} cay_remote;
CAY_API int cay_manifest_remote_file(cay_manifest *m, const char *path, const cay_remote *spec,
                                     const cay_entry *e, cay_err *err);
CAY_API int cay_manifest_remote_dir(cay_manifest *m, const char *path, const cay_remote *spec,
                                    const cay_entry *e, cay_err *err);

/* A host directory shown inside; in place, not copied. */
CAY_API int cay_manifest_bind(cay_manifest *m, const char *path, const char *source, bool rw,
                              cay_err *err);
/* Storage: type "s3_mount", "gcs_mount", "r2_mount", "azure_blob_mount", "box_mount",
 * "s3_files_mount" or "mount", and its fields as one JSON object:
 * {"bucket":"b","mount_strategy":{"type":"in_container","pattern":{"type":"rclone"}}}. */
CAY_API int cay_manifest_mount(cay_manifest *m, const char *path, const char *type,
                               const char *fields, cay_err *err);

/* Any entry as the JSON object that a manifest has for it. */
CAY_API int cay_manifest_entry(cay_manifest *m, const char *path, const char *json, cay_err *err);

/* source NULL: `value` itself; else it is read from there ("env:…", "file:…", "cmd:…", "store:…")
 * whenever the sandbox starts. */
CAY_API int cay_manifest_env(cay_manifest *m, const char *name, const char *value,
                             const char *source, bool ephemeral, cay_err *err);
CAY_API int cay_manifest_user(cay_manifest *m, const char *name, cay_err *err);
CAY_API int cay_manifest_group(cay_manifest *m, const char *name, const char *const *users,
                               cay_err *err);
CAY_API int cay_manifest_set_root(cay_manifest *m, const char *root, cay_err *err);
CAY_API int cay_manifest_set_run_as(cay_manifest *m, const char *user, cay_err *err);
CAY_API int cay_manifest_set_policy(cay_manifest *m, const char *text,
                                    cay_err *err); /* of cay/policy.h */
CAY_API int cay_manifest_set_services(cay_manifest *m, const char *json,
                                      cay_err *err); /* of cay/services.h */
CAY_API int cay_manifest_set_sudo(cay_manifest *m, bool on, cay_err *err);
/* Most entries, and files of one local directory, worked on at once; 0: no bound but the number of
 * CPUs. 4 and 4 unless told. */
CAY_API int cay_manifest_set_limits(cay_manifest *m, unsigned manifest_entries,
                                    unsigned local_dir_files, cay_err *err);
/* host_path NULL: only allows `path`, inside and as a place that local sources may come from. */
CAY_API int cay_manifest_path_grant(cay_manifest *m, const char *path, const char *host_path,
                                    bool read_only, cay_err *err);

typedef struct cay_entry_info {
    size_t size;
    const char *path;                /* relative to the root */
    const char *type;                /* "file", "dir", … */
    const char *description, *group; /* or "" */
    const char *source; /* where its content comes from, for people; "" for inline content */
    uint32_t mode;
    unsigned depth; /* 1 at the top */
    bool ephemeral, is_dir, is_mount;
    uint64_t bytes; /* of inline content */
} cay_entry_info;
typedef int cay_entry_info_fn(const cay_entry_info *info, void *arg);
/* Depth first, in the order given; a non-zero return of fn stops and is returned. */
CAY_API int cay_manifest_entries(const cay_manifest *m, cay_entry_info_fn *fn, void *arg);
/* Whole paths of ephemeral entries at any depth. */
CAY_API int cay_manifest_ephemeral(const cay_manifest *m, int (*fn)(const char *path, void *arg),
                                   void *arg);

typedef struct cay_mount_target {
    size_t size;
    const char *path;                              /* where it appears: absolute, normalised */
    const char *entry, *type, *strategy, *pattern; /* pattern: of strategy in_container, else "" */
    bool read_only;
    const char *fields; /* its own fields as JSON, secret values included: for who performs it, for
                           nobody else */
} cay_mount_target;
typedef int cay_mount_target_fn(const cay_mount_target *target, void *arg);
/* Every mount, deepest path first: the order in which they are taken away. */
CAY_API int cay_manifest_mounts(const cay_manifest *m, cay_mount_target_fn *fn, void *arg);
/* Paths below the root that no saved workspace has: ephemeral entries and mounts. Relative to the
 * root. */
CAY_API int cay_manifest_unsaved(const cay_manifest *m, int (*fn)(const char *path, void *arg),
                                 void *arg);

/* A tree of `depth` levels (0: 1), cut at 5,000 characters with a note that says so. The caller
 * frees. */
CAY_API char *cay_manifest_describe(const cay_manifest *m, unsigned depth);
/* What a model has to know of storage that is mounted: which directories, what may be done there
 * (remote_mount_command_allowlist), and that what they hold is no instruction. NULL: there is none.
 * The caller frees. */
CAY_API char *cay_manifest_mount_policy(const cay_manifest *m);

/* The absolute path that a tool's path means, if it is below the root or a grant, else
 * "invalid_manifest_path". The longest grant counts; writing below a read-only one is
 * "workspace_archive_write_error". The caller frees *out. */
CAY_API int cay_manifest_resolve(const cay_manifest *m, const char *path, bool for_write,
                                 char **out, cay_err *err);

/* What there would be to do: local sources are looked at as for a sandbox, nothing is read, fetched
 * or made. */
typedef struct cay_manifest_totals {
    size_t size;
    uint64_t entries, files, bytes; /* files: with the members of local directories */
    uint64_t ephemeral, mounts, fetched;
    uint64_t skipped; /* sockets, pipes and devices in local directories */
} cay_manifest_totals;
/* base: directory that relative host paths start from; NULL: there may be none. */
CAY_API int cay_manifest_measure(const cay_manifest *m, const char *base, cay_manifest_totals *out,
                                 cay_err *err);

typedef struct cay_manifest_delta {
    size_t size;
    const char *what;   /* "root", "environment", "users", "groups", "entry", "mount", "grants",
                           "policy", "run_as" */
    const char *name;   /* path or variable; "" for the whole */
    const char *action; /* "add", "replace", "remove", "adopt" */
    const char *why;    /* NULL: it may be done; else why not */
} cay_manifest_delta;
typedef int cay_manifest_delta_fn(const cay_manifest_delta *delta, void *arg);
enum { CAY_MANIFEST_REPLACE = 1 }; /* entries that are there may get other content or permissions */
/* What leads from one to the other, each told to fn (or NULL). CAY_ESTATE, reason
 * "manifest_change_refused", names the first that a running sandbox cannot follow. */
CAY_API int cay_manifest_change(const cay_manifest *old, const cay_manifest *new_, unsigned flags,
                                cay_manifest_delta_fn *fn, void *arg, cay_err *err);

/* The manifest behind a sandbox, as cay_manifest_to_json() gives it. CAY_ENOENT: it has none. */
CAY_API int cay_sandbox_manifest(cay_sandbox *sb, const cay_call *call, char **json, cay_err *err);
enum { CAY_MANIFEST_FOREIGN = 2 }; /* somebody else's: judged and recorded without TRUSTED */
/* Changes a running sandbox to follow `text`, by the rules of cay_manifest_change(): judged whole,
 * then what is new is written. Without a base nothing new may be relative to one; what is there
 * stays relative to the one that it had. */
CAY_API int cay_sandbox_set_manifest(cay_sandbox *sb, const cay_call *call, const char *text,
                                     const char *base, unsigned flags, cay_err *err);

/* How far cay_client_create() has come with a manifest. Called from the creating thread. */
typedef struct cay_manifest_progress {
    size_t size;
    uint64_t entries, entries_total, bytes, bytes_total;
} cay_manifest_progress;

#ifdef __cplusplus
}
#endif
