/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon/keeper/job.h - what the keeper asks of its helpers, and what they answer.
 *
 * Helpers run the program that is also init (guest code), started from the sealed memfd. Zygotes,
 * one a core, park sandboxes: clone with namespaces blocks its caller for a millisecond. The
 * janitor keeps the host's mount tree and clones grants out of it; the sweeper removes and measures
 * directory trees. The lender (daemon/keeper/lend.c) starts cay-egress at the first policy and
 * tells it what each sandbox may reach. SEQPACKET on descriptor 3, one job at a time, answered in
 * order.
 */
#pragma once
#include <base/str.h>
#include <proto/keeper.h>
#include <stdint.h>

enum cay_job_type {
    KEEPER_JOB_PARK = 1,
    KEEPER_JOB_CLONE,
    KEEPER_JOB_RMTREE,
    KEEPER_JOB_DU,
    KEEPER_JOB_ROOT,
    KEEPER_JOB_GROUPS,
    KEEPER_JOB_SWEEP,
    KEEPER_JOB_NET,
    KEEPER_JOB_SWAP,
    KEEPER_JOB_LEAVE
};

#define KEEPER_JOB_V1_MAX 4
#define CAY_HOME_MARK                                                                              \
    "alive" /* of the state directory: empty, and there as long as that is; daemon/init/init.c */
#define CAY_STACK_TEXT        4096                    /* a stack as text, daemon/keeper/stack.h */
#define KEEPER_JOB_GROUPS_MAX (3 + KEEPER_JOB_V1_MAX) /* descriptors of GROUPS */

typedef struct keeper_job {
    uint32_t type;
    uint32_t seq;
    uint32_t mode;    /* CAY_MODE_… */
    uint32_t block;   /* PARK: first id of the range; root mode */
    uint32_t uid0;    /* PARK: single-id map onto 0 */
    uint32_t ro, rec; /* CLONE */
    uint32_t nv1;     /* GROUPS: how many v1 task files come along */
    uint32_t cg2; /* GROUPS: how many v2 directories: the box's, and init's where it has its own */
    uint32_t durable; /* ROOT: without `volatile` */
    uint32_t ahead;   /* PARK: stands on its root already, and nothing is to be bound later */
    uint32_t
        image; /* PARK: that root has a /usr of its own, and wants what every sandbox has in /etc */
    uint32_t how;     /* NET: how TCP comes to the listener, daemon/keeper/netns.h */
    uint64_t cookie;  /* NET: of the sockets that come along */
    uint32_t client;  /* NET: a client's request, not the keeper's own */
    uint32_t lower;   /* ROOT: the first descriptor is the lower directory */
    uint32_t inside;  /* ROOT: the binder makes the overlay */
    uint32_t on;      /* ROOT: the next descriptor is to be shown copy-on-write */
    uint32_t disk;    /* ROOT: the last descriptor holds what is written */
    int32_t pid;      /* SWAP: init */
    uint32_t wait_ms; /* SWAP: so long for file requests that are being served */
    cay_m_net net;
    char layer[64];  /* SWAP: what the upper becomes, "": it is thrown away */
    char name[64];   /* RMTREE, DU: below the state directory; PARK, ROOT: below sandboxes/ */
    char path[4096]; /* CLONE: where the descriptor that comes along was opened; PARK, ROOT: stack,
                        "" none; SWAP: the stack to go to, "" the present one and `layer` */
} keeper_job;

typedef struct cay_job_done {
    uint32_t seq;
    int32_t sys; /* errno, 0: done */
    int32_t pid;
    uint32_t swapped; /* SWAP: it stands on the new root, now or already */
    uint32_t how;     /* PARK: how TCP comes to the listener, daemon/keeper/netns.h; 0: the three
                         sockets are     not there */
    uint32_t trash;   /* PARK, ROOT, SWAP: something was put aside for removal */
    uint32_t shared;  /* PARK, failed: the range of ids has to be the store's own */
    uint64_t start;   /* PARK: start time, proc(5) field 22 */
    uint64_t cookie;  /* PARK: SO_NETNS_COOKIE */
    uint64_t bytes, inodes; /* DU */
    char step[40];
    cay_m_error error; /* NET: code 0: done */
    cay_m_netinfo net;
} cay_job_done;
/* PARK is followed by GROUPS: the keeper makes the groups while the zygote makes the net namespace.
 * GROUPS in: [listening socket] [v2 groups…] [v1 task files…], nothing: they could not be made
 * PARK out: [pidfd] [control socket] [user ns] [tcp listener] [dns tcp] [dns udp] [name map]
 * ROOT in: [lower directory, a detached mount] [directory to be shown copy-on-write, likewise]
 * [volumes, likewise: as root they come to show the block's ids] [a disk of its own, likewise];
 * out: unless inside [overlay], then [the copy-on-write one] SWAP in: [init's pidfd] [lock of its
 * file workers] [lower directory]; out: [the old root]. daemon/keeper/root.h tells the rest CLONE
 * in: [the directory]; out: [detached mount] RMTREE in: [mount namespace that still shows it]
 * SWEEP: what removals left behind; rec: a dead keeper's pool too LEAVE, to the lender: nothing
 * lives that would need what it started NET, to the lender, in: [tcp listener] [dns tcp] [dns udp]
 * [name map], SET: [policy]; out: GET [policy], DIAL [socket] */

/* /proc/PID/file */
static inline void proc_path(char *out, size_t cap, int pid, const char *file)
{
    char n[21];
    cay__str_join(out, cap, "/proc/", cay__str_u64(n, (uint64_t)pid), "/", file, NULL);
}

/* A fresh name for a parked sandbox: letters two to five tell the keeper's pid, so that a sweep
 * knows the pool of the living one. */
static inline void cay_job_name(char name[CAY_WIRE_ID], int keeper)
{
    cay__id_make(name, 'b');
    for (int i = 1; i <= 4; i++, keeper >>= 5)
        name[i] = "abcdefghijklmnopqrstuvwxyz234567"[keeper & 31];
}
