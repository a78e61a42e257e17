/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay/client.h - which sandboxes exist.
 *
 *   cay_client_open()    open the state directory
 *   cay_client_create()  make a sandbox
 *   cay_client_find()    borrow a handle by id
 *   cay_client_list()    all of them
 *   cay_sandbox_pause()   freeze, processes intact
 *   cay_sandbox_resume()  go on, or start again
 *   cay_sandbox_extend()  move the deadlines
 *   cay_sandbox_kill()    stop it, keep the files
 *   cay_sandbox_update()  name, labels, metadata
 *   cay_sandbox_remove()    stop it and forget it
 *   cay_sandbox_wait()      until it stops
 *   cay_sandbox_describe()  all that is known
 *   cay_client_events()    what happens, as a stream
 *
 * Sandboxes outlive the program: closing the client changes nothing inside them.
 * Calls may block. A client may be used from several threads at once.
 */
#pragma once
#include <cay/error.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cay_client cay_client;
typedef struct cay_sandbox cay_sandbox;
struct cay_provider_ops;
struct cay_manifest_progress; /* cay/manifest.h */

/* A provider's work before there is a sandbox. */
typedef struct cay_create_progress {
    size_t size;
    const char *what; /* "pull", "build" */
    const char *text; /* one line, safe for a terminal */
    bool brief;       /* a figure that the next line replaces: for a terminal, not for a log */
} cay_create_progress;

#define CAY_ID_LEN 20 /* [a-z2-7], first letter tells the kind */

typedef enum cay_state {
    CAY_STATE_NONE = 0,
    CAY_CREATING,
    CAY_RUNNING,
    CAY_PAUSED,
    CAY_STOPPED, /* no process; files are kept; resume starts it again */
    CAY_DELETING,
    CAY_GONE,    /* only in events and answers, never stored */
    CAY_DAMAGED, /* its record could not be read; listed so that it is not lost */
} cay_state;
CAY_API const char *cay_state_name(cay_state s);
CAY_API cay_state cay_state_parse(const char *name);

/* How strong the wall is. Level 0 is given only when asked for by name. */
typedef enum cay_level {
    CAY_LEVEL_NONE = 0,
    CAY_LEVEL_PROCESS = 1,
    CAY_LEVEL_ROOTLESS = 2,
    CAY_LEVEL_ROOT = 3,
    CAY_LEVEL_VM = 4,
} cay_level;
CAY_API const char *cay_level_name(cay_level l);
/* Accepts a name or digit; -1 if it is neither. */
CAY_API int cay_level_parse(const char *name);

typedef struct cay_open {
    size_t size;
    const char *home;     /* state directory; NULL: $CAY_HOME, /var/lib/cay, or XDG data home */
    const char *provider; /* default provider; NULL: "native" */
    const char *libexec;  /* where cay-keeper is; NULL: beside the running program or the prefix */
    const struct cay_provider_ops *const *extra; /* more providers, NULL-terminated */
    const char *host; /* a cay server, whose sandboxes these are then: "https://HOST[:PORT]",
                         "unix:/PATH"; NULL: those of this machine. What a server is not asked for
                         is CAY_ENOTSUP, "remote_unsupported"; docs/remote.md */
    const char *key;  /* for it; NULL: $CAY_API_KEY, else the line of host in ~/.config/cay/hosts */
} cay_open;

CAY_API int cay_client_open(const cay_open *spec, cay_client **out, cay_err *err);
CAY_API void cay_client_close(cay_client *client);
CAY_API const char *cay_client_home(const cay_client *client);
CAY_API const char *cay_client_host(
    const cay_client *client); /* the URL of the server whose sandboxes these are; NULL: they are of
                                  this machine */

/* 0 means the default named in the comment; CAY_UNLIMITED means no limit. */
#define CAY_UNLIMITED UINT64_MAX
typedef struct cay_limits {
    uint64_t memory;    /* bytes; 2 GiB */
    uint64_t swap;      /* bytes; none */
    uint64_t cpu_milli; /* thousandths of a CPU; 2000 */
    uint64_t pids;      /* processes and threads; 512 */
    uint64_t disk;      /* bytes; 10 GiB */
    uint64_t inodes;    /* files; 1,000,000 */
    uint64_t nofile;    /* descriptors per process, soft; 4096 */
    uint64_t io_read;   /* bytes per second; unlimited */
    uint64_t io_write;  /* bytes per second; unlimited */
} cay_limits;

/* A directory of the host shown inside. Read-only unless rw. */
typedef struct cay_grant {
    const char *source; /* directory on the host, opened with the caller's rights */
    const char *target; /* absolute path inside */
    bool rw;
} cay_grant;

typedef struct cay_pair {
    const char *key;
    const char *value;
} cay_pair;

