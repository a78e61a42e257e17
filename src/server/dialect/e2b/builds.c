/* SPDX-License-Identifier: Apache-2.0 */
/* The SDK's template builder: a name is taken, files are sent by their hash, steps follow, and
 * somebody asks how it goes. */
#include "builder.h"
#include <server/background.h>
#include "e2b.h"
#include <inttypes.h>
#include <server/http/limits.h>
#include <time.h>
#include <wire/shapes.h>

enum {
    LOGS = 100,
    UPLOAD_S = 3600 /* as long as the SDK waits for its upload */,
    UPLOADS_MOST = 16 /* it sends those of all steps at once */
};
#define ARCHIVE_MAX  ((uint64_t)4 << 30)
#define ARCHIVES_MAX ((uint64_t)16 << 30)

static int build_names(cay__req *r, const json_t *in, json_t *names, cay_err *err)
{
    const char *name = cay__json_str(in, "name", cay__json_str(in, "alias", "")), *full;
    const json_t *v, *tags = e2b_member(in, "tags");
    size_t i;
    if (tags && !json_is_array(tags))
        return cay_fail(err, CAY_EINVAL, "tags is a list of texts");
    if (strchr(name, ':') || !json_array_size(tags)) {
        CAY_TRY(e2b_template_name(r, name, NULL, &full, err));
        json_array_append_new(names, json_string(full));
    }
    json_array_foreach(tags, i, v) {
        CAY_TRY(e2b_template_name(r, name, CAY_OR(json_string_value(v), "/"), &full, err));
        json_array_append_new(names, json_string(full));
    }
    if (json_array_size(names) > 32)
        return cay_fail(err, CAY_EINVAL, "at most 32 tags");
    full = json_string_value(json_array_get(names, 0));
    if (e2b_is_base(full))
        return cay_fail(err, CAY_EINVAL, "%s is the host's own template; take another name", full);
    return 0;
}

/* What a build is to have waits in its recipe, which is freed with the request. */
static int load_recipe(cay__req *r, json_t **out, cay_err *err)
{
    const char *build = r->param[1];
    *out = NULL;
    if (strspn(build, "abcdefghijklmnopqrstuvwxyz234567") == CAY_ID_LEN && !build[CAY_ID_LEN])
        CAY_TRY(e2b_recipe_load(r->client, build, out, err));
    cay__req_keep(r, *out);
    if (!*out || strcmp(cay__json_str(*out, "tenant", ""), r->who.tenant) != 0)
        return cay_fail_why(err, CAY_ENOENT, "build_not_found", "build '%.40s' not found", build);
    return 0;
}

int e2b_on_template_create(cay__req *r, cay_err *err)
{
    json_t *in;
    CAY_AUTOJSON *names = json_array(), *tags = json_array(), *recipe = NULL;
    char id[CAY_ID_LEN + 1];
    const char *list[33] = { NULL };
    CAY_TRY(cay__req_json(r, 0, &in, err));
    CAY_TRY(build_names(r, in, names, err));
    for (size_t i = 0; i < json_array_size(names); i++) {
        list[i] = json_string_value(json_array_get(names, i));
        json_array_append_new(tags, json_string(strchr(list[i], ':') + 1));
    }
    const char *bare = e2b_without_tag(r, list[0]);
    int64_t cpus = cay__json_int(in, "cpuCount", 2), memory = cay__json_int(in, "memoryMB", 2048);
    if (cpus < 1 || cpus > 64 || memory < 128 || memory > 1 << 20)
        return cay_fail(err, CAY_EINVAL, "cpuCount is 1 to 64, memoryMB 128 to 1048576");
    CAY_TRY(cay_build_reserve(r->client, r->who.tenant, list, id, err));
    recipe = json_pack("{s:s,s:s,s:O,s:I,s:I}", "tenant", r->who.tenant, "template", bare, "names",
                       names, CAY__CPU_MILLI, (json_int_t)cpus * 1000, "memory",
                       (json_int_t)memory << 20);
    CAY_TRY(e2b_recipe_save(r->client, id, recipe, err));
    cay__req_about(r, id);
    return cay__reply_pack(r, 202, "{s:s,s:s,s:b,s:O,s:O,s:[s]}", "templateID", bare, "buildID", id,
                           "public", false, "names", names, "tags", tags, "aliases", bare);
}

/* An address opens one archive of one tenant, and not for ever: when it ends is in it, and part of
 * what its token proves. */
static int upload_token(cay__req *r, const char *tenant, const char *hash, long long until,
                        char token[E2B_TOKEN_LEN + 1], cay_err *err)
{
    char name[200], what[240];
    e2b_archive_name(tenant, hash, name);
    CAY_FORMAT(what, "%s %lld", name, until);
    return e2b_token(r, "upload", what, token, err);
}

