/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/manifest/manifest.h - a manifest from inside: entries in one flat list, depth first; fields
 * by their tables.
 *
 * Everything that comes in, as text or by a builder, is read by the same functions, so that there
 * is one judgement. Keys are turned to snake_case at the door. What a kind of entry may say is a
 * row of cay__kinds and its table of fields (kinds.c, mounts.c).
 */
#pragma once
#include <base/json.h>
#include <cay/manifest.h>
#include <cay/services.h>
#include <lib/client/spec.h>

typedef enum cay__kind_id {
    CAY__FILE,
    CAY__DIR,
    CAY__LOCAL_FILE,
    CAY__LOCAL_DIR,
    CAY__GIT,
    CAY__REMOTE_FILE,
    CAY__REMOTE_DIR,
    CAY__MOUNT,
    CAY__STORAGE,
} cay__kind_id;

typedef enum cay__type { CAY__STR, CAY__BOOL, CAY__UINT, CAY__STRS, CAY__MAP, CAY__OBJ } cay__type;
enum {
    CAY__NEEDED = 1, /* has to be there */
    CAY__HIDDEN =
        2, /* a secret: never written, and may be a reference {"type":"ref","source":"env:…"} */
    CAY__EMPTY = 4, /* "" and line breaks are fine */
    CAY__RAW = 8,   /* and so is a NUL */
};
typedef struct cay__entry_field {
    const char *name;
    cay__type type;
    unsigned flags;
} cay__entry_field;

typedef struct cay__entry cay__entry;
typedef struct cay__kind {
    const char *name;
    cay__kind_id id;
    bool dir;                                                   /* it becomes a directory */
    const cay__entry_field *fields;                             /* ends with a NULL name */
    int (*check)(cay_manifest *m, cay__entry *e, cay_err *err); /* what a table cannot say */
    const char *patterns,
        *drivers; /* of storage: the words it may be combined with, parted by blanks */
} cay__kind;
extern const cay__kind cay__kinds[]; /* ends with a NULL name */
const cay__kind *cay__kind_find(const char *name);

struct cay__entry {
    const cay__kind *kind;
    const char *path, *name;         /* whole and normalised; its last part */
    unsigned depth;                  /* 1 at the top */
    size_t up;                       /* index of the dir it stands in, or SIZE_MAX */
    json_t *fields;                  /* its own ones, by their canonical names */
    const char *description, *group; /* or NULL */
    bool ephemeral, has_mode, redacted;
    uint32_t mode;
    const void *data; /* bytes of a file */
    size_t len;
};

typedef struct cay__env {
    const char *name, *value, *source,
        *description; /* value or source; neither when it was left out */
    bool ephemeral;
} cay__env;
typedef struct cay__mgroup {
    const char *name, **users;
    size_t n;
} cay__mgroup;
typedef struct cay__mgrant {
    const char *path, *host_path, *description;
    bool read_only;
} cay__mgrant;

/* The directory that the last path was in, and what was found out about it: neighbours share it. */
typedef struct cay__dir {
    const char *path;
    size_t len;
    bool is;
} cay__dir;
/* Is it the same? Else it is the new one, and the caller finds out. */
static inline bool cay__near(cay__dir *k, const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t len = 0;
    if (slash)
        len = (size_t)(slash - path);
    if (k->path && k->len == len && !memcmp(k->path, path, len))
        return true;
    *k = (cay__dir){ path, len, false };
    return false;
}

struct cay_manifest {
    cay__arena mem;
    unsigned flags;
    const char *root, *run_as, *policy; /* policy: as text */
    cay__entry *entries;
    size_t n, cap;
    uint32_t *index; /* entries by hash of their path, +1; 0: free */
    size_t nindex;
    cay__dir near; /* read.c: where what is above is known to be directories */
    cay__env *env;
    const char **users;
    cay__mgroup *groups;
    cay__mgrant *grants;
    const char **allow, **acks, **persist;
    size_t nenv, nusers, ngroups, ngrants, nallow, nacks, npersist;
    bool has_allow, sudo;
    json_t *services;                    /* canonical, or NULL */
    unsigned limit_entries, limit_files; /* 0: unlimited */
};

#define CAY__ROOT "/workspace"

