/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Storage that a container mounts itself: the programs are the image's, run as root by its pid 1, and end with it. Their keys are in memory of the
 * container, in files that root alone reads, or in the program's own environment; commands of other users see neither.
 */
#include "mounts.h"
#include <base/call.h>
#include <base/fd.h>
#include <base/json.h>
#include <base/str.h>
#include <poll.h>
#include <sandbox/sandbox.h>
#include <signal.h>
#include <stdio.h>

#define PLACE "/dev/shm/.cay-mounts" /* memory: in no snapshot, and gone with the container */
#define PROGS "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" /* no place of the sandbox's user, whatever its PATH says */
enum { WAIT_MS = 40000, STEP_MS = 25, WORDS = 48, TEXT = 16 << 10 };

/* What one is mounted by. */
typedef struct helper {
    const char *argv[WORDS];
    size_t      n;
    cay_pair    env[8];
    size_t      nenv;
    char       *name, *text; /* a file in PLACE and what is in it; text NULL: none */
    char       *second;      /* of rclone: NAME.file; or NULL */
    const char *tools[4];    /* programs that have to be there; "a|b": one of them */
    bool        once;        /* it is done when it ends; else it serves until the container does */
    bool        over;        /* more words than there is room for */
} helper;

typedef struct inside {
    cay_sandbox    *sb;
    const cay_call *call;
    const char     *id;
    cay__arena     *mem;
    size_t          index;
    bool            begun; /* PLACE is made */
} inside;

static void word(helper *h, const char *s)
{
    if (h->n + 1 < WORDS)
        h->argv[h->n++] = s;
    else
        h->over = true;
}

static const char *get(const cay__storage_mount *m, const json_t *pattern, const char *name)
{
    return cay__json_str(pattern, name, cay__json_str(m->fields, name, ""));
}

static void variable(helper *h, const char *name, const char *value)
{
    if (*value)
        h->env[h->nenv++] = (cay_pair){ name, value };
}

/* ------------------------------------------------------------------ patterns */

static int by_rclone(inside *in, const cay__storage_mount *m, const json_t *pattern, helper *h, cay_err *err)
{
    static const char *const always[] = { "--allow-other", "--dir-perms", "0777", "--file-perms", "0666", "--umask", "000", "--dir-cache-time", "10s", "--log-level", "ERROR" };
    cay__storage_plan plan;
    char config[128];
    if (!strcmp(cay__json_str(pattern, "mode", "fuse"), "nfs"))
        return cay_fail_why(err, CAY_ENOTSUP, "mount_unsupported", "entry %.80s: mode nfs needs a kernel's client in the container; give mode fuse", m->entry);
    CAY_TRY(cay__storage_conf(m, in->id, in->index, PLACE, &plan, err));
    snprintf(config, sizeof config, PLACE "/%zu.conf", in->index);
    h->name = cay__arena_str(in->mem, config);
    h->text = cay__arena_str(in->mem, plan.config);
    h->second = plan.file && *plan.file ? cay__arena_str(in->mem, plan.file) : NULL;
    word(h, "rclone");
    word(h, "mount");
    word(h, "--config");
    word(h, h->name);
    for (size_t i = 0; i < CAY_LEN(always); i++)
        word(h, always[i]);
    for (size_t i = 0; i < plan.nargs; i++)
        word(h, cay__arena_str(in->mem, plan.args[i]));
    word(h, m->rw ? "--vfs-cache-mode" : "--read-only");
    if (m->rw) {
        word(h, "writes");
        word(h, "--vfs-write-back");
        word(h, "0s");
    }
    word(h, "--");
    word(h, cay__arena_str(in->mem, plan.remote));
    word(h, m->target);
    cay__storage_plan_clear(&plan);
    h->tools[0] = "rclone";
    h->tools[1] = "fusermount3|fusermount";
    return 0;
}

