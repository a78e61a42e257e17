/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay/sandbox.h - work inside one sandbox.
 *
 *   cay_sandbox_spawn()  start a command         cay_sandbox_run()   start, wait, collect
 *   cay_sandbox_attach() find a running one      cay_proc_output()   its output as a descriptor
 *   cay_proc_wait()      how it ended            cay_proc_write()    feed its stdin or terminal
 *   cay_file_get()       read a small file       cay_file_put()      write one
 *   cay_file_open_read() stream out              cay_file_open_write()  stream in, then commit
 *   cay_dir_list()       structured listing      cay_watch_open()    what changes
 *   cay_port_list()      who listens             cay_port_connect()  a descriptor to it
 *
 * Calls may block. Different sandboxes may be used from different threads at once;
 * one sandbox serialises its own state changes. Paths are bytes, resolved inside the sandbox,
 * relative ones below its working directory; any byte but NUL may be in a name, so escape them
 * before a terminal sees them.
 */
#pragma once
#include <cay/error.h>
#include <cay/client.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cay_proc cay_proc;

typedef enum cay_stdin { CAY_STDIN_NULL = 0, CAY_STDIN_PIPE = 1 } cay_stdin;
typedef enum cay_stream { CAY_STDOUT = 1, CAY_STDERR = 2 } cay_stream; /* a tty has STDOUT only */
typedef enum cay_on_full {
    CAY_FULL_DROP = 0, /* oldest bytes go, counted */
    CAY_FULL_BLOCK, /* the writer waits for attached readers; 30 s without a read turns it to drop
                     */
} cay_on_full;
typedef enum cay_scope {
    CAY_SCOPE_ONE = 0,
    CAY_SCOPE_GROUP, /* its process group */
    CAY_SCOPE_TREE,  /* it and all it started */
    CAY_SCOPE_BELOW, /* all it started, not itself */
} cay_scope;
typedef enum cay_env_mode {
    CAY_ENV_ADD = 0, /* the sandbox's environment, then env */
    CAY_ENV_ONLY,    /* exactly env */
} cay_env_mode;

/* What work may touch inside, by lists of absolute paths, each NULL-terminated; a directory stands
 * for all below it, NULL for everything. As cay_call.fence it holds for whatever the call does.
 * Commands, and all that they start, are held to it by the kernel (Landlock, ABI 3 at least), for
 * ever; with a read list the programs, libraries and settings of the system (/usr, /etc, /opt,
 * /proc) stay readable, and devices such as /dev/null usable. Files that a call reads or writes
 * itself are judged by their path, with links looked through. What may be written may be read. It
 * does not stop stat(2), what a process that runs already does when it is asked to, and a program
 * that was allowed from doing what programs can. */
#define CAY_FENCE_MAX 512 /* paths of all lists together */
typedef struct cay_fence {
    size_t size;
    const char *workdir; /* where relative paths of file calls begin; NULL: /workspace */
    const char *const *read, *const *write, *const *exec;
} cay_fence;

#define CAY_PROC_LABELS_MAX 1024 /* bytes; a description of more belongs in a file */
typedef struct cay_spawn {
    size_t size;
    const char *const *argv; /* NULL-terminated; argv[0] is searched in PATH; or use shell */
    const char *shell;       /* one line for the sandbox's shell (bash if there, else sh) */
    bool login;              /* with shell: a login shell */
    const cay_pair *env;     /* ends with a NULL key */
    cay_env_mode env_mode;
    const char *cwd;     /* absolute, ~, or relative to the working directory */
    const char *user;    /* name or uid; NULL: the sandbox's default user */
    const char *profile; /* "default", or "root" for uid 0 with package-manager rights */
    cay_stdin stdin_mode;
    bool tty;
    uint16_t cols, rows;    /* of the tty; 0: 80 × 24 */
    uint64_t timeout_ms;    /* 0: none. TERM to the tree, KILL one second later */
    const char *tag;        /* a name to attach by; unique among live processes, or NULL */
    const cay_pair *labels; /* ends with a NULL key; told by cay_sandbox_procs(). All keys and
                               values together, each with one byte more: CAY_PROC_LABELS_MAX */
    uint32_t ring_bytes;    /* kept output per stream, 4 KiB to 16 MiB, in memory; 0: 1 MiB */
    cay_on_full on_full;
    bool attach;            /* readers are made with the process: the first cay_proc_output() of
                               each stream from its start has every byte, and costs nothing. The
                               call may return two milliseconds later, or with the end known */
    const cay_fence *fence; /* what it may touch; NULL: the call's. CAY_ENOTSUP "fence_unsupported"
                               where nobody can hold it */
} cay_spawn;

