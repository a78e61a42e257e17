/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshot stores: a directory, an HTTP server that takes PUT and GET, an S3 bucket by rclone. An
 * archive is made whole in a file without a name first, so that a store sees all of it or nothing;
 * what comes from one is whole before it is imported.
 */
#include <lib/client/remote.h>
#include "archive.h"
#include <lib/client/secret.h>
#include <proto/item.h>
#include <base/fault.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define ARCHIVE_MAX (2ull << 30) /* what cay-unpack reads */
#define SUFFIX      ".tar.zst"

typedef enum place { PLACE_PATH, PLACE_HTTP, PLACE_S3 } place;

static place place_of(const char *url)
{
    if (cay__str_starts(url, "http://") || cay__str_starts(url, "https://"))
        return PLACE_HTTP;
    if (cay__str_starts(url, "s3://"))
        return PLACE_S3;
    return PLACE_PATH;
}

static int open_temp_file(cay_client *client, int *out, cay_err *err)
{
    const char *tmp = getenv("TMPDIR"),
               *there = cay__text_or(
                   tmp, "/tmp"); /* a server's snapshots have no state directory here */
    if (client->remote)
        *out = open(there, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    else
        *out = openat(client->home_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (*out < 0)
        return cay_fail_sys(err, "a file for the archive in %s",
                            client->remote ? there : client->home);
    return 0;
}

typedef struct program {
    const char *const *argv;
    int in, out, headers; /* -1: none */
    int pid;
} program;

static int spawn_program(program *p, char **env, cay_err *err)
{
    posix_spawn_file_actions_t acts;
    posix_spawnattr_t attr;
    sigset_t none, dfl;
    sigemptyset(&none);
    sigemptyset(&dfl);
    sigaddset(&dfl, SIGPIPE);
    posix_spawn_file_actions_init(&acts);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &dfl);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    int nul = open("/dev/null", O_RDWR | O_CLOEXEC);
    posix_spawn_file_actions_adddup2(&acts, p->in >= 0 ? p->in : nul, 0);
    posix_spawn_file_actions_adddup2(&acts, p->out >= 0 ? p->out : nul, 1);
    if (p->headers >= 0)
        posix_spawn_file_actions_adddup2(&acts, p->headers, 3);
    errno = posix_spawnp(&p->pid, p->argv[0], &acts, &attr, (char *const *)(uintptr_t)p->argv, env);
    int e = errno;
    posix_spawn_file_actions_destroy(&acts);
    posix_spawnattr_destroy(&attr);
    cay__close_fd(&nul);
    errno = e;
    if (e == ENOENT)
        return cay_fail_why(err, CAY_ENOENT, "program_missing", "%s is not installed", p->argv[0]);
    if (e)
        return cay_fail_sys(err, "start %s", p->argv[0]);
    return 0;
}

/* Its status; a call that is over ends it. */
static int await_program(program *p, const cay_call *call, int *status, cay_err *err)
{
    int st = 0;
    CAY_AUTOFD pidfd = (int)syscall(SYS_pidfd_open, p->pid, 0);
    int rc = cay__call_wait(call, pidfd, POLLIN, p->argv[0], err);
    if (rc < 0)
        kill(p->pid, SIGKILL);
    while (waitpid(p->pid, &st, 0) < 0 && errno == EINTR)
        ;
    if (WIFEXITED(st))
        *status = WEXITSTATUS(st);
    else
        *status = 128 + WTERMSIG(st);
    return rc;
}

static int write_headers(cay_client *client, const char *auth, int *out, cay_err *err)
{
    cay__value v = { 0 };
    *out = -1;
    if (!auth)
        return 0;
    CAY_TRY(cay__secret_source_check("auth", auth, err));
    CAY_TRY(cay__secret_read(client, "auth", auth, &v, err));
    CAY_AUTOFD fd = memfd_create("headers", MFD_CLOEXEC);
    bool ok = fd >= 0 && !memchr(v.data, '\n', v.len) &&
              cay__fd_write_all(fd, "Authorization: ", 15) &&
              cay__fd_write_all(fd, v.data, v.len) && lseek(fd, 0, SEEK_SET) == 0;
    cay__value_wipe(&v);
    if (!ok)
        return cay_fail_why(err, CAY_EINVAL, "secret_invalid", "%.60s is no header of one line",
                            auth);
    *out = CAY_STEAL_FD(fd);
    return 0;
}

static int read_answer(int fd, int body, uint64_t *status, cay_err *err)
{
    cay__items_in in;
    cay__item it = { 0 };
    const char *p;
    size_t n = 0;
    int rc = 0;
    cay__items_open(&in, fd);
    while (rc == 0 && it.type != CAY__ITEM_END) {
        rc = cay__item_next(&in, &it, err);
        if (rc == 0 && it.type == CAY__ITEM_NOTE && !strcmp(it.path, "status"))
            cay__str_to_u64(it.extra, status);
        while (rc == 0 && it.type == CAY__ITEM_FILE &&
               (rc = cay__item_bytes(&in, &p, &n, err)) == 0 && n)
            if (body >= 0 && *status == 200 && !cay__fd_write_all(body, p, n))
                rc = cay_fail_sys(err, "keep the archive");
    }
    cay__items_close(&in);
    return rc;
}

static int transfer_http(cay_client *client, const cay_call *call, const cay_transfer *t, bool put,
                         int file, cay_err *err)
{
    char path[CAY__HOME_MAX], max[24];
    int pipe_[2], code;
    uint64_t status = 0;
    CAY_AUTOFD head = -1, rd = -1, wr = -1;
    CAY_TRY(write_headers(client, t->auth, &head, err));
    CAY_TRY(cay__libexec_find(client->libexec, "cay-fetch", path, sizeof path, err));
    CAY_TRY_SYS(pipe2(pipe_, O_CLOEXEC), err, "pipe");
    rd = pipe_[0];
    wr = pipe_[1];
    CAY_FORMAT(max, "%llu", ARCHIVE_MAX);
    const char *const up[] = { path, "put", t->url, NULL };
    const char *const down[] = { path, "get", t->url, max, NULL };
    program p = { .argv = down, .in = head, .out = wr, .headers = -1 };
    if (put) {
        p.argv = up;
        p.in = file;
        p.headers = head;
    }
    CAY_TRY(spawn_program(&p, environ, err));
    cay__close_fd(&wr);
    int rc = read_answer(rd, put ? -1 : file, &status, err);
    cay__close_fd(&rd);
    int ended = await_program(&p, call, &code, rc < 0 ? NULL : err);
    if (rc < 0)
        return cay_wrap(err, rc, "%.100s", t->url);
    CAY_TRY(ended);
    int failed = CAY_EUPSTREAM;
    if (status == 404)
        failed = CAY_ENOENT;
    else if (status == 401 || status == 403)
        failed = CAY_EAUTH;
    if (status < 200 || status > 204 || (!put && status != 200))
        return cay_fail_why(err, failed, "fetch_status", "%.120s: the server answered %llu", t->url,
                            (unsigned long long)status);
    return 0;
}

/* rclone's own configuration is not asked: credentials are those of the environment, as every S3
 * program takes them. */
static void s3_env(char **env, size_t room)
{
    size_t n = 0;
    for (char **e = environ; e && *e && n + 2 < room; e++)
        if (!cay__str_starts(*e, "AWS_CA_BUNDLE=") &&
            !cay__str_starts(*e, "RCLONE_")) /* the first makes this version fail at once */
            env[n++] = *e;
    env[n++] = "RCLONE_CONFIG=/dev/null";
    env[n] = NULL;
}

static int transfer_s3(const cay_call *call, const char *url, bool put, int file, cay_err *err)
{
    char remote[2300];
    char *env[512];
    const char *endpoint = getenv("AWS_ENDPOINT_URL"), *region = getenv("AWS_REGION"),
               *path = url + 5;
    int code;
    if (!*path || *path == '/' || !strchr(path, '/') || strpbrk(path, "\"'`\n") ||
        strlen(path) > 1500)
        return cay_fail_why(err, CAY_EINVAL, "store_url",
                            "%.100s: a store in S3 is s3://BUCKET/KEY", url);
    if (endpoint && strpbrk(endpoint, "\"'`\n"))
        return cay_fail_why(err, CAY_EINVAL, "store_url", "AWS_ENDPOINT_URL is no URL");
    CAY_FORMAT(remote, ":s3,env_auth=true,no_check_bucket=true,provider=%s%s%s%s%s%s:%s",
               endpoint ? "Other" : "AWS", CAY_TEXT_IF(endpoint, ",endpoint=\""),
               CAY_OR(endpoint, ""), CAY_TEXT_IF(endpoint, "\""), CAY_TEXT_IF(region, ",region="),
               CAY_OR(region, ""), path);
    s3_env(env, CAY_LEN(env));
    const char *const up[] = { "rclone", "rcat", "--quiet", "--", remote, NULL }, *const down[] = {
        "rclone", "cat", "--quiet", "--", remote, NULL
    };
    program p = { .argv = down, .in = -1, .out = file, .headers = -1 };
    if (put)
        p = (program){ .argv = up, .in = file, .out = -1, .headers = -1 };
    CAY_TRY(spawn_program(&p, env, err));
    CAY_TRY(await_program(&p, call, &code, err));
    if (code)
        return cay_fail_why(err, CAY_EUPSTREAM, "store_failed",
                            "rclone could not %s %.120s (status %d)", put ? "write" : "read", url,
                            code);
    /* It reads a key that is not there as nothing, and calls that success. */
    if (!put && lseek(file, 0, SEEK_END) == 0)
        return cay_fail_why(err, CAY_ENOENT, "store_failed", "there is nothing at %.120s", url);
    return 0;
}

static int transfer_file(cay_client *client, const cay_call *call, const cay_transfer *t, bool put,
                         int file, cay_err *err)
{
    if (place_of(t->url) == PLACE_HTTP)
        return transfer_http(client, call, t, put, file, err);
    return transfer_s3(call, t->url, put, file, err);
}

static int path_open(const char *url, const char *id, char *path, size_t cap, int *dir,
                     const char **name, cay_err *err)
{
    struct stat st;
    bool is_dir = stat(url, &st) == 0 && S_ISDIR(st.st_mode);
    if (!(is_dir ? cay__str_join(path, cap, url, "/", id, SUFFIX, NULL)
                 : cay__str_copy(path, cap, url)))
        return cay_fail_why(err, CAY_EINVAL, "store_url", "%.100s: the path is too long", url);
    char *slash = strrchr(path, '/');
    *name = CAY_OR(CAY_IF(slash, slash + 1), path);
    if (slash)
        *slash = 0;
    *dir = open(!slash ? "." : cay__text_or(path, "/"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (slash)
        *slash = '/';
    if (*dir < 0 || !**name)
        return cay_fail_sys(err, "open the directory of %.150s", path);
    return 0;
}

/* On the disk, then under its name, at once. */
int cay__path_put(int dir, const char *name, int file, cay_err *err)
{
    char temp[64], id[CAY__ID_LEN + 1], self[64];
    CAY_FORMAT(self, "/proc/self/fd/%d", file);
    cay__id_make(id, 'f');
    CAY_JOIN(temp, ".", id, ".part");
    if (fsync(file) < 0 || linkat(AT_FDCWD, self, dir, temp, AT_SYMLINK_FOLLOW) < 0)
        return cay_fail_sys(err, "keep %.150s", name);
    CAY_FAULT("push.linked");
    if (renameat(dir, temp, dir, name) < 0) {
        cay_fail_sys(err, "keep %.150s", name);
        unlinkat(dir, temp, 0);
        return CAY_ESYS;
    }
    fsync(dir);
    return 0;
}

static int push_path(cay_client *client, const cay_call *call, const cay_export *spec,
                     const char *url, char **where, cay_archived *out, cay_err *err)
{
    char path[4096];
    const char *name = "";
    CAY_AUTOPTR(cay_snapshot) s = NULL;
    CAY_AUTOFD dir = -1;
    /* A sandbox has no id for its archive before it is taken; its own will do. */
    const char *id = spec->ref;
    if (cay_client_snapshot(client, call, spec->ref, &s, NULL) == 0)
        id = s->id;
    CAY_TRY(path_open(url, id, path, sizeof path, &dir, &name, err));
    CAY_AUTOFD file = openat(dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0644);
    if (file < 0)
        return cay_fail_sys(err, "a file in the directory of %.150s", path);
    CAY_TRY(cay_client_export(client, call, spec, file, out, err));
    CAY_FAULT("push.made");
    CAY_TRY(cay__path_put(dir, name, file, err));
    if (where)
        *where = cay__strdup(path);
    return 0;
}

static int check_spec(const cay_transfer *given, cay_transfer *t, cay_err *err)
{
    CAY_TRY(cay__spec_take(t, sizeof *t, given, "cay_transfer", err));
    if (!t->url || !*t->url || *t->url == '-')
        return cay_fail_why(err, CAY_EINVAL, "store_url",
                            "name a store: a directory, http://…, https://… or s3://BUCKET/KEY");
    if (t->auth && place_of(t->url) != PLACE_HTTP)
        return cay_fail_why(err, CAY_EINVAL, "store_url", "auth is for http and https");
    return 0;
}

int cay_snapshot_push(cay_client *client, const cay_call *call, const cay_export *spec,
                      const cay_transfer *given, char **where, cay_archived *out, cay_err *err)
{
    cay_transfer t;
    CAY_AUTOFD file = -1;
    CAY_TRY(check_spec(given, &t, err));
    if (place_of(t.url) == PLACE_PATH)
        return push_path(client, call, spec, t.url, where, out, err);
    CAY_TRY(open_temp_file(client, &file, err));
    CAY_TRY(cay_client_export(client, call, spec, file, out, err));
    CAY_FAULT("push.made");
    if (lseek(file, 0, SEEK_SET) != 0)
        return cay_fail_sys(err, "read the archive");
    CAY_TRY(transfer_file(client, call, &t, true, file, err));
    if (where)
        *where = cay__strdup(t.url);
    return 0;
}

int cay_snapshot_pull(cay_client *client, const cay_call *call, const cay_import *spec,
                      const cay_transfer *given, cay_snapshot **out, cay_err *err)
{
    cay_transfer t;
    CAY_AUTOFD file = -1;
    CAY_TRY(check_spec(given, &t, err));
    if (place_of(t.url) == PLACE_PATH) {
        file = open(t.url, O_RDONLY | O_CLOEXEC);
        if (file < 0)
            return cay_fail_sys(err, "open %.150s", t.url);
        return cay_client_import(client, call, spec, file, out, err);
    }
    CAY_TRY(open_temp_file(client, &file, err));
    CAY_TRY(transfer_file(client, call, &t, false, file, err));
    CAY_FAULT("pull.whole");
    if (lseek(file, 0, SEEK_SET) != 0)
        return cay_fail_sys(err, "read the archive");
    return cay_client_import(client, call, spec, file, out, err);
}

int cay_store_put(cay_client *client, const cay_call *call, const cay_transfer *given,
                  const void *data, size_t len, cay_err *err)
{
    cay_transfer t;
    char path[4096];
    const char *name = "";
    CAY_AUTOFD file = -1, dir = -1;
    CAY_TRY(check_spec(given, &t, err));
    if (place_of(t.url) == PLACE_PATH) {
        CAY_TRY(path_open(t.url, "bytes", path, sizeof path, &dir, &name, err));
        file = openat(dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        if (file < 0)
            return cay_fail_sys(err, "a file in the directory of %.150s", path);
    } else {
        CAY_TRY(open_temp_file(client, &file, err));
    }
    if (!cay__fd_write_all(file, data, len) || lseek(file, 0, SEEK_SET) != 0)
        return cay_fail_sys(err, "keep what is to be sent");
    if (place_of(t.url) == PLACE_PATH)
        return cay__path_put(dir, name, file, err);
    return transfer_file(client, call, &t, true, file, err);
}

int cay_store_get(cay_client *client, const cay_call *call, const cay_transfer *given, size_t max,
                  char **data, size_t *len, cay_err *err)
{
    cay_transfer t;
    struct stat st;
    CAY_AUTOFD file = -1;
    CAY_TRY(check_spec(given, &t, err));
    if (place_of(t.url) == PLACE_PATH) {
        file = open(t.url, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (file < 0) {
            if (errno == ENOENT)
                return cay_fail_why(err, CAY_ENOENT, "store_failed", "there is nothing at %.150s",
                                    t.url);
            return cay_fail_sys(err, "open %.150s", t.url);
        }
    } else {
        CAY_TRY(open_temp_file(client, &file, err));
        CAY_TRY(transfer_file(client, call, &t, false, file, err));
    }
    if (fstat(file, &st) < 0 || !S_ISREG(st.st_mode) || lseek(file, 0, SEEK_SET) != 0)
        return cay_fail_why(err, CAY_ETYPE, "store_failed", "%.150s is no file", t.url);
    if ((uint64_t)st.st_size > max)
        return cay_fail_why(err, CAY_ETOOBIG, "store_failed", "%.150s is larger than %zu bytes",
                            t.url, max);
    CAY_AUTOFREE char *all = cay__alloc((size_t)st.st_size + 1);
    ssize_t n = cay__fd_read_all(file, all, (size_t)st.st_size);
    if (n < 0)
        return cay_fail_sys(err, "read %.150s", t.url);
    *len = (size_t)n;
    *data = CAY_STEAL(all);
    return 0;
}
