/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay/build.h - makes a template by the steps of a Dockerfile or a template file.
 *
 *   cay_build_run()     build and publish; returns when it is done
 *   cay_build_get()     what is known of one
 *   cay_build_log()     what it said, line by line
 *   cay_build_list()    those there were
 *   cay_build_check()   is the file sound?
 *   cay_build_submit()  leave it to whoever calls cay_build_run_next()
 *
 * Steps run in a sandbox under a policy of their own; each that changes files leaves a snapshot
 * under a name made of all that decides it (what is below, the step, its variables, the content of
 * what it copies), so the same step is done once. Whoever is killed in the middle leaves those
 * snapshots and nothing else: the next build goes on from there. docs/builds.md tells more.
 *
 * A remote builder (steps and files sent one by one, as the SDKs of other services have it) gives
 * `text`, a template file whose "steps" are its steps: {"run": …}, {"copy": {"src", "dest",
 * "owner", "mode", "archive": SHA-256}}, {"env": {…}}, {"workdir": …}, {"user": …}; `archive` then
 * opens what was uploaded under that hash, a tar of the sources, plain or compressed. "start" and
 * "ready" of the file become a service of the template, or with keep_start stay in its config under
 * these names. docs/template-file.md has every field.
 */
#pragma once
#include <cay/client.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum cay_build_event_kind {
    CAY_BUILD_STEP = 1, /* a step begins, or is taken from the cache: text is the step */
    CAY_BUILD_OUT,      /* bytes of its standard output, at most one line at a time */
    CAY_BUILD_ERR,      /* likewise of its standard error */
    CAY_BUILD_NOTE,     /* something about the build itself */
    CAY_BUILD_WARN,
    CAY_BUILD_FAIL, /* the error that ends it */
} cay_build_event_kind;
CAY_API const char *cay_build_event_name(
    cay_build_event_kind k); /* "step", "out", "err", "note", "warn", "fail" */

/* Text is what steps print: any bytes but newlines; escape it before a terminal sees it. */
typedef struct cay_build_event {
    size_t size;
    cay_build_event_kind kind;
    int64_t time_ms;      /* wall clock */
    unsigned step, steps; /* which, from 1; 0: before the first. How many there are */
    bool cached;
    const char *text;
    size_t len;
} cay_build_event;
typedef int cay_build_event_fn(const cay_build_event *event, void *arg);

/* For RUN --mount=type=secret: shown to that one command, and in no layer, log or key. */
typedef struct cay_build_secret {
    const char *id;
    const char *value; /* bytes */
    size_t len;
} cay_build_secret;

typedef struct cay_build {
    size_t size;
    const char *id;   /* "b…": of a build that was promised already; NULL: a new one */
    const char *dir;  /* the context, a directory of this host; or */
    int tar;          /* a descriptor of a tar, plain or compressed, read in a sandbox; 0: none */
    const char *file; /* in the context; NULL: template.json, else Dockerfile */
    const char
        *text; /* what would be in that file; JSON when it begins with '{'; NULL: it is read */
    const char *const
        *names; /* of the template, NULL-terminated; NULL: name and aliases of the file, or none */
    const char *tenant;   /* NULL: "default" */
    bool hidden;          /* not for other tenants */
    const cay_pair *args; /* values for ARG; ends with a NULL key */
    const char *target;   /* stage to build; NULL: the last */
    const char
        *net; /* policy (cay/policy.h) of the steps; NULL: `net` of the file, else CAY_BUILD_NET */
    cay_limits limits; /* of the steps; zero: the defaults */
    uint64_t step_ms;  /* most for one RUN; 0: an hour */
    bool no_cache, keep_failed;
    int (*archive)(void *arg, const char *sha256, int *fd,
                   cay_err *err); /* opens what {"copy": {"archive": …}} names; or NULL */
    void (*event)(void *arg, const cay_build_event *e); /* as it happens; or NULL */
    void *arg;
    const char *pull; /* instead of all steps: an image that comes from its registry, under `names`
                         or its own; dir, tar and text are empty then */
    const char *platform; /* of pull: "linux/arm64"; NULL: this machine's */
    bool trusted;    /* the caller runs this service: FROM may name a registry at a private address,
                        and docker's log-ins are used */
    bool no_pull;    /* what FROM and --from name has to be here */
    bool keep_start; /* "start" and "ready" of the file are only kept in the config: the caller sees
                        to them in each sandbox */
    const cay_build_secret *secrets; /* ends with a NULL id; or NULL. cay_build_submit() refuses
                                        them: they are kept nowhere */
} cay_build;
#define CAY_BUILD_NET "debian,pypi,npm"

typedef struct cay_built {
    size_t size;
    char id[CAY_ID_LEN + 1];        /* of the build */
    char template_[CAY_ID_LEN + 1]; /* its template; "" when it failed */
    char sandbox[CAY_ID_LEN + 1];   /* with keep_failed: where the step failed; else "" */
    unsigned steps, cached;         /* that change files */
} cay_built;