typedef struct cay_exit {
    size_t size;
    int code;        /* 0–255; 128 + signal when a signal ended it */
    int signal;      /* or 0 */
    char reason[16]; /* "exit", "signal", "oom", "time", "pids", "disk", "killed", "lost" */
    uint64_t cpu_us, max_rss;
    uint64_t lost_out, lost_err; /* bytes that left the ring before anyone could keep them */
} cay_exit;

/* Starts a command and returns before it ends; it lives on when the handle is dropped.
 * CAY_ESTATE if the sandbox is not running, CAY_ENOENT if argv[0] or cwd is not there. */
CAY_API int cay_sandbox_spawn(cay_sandbox *sb, const cay_call *call, const cay_spawn *spec,
                              cay_proc **out, cay_err *err);
/* ref: process id ("p…"), pid as seen inside, or tag. Ended processes can be found while kept. */
CAY_API int cay_sandbox_attach(cay_sandbox *sb, const cay_call *call, const char *ref,
                               cay_proc **out, cay_err *err);
CAY_API void cay_proc_unref(cay_proc *p);
CAY_API const char *cay_proc_id(const cay_proc *p);
CAY_API int cay_proc_pid(const cay_proc *p); /* as seen inside */

#define CAY_FROM_START 0
#define CAY_FROM_NOW   UINT64_MAX
/* A fresh descriptor that yields the stream from `offset` (or the oldest byte still kept) and ends
 * at the latest 200 ms after the process. Any number of readers. The caller closes it. */
CAY_API int cay_proc_output(cay_proc *p, const cay_call *call, cay_stream which, uint64_t offset,
                            int *fd, cay_err *err);
/* How often what serves the streams was replaced under this handle; known at the latest when
 * cay_proc_wait() has returned. Once it has grown, a descriptor of cay_proc_output() may have ended
 * early: open it again at the offset that was reached, or use cay_proc_read(). */
CAY_API unsigned cay_proc_breaks(const cay_proc *p);
/* Polling: copies what is kept from *offset on, without waiting; advances *offset; *lost counts
 * bytes that were dropped before they could be read; *eof when nothing more will come. */
CAY_API int cay_proc_read(cay_proc *p, const cay_call *call, cay_stream which, uint64_t *offset,
                          void *buf, size_t cap, size_t *n, uint64_t *lost, bool *eof,
                          cay_err *err);
/* The same, but of what came at one time only, and *time_ms tells when that was: wall clock, 0
 * where no times are kept. Of long output times are kept the coarser the longer it goes on, from 10
 * ms on; a byte never came before the time that is told. */
CAY_API int cay_proc_read_at(cay_proc *p, const cay_call *call, cay_stream which, uint64_t *offset,
                             void *buf, size_t cap, size_t *n, uint64_t *lost, bool *eof,
                             int64_t *time_ms, cay_err *err);
/* Waits until all of it is taken. CAY_ESTATE when stdin is not open. */
CAY_API int cay_proc_write(cay_proc *p, const cay_call *call, const void *data, size_t len,
                           cay_err *err);
CAY_API int cay_proc_close_stdin(cay_proc *p, const cay_call *call, cay_err *err);
CAY_API int cay_proc_resize(cay_proc *p, const cay_call *call, uint16_t cols, uint16_t rows,
                            cay_err *err);
CAY_API int cay_proc_signal(cay_proc *p, const cay_call *call, int sig, cay_scope scope,
                            cay_err *err);
CAY_API int cay_proc_wait(cay_proc *p, const cay_call *call, cay_exit *out, cay_err *err);
/* Becomes readable when the process has ended; for poll only, never read it. Owned by p. */
CAY_API int cay_proc_exit_fd(cay_proc *p, cay_err *err);

/* Spawn, feed, collect and wait in one. stdin_mode, on_full and attach are chosen here. What comes
 * past max_output (per stream; 0: 16 MiB) is read and not stored. A call that is canceled or passes
 * its deadline kills what it started. out and errout are NUL-terminated; cay_result_clear() frees
 * them. */