/* Names the entry: message "entry PATH: …", detail {"entry":PATH,"reason":word}. */
int cay__bad(cay_err *err, const char *reason, const char *entry, const char *word, const char *fmt,
             ...) __attribute__((format(printf, 5, 6)));
#define cay__bad_entry(err, entry, ...)                                                            \
    cay__bad(err, "manifest_invalid", (entry)->path, __VA_ARGS__)
/* A key below `base` ("" at the top) as one normalised path in mem. */
int cay__entry_path(cay__arena *mem, const char *base, const char *key, const char **out,
                    cay_err *err);
/* An absolute path without ".", ".." and double slashes; false when it is not absolute or climbs
 * above "/". Frees by caller. */
bool cay__path_normal(const char *path, char **out);
bool cay__path_below(const char *path, const char *dir); /* equal counts */
/* Where a mount appears; in mem. */
/* perms.c: what else has to be in every snapshot. */
int cay__persist_read(cay_manifest *m, const json_t *j, cay_err *err);
int cay__persist_check(const cay_manifest *m, cay_err *err);
int cay__mount_path(const cay_manifest *m, cay__arena *mem, const cay__entry *e, const char **out,
                    cay_err *err);

/* reading: read.c, top.c, perms.c */

void *cay__more(void *list, size_t n, size_t one); /* room for one more; grows by doubling */
/* The object's keys in snake_case, in order; a key that comes in both spellings is refused. New
 * reference. */
int cay__canonical(const char *what, const json_t *obj, json_t **out, cay_err *err);
/* Members of obj against a table: unknown names and wrong types are refused; null means missing.
 * What fits stays in obj. */
int cay__fields_check(const char *reason, const char *entry, json_t *obj,
                      const cay__entry_field *fields, cay_err *err);
/* A string member without a NUL inside, or none. */
const char *cay__member(const json_t *obj, const char *key);
/* j is taken apart. */
int cay__entry_read(cay_manifest *m, const char *base, size_t up, const char *key, json_t *j,
                    cay_err *err);
cay__entry *cay__entry_find(const cay_manifest *m, const char *path);
const char *cay__top_field(
    size_t i); /* the i-th name that a manifest may have at its top, or NULL */
int cay__top_read(cay_manifest *m, const json_t *j, cay_err *err);
int cay__env_read(cay_manifest *m, const char *name, const json_t *j, cay_err *err);
int cay__user_add(cay_manifest *m, const char *name, cay_err *err);
int cay__group_read(cay_manifest *m, const json_t *j, cay_err *err);
int cay__grant_read(cay_manifest *m, const json_t *j, cay_err *err);
int cay__root_set(cay_manifest *m, const char *root, cay_err *err);
int cay__mode_read(const char *entry, const json_t *j, uint32_t *mode, cay_err *err);
/* A source of a secret, or an error naming `entry`; refused in a manifest that is not trusted. */
int cay__reference_check(const cay_manifest *m, const char *entry, const char *source,
                         cay_err *err);

extern const cay__entry_field cay__s3_fields[], cay__gcs_fields[], cay__r2_fields[],
    cay__azure_fields[], cay__box_fields[], cay__s3files_fields[], cay__mount_fields[];
int cay__mount_check(cay_manifest *m, cay__entry *e, cay_err *err);
bool cay__is_mount(const cay__entry *e);
bool cay__mount_read_only(const cay__entry *e);
const char *cay__mount_strategy(const cay__entry *e, const char **pattern);

json_t *cay__entry_json(const cay_manifest *m, size_t at, bool secrets); /* with its children */
json_t *cay__manifest_json(const cay_manifest *m, bool secrets);
json_t *cay__manifest_kept(
    const cay_manifest *m); /* without secrets, with what a later start needs to be allowed again */
json_t *cay__manifest_brief(const cay_manifest *m); /* without entries and secrets */

/* Services of a sandbox (cay/services.h) on their way between JSON and
 * plain structs. */

/* part: on top of others, whose names `after` may have. */
int cay__services_read(const json_t *j, bool part, cay_services **out, cay_err *err);
json_t *cay__services_tell(const cay_services *u); /* canonical */
/* Fills the services of s->box by those of the request. */
int cay__services_take(cay__spec *s, cay_err *err);