/* A secret that never enters: inside, variable `name` holds a placeholder; the value is put into
 * requests to the destination on their way out. */
typedef struct cay_secret {
    const char *name;   /* letters, digits and '_' */
    const char *source; /* "env:VARIABLE", "file:PATH", "cmd:NAME" (of secrets.conf), "store:NAME",
                           "fill:NAME" (of the store, with ${store:OTHER} in it) */
    const char *destination; /* as in cay_bind (cay/policy.h); NULL: the policy binds it already */
} cay_secret;

/* A named volume (cay/volume.h) shown inside. */
typedef struct cay_volume_use {
    const char *name;
    const char *target; /* absolute path inside */
    bool rw;
} cay_volume_use;

typedef enum cay_expiry { CAY_EXPIRE_KILL = 0, CAY_EXPIRE_PAUSE = 1 } cay_expiry;

/* A request for a sandbox. In most programs a few fields are set; zero means the default. */
typedef struct cay_create {
    size_t size;
    const char *provider;    /* NULL: the client's default */
    const cay_pair *options; /* known to this provider alone, as image to docker; ends with a NULL
                                key. Others refuse them */
    const char *name;        /* a label for people; need not be unique */
    const char *hostname;    /* NULL: "cay" */
    const cay_pair *labels;  /* ends with a NULL key; list filters by them */
    const char *metadata;    /* one JSON object kept for the caller, or NULL */
    const char *tenant; /* its owner (cay/access.h); NULL: that of its snapshot, or "default" */
    const char *idempotency_key; /* at most 255 bytes: a later request of the tenant with the same
                                    key gets the sandbox of the first one; CAY_EBUSY while that is
                                    being made. NULL: none */

    struct {                   /* the files that it starts with */
        const char *template_; /* a name or an id (cay/template.h); NULL: "host" */
        const char *root;      /* any root filesystem directory instead of a template */
        const char *snapshot;  /* id, unique prefix or label; NULL: the template alone */
        const char *directory; /* of the host, shown copy-on-write at /workspace and recorded by its
                                  real path; NULL: none */
        const cay_pair *settings; /* some of those that its template has (cay/template.h: config);
                                     ends with a NULL key. Others keep their defaults, or the
                                     snapshot's values. CAY_EINVAL, "setting_unknown" or
                                     "setting_invalid" */
        bool no_settings; /* the template's files for settings are not written: to build on it */
    } from;

    struct {              /* what is put into it, see cay/manifest.h */
        const char *text; /* JSON; NULL: nothing */
        const char *base; /* directory of its relative host paths; NULL: it may have none */
        bool trusted;     /* it is the caller's own: see TRUSTED in cay/manifest.h */
        bool applied;     /* its files are there already, as in a snapshot; only ephemeral ones are
                             written */
        void (*progress)(const struct cay_manifest_progress *p, void *arg); /* or NULL */
        void *progress_arg;
    } manifest;

    struct {                 /* defaults of its processes */
        const char *user;    /* NULL: "user" (uid 1000) */
        const char *group;   /* name or number: the only group of `user`; NULL: those that the
                                sandbox's own files give it. Native, docker and podman */
        const char *workdir; /* NULL: "/workspace" */
        const cay_pair *env; /* ends with a NULL key */
    } process;
    const char *services; /* commands that are kept running: JSON text, see cay/services.h; those
                             of a manifest are added. NULL: none */

    struct { /* files that are not its own */
        const cay_grant *grants;
        size_t ngrants;
        const cay_volume_use *volumes;
        size_t nvolumes;
    } files;

    cay_limits limits;
    struct {
        int min_level; /* least level accepted; 0: the best that the host has, at least 1.
                          Level 0 needs provider "local" by name */
        const char *const *require; /* features: "memory-limit", "disk-quota", …; NULL-terminated */
        bool sudo;   /* it has our own sudo and su: its users may become others, docs/sudo.md */
        bool no_pin; /* leave CPU affinity alone */
    } isolation;

    struct {
        const char *policy; /* destinations that it may reach: text, cay/policy.h; NULL: none */
        bool is_default; /* the policy is everybody's and not asked for: a provider whose networks
                            have no policy takes "all" as nothing asked */
        const cay_secret *secrets; /* a name may be repeated with another destination and the same
                                      source */
        size_t nsecrets;
    } net;

    struct {
        uint64_t ttl_ms;  /* 0: none */
        uint64_t idle_ms; /* 0: none */
        cay_expiry on_expiry;
        bool ephemeral;       /* no record; removed when its last client and process are gone */
        bool auto_resume;     /* cay_sandbox_wake() may resume it: a server does when it is used */
        bool durable;         /* its files survive a power cut: mounted without `volatile` */
        unsigned checkpoints; /* automatic snapshots that are kept, one after each exec; 0: none */
    } life;

    /* Called while a provider fetches or builds an image, on the caller's thread; or NULL. */
    void (*progress)(const struct cay_create_progress *p, void *arg);
    void *progress_arg;
} cay_create;

