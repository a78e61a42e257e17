/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A provider whose boxes are files: HOME/fake/ID holds "running", "paused" or "stopped". It
 * outlives the program that uses it, as a keeper does, so that crashes and several programs at once
 * can be tried.
 */
#pragma once
#include <base/base.h>
#include <base/fd.h>
#include <base/str.h>
#include <cay/sys/provider.h>
#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <lib/provider/provider.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>

static struct {
    atomic_int boxes, opened; /* handles alive: both must come back to 0 */
    atomic_int fail;          /* what create() is to return */
    atomic_int event_fd;      /* the other end of the last events() */
    char started[128];        /* hostname and workdir that start() was given */
} fake;

typedef struct fake_self {
    char dir[300];
} fake_self;

typedef struct fake_box {
    char path[340], reason[24];
} fake_box;

static int fake_open(const cay_provider_conf *conf, void **self, cay_err *err)
{
    (void)err;
    fake_self *f = cay__alloc(sizeof *f);
    snprintf(f->dir, sizeof f->dir, "%s/fake", conf->home);
    mkdir(f->dir, 0700);
    fake.opened++;
    *self = f;
    return 0;
}

static void fake_close(void *self)
{
    fake.opened--;
    free(self);
}

/* One write of one size, so that a reader sees the old or the new. `make` false: only if it is
 * still there. */
static bool fake_write(const char *path, const char *state, bool make)
{
    char text[32] = "";
    cay__str_copy(text, sizeof text, state);
    CAY_AUTOFD fd = open(path, O_WRONLY | O_CLOEXEC | (make ? O_CREAT : 0), 0600);
    return fd >= 0 && pwrite(fd, text, sizeof text, 0) == (ssize_t)sizeof text;
}

static void fake_put(const char *path, const char *state)
{
    if (!fake_write(path, state, true))
        abort();
}

static fake_box *fake_box_new(fake_self *f, const char *id)
{
    fake_box *b = cay__alloc(sizeof *b);
    snprintf(b->path, sizeof b->path, "%s/%s", f->dir, id);
    fake.boxes++;
    return b;
}

static int fake_make(void *self, const char *id, void **box, cay_err *err)
{
    if (fake.fail)
        return cay_fail(err, fake.fail, "the fake was told to fail");
    fake_box *b = fake_box_new(self, id);
    fake_put(b->path, "running");
    *box = b;
    return 0;
}

static int fake_create(void *self, const cay_call *call, const char *id, const cay_box_spec *spec,
                       void **box, cay_err *err)
{
    (void)call, (void)spec;
    return fake_make(self, id, box, err);
}

static int fake_start(void *self, const cay_call *call, const char *id, const cay_box_spec *spec,
                      void **box, cay_err *err)
{
    (void)call;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    snprintf(fake.started, sizeof fake.started, "%s %s",
             spec->create->hostname ? spec->create->hostname : "-",
             spec->create->process.workdir ? spec->create->process.workdir : "-");
    pthread_mutex_unlock(&lock);
    return fake_make(self, id, box, err);
}

static void fake_release(void *box)
{
    fake.boxes--;
    free(box);
}

static int fake_attach(void *self, const cay_call *call, const char *id, const cay_json *state,
                       void **box, cay_err *err)
{
    (void)call, (void)state;
    fake_box *b = fake_box_new(self, id);
    if (access(b->path, F_OK) < 0) {
        fake_release(b);
        return cay_fail(err, CAY_EGONE, "no such box");
    }
    *box = b;
    return 0;
}

static int fake_destroy(void *box, const cay_call *call, cay_err *err)
{
    (void)call, (void)err;
    unlink(((fake_box *)box)->path);
    fake_release(box);
    return 0;
}

static int fake_status(void *box, const cay_call *call, cay_box_status *out, cay_err *err)
{
    (void)call;
    static const cay_wall layers[] = { { "seccomp", "on", "", "" } };
    fake_box *b = box;
    char text[40];
    if (cay__fd_read_file(AT_FDCWD, b->path, text, sizeof text) <= 0)
        return cay_fail(err, CAY_EGONE, "no such box");
    char *why = strchr(text, ' ');
    cay__str_copy(b->reason, sizeof b->reason, why ? why + 1 : "");
    if (why)
        *why = 0;
    *out = (cay_box_status){ .size = sizeof *out,
                             .state = cay_state_parse(text),
                             .reason = b->reason,
                             .level = CAY_LEVEL_ROOT,
                             .walls = layers,
                             .nwalls = 1,
                             .deadline_ms = 12345,
                             .pid = 77,
                             .path = "" };
    return 0;
}

