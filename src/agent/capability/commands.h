/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/capability/commands.h - commands of an agent that may outlive a tool call, by numbers that
 * it can name.
 *
 * The provider keeps the processes; each carries its number as a label, so that a run that was
 * saved and goes on elsewhere finds them again.
 */
#pragma once
#include "output.h"
#include <cay/sandbox.h>
#include <pthread.h>

enum {
    CAY__SESSIONS_MAX = 64,
    CAY__SESSIONS_RECENT = 8, /* never pruned: the last used */
    CAY__SESSIONS_MANY = 60,  /* from here on the agent is warned */
    CAY__YIELD_MIN = 250,
    CAY__YIELD_MAX = 30000,
    CAY__YIELD_POLL = 5000,
};

typedef struct cay__cmd {
    int id; /* 1000–99999; 0: free */
    cay_proc *p;
    int fd[2];
    uint64_t at[2]; /* bytes read of each stream */
    unsigned breaks;
    bool tty, exited, busy; /* busy: a call is starting or looking at it, so nobody drops it */
    cay_exit exit;
    uint64_t used; /* a clock of uses */
} cay__cmd;

typedef struct cay__cmds {
    cay_sandbox *sb;
    cay__cmd v[CAY__SESSIONS_MAX];
    uint64_t clock;
    pthread_mutex_t lock; /* places and ids; what is in a place belongs to the call that uses it */
} cay__cmds;

/* Starts spec (labels and stdin are filled in); a place is made by ending an old one when all are
 * taken. */
int cay__cmd_start(cay__cmds *t, const cay_call *call, const cay_spawn *spec, cay__cmd **out,
                   cay_err *err);
/* Tells that there are many, before one of them has to go. */
void cay__cmds_warn(cay__cmds *t, cay__printed *out);
/* CAY_ENOENT "pty_session_not_found". */
int cay__cmd_find(cay__cmds *t, const cay_call *call, int64_t id, cay__cmd **out, cay_err *err);
/* Collects for at most yield_ms (within the bounds above), or until it has ended and all it printed
 * was read. */
/* How long is waited, of what was asked for. polls: only to look again, which is not worth less. */
uint64_t cay__cmd_yield(uint64_t asked_ms, bool polls);
int cay__cmd_collect(cay__cmd *s, const cay_call *call, uint64_t yield_ms, cay__printed *out,
                     cay_err *err);
/* A call is through with it: dropped when it has ended, else there to be found. */
void cay__cmd_leave(cay__cmds *t, cay__cmd *s);
void cay__cmd_drop(cay__cmd *s);
void cay__cmds_drop(cay__cmds *t);
