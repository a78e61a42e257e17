/* SPDX-License-Identifier: Apache-2.0 */
#include "builder.h"
#include <base/base.h>
#include <base/fd.h>
#include <base/json.h>
#include <base/str.h>
#include <cay/build.h>
#include <cay/jobs.h>
#include <cay/policy.h>
#include <cay/template.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <time.h>

enum { THREADS = 2, LEASE_MS = 90000, RENEW_MS = 20000, LOOK_MS = 10000, NAMES = 32, RECIPE_MAX = 64 << 20, STACK = 1 << 20, KEEP_S = 30 * 86400 };
#define BELOW "e2b"

struct e2b_builder {
    cay_service *svc;
    pthread_t    thread[THREADS];
    size_t       n;
    int          stop, bell;
    char         owner[32];
};

/* ------------------------------------------------------------------ files */

int e2b_build_dir(cay_service *svc, int *fd, cay_err *err)
{
    CAY_AUTOFD home = open(cay_service_home(svc), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (home < 0 || (mkdirat(home, BELOW, 0700) < 0 && errno != EEXIST))
        return cay_fail_sys(err, CAY_ESYS, "the directory of builds");
    *fd = openat(home, BELOW, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return *fd < 0 ? cay_fail_sys(err, CAY_ESYS, "the directory of builds") : 0;
}

void e2b_archive_name(const char *tenant, const char *hash, char out[200])
{
    snprintf(out, 200, "archive.%.64s.%.64s", tenant, hash);
}

void e2b_recipe_name(const char *build, char out[64])
{
    snprintf(out, 64, "recipe.%.32s", build);
}

int e2b_recipe_save(cay_service *svc, const char *build, const json_t *o, cay_err *err)
{
    CAY_AUTOFD dir = -1, fd = -1;
    char name[64], tmp[100];
    CAY_TRY(e2b_build_dir(svc, &dir, err));
    e2b_recipe_name(build, name);
    snprintf(tmp, sizeof tmp, ".%s.%d.%lx", name, (int)getpid(), (unsigned long)pthread_self());
    fd = openat(dir, tmp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || json_dumpfd(o, fd, JSON_COMPACT) < 0 || renameat(dir, tmp, dir, name) < 0) {
        cay_fail_sys(err, CAY_ESYS, "the steps of a build");
        unlinkat(dir, tmp, 0);
        return CAY_ESYS;
    }
    return 0;
}

static int read_recipe(cay_service *svc, const char *build, json_t **out, cay_err *err)
{
    CAY_AUTOFD dir = -1, fd = -1;
    char name[64];
    struct stat st;
    json_error_t je;
    CAY_TRY(e2b_build_dir(svc, &dir, err));
    e2b_recipe_name(build, name);
    fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || st.st_size > RECIPE_MAX || !(*out = json_loadfd(fd, 0, &je)))
        return cay_fail_why(err, CAY_ENOENT, "build_not_found", "what build %s is made of is not there any more", build);
    return 0;
}

/* What nobody asked for in a month: files of a COPY are sent again then. */
static void sweep(cay_service *svc)
{
    CAY_AUTOFD dir = -1;
    struct stat st;
    int fd;
    if (e2b_build_dir(svc, &dir, NULL) < 0 || (fd = fcntl(dir, F_DUPFD_CLOEXEC, 3)) < 0)
        return;
    DIR *d = fdopendir(fd);
    for (struct dirent *e; d && (e = readdir(d));)
        if (fstatat(dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) && time(NULL) - st.st_mtime > KEEP_S)
            unlinkat(dir, e->d_name, 0);
    if (d)
        closedir(d);
    else
        close(fd);
}

/* ------------------------------------------------------------------ one build */

typedef struct job {
    struct e2b_builder *b;
    const cay_task     *t;
    int                 end; /* readable: it is done */
} job;

static int open_archive(void *arg, const char *sha256, int *fd, cay_err *err)
{
    job *j = arg;
    CAY_AUTOFD dir = -1;
    char name[200];
    CAY_TRY(e2b_build_dir(j->b->svc, &dir, err));
    e2b_archive_name(j->t->tenant, sha256, name);
    *fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    return *fd < 0 ? cay_fail_why(err, CAY_ENOENT, "build_copy", "the files %.12s… of a COPY were not sent", sha256) : 0;
}

/* A step may be silent for long: what says that somebody is at it comes from beside. */
static void *renew(void *arg)
{
    job *j = arg;
    struct pollfd p = { .fd = j->end, .events = POLLIN };
    while (poll(&p, 1, RENEW_MS) == 0)
        cay_task_renew(j->b->svc, j->t, LEASE_MS, NULL);
    return NULL;
}

/* An image that is not here: from its registry, with what the request had for it, which waits as a stored secret. */
static int pull(job *j, const cay_call *call, const json_t *in, json_t *file, cay_err *err)
{
    const char *image = cay__json_str(in, "pull", NULL), *secret = cay__json_str(in, "secret", NULL);
    char auth[100];
    cay_template *t;
    if (!image)
        return 0;
    snprintf(auth, sizeof auth, "store:%.80s", secret ? secret : "");
    const cay_template_remote spec = { .size = sizeof spec, .ref = image, .tenant = j->t->tenant, .hidden = true, .auth = secret ? auth : NULL };
    int rc = cay_template_pull(j->b->svc, call, &spec, &t, err);
    if (secret)
        cay_secret_remove(j->b->svc, secret, NULL);
    if (rc < 0)
        return rc;
    json_object_set_new(file, "from", json_string(t->id));
    cay_template_free(t);
    return 0;
}

static int run(job *j, cay_err *err)
{
    CAY_AUTOJSON *in = NULL;
    CAY_AUTOFREE char *net = NULL, *text = NULL;
    const char *names[NAMES + 1] = { NULL };
    const json_t *v;
    size_t i;
    const cay_policy open = { .size = sizeof open, .mode = CAY_NET_ALL }; /* as E2B's builds have it */
    const cay_call call = { .size = sizeof call, .cancel_fd = j->b->stop, .actor = "builder" };
    cay_built built = { .size = sizeof built };
    CAY_TRY(read_recipe(j->b->svc, j->t->subject, &in, err));
    CAY_TRY(cay_policy_text(&open, &net, err));
    int rc = pull(j, &call, in, json_object_get(in, "file"), err);
    if (rc < 0 && rc != CAY_ECANCELED) { /* the build itself has not begun: what it would say stands here */
        json_object_set_new(in, "error", cay__json_bytes(err->msg));
        e2b_recipe_save(j->b->svc, j->t->subject, in, NULL);
    }
    CAY_TRY(rc);
    json_array_foreach(json_object_get(in, "names"), i, v)
        if (i < NAMES)
            names[i] = json_string_value(v);
    if (!(text = cay__json_text(json_object_get(in, "file"), RECIPE_MAX)))
        return cay_fail(err, CAY_ETOOBIG, "the steps are too long");
    const cay_build spec = { .size = sizeof spec, .id = j->t->subject, .text = text, .names = names, .tenant = j->t->tenant, .hidden = true, .net = net,
                             .no_cache = cay__json_bool(in, "force", false), .archive = open_archive, .arg = j, .keep_start = true };
    return cay_build_run(j->b->svc, &call, &spec, &built, err);
}

/* A build that failed has said so in its record: for the queue it is done. One that this server's end stopped is another's at once. */
static void do_build(struct e2b_builder *b, const cay_task *t)
{
    job j = { .b = b, .t = t, .end = eventfd(0, EFD_CLOEXEC) };
    cay_err err = CAY_ERR_INIT;
    pthread_t beside;
    bool beating = j.end >= 0 && pthread_create(&beside, NULL, renew, &j) == 0;
    int rc = run(&j, &err);
    if (beating) {
        (void)!eventfd_write(j.end, 1);
        pthread_join(beside, NULL);
    }
    if (j.end >= 0)
        close(j.end);
    struct pollfd stopped = { .fd = b->stop, .events = POLLIN };
    if (rc == CAY_ECANCELED && poll(&stopped, 1, 0) > 0) {
        cay_task_renew(b->svc, t, 1, NULL);
        return;
    }
    cay_task_done(b->svc, t, NULL);
}

/* ------------------------------------------------------------------ the threads */

static void *work(void *arg)
{
    static const char *const kinds[] = { E2B_BUILD_KIND, NULL };
    struct e2b_builder *b = arg;
    struct pollfd p[] = { { .fd = b->stop, .events = POLLIN }, { .fd = b->bell, .events = POLLIN } };
    eventfd_t rung;
    while (poll(p, 1, 0) == 0) {
        cay_task *t;
        cay_err err = CAY_ERR_INIT;
        if (cay_task_turn(b->svc, kinds, b->owner, LEASE_MS, &t, &err) == 0) {
            do_build(b, t);
            cay_task_free(t);
            continue;
        }
        poll(p, 2, err.retry_after_ms ? (int)CAY_MIN(err.retry_after_ms, (uint32_t)LOOK_MS) : LOOK_MS);
        if (p[1].revents & POLLIN)
            (void)!eventfd_read(b->bell, &rung);
    }
    return NULL;
}

int e2b_builder_start(cay_service *svc, struct e2b_builder **out, cay_err *err)
{
    struct e2b_builder *b = cay__alloc(sizeof *b);
    pthread_attr_t attr;
    *b = (struct e2b_builder){ .svc = svc, .stop = eventfd(0, EFD_CLOEXEC), .bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE) };
    sweep(svc);
    snprintf(b->owner, sizeof b->owner, "builder:%d", (int)getpid());
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK);
    while (b->stop >= 0 && b->bell >= 0 && b->n < THREADS && pthread_create(&b->thread[b->n], &attr, work, b) == 0)
        b->n++;
    pthread_attr_destroy(&attr);
    if (b->n == THREADS) {
        *out = b;
        return 0;
    }
    cay_fail_sys(err, CAY_ESYS, "start the builder");
    e2b_builder_stop(b);
    return CAY_ESYS;
}

void e2b_builder_stop(struct e2b_builder *b)
{
    if (!b)
        return;
    if (b->stop >= 0)
        (void)!eventfd_write(b->stop, 1);
    for (size_t i = 0; i < b->n; i++)
        pthread_join(b->thread[i], NULL);
    cay__close_fd(&b->stop);
    cay__close_fd(&b->bell);
    free(b);
}

void e2b_builder_wake(struct e2b_builder *b)
{
    (void)!eventfd_write(b->bell, THREADS);
}
