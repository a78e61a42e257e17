/* SPDX-License-Identifier: Apache-2.0 */
#include "oneshot.h"
#include <base/base.h>
#include <base/path.h>
#include <poll.h>
#include <pthread.h>
#include <lib/client/client.h>
#include <signal.h>
#include <sys/eventfd.h>

enum { CHUNK = 256 << 10, ENDS_MS = 20000, PROGRAM_MAX = 64 << 20 };

struct cay__oneshot {
    cay_client *client;
    cay_sandbox *sb;
    bool has_unpack;
};

int cay__oneshot_open(cay_client *client, const cay_call *call, const cay__oneshot_spec *spec,
                      cay__oneshot **out, cay_err *err)
{
    cay_sandbox *sb = NULL;
    /* The default provider may be one without walls. */
    cay_create c = { .size = sizeof c,
                     .provider = "native",
                     .from.template_ = "host",
                     .life.ephemeral = true,
                     .isolation.min_level = CAY_LEVEL_PROCESS,
                     .net.policy = spec->net,
                     .net.secrets = spec->secrets,
                     .net.nsecrets = spec->nsecrets,
                     .limits = { .memory = CAY_OR(spec->memory, 256u << 20), .pids = 128 } };
    int rc = cay_client_create(client, call, &c, &sb, err);
    if (rc < 0)
        return cay_wrap(err, rc, "a sandbox to read it in");
    *out = cay__alloc(sizeof **out);
    **out = (cay__oneshot){ .client = client, .sb = sb };
    return 0;
}

void cay__oneshot_close(cay__oneshot *o)
{
    if (!o)
        return;
    /* Whatever ended the work, its sandbox goes; the caller's deadline may be over by now. */
    cay_call call = { .size = sizeof call, .deadline_ms = cay__now_ms() + ENDS_MS };
    cay_sandbox_remove(o->sb, &call, NULL);
    cay_sandbox_unref(o->sb);
    free(o);
}

cay_sandbox *cay__oneshot_sandbox(cay__oneshot *o)
{
    return o->sb;
}

int cay__oneshot_bring(cay__oneshot *o, const cay_call *call, const char *program, cay_err *err)
{
    char path[CAY__HOME_MAX];
    struct stat st;
    CAY_AUTOFREE char *data = NULL;
    CAY_TRY(cay__libexec_find(o->client->libexec, program, path, sizeof path, err));
    CAY_AUTOFD fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || st.st_size > PROGRAM_MAX)
        return cay_fail_sys(err, "open %.200s", path);
    data = cay__alloc((size_t)st.st_size);
    if (cay__fd_read_all(fd, data, (size_t)st.st_size) != st.st_size)
        return cay_fail_sys(err, "read %.200s", path);
    return cay_file_put(o->sb, call, program, data, (size_t)st.st_size,
                        &(cay_write){ .size = sizeof(cay_write), .mode = 0755 }, err);
}

struct cay__feed {
    cay_proc *p;
    int in, out, errs; /* in: the caller's */
    int stop;          /* eventfd: the feeder's writes end */
    pthread_t feeder, listener;
    bool feeding, listening;
    char said[2048]; /* the last of standard error */
    size_t nsaid;
};

static void *feed_stdin(void *arg)
{
    cay__feed *f = arg;
    cay_call call = { .size = sizeof call, .cancel_fd = f->stop };
    char *buf = cay__alloc(CHUNK);
    for (;;) {
        struct pollfd p[2] = { { .fd = f->in, .events = POLLIN },
                               { .fd = f->stop, .events = POLLIN } };
        if (poll(p, 2, -1) < 0 && errno != EINTR)
            break;
        if (p[1].revents)
            break;
        ssize_t n = read(f->in, buf, CHUNK);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        /* A program that wants no more, or is gone, tells so by its end. */
        if (n <= 0 || cay_proc_write(f->p, &call, buf, (size_t)n, NULL) < 0)
            break;
    }
    cay_proc_close_stdin(f->p, &call, NULL);
    free(buf);
    return NULL;
}

static void *listen_errors(void *arg)
{
    cay__feed *f = arg;
    char buf[1024];
    for (ssize_t n; (n = read(f->errs, buf, sizeof buf)) > 0 || (n < 0 && errno == EINTR);) {
        if (n < 0)
            continue;
        size_t k = (size_t)n, room = sizeof f->said - 1,
               drop = f->nsaid + k > room ? f->nsaid + k - room : 0;
        memmove(f->said, f->said + drop, f->nsaid - CAY_MIN(drop, f->nsaid));
        f->nsaid -= CAY_MIN(drop, f->nsaid);
        memcpy(f->said + f->nsaid, buf, k);
        f->nsaid += k;
    }
    return NULL;
}

