/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets of the store: encrypted by cay-seal under a key that is not in the state directory. */
#include "remote.h"
#include "secret.h"
#include <base/json.h>
#include <base/path.h>
#include <cay/policy.h>
#include <limits.h>
#include <policy/binding.h>
#include <spawn.h>
#include <sys/wait.h>

#define KEY_BYTES 32

static int no_key(const char *path, const char *why, cay_err *err)
{
    return cay_fail_why(err, CAY_ENOENT, "secret_key", "the key of stored secrets, %.120s: %s",
                        path, why);
}

static int key_path(char *out, size_t cap, cay_err *err)
{
    const char *given = getenv("CAY_SECRET_KEY"), *creds = getenv("CREDENTIALS_DIRECTORY"),
               *conf = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    bool fits;
    if (given && *given)
        fits = cay__str_copy(out, cap, given);
    else if (creds && *creds && cay__str_join(out, cap, creds, "/cay-secret-key", NULL) &&
             access(out, R_OK) == 0)
        fits = true;
    else if (geteuid() == 0)
        fits = cay__str_copy(out, cap, "/etc/cay/secret.key");
    else if (conf && *conf == '/')
        fits = cay__str_join(out, cap, conf, "/cay/secret.key", NULL);
    else
        fits =
            home && *home == '/' && cay__str_join(out, cap, home, "/.config/cay/secret.key", NULL);
    if (fits && *out == '/')
        return 0;
    return no_key("?", "set CAY_SECRET_KEY to the whole path of a file", err);
}

/* A key beside what it opens would protect nothing. */
static bool inside_home(const cay_client *client, const char *path)
{
    char dir[PATH_MAX], real[PATH_MAX];
    CAY_COPY(dir, path);
    char *slash = strrchr(dir, '/');
    if (slash > dir)
        *slash = '\0';
    size_t n = strlen(client->home);
    return realpath(dir, real) && !strncmp(real, client->home, n) && (!real[n] || real[n] == '/');
}

static int make_key(const char *path, cay_err *err)
{
    char dir[PATH_MAX], hex[2 * KEY_BYTES + 2];
    unsigned char key[KEY_BYTES];
    CAY_COPY(dir, path);
    for (char *c = dir + 1; *c; c++)
        if (*c == '/') {
            *c = '\0';
            /* The host's is for everybody: the operator's rules are beside the key, which nobody
             * else may read. */
            if (mkdir(dir, geteuid() == 0 ? 0755 : 0700) < 0 && errno != EEXIST)
                return cay_fail_sys(err, "make %s", dir);
            *c = '/';
        }
    cay__random(key, sizeof key);
    cay__hex_put(hex, key, KEY_BYTES);
    hex[2 * KEY_BYTES] = '\n';
    CAY_AUTOFD fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool done = fd >= 0 && cay__fd_write_all(fd, hex, 2 * KEY_BYTES + 1) && fsync(fd) == 0;
    explicit_bzero(key, sizeof key);
    explicit_bzero(hex, sizeof hex);
    if (done || errno == EEXIST)
        return 0;
    return cay_fail_sys(err, "make %s", path);
}

static int open_key(const cay_client *client, bool make, int *out, cay_err *err)
{
    char path[PATH_MAX];
    struct stat st;
    CAY_TRY(key_path(path, sizeof path, err));
    if (inside_home(client, path))
        return no_key(path, "it is inside the state directory; keep it elsewhere", err);
    CAY_AUTOFD fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT && make) {
        CAY_TRY(make_key(path, err));
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    }
    if (fd < 0)
        return no_key(path, errno == ENOENT ? "there is none" : "it cannot be read", err);
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (st.st_uid != geteuid() && st.st_uid != 0) ||
        st.st_mode & 077)
        return no_key(path, "it must be a file of yours that nobody else may read: chmod 600", err);
    *out = CAY_STEAL_FD(fd);
    return 0;
}