static int by_mountpoint(inside *in, const cay__storage_mount *m, const json_t *pattern, helper *h, cay_err *err)
{
    bool gcs = !strcmp(m->type, "gcs_mount");
    const char *id = get(m, NULL, gcs ? "access_id" : "access_key_id"), *prefix = get(m, pattern, "prefix"), *region = get(m, pattern, "region"),
               *endpoint = get(m, pattern, "endpoint_url"), *bucket = get(m, NULL, "bucket");
    char *with = cay__arena_take(in->mem, strlen(prefix) + 2);
    if (*bucket == '-')
        return cay_fail_why(err, CAY_EINVAL, "mount_config_invalid", "entry %.80s: bucket is not a bucket's name", m->entry);
    prefix += strspn(prefix, "/");
    cay__str_join(with, strlen(prefix) + 2, prefix, *prefix && prefix[strlen(prefix) - 1] != '/' ? "/" : "", NULL);
    word(h, "mount-s3");
    word(h, "--foreground");
    word(h, "--allow-other");
    if (m->rw) {
        word(h, "--allow-delete");
        word(h, "--allow-overwrite");
    } else {
        word(h, "--read-only");
    }
    const char *const pairs[][2] = { { "--prefix", with }, { "--region", region }, { "--endpoint-url", *endpoint || !gcs ? endpoint : "https://storage.googleapis.com" },
                                     { "--upload-checksums", gcs ? "off" : "" } };
    for (size_t i = 0; i < CAY_LEN(pairs); i++)
        if (*pairs[i][1]) {
            word(h, pairs[i][0]);
            word(h, pairs[i][1]);
        }
    if (!*id)
        word(h, "--no-sign-request");
    word(h, bucket);
    word(h, m->target);
    variable(h, "AWS_ACCESS_KEY_ID", id);
    variable(h, "AWS_SECRET_ACCESS_KEY", get(m, NULL, "secret_access_key"));
    variable(h, "AWS_SESSION_TOKEN", get(m, NULL, "session_token"));
    h->tools[0] = "mount-s3";
    h->tools[1] = "fusermount3|fusermount";
    return 0;
}

/* blobfuse2, with the numbers that the Agents SDK gives it. */
static int by_blobfuse(inside *in, const cay__storage_mount *m, const json_t *pattern, helper *h, cay_err *err)
{
    CAY_AUTOBUF b = CAY__BUF(TEXT);
    bool block = strcmp(cay__json_str(pattern, "cache_type", "block_cache"), "block_cache") == 0;
    char config[128], cache[128];
    const char *account = get(m, NULL, "account"), *key = get(m, NULL, "account_key"), *client = get(m, NULL, "identity_client_id"), *endpoint = get(m, NULL, "endpoint"),
               *container = get(m, NULL, "container"), *at = cay__json_str(pattern, "cache_path", "");
    snprintf(config, sizeof config, PLACE "/%zu.yaml", in->index);
    snprintf(cache, sizeof cache, "/var/lib/.cay-blobfuse-%zu", in->index); /* root's: in /var/tmp anybody could be there first */
    const char *const values[] = { account, key, client, endpoint, container, at };
    for (size_t i = 0; i < CAY_LEN(values); i++)
        if (strpbrk(values[i], "\r\n\"\\"))
            return cay_fail_why(err, CAY_EINVAL, "mount_config_invalid", "entry %.80s: a value has a quote or a line break", m->entry);
    at = *at == '/' ? at : cache;
    cay__buf_fmt(&b, "allow-other: true\nlogging:\n  type: %s\n  level: %s\ncomponents:\n  - libfuse\n  - %s\n  - attr_cache\n  - azstorage\n", cay__json_str(pattern, "log_type", "syslog"),
                 cay__json_str(pattern, "log_level", "log_debug"), block ? "block_cache" : "file_cache");
    long long size = (long long)cay__json_int(pattern, "cache_size_mb", block ? 50000 : 4096);
    if (block)
        cay__buf_fmt(&b, "block_cache:\n  block-size-mb: %lld\n  path: \"%s\"\n  disk-size-mb: %lld\n  disk-timeout-sec: %lld\n", (long long)cay__json_int(pattern, "block_size_mb", 16), at, size,
                     (long long)cay__json_int(pattern, "disk_timeout_s", 3600));
    else
        cay__buf_fmt(&b, "file_cache:\n  path: \"%s\"\n  timeout-sec: %lld\n  max-size-mb: %lld\n", at, (long long)cay__json_int(pattern, "file_cache_timeout_s", 120),
                     (long long)cay__json_int(pattern, "file_cache_max_size_mb", size));
    cay__buf_fmt(&b, "attr_cache:\n  timeout-sec: %lld\nazstorage:\n  type: block\n  account-name: \"%s\"\n  container: \"%s\"\n", (long long)cay__json_int(pattern, "attr_cache_timeout_s", 7200), account, container);
    if (*endpoint)
        cay__buf_fmt(&b, "  endpoint: \"%s\"\n", endpoint);
    if (*key)
        cay__buf_fmt(&b, "  mode: key\n  account-key: \"%s\"\n", key);
    else
        cay__buf_fmt(&b, "  mode: msi\n%s%s%s", *client ? "  appid: \"" : "", client, *client ? "\"\n" : "");
    if (b.full)
        return cay_fail_why(err, CAY_ETOOBIG, "mount_config_invalid", "entry %.80s: its configuration is too long", m->entry);
    h->name = cay__arena_str(in->mem, config);
    h->text = cay__arena_str(in->mem, b.data);
    explicit_bzero(b.data, b.len);
    word(h, "blobfuse2");
    word(h, "mount");
    word(h, m->target);
    word(h, "--config-file");
    word(h, h->name);
    word(h, "--foreground");
    if (!m->rw)
        word(h, "--read-only");
    h->tools[0] = "blobfuse2";
    return 0;
}

