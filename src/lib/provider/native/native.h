/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/provider/native/native.h - sandboxes held by the keeper.
 *
 *   start.c  find or start the keeper    layer.c  what template `host` is made of
 *   box.c    create, stop, pause, …      probe.c  what this host can give, and why not more
 *   client.c proc.c  the wire            session.c files.c …  the worker inside
 *
 * No JSON here but in provider.c: the small static command links the rest.
 */
#pragma once
#include "box_ops.h"
#include <cay/sys/direct.h>
#include <base/path.h>

typedef struct cay__native {
    char home[CAY__HOME_MAX];
    char run[CAY__RUN_MAX];
    char libexec[CAY__HOME_MAX]; /* where the keeper is said to be, or "" */
    char keeper[CAY__HOME_MAX];  /* the program, once it was needed */
    int home_fd;
    cay__link link;
    pthread_mutex_t lock; /* hello */
    bool met;
    pthread_mutex_t own_lock; /* what follows */
    struct cay__nbox *owned;  /* ephemeral boxes that live as long as we hold their connection */
    bool lazy;  /* such a box may be asked for together with its first command; one thread, which
                   asks nothing else of it before */
    bool image; /* what requires a quota can have a disk image, and `disk` gives it */
    int (*volume_disk)(int home_fd, const char *name, int *mnt,
                       cay_err *err); /* that of a volume; CAY_ENOENT: it has none */
    int (*disk)(struct cay__native *n, const char *id, const cay_create *spec, bool kept, int *mnt,
                int *spare, cay_err *err);
    cay_m_hello hello;
    struct cay__news *news; /* look.c; NULL until somebody asks */
} cay__native;

typedef struct cay__nbox {
    cay__served base;
    cay__native *n;
    int owner; /* connection that keeps an ephemeral one alive, or -1 */
    struct cay__nbox *next_owned;
    cay_wall *layers; /* made once, for status() */
    size_t nlayers;
    char reason[24];
    char user[64]; /* who was asked for at create, for messages; "": nobody by name, or not ours */
    cay_m_boxinfo info;
    int64_t seen_us;   /* when attach was told info, until status has given it out */
    struct wish *wish; /* it has not been asked for yet, or that was not answered */
} cay__nbox;

/* start.c */
int cay__native_open(const char *home, const char *libexec, cay__native **out, cay_err *err);
/* The same for a directory that the caller has looked at: home_fd is taken over, also when it
 * fails. */
int cay__native_open_at(const char *home, int home_fd, const char *libexec, cay__native **out,
                        cay_err *err);
void cay__native_close(cay__native *n);
/* Says hello once, starting the keeper when there is none. */
int cay__native_meet(cay__native *n, const cay_call *call, cay_err *err);
/* The user namespace that layers of this state directory belong to; *fd stays as it is when we are
 * root ourselves. */
int cay__native_userns(const char *home, const char *libexec, const cay_call *call, int *fd,
                       cay_err *err);

/* strays.c: what is left of state directories that are gone; how many things went. */
void cay__native_strays(const cay__native *n);

/* subid.c: gives the user namespace of that process the user's whole range; false when there is
 * none. */
bool cay__subid_map(int pid);

/* layer.c: makes layers/<name> for template `host` when it is missing or the host changed. */
int cay__host_layer(int home_fd, char *name, size_t cap, cay_err *err);
/* What is below the layers of an image: the places where /proc, /dev and the like go, and nothing
 * else. */
int cay__image_layer(int home_fd, char *name, size_t cap, cay_err *err);

/* box.c */
int cay__nbox_create(cay__native *n, const cay_call *call, const char *id, const cay_box_spec *spec,
                     bool kept, cay__nbox **out, cay_err *err);
int cay__nbox_attach(cay__native *n, const cay_call *call, const char *id, cay__nbox **out,
                     cay_err *err);
CAY__PROVIDES(release) cay__nbox_release;
void cay__nbox_claim_all(
    void *native); /* a keeper died: tell the next one whose the ephemeral boxes are */

/* What the keeper says of a box, without its walls. */
cay_box_status cay__native_status(const cay__native *n, const cay_m_boxinfo *i);

