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
    cay__native *n;
    char id[CAY_WIRE_ID];
    int owner; /* connection that keeps an ephemeral one alive, or -1 */
    struct cay__nbox *next_owned;
    cay__sessions sessions;
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
void cay__nbox_release(void *box);
void cay__nbox_claim_all(
    void *native); /* a keeper died: tell the next one whose the ephemeral boxes are */

/* look.c: as `look` and `version` of cay_provider_ops; not for the static command. */
int cay__native_look(void *self, const cay_call *call, const char *const *ids, size_t n,
                     int (*fn)(size_t i, const cay_box_status *st, void *arg), void *arg,
                     cay_err *err);
int cay__native_version(void *self, uint64_t *out, cay_err *err);
void cay__native_look_end(cay__native *n);
/* volume.c: as `volume` of cay_provider_ops; not for the static command. */
int cay__native_volume(void *self, const cay_call *call, cay_volume_ask *ask, cay_err *err);

/* purge.c: as `purge` of cay_provider_ops. */
int cay__native_purge(void *self, const cay_call *call, const char *const *names, cay_err *err);
/* start.c: a connection to the keeper that runs, or -1: none is started. */
int cay__native_knock(const cay__native *n);

/* clone.c: a snapshot while processes run. */
int cay__nbox_clone(cay__nbox *b, const cay_call *call, const cay_snap *spec, cay_snapped *out,
                    cay_err *err);

/* probe.c */
size_t cay__native_walls(const cay_m_hello *h, cay_wall *out, size_t max);
/* The same of one box, by the flags that it was made with. */
size_t cay__native_box_walls(const cay_m_hello *h, uint32_t flags, cay_wall *out, size_t max);
/* CAY_EISOLATION naming each missing feature, its cause and remedy. */
int cay__native_require(const cay_m_hello *h, int min_level, const char *const *require,
                        cay_err *err);
/* Why there is no keeper. */
const char *cay__native_why_not(const cay_err *why, const char **remedy);

int cay__nbox_spawn(void *box, const cay_call *call, const cay_spawn *spec, void **proc,
                    cay_err *err);
int cay__nbox_proc_attach(void *box, const cay_call *call, const char *ref, void **proc,
                          cay_err *err);
int cay__nbox_destroy(void *box, const cay_call *call, cay_err *err);
int cay__nbox_stop(void *box, const cay_call *call, cay_err *err);
int cay__nbox_pause(void *box, const cay_call *call, cay_err *err);
int cay__nbox_resume(void *box, const cay_call *call, cay_err *err);
int cay__nbox_extend(void *box, const cay_call *call, uint64_t ttl_ms, uint64_t idle_ms,
                     cay_err *err);
int cay__nbox_usage(void *box, const cay_call *call, cay_usage *out, cay_err *err);
int cay__nbox_wait(void *box, const cay_call *call, cay_state *state, cay_err *err);
int cay__nbox_status(void *box, const cay_call *call, cay_box_status *out, cay_err *err);
int cay__nbox_procs(void *box, const cay_call *call, int (*fn)(const cay_proc_info *, void *),
                    void *arg, cay_err *err);
int cay__nbox_open_read(void *box, const cay_call *c, const char *p, const cay_read *s, int *fd,
                        cay_err *e);
int cay__nbox_put(void *box, const cay_call *c, const char *p, const void *d, size_t n,
                  const cay_write *s, cay_err *e);
int cay__nbox_open_write(void *box, const cay_call *c, const char *p, const cay_write *s, void **up,
                         int *fd, cay_err *e);
int cay__nbox_stat(void *box, const cay_call *c, const char *p, bool f, cay_stat *o, cay_err *e);
int cay__nbox_mkdir(void *box, const cay_call *c, const char *p, uint32_t m, bool a, cay_err *e);
int cay__nbox_remove(void *box, const cay_call *c, const char *p, bool r, cay_err *e);
int cay__nbox_rename(void *box, const cay_call *c, const char *f, const char *t, cay_err *e);
int cay__nbox_chmod(void *box, const cay_call *c, const char *p, uint32_t m, cay_err *e);
int cay__nbox_chown(void *box, const cay_call *c, const char *p, uint32_t u, uint32_t g,
                    cay_err *e);
int cay__nbox_symlink(void *box, const cay_call *c, const char *t, const char *p, cay_err *e);
int cay__nbox_getxattr(void *box, const cay_call *c, const char *p, const char *n, void *b,
                       size_t *l, cay_err *e);
