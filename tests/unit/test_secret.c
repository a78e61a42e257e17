/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets on their way: read from their sources, handed over in one sealed file, and nowhere else.
 */
#include "fake.h"
#include "home.h"
#include <sys/mman.h>

#define SENTINEL "s3ntinel-4711"
static char *keys;
static struct {
    char values[4096], bound[2048], policy[2048], created_net[2048], env[4096], files[512];
    size_t len;
    unsigned times, puts;
} got;

static int on_secrets(void *box, const cay_call *call, const char *text, size_t len, int values,
                      int *trust, cay_err *err)
{
    (void)box, (void)call, (void)len, (void)err;
    int seals = fcntl(values, F_GET_SEALS);
    assert_true(seals & F_SEAL_WRITE && seals & F_SEAL_GROW);
    cay__str_copy(got.bound, sizeof got.bound, text);
    got.len = (size_t)pread(values, got.values, sizeof got.values, 0);
    got.times++;
    int fd = memfd_create("trust", MFD_CLOEXEC);
    uint32_t head[2] = { 6, 3 };
    assert_int_equal(write(fd, head, sizeof head), sizeof head);
    assert_int_equal(write(fd, "ca.pempem", 9), 9);
    *trust = fd;
    return 0;
}

static int on_policy(void *box, const cay_call *call, const char *text, size_t len,
                     uint64_t *revision, cay_err *err)
{
    (void)box, (void)call, (void)len, (void)err;
    cay__str_copy(got.policy, sizeof got.policy, text);
    *revision = 1;
    return 0;
}

static int on_policy_get(void *box, const cay_call *call, char **text, size_t *len,
                         uint64_t *revision, cay_err *err)
{
    (void)box, (void)call, (void)err;
    *text = cay__strdup(got.policy);
    *len = strlen(*text);
    *revision = 1;
    return 0;
}

static int on_put(void *box, const cay_call *call, const char *path, const void *data, size_t len,
                  const cay_write *spec, cay_err *err)
{
    (void)box, (void)call, (void)data, (void)len, (void)spec, (void)err;
    got.puts++;
    cay__str_copy(got.files, sizeof got.files, path);
    return 0;
}

static void note_spec(const cay_create *c)
{
    cay__str_copy(got.created_net, sizeof got.created_net, c->net.policy ? c->net.policy : "");
    got.env[0] = 0;
    for (const cay_pair *e = c->process.env; e && e->key; e++) {
        size_t n = strlen(got.env);
        snprintf(got.env + n, sizeof got.env - n, "%s=%s\n", e->key, e->value);
    }
}

static int on_create(void *self, const cay_call *call, const char *id, const cay_box_spec *spec,
                     void **box, cay_err *err)
{
    note_spec(spec->create);
    return fake_create(self, call, id, spec, box, err);
}

static int on_start(void *self, const cay_call *call, const char *id, const cay_box_spec *spec,
                    void **box, cay_err *err)
{
    note_spec(spec->create);
    return fake_start(self, call, id, spec, box, err);
}

static cay_provider_ops ops;
static const cay_provider_ops *const list[] = { &ops, &fake_ops, NULL };

static int set_up(void **s)
{
    memset(&fake, 0, sizeof fake);
    memset(&got, 0, sizeof got);
    ops = fake_ops;
    ops.name = "vault";
    ops.create = on_create;
    ops.start = on_start;
    ops.policy = on_policy;
    ops.policy_get = on_policy_get;
    ops.secrets = on_secrets;
    ops.put = on_put;
    keys = support_home();
    return keys ? home_up(s) : -1;
}

static int tear_down(void **s)
{
    home_down(s);
    support_home_remove(keys);
    return fake.boxes || fake.opened ? -1 : 0;
}

static cay_client *open_svc(void)
{
    return home_open("vault", list);
}

static void put_file(const char *dir, const char *name, const char *text, mode_t mode)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    CAY_AUTOFD fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, mode);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static bool found_in(const char *dir, const char *what)
{
    bool found = false;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[700];
        static char text[1 << 20];
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        CAY_AUTOFD fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd >= 0 ? read(fd, text, sizeof text) : 0;
        found |= n > 0 && memmem(text, (size_t)n, what, strlen(what));
    }
    if (d)
        closedir(d);
    return found;
}

#define NET "cay-net 1\nmode rules\nrule api.example\nrule git.example\n"