static int by_s3files(inside *in, const cay__storage_mount *m, const json_t *pattern, helper *h, cay_err *err)
{
    cay__storage_plan plan;
    (void)pattern;
    CAY_TRY(cay__storage_conf(m, in->id, in->index, PLACE, &plan, err));
    const char *const words[] = { "mount", "-t", "s3files", "-o", plan.args[0], "--", plan.remote, m->target };
    for (size_t i = 0; i < CAY_LEN(words); i++)
        word(h, cay__arena_str(in->mem, words[i]));
    cay__storage_plan_clear(&plan);
    h->tools[0] = "mount";
    h->tools[1] = "mount.s3files";
    h->once = true;
    return 0;
}

static const struct {
    const char *name;
    int       (*make)(inside *in, const cay__storage_mount *m, const json_t *pattern, helper *h, cay_err *err);
} patterns[] = { { "rclone", by_rclone }, { "mountpoint", by_mountpoint }, { "fuse", by_blobfuse }, { "s3files", by_s3files } };

/* ------------------------------------------------------------------ in the container */

static bool find_program(const inside *in, const char *name, size_t n, char *path, size_t cap)
{
    cay_stat st = { .size_of = sizeof st };
    for (const char *dir = PROGS; *dir;) {
        size_t len = strcspn(dir, ":");
        snprintf(path, cap, "%.*s/%.*s", (int)len, dir, (int)n, name);
        if (cay_file_stat(in->sb, in->call, path, true, &st, NULL) == 0 && st.type == CAY_FILE && st.mode & 0111)
            return true;
        dir += len + (dir[len] == ':');
    }
    return false;
}

/* All are there; the first is what is run. */
static int check_tools(const inside *in, const cay__storage_mount *m, helper *h, cay_err *err)
{
    char path[128];
    for (size_t i = 0; i < CAY_LEN(h->tools) && h->tools[i]; i++) {
        const char *s = h->tools[i];
        size_t n = strcspn(s, "|");
        if (!find_program(in, s, n, path, sizeof path) && !(s[n] && find_program(in, s + n + 1, strlen(s + n + 1), path, sizeof path)))
            return cay_fail_why(err, CAY_ENOTSUP, "mount_missing_tool", "entry %.80s: the image has no %.*s; take one that has it, or use provider native, which mounts from outside", m->entry, (int)n, s);
        if (i == 0)
            h->argv[0] = cay__arena_str(in->mem, path);
    }
    return 0;
}