int cay__nbox_setxattr(void *box, const cay_call *c, const char *p, const char *n, const void *v,
                       size_t l, cay_err *e);
int cay__nbox_listxattr(void *box, const cay_call *c, const char *p,
                        int (*fn)(const char *, void *), void *a, cay_err *e);
int cay__nbox_list_dir(void *box, const cay_call *c, const char *p, unsigned d,
                       int (*fn)(const cay_dirent *, void *), void *a, cay_err *e);
int cay__nbox_glob(void *box, const cay_call *c, const char *b, const char *p,
                   int (*fn)(const cay_dirent *, void *), void *a, cay_err *e);
int cay__nbox_grep(void *box, const cay_call *c, const char *b, const cay_grep *g,
                   int (*fn)(const cay_match *, void *), void *a, cay_err *e);
int cay__nbox_watch_open(void *box, const cay_call *c, const char *p, bool r, void **w, int *fd,
                         cay_err *e);
int cay__nbox_ports(void *box, const cay_call *c, int (*fn)(const cay_port *, void *), void *a,
                    cay_err *e);
int cay__nbox_connect(void *box, const cay_call *c, uint16_t p, int *fd, cay_err *e);
/* snapshot.c */
int cay__nbox_snapshot(void *box, const cay_call *call, const cay_snap *spec, cay_snapped *out,
                       cay_err *err);
int cay__nbox_restack(void *box, const cay_call *call, const char *const *layers, size_t n,
                      cay_err *err);
int cay__native_layer_remove(void *self, const cay_call *call, const char *layer, cay_err *err);
/* service_list.c: services. The config's part of them; wait: for service_act(NULL, START). */
void cay__services_wire(cay__buf *b, const cay_box_spec *spec, bool wait,
                        bool each); /* each: they wait in each life of a container */
/* Asked of whoever serves this link: the keeper, or pid 1 of a container. */
int cay__services_all(cay__link *link, const char *id, const cay_call *call,
                      int (*fn)(const cay_service_info *, void *), int (*more)(void *), void *arg,
                      cay_err *err);
int cay__services_order(cay__link *link, const char *id, const cay_call *call, const char *name,
                        int op, cay_err *err);
int cay__nbox_services(void *box, const cay_call *call, int (*fn)(const cay_service_info *, void *),
                       int (*more)(void *), void *arg, cay_err *err);
int cay__nbox_service_act(void *box, const cay_call *call, const char *name, int op, cay_err *err);
/* net.c */
int cay__nbox_policy(void *box, const cay_call *call, const char *text, size_t len,
                     uint64_t *revision, cay_err *err);
int cay__nbox_policy_fd(const char *text, size_t len, int *out, cay_err *err);
int cay__nbox_policy_get(void *box, const cay_call *call, char **text, size_t *len,
                         uint64_t *revision, cay_err *err);
int cay__nbox_dial(void *box, const cay_call *call, const char *host, uint16_t port, bool implicit,
                   int *fd, cay_err *err);
int cay__nbox_secrets(void *box, const cay_call *call, const char *text, size_t len, int values,
                      int *trust, cay_err *err);

/* The operations on a box, as members of a cay_provider_ops: the static command's table, and the
 * client's. */
#define CAY__NATIVE_HOT                                                                            \
    .size = sizeof(cay_provider_ops), .name = "native", .release = cay__nbox_release,              \
    CAY__PROC_MEMBERS, CAY__SESSION_MEMBERS(cay__nbox), .spawn = cay__nbox_spawn,                  \
    .proc_attach = cay__nbox_proc_attach, .destroy = cay__nbox_destroy, .stop = cay__nbox_stop,    \
    .pause = cay__nbox_pause, .resume = cay__nbox_resume, .extend = cay__nbox_extend,              \
    .usage = cay__nbox_usage, .wait = cay__nbox_wait, .status = cay__nbox_status,                  \
    .procs = cay__nbox_procs, .connect = cay__nbox_connect, .policy = cay__nbox_policy,            \
    .policy_get = cay__nbox_policy_get, .dial = cay__nbox_dial, .secrets = cay__nbox_secrets,      \
    .services = cay__nbox_services, .service_act = cay__nbox_service_act
extern const cay_provider_ops cay__native_hot;
