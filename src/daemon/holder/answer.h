/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon/holder/answer.h - answers to requests of proto/keeper.h, as the keeper, cay-local and
 * cay-pid1 give them. A client is the descriptor of its connection; -1 is one that left.
 *
 *   cay__answer_send()  any answer          cay__waiter_add()    who is answered later
 *   cay__answer_error() why not             cay__waiters_tell()  all who wait
 *   cay__answer_proc()  a process           cay__event_send()    to one who listens
 */
#pragma once
#include <cay/sys/provider.h>
#include <proto/keeper.h>
#include <stddef.h>

void cay__answer_send(int to, uint16_t type, const void *body, size_t len, const void *tail,
                      size_t tail_len, const int *fds, int nfds);
void cay__answer_bare(int to, uint16_t type); /* with nothing in it */
#define cay__answer_ok(to) cay__answer_bare(to, CAY_MSG_OK)
/* A struct, by its address. */
#define cay__answer_body(to, type, body)                                                           \
    cay__answer_send(to, type, body, sizeof *(body), NULL, 0, NULL, 0)
bool cay__answer_error(int to, int code, int sys, const char *reason, const char *msg,
                       const char *more); /* "msg: more"; false */
void cay__answer_proc(int to, const cay_m_proc *m, const char *tag, const char *command,
                      const char *labels, size_t nlabels);

typedef struct holder_waiter {
    int to;
    bool plain; /* OK is all it wants to hear */
    struct holder_waiter *next;
} holder_waiter;
void cay__waiter_add(holder_waiter **list, int to, bool plain);
void cay__waiter_drop(holder_waiter **list, int to);
/* To each, and the list is empty. */
void cay__waiters_tell(holder_waiter **list, uint16_t type, const void *body, size_t len);

/* The end of process id by its wait status. */
void cay__exit_set(cay_m_exit *x, const char *id, int status, const char *reason, uint64_t cpu_us,
                   uint64_t max_rss);
/* Whether ref, which is no process id, is its tag or its pid inside. */
bool cay__ref_names(const char *ref, const char *tag, int pid);
cay_event_wire cay__event_make(uint64_t seq, const char *id, const char *kind, const char *reason,
                               const char *process, int code);
bool cay__event_send(int to, const cay_event_wire *e); /* false: there is no room for it */