static void values_come_from_sources_and_stay_nowhere(void **st)
{
    (void)st;
    cay_client *client = open_svc();
    cay_sandbox *sb = NULL;
    cay_err err = CAY_ERR_INIT;
    char file[100];
    snprintf(file, sizeof file, "file:%s/value", keys);
    put_file(keys, "value", SENTINEL "-file\r\n", 0600);
    put_file(home, "secrets.conf", "# ours\ncmd mine /bin/echo " SENTINEL "-cmd $HOME\n", 0600);
    setenv("TEST_SECRET", SENTINEL "-env", 1);
    cay_secret s[] = { { "A", "env:TEST_SECRET", "api.example/a" },
                       { "B", file, "api.example/b,header:X-Key" },
                       { "C", "cmd:mine", "git.example,basic:me" },
                       { "A", "env:TEST_SECRET", "api.example/c" } };
    const cay_pair env[] = { { "PIP_CERT", "/own" }, { NULL, NULL } };
    cay_create c = {
        .size = sizeof c, .net.policy = NET, .net.secrets = s, .net.nsecrets = 4, .process.env = env
    };
    if (cay_client_create(client, NULL, &c, &sb, &err) < 0)
        fail_msg("%s", err.msg);
    assert_non_null(memmem(got.values, got.len, SENTINEL "-env", strlen(SENTINEL "-env")));
    assert_non_null(memmem(got.values, got.len, SENTINEL "-file", strlen(SENTINEL "-file")));
    assert_null(memmem(got.values, got.len, "\r", 1));
    assert_non_null(memmem(got.values, got.len, SENTINEL "-cmd $HOME",
                           strlen(SENTINEL "-cmd $HOME"))); /* no shell */
    assert_null(strstr(got.created_net, "bind"));           /* not before the values are there */
    assert_non_null(strstr(got.bound, "bind A https://api.example:443/a,bearer"));
    assert_string_equal(got.policy, got.bound);
    assert_non_null(strstr(got.env, "A=cay-secret-v"));
    assert_non_null(strstr(got.env, "SSL_CERT_FILE=/etc/cay/bundle.pem"));
    assert_true(strstr(got.env, "PIP_CERT=/own") > strstr(got.env, "PIP_CERT=/etc/cay/bundle.pem"));
    assert_null(strstr(got.env, SENTINEL));
    assert_string_equal(got.files, "/etc/cay/ca.pem");
    char placeholder[64];
    snprintf(placeholder, sizeof placeholder, "%.33s", strstr(got.env, "A=cay-secret-v"));
    /* Started again: the same placeholder, the values of now. */
    setenv("TEST_SECRET", SENTINEL "-new", 1);
    assert_int_equal(cay_sandbox_kill(sb, NULL, &err), 0);
    if (cay_sandbox_resume(sb, NULL, &err) < 0)
        fail_msg("%s", err.msg);
    assert_non_null(strstr(got.env, placeholder));
    assert_non_null(memmem(got.values, got.len, SENTINEL "-new", strlen(SENTINEL "-new")));
    assert_null(strstr(got.created_net, "bind"));
    /* And renewed while it runs. */
    setenv("TEST_SECRET", SENTINEL "-third", 1);
    assert_int_equal(cay_sandbox_renew_secrets(sb, NULL, &err), 0);
    assert_non_null(memmem(got.values, got.len, SENTINEL "-third", strlen(SENTINEL "-third")));
    assert_int_equal(got.times, 3);
    char conf[128];
    snprintf(conf, sizeof conf, "%s/secrets.conf", home);
    unlink(conf);
    assert_false(found_in(home, SENTINEL));
    /* A source that is gone: it stays stopped, and says which. */
    unsetenv("TEST_SECRET");
    assert_int_equal(cay_sandbox_kill(sb, NULL, &err), 0);
    assert_int_equal(cay_sandbox_resume(sb, NULL, &err), CAY_ENOENT);
    assert_string_equal(err.reason, "secret_unreadable");
    assert_non_null(strstr(err.msg, "TEST_SECRET"));
    assert_int_equal(cay_sandbox_remove(sb, NULL, &err), 0);
    cay_sandbox_unref(sb);
    cay_client_close(client);
}

