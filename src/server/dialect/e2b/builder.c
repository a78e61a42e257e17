/* SPDX-License-Identifier: Apache-2.0 */
#include "builder.h"
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <time.h>

enum { LEASE_MS = 90000, RENEW_MS = 20000, NAMES = 32, RECIPE_MAX = 64 << 20, KEEP_S = 30 * 86400 };
#define BELOW "e2b"

int e2b_build_dir(cay_client *client, int *fd, cay_err *err)
{
    CAY_AUTOFD home = open(cay_client_home(client), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (home < 0 || (mkdirat(home, BELOW, 0700) < 0 && errno != EEXIST))
        return cay_fail_sys(err, "the directory of builds");
    *fd = openat(home, BELOW, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (*fd < 0)
        return cay_fail_sys(err, "the directory of builds");
    return 0;
}

void e2b_archive_name(const char *tenant, const char *hash, char out[200])
{
    snprintf(out, 200, "archive.%.64s.%.64s", tenant, hash);
}

static void recipe_name(const char *build, char out[64])
{
    snprintf(out, 64, "recipe.%.32s", build);
}

int e2b_recipe_save(cay_client *client, const char *build, const json_t *o, cay_err *err)
{
    CAY_AUTOFD dir = -1, fd = -1;
    char name[64], tmp[100];
    CAY_TRY(e2b_build_dir(client, &dir, err));
    recipe_name(build, name);
    CAY_FORMAT(tmp, ".%s.%d.%lx", name, (int)getpid(), (unsigned long)pthread_self());
    fd = openat(dir, tmp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || json_dumpfd(o, fd, JSON_COMPACT) < 0 || renameat(dir, tmp, dir, name) < 0) {
        cay_fail_sys(err, "the steps of a build");
        unlinkat(dir, tmp, 0);
        return CAY_ESYS;
    }
    return 0;
}

int e2b_recipe_load(cay_client *client, const char *build, json_t **out, cay_err *err)
{
    CAY_AUTOFD dir = -1, fd = -1;
    char name[64];
    struct stat st;
    json_error_t je;
    CAY_TRY(e2b_build_dir(client, &dir, err));
    recipe_name(build, name);
    fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    *out = NULL;
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size <= RECIPE_MAX)
        *out = json_loadfd(fd, 0, &je);
    return 0;
}

/* What nobody asked for in a month: files of a COPY are sent again then. */
void e2b_build_sweep(cay_client *client)
{
    CAY_AUTOFD dir = -1;
    CAY_AUTODIR *d = NULL;
    struct stat st;
    if (e2b_build_dir(client, &dir, NULL) == 0)
        d = cay__dir_open(dir, NULL);
    for (struct dirent *e; d && (e = cay__dir_next(d));)
        if (fstatat(dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
            time(NULL) - st.st_mtime > KEEP_S)
            unlinkat(dir, e->d_name, 0);
}

CAY_DEFINE_AUTO(cay_template, cay_template_free)

typedef struct job {
    cay_client *client;
    const cay_job *t;
    int stop, end; /* readable: the server ends; it is done */
} job;

static int open_archive(void *arg, const char *sha256, int *fd, cay_err *err)
{
    job *j = arg;
    CAY_AUTOFD dir = -1;
    char name[200];
    CAY_TRY(e2b_build_dir(j->client, &dir, err));
    e2b_archive_name(j->t->tenant, sha256, name);
    *fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (*fd < 0)
        return cay_fail_why(err, CAY_ENOENT, "build_copy",
                            "the files %.12s… of a COPY were not sent", sha256);
    return 0;
}

/* A step may be silent for long: what says that somebody is at it comes from beside. */
static void *renew_lease(void *arg)
{
    job *j = arg;
    struct pollfd p = { .fd = j->end, .events = POLLIN };
    while (poll(&p, 1, RENEW_MS) == 0)
        cay_job_renew(j->client, j->t, LEASE_MS, NULL);
    return NULL;
}

/* An image that is not here: from its registry, with what the request had for it, which waits as a
 * stored secret. */
static int pull_image(job *j, const cay_call *call, const json_t *in, json_t *file, cay_err *err)
{
    const char *image = cay__json_str(in, "pull", NULL),
               *secret = cay__json_str(in, "secret", NULL);
    char auth[100];
    CAY_AUTOPTR(cay_template) t = NULL;
    if (!image)
        return 0;
    CAY_FORMAT(auth, "store:%.80s", CAY_OR(secret, ""));
    const cay_template_remote spec = { .size = sizeof spec,
                                       .ref = image,
                                       .tenant = j->t->tenant,
                                       .hidden = true,
                                       .auth = secret ? auth : NULL };
    int rc = cay_template_pull(j->client, call, &spec, &t, err);
    if (secret)
        cay_secret_remove(j->client, secret, NULL);
    CAY_TRY(rc);
    json_object_set_new(file, "from", json_string(t->id));
    return 0;
}

static int run_build(job *j, cay_err *err)
{
    CAY_AUTOJSON *in = NULL;
    CAY_AUTOFREE char *net = NULL, *text = NULL;
    const char *names[NAMES + 1] = { NULL };
    const json_t *v;
    size_t i;
    const cay_policy open = { .size = sizeof open,
                              .mode = CAY_NET_ALL }; /* as E2B's builds have it */
    const cay_call call = { .size = sizeof call, .cancel_fd = j->stop, .actor = "builder" };
    cay_built built = { .size = sizeof built };
    CAY_TRY(e2b_recipe_load(j->client, j->t->subject, &in, err));
    if (!in)
        return cay_fail_why(err, CAY_ENOENT, "build_not_found",
                            "what build %s is made of is not there any more", j->t->subject);
    CAY_TRY(cay_policy_text(&open, &net, err));
    int rc = pull_image(j, &call, in, json_object_get(in, "file"), err);
    if (rc < 0 &&
        rc != CAY_ECANCELED) { /* the build itself has not begun: what it would say stands here */
        json_object_set_new(in, "error", cay__json_bytes(err->msg));
        e2b_recipe_save(j->client, j->t->subject, in, NULL);
    }
    CAY_TRY(rc);
    json_array_foreach(json_object_get(in, "names"), i, v)
        if (i < NAMES)
            names[i] = json_string_value(v);
    if (!(text = cay__json_text(json_object_get(in, "file"), RECIPE_MAX)))
        return cay_fail(err, CAY_ETOOBIG, "the steps are too long");
    const cay_build spec = { .size = sizeof spec,
                             .id = j->t->subject,
                             .text = text,
                             .names = names,
                             .tenant = j->t->tenant,
                             .hidden = true,
                             .net = net,
                             .no_cache = cay__json_bool(in, "force", false),
                             .archive = open_archive,
                             .arg = j,
                             .keep_start = true };
    return cay_build_run(j->client, &call, &spec, &built, err);
}

/* A build that failed has said so in its record: for the queue it is done. One that this server's
 * end stopped is another's at once. */
static void run_build_job(cay_client *client, int stop, const cay_job *t)
{
    job j = { .client = client, .t = t, .stop = stop, .end = eventfd(0, EFD_CLOEXEC) };
    cay_err err = CAY_ERR_INIT;
    pthread_t beside;
    bool beating = j.end >= 0 && pthread_create(&beside, NULL, renew_lease, &j) == 0;
    int rc = run_build(&j, &err);
    if (beating) {
        (void)!eventfd_write(j.end, 1);
        pthread_join(beside, NULL);
    }
    cay__close_fd(&j.end);
    struct pollfd stopped = { .fd = stop, .events = POLLIN };
    if (rc == CAY_ECANCELED && poll(&stopped, 1, 0) > 0) {
        cay_job_renew(client, t, 1, NULL);
        return;
    }
    cay_job_done(client, t, NULL);
}

int e2b_build_work(cay_client *client, const cay_call *call, const char *owner, cay_err *err)
{
    static const char *const kinds[] = { E2B_BUILD_KIND, NULL };
    cay_job *t;
    int rc = cay_job_claim_fair(client, kinds, owner, LEASE_MS, &t, err);
    if (rc == CAY_ENOENT)
        return 0;
    CAY_TRY(rc);
    run_build_job(client, call->cancel_fd, t);
    cay_job_free(t);
    return 1;
}
