/* SPDX-License-Identifier: Apache-2.0 */
/* Events to a server, one POST each; what it does not take waits in a file. */
#include "audit.h"
#include <agent/model/endpoint.h>
#include <base/base.h>
#include <stdatomic.h>
#include <sys/file.h>

enum { SPOOL_MAX = 64 << 20, QUEUE_MAX = 8192, TRIES = 2, WAIT_MS = 10000 };

typedef struct post {
    cay__endpoint e; /* base: the address itself */
    char *spool;
    int own; /* lock of the spool, or -1 */
    bool later;
    atomic_bool ending;
    char *queue[QUEUE_MAX]; /* of the thread */
    size_t at, n;
    _Atomic int64_t until; /* when ending: how long it may go on */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t more;
} post;

static int send_event(post *p, const char *json, size_t len, cay_err *err)
{
    int64_t left = WAIT_MS;
    if (p->ending)
        left = p->until - cay__now_ms();
    cay_call call = { .size = sizeof call,
                      .deadline_ms = cay__now_ms() + CAY_MAX(left, (int64_t)1) };
    if (!p->e.http)
        CAY_TRY(cay__http_open(&p->e.http, err));
    const cay__http_req q = { .url = p->e.base,
                              .headers = (const char *const *)p->e.headers,
                              .body = json,
                              .body_len = len,
                              .connect_ms = 3000 };
    int status;
    CAY_TRY(cay__endpoint_post(p->e.http, &call, &q, TRIES, &status, err));
    if (status / 100 == 2)
        return 0;
    return cay_fail_why(err, CAY_EUPSTREAM, "ledger_http", "the server of the audit answered %d",
                        status);
}

/* What waits for one server must not be sent to another, nor be cut by somebody else while it is
 * added to: a spool has one sink at a time. */
static int spool_own(post *p, cay_err *err)
{
    char path[4200];
    if ((size_t)CAY_FORMAT(path, "%s.lock", p->spool) >= sizeof path)
        return cay_fail(err, CAY_ETOOBIG, "the audit's spool has too long a name");
    p->own = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW, 0600);
    if (p->own < 0)
        return cay_fail_sys(err, "the audit's spool: %.200s", path);
    if (flock(p->own, LOCK_EX | LOCK_NB) < 0)
        return cay_fail_why(err, CAY_EBUSY, "ledger_spool",
                            "the audit's spool %.200s belongs to another sink that is open; give "
                            "each a file of its own",
                            p->spool);
    return 0;
}

static int spool_open(const post *p, int flags, cay_err *err)
{
    int fd = open(p->spool, flags | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW, 0600);
    if (fd >= 0 || errno == ENOENT)
        return fd;
    return cay_fail_sys(err, "the audit's spool %.200s", p->spool);
}

static int spool_event(const post *p, const char *json, cay_err *err)
{
    CAY_AUTOFD fd = spool_open(p, O_WRONLY | O_CREAT | O_APPEND, err);
    struct stat st;
    if (fd < 0)
        return CAY_ESYS;
    if (fstat(fd, &st) == 0 && st.st_size > SPOOL_MAX)
        return cay_fail_why(err, CAY_ENOSPACE, "ledger_http",
                            "the audit's spool %.200s is larger than 64 MiB", p->spool);
    CAY_AUTOBUF b = CAY__BUF(CAY__EVENT_MAX + 16);
    cay__buf_fmt(&b, "%s\n", json);
    if (cay__fd_write_all(fd, b.data, b.len))
        return 0;
    return cay_fail_sys(err, "the audit's spool %.200s", p->spool);
}

/* What was sent is taken out from its front, by a new file in its place. */
static int cut_front(const post *p, const char *rest, cay_err *err)
{
    char tmp[4200];
    if (!*rest) {
        if (unlink(p->spool) < 0 && errno != ENOENT)
            return cay_fail_sys(err, "the audit's spool %.200s", p->spool);
        return 0;
    }
    CAY_FORMAT(tmp, "%.4000s.new", p->spool);
    unlink(tmp);
    CAY_AUTOFD fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || !cay__fd_write_all(fd, rest, strlen(rest)) || fsync(fd) < 0 ||
        rename(tmp, p->spool) < 0)
        return cay_fail_sys(err, "the audit's spool %.200s", p->spool);
    return 0;
}

static int send_kept(post *p, cay_err *err)
{
    struct stat st;
    CAY_AUTOFD fd = -1;
    if (p->spool)
        fd = spool_open(p, O_RDONLY, err);
    if (fd < 0 || fstat(fd, &st) < 0 || !st.st_size)
        return 0;
    if (st.st_size > SPOOL_MAX + CAY__EVENT_MAX)
        return cay_fail_why(err, CAY_ETOOBIG, "ledger_http",
                            "the audit's spool %.200s is larger than 64 MiB", p->spool);
    CAY_AUTOFREE char *text = cay__alloc((size_t)st.st_size + 1);
    ssize_t n = cay__fd_read_all(fd, text, (size_t)st.st_size);
    if (n < 0)
        return cay_fail_sys(err, "the audit's spool %.200s", p->spool);
    text[n] = 0;
    char *at = text;
    int rc = 0;
    while (*at && rc == 0) {
        size_t len = strcspn(at, "\n");
        if (len)
            rc = send_event(p, at, len, err);
        if (rc >= 0)
            at += len + (at[len] == '\n');
    }
    int cut = 0;
    if (at > text)
        cut = cut_front(p, at, CAY_IF(rc == 0, err));
    CAY_TRY(rc);
    return cut;
}