static int start_thread(pthread_t *t, void *(*fn)(void *), void *arg, bool *on, cay_err *err)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are the program's, not this thread's */
    errno = pthread_create(t, NULL, fn, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (errno)
        return cay_fail_sys(err, "start a thread");
    *on = true;
    return 0;
}

static void feed_free(cay__feed *f)
{
    if (f->feeding) {
        eventfd_write(f->stop, 1);
        pthread_join(f->feeder, NULL);
    }
    if (f->listening)
        pthread_join(f->listener, NULL);
    if (f->p)
        cay_proc_unref(f->p);
    cay__close_fd(&f->out);
    cay__close_fd(&f->errs);
    cay__close_fd(&f->stop);
    free(f);
}

int cay__feed_start(cay__oneshot *o, const cay_call *call, const cay_spawn *given, int in,
                    cay__feed **out, cay_err *err)
{
    cay_spawn spec = *given;
    cay__feed *f = cay__alloc(sizeof *f);
    *f = (cay__feed){ .in = in, .out = -1, .errs = -1, .stop = eventfd(0, EFD_CLOEXEC) };
    if (in >= 0)
        spec.stdin_mode = CAY_STDIN_PIPE;
    else
        spec.stdin_mode = CAY_STDIN_NULL;
    spec.on_full = CAY_FULL_BLOCK;
    spec.attach = true;
    int rc;
    if (f->stop < 0)
        rc = cay_fail_sys(err, "eventfd");
    else
        rc = cay_sandbox_spawn(o->sb, call, &spec, &f->p, err);
    if (rc == 0)
        rc = cay_proc_output(f->p, call, CAY_STDOUT, CAY_FROM_START, &f->out, err);
    if (rc == 0)
        rc = cay_proc_output(f->p, call, CAY_STDERR, CAY_FROM_START, &f->errs, err);
    if (rc == 0)
        rc = start_thread(&f->listener, listen_errors, f, &f->listening, err);
    if (rc == 0 && in >= 0)
        rc = start_thread(&f->feeder, feed_stdin, f, &f->feeding, err);
    if (rc < 0) {
        if (f->p)
            cay_proc_signal(f->p, NULL, SIGKILL, CAY_SCOPE_TREE, NULL);
        feed_free(f);
        return rc;
    }
    *out = f;
    return 0;
}

int cay__feed_fd(const cay__feed *f)
{
    return f->out;
}

int cay__feed_end(cay__feed *f, const cay_call *call, cay_exit *exit, char *said, size_t cap,
                  cay_err *err)
{
    cay__close_fd(&f->out); /* one that still writes gets EPIPE */
    int rc = cay_proc_wait(f->p, call, exit, err);
    if (rc < 0)
        cay_proc_signal(f->p, NULL, SIGKILL, CAY_SCOPE_TREE, NULL);
    if (f->listening) {
        pthread_join(f->listener, NULL);
        f->listening = false;
    }
    if (said) {
        f->said[f->nsaid] = 0;
        snprintf(said, cap, "%s", f->said);
    }
    feed_free(f);
    return rc;
}

int cay__oneshot_unpack(cay__oneshot *o, const cay_call *call, const char *const *args, int in,
                        cay__sink *sink, cay_err *err)
{
    const char *argv[12] = { "./cay-unpack" };
    char said[300];
    cay_exit end = { .size = sizeof end };
    cay__feed *f = NULL;
    for (size_t i = 0; args[i] && i < 10; i++)
        argv[i + 1] = args[i];
    if (!o->has_unpack)
        CAY_TRY(cay__oneshot_bring(o, call, "cay-unpack", err));
    o->has_unpack = true;
    CAY_TRY(cay__feed_start(o, call, &(cay_spawn){ .size = sizeof(cay_spawn), .argv = argv }, in,
                            &f, err));
    cay_err why = CAY_ERR_INIT;
    int rc = cay__sink_run(sink, cay__feed_fd(f), &why),
        ended = cay__feed_end(f, call, &end, said, sizeof said, err);
    if (rc == CAY_EUPSTREAM && cay_err_is(&why, CAY_REASON_ARCHIVE_TRUNCATED) && ended == 0)
        return cay_fail_why(err, CAY_EUPSTREAM, "archive_truncated",
                            "cay-unpack ended by %s before it was done%s%.120s%s",
                            end.signal ? "a signal" : "itself", CAY_TEXT_IF(said[0], ": "), said,
                            CAY_TEXT_IF(end.signal == SIGABRT,
                                        "; an archive may need 64 MiB of memory to be read"));
    if (rc < 0 && err)
        *err = why;
    if (rc < 0 || ended < 0) {
        CAY_TRY(rc);
        return ended;
    }
    if (end.code == 0)
        return 0;
    return cay_fail_why(err, CAY_EUPSTREAM, "archive_reader", "cay-unpack ended with status %d",
                        end.code);
}