static void bad_secrets_make_nothing(void **st)
{
    (void)st;
    setenv("TEST_SECRET", "x", 1);
    setenv("TEST_LINES", "a\nb", 1);
    static const struct {
        const char *provider, *net;
        cay_secret s[2];
        const char *reason;
    } cases[] = {
        { NULL, NET, { { "A", "env:TEST_SECRET", "other.example" } }, "secret_without_rule" },
        { NULL, NULL, { { "A", "env:TEST_SECRET", "api.example" } }, "secret_without_rule" },
        { NULL, NET, { { "A-B", "env:TEST_SECRET", "api.example" } }, "secret_invalid" },
        { NULL, NET, { { "A", "TEST_SECRET", "api.example" } }, "secret_invalid" },
        { NULL, NET, { { "A", "env:", "api.example" } }, "secret_invalid" },
        { NULL, NET, { { "A", "file:relative", "api.example" } }, "secret_invalid" },
        { NULL, NET, { { "A", "env:TEST_LINES", "api.example" } }, "secret_invalid" },
        { NULL, NET, { { "A", "env:TEST_NOT_SET", "api.example" } }, "secret_unreadable" },
        { NULL, NET, { { "A", "file:/nonexistent", "api.example" } }, "secret_unreadable" },
        { NULL, NET, { { "A", "file:/dev/zero", "api.example" } }, "secret_unreadable" },
        { NULL, NET, { { "A", "cmd:none", "api.example" } }, "secret_unreadable" },
        { NULL, NET, { { "A", "store:NONE", "api.example" } }, "secret_unknown" },
        { NULL,
          NET,
          { { "A", "env:TEST_SECRET", "api.example" }, { "B", "env:TEST_SECRET", "api.example" } },
          "secret_conflict" },
        { NULL,
          NET,
          { { "A", "env:TEST_SECRET", "api.example/a" }, { "A", "env:OTHER", "api.example/b" } },
          "secret_conflict" },
        { NULL,
          NET "bind Z api.example\n",
          { { "A", "env:TEST_SECRET", "git.example" } },
          "secret_unknown" },
        { "fake", NULL, { { "A", "env:TEST_SECRET", NULL } }, "not_supported" },
    };
    cay_client *client = open_svc();
    for (size_t i = 0; i < CAY_LEN(cases); i++) {
        cay_sandbox *sb = NULL;
        cay_err err = CAY_ERR_INIT;
        cay_create c = { .size = sizeof c,
                         .provider = cases[i].provider,
                         .net.policy = cases[i].net,
                         .net.secrets = cases[i].s,
                         .net.nsecrets = cases[i].s[1].name ? 2 : 1 };
        int rc = cay_client_create(client, NULL, &c, &sb, &err);
        if (rc >= 0 || strcmp(err.reason, cases[i].reason) != 0)
            fail_msg("%zu: %d %s: %s", i, rc, err.reason, err.msg);
    }
    cay_err err = CAY_ERR_INIT;
    cay_sandbox *sb = NULL;
    cay_create bound = { .size = sizeof bound, .net.policy = NET "bind Z api.example\n" };
    assert_int_equal(cay_client_create(client, NULL, &bound, &sb, &err), CAY_ENOENT);
    assert_string_equal(err.reason, "secret_unknown");
    cay_client_close(client);
}

static int count(const char *name, int64_t when, void *arg)
{
    assert_string_equal(name, "TOKEN");
    assert_true(when > 0);
    (*(int *)arg)++;
    return 0;
}

static void stored_secrets_need_their_key(void **st)
{
    (void)st;
    cay_client *client = open_svc();
    cay_sandbox *sb = NULL;
    cay_err err = CAY_ERR_INIT;
    char key[100], inside[100];
    int n = 0;
    snprintf(key, sizeof key, "%s/deep/secret.key", keys);
    snprintf(inside, sizeof inside, "%s/secret.key", home);
    setenv("CAY_SECRET_KEY", inside, 1);
    assert_int_equal(cay_secret_put(client, "TOKEN", SENTINEL, strlen(SENTINEL), &err), CAY_ENOENT);
    assert_string_equal(err.reason, "secret_key");
    setenv("CAY_SECRET_KEY", key, 1);
    if (cay_secret_put(client, "TOKEN", SENTINEL, strlen(SENTINEL), &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(cay_secret_put(client, "TOKEN", "a\nb", 3, &err), CAY_EINVAL);
    assert_int_equal(cay_secret_put(client, "NO-NAME", "a", 1, &err), CAY_EINVAL);
    assert_int_equal(cay_secret_list(client, count, &n, &err), 0);
    assert_int_equal(n, 1);
    assert_false(found_in(home, SENTINEL));
    cay_secret s = { "A", "store:TOKEN", "api.example" };
    cay_create c = { .size = sizeof c, .net.policy = NET, .net.secrets = &s, .net.nsecrets = 1 };
    if (cay_client_create(client, NULL, &c, &sb, &err) < 0)
        fail_msg("%s", err.msg);
    assert_non_null(memmem(got.values, got.len, SENTINEL, strlen(SENTINEL)));
    assert_int_equal(chmod(key, 0644), 0);
    assert_int_equal(cay_sandbox_renew_secrets(sb, NULL, &err), CAY_ENOENT);
    assert_non_null(strstr(err.msg, "chmod 600"));
    char other[2 * 32 + 1];
    memset(other, 'a', sizeof other - 1), other[sizeof other - 1] = 0;
    assert_int_equal(unlink(key), 0);
    assert_int_equal(cay_sandbox_renew_secrets(sb, NULL, &err), CAY_ENOENT);
    snprintf(key, sizeof key, "%s/deep", keys);
    put_file(key, "secret.key", other, 0600);
    assert_int_equal(cay_sandbox_renew_secrets(sb, NULL, &err), CAY_ENOENT);
    assert_non_null(strstr(err.msg, "another key"));
    put_file(key, "secret.key", "short", 0600);
    assert_int_equal(cay_sandbox_renew_secrets(sb, NULL, &err), CAY_ENOENT);
    assert_non_null(strstr(err.msg, "64 hex"));
    assert_int_equal(cay_secret_remove(client, "TOKEN", &err), 0);
    assert_int_equal(cay_secret_remove(client, "TOKEN", &err), CAY_ENOENT);
    assert_int_equal(cay_sandbox_remove(sb, NULL, &err), 0);
    cay_sandbox_unref(sb);
    cay_client_close(client);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(values_come_from_sources_and_stay_nowhere),
        T(bad_secrets_make_nothing),
        T(stored_secrets_need_their_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
