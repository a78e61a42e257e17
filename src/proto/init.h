/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proto/init.h - what the keeper says to init, and init to the keeper.
 *
 * SOCK_SEQPACKET again, one packet a message, same head as proto/keeper.h. The keeper treats every
 * packet from init as hostile: init shares a kernel with the tenant.
 *
 * The config blob, kept by init for its life:
 *     user NUL workdir NUL hostname NUL shell NUL env… each "KEY=VALUE" NUL [CAY_SERVICES_MARK NUL
 * cay_g_services, its services, NUL]
 */
#pragma once
#include "keeper.h"

#define CAY_INIT_VERSION 1

enum cay_g_type {
    CAY_G_BIND = 1, /* keeper → binder: cay_g_bind; fds as its flags tell */
    CAY_G_CONFIG, /* cay_g_config, tail: config blob; fds: [cgroup.procs, directory of the tenant's
                     group] */
    CAY_G_SPAWN,  /* cay_g_spawn, tail: blob unless in a memfd, then labels; fds: see cay_g_spawn */
    CAY_G_KEEP,   /* cay_g_proc (a: which); fds: [ring]: hold it for the next keeper. */
    CAY_G_SIGNAL, /* cay_g_proc (a: signal, b: cay_scope) */
    CAY_G_CLOSE,  /* cay_g_proc: drop the held stdin write end */
    CAY_G_ACK,    /* cay_g_proc: its exit is recorded; forget the status */
    CAY_G_FORGET, /* cay_g_proc: drop everything held for it */
    CAY_G_SESSION, /* cay_g_session, tail: user; fds: [socket] */
    CAY_G_ADOPT,   /* a new keeper: cay_g_hello; answers CAY_G_STATE … CAY_G_READY */
    CAY_G_QUIET,   /* cay_g_proc (a: 1 ends every process of the tenant first) → CAY_G_STILL */
    CAY_G_SWAPPED, /* cay_g_proc: it stands on another root, or goes on as it was; watches are set
                      anew, services may be started */
    CAY_G_SERVICE, /* cay_g_proc (proc: name of a service, "" all; a: CAY_GU_… or 0); fds: [socket
                   of who asks]: cay_g_told … */

    CAY_G_READY = 50, /* cay_g_hello: parked, or the end of the adoption's list */
    CAY_G_BOUND,      /* cay_g_result */
    CAY_G_SPAWNED,    /* cay_g_result; fds: [pty master] */
    CAY_G_EXITED,     /* cay_g_exit; of a CAY_SPAWN_LATE that ends at once there is no SPAWNED */
    CAY_G_TAKEN,      /* cay_g_result: answer to SESSION */
    CAY_G_STATE, /* cay_g_state, tail: labels; fds as its flags tell. Also of a service whose first
                    process started, or its next */
    CAY_G_UNITED = 58, /* cay_g_result: service proc is in state step, pid is its exit code; "":
                          there are some, and HOLD is obeyed */
    CAY_G_STILL = 57,  /* cay_g_result, EBUSY: some are alive; fds: [lock that file workers hold
                          shared while they serve] */
    CAY_G_ENDING = 59, /* cay_g_result: the host asked it to end, by SIGTERM; it does so within a
                          second */
    CAY_G_NET = 56,    /* cay_g_result; fds: [tcp listener] [dns tcp] [dns udp] [name map]: what was
                          held of the network */
};

typedef struct cay_g_hello {
    uint32_t version;
    uint32_t bound;
    char instance[CAY_WIRE_ID];
} cay_g_hello;

/* What the binder mounts. Descriptors in this order, each only when its flag is set, then the
 * grants. */
enum {
    CAY_GB_OVERLAY = 1u << 0, /* the root, ready made by a zygote */
    CAY_GB_HERE = 1u << 1,    /* no root: it stands on it since it was parked */
    CAY_GB_LOWER = 1u << 2,   /* a detached lower directory instead of the named layer */
    CAY_GB_USR = 1u << 3,     /* its /usr is the host's, of template `host` */
    CAY_GB_DURABLE = 1u << 4, /* without `volatile` */
    CAY_GB_FOREIGN = 1u << 5, /* any root filesystem: complete its /etc and make /workspace */
}; /* neither OVERLAY nor HERE: the binder makes an overlay of what is attached below /i */
typedef struct cay_g_bind {
    uint32_t flags;
    uint32_t ngrants;        /* targets follow in the tail, each NUL-terminated */
    uint32_t grants_rw;      /* bit per grant: existing files that run code on the host are covered
                                read-only */
    char layer[64], dir[64]; /* of the binder's overlay: below layers/ and sandboxes/ */
    char hostname[64];       /* "" leaves it */
} cay_g_bind;

