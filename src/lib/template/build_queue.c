/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds that wait: the request and its context in files beside the log, the order in the queue of
 * jobs. Whoever does one renews its lease on a thread of its own, which also learns that it was
 * canceled. A server that ends in the middle leaves it to the next, which finds what was done.
 */
#include "build.h"
#include <cay/jobs.h>
#include <wire/shape.h>
#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

#define KIND         "build"
#define FOLDER       "builds"
#define LEASE_MS     20000
#define RENEW_MS     5000
#define TRIES        3
#define REQUEST_MAX  (8u << 20)
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

/* Under its name only when it is whole. */
static int save_file(const char *path, int from, const char *text, uint64_t max, cay_err *err)
{
    char tmp[4200];
    CAY_AUTOFREE char *buf = cay__alloc(65536);
    uint64_t total = 0;
    int rc = 0;
    char word[CAY_ID_LEN + 1];
    cay__id_make(word, 'x');
    if (!CAY_JOIN(tmp, path, ".", word))
        return cay_fail(err, CAY_ETOOBIG, "the path of the state directory is too long");
    CAY_AUTOFD to = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (to < 0)
        return cay_fail_sys(err, "make %s", tmp);
    if (text && !cay__fd_write_all(to, text, strlen(text)))
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
        else if (n < 0 || !cay__fd_write_all(to, buf, (size_t)n))
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
    char name[160];
    if (!hash || !cay__hex_is(hash, 64))
        return cay_fail_why(
            err, CAY_EINVAL, "build_archive",
            "an archive is called by a SHA-256: 64 hexadecimal digits in lower case");
    if (!CAY_JOIN(name, "files-", CAY_OR(tenant, "default"), "-", hash) || strchr(name, '/'))
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

#define FIELD(member, kind) CAY__FIELD(cay_build, member, kind)
#define LIMITS(member)      CAY__NAMED(#member, cay_build, limits.member, LIMIT)
static const cay__field request_fields[] = {
    FIELD(file, STR),         CAY__FIELD(cay_build, text, STR, .max = REQUEST_MAX),
    FIELD(names, STRS),       FIELD(tenant, STR),
    FIELD(hidden, BOOL),      FIELD(args, PAIRS),
    FIELD(target, STR),       CAY__FIELD(cay_build, net, STR, .max = REQUEST_MAX),
    FIELD(step_ms, LIMIT),    FIELD(no_cache, BOOL),
    LIMITS(memory),           LIMITS(disk),
    LIMITS(cpu_milli),        FIELD(pull, STR),
    FIELD(platform, STR),     FIELD(no_pull, BOOL),
    FIELD(keep_failed, BOOL),
};
static const cay__shape request_shape =
    CAY__SHAPE(NULL, cay_build, request_fields, CAY__F_KEPT, NULL);

static char *request_text(const cay_build *s)
{
    CAY_AUTOBUF b = CAY__BUF(REQUEST_MAX);
    if (!cay__shape_utf8(&request_shape, s))
        return NULL;
    cay__shape_put(&b, &request_shape, CAY__F_KEPT, s);
    return CAY_IF(!b.full, CAY_STEAL(b.data));
}

typedef struct request {
    cay__arena mem;
    cay_build spec;
} request;

/* Builds before this one wrote -1 for what has no limit. */
static void name_unlimited(json_t *o)
{
    CAY_EACH(field, request_fields)
        if (field->kind == CAY__F_LIMIT && cay__json_int(o, field->name, 0) < 0)
            json_object_set_new(o, field->name, json_string("unlimited"));
}

static int request_read(cay_client *client, const char *id, request *q, cay_err *err)
{
    CAY_AUTOFREE char *path = path_of(client, id, ".json"), *text = cay__alloc(REQUEST_MAX + 2);
    CAY_AUTOJSON *o = NULL;
    if (cay__fd_read_file(AT_FDCWD, path, text, REQUEST_MAX + 2) < 0)
        return cay_fail_why(err, CAY_ENOENT, "build_not_found",
                            "the request of build %s is not there", id);
    CAY_TRY(cay__json_object("the request", text, &o, err));
    name_unlimited(o);
    q->spec = (cay_build){ .size = sizeof q->spec };
    return cay__shape_read(&q->mem, o, &request_shape, CAY__F_KEPT, &q->spec, err);
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
    CAY_FORMAT(own.detail, "{\"queue\":%u,\"most\":%d}", n, CAY_BUILDS_WAITING);
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
        q.spec.tar = CAY_MAX(tar, 0);
        q.spec.archive = open_archive;
        q.spec.arg = &a;
        rc = with_lease(client, call, t, &q.spec, &lost, &why);
    }
    int ended = finish_job(client, call, t, rc, lost, &why, err);
    cay__arena_clear(&q.mem);
    cay_job_free(t);
    if (ended < 0 && ended != CAY_ESTATE)
        return ended;
    return 1;
}
