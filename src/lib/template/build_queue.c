/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds that wait: the request and its context in files beside the log, the order in the queue of
 * jobs. Whoever does one renews its lease on a thread of its own, which also learns that it was
 * canceled. A server that ends in the middle leaves it to the next, which finds what was done.
 */
#include "build.h"
#include <cay/jobs.h>
#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

#define KIND         "build"
#define FOLDER       "builds"
#define LEASE_MS     20000
#define RENEW_MS     5000
#define TRIES        3
#define CONTEXT_MAX  (4ull << 30)
#define ARCHIVE_MAX  (1ull << 30)
#define ARCHIVE_KEEP 86400 /* seconds */

static char *path_of(cay_client *client, const char *id, const char *end)
{
    char *p;
    if (asprintf(&p, "%s/" FOLDER "/%s%s", cay_client_home(client), id, end) < 0)
        abort();
    return p;
}

static int make_dir(cay_client *client, cay_err *err)
{
    CAY_AUTOFREE char *dir = path_of(client, "", "");
    dir[strlen(dir) - 1] = 0;
    if (mkdir(dir, 0700) < 0 && errno != EEXIST)
        return cay_fail_sys(err, "make %s", dir);
    return 0;
}

static int write_all(int to, const char *text, size_t len)
{
    if (cay__fd_write_all(to, text, len))
        return 0;
    return -1;
}

/* Under its name only when it is whole. */
static int save_file(const char *path, int from, const char *text, uint64_t max, cay_err *err)
{
    char tmp[4200];
    CAY_AUTOFREE char *buf = cay__alloc(65536);
    uint64_t total = 0;
    int rc = 0;
    char word[CAY_ID_LEN + 1];
    cay__id_make(word, 'x');
    if (!cay__str_join(tmp, sizeof tmp, path, ".", word, NULL))
        return cay_fail(err, CAY_ETOOBIG, "the path of the state directory is too long");
    CAY_AUTOFD to = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (to < 0)
        return cay_fail_sys(err, "make %s", tmp);
    if (text && write_all(to, text, strlen(text)) < 0)
        rc = cay_fail_sys(err, "write %s", tmp);
    if (!text)
        lseek(from, 0, SEEK_SET);
    for (ssize_t n; !text && rc == 0 && (n = read(from, buf, 65536)) != 0;) {
        if (n < 0 && errno == EINTR)
            continue;
        total += (uint64_t)CAY_MAX(n, 0);
        if (total > max)
            rc = cay_fail_why(err, CAY_ETOOBIG, "build_context", "it has more than %llu MiB",
                              (unsigned long long)(max >> 20));
        else if (n < 0 || write_all(to, buf, (size_t)n) < 0)
            rc = cay_fail_sys(err, "write %s", tmp);
    }
    if (rc == 0 && rename(tmp, path) < 0)
        rc = cay_fail_sys(err, "rename %s", tmp);
    if (rc < 0)
        unlink(tmp);
    return rc;
}

static int archive_path(cay_client *client, const char *tenant, const char *hash, char **out,
                        cay_err *err)
{
    size_t n = 0;
    if (hash)
        n = cay__hex_len(hash);
    char name[160];
    if (n != 64 || hash[n])
        return cay_fail_why(
            err, CAY_EINVAL, "build_archive",
            "an archive is called by a SHA-256: 64 hexadecimal digits in lower case");
    if (!cay__str_join(name, sizeof name, "files-", CAY_OR(tenant, "default"), "-", hash, NULL) ||
        strchr(name, '/'))
        return cay_fail_why(err, CAY_EINVAL, "tenant_invalid", "that is no tenant");
    *out = path_of(client, name, "");
    return 0;
}

/* What nobody asked for within a day. */
static void forget_archives(cay_client *client)
{
    CAY_AUTOFREE char *dir = path_of(client, "", "");
    int64_t now = cay__clock_ms() / 1000;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        struct stat st;
        if (cay__str_starts(e->d_name, "files-") &&
            fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            st.st_mtime + ARCHIVE_KEEP < now)
            unlinkat(dirfd(d), e->d_name, 0);
    }
    if (d)
        closedir(d);
}

