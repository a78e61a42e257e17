/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/provider/native/session.h - files, watches, ports and processes of a box, asked of workers
 * inside it.
 *
 *   cay__sessions_open()  given how to reach a new worker        cay__sessions_close()
 *   cay__nf_…()           the calls of cay_provider_ops over them
 *
 * A worker serves one request at a time, so each call takes an idle session or opens another; a few
 * are kept. What a worker says is checked as a stranger's: the tenant lives beside it. A worker
 * that dies is CAY_EGONE, one that answers nonsense CAY_EUPSTREAM. No JSON, no stdio: the static
 * command links this.
 */
#pragma once
#include <lib/provider/provider.h>
#include <pthread.h>

#define CAY__SESSIONS_IDLE 4
#define CAY__SESSION_USER  64

typedef struct cay__sessions {
    /* A SEQPACKET socket with a worker of that user (NULL: the box's default user) at its other
     * end. From any thread. */
    int (*open)(void *arg, const cay_call *call, const char *user, int *sock, cay_err *err);
    int (*ready)(void *arg, cay_err *err); /* asked before each request whether one could be
                                              answered now; NULL: always */
    void *arg;
    const char *root; /* of the box, as the host names it: in paths that begin so it is left out,
                         since a process inside may be shown those; NULL: it has none */
    uint64_t netns;   /* SO_NETNS_COOKIE of the box's network namespace; 0: not known */
    pthread_mutex_t lock;
    pthread_cond_t turn; /* for who waits to connect */
    unsigned connecting; /* that ask for a socket now */
    struct {
        int sock;
        char user[CAY__SESSION_USER];
    } idle[CAY__SESSIONS_IDLE];
} cay__sessions;

void cay__sessions_open(cay__sessions *s,
                        int (*open)(void *, const cay_call *, const char *, int *, cay_err *),
                        void *arg);
void cay__sessions_close(cay__sessions *s);
/* Drops the idle ones: after the box was stopped, say. */
void cay__sessions_drop(cay__sessions *s);

/* box: the sessions, or a box that begins with them. */
CAY__PROVIDES(open_read) cay__nf_open_read;
CAY__PROVIDES(put) cay__nf_put;
CAY__PROVIDES(fill) cay__nf_fill;
CAY__PROVIDES(open_write) cay__nf_open_write;
CAY__PROVIDES(commit_write) cay__nf_commit_write;
CAY__PROVIDES(abort_write) cay__nf_abort_write;
CAY__PROVIDES(stat) cay__nf_stat;
CAY__PROVIDES(mkdir) cay__nf_mkdir;
CAY__PROVIDES(remove) cay__nf_remove;
CAY__PROVIDES(rename) cay__nf_rename;
CAY__PROVIDES(chmod) cay__nf_chmod;
CAY__PROVIDES(chown) cay__nf_chown;
CAY__PROVIDES(symlink) cay__nf_symlink;
CAY__PROVIDES(getxattr) cay__nf_getxattr;
CAY__PROVIDES(setxattr) cay__nf_setxattr;
CAY__PROVIDES(listxattr) cay__nf_listxattr;
CAY__PROVIDES(list_dir) cay__nf_list_dir;
CAY__PROVIDES(glob) cay__nf_glob;
CAY__PROVIDES(grep) cay__nf_grep;
CAY__PROVIDES(watch_open) cay__nf_watch_open;
CAY__PROVIDES(watch_next) cay__nf_watch_next;
CAY__PROVIDES(watch_close) cay__nf_watch_close;
CAY__PROVIDES(ports) cay__nf_ports;
CAY__PROVIDES(connect) cay__nf_connect;
/* Connects a TCP socket of that family to the loopback. */
int cay__connect_loopback(const cay_call *call, int fd, int family, uint16_t port, cay_err *err);
/* Every process inside; id and tag are "": who started it is the keeper's knowledge. */
CAY__PROVIDES(procs) cay__nf_ps;
