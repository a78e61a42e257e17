/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay/sys/provider.h - for those who make a place where sandboxes run.
 *
 * A provider is one table. The smallest useful one fills the first group; a NULL pointer in the
 * second means unsupported. A pointer being there is the capability; no flag repeats it. What a
 * provider cannot enforce it refuses before it makes anything. `self`, `box` and `proc` are the
 * provider's own objects; the library calls nothing on a box after release() or destroy().
 * Every call may come from any thread; calls on one box may overlap.
 */
#pragma once
#include <cay/client.h>
#include <cay/sandbox.h>
#include <cay/services.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct json_t cay_json; /* jansson's value */

typedef struct cay_provider_conf {
    size_t size;
    const char *home; /* state directory */
    const char *libexec;
    const char *instance; /* id of this state directory, for labels on outside objects */
} cay_provider_conf;

/* What a provider knows of a live box; strings live as long as the box handle. */
typedef struct cay_box_status {
    size_t size;
    cay_state state;
    const char *reason;
    cay_level level;
    const cay_wall *walls;
    size_t nwalls;
    int64_t deadline_ms; /* wall clock, 0: none */
    uint64_t idle_ms;
    int pid;
    const char *path;
    const char
        *network; /* "off" or "all", of a provider whose networks have no policy; else NULL */
} cay_box_status;

/* What a provider is to make: the caller's request, completed from its snapshot, template and
 * manifest, and what the library adds. It and all that it points to live until the call returns. */
typedef struct cay_box_spec {
    size_t size;
    const cay_create *create;
    const char *template_id, *template_name; /* NULL: it has none of the store's */
    const char *const *layers;               /* above the template, bottom first; see cay_snap */
    size_t nlayers;
    const cay_service *services; /* create->services, parsed */
    size_t nservices;
    bool services_wait; /* they start at service_act(NULL, START), not with the sandbox */
} cay_box_spec;

/* Layers. A layer is an immutable tree below layers/ of the state directory, in the form that
 * overlayfs gives an upper directory. Its name is 1 to 63 of [a-z0-9-], the first no '-', and never
 * a path. A stack is a list of names, bottom first. */
#define CAY_LAYER_NAME 64  /* with its NUL */
#define CAY_STACK_MAX  128 /* layers of one stack, the template's included */

/* What may run while a snapshot is taken. */
typedef enum cay_snapshot_mode {
    CAY_SNAP_ANY = 0, /* whatever runs is held still for the moment it takes */
    CAY_SNAP_QUIET, /* nothing: CAY_EBUSY, reason "processes_running", when a process of the sandbox
                       is alive */
    CAY_SNAP_STOP,  /* as ANY, and where there is no freezer processes are stopped by signals, which
                       they can tell */
} cay_snapshot_mode;

typedef struct cay_snap {
    size_t size;
    const char *layer; /* to be made, of this name; the same name again, after an answer that was
                          lost, is the same layer */
    cay_snapshot_mode how;
    const char *last; /* the last layer that was cloned of this box while processes ran, to share
                         unchanged files with; NULL: none */
    const char *const *layers; /* the same files as the stack it has, in fewer layers: what it shall
                                  stand on below the new one, if the new one becomes part of its
                                  stack; NULL: what it stands on now */
    size_t nlayers;
} cay_snap;

typedef struct cay_snapped {
    size_t size;
    const char *method; /* "swap", "btrfs", "reflink", "copy"; a constant */
    bool stacked;       /* the layer is part of the box's own stack now, on top of it */
    uint64_t frozen_us; /* how long its processes, or requests for new ones, waited */
    uint64_t total_us;
    uint64_t bytes, files; /* that the layer holds; 0: nobody counted */
} cay_snapped;

/* Named volumes: what is asked of one, and what is answered. */
typedef enum cay_volume_op {
    CAY_VOLUME_MAKE = 1,
    CAY_VOLUME_LOOK,
    CAY_VOLUME_REMOVE, /* out of sight: quick */
    CAY_VOLUME_SWEEP,  /* what was removed, and what a crash left of that, goes; no name */
    CAY_VOLUME_HELD,   /* is a limit held that has to be? Only `hard` is answered: quick */
} cay_volume_op;
typedef struct cay_volume_request {
    size_t size;
    cay_volume_op op;
    const char *name;      /* 1 to 48 of [A-Za-z0-9._-], the first a letter or digit */
    uint64_t limit;        /* MAKE: most bytes, 0: none */
    uint64_t used, inodes; /* LOOK's answer */
    bool hard;             /* MAKE's, LOOK's and HELD's: the kernel holds a limit */
    bool must;             /* MAKE: it has to; refused (CAY_EISOLATION) where it cannot */
} cay_volume_request;