int e2b_on_template_files(cay__req *r, cay_err *err)
{
    CAY_AUTOFD dir = -1;
    char name[200], token[E2B_TOKEN_LEN + 1];
    struct stat st;
    long long until = (long long)time(NULL) + UPLOAD_S;
    if (!e2b_is_hash(r->param[1]))
        return cay_fail(err, CAY_EINVAL, "the hash of files is 64 hexadecimal digits");
    CAY_TRY(e2b_build_dir(r->client, &dir, err));
    e2b_archive_name(r->who.tenant, r->param[1], name);
    CAY_TRY(upload_token(r, r->who.tenant, r->param[1], until, token, err));
    const char *url =
        cay__req_text(r, "%s://%s/e2b/upload/%s/%s?until=%lld&token=%s", cay__scheme(r->tls),
                      r->head.host, r->who.tenant, r->param[1], until, token);
    return cay__reply_pack(r, 201, "{s:b,s:s}", "present",
                           fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0, "url", url);
}

/* What one tenant has sent may not fill the disk. */
static int archives_fit(int dir, const char *tenant, cay_err *err)
{
    char prefix[100];
    uint64_t sum = 0;
    CAY_AUTODIR *d = cay__dir_open(dir, NULL);
    if (!d)
        return cay_fail_sys(err, "the files of a COPY");
    CAY_FORMAT(prefix, "archive.%.64s.", tenant);
    for (struct dirent *e; (e = cay__dir_next(d));) {
        struct stat st;
        const char *name =
            e->d_name + (*e->d_name == '.'); /* one that is being sent begins with a dot */
        if (cay__str_starts(name, prefix) && fstatat(dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
            sum += (uint64_t)st.st_blocks * 512;
    }
    if (sum < ARCHIVES_MAX)
        return 0;
    return cay_fail_why(err, CAY_ETOOBIG, "quota_archives",
                        "tenant %s has sent %" PRIu64
                        " GiB of files for COPY, which is the most that is "
                        "kept; they go after 30 days",
                        tenant, sum >> 30);
}

/* By the address that was told: it has no key. */
int e2b_upload_admit(cay__req *r, cay_err *err)
{
    char token[E2B_TOKEN_LEN + 1];
    const char *given = cay__req_query(r, "token");
    uint64_t until;
    if (!e2b_is_hash(r->param[1]) || strlen(r->param[0]) > 63)
        return cay_fail(err, CAY_EINVAL, "the hash of files is 64 hexadecimal digits");
    CAY_TRY(cay__req_number(r, "until", 0, INT64_MAX, &until, err));
    CAY_TRY(upload_token(r, r->param[0], r->param[1], (long long)until, token, err));
    if (!given || !e2b_same(given, token))
        return cay_fail(err, CAY_EAUTH, "this address was not given out");
    if ((long long)until < (long long)time(NULL))
        return cay_fail(err, CAY_EAUTH, "this address was good for an hour; ask for another");
    return 0;
}

int e2b_on_template_upload(cay__req *r, cay_err *err)
{
    CAY_AUTOFD dir = -1, fd = -1;
    char name[200], tmp[240];
    uint64_t n;
    CAY_TRY(cay__crowd_enter_of(r, r->param[0], UPLOADS_MOST, "send them", err));
    CAY_TRY(e2b_build_dir(r->client, &dir, err));
    CAY_TRY(archives_fit(dir, r->param[0], err));
    e2b_archive_name(r->param[0], r->param[1], name);
    CAY_FORMAT(tmp, ".%s.%s", name, r->id);
    fd = openat(dir, tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return cay_fail_sys(err, "the files of a COPY");
    int rc = cay__req_to_fd(r, fd, ARCHIVE_MAX, &n, err);
    if (rc == 0 && renameat(dir, tmp, dir, name) < 0)
        rc = cay_fail_sys(err, "the files of a COPY");
    if (rc < 0) {
        unlinkat(dir, tmp, 0);
        return rc;
    }
    return cay__reply_empty(r, 200);
}

/* What is below: a template of the tenant's, the host, or an image: one that is here under its
 * name, else from its registry. */
static int read_from(cay__req *r, const json_t *in, json_t *recipe, const char **out, cay_err *err)
{
    const char *template_ = cay__json_str(in, "fromTemplate", NULL),
               *image = cay__json_str(in, "fromImage", NULL), *ref = CAY_OR(template_, image);
    CAY_AUTOPTR(cay_template) t = NULL;
    if (!template_ == !image)
        return cay_fail(err, CAY_EINVAL, "one of fromImage and fromTemplate is needed");
    if ((e2b_is_base(ref) || (image && (!strncmp(image, "e2bdev/base", 11) ||
                                        !strncmp(image, "e2bdev/code-interpreter", 23)))) &&
        !e2b_has_base(r, ref)) {
        *out = "host";
        return 0;
    }
    int rc = e2b_template_find(r, ref, &t, err);
    if (rc == CAY_ENOENT && image) {
        json_object_set_new(recipe, "pull", json_string(image));
        *out = "scratch";
        return 0;
    }
    CAY_TRY(rc);
    *out = cay__arena_str(&r->arena, t->id);
    return 0;
}

/* A registry's account waits as a stored secret until the image is here. */
static int keep_account(cay__req *r, const json_t *in, json_t *recipe, cay_err *err)
{
    const json_t *registry = e2b_member(in, "fromImageRegistry");
    CAY_AUTOBUF login = CAY__BUF(60000);
    if (!registry)
        return 0;
    CAY_TRY(cay__req_shared(r, "fromImageRegistry: secrets", err));
    CAY_TRY(e2b_registry_login(r->client, &r->call, registry, &login, err));
    if (login.full)
        return cay_fail(err, CAY_ETOOBIG, "fromImageRegistry is longer than 60 kB");
    const char *name = cay__req_text(r, "E2B_BOX_%s", r->param[1]);
    int rc = cay_secret_put(r->client, name, login.data, login.len, err);
    explicit_bzero(login.data, login.len);
    CAY_TRY(rc);
    json_object_set_new(recipe, "secret", json_string(name));
    return 0;
}

static int write_file(cay__req *r, const json_t *in, json_t *recipe, json_t **out, cay_err *err)
{
    CAY_AUTOJSON *steps = json_array();
    const char *from = "", *start = cay__json_str(in, "startCmd", NULL),
               *ready = cay__json_str(in, "readyCmd", NULL);
    CAY_TRY(read_from(r, in, recipe, &from, err));
    CAY_TRY(
        e2b_read_steps(json_object_get(in, "steps"), json_object_get(in, "fromImage"), steps, err));
    *out = json_pack("{s:s,s:O,s:{s:I,s:I},s:s*,s:s*}", "from", from, "steps", steps, "limits",
                     CAY__CPU_MILLI, (json_int_t)cay__json_int(recipe, CAY__CPU_MILLI, 2000),
                     "memory", (json_int_t)cay__json_int(recipe, "memory", (int64_t)2 << 30),
                     "start", cay__text_or(start, NULL), "ready", cay__text_or(ready, NULL));
    return 0;
}

int e2b_on_build_start(cay__req *r, cay_err *err)
{
    json_t *in, *file, *recipe;
    CAY_TRY(cay__req_json(r, (size_t)64 << 20, &in, err));
    CAY_TRY(load_recipe(r, &recipe, err));
    if (strcmp(cay__json_str(recipe, "template", ""), r->param[0]) != 0)
        return cay_fail_why(err, CAY_ENOENT, "build_not_found",
                            "template '%.60s' has no build %.40s", r->param[0], r->param[1]);
    if (json_object_get(recipe, "file"))
        return cay_fail(err, CAY_ESTATE, "build %.40s is started already", r->param[1]);
    CAY_TRY(write_file(r, in, recipe, &file, err));
    json_object_set_new(recipe, "file", file);
    CAY_TRY(keep_account(r, in, recipe, err));
    json_object_set_new(recipe, "force", json_boolean(cay__json_bool(in, "force", false)));
    json_object_set_new(recipe, "offset", json_integer(json_object_get(in, "fromImage") ? 2 : 0));
    CAY_TRY(e2b_recipe_save(r->client, r->param[1], recipe, err));
    const cay_job task = { .size = sizeof task,
                           .kind = E2B_BUILD_KIND,
                           .subject = r->param[1],
                           .tenant = r->who.tenant,
                           .key = r->param[1],
                           .most = 3,
                           .backoff_ms = 1000,
                           .waiting_most = CAY_BUILDS_WAITING };
    int rc = cay_job_put(r->client, &task, CAY_JOB_KEEP, NULL, err);
    if (rc < 0) { /* not started: it may be asked for again */
        json_object_del(recipe, "file");
        e2b_recipe_save(r->client, r->param[1], recipe, NULL);
        return rc;
    }
    cay__builders_wake(cay__server_builders(r->server));
    return cay__reply_empty(r, 202);
}

typedef struct page {
    json_t *list;
    uint64_t skip, limit;
    int level;
} page;

static int add_entry(const cay_build_event *e, void *to)
{
    static const char *const levels[] = { [CAY_BUILD_ERR] = "warn",
                                          [CAY_BUILD_NOTE] = "debug",
                                          [CAY_BUILD_WARN] = "warn",
                                          [CAY_BUILD_FAIL] = "error" };
    page *p = to;
    const char *level = NULL;
    if ((size_t)e->kind < CAY_LEN(levels))
        level = levels[e->kind];
    level = CAY_OR(level, "info");
    char when[32], step[16];
    if (e2b_level(level) < p->level || (p->skip && p->skip--))
        return 0;
    if (json_array_size(p->list) == p->limit)
        return 1;
    CAY_AUTOFREE char *text = cay__alloc(e->len + 64);
    int n = 0;
    if (e->kind == CAY_BUILD_STEP)
        n = snprintf(text, 64, "[%u/%u]%s ", e->step, e->steps, e->cached ? " CACHED" : "");
    memcpy(text + n, e->text, e->len);
    text[(size_t)n + e->len] = 0;
    CAY_FORMAT(step, "%u", e->step);
    json_array_append_new(
        p->list, json_pack("{s:s,s:o,s:s,s:s*}", "timestamp", e2b_when(e->time_ms, when), "message",
                           cay__json_bytes(text), "level", level, "step", CAY_IF(e->step, step)));
    return 0;
}

typedef struct told {
    cay__req *r;
    unsigned offset; /* steps of ours before the SDK's first */
    const char *status;
    json_t *reason;
} told;

static void tell_failure(told *t, const char *message, const char *step)
{
    json_decref(t->reason);
    t->status = "error";
    t->reason = json_pack("{s:s,s:s}", "message", message, "step", step);
}

/* A failed step is named as the SDK counts: from 1; what is below is `base`. */
static int on_build_status(const cay_build_info *b, void *to)
{
    told *t = to;
    char step[16] = "base";
    t->status = cay__arena_str(&t->r->arena, b->state);
    if (b->step > t->offset)
        CAY_FORMAT(step, "%u", b->step - t->offset);
    if (!strcmp(b->state, "failed") || !strcmp(b->state, "canceled") || !strcmp(b->state, "lost"))
        tell_failure(t, cay__text_or(b->error, b->state), step);
    return 0;
}

static int page_of(cay__req *r, const char *skip, page *p, cay_err *err)
{
    const char *level = cay__req_query(r, "level");
    CAY_TRY(cay__req_number(r, skip, 0, INT64_MAX, &p->skip, err));
    CAY_TRY(cay__req_number(r, "limit", LOGS, LOGS, &p->limit, err));
    if (level)
        p->level = e2b_level(level);
    if (p->level < 0)
        return cay_fail(err, CAY_EINVAL, "level is debug, info, warn or error");
    return 0;
}

int e2b_on_build_status(cay__req *r, cay_err *err)
{
    CAY_AUTOJSON *entries = json_array();
    page p = { .list = entries };
    uint64_t at = 0;
    json_t *recipe;
    CAY_TRY(page_of(r, "logsOffset", &p, err));
    CAY_TRY(load_recipe(r, &recipe, err));
    told t = { .r = r, .offset = (unsigned)cay__json_int(recipe, "offset", 0) };
    CAY_TRY(cay_build_get(r->client, cay__req_tenant(r), r->param[1], on_build_status, &t, err));
    cay_build_log(r->client, r->param[1], &at, add_entry, &p,
                  NULL);                                       /* before it begins there is none */
    const char *before = cay__json_str(recipe, "error", NULL); /* the image did not come */
    if (before)
        tell_failure(&t, before, "base");
    return cay__reply_pack(r, 200, "{s:s,s:o*,s:o*,s:s,s:[],s:O}", "status", t.status, "reason",
                           t.reason, "templateID", json_string(r->param[0]), "buildID", r->param[1],
                           "logs", "logEntries", entries);
}

static int on_build_found(const cay_build_info *b, void *to)
{
    return 0;
}

int e2b_on_build_logs(cay__req *r, cay_err *err)
{
    CAY_AUTOJSON *entries = json_array();
    page p = { .list = entries };
    uint64_t at = 0;
    CAY_TRY(page_of(r, "cursor", &p, err));
    CAY_TRY(cay_build_get(r->client, cay__req_tenant(r), r->param[1], on_build_found, NULL, err));
    cay_build_log(r->client, r->param[1], &at, add_entry, &p, NULL);
    return cay__reply_pack(r, 200, "{s:O}", "logs", entries);
}

/* Deprecated: docker of the user's own machine builds an image and pushes it to a registry of
 * E2B's, which is not here; the request has a Dockerfile, but none of the files that it copies. */
int e2b_on_build(cay__req *r, cay_err *err)
{
    return cay_fail_why(
        err, CAY_EINVAL, "old_build",
        "builds of E2B's first SDK are pushed to E2B's own registry by docker, and none of that is "
        "here: use Template.build() of SDK 2 or `e2b template create`");
}
