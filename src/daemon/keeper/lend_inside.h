/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon/keeper/lend_inside.h - the parts of the lender among themselves.
 *
 *   lend.c         the loop, and what the keeper says
 *   lend_box.c     sandboxes whose sockets are lent
 *   lend_egress.c  what is said to cay-egress, and back
 *   lend_policy.c  their policies on disk
 */
#pragma once
#include "lend.h"
#include <base/base.h>
#include <proto/egress.h>
#include "netns.h"

/* One sandbox that cay-egress serves, or has to be told of again. */
typedef struct lent {
    struct lent *next;
    char id[CAY_WIRE_ID];
    uint64_t cookie, revision;
    uint32_t flags;
    int fd[CAY__NET_FDS];
    int policy;       /* the text that holds, sealed; -1: none yet */
    bool told;        /* the egress that we speak with has it */
    unsigned refused; /* so many times it did not want it */
    int64_t again_ms; /* and is not asked again before */
} lent;

/* One thing that is to be said to cay-egress. */
typedef struct ask {
    struct ask *next;
    uint64_t seq; /* 0: not said yet */
    uint32_t job; /* the keeper's, 0: our own */
    cay_m_net m;
    int policy;        /* SET: the new text */
    uint64_t revision; /* and its number */
    bool undo;         /* and egress has another one, that nobody was told of */
    int64_t until;
    unsigned tries;
} ask;

typedef struct lender_state {
    int sock, egress, notify;
    int mode;
    const char *run, *keeper;
    lent *all;
    ask *asks;
    uint64_t seq;
    unsigned out, fails;
    int64_t again_ms, since_ms; /* not started before; connected since */
    bool reload;                /* the operator's file changed */
    lent *old; /* one of each that nobody needs is kept: the allocator would unmap its page, and map
                  it for the next */
    ask *over;
} lender_state;
extern lender_state lender; /* lend.c */

/* lend.c */
void lender_refuse(uint32_t seq, int code, const char *reason, const char *msg); /* errno counts */
void lender_needed(void); /* ends us when the keeper was killed: the next one's lender may be at
                             work, and writes to the same names */
/* lend_policy.c */
bool policy_write_new(const char *id, uint64_t revision, int text); /* beside the one that holds */
void policy_drop_new(const char *id);
bool policy_keep_new(const char *id); /* it holds now */
int policy_off(void);                 /* a sealed text that allows nothing */
/* -1 with ENOENT: none was set. Anything else that is wrong with it is an error: what a sandbox may
 * reach is not guessed. */
int policy_read(const char *id, uint64_t *revision);
/* lend_box.c */
lent *lent_find(const char *id);
lent *lent_take_in(
    const keeper_job *job, int *fds,
    int nfds); /* the sandbox of a job, taken in when it is new; NULL when it was refused */
void lent_forget(lent *l);
/* lend_egress.c */
ask *ask_new(uint32_t seq, const cay_m_net *m, int policy); /* behind those that wait */
void ask_drop(ask *a);
bool egress_say_box(uint16_t type, const lent *l, uint64_t seq, uint64_t revision, int policy);
void egress_pump(void);   /* starts it, and says what can be said */
void egress_read(void);   /* what it says */
void egress_late(void);   /* what it should have said by now */
int egress_wait_ms(void); /* until one of these has something to do, -1: nothing */
