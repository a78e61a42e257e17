/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attack - the driver of the attack cases: makes sandboxes through the public API, lets the probe
 * loose in them, and looks from outside at what it reached. One process per case, as the user of
 * the mode; after each the keeper is ended and a judge that shares no code with us compares the
 * machine with what it was.
 */
#pragma once
#include <cay/cay.h>
#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum { ROOT = 1, RANGE = 2, SINGLE = 4, ALL = 7, MANY_IDS = ROOT | RANGE };

typedef struct attack {
    const char *id, *title;
    unsigned modes;
    const char *mutants; /* build switches that each remove a defence, blank-separated; or NULL:
                            then why tells */
    const char *why;
    void (*run)(void);
} attack;

extern const attack ns_attacks[], fs_attacks[], proc_attacks[], sys_attacks[], res_attacks[],
    life_attacks[], cli_attacks[], clock_attacks[], net_attacks[], egress_attacks[], sudo_attacks[];

typedef struct world {
    unsigned mode;
    const char *user; /* of the host, or NULL: stay who we are */
    uid_t uid;
    gid_t gid;
    char dir[256], home[300], run[300], bin[300]; /* all below dir, which is a tmpfs */
    char clock_file[300];
    char sockets[400]; /* the keeper's own directory below run */
    cay_client *client;
    int failed;
    bool skipped;
    sigjmp_buf *out; /* where a case that gives up goes */
    int64_t *clock;  /* what our programs add to the wall clock */
    int host;        /* to the parent, which is root where the suite is */
} world;
extern world W;

#define SECRET "s3cr3t-of-the-host"

__attribute__((format(printf, 1, 2))) void breach(const char *fmt, ...);
__attribute__((format(printf, 1, 2))) void note(const char *fmt, ...);
/* Cannot go on: the case fails here, and what it made is removed. */
__attribute__((format(printf, 1, 2), noreturn)) void give_up(const char *fmt, ...);
/* This host or build cannot show it: said aloud, and no success. */
void skip(const char *why);
#define CHECK(cond, ...) ((cond) ? (void)0 : breach(__VA_ARGS__))

/* A tenth of a count in the ordinary run, all of it in the soak test (CAY_ATTACK_FULL). */
unsigned many(unsigned full);
/* What takes a few milliseconds takes ten times its bound where much else goes on; the bound itself
 * holds in the soak test. */
int64_t soon(int64_t ms);

cay_client *service_open(void);               /* W.home */
cay_sandbox *box_new(const cay_create *spec); /* NULL: the default; the probe is in it */
void box_remove(cay_sandbox *sb);
int box_init_pid(cay_sandbox *sb);
/* "on", "soft", "off" or "" */
const char *box_layer(cay_sandbox *sb, const char *name);
cay_state box_state(cay_sandbox *sb, char *reason, size_t cap);

/* Runs the probe and takes over its findings; ends with a NULL argument. user NULL: the default. */
void inside(cay_sandbox *sb, const char *user, const char *name, ...) __attribute__((sentinel));
/* The same for a spec whose argv is already the probe's. */
void inside_spec(cay_sandbox *sb, cay_spawn *spec);
/* Takes over the lines of a probe that was run in another way. */
void judge_output(const char *text, const char *name);
/* Starts the probe in the background and waits for its line "ready". */
cay_proc *inside_start(cay_sandbox *sb, cay_spawn *base, const char *name, ...)
    __attribute__((sentinel));
/* Any command: its exit code, -1 when it could not be run; out may be NULL. */
int command(cay_sandbox *sb, const char *user, const char *shell, char *out, size_t cap);

/* "mount PATH", "small PATH", "umount PATH", "next-pid N", "kill PID", "stop PID", "power-cut",
 * "stranger SOCKET": by the parent, as root where it is. */
bool as_host(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int keeper_pid(void);             /* of W.home; 0 when there is none */
void keeper_kill(int sig);        /* and waits until it is gone */
int host_count(const char *comm); /* processes of that name, anywhere */
long host_rss(int pid);           /* bytes */
int host_shell(const char *cmd);  /* its exit code */
bool host_put(const char *path, const char *text);
bool host_get(const char *path, char *buf, size_t cap);
int64_t now_ms(void);
/* Sets the wall clock of our programs, in builds with fault points; false in others. */
bool set_clock(int64_t ahead_ms);
void nap(unsigned ms);
const cay_call *within(unsigned ms); /* a deadline from now; of this thread until its next call */