/* The ids of its own that a file worker of this user has: whatever a name means in the image. */
static int check_user(const inside *in, const char *user, const char *entry, const char *key, cay_err *err)
{
    char text[4096] = "";
    CAY_AUTOFD fd = -1;
    unsigned long id[4] = { 0 };
    CAY_TRY(cay_file_open_read(in->sb, in->call, "/proc/self/status", &(cay_read){ .size = sizeof(cay_read), .user = user }, &fd, err));
    for (size_t n = 0; n < sizeof text - 1;) {
        CAY_TRY(cay__call_wait(in->call, fd, POLLIN, "mount", err));
        ssize_t k = read(fd, text + n, sizeof text - 1 - n);
        if (k < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (k <= 0)
            break;
        n += (size_t)k;
    }
    const char *line = strstr(text, "\nUid:");
    if (!line || sscanf(line + 5, "%lu %lu %lu %lu", &id[0], &id[1], &id[2], &id[3]) != 4 || !id[0] || !id[1] || !id[2] || !id[3])
        return cay__mounts_refuse(entry, key, err);
    return 0;
}

static int check_users(const inside *in, const cay__mount_list *l, const cay_create *c, cay_err *err)
{
    const char *entry, *key = cay__mounts_exposed(l, &entry);
    if (!key)
        return 0;
    CAY_TRY(check_user(in, NULL, entry, key, err));
    for (size_t i = 0; i < c->nunits; i++)
        if (c->units[i].user && *c->units[i].user)
            CAY_TRY(check_user(in, c->units[i].user, entry, key, err));
    return 0;
}

/* As root, whoever the sandbox's user is. */
static int put_secret(const inside *in, const char *path, const char *text, cay_err *err)
{
    return cay_file_put(in->sb, in->call, path, text, strlen(text), &(cay_write){ .size = sizeof(cay_write), .mode = 0600, .user = "root" }, err);
}

/* Nobody has worked in this container yet; but its files may be a snapshot's, with links that somebody planted: none is followed, and the place is new. */
static int make_dirs(const inside *in, const char *target, bool first, cay_err *err)
{
    static const char script[] = "umask 077; set -f; p=; IFS=/\n"
                                 "if [ \"$2\" = first ]; then mkdir " PLACE " || exit 4; fi\n"
                                 "umask 022\n"
                                 "for part in $1; do\n"
                                 "    [ -n \"$part\" ] || continue\n"
                                 "    p=$p/$part\n"
                                 "    [ ! -h \"$p\" ] || exit 3\n"
                                 "    [ -d \"$p\" ] || mkdir -- \"$p\" || exit 4\n"
                                 "done\n";
    const char *const argv[] = { "/bin/sh", "-c", script, "sh", target, first ? "first" : "", NULL };
    const cay_pair env[] = { { "PATH", PROGS }, { NULL, NULL } };
    cay_result res = { .size = sizeof res };
    CAY_TRY(cay_sandbox_run(in->sb, in->call, &(cay_spawn){ .size = sizeof(cay_spawn), .argv = argv, .env = env, .cwd = "/", .user = "root" }, NULL, 0, 4096, &res, err));
    int code = res.exit.code;
    cay_result_clear(&res);
    if (code == 3)
        return cay_fail_why(err, CAY_ESTATE, "mount_failed", "a part of %.120s is a link; storage is mounted where it was asked for, or not at all", target);
    return code ? cay_fail_why(err, CAY_ESYS, "mount_failed", "the directory %.120s cannot be made", target) : 0;
}

/* mountinfo writes blanks and backslashes as octal numbers. */
static void escape(cay__buf *b, const char *path)
{
    for (const char *s = path; *s; s++)
        if (*s == ' ' || *s == '\\' || *s == '\t' || *s == '\n')
            cay__buf_fmt(b, "\\%03o", (unsigned char)*s);
        else
            cay__buf_add(b, s, 1);
}

/* ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [MORE…] - TYPE SOURCE OPTIONS; the last of a point is on top. */
bool cay__mounts_seen(const char *mountinfo, const char *path, char *dev, size_t cap)
{
    CAY_AUTOBUF want = CAY__BUF(4 * 4096 + 1);
    bool seen = false;
    escape(&want, path);
    for (const char *line = mountinfo, *end; !want.full && want.data && *line; line = *end ? end + 1 : end) {
        const char *f[6] = { line };
        end = line + strcspn(line, "\n");
        for (size_t i = 1; i < CAY_LEN(f); i++) {
            const char *blank = memchr(f[i - 1], ' ', (size_t)(end - f[i - 1]));
            f[i] = blank ? blank + 1 : end;
        }
        const char *type = memmem(f[5], (size_t)(end - f[5]), " - ", 3);
        if (!type || (size_t)(f[5] - f[4]) != want.len + 1 || memcmp(f[4], want.data, want.len) != 0)
            continue;
        seen = cay__str_starts(type + 3, "fuse") || cay__str_starts(type + 3, "nfs");
        snprintf(dev, cap, "%.*s", (int)(f[3] - f[2] - 1), f[2]);
    }
    return seen;
}

static bool is_mounted(const inside *in, const char *path, char *dev, size_t cap)
{
    CAY_AUTOFREE char *text = NULL;
    size_t len;
    return cay_file_get(in->sb, in->call, "/proc/self/mountinfo", 4u << 20, &text, &len, NULL) == 0 && cay__mounts_seen(text, path, dev, cap);
}

static int failed(const inside *in, const cay__storage_mount *m, cay_proc *p, const helper *h, cay_err *err)
{
    char said[600] = "";
    uint64_t offset = 0, lost = 0;
    size_t n = 0;
    bool eof = false;
    CAY_AUTOBUF safe = CAY__BUF(2048);
    (void)in;
    if (cay_proc_read(p, NULL, CAY_STDERR, &offset, said, sizeof said - 1, &n, &lost, &eof, NULL) == 0)
        said[n] = 0;
    cay__storage_redact(m, said);
    cay__buf_safe(&safe, said, CAY_MIN(strlen(said), (size_t)140), false);
    return cay_fail_why(err, CAY_ESYS, "mount_failed", "entry %.60s: %s: %s", m->entry, h->argv[0], safe.data && *safe.data ? safe.data : "it did not mount");
}

/* Until it is there, it ended, or the time is over. */
static int await(const inside *in, const cay__storage_mount *m, const char *before, cay_proc *p, const helper *h, cay_err *err)
{
    char dev[32] = "";
    int64_t until = cay__now_ms() + WAIT_MS;
    int end = cay_proc_exit_fd(p, err);
    if (end < 0)
        return end;
    for (;;) {
        struct pollfd e = { .fd = end, .events = POLLIN };
        bool ended = poll(&e, 1, STEP_MS) == 1;
        if (is_mounted(in, m->target, dev, sizeof dev) && strcmp(dev, before) != 0) /* and not what was there already */
            return 0;
        if (ended || cay__now_ms() > until)
            break;
        CAY_TRY(cay__call_check(in->call, "mount", err));
    }
    int rc = failed(in, m, p, h, err);
    cay_proc_signal(p, NULL, SIGKILL, CAY_SCOPE_TREE, NULL);
    return rc;
}

static int mount_one(inside *in, const cay__storage_mount *m, cay_err *err)
{
    const json_t *pattern = json_object_get(json_object_get(m->fields, "mount_strategy"), "pattern");
    const char *name = cay__json_str(pattern, "type", "");
    helper h = { .n = 0 };
    cay_proc *p = NULL;
    char second[160], before[32] = "";
    size_t i = 0;
    while (i < CAY_LEN(patterns) && strcmp(patterns[i].name, name) != 0)
        i++;
    if (i == CAY_LEN(patterns))
        return cay_fail_why(err, CAY_ENOTSUP, "mount_unsupported", "entry %.80s: pattern %.40s is not known", m->entry, name);
    CAY_TRY(patterns[i].make(in, m, pattern, &h, err));
    if (h.over)
        return cay_fail_why(err, CAY_EINVAL, "mount_config_invalid", "entry %.80s: more than %d words for %s", m->entry, WORDS - 1, h.argv[0]);
    CAY_TRY(check_tools(in, m, &h, err));
    variable(&h, "PATH", PROGS);
    CAY_TRY(make_dirs(in, m->target, !in->begun, err));
    in->begun = true;
    is_mounted(in, m->target, before, sizeof before);
    if (h.text)
        CAY_TRY(put_secret(in, h.name, h.text, err));
    snprintf(second, sizeof second, PLACE "/%zu.file", in->index);
    if (h.second)
        CAY_TRY(put_secret(in, second, h.second, err));
    const cay_spawn s = { .size = sizeof s, .argv = h.argv, .env = h.nenv ? h.env : NULL, .cwd = "/", .user = "root", .tag = NULL };
    CAY_TRY(cay_sandbox_spawn(in->sb, in->call, &s, &p, err));
    int rc = await(in, m, before, p, &h, err);
    cay_proc_unref(p);
    if (h.text)
        explicit_bzero(h.text, strlen(h.text));
    return rc;
}

int cay__mounts_inside(cay_service *svc, const cay_call *call, const char *id, const cay__mani *f, const cay_create *c, const cay_provider_ops *ops, void *box,
                       cay_err *err)
{
    __attribute__((cleanup(cay__arena_clear))) cay__arena mem = { 0 };
    CAY__AUTOMOUNTS l = { .svc = svc, .f = f, .mem = &mem, .err = err };
    if (!f->m || !cay__mounts_by_container(ops->name))
        return 0;
    CAY_TRY(cay__mounts_read(&l));
    if (!l.n)
        return 0;
    inside in = { .sb = cay__sandbox_new(ops, id, box), .call = call, .id = id, .mem = &mem };
    int rc = check_users(&in, &l, c, err);
    /* Deepest first is how they are taken away; the other way round they are put in. */
    for (in.index = l.n; in.index-- > 0 && rc == 0;)
        rc = mount_one(&in, &l.m[in.index], err);
    in.sb->box = NULL; /* the caller's */
    cay_sandbox_unref(in.sb);
    return rc;
}