CAY_API int cay_client_create(cay_client *client, const cay_call *call, const cay_create *spec,
                              cay_sandbox **out, cay_err *err);
/* id: whole, or a prefix that only one sandbox has, or its name if only one has that. */
CAY_API int cay_client_find(cay_client *client, const cay_call *call, const char *id,
                            cay_sandbox **out, cay_err *err);

typedef struct cay_filter {
    size_t size;
    unsigned states;        /* bits 1u << cay_state; 0 means all */
    const cay_pair *labels; /* all must match; ends with a NULL key */
    const char *provider;   /* or NULL */
    size_t limit;           /* 0: all */
    const char *after; /* id after which to continue, or ID.CREATED_MS, which goes on also when that
                          one is gone; or NULL */
    const char *tenant;   /* or NULL: of all */
    const char *metadata; /* one JSON object whose members the sandbox's metadata has, with the same
                             values; or NULL */
} cay_filter;

/* One isolation layer or feature as found: {"seccomp", "on"}, {"memory-limit", "soft", "no cgroup
 * …"}. */
typedef struct cay_wall {
    const char *name;
    const char *state;  /* "on", "soft", "off" */
    const char *why;    /* cause when not on, or detail; may be "" */
    const char *remedy; /* one line, or "" */
} cay_wall;

typedef struct cay_info {
    size_t size;
    const char *id, *name, *provider, *template_, *hostname, *user, *workdir;
    cay_state state;
    const char *reason; /* why it is in that state: "killed", "ttl", "idle", "oom", "reboot", … */
    cay_level level;    /* CAY_LEVEL_NONE with no walls while it does not run: what it gets is known
                           when it starts */
    const cay_wall *walls;
    size_t nwalls;
    cay_limits limits;
    const cay_pair *labels; /* ends with a NULL key */
    const char *metadata;   /* JSON or "" */
    const char *path;       /* where the workspace is on the host, at levels 0 and 1; else "" */
    int64_t created_ms, changed_ms; /* wall clock */
    int64_t deadline_ms;            /* wall clock; 0: none */
    uint64_t idle_ms;
    cay_expiry on_expiry;
    int pid; /* of its init on the host, or 0 */
    const char *tenant;
    bool auto_resume;
    const char *from;    /* the snapshot it stands on: the last one taken, or the one it was made,
                            forked or put back from; "" without */
    const char *network; /* what it may reach: "off", "rules" (those of its policy), "all"; "" where
                            that is not known */
    const cay_pair *settings; /* those of its template as they are in it; ends with a NULL key.
                                 NULL: it has none */
    const char *boot_id; /* the sandbox's own, new at each start; "" where it is not known, as in
                            lists and while it does not run. Never the host's */
} cay_info;
typedef int cay_info_fn(const cay_info *info, void *arg);

typedef struct cay_usage {
    size_t size;
    uint64_t cpu_us, memory, memory_peak, pids, disk, inodes;
    uint64_t oom_kills, pids_hits;
    uint64_t net_rx, net_tx;
} cay_usage;

/* Calls fn for each match, oldest first; a non-zero return stops and is returned. */
CAY_API int cay_client_list(cay_client *client, const cay_call *call, const cay_filter *filter,
                            cay_info_fn *fn, void *arg, cay_err *err);

/* A number that is another one as soon as anything that a list tells of sandboxes of these
 * providers (ending with NULL) has changed and whoever changed it was told so: who keeps an answer
 * and asks for the number before the list knows by it whether the answer still holds. Cheap. The
 * times in a list are by the wall clock, whose jumps are not counted. CAY_ENOTSUP: one of them
 * cannot tell. */
CAY_API int cay_client_version(cay_client *client, const char *const *providers, uint64_t *out,
                               cay_err *err);

/* The handle. Any number may exist for one sandbox; dropping one changes nothing inside. */
CAY_API cay_sandbox *cay_sandbox_ref(cay_sandbox *sb);
CAY_API void cay_sandbox_unref(cay_sandbox *sb);
CAY_API const char *cay_sandbox_id(const cay_sandbox *sb);
/* The caller frees the answer with cay_info_free(). */
CAY_API int cay_sandbox_describe(cay_sandbox *sb, const cay_call *call, cay_info **out,
                                 cay_err *err);
CAY_API void cay_info_free(cay_info *info);
CAY_API int cay_sandbox_usage(cay_sandbox *sb, const cay_call *call, cay_usage *out, cay_err *err);