/* cay-seal between two memory files. */
static int run_seal(cay_client *client, const char *verb, const char *name, int key, int in,
                    int out, cay_err *err)
{
    char path[PATH_MAX];
    char *argv[] = { "cay-seal", (char *)verb, (char *)name, NULL }, *env[] = { NULL };
    posix_spawn_file_actions_t acts;
    pid_t pid;
    int status = -1;
    CAY_TRY(cay__libexec_find(client->libexec, "cay-seal", path, sizeof path, err));
    /* Each descriptor from a number that no target has: dup2 onto itself would keep close-on-exec.
     */
    CAY_AUTOFD a = fcntl(in, F_DUPFD_CLOEXEC, 10), b = fcntl(out, F_DUPFD_CLOEXEC, 10),
               k = fcntl(key, F_DUPFD_CLOEXEC, 10);
    if (a < 0 || b < 0 || k < 0)
        return cay_fail_sys(err, "start cay-seal");
    lseek(a, 0, SEEK_SET);
    posix_spawn_file_actions_init(&acts);
    posix_spawn_file_actions_adddup2(&acts, a, 0);
    posix_spawn_file_actions_adddup2(&acts, b, 1);
    posix_spawn_file_actions_adddup2(&acts, k, 3);
    errno = posix_spawn(&pid, path, &acts, NULL, argv, env);
    posix_spawn_file_actions_destroy(&acts);
    if (errno)
        return cay_fail_sys(err, "start %s", path);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    switch (WIFEXITED(status) ? WEXITSTATUS(status) : -1) {
    case 0: return 0;
    case 2: return no_key("its file", "it does not hold 64 hex digits", err);
    case 3: return no_key("its file", "the secret was sealed under another key", err);
    default:
        return cay_fail_why(err, CAY_ESYS, "secret_key", "cay-seal could not %s secret %s", verb,
                            name);
    }
}

static int read_sealed(int fd, cay__value *out, cay_err *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0 || st.st_size > 2 * (off_t)CAY__SECRET_MAX)
        return cay_fail_sys(err, "read what cay-seal wrote");
    char *data = cay__alloc((size_t)st.st_size + 1);
    if (pread(fd, data, (size_t)st.st_size, 0) != st.st_size) {
        free(data);
        return cay_fail_sys(err, "read what cay-seal wrote");
    }
    *out = (cay__value){ data, (size_t)st.st_size };
    return 0;
}

static int check_name(const char *name, cay_err *err)
{
    if (cay__secret_name_ok(name))
        return 0;
    return cay_fail_why(err, CAY_EINVAL, "secret_invalid",
                        "secret \"%.40s\": its name has letters, digits and '_', at most 63", name);
}

int cay__vault_put(cay_client *client, const char *space, const char *name, const void *value,
                   size_t len, cay_err *err)
{
    CAY_AUTOFD key = -1, in = cay__memfd("cay-secret"), out = cay__memfd("cay-sealed");
    CAY_AUTOFREE char *hex = NULL, *text = NULL;
    cay__value sealed = { 0 };
    if (!len || len > CAY__SECRET_MAX)
        return cay_fail_why(err, len ? CAY_ETOOBIG : CAY_EINVAL, "secret_invalid",
                            "secret %s: its value has 1 to %u bytes", name, CAY__SECRET_MAX);
    for (size_t i = 0; i < len; i++)
        if (((const unsigned char *)value)[i] < 0x20 || ((const unsigned char *)value)[i] == 0x7f)
            return cay_fail_why(
                err, CAY_EINVAL, "secret_invalid",
                "secret %s: its value has a control character; it has to be one line", name);
    if (in < 0 || out < 0 || !cay__fd_write_all(in, value, len))
        return cay_fail_sys(err, "secret %s", name);
    CAY_TRY(open_key(client, true, &key, err));
    CAY_TRY(run_seal(client, "seal", name, key, in, out, err));
    CAY_TRY(read_sealed(out, &sealed, err));
    hex = cay__alloc(2 * sealed.len + 1);
    cay__hex_put(hex, sealed.data, sealed.len);
    cay__value_wipe(&sealed);
    CAY_AUTOJSON *o =
        json_pack("{s:s,s:I}", "sealed", hex, "changed_ms", (json_int_t)cay__clock_ms());
    if (!(text = cay__json_text(o, 8 * CAY__SECRET_MAX)))
        return cay_fail(err, CAY_ETOOBIG, "secret %s is too long", name);
    return CAY__STORE(client, note_put, space, name, text, err);
}

