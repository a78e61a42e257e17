/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon/init/init.h - pid 1 of a sandbox.
 *
 *   init.c      the start and the loop
 *   packet.c    what the keeper says
 *   lockdown.c  what is given up before the first message
 *   gproc.c     commands that are remembered, and their ends
 *   bind.c      the binder: mounts the root, then dies
 *   spawn.c     one command, vfork-style
 *   tree.c      signals to a whole tree of processes
 *   user.c      who is "user", from /etc/passwd
 *   services.c     services
 *
 * No stdio, no heap: memory comes from mmap and is given back, so that an idle init costs a few
 * pages.
 */
#pragma once
#include <base/base.h>
#include <base/fault.h>
#include <base/mutant.h>
#include "ident.h"
#include <proto/init.h>
#include <sys/resource.h>

/* What init holds of a command until the keeper forgets it. */
typedef struct gproc {
    cay_g_state st;
    int fds[5]; /* as in cay_g_state.fds; -1: none */
    int shim;   /* pid of its sub-reaper, or 0 */
    bool stray; /* its sub-reaper was killed: its orphans are among our own children */
    bool late;  /* the keeper has not heard that it started: it may end first */
    bool used;
    uint8_t service; /* 1 + the service whose process it is, 0: none */
    uint32_t nlabels;
} gproc;

#define GPROCS 520

/* What services and sudo ask of the program that they are part of: init, or pid 1 of a container
 * (daemon/holder/container.c). */
struct plan;
typedef struct init_ops {
    gproc *(*proc_new)(const char *id);
    void (*proc_drop)(gproc *p);
    void (*proc_tell)(gproc *p); /* it started: to whoever serves clients */
    void (*proc_ended)(gproc *p, int status, const struct rusage *ru);
    void (*proc_signal)(gproc *p, int sig, int scope); /* cay_scope */
    int (*start)(struct plan *p, const char *blob, size_t len, int *master,
                 const char **step); /* as plan_start() */
    void (*tell)(uint16_t type, const void *body, size_t len, const int *fds, int nfds);
} init_ops;

typedef struct init_state {
    const init_ops *ops;
    int ctl, listen, sig;
    int home; /* O_PATH: a file of the state directory that lives as long as that does; -1: none */
    int64_t look_ms; /* while there is no keeper: when that is looked at next */
    int net[4]; /* held for the next keeper: tcp listener, dns tcp, dns udp, name map; -1: none */
    int mode;   /* CAY_MODE_… */
    bool uid0;  /* single-id map whose one id is 0 */
    char instance[CAY_WIRE_ID];
    bool bound;
    int64_t end_ms; /* the host asked us to end: then at the latest; 0: it did not */
    char *config;   /* the blob: user NUL workdir NUL hostname NUL shell NUL env… */
    size_t config_len;
    bool sudo;          /* sudo.c serves */
    size_t config_size; /* with what is behind it: of services, which have a copy */
    uint64_t nofile, fsize, data;
    int tenant[2];   /* cgroup.procs and directory of the group that commands belong to, -1: none */
    uint64_t key[4]; /* opens clone3(2) to init alone: seccomp.h; forgotten in every fork that
                        serves a tenant */
    bool no_into;    /* this host does not let us start commands in their group */
    char *buf;       /* one packet */
    gproc *procs;
    uint64_t keys[GPROCS]; /* how the id of each begins, 0: free; beside each other, so that a
                              search is cheap */
    int32_t pids[GPROCS];  /* whose end is awaited: the command's or its sub-reaper's */
    bool held[GPROCS];     /* it ended, and its pipes may have something for the next keeper */
    unsigned nheld, next_held, nshims, nlate;
    int64_t late_until;             /* then those that are late are told of */
    char *stack;                    /* of children until they execute */
    char (*labels)[CAY_LABELS_MAX]; /* of each slot, for the next keeper; not read here, and not
                                       touched while there are none */
    int workers[256];               /* file workers that run */
    int lock; /* memfd; each worker locks an opening of its own, shared, while it serves; -1: there
                 was none yet */
    int32_t *shims; /* shared page: wait status of each slot's command, told by its sub-reaper */
    dev_t root_dev;
    ino_t root_ino;
} init_state;
extern init_state init; /* user.c */

/* bound: it stands on its root, and there is nothing for a binder to do. */
_Noreturn void init_main(int ctl, int listen_fd, int home, const int net[4], int mode, bool uid0,
                         bool bound);
/* bind.c */
int binder_start(int ctl); /* pid of the binder; keeps SYS_ADMIN until it has bound */
int binder_wait(int pid, cay_g_result *res);
int root_check(cay_g_result *res); /* 0, or -1 when "/" is not what was mounted last */
const char *root_enter(int root, const char *at, const char *base,
                       bool usr); /* NULL, or what could not be mounted */
const char *root_pivot(int root);
/* A foreign root filesystem gets what every sandbox has: names that resolve, a place to work. */
const char *root_complete(int root, const char *hostname);
int root_dir(int at, const char *path); /* O_PATH; made where missing, never through a link */
/* spawn.c */
void spawn_run(const cay_g_spawn *m, const char *blob, size_t len, int *fds, int nfds);
void spawn_tell(gproc *g, int master); /* that it started */
int spawn_worker(const char *user, int sock);
int worker_lock(void); /* makes init.lock */
void drop_to(const ident *id, bool root_profile);
#define KEEP_CAPS 0x5fbu /* lockdown.c tells which */
/* user.c */
void user_groups(const char *file, size_t len,
                 ident *id); /* its groups, by the text of a group file */
int user_group(const char *file, size_t len, const char *name,
               ident *id); /* this one alone, by name or number; 0 or errno */
int user_search(const char *file, size_t len, const char *name,
                ident *out); /* the same in the text of a passwd file */
ssize_t user_read(const char *path, char *buf,
                  size_t cap); /* such a file, if it is one; -1: it is not */
int user_default(ident *out);  /* who commands run as when nobody is named */
const char *config_get(
    unsigned field); /* 0 user, and after ':' its only group, 1 workdir, 2 hostname, 3 shell */
/* sudo_client.c: the same program is sudo inside; returns when it is not called so */
void sudo_main(int argc, char **argv);
/* tree.c */
void tree_signal(int pid, int sig, bool self);
bool tree_empty(int pid);
unsigned tree_strays(int sig); /* our children that are nobody's, and theirs; how many of ours */
bool tree_tenants(int sig); /* whether a process lives that is neither ours nor a worker's; sig 0,
                               or what each is sent */
/* init.c */
void end_tell(void); /* the keeper, if the host has asked us to end */
void ctl_send(uint16_t type, const void *body, size_t len, const int *fds, int nfds);
#define ctl_tell(type, body) ctl_send(type, body, sizeof *(body), NULL, 0)
extern const init_ops init_own_ops;
/* packet.c */
void init_packet(const char *buf, size_t n, int *fds,
                 int nfds); /* as it came; descriptors not taken stay in fds */
/* lockdown.c */
bool cut_bounding_set(void);
const char *lock_down(void); /* NULL, or what was refused */
void set_limits(const cay_g_config *m);
/* gproc.c */
#define LATE_MS 2
void reap(void); /* takes every child that ended, and tells of those that are commands */
gproc *gproc_find(const char *id);
gproc *gproc_new(const char *id);
void gproc_drop(gproc *p);
void gproc_tell(gproc *p); /* all that is held of it, to the keeper */
void gprocs_tell(void);    /* of every one, to a new keeper */
void gproc_ended(gproc *p, int status, const struct rusage *ru);
void gproc_signal(gproc *p, int sig, int scope); /* cay_scope */