static int fake_set(void *box, const char *state, cay_err *err)
{
    return fake_write(((fake_box *)box)->path, state, false)
               ? 0
               : cay_fail(err, CAY_EGONE, "no such box");
}

static int fake_stop(void *box, const cay_call *call, cay_err *err)
{
    (void)call;
    return fake_set(box, "stopped", err);
}

static int fake_pause(void *box, const cay_call *call, cay_err *err)
{
    (void)call;
    return fake_set(box, "paused", err);
}

static int fake_resume(void *box, const cay_call *call, cay_err *err)
{
    (void)call;
    return fake_set(box, "running", err);
}

static int fake_state(void *box, cay_json **out, cay_err *err)
{
    (void)box, (void)err;
    *out = json_pack("{s:i}", "n", 1);
    return 0;
}

static int fake_extend(void *box, const cay_call *call, uint64_t ttl, uint64_t idle, cay_err *err)
{
    (void)box, (void)call, (void)err, (void)ttl, (void)idle;
    return 0;
}

static int fake_usage(void *box, const cay_call *call, cay_usage *out, cay_err *err)
{
    (void)box, (void)call, (void)err;
    *out = (cay_usage){ .size = sizeof *out, .memory = 4096 };
    return 0;
}

static int fake_list(void *self, const cay_call *call, int (*fn)(const char *, void *), void *arg,
                     cay_err *err)
{
    (void)call, (void)err;
    DIR *d = opendir(((fake_self *)self)->dir);
    int rc = 0;
    for (struct dirent *e; rc == 0 && d && (e = readdir(d));)
        if (cay__id_valid(e->d_name, 'c'))
            rc = fn(e->d_name, arg);
    if (d)
        closedir(d);
    return rc;
}

static int fake_remove_files(void *self, const cay_call *call, const char *id, cay_err *err)
{
    (void)call, (void)err;
    char path[400];
    snprintf(path, sizeof path, "%s/%s", ((fake_self *)self)->dir, id);
    return unlink(path) == 0 ? 0 : CAY_ENOENT;
}

typedef struct fake_gc_work {
    void *self, *arg;
    int (*known)(const char *, void *);
    size_t n;
} fake_gc_work;

static int fake_gc_one(const char *id, void *arg)
{
    fake_gc_work *w = arg;
    if (!w->known(id, w->arg) && fake_remove_files(w->self, NULL, id, NULL) == 0)
        w->n++;
    return 0;
}

static int fake_gc(void *self, const cay_call *call, int (*known)(const char *, void *), void *arg,
                   size_t *removed, cay_err *err)
{
    fake_gc_work w = { self, arg, known, 0 };
    CAY_TRY(fake_list(self, call, fake_gc_one, &w, err));
    *removed = w.n;
    return 0;
}

static int fake_probe(void *self, cay_probe **out, cay_err *err)
{
    (void)self, (void)err;
    static const cay_wall layers[] = {
        { "seccomp", "on", "", "" },
        { "memory-limit", "soft", "no cgroup is delegated", "systemd-run --user --scope" },
        { "disk-quota", "off", "the filesystem has no project quota", "mount it with prjquota" },
    };
    *out = cay__probe_new(CAY_LEVEL_ROOTLESS, "range", layers, CAY_LEN(layers));
    return 0;
}

static int fake_events(void *self, const char *id, int *fd, cay_err *err)
{
    (void)self, (void)id;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return cay_fail_sys(err, "socketpair");
    fake.event_fd = pair[1];
    *fd = pair[0];
    return 0;
}

static const cay_provider_ops fake_ops = {
    .size = sizeof fake_ops,
    .name = "fake",
    .open = fake_open,
    .close = fake_close,
    .create = fake_create,
    .attach = fake_attach,
    .release = fake_release,
    .destroy = fake_destroy,
    .status = fake_status,
    .probe = fake_probe,
    .state = fake_state,
    .list = fake_list,
    .start = fake_start,
    .stop = fake_stop,
    .pause = fake_pause,
    .resume = fake_resume,
    .extend = fake_extend,
    .usage = fake_usage,
    .events = fake_events,
    .gc = fake_gc,
    .remove_files = fake_remove_files,
};
static const cay_provider_ops *const fake_list_of_one[] = { &fake_ops, NULL };