int cay_secret_put(cay_client *client, const char *name, const void *value, size_t len,
                   cay_err *err)
{
    if (client->remote) {
        cay__secret_body body = { .base64 = value, .base64_len = len };
        return CAY__REMOTE_DO(client->remote, err, secret_put, .path = { name }, .body = &body);
    }
    CAY_TRY(check_name(name, err));
    return cay__vault_put(client, CAY__NOTE_SECRET, name, value, len, err);
}

static int no_secret(const char *name, cay_err *err)
{
    return cay_fail_why(err, CAY_ENOENT, "secret_unknown",
                        "no stored secret %s; `cay secret set %s` keeps one", name, name);
}

int cay__vault_open(cay_client *client, const char *space, const char *name, cay__value *out,
                    cay_err *err)
{
    CAY_AUTOFD key = -1, in = cay__memfd("cay-sealed"), to = cay__memfd("cay-secret");
    CAY_AUTOFREE char *text = NULL;
    CAY_AUTOJSON *o = NULL;
    CAY_TRY(cay__note_text(client, space, name, &text, err));
    CAY_TRY(cay__json_object("stored secret", text, &o, err));
    const char *hex = cay__json_str(o, "sealed", "");
    size_t n = strlen(hex) / 2;
    CAY_AUTOFREE char *sealed = cay__alloc(n + 1);
    if (in < 0 || to < 0)
        return cay_fail_sys(err, "secret %s", name);
    if (!cay__hex_get(sealed, hex, n) || !cay__fd_write_all(in, sealed, n))
        return cay_fail_why(err, CAY_ESTATE, "secret_key",
                            "stored secret %s is damaged; set it again", name);
    CAY_TRY(open_key(client, false, &key, err));
    CAY_TRY(run_seal(client, "open", name, key, in, to, err));
    return read_sealed(to, out, err);
}

int cay__secret_open(cay_client *client, const char *name, cay__value *out, cay_err *err)
{
    CAY_TRY(check_name(name, err));
    int rc = cay__vault_open(client, CAY__NOTE_SECRET, name, out, err);
    if (rc == CAY_ENOENT && err && !cay_err_is(err, CAY_REASON_SECRET_KEY))
        return no_secret(name, err);
    return rc;
}

int cay_secret_remove(cay_client *client, const char *name, cay_err *err)
{
    if (client->remote)
        return CAY__REMOTE_DO(client->remote, err, secret_delete, .path = { name });
    CAY_AUTOFREE char *text = NULL;
    CAY_TRY(check_name(name, err));
    int rc = cay__note_text(client, CAY__NOTE_SECRET, name, &text, err);
    if (rc < 0) {
        if (rc == CAY_ENOENT)
            return no_secret(name, err);
        return rc;
    }
    return CAY__STORE(client, note_put, CAY__NOTE_SECRET, name, NULL, err);
}

typedef struct listing {
    int (*fn)(const char *name, int64_t changed_ms, void *arg);
    void *arg;
} listing;

static int on_note(const char *key, const char *value, void *arg)
{
    listing *l = arg;
    CAY_AUTOJSON *o = NULL;
    int64_t when = 0;
    if (cay__json_object("stored secret", value, &o, NULL) == 0)
        when = cay__json_int(o, "changed_ms", 0);
    return l->fn(key, when, l->arg);
}

static int on_remote_secret(const cay__secret_told *s, void *arg)
{
    const listing *l = arg;
    return l->fn(s->name, s->changed_ms, l->arg);
}

int cay_secret_list(cay_client *client, int (*fn)(const char *name, int64_t changed_ms, void *arg),
                    void *arg, cay_err *err)
{
    listing l = { fn, arg };
    if (client->remote)
        return CAY__REMOTE_EACH(cay__secret_told, client->remote, NULL, CAY__REQUEST(secret_list),
                                on_remote_secret, &l, err);
    return CAY__STORE(client, note_list, CAY__NOTE_SECRET, "", on_note, &l, err);
}