/* look.c: not for the static command, like volume.c and purge.c. */
CAY__PROVIDES(look) cay__native_look;
CAY__PROVIDES(version) cay__native_version;
void cay__native_look_end(cay__native *n);
CAY__PROVIDES(volume) cay__native_volume;
CAY__PROVIDES(purge) cay__native_purge;
/* start.c: a connection to the keeper that runs, or -1: none is started. */
int cay__native_knock(const cay__native *n);
/* What on this host keeps namespaces from us, and what to do about it; NULL: nothing that we know.
 */
const char *cay__native_cause(const char **remedy);
/* Whether a systemd of this user's answers, and not root's; as a variable for systemd-run. */
bool cay__native_manager(char *env, size_t cap);

/* clone.c: starts a program, found by PATH, with no signal blocked or ignored and these descriptors
 * (-1: none; at most 4) as first, first + 1, …; an errno, or 0. */
int cay__native_program(const char *path, const char *const argv[], char *const env[],
                        const int *fds, int first, size_t n, pid_t *pid);
/* A snapshot while processes run. */
int cay__nbox_clone(cay__nbox *b, const cay_call *call, const cay_snap *spec, cay_snapped *out,
                    cay_err *err);

/* probe.c */
size_t cay__native_walls(const cay_m_hello *h, cay_wall *out, size_t max);
/* The same of one box, by the flags that it was made with. */
size_t cay__native_box_walls(const cay_m_hello *h, uint32_t flags, cay_wall *out, size_t max);
/* CAY_EISOLATION naming each missing feature, its cause and remedy. */
int cay__native_require(const cay_m_hello *h, int min_level, const char *const *require,
                        cay_err *err);
bool cay__requires(const cay_create *spec, const char *feature);
/* Passes an error on; when no sandbox could be made because of the filesystem below the state
 * directory, that is its cause. */
int cay__native_explain(const cay__native *n, int rc, cay_err *err);
/* Why there is no keeper. */
const char *cay__native_why_not(const cay_err *why, const char **remedy);

CAY__PROVIDES(spawn) cay__nbox_spawn;
CAY__PROVIDES(destroy) cay__nbox_destroy;
CAY__PROVIDES(stop) cay__nbox_stop;
CAY__PROVIDES(usage) cay__nbox_usage;
CAY__PROVIDES(wait) cay__nbox_wait;
CAY__PROVIDES(status) cay__nbox_status;
CAY__PROVIDES(connect) cay__nbox_connect;
/* snapshot.c */
CAY__PROVIDES(snapshot) cay__nbox_snapshot;
CAY__PROVIDES(restack) cay__nbox_restack;
CAY__PROVIDES(layer_remove) cay__native_layer_remove;
/* net.c */
CAY__PROVIDES(policy) cay__nbox_policy;
int cay__nbox_policy_fd(const char *text, size_t len, int *out, cay_err *err);
CAY__PROVIDES(policy_get) cay__nbox_policy_get;
CAY__PROVIDES(dial) cay__nbox_dial;
CAY__PROVIDES(secrets) cay__nbox_secrets;

/* The operations on a box, as members of a cay_provider_ops: the static command's table, and the
 * client's. */
#define CAY__NATIVE_HOT                                                                            \
    .size = sizeof(cay_provider_ops), .name = "native", .release = cay__nbox_release,              \
    CAY__SERVED_MEMBERS, .spawn = cay__nbox_spawn, .proc_attach = cay__served_proc_attach,         \
    .destroy = cay__nbox_destroy, .stop = cay__nbox_stop, .pause = cay__served_pause,              \
    .resume = cay__served_resume, .usage = cay__nbox_usage, .wait = cay__nbox_wait,                \
    .status = cay__nbox_status, .procs = cay__served_procs, .ports = cay__nf_ports,                \
    .connect = cay__nbox_connect, .policy = cay__nbox_policy, .policy_get = cay__nbox_policy_get,  \
    .dial = cay__nbox_dial, .secrets = cay__nbox_secrets, .services = cay__served_services,        \
    .service_act = cay__served_service_act
extern const cay_provider_ops cay__native_hot;