typedef struct cay_result {
    size_t size;
    cay_exit exit;
    char *out, *errout;
    size_t out_len, errout_len;
    bool truncated; /* more came than max_output */
} cay_result;
CAY_API int cay_sandbox_run(cay_sandbox *sb, const cay_call *call, const cay_spawn *spec,
                            const void *input, size_t input_len, size_t max_output, cay_result *out,
                            cay_err *err);
CAY_API void cay_result_clear(cay_result *r);

typedef struct cay_proc_info {
    size_t size;
    const char *id;      /* "" for a process that was not started through the API */
    const char *tag;     /* or "" */
    const char *command; /* argv joined by blanks, cut */
    const char *user;
    int pid, ppid;
    char state; /* R S D T Z as in proc(5); 'X' for one that ended and is still kept */
    bool tty;
    uint64_t cpu_us, rss;
    int64_t started_ms;     /* wall clock */
    cay_exit exit;          /* when state is 'X' */
    const cay_pair *labels; /* as given to cay_sandbox_spawn(); ends with a NULL key, never NULL */
    int64_t ended_ms;       /* wall clock; 0: it runs, or nobody knows */
} cay_proc_info;
typedef int cay_proc_info_fn(const cay_proc_info *info, void *arg);
CAY_API int cay_sandbox_procs(cay_sandbox *sb, const cay_call *call, cay_proc_info_fn *fn,
                              void *arg, cay_err *err);

typedef enum cay_file_type {
    CAY_FILE = 'f',
    CAY_DIR = 'd',
    CAY_LINK = 'l',
    CAY_OTHER = 'o',
} cay_file_type;

typedef struct cay_stat {
    size_t size_of;
    cay_file_type type;
    uint32_t mode; /* permission bits */
    uint32_t uid, gid;
    uint64_t size;
    uint64_t inode;
    uint32_t nlink;
    int64_t mtime_ns;
    char target[4096]; /* of a link, whole */
} cay_stat;

typedef struct cay_dirent {
    const char *path; /* relative to the directory that was listed; bytes, NUL-terminated */
    cay_stat st;
} cay_dirent;
typedef int cay_dirent_fn(const cay_dirent *entry, void *arg);

typedef struct cay_read {
    size_t size;
    uint64_t offset;
    uint64_t length;  /* 0: to the end */
    const char *user; /* whose rights; NULL: the sandbox's default user */
} cay_read;

typedef struct cay_write {
    size_t size;
    uint32_t mode;  /* permission bits; 0: 0644, or what the replaced file had */
    bool parents;   /* make missing directories */
    bool append;    /* add to the end in place instead of replacing */
    bool exclusive; /* CAY_EEXIST when it is there */
    const char *user;
} cay_write;

/* Reads at most max bytes; more is CAY_ETOOBIG. *data is NUL-terminated and the caller's. */
CAY_API int cay_file_get(cay_sandbox *sb, const cay_call *call, const char *path, size_t max,
                         char **data, size_t *len, cay_err *err);
CAY_API int cay_file_put(cay_sandbox *sb, const cay_call *call, const char *path, const void *data,
                         size_t len, const cay_write *spec, cay_err *err);
/* Many at once, those of one directory in their order: where the provider can, as a stream. Files
 * that are new show while they are written; others are replaced as by cay_file_put(). Missing
 * directories above are made. What was made before an error stays; the message names the path. */
typedef struct cay_fill_item {
    char type; /* 'd' directory, 'p' the same and left alone where there is one, 'f' file, 'l' link
                */
    const char *path; /* absolute */
    uint32_t mode;
    uint32_t gid;     /* UINT32_MAX: as it comes */
    const void *data; /* of a file, unless fd says where from; a link's target, with its NUL */
    size_t len;
    int fd; /* -1, or a file of len bytes here, read from where it stands */
} cay_fill_item;
typedef struct cay_fill {
    size_t size, n;
    int (*get)(size_t i, cay_fill_item *out, void *arg,
               cay_err *err); /* what it points to stays until done; may be asked for one again */
    int (*done)(size_t i, const cay_fill_item *item, bool read, void *arg,
                cay_err *err); /* after each get that gave 0; read: all of its bytes */
    void *arg;
} cay_fill;
CAY_API int cay_file_fill(cay_sandbox *sb, const cay_call *call, const cay_fill *spec,
                          cay_err *err);