static int deliver_event(post *p, const char *json, cay_err *err)
{
    cay_err own = CAY_ERR_INIT;
    int rc = send_kept(p, &own); /* older ones first: order is kept */
    if (rc == 0)
        rc = send_event(p, json, strlen(json), &own);
    if (rc < 0 && p->spool)
        return spool_event(p, json, err);
    return cay__err_pass(rc, &own, err);
}

static void *run_sender(void *arg)
{
    post *p = arg;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (!p->n && !p->ending)
            pthread_cond_wait(&p->more, &p->lock);
        if (!p->n)
            break;
        CAY_AUTOFREE char *json = p->queue[p->at];
        p->at = (p->at + 1) % QUEUE_MAX;
        p->n--;
        pthread_mutex_unlock(&p->lock);
        deliver_event(p, json, NULL); /* best effort: its caller has gone on */
        pthread_mutex_lock(&p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static int post_write(void *self, const char *json, cay_err *err)
{
    post *p = self;
    if (!p->later)
        return deliver_event(p, json, err);
    pthread_mutex_lock(&p->lock);
    bool room = p->n < QUEUE_MAX;
    if (room)
        p->queue[(p->at + p->n++) % QUEUE_MAX] = cay__strdup(json);
    pthread_cond_signal(&p->more);
    pthread_mutex_unlock(&p->lock);
    if (room)
        return 0;
    return cay_fail_why(err, CAY_ERATE, "ledger_http", "more than %d events wait to be sent",
                        QUEUE_MAX);
}

static void post_close(void *self)
{
    post *p = self;
    if (p->later) {
        pthread_mutex_lock(&p->lock);
        p->until = cay__now_ms() + WAIT_MS;
        p->ending = true;
        pthread_cond_signal(&p->more);
        pthread_mutex_unlock(&p->lock);
        pthread_join(p->thread, NULL);
    }
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->more);
    cay__endpoint_clear(&p->e);
    cay__close_fd(&p->own);
    free(p->spool);
    free(p);
}

static const cay_audit_sink_ops sink = { .size = sizeof sink,
                                         .write = post_write,
                                         .close = post_close };

static int set_up(post *p, const cay_audit_sink_http_spec *spec, cay_err *err)
{
    const cay_model_open_spec none = { .size = sizeof none };
    if (!spec->url || (strncmp(spec->url, "https://", 8) && strncmp(spec->url, "http://", 7)))
        return cay_fail_why(err, CAY_EINVAL, "url_invalid",
                            "\"%.100s\" is no address of a server for the audit",
                            CAY_OR(spec->url, ""));
    p->e.base = cay__strdup(spec->url);
    if (spec->key)
        CAY_TRY(cay__model_secret(spec->key, &p->e.key, err));
    if (p->e.key && !strncmp(spec->url, "http://", 7) && !cay__http_is_loopback(spec->url))
        return cay_fail_why(err, CAY_EPERM, "ledger_http",
                            "the key would travel to %.100s unencrypted; use https://", spec->url);
    cay__headers_begin(&p->e);
    for (size_t i = 0; spec->headers && spec->headers[i]; i++)
        CAY_TRY(cay__headers_line(&p->e, &none, "the audit", spec->headers[i], err));
    p->spool = cay__strdup_if(spec->spool);
    if (p->spool)
        return spool_own(p, err);
    return 0;
}

int cay_audit_sink_http(const cay_audit_sink_http_spec *given, bool strict, cay_audit_sink **out,
                        cay_err *err)
{
    cay_audit_sink_http_spec spec;
    CAY_TRY(cay__spec_take(&spec, sizeof spec, given, "cay_audit_sink_http_spec", err));
    if (strict && spec.later)
        return cay_fail(err, CAY_EINVAL,
                        "an audit that is sent later cannot be one that must be written");
    post *p = cay__alloc(sizeof *p);
    p->e.socket = p->own = -1;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->more, NULL);
    int rc = set_up(p, &spec, err);
    if (rc == 0 && spec.later && pthread_create(&p->thread, NULL, run_sender, p) != 0)
        rc = cay_fail_sys(err, "a thread for the audit");
    p->later = rc == 0 && spec.later;
    if (rc < 0) {
        post_close(p);
        return rc;
    }
    *out = cay_audit_sink_new(&sink, p, strict);
    return 0;
}