int cay_build_upload(cay_client *client, const char *tenant, const char *sha256, int fd,
                     cay_err *err)
{
    CAY_AUTOFREE char *path = NULL;
    CAY_TRY(make_dir(client, err));
    CAY_TRY(archive_path(client, tenant, sha256, &path, err));
    forget_archives(client);
    return save_file(path, fd, NULL, ARCHIVE_MAX, err);
}

int cay_build_uploaded(cay_client *client, const char *tenant, const char *sha256, bool *yes,
                       cay_err *err)
{
    CAY_AUTOFREE char *path = NULL;
    CAY_TRY(archive_path(client, tenant, sha256, &path, err));
    *yes = utimensat(AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW) ==
           0; /* it is wanted: its day begins anew */
    return 0;
}

typedef struct asked {
    cay_client *client;
    const char *tenant;
} asked;

static int open_archive(void *arg, const char *hash, int *fd, cay_err *err)
{
    const asked *a = arg;
    CAY_AUTOFREE char *path = NULL;
    CAY_TRY(archive_path(a->client, a->tenant, hash, &path, err));
    int f = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (f < 0)
        return cay_fail_why(err, CAY_ENOENT, "build_archive",
                            "the archive %.16s… was not sent, or more than a day ago", hash);
    *fd = f;
    return 0;
}

static json_t *list_json(const char *const *list)
{
    json_t *a = json_array();
    for (; list && *list; list++)
        json_array_append_new(a, json_string(*list));
    return a;
}

static char *request_text(const cay_build *s)
{
    CAY_AUTOJSON *args = json_object();
    for (const cay_pair *p = s->args; p && p->key; p++)
        json_object_set_new(args, p->key, json_string(CAY_OR(p->value, "")));
    CAY_AUTOJSON *o = json_pack(
        "{s:s*, s:s*, s:o, s:s*, s:b, s:O, s:s*, s:s*, s:I, s:b, s:I, s:I, s:I, s:s*, s:s*, s:b, "
        "s:b}",
        "file", s->file, "text", s->text, "names", list_json(s->names), "tenant", s->tenant,
        "hidden", s->hidden, "args", args, "target", s->target, "net", s->net, "step_ms",
        (json_int_t)s->step_ms, "no_cache", s->no_cache, "memory", (json_int_t)s->limits.memory,
        "disk", (json_int_t)s->limits.disk, "cpu_milli", (json_int_t)s->limits.cpu_milli, "pull",
        s->pull, "platform", s->platform, "no_pull", s->no_pull, "keep_failed", s->keep_failed);
    if (o)
        return cay__json_text(o, 8u << 20);
    return NULL;
}

typedef struct request {
    cay__arena mem;
    json_t *o;
    cay_build spec;
} request;

static int request_read(cay_client *client, const char *id, request *q, cay_err *err)
{
    CAY_AUTOFREE char *path = path_of(client, id, ".json"), *text = cay__alloc((8u << 20) + 2);
    const char *key;
    json_t *v;
    size_t n = 0;
    if (cay__fd_read_file(AT_FDCWD, path, text, (8u << 20) + 2) < 0)
        return cay_fail_why(err, CAY_ENOENT, "build_not_found",
                            "the request of build %s is not there", id);
    CAY_TRY(cay__json_object("the request", text, &q->o, err));
    const json_t *names = json_object_get(q->o, "names"), *args = json_object_get(q->o, "args");
    const char **list = cay__arena_take(&q->mem, (json_array_size(names) + 1) * sizeof *list);
    for (size_t i = 0; i < json_array_size(names); i++)
        list[i] = json_string_value(json_array_get(names, i));
    cay_pair *pairs = cay__arena_take(&q->mem, (json_object_size(args) + 1) * sizeof *pairs);
    json_object_foreach((json_t *)args, key, v)
        pairs[n++] = (cay_pair){ key, json_string_value(v) };
    q->spec =
        (cay_build){ .size = sizeof q->spec,
                     .file = cay__json_str(q->o, "file", NULL),
                     .text = cay__json_str(q->o, "text", NULL),
                     .names = list,
                     .tenant = cay__json_str(q->o, "tenant", NULL),
                     .hidden = cay__json_bool(q->o, "hidden", false),
                     .args = pairs,
                     .target = cay__json_str(q->o, "target", NULL),
                     .net = cay__json_str(q->o, "net", NULL),
                     .step_ms = (uint64_t)cay__json_int(q->o, "step_ms", 0),
                     .no_cache = cay__json_bool(q->o, "no_cache", false),
                     .pull = cay__json_str(q->o, "pull", NULL),
                     .platform = cay__json_str(q->o, "platform", NULL),
                     .no_pull = cay__json_bool(q->o, "no_pull", false),
                     .keep_failed = cay__json_bool(q->o, "keep_failed", false),
                     .limits = { .memory = (uint64_t)cay__json_int(q->o, "memory", 0),
                                 .disk = (uint64_t)cay__json_int(q->o, "disk", 0),
                                 .cpu_milli = (uint64_t)cay__json_int(q->o, "cpu_milli", 0) } };
    return 0;
}