/* A descriptor that yields the bytes and ends. Not a regular file: CAY_ETYPE, at once. */
CAY_API int cay_file_open_read(cay_sandbox *sb, const cay_call *call, const char *path,
                               const cay_read *spec, int *fd, cay_err *err);
/* Bytes written to cay_upload_fd() go to a temporary name beside path; commit puts it in place and
 * returns when the bytes are visible; abort, or death of this program, leaves no trace. */
typedef struct cay_upload cay_upload;
CAY_API int cay_file_open_write(cay_sandbox *sb, const cay_call *call, const char *path,
                                const cay_write *spec, cay_upload **out, cay_err *err);
CAY_API int cay_upload_fd(cay_upload *up);
CAY_API int cay_upload_commit(cay_upload *up, const cay_call *call, cay_err *err); /* frees up */
CAY_API void cay_upload_abort(cay_upload *up);

CAY_API int cay_file_stat(cay_sandbox *sb, const cay_call *call, const char *path, bool follow,
                          cay_stat *out, cay_err *err);
/* *yes is false for a missing file; other errors are errors. */
CAY_API int cay_file_exists(cay_sandbox *sb, const cay_call *call, const char *path, bool *yes,
                            cay_err *err);
CAY_API int cay_file_mkdir(cay_sandbox *sb, const cay_call *call, const char *path, uint32_t mode,
                           bool parents, cay_err *err);
CAY_API int cay_file_remove(cay_sandbox *sb, const cay_call *call, const char *path, bool recursive,
                            cay_err *err);
CAY_API int cay_file_rename(cay_sandbox *sb, const cay_call *call, const char *from, const char *to,
                            cay_err *err);
CAY_API int cay_file_chmod(cay_sandbox *sb, const cay_call *call, const char *path, uint32_t mode,
                           cay_err *err);
/* UINT32_MAX leaves an id as it is. */
CAY_API int cay_file_chown(cay_sandbox *sb, const cay_call *call, const char *path, uint32_t uid,
                           uint32_t gid, cay_err *err);
CAY_API int cay_file_symlink(cay_sandbox *sb, const cay_call *call, const char *target,
                             const char *path, cay_err *err);
/* user.* extended attributes. get: *len in is the room, out the size. value NULL removes. */
CAY_API int cay_file_getxattr(cay_sandbox *sb, const cay_call *call, const char *path,
                              const char *name, void *buf, size_t *len, cay_err *err);
CAY_API int cay_file_setxattr(cay_sandbox *sb, const cay_call *call, const char *path,
                              const char *name, const void *value, size_t len, cay_err *err);
CAY_API int cay_file_listxattr(cay_sandbox *sb, const cay_call *call, const char *path,
                               int (*fn)(const char *name, void *arg), void *arg, cay_err *err);
/* depth 1: the directory itself; 0: all the way down. Links are not followed. */
CAY_API int cay_dir_list(cay_sandbox *sb, const cay_call *call, const char *path, unsigned depth,
                         cay_dirent_fn *fn, void *arg, cay_err *err);
/* Shell patterns: *, ?, [a-z], and ** for any number of directories; sorted by name per directory.
 */
CAY_API int cay_file_glob(cay_sandbox *sb, const cay_call *call, const char *base,
                          const char *pattern, cay_dirent_fn *fn, void *arg, cay_err *err);
typedef struct cay_match {
    const char *path; /* relative to base */
    uint64_t line;    /* from 1 */
    uint64_t column;  /* byte, from 1 */
    const char *text; /* the line, cut at 4096 bytes */
    size_t text_len;
} cay_match;
typedef int cay_match_fn(const cay_match *match, void *arg);
typedef struct cay_grep {
    size_t size;
    const char *pattern; /* POSIX extended regular expression, or plain text */
    bool plain, ignore_case;
    const char *include; /* file name pattern, or NULL */
    uint64_t max;        /* matches; 0: 10,000 */
} cay_grep;
CAY_API int cay_file_grep(cay_sandbox *sb, const cay_call *call, const char *base,
                          const cay_grep *spec, cay_match_fn *fn, void *arg, cay_err *err);

