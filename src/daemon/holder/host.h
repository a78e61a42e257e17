/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon/holder/host.h - inside cay-local: one process that holds one sandbox.
 *
 *   host.c  life: deadlines, pause, stop        conn.c   requests of proto/keeper.h
 *   exec.c  its processes and their streams     child.c  how one is started
 *   main.c  cay-local: how it comes up
 *
 * cay-pid1 (daemon/holder/main_pid1.c) is the same inside of a container: there are users, and a
 * freezer outside.
 */
#pragma once
#include <proto/local_record.h>
#include "answer.h"
#include "child.h"
#include "input.h"
#include "stream.h"
#include <base/fsop.h>
#include <proto/keeper.h>

typedef struct host host;
typedef struct holder_proc holder_proc;
typedef struct holder_conn holder_conn;

struct holder_conn {
    cay__watch w;
    host *h;
    bool events;
    holder_conn *next;
};

struct holder_proc {
    host *h;
    char id[CAY_WIRE_ID], tag[40], command[256];
    char *labels; /* as they came */
    size_t nlabels;
    uint32_t flags;
    int pid;
    int reaper;     /* its pid, while ctl is open; 0: another's */
    uint64_t start; /* with the pid it names the process for ever */
    int64_t started_ms;
    cay__watch ctl; /* to the reaper; fd -1: nothing of it is left */
    int lead; /* of a service: the socket of the reaper of its present run, which is another's; 0:
                 none */
    holder_input in;
    holder_stream out[2];
    cay__timer timeout, kill, linger;
    const char *why;             /* reason that our own deed gives: "time", "killed" */
    bool running, reaped, ended; /* told its pid; exit known; exit told */
    int starter;                 /* awaits the answer to its SPAWN, or -1 */
    holder_waiter *waiters;      /* want its EXIT */
    cay_m_exit exit;
    holder_proc *next;
};

struct host {
    cay__loop loop;
    char id[CAY_WIRE_ID];
    int dir, journal, record; /* record: meta, where the directory is shown read-only; else -1, and
                                 it is replaced by rename */
    char *config;             /* strings, ended by an empty one */
    const char *workdir, *home, *env;
    char root[CAY__FS_PATH_MAX]; /* where root/ is on the host */
    cay__fs fs;
    local_meta meta;
    jail jail;
    cay__watch listen, signals;
    cay__timer deadline, idle, look;
    holder_conn *conns;
    holder_waiter *waiters; /* BOX_WAIT, STOP and DESTROY */
    holder_proc *procs;     /* newest first */
    uint64_t kept;          /* bytes of output in rings */
    int64_t used_ms;
    uint64_t seq;
    cay_event_wire past[64]; /* the latest events, for a reader that learns of us late */
    bool stopping, leaving;  /* kill all; then end this process */
    bool stopped;            /* paused by signals, not by a freezer outside */
    /* In a container: who that is, by its own files; 0 or errno. NULL: there is one user, who made
     * the sandbox. */
    int (*who)(const char *name, ident *out);
    /* In a container with services or sudo, else NULL: a round of the loop with theirs; what is
     * asked of services. */
    void (*turn)(host *h);
    void (*services)(host *h, const char *name, uint32_t op, int *fds, int nfds);
    const char *services_at; /* of the config: what they are; NULL: none */
    size_t services_len;
    bool again;       /* with record: it ran before */
    bool far;         /* with who: root in here may ask, because nobody else can */
    const char *user; /* with who: whose commands are that ask for nobody */
};

/* host.c */
/* Reads config and meta of dir; the length of the first, or -1. It ends in NULs: so do its last
 * string and its list. */
ssize_t cay__host_config(host *h, int dir);
/* Serves until the sandbox is stopped; takes the listener. What main() read of it is in place. */
int cay__host_run(host *h, int listener);
/* What its processes are put in: NULL at level 0. Lives until the next call. */
const jail *cay__host_jail(host *h);
void cay__host_used(host *h);
void cay__host_extend(host *h, uint64_t ttl_ms, uint64_t idle_ms);
/* frozen: somebody outside holds its processes still, no signal is needed. */
void cay__host_pause(host *h, bool on, bool frozen);
void cay__host_stop(host *h, const char *reason);
void cay__host_box(const host *h, cay_m_boxinfo *out);

/* conn.c */
void cay__holder_accept(host *h);
/* Closes a socket that a tenant may have put something into. */
void cay__conn_refuse(int *fd);
#define cay__conn_send(c, type, body) cay__answer_body((c)->w.fd, type, body)
#define cay__conn_bare(c, type)       cay__answer_bare((c)->w.fd, type)
#define cay__conn_ok(c)               cay__answer_ok((c)->w.fd)
#define cay__conn_error(c, code, sys, reason, msg)                                                 \
    cay__answer_error((c)->w.fd, code, sys, reason, msg, NULL)
void cay__conn_send_proc(int to, const holder_proc *p);
bool cay__blob_is_whole(const char *blob, size_t len, uint64_t strings);
void cay__conn_event(host *h, const char *kind, const char *reason, const char *process, int code);

/* exec.c */
void cay__exec_spawn(holder_conn *c, const cay_m_spawn *m, const char *blob, const char *labels,
                     size_t nlabels, int *fds, int nfds);
/* A command that the holder starts by itself, with the blob of a spawn (user NUL cwd NUL tag NUL
 * argv… env…), which may be a tenant's; back when it runs. Its pid, or -1, errno and the step.
 * *ctl: to its reaper, the caller's. */
typedef struct exec_own {
    uint32_t flags, argc, envc; /* CAY_SPAWN_SHELL */
    int io[3];                  /* -1: /dev/null; they stay the caller's */
    int ctty;                   /* a terminal that becomes its own; -1: none */
} exec_own;
int cay__exec_own(host *h, const exec_own *o, const char *blob, size_t len, int *ctl, int *reaper,
                  const char **step);
/* A process to the outside whose runs are somebody else's: takes the read ends of its two streams.
 * It ends when that one says so. */
holder_proc *cay__exec_adopt(host *h, const char *id, const char *tag, const char *command,
                             uint32_t flags, int fds[2]);
void cay__exec_adopted_end(holder_proc *p, int status);
/* Who that is; false: there is none, and the client was told. */
bool cay__exec_user(holder_conn *c, const char *user, ident *out);
holder_proc *cay__exec_find(host *h, const char *ref);
bool cay__exec_resize(holder_proc *p, uint16_t cols, uint16_t rows);
bool cay__exec_signal(holder_proc *p, int sig, cay_scope scope);
int cay__exec_live(const host *h); /* those with a process left */
void cay__exec_forget_conn(host *h, const holder_conn *c);
void cay__exec_free_all(host *h);
/* What happens to a process (exec.c), for where it is started (start.c). */
void cay__exec_on_ctl(cay__watch *w, uint32_t events);
void cay__exec_on_exit_status(holder_proc *p, const child_msg *m);
void cay__exec_on_kill(cay__timer *t);
void cay__exec_on_linger(cay__timer *t);
extern const holder_stream_ops cay__exec_stream_ops;
void cay__exec_on_timeout(cay__timer *t);

/* container.c */
/* Services and sudo of a container, in its pid 1. services: what follows CAY_SERVICES_MARK in the
 * config. Before cay__host_run(), which drives them. */
void cay__inside_open(host *h, const char *services, size_t len);