static int on_job_count(const cay_job *t, void *arg)
{
    ++*(unsigned *)arg;
    return 0;
}

int cay_build_queue_check(cay_client *client, const char *tenant, cay_err *err)
{
    const cay_job_filter f = {
        .size = sizeof f, .state = "waiting", .kind = KIND, .tenant = CAY_OR(tenant, "default")
    };
    unsigned n = 0;
    CAY_TRY(cay_job_list(client, &f, on_job_count, &n, err));
    if (n < CAY_BUILDS_WAITING)
        return 0;
    cay_err own = CAY_ERR_INIT;
    cay_fail_why(&own, CAY_ERATE, "queue_full",
                 "%u builds of tenant %s wait, which is the most: try again when some are done, or "
                 "cancel one",
                 n, f.tenant);
    own.retry = CAY_RETRY_YES;
    own.retry_after_ms = 5000;
    snprintf(own.detail, sizeof own.detail, "{\"queue\":%u,\"most\":%d}", n, CAY_BUILDS_WAITING);
    if (err)
        *err = own;
    return CAY_ERATE;
}

int cay_build_submit(cay_client *client, const cay_build *given, char *id, cay_err *err)
{
    cay_build spec;
    CAY_TRY(cay__spec_take(&spec, sizeof spec, given, "cay_build", err));
    if (spec.pull ? spec.dir || spec.tar > 0 || spec.text
                  : spec.dir || (spec.tar <= 0 && !spec.text))
        return cay_fail_why(
            err, CAY_EINVAL, "build_context",
            "a build that waits has a tar or a text, or pulls an image; it has no directory");
    if (spec.secrets && spec.secrets->id)
        return cay_fail_why(err, CAY_EINVAL, "build_secret",
                            "secrets of a build are kept nowhere, so one that waits has none");
    if (spec.text)
        CAY_TRY(cay_build_check(
            &(cay_build){ .size = sizeof spec, .text = spec.text, .file = spec.file }, NULL, err));
    CAY_AUTOFREE char *text = request_text(&spec);
    if (!text)
        return cay_fail_why(err, CAY_EINVAL, "build_step",
                            "the request is too long, or not all of it is UTF-8");
    CAY_TRY(make_dir(client, err));
    const char *const own[] = { spec.pull, NULL };
    CAY_TRY(cay_build_reserve(client, spec.tenant,
                              spec.pull && !(spec.names && spec.names[0]) ? own : spec.names, id,
                              err));
    CAY_AUTOFREE char *ask = path_of(client, id, ".json"), *context = path_of(client, id, ".tar");
    int rc = save_file(ask, -1, text, 0, err);
    if (rc == 0 && spec.tar > 0)
        rc = save_file(context, spec.tar, NULL, CONTEXT_MAX, err);
    cay_job t = { .size = sizeof t,
                  .kind = KIND,
                  .subject = id,
                  .key = id,
                  .tenant = spec.tenant,
                  .most = TRIES,
                  .backoff_ms = 1000,
                  .waiting_most = CAY_BUILDS_WAITING };
    if (rc == 0)
        rc = cay_job_put(client, &t, CAY_JOB_KEEP, NULL, err);
    if (rc < 0) {
        unlink(ask);
        unlink(context);
        cay_build_cancel(client, id, NULL);
    }
    return rc;
}

typedef struct lease {
    cay_client *client;
    const cay_job *task;
    int stop, outer, cancel; /* over; the caller's own cancel, or -1; told to the build */
    bool lost;
} lease;