/* out may be NULL, and is filled as far as it came on failure as well. "build_failed": a step ended
 * with another code than 0; err->detail is
 * {"step","line","code","tail"}, tail the last lines that it printed. "build_copy": what is to be
 * copied is not there. Else the reasons of whoever found fault: "dockerfile_invalid",
 * "dockerfile_unsupported", "template_file_invalid", "template_not_found", … */
CAY_API int cay_build_run(cay_client *client, const cay_call *call, const cay_build *spec,
                          cay_built *out, cay_err *err);
/* Reads dir, file and text only; says what cay_build_run() would before it began. *json (may be
 * NULL): the steps, one object; the caller frees. */
CAY_API int cay_build_check(const cay_build *spec, char **json, cay_err *err);

/* Before cay_build_run(): makes its record, in state "waiting". id: CAY_ID_LEN + 1 bytes. */
CAY_API int cay_build_reserve(cay_client *client, const char *tenant, const char *const *names,
                              char *id, cay_err *err);

typedef struct cay_build_info {
    size_t size;
    const char *id, *tenant;
    const char *state; /* "waiting", "building", "ready", "failed", "canceled"; "lost": whoever was
                          at it died */
    const char *names; /* between blanks */
    const char *template_;      /* once it is ready */
    const char *sandbox;        /* kept for looking at, or "" */
    const char *reason, *error; /* of one that failed */
    unsigned step, steps, cached;
    int64_t started_ms, ended_ms;
} cay_build_info;
typedef int cay_build_info_fn(const cay_build_info *info, void *arg);
/* ref: its id, or a name of the template, which means the last build of it. tenant NULL: of any. fn
 * gets it once; its return is returned. CAY_ENOENT, "build_not_found". */
CAY_API int cay_build_get(cay_client *client, const char *tenant, const char *ref,
                          cay_build_info_fn *fn, void *arg, cay_err *err);
CAY_API int cay_build_list(cay_client *client, const char *tenant, cay_build_info_fn *fn, void *arg,
                           cay_err *err); /* newest first */
/* Its lines from *offset (bytes of the log; 0: all) on; *offset is moved behind the last one told.
 * A non-zero return of fn stops and is returned. A log holds at most 16 MiB. */
CAY_API int cay_build_log(cay_client *client, const char *id, uint64_t *offset,
                          cay_build_event_fn *fn, void *arg, cay_err *err);
/* Its file, for who waits with inotify(7) for more. The caller frees. */
CAY_API int cay_build_log_path(cay_client *client, const char *id, char **path, cay_err *err);
/* Marks one that waits or runs as canceled; who is at it sees that and stops. */
CAY_API int cay_build_cancel(cay_client *client, const char *id, cay_err *err);

/* Leaves a build in the queue (cay/jobs.h, kind "build", subject its id) and returns. All of spec
 * is kept but dir, which is refused, event and archive: archives are those of cay_build_upload().
 * id: CAY_ID_LEN + 1 bytes. */
CAY_API int cay_build_submit(cay_client *client, const cay_build *spec, char *id, cay_err *err);
/* Does one that waits, with all its output in its log: 1 there was one, 0 there was none. Canceled
 * by the call it is left for the next who comes, from the step that it was at. owner: for people.
 */
CAY_API int cay_build_run_next(cay_client *client, const cay_call *call, const char *owner,
                               cay_err *err);
/* How many builds and pulls of one tenant may wait; cay_build_submit() then is CAY_ERATE,
 * "queue_full", and so is this, which takes nothing. */
#define CAY_BUILDS_WAITING 16
CAY_API int cay_build_queue_check(cay_client *client, const char *tenant, cay_err *err);
/* Keeps the bytes of fd, from its start, for {"copy": {"archive": sha256}} of that tenant's builds,
 * for a day after they were last asked for. The hash is what the client calls it. At most 1 GiB. */
CAY_API int cay_build_upload(cay_client *client, const char *tenant, const char *sha256, int fd,
                             cay_err *err);
CAY_API int cay_build_uploaded(cay_client *client, const char *tenant, const char *sha256,
                               bool *yes, cay_err *err);

/* A cache of RUN --mount=type=cache. */
typedef struct cay_build_cache {
    size_t size;
    const char *id;     /* as the Dockerfile has it, else its target */
    const char *volume; /* that holds it (cay/volume.h) */
    const char *tenant;
    uint64_t bytes, limit;
    int64_t used_ms; /* wall clock; 0: not known */
} cay_build_cache;
typedef int cay_build_cache_fn(const cay_build_cache *cache, void *arg);
/* tenant NULL: of all. A non-zero return of fn stops and is returned. */
CAY_API int cay_build_caches(cay_client *client, const cay_call *call, const char *tenant,
                             cay_build_cache_fn *fn, void *arg, cay_err *err);
/* What builds that died left, and caches that none used for two weeks; *n (or NULL): how many of
 * those. */
CAY_API int cay_build_gc(cay_client *client, const cay_call *call, size_t *n, cay_err *err);
/* Forgets what steps left behind for later builds and nobody stands on; *n (or NULL): how many. */
CAY_API int cay_build_prune(cay_client *client, const cay_call *call, const char *tenant, size_t *n,
                            cay_err *err);

#ifdef __cplusplus
}
#endif
