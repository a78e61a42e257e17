/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon/holder/child.h - start one command below a reaper of its own, and what holds it.
 *
 * Between cay-local and the command stands a small process, the reaper: a sub-reaper (prctl(2)), so
 * that whatever the command leaves behind stays below it and can be found, signalled and reaped. It
 * obeys cay-local over a socket and kills all it has when that socket ends: nothing outlives
 * cay-local.
 */
#pragma once
#include <daemon/init/ident.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What holds a process of level 1: limits, no privilege to gain, no capability, Landlock, a system
 * call filter. There is no namespace, so all of it is entered by the process itself before it
 * executes. Each command has a Landlock domain of its own: those of one sandbox can no more signal
 * or trace each other than the host's; cay-local, which is outside, can. */
typedef struct jail {
    int root;        /* the one tree that may be written */
    uint64_t memory; /* bytes of data segment per process; 0: no bound. So for all of these */
    uint64_t disk;   /* bytes per file */
    uint64_t tasks;  /* processes and threads of the user, those outside included */
} jail;

/* Each gives NULL, or the name of the step that failed, with errno. */
const char *cay__jail_limits(const jail *j);
/* tty: path of the terminal that may be opened by name, or NULL. */
const char *cay__jail_enter(int root, const char *tty);

/* How many processes and threads the user has that are not below this process. */
uint64_t cay__jail_others(void);

typedef struct child_spec {
    char *const *argv, *const *env;
    int cwd;          /* directory to begin in */
    int in, out, err; /* -1: /dev/null; with a terminal all are its name's */
    const char *tty;  /* path of the terminal, or NULL */
    int ctty; /* 1 + descriptor of a terminal that becomes its own, beside those three; 0: none */
    uint16_t cols, rows;
    uint64_t nofile;  /* 0: leave */
    const jail *jail; /* NULL: none */
    const ident *who; /* whose rights it gets; NULL: ours */
} child_spec;

enum child_op {
    CHILD_SIGNAL = 1, /* to the reaper. a: signal, b: cay_scope */
    CHILD_STARTED,    /* from it. a: pid of the command, c: its start time */
    CHILD_FAILED,     /* a: errno, text: which step */
    CHILD_EXITED,     /* a: wait status, c: cpu_us, d: max_rss */
};
typedef struct child_msg {
    uint32_t op;
    int32_t a, b;
    char text[20];
    uint64_t c, d;
} child_msg;

/* Forks the reaper. *ctl is our end of its socket: SEQPACKET of child_msg; it ends when the last
 * process is gone. Returns the reaper's pid, or -1. */
pid_t cay__child_start(const child_spec *spec, int *ctl);
/* In a child of pid 1: ids, groups and no capability unless it is root. */
bool cay__child_become(const ident *who);
/* In a child: closes every descriptor above 2 but these; -1 among them is skipped. */
void cay__child_close_others(const int *keep, size_t n);