typedef struct cay_g_config {
    uint64_t nofile, fsize, as_limit; /* rlimits; UINT64_MAX: leave */
    uint64_t cpus;                    /* affinity mask of the first 64; 0: leave */
    uint32_t spare[2];
} cay_g_config;

typedef struct cay_g_result {
    char proc[CAY_WIRE_ID];
    int32_t pid;
    int32_t sys;   /* errno, 0: worked */
    char step[32]; /* what failed: "cwd", "exec", "user", "pty", … */
} cay_g_result;

/* Descriptors of SPAWN, in this order, each only when its flag is set. */
enum {
    CAY_GS_IN = 1u << 16,  /* child's stdin */
    CAY_GS_OUT = 1u << 17, /* child's stdout */
    CAY_GS_ERR = 1u << 18, /* child's stderr */
    CAY_GS_HOLD_IN =
        1u << 19, /* write end of stdin, read ends of stdout and stderr: held by init */
    CAY_GS_HOLD_OUT = 1u << 20,
    CAY_GS_HOLD_ERR = 1u << 21,
    CAY_GS_GROUP = 1u << 22, /* a group of its own and not the tenant's: cgroup.procs, which the
                                child enters by writing 0 */
    CAY_GS_INTO = 1u << 24,  /* … and the directory, for a child that is born in it */
    CAY_GS_REAPER =
        1u << 23, /* no group: put a sub-reaper in front, so that the tree can be killed */
};

typedef struct cay_g_spawn {
    char proc[CAY_WIRE_ID];
    uint32_t flags; /* CAY_SPAWN_… and CAY_GS_… */
    uint16_t cols, rows;
    uint32_t argc, envc, blob;
    uint32_t ring; /* from here on for the record only: the next keeper asks */
    uint64_t timeout_ms;
    int64_t deadline;   /* of the time-out, CLOCK_BOOTTIME ms */
    int64_t started_ms; /* wall clock */
    uint32_t group;     /* 1 + number of its own group, 0: none */
    uint32_t spare;
    char forget[CAY_WIRE_ID]; /* as by FORGET, before anything else; "": nobody */
    char tag[40], title[64];
} cay_g_spawn;

typedef struct cay_g_proc {
    char proc[CAY_WIRE_ID];
    uint64_t a, b;
} cay_g_proc;

typedef struct cay_g_session {
    uint32_t seq;
    uint32_t spare;
} cay_g_session;

typedef struct cay_g_exit {
    char proc[CAY_WIRE_ID];
    int32_t pid;
    int32_t status; /* wait status */
    uint64_t cpu_us, max_rss;
} cay_g_exit;

/* One process in the adoption's list. */
typedef struct cay_g_state {
    cay_g_spawn spawn;
    cay_g_exit exit;
    uint32_t ended;
    uint32_t fds; /* bits: 1 stdin write end, 2 stdout read end or pty master, 4 stderr read end,
                     8 stdout ring, 16 stderr ring; descriptors come in this order */
} cay_g_state;

#define CAY_SERVICES_MARK "\1services"
enum {
    CAY_GU_START = 1,
    CAY_GU_STOP,
    CAY_GU_RESTART,
    CAY_GU_HOLD
}; /* the first three as cay_service_op; HOLD: none is started until SWAPPED */
enum {
    CAY_GUF_WAIT = 1u << 0,
    CAY_GUF_SUDO = 1u << 1,
    CAY_GUF_EACH = 1u << 2
}; /* they wait for START of all; init serves sudo; a container's wait in each of its lives */

typedef struct cay_g_services {
    uint32_t n, flags;
} cay_g_services;

/* One service: then its blob, as of a spawn, and the blob of its health command. */
typedef struct cay_g_service {
    char name[CAY_WIRE_ID];
    uint32_t flags, argc, envc, blob;                    /* CAY_SPAWN_SHELL */
    uint32_t check_flags, check_argc, check_envc, check; /* argc 0: none */
    uint32_t after;                                      /* bit per service, by place */
    uint16_t port, tcp;
    uint32_t restart; /* cay_restart */
    uint32_t interval_ms, timeout_ms, stop_ms;
    char title[64];
} cay_g_service;

/* A service as it is now: one packet each, and again with every change for as long as the asker
 * keeps its socket. The first round ends with one whose place is UINT32_MAX. */
typedef struct cay_g_told {
    char name[CAY_WIRE_ID], proc[CAY_WIRE_ID];
    uint32_t state; /* cay_service_state */
    uint32_t place;
    int32_t pid, code;
    uint32_t restarts, port, ready_after_ms, wait_ms;
    int64_t since_ms, ready_ms;
    char reason[40];
} cay_g_told;