CAY_API int cay_sandbox_pause(cay_sandbox *sb, const cay_call *call, cay_err *err);
CAY_API int cay_sandbox_resume(cay_sandbox *sb, const cay_call *call, cay_err *err);
/* The same, with values for variables that the manifest of a stopped one calls ephemeral: nobody
 * kept them. *missing: names that nobody gave now, with commas, malloc'ed; untouched when there are
 * none. env and missing may be NULL. CAY_EINVAL "variable_kept" for any other variable; CAY_ESTATE
 * when there are values and it is not stopped. */
CAY_API int cay_sandbox_restart(cay_sandbox *sb, const cay_call *call, const cay_pair *env,
                                char **missing, cay_err *err);
/* Before it is used: resumes a paused or stopped one that was made with auto_resume, and leaves all
 * others as they are. */
CAY_API int cay_sandbox_wake(cay_sandbox *sb, const cay_call *call, cay_err *err);
/* Sets the time left, from now. 0 leaves that one as it is; CAY_UNLIMITED removes it. */
CAY_API int cay_sandbox_extend(cay_sandbox *sb, const cay_call *call, uint64_t ttl_ms,
                               uint64_t idle_ms, cay_err *err);
/* Other words for it: NULL leaves one as it is, "", no label and {} take it away. */
typedef struct cay_update {
    size_t size;
    const char *name;
    const cay_pair *labels; /* all of them; ends with a NULL key */
    const char *metadata;   /* one JSON object */
} cay_update;
CAY_API int cay_sandbox_update(cay_sandbox *sb, const cay_call *call, const cay_update *spec,
                               cay_err *err);
CAY_API int cay_sandbox_kill(cay_sandbox *sb, const cay_call *call, cay_err *err);
CAY_API int cay_sandbox_remove(cay_sandbox *sb, const cay_call *call, cay_err *err);
/* Returns when the sandbox is stopped or gone; *state tells which. */
CAY_API int cay_sandbox_wait(cay_sandbox *sb, const cay_call *call, cay_state *state, cay_err *err);

/* An event: a sandbox or process changed. Strings live until the next read. */
typedef struct cay_event {
    size_t size;
    int64_t time_ms; /* wall clock */
    uint64_t seq;
    const char *sandbox; /* id */
    const char *kind;   /* "created" "paused" "resumed" "extended" "stopped" "removed" "exec" "exit"
                           "limit" "net" "service" "sudo" "mount" "lost" */
    const char *reason; /* "oom", "pids", "disk", "time", "ttl", "idle", "killed", …; of "service"
                           the state (cay/services.h); of "mount" "died": its storage is gone, and
                           cay_info.layers tells which; or "" */
    const char *process; /* id; of "service" its name, which is the tag of its process; or "" */
    int code;            /* exit code of "exit" and of a "service" that ended, else 0 */
    const struct cay_net_record *net; /* of "net" (cay/policy.h), what was decided; else NULL */
} cay_event;
typedef struct cay_events cay_events;
/* sandbox_id NULL: all. Events from now on; a slow reader gets kind "lost" with the count in code.
 */
CAY_API int cay_client_events(cay_client *client, const char *sandbox_id, cay_events **out,
                              cay_err *err);
CAY_API int cay_events_fd(
    const cay_events *ev); /* readable when cay_events_next() will not block */
CAY_API int cay_events_next(cay_events *ev, const cay_call *call, cay_event *out, cay_err *err);
CAY_API void cay_events_close(cay_events *ev);

/* What this host can give, layer by layer. */
typedef struct cay_probe {
    size_t size;
    cay_level level;
    const char *mode; /* "root", "range", "single", "process" */
    const cay_wall *walls;
    size_t nwalls;
} cay_probe;
CAY_API int cay_client_probe(cay_client *client, const char *provider, cay_probe **out,
                             cay_err *err);
CAY_API void cay_probe_free(cay_probe *p);

/* Removes what no record owns: dead directories, groups and sockets of ours. Returns the count. */
CAY_API int cay_client_gc(cay_client *client, const cay_call *call, size_t *removed, cay_err *err);

/* Removes all that the state directory holds: every sandbox, whatever its provider, then snapshots,
 * templates, volumes, keys, records and the directory itself; the keeper leaves. After that the
 * client can only be closed. Only names that are ours are removed, and no link is followed; a
 * directory that holds others stays, with those. `left` (may be NULL) is told their names.
 * CAY_EBUSY, "home_busy": another program has it open; "home_mounted": something is mounted below
 * it. A sandbox that cannot be removed, as one of a provider that does not answer, is the error,
 * and then no more than some sandboxes are gone; with `forget` it is only told to `left`. Of a
 * server (cay_open.host): the sandboxes, snapshots, templates and volumes that its key may remove;
 * nothing else, and the client stays open. */
CAY_API int cay_client_purge(cay_client *client, const cay_call *call, bool forget,
                             void (*left)(const char *what, void *arg), void *arg, cay_err *err);

#ifdef __cplusplus
}
#endif