/* A recursive watch with a bounded queue. */
typedef enum cay_change {
    CAY_CHANGE_CREATE = 'c',
    CAY_CHANGE_WRITE = 'w',
    CAY_CHANGE_REMOVE = 'r',
    CAY_CHANGE_RENAME = 'm',
    CAY_CHANGE_CHMOD = 'p',
    CAY_CHANGE_OVERFLOW = 'o', /* some changes were lost: list again */
} cay_change;
typedef struct cay_watch cay_watch;
typedef struct cay_watch_event {
    size_t size;
    cay_change change;
    const char *path; /* relative to the watched directory; new name for RENAME */
    const char *from; /* old name for RENAME, or "" */
    bool dir;
} cay_watch_event;
CAY_API int cay_watch_open(cay_sandbox *sb, const cay_call *call, const char *path, bool recursive,
                           cay_watch **out, cay_err *err);
CAY_API int cay_watch_fd(const cay_watch *w); /* readable when next() will not block */
CAY_API int cay_watch_next(cay_watch *w, const cay_call *call, cay_watch_event *out, cay_err *err);
CAY_API void cay_watch_close(cay_watch *w);

typedef struct cay_port {
    uint16_t port;
    char address[46]; /* as bound inside: "127.0.0.1", "::" */
    int pid;          /* inside; 0 when not known */
} cay_port;
typedef int cay_port_fn(const cay_port *port, void *arg);
CAY_API int cay_port_list(cay_sandbox *sb, const cay_call *call, cay_port_fn *fn, void *arg,
                          cay_err *err);
/* A connected stream to 127.0.0.1:port (or ::1) inside. CAY_ENOENT when nobody listens. */
CAY_API int cay_port_connect(cay_sandbox *sb, const cay_call *call, uint16_t port, int *fd,
                             cay_err *err);
/* Ports that the provider itself makes reachable from outside, as an engine publishes those of a
 * container (option publish): only what was asked for at create, and where each is. A provider that
 * publishes nothing has none. */
typedef struct cay_endpoint {
    size_t size;
    uint16_t port; /* inside */
    char host[64]; /* an address or a name */
    uint16_t host_port;
    bool tls;
} cay_endpoint;
typedef int cay_endpoint_fn(const cay_endpoint *endpoint, void *arg);
CAY_API int cay_port_endpoints(cay_sandbox *sb, const cay_call *call, cay_endpoint_fn *fn,
                               void *arg, cay_err *err);
/* Where that one is. CAY_ENOENT "exposed_port_unavailable", detail
 * {"port":…,"reason":"not_configured","exposed_ports":[…]}: nobody asked for it at create;
 * CAY_EUPSTREAM, reason "backend_unavailable" in the detail: it was, and the provider does not have
 * it now. */
CAY_API int cay_port_endpoint(cay_sandbox *sb, const cay_call *call, uint16_t port,
                              cay_endpoint *out, cay_err *err);
/* Its address as a URL: "http://127.0.0.1:8000/", an IPv6 address in brackets, without the port
 * that its scheme has anyway. Cut to cap bytes. */
CAY_API void cay_endpoint_url(const cay_endpoint *e, char *url, size_t cap);
/* Lets whoever has the token reach a port, through a server that asks cay_port_token_check(). Kept
 * with the sandbox as a hash: the token is told once. ttl_ms 0: a day; at most 7 days. Exposing a
 * port again makes its former token void. */
typedef struct cay_exposed {
    size_t size;
    uint16_t port;
    int64_t created_ms, expires_ms; /* wall clock */
    char token[72];                 /* in the answer of cay_port_expose() alone, else "" */
} cay_exposed;
typedef int cay_exposed_fn(const cay_exposed *exposed, void *arg);
CAY_API int cay_port_expose(cay_sandbox *sb, uint16_t port, uint64_t ttl_ms, cay_exposed *out,
                            cay_err *err);
CAY_API int cay_port_unexpose(cay_sandbox *sb, uint16_t port, cay_err *err);
CAY_API int cay_port_exposed(cay_sandbox *sb, cay_exposed_fn *fn, void *arg, cay_err *err);
/* 0, or CAY_EPERM for a wrong or expired token and for whatever does not exist, alike. */
CAY_API int cay_port_token_check(cay_client *client, const char *id, uint16_t port,
                                 const char *token, cay_err *err);

#ifdef __cplusplus
}
#endif
