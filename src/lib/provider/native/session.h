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
#include <cay/sys/provider.h>
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
    uint64_t netns; /* SO_NETNS_COOKIE of the box's network namespace; 0: not known */
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

int cay__nf_open_read(cay__sessions *s, const cay_call *call, const char *path,
                      const cay_read *spec, int *fd, cay_err *err);
int cay__nf_put(cay__sessions *s, const cay_call *call, const char *path, const void *data,
                size_t len, const cay_write *spec, cay_err *err);
int cay__nf_fill(cay__sessions *s, const cay_call *call, const cay_fill *spec, cay_err *err);
int cay__nf_open_write(cay__sessions *s, const cay_call *call, const char *path,
                       const cay_write *spec, void **up, int *fd, cay_err *err);
int cay__nf_commit_write(void *up, const cay_call *call, cay_err *err);
void cay__nf_abort_write(void *up);
int cay__nf_stat(cay__sessions *s, const cay_call *call, const char *path, bool follow,
                 cay_stat *out, cay_err *err);
int cay__nf_mkdir(cay__sessions *s, const cay_call *call, const char *path, uint32_t mode,
                  bool parents, cay_err *err);
int cay__nf_remove(cay__sessions *s, const cay_call *call, const char *path, bool recursive,
                   cay_err *err);
int cay__nf_rename(cay__sessions *s, const cay_call *call, const char *from, const char *to,
                   cay_err *err);
int cay__nf_chmod(cay__sessions *s, const cay_call *call, const char *path, uint32_t mode,
                  cay_err *err);
int cay__nf_chown(cay__sessions *s, const cay_call *call, const char *path, uint32_t uid,
                  uint32_t gid, cay_err *err);
int cay__nf_symlink(cay__sessions *s, const cay_call *call, const char *target, const char *path,
                    cay_err *err);
int cay__nf_getxattr(cay__sessions *s, const cay_call *call, const char *path, const char *name,
                     void *buf, size_t *len, cay_err *err);
int cay__nf_setxattr(cay__sessions *s, const cay_call *call, const char *path, const char *name,
                     const void *value, size_t len, cay_err *err);
int cay__nf_listxattr(cay__sessions *s, const cay_call *call, const char *path,
                      int (*fn)(const char *, void *), void *arg, cay_err *err);
int cay__nf_list_dir(cay__sessions *s, const cay_call *call, const char *path, unsigned depth,
                     int (*fn)(const cay_dirent *, void *), void *arg, cay_err *err);
int cay__nf_glob(cay__sessions *s, const cay_call *call, const char *base, const char *pattern,
                 int (*fn)(const cay_dirent *, void *), void *arg, cay_err *err);
int cay__nf_grep(cay__sessions *s, const cay_call *call, const char *base, const cay_grep *spec,
                 int (*fn)(const cay_match *, void *), void *arg, cay_err *err);
int cay__nf_watch_open(cay__sessions *s, const cay_call *call, const char *path, bool recursive,
                       void **w, int *fd, cay_err *err);
int cay__nf_watch_next(void *w, const cay_call *call, cay_watch_event *out, cay_err *err);
void cay__nf_watch_close(void *w);
int cay__nf_ports(cay__sessions *s, const cay_call *call, int (*fn)(const cay_port *, void *),
                  void *arg, cay_err *err);
int cay__nf_connect(cay__sessions *s, const cay_call *call, uint16_t port, int *fd, cay_err *err);
/* Every process inside; id and tag are "": who started it is the keeper's knowledge. */
int cay__nf_ps(cay__sessions *s, const cay_call *call, int (*fn)(const cay_proc_info *, void *),
               void *arg, cay_err *err);