typedef struct cay_provider_ops {
    size_t size;
    const char *name;
    int (*open)(const cay_provider_conf *conf, void **self, cay_err *err);
    void (*close)(void *self);
    /* id is already recorded as wanted; the same id again must find the same box. */
    int (*create)(void *self, const cay_call *call, const char *id, const cay_box_spec *spec,
                  void **box, cay_err *err);
    /* A box that exists: by id, and by the JSON that state() gave (may be NULL). CAY_EGONE: it is
     * no more; err->reason tells why when that is known: "ttl", "oom", "killed", … */
    int (*attach)(void *self, const cay_call *call, const char *id, const cay_json *state,
                  void **box, cay_err *err);
    void (*release)(void *box); /* drops the handle; changes nothing inside */
    /* Ends it, removes its files and frees the handle, which lives on only when this fails. */
    int (*destroy)(void *box, const cay_call *call, cay_err *err);
    int (*spawn)(void *box, const cay_call *call, const cay_spawn *spec, void **proc, cay_err *err);
    int (*proc_attach)(void *box, const cay_call *call, const char *ref, void **proc, cay_err *err);
    void (*proc_release)(void *proc);
    const char *(*proc_id)(void *proc, int *pid);
    int (*proc_output)(void *proc, const cay_call *call, cay_stream which, uint64_t offset, int *fd,
                       cay_err *err);
    int (*proc_write)(void *proc, const cay_call *call, const void *data, size_t len, cay_err *err);
    int (*proc_close_stdin)(void *proc, const cay_call *call, cay_err *err);
    int (*proc_signal)(void *proc, const cay_call *call, int sig, cay_scope scope, cay_err *err);
    int (*proc_wait)(void *proc, const cay_call *call, cay_exit *out, cay_err *err);
    int (*proc_exit_fd)(void *proc, cay_err *err);
    int (*status)(void *box, const cay_call *call, cay_box_status *out, cay_err *err);

    /* From here on NULL means unsupported. */
    int (*proc_read)(void *proc, const cay_call *call, cay_stream which, uint64_t *offset,
                     void *buf, size_t cap, size_t *n, uint64_t *lost, bool *eof, cay_err *err);
    unsigned (*proc_breaks)(void *proc); /* see cay_proc_breaks(); NULL: never */
    int (*proc_resize)(void *proc, const cay_call *call, uint16_t cols, uint16_t rows,
                       cay_err *err);
    int (*procs)(void *box, const cay_call *call, cay_proc_info_fn *fn, void *arg, cay_err *err);
    int (*probe)(void *self, cay_probe **out,
                 cay_err *err); /* one block from malloc(), strings too */
    int (*state)(void *box, cay_json **out, cay_err *err); /* attach() takes it back */
    int (*list)(void *self, const cay_call *call, int (*fn)(const char *id, void *arg), void *arg,
                cay_err *err); /* ids of every box there is, for reconciliation */
    int (*start)(void *self, const cay_call *call, const char *id, const cay_box_spec *spec,
                 void **box, cay_err *err); /* a stopped box runs again on its kept files */
    int (*stop)(void *box, const cay_call *call, cay_err *err); /* ends processes, keeps files */
    int (*pause)(void *box, const cay_call *call, cay_err *err);
    int (*resume)(void *box, const cay_call *call, cay_err *err);
    int (*extend)(void *box, const cay_call *call, uint64_t ttl_ms, uint64_t idle_ms, cay_err *err);
    int (*usage)(void *box, const cay_call *call, cay_usage *out, cay_err *err);
    int (*wait)(void *box, const cay_call *call, cay_state *state, cay_err *err);
    int (*events)(void *self, const char *id, int *fd,
                  cay_err *err); /* SEQPACKET of cay__event_wire */
    int (*gc)(void *self, const cay_call *call, int (*known)(const char *id, void *arg), void *arg,
              size_t *removed, cay_err *err);
    int (*remove_files)(void *self, const cay_call *call, const char *id, cay_err *err);

    /* Files: paths are resolved inside the box. */
    int (*open_read)(void *box, const cay_call *call, const char *path, const cay_read *spec,
                     int *fd, cay_err *err);
    int (*put)(void *box, const cay_call *call, const char *path, const void *data, size_t len,
               const cay_write *spec, cay_err *err);
    int (*open_write)(void *box, const cay_call *call, const char *path, const cay_write *spec,
                      void **up, int *fd, cay_err *err);
    int (*commit_write)(void *up, const cay_call *call, cay_err *err); /* frees up */
    void (*abort_write)(void *up);
    int (*stat)(void *box, const cay_call *call, const char *path, bool follow, cay_stat *out,
                cay_err *err);
    int (*mkdir)(void *box, const cay_call *call, const char *path, uint32_t mode, bool parents,
                 cay_err *err);
    int (*remove)(void *box, const cay_call *call, const char *path, bool recursive, cay_err *err);
    int (*rename)(void *box, const cay_call *call, const char *from, const char *to, cay_err *err);
    int (*chmod)(void *box, const cay_call *call, const char *path, uint32_t mode, cay_err *err);
    int (*chown)(void *box, const cay_call *call, const char *path, uint32_t uid, uint32_t gid,
                 cay_err *err);
    int (*symlink)(void *box, const cay_call *call, const char *target, const char *path,
                   cay_err *err);
    int (*getxattr)(void *box, const cay_call *call, const char *path, const char *name, void *buf,
                    size_t *len, cay_err *err);
    int (*setxattr)(void *box, const cay_call *call, const char *path, const char *name,
                    const void *value, size_t len, cay_err *err);
    int (*listxattr)(void *box, const cay_call *call, const char *path,
                     int (*fn)(const char *, void *), void *arg, cay_err *err);
    int (*list_dir)(void *box, const cay_call *call, const char *path, unsigned depth,
                    cay_dirent_fn *fn, void *arg, cay_err *err);
    int (*glob)(void *box, const cay_call *call, const char *base, const char *pattern,
                cay_dirent_fn *fn, void *arg, cay_err *err);
    int (*grep)(void *box, const cay_call *call, const char *base, const cay_grep *spec,
                cay_match_fn *fn, void *arg, cay_err *err);
    int (*watch_open)(void *box, const cay_call *call, const char *path, bool recursive, void **w,
                      int *fd, cay_err *err);
    int (*watch_next)(void *w, const cay_call *call, cay_watch_event *out, cay_err *err);
    void (*watch_close)(void *w);

    /* Ports. */
    int (*ports)(void *box, const cay_call *call, cay_port_fn *fn, void *arg, cay_err *err);
    int (*connect)(void *box, const cay_call *call, uint16_t port, int *fd, cay_err *err);

    /* The provider that makes a sandbox when create() ends with CAY_EISOLATION, reason
     * "namespaces_refused" or "park_failed", and the request accepts its level. The sandbox is that
     * one's, and its description says so. */
    const char *instead;

    /* Network. What a sandbox may reach is one text (cay/policy.h tells its lines); create() and
     * start() find it in create->net.policy, checked, NULL meaning nothing. A provider without
     * policy() is never given one. policy: from its return on new flows obey, and flows that it
     * forbids are cut within 2 s. All or nothing: when it fails the former one stays. *revision
     * grows with each. policy_get: the one that holds; *text from malloc(). */
    int (*policy)(void *box, const cay_call *call, const char *text, size_t len, uint64_t *revision,
                  cay_err *err);
    int (*policy_get)(void *box, const cay_call *call, char **text, size_t *len, uint64_t *revision,
                      cay_err *err);
    /* A connected stream for the control plane, judged as if the sandbox asked. `implicit`: this
     * one fetch needs no rule of the sandbox; the operator's rules and the blocked ranges still
     * hold. host: a folded name, or an address. */
    int (*dial)(void *box, const cay_call *call, const char *host, uint16_t port, bool implicit,
                int *fd, cay_err *err);
    /* The values behind the bind lines of this policy, all of them, now or anew: a sealed memfd of
     * entries without gaps, each two uint32_t (length of name, length of value) and then the bytes
     * of both. They are kept in memory and nowhere else. Comes before the policy() that binds them;
     * `values` stays the caller's. *trust: a memfd of such entries, the files (ca.pem, bundle.pem,
     * cacerts) that programs inside have to trust, which the library puts into /etc/cay; -1: none.
     */
    int (*secrets)(void *box, const cay_call *call, const char *text, size_t len, int values,
                   int *trust, cay_err *err);

    /* Snapshots. create() and start() find the stack above the template in spec->layers; a provider
     * without snapshot() is never given one. snapshot: what the box has above its stack becomes a
     * layer. All or nothing: when it fails there is no such layer and the box is as it was.
     * Requests for processes and files that come meanwhile wait and do not fail. CAY_ENOTSUP,
     * reason "snapshot_unsupported": this box cannot. restack: the box stands on these layers above
     * its template, and what it had above its former stack is thrown away. Its processes end first;
     * id, network, ports and limits stay, and so does what is in /run and /dev/shm. When it fails
     * the box has its former root. layer_remove: the tree goes, perhaps after the answer; one that
     * is not there is success. The caller knows that no box stands on it. */
    int (*snapshot)(void *box, const cay_call *call, const cay_snap *spec, cay_snapped *out,
                    cay_err *err);
    int (*restack)(void *box, const cay_call *call, const char *const *layers, size_t n,
                   cay_err *err);
    int (*layer_remove)(void *self, const cay_call *call, const char *layer, cay_err *err);

    /* Volumes: files that outlive sandboxes, shown in any number of them at once by
     * create->files.volumes.
     * MAKE of one that is there and REMOVE of one that is not are success. */
    int (*volume)(void *self, const cay_call *call, cay_volume_request *ask, cay_err *err);

    bool fences; /* spawn() holds a command to spec->fence; else it is never given one */

    /* Services: spec->services of create() and start(); a provider without these two is never
     * given any. They are started with the sandbox, or by service_act(NULL, START) where
     * spec->services_wait, in the order of `after`, and started again by the rules of
     * cay/services.h, also after restack() and resume(). units: fn for each, in their order; then,
     * for as long as more() says 1, again whenever one has changed. more NULL: once. */
    int (*services)(void *box, const cay_call *call, cay_service_info_fn *fn, int (*more)(void *),
                    void *arg, cay_err *err);
    int (*service_act)(void *box, const cay_call *call, const char *name, int op, cay_err *err);

    /* Names that create() knows in create->options, NULL-terminated; a provider without is never
     * given one. */
    const char *const *options;

    /* For lists. look: what status() says of each of the boxes in ids, of which some are NULL, by
     * its place in there; boxes that do not live are left out. `layers` live as long as self, the
     * other strings until fn returns. version: another number once status() says something new of
     * any box and whoever changed it has the answer; never an earlier one. */
    int (*look)(void *self, const cay_call *call, const char *const *ids, size_t n,
                int (*fn)(size_t i, const cay_box_status *st, void *arg), void *arg, cay_err *err);
    int (*version)(void *self, uint64_t *out, cay_err *err);

    /* The state directory goes: ends what this provider has running for it, boxes without a record
     * too, and removes these names of it (NULL-terminated). Every box that has a record was
     * destroyed before. NULL: what the others do is enough. */
    int (*purge)(void *self, const cay_call *call, const char *const *names, cay_err *err);

    /* What snapshot() makes is kept elsewhere, as an engine's image: layers/NAME says only that it
     * is there. Nothing is compared, merged, exported or made a template of it. */
    bool opaque_layers;

    /* What of it is published outside: fn for each port that was asked for at create; host_port 0:
     * it is not there now. NULL: this provider publishes none. */
    int (*endpoints)(void *box, const cay_call *call, cay_endpoint_fn *fn, void *arg, cay_err *err);

    /* proc_read() of no more than what came at one time, and when that was (wall clock; 0: not
     * known). NULL: no times are kept. */
    int (*proc_read_at)(void *proc, const cay_call *call, cay_stream which, uint64_t *offset,
                        void *buf, size_t cap, size_t *n, uint64_t *lost, bool *eof,
                        int64_t *time_ms, cay_err *err);

    /* cay_file_fill() in one stream. CAY_ENOTSUP, reason "fill_unsupported", before anything was
     * done: it is done one by one. */
    int (*fill)(void *box, const cay_call *call, const cay_fill *spec, cay_err *err);
} cay_provider_ops;

/* One packet of the descriptor that events() gives. */
typedef struct cay_event_wire {
    int64_t time_ms;
    uint64_t seq;
    int32_t code;
    char sandbox[24], process[24], kind[16], reason[24];
} cay_event_wire;

#ifdef __cplusplus
}
#endif