static void *renew_lease(void *arg)
{
    lease *l = arg;
    struct pollfd p[2] = { { .fd = l->stop, .events = POLLIN },
                           { .fd = l->outer, .events = POLLIN } };
    while (poll(p, 2, RENEW_MS / 5) <= 0) {
        if (cay_job_renew(l->client, l->task, LEASE_MS, NULL) != CAY_ESTATE)
            continue;
        l->lost = true;
        break;
    }
    if (l->lost || (p[1].revents && !p[0].revents))
        eventfd_write(l->cancel, 1);
    return NULL;
}

static int with_lease(cay_client *client, const cay_call *call, const cay_job *t,
                      const cay_build *spec, bool *lost, cay_err *err)
{
    lease l = { .client = client,
                .task = t,
                .stop = eventfd(0, EFD_CLOEXEC),
                .outer = call && call->cancel_fd > 0 ? call->cancel_fd : -1,
                .cancel = eventfd(0, EFD_CLOEXEC) };
    pthread_t thread;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 << 10);
    int e = l.stop < 0 || l.cancel < 0 ? errno : pthread_create(&thread, &small, renew_lease, &l),
        rc;
    pthread_attr_destroy(&small);
    if (e) {
        errno = e;
        rc = cay_fail_sys(err, "start a thread");
    } else {
        cay_call own = { .size = sizeof own,
                         .cancel_fd = l.cancel,
                         .actor = CAY_IF(call, call->actor) };
        rc = cay_build_run(client, &own, spec, NULL, err);
        eventfd_write(l.stop, 1);
        pthread_join(thread, NULL);
    }
    *lost = l.lost;
    cay__close_fd(&l.stop);
    cay__close_fd(&l.cancel);
    return rc;
}

static void remove_request(cay_client *client, const char *id)
{
    CAY_AUTOFREE char *ask = path_of(client, id, ".json"), *context = path_of(client, id, ".tar");
    unlink(ask);
    unlink(context);
}

/* The end of one is told by its record; the job is done when nobody has to try again. */
static int finish_job(cay_client *client, const cay_call *call, const cay_job *t, int rc, bool lost,
                      const cay_err *why, cay_err *err)
{
    bool stopping = rc == CAY_ECANCELED && !lost && call && call->cancel_fd > 0 &&
                    poll(&(struct pollfd){ .fd = call->cancel_fd, .events = POLLIN }, 1, 0) > 0;
    if (stopping) {
        cay__report_again(client, t->subject);
        return cay_job_renew(client, t, 1, err);
    }
    bool again = (rc == CAY_EBUSY || rc == CAY_ESYS || rc == CAY_EGONE) && t->attempts < t->most;
    if (again) {
        cay__report_again(client, t->subject);
        return cay_job_fail(client, t, why->msg, err);
    }
    remove_request(client, t->subject);
    if (lost)
        return 0;
    return cay_job_done(client, t, err);
}

int cay_build_run_next(cay_client *client, const cay_call *call, const char *owner, cay_err *err)
{
    static const char *const kinds[] = { KIND, NULL };
    cay_job *t = NULL;
    cay_err why = CAY_ERR_INIT;
    request q = { 0 };
    bool lost = false;
    int rc = cay_job_claim_fair(client, kinds, owner, LEASE_MS, &t, &why);
    if (rc < 0) {
        if (rc != CAY_ENOENT && err)
            *err = why;
        if (rc == CAY_ENOENT)
            return 0;
        return rc;
    }
    rc = request_read(client, t->subject, &q, &why);
    if (rc == 0) {
        CAY_AUTOFREE char *context = path_of(client, t->subject, ".tar");
        CAY_AUTOFD tar = open(context, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        asked a = { client, q.spec.tenant };
        q.spec.id = t->subject;
        if (tar > 0)
            q.spec.tar = tar;
        else
            q.spec.tar = 0;
        q.spec.archive = open_archive;
        q.spec.arg = &a;
        rc = with_lease(client, call, t, &q.spec, &lost, &why);
    }
    int ended = finish_job(client, call, t, rc, lost, &why, err);
    json_decref(q.o);
    cay__arena_clear(&q.mem);
    cay_job_free(t);
    if (ended < 0 && ended != CAY_ESTATE)
        return ended;
    return 1;
}
