/* SPDX-License-Identifier: Apache-2.0 */
#include "answer.h"
#include <base/base.h>
#include <sys/socket.h>
#include <sys/wait.h>

void cay__answer_send(int to, uint16_t type, const void *body, size_t len, const void *tail,
                      size_t tail_len, const int *fds, int nfds)
{
    /* A client that does not read its answers is not waited for: it finds its connection closed,
     * and its next look at the socket frees it. */
    if (to >= 0 && !cay__msg_send(to, CAY_MSG_VERSION, type, body, len, tail, tail_len, fds, nfds,
                                  MSG_DONTWAIT))
        shutdown(to, SHUT_RDWR);
}

void cay__answer_bare(int to, uint16_t type)
{
    cay__answer_send(to, type, NULL, 0, NULL, 0, NULL, 0);
}

bool cay__answer_error(int to, int code, int sys, const char *reason, const char *msg,
                       const char *more)
{
    cay_m_error e = { .code = code, .sys = sys };
    CAY_COPY(e.reason, reason);
    CAY_JOIN(e.msg, msg, more ? ": " : NULL, more);
    cay__answer_body(to, CAY_MSG_ERROR, &e);
    return false;
}

void cay__answer_proc(int to, const cay_m_proc *m, const char *tag, const char *command,
                      const char *labels, size_t nlabels)
{
    char tail[512 + CAY_LABELS_MAX];
    const char *const text[] = { tag, command, "" }; /* no user: what runs inside knows it */
    size_t n = 0;
    CAY_EACH(it, text) {
        size_t k = strlen(*it) + 1;
        memcpy(tail + n, *it, k);
        n += k;
    }
    if (nlabels)
        memcpy(tail + n, labels, nlabels);
    cay__answer_send(to, CAY_MSG_PROC, m, sizeof *m, tail, n + nlabels, NULL, 0);
}

void cay__waiter_add(holder_waiter **list, int to, bool plain)
{
    holder_waiter *w = cay__alloc(sizeof *w);
    *w = (holder_waiter){ to, plain, *list };
    *list = w;
}

void cay__waiter_drop(holder_waiter **list, int to)
{
    while (*list)
        if ((*list)->to == to) {
            holder_waiter *dead = *list;
            *list = dead->next;
            free(dead);
        } else {
            list = &(*list)->next;
        }
}

void cay__waiters_tell(holder_waiter **list, uint16_t type, const void *body, size_t len)
{
    while (*list) {
        holder_waiter *w = *list;
        *list = w->next;
        if (w->plain)
            cay__answer_ok(w->to);
        else
            cay__answer_send(w->to, type, body, len, NULL, 0, NULL, 0);
        free(w);
    }
}

void cay__exit_set(cay_m_exit *x, const char *id, int status, const char *reason, uint64_t cpu_us,
                   uint64_t max_rss)
{
    memcpy(x->proc, id, sizeof x->proc);
    x->signal = 0;
    x->code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) {
        x->signal = WTERMSIG(status);
        x->code = 128 + x->signal;
    }
    x->cpu_us = cpu_us;
    x->max_rss = max_rss;
    CAY_COPY(x->reason, reason);
}

bool cay__ref_names(const char *ref, const char *tag, int pid)
{
    uint64_t n;
    return (cay__str_to_u64(ref, &n) && (uint64_t)pid == n) || (tag[0] && !strcmp(tag, ref));
}

cay_event_wire cay__event_make(uint64_t seq, const char *id, const char *kind, const char *reason,
                               const char *process, int code)
{
    cay_event_wire e = { .time_ms = cay__clock_ms(), .seq = seq, .code = code };
    CAY_COPY(e.sandbox, id);
    CAY_COPY(e.process, process);
    CAY_COPY(e.kind, kind);
    CAY_COPY(e.reason, reason);
    return e;
}

bool cay__event_send(int to, const cay_event_wire *e)
{
    return cay__fd_send(to, e, sizeof *e, NULL, 0, MSG_DONTWAIT) >= 0;
}
