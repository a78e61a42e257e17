/* SPDX-License-Identifier: Apache-2.0 */
#include "fake.h"
#include "home.h"
#include <base/fault.h>
#include <pthread.h>
#include <lib/manifest/client_manifest.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>

static int set_up(void **s)
{
    memset(&fake, 0, sizeof fake);
    return home_up(s);
}

static int tear_down(void **s)
{
    home_down(s);
    return fake.boxes || fake.opened ? -1 : 0; /* every handle came back */
}

static cay_client *open_svc(void)
{
    return home_open("fake", fake_list_of_one);
}

static cay_sandbox *make(cay_client *client, const char *name)
{
    cay_sandbox *sb = NULL;
    cay_err err = CAY_ERR_INIT;
    cay_pair labels[] = { { "team", "red" }, { NULL, NULL } };
    cay_create c = { .size = sizeof c,
                     .name = name,
                     .labels = labels,
                     .hostname = "hut",
                     .process.workdir = "/w",
                     .metadata = "{\"a\":1}" };
    if (cay_client_create(client, NULL, &c, &sb, &err) < 0)
        fail_msg("create: %s", err.msg);
    return sb;
}

typedef struct seen {
    int n;
    cay_state state;
    char id[CAY_ID_LEN + 1], reason[64];
} seen;

static int see(const cay_info *i, void *arg)
{
    seen *s = arg;
    s->n++;
    s->state = i->state;
    cay__str_copy(s->id, sizeof s->id, i->id);
    cay__str_copy(s->reason, sizeof s->reason, i->reason);
    return 0;
}

static seen look(cay_client *client)
{
    seen s = { 0 };
    assert_int_equal(cay_client_list(client, NULL, NULL, see, &s, NULL), 0);
    return s;
}

static void box_file(const char *id, const char *state)
{
    char path[200];
    snprintf(path, sizeof path, "%s/fake/%s", home, id);
    if (state)
        fake_put(path, state);
    else
        unlink(path);
}

static bool has_box(const char *id)
{
    char path[200];
    snprintf(path, sizeof path, "%s/fake/%s", home, id);
    return access(path, F_OK) == 0;
}

static void raw(const char *sql)
{
    char path[128];
    sqlite3 *db;
    snprintf(path, sizeof path, "%s/store.db", home);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void a_sandbox_lives_through_all_its_states(void **s)
{
    (void)s;
    cay_client *client = open_svc();
    assert_int_equal(fake.opened, 0); /* a provider is opened when it is needed */
    cay_sandbox *sb = make(client, "one");
    cay_err err = CAY_ERR_INIT;
    cay_state st;
    assert_int_equal(look(client).state, CAY_RUNNING);
    for (int twice = 0; twice < 2; twice++)
        assert_int_equal(cay_sandbox_pause(sb, NULL, &err), 0);
    assert_int_equal(look(client).state, CAY_PAUSED);
    for (int twice = 0; twice < 2; twice++)
        assert_int_equal(cay_sandbox_resume(sb, NULL, &err), 0);
    assert_int_equal(look(client).state, CAY_RUNNING);
    for (int twice = 0; twice < 2; twice++)
        assert_int_equal(cay_sandbox_kill(sb, NULL, &err), 0);
    assert_int_equal(look(client).state, CAY_STOPPED);
    assert_string_equal(look(client).reason, "killed");
    assert_int_equal(cay_sandbox_wait(sb, NULL, &st, &err), 0);
    assert_int_equal(st, CAY_STOPPED);
    assert_int_equal(cay_sandbox_pause(sb, NULL, &err), CAY_ESTATE);
    assert_non_null(strstr(err.msg, "cay resume"));
    assert_int_equal(cay_sandbox_usage(sb, NULL, &(cay_usage){ .size = sizeof(cay_usage) }, &err),
                     CAY_ESTATE);
    assert_int_equal(cay_sandbox_resume(sb, NULL, &err), 0);
    assert_string_equal(fake.started, "hut /w"); /* the request came back from the record */
    assert_int_equal(look(client).state, CAY_RUNNING);
    assert_int_equal(cay_sandbox_extend(sb, NULL, 1000, 0, &err), 0);
    assert_int_equal(cay_sandbox_extend(sb, NULL, CAY_UNLIMITED - 1, 0, &err), CAY_EINVAL);
    cay_usage u = { .size = sizeof u };
    assert_int_equal(cay_sandbox_usage(sb, NULL, &u, &err), 0);
    assert_int_equal(u.memory, 4096);
    char id[CAY_ID_LEN + 1];
    cay__str_copy(id, sizeof id, cay_sandbox_id(sb));
    for (int twice = 0; twice < 2; twice++)
        assert_int_equal(cay_sandbox_remove(sb, NULL, &err), 0);
    assert_int_equal(look(client).n, 0);
    assert_false(has_box(id));
    assert_int_equal(cay_sandbox_wait(sb, NULL, &st, &err), 0);
    assert_int_equal(st, CAY_GONE);
    assert_int_equal(cay_sandbox_pause(sb, NULL, &err), CAY_ENOENT);
    cay_client_close(client); /* the handle keeps it alive */
    cay_sandbox_unref(sb);
}

static void describe_tells_all(void **s)
{
    (void)s;
    cay_client *client = open_svc();
    cay_sandbox *sb = make(client, "one");
    cay_info *i = NULL;
    assert_int_equal(cay_sandbox_describe(sb, NULL, &i, NULL), 0);
    assert_string_equal(i->id, cay_sandbox_id(sb));
    assert_string_equal(i->name, "one");
    assert_string_equal(i->provider, "fake");
    assert_string_equal(i->template_, "host");
    assert_string_equal(i->hostname, "hut");
    assert_string_equal(i->user, "user");
    assert_string_equal(i->workdir, "/w");
    assert_string_equal(i->metadata, "{\"a\":1}");
    assert_string_equal(i->labels[0].value, "red");
    assert_null(i->labels[1].key);
    assert_int_equal(i->limits.pids, 512);
    assert_int_equal(i->level, CAY_LEVEL_ROOT);
    assert_string_equal(i->walls[0].name, "seccomp");
    assert_int_equal(i->deadline_ms, 12345);
    assert_int_equal(i->pid, 77);
    assert_true(i->created_ms > 0);
    cay_info_free(i);
    cay_info_free(NULL);
    cay_sandbox_unref(sb);
    cay_client_close(client);
}

static void a_sandbox_is_found_by_part_and_name(void **s)
{
    (void)s;
    cay_client *client = open_svc();
    cay_sandbox *a = make(client, "web"), *b = make(client, "web"), *c = make(client, "db"),
                *got = NULL;
    cay_err err = CAY_ERR_INIT;
    char part[10];
    cay__str_copy(part, sizeof part, cay_sandbox_id(a));
    assert_int_equal(cay_client_find(client, NULL, part, &got, &err), 0);
    assert_string_equal(cay_sandbox_id(got), cay_sandbox_id(a));
    cay_sandbox_unref(got);
    assert_int_equal(cay_client_find(client, NULL, "db", &got, &err), 0);
    assert_string_equal(cay_sandbox_id(got), cay_sandbox_id(c));
    cay_sandbox_unref(got);
    got = NULL;
    assert_int_equal(cay_client_find(client, NULL, "web", &got, &err), CAY_EINVAL);
    assert_string_equal(err.reason, "sandbox_ambiguous");
    assert_non_null(strstr(err.msg, cay_sandbox_id(a)));
    assert_non_null(strstr(err.msg, cay_sandbox_id(b)));
    assert_int_equal(cay_client_find(client, NULL, "nothing\x1b", &got, &err), CAY_ENOENT);
    assert_null(strchr(err.msg, 0x1b));
    assert_int_equal(cay_client_find(client, NULL, "", &got, &err), CAY_EINVAL);
    assert_int_equal(cay_client_find(client, NULL, "caaaaaaaaaaaaaaaaaaa", &got, &err), CAY_ENOENT);
    assert_null(got);
    cay_sandbox_unref(a);
    cay_sandbox_unref(b);
    cay_sandbox_unref(c);
    cay_client_close(client);
}

static void lists_filter_by_what_is_true_now(void **s)
{
    (void)s;
    cay_client *client = open_svc();
    cay_sandbox *a = make(client, "a"), *b = make(client, "b");
    box_file(cay_sandbox_id(a), "stopped ttl"); /* the keeper's clock did it */
    seen st = { 0 }, two = { 0 };
    cay_filter f = { .size = sizeof f, .states = 1u << CAY_STOPPED };
    assert_int_equal(cay_client_list(client, NULL, &f, see, &st, NULL), 0);
    assert_int_equal(st.n, 1);
    assert_string_equal(st.id, cay_sandbox_id(a));
    assert_string_equal(st.reason, "ttl");
    f = (cay_filter){ .size = sizeof f, .limit = 1, .after = cay_sandbox_id(a) };
    assert_int_equal(cay_client_list(client, NULL, &f, see, &two, NULL), 0);
    assert_int_equal(two.n, 1);
    assert_string_equal(two.id, cay_sandbox_id(b));
    cay_sandbox_unref(a);
    cay_sandbox_unref(b);
    cay_client_close(client);
}

static void lists_filter_by_metadata(void **s)
{
    static const struct {
        const char *metadata;
        int n;
    } cases[] = { { "{}", 3 },
                  { "{\"a\":1}", 2 },
                  { "{\"a\":2}", 0 },
                  { "{\"a\":\"1\"}", 0 },
                  { "{\"b\":{\"c\":[1,null]}}", 1 },
                  { "{\"a\":1,\"b\":{\"c\":[1,null]}}", 1 },
                  { "{\"b\":{}}", 0 },
                  { "{\"none\":null}", 0 } };
    (void)s;
    cay_client *client = open_svc();
    cay_err err = CAY_ERR_INIT;
    cay_sandbox *a = make(client, "a"), *b = make(client, "b"), *c = NULL;
    cay_update u = { .size = sizeof u, .metadata = "{\"b\":{\"c\":[1,null]},\"a\":1}" };
    assert_int_equal(cay_sandbox_update(b, NULL, &u, NULL), 0);
    assert_int_equal(
        cay_client_create(client, NULL, &(cay_create){ .size = sizeof(cay_create) }, &c, NULL),
        0); /* has none */
    for (size_t i = 0; i < CAY_LEN(cases); i++) {
        seen st = { 0 };
        cay_filter f = { .size = sizeof f, .metadata = cases[i].metadata };
        assert_int_equal(cay_client_list(client, NULL, &f, see, &st, NULL), 0);
        if (st.n != cases[i].n)
            fail_msg("%s: %d of them, not %d", cases[i].metadata, st.n, cases[i].n);
    }
    static const char *const bad[] = { "", "[]", "{", "{\"a\":1}x", "7" };
    for (size_t i = 0; i < CAY_LEN(bad); i++) {
        seen st = { 0 };
        cay_filter f = { .size = sizeof f, .metadata = bad[i] };
        assert_int_equal(cay_client_list(client, NULL, &f, see, &st, &err), CAY_EINVAL);
        assert_non_null(strstr(err.msg, "metadata"));
        assert_int_equal(st.n, 0);
    }
    cay_sandbox_unref(a);
    cay_sandbox_unref(b);
    cay_sandbox_unref(c);
    cay_client_close(client);
}

static void an_ephemeral_one_has_no_record(void **s)
{
    (void)s;
    cay_client *client = open_svc();
    cay_sandbox *sb, *again;
    cay_info *i;
    cay_create c = { .size = sizeof c, .life.ephemeral = true };
    assert_int_equal(cay_client_create(client, NULL, &c, &sb, NULL), 0);
    assert_int_equal(look(client).n, 0);
    assert_int_equal(cay_client_find(client, NULL, cay_sandbox_id(sb), &again, NULL), 0);
    assert_int_equal(cay_sandbox_pause(again, NULL, NULL), 0);
    assert_int_equal(cay_sandbox_describe(sb, NULL, &i, NULL), 0);
    assert_int_equal(i->state, CAY_PAUSED);
    cay_info_free(i);
    assert_int_equal(cay_sandbox_kill(sb, NULL, NULL), 0);
    assert_false(has_box(cay_sandbox_id(sb)));
    assert_int_equal(cay_sandbox_remove(again, NULL, NULL), 0);
    assert_int_equal(cay_sandbox_describe(sb, NULL, &i, NULL), CAY_ENOENT);
    cay_sandbox_unref(sb);
    cay_sandbox_unref(again);
    cay_client_close(client);
}

static void expect(cay_client *client, const cay_create *c, int code, const char *text)
{
    cay_sandbox *sb = NULL;
    cay_err err = CAY_ERR_INIT;
    cay_create full = *c;
    full.size = sizeof full;
    int rc = cay_client_create(client, NULL, &full, &sb, &err);
    if (rc != code || !strstr(err.msg, text))
        fail_msg("wanted %s with \"%s\", got %s: %s", cay_code_name(code), text, cay_code_name(rc),
                 err.msg);
    assert_null(sb);
}

static void bad_requests_make_nothing(void **s)
{
    (void)s;
    cay_client *client = open_svc();
    char sock[128];
    static const char *const quota[] = { "seccomp", "memory-limit", "disk-quota", NULL },
                             *const odd[] = { "wings", NULL };
    cay_pair env[] = { { "A=B", "x" }, { NULL, NULL } },
             label[] = { { "k", "a\nb" }, { NULL, NULL } };
    snprintf(sock, sizeof sock, "%s/store.db", home);
    const struct {
        cay_create c;
        int code;
        const char *text;
    } cases[] = {
        { { .provider = "clouds" }, CAY_ENOENT, "no provider clouds; there are" },
        { { .name = "a\nb" }, CAY_EINVAL, "name" },
        { { .name = "-x" }, CAY_EINVAL, "name" },
        { { .name = "" }, CAY_EINVAL, "name" },
        { { .hostname = "a.b" }, CAY_EINVAL, "hostname" },
        { { .hostname = "a-" }, CAY_EINVAL, "hostname" },
        { { .process.user = "a:b" }, CAY_EINVAL, "user" },
        { { .process.workdir = "work" }, CAY_EINVAL, "workdir" },
        { { .process.workdir = "/a/../b" }, CAY_EINVAL, "workdir" },
        { { .process.workdir = "/a\nb" }, CAY_EINVAL, "workdir" },
        { { .from.template_ = "moon" }, CAY_ENOENT, "template moon" },
        { { .from.template_ = "host", .from.root = "/usr" }, CAY_EINVAL, "choose one" },
        { { .from.root = "/no/such" }, CAY_ENOENT, "/no/such" },
        { { .from.root = "/" }, CAY_EPERM, "whole host" },
        { { .process.env = env }, CAY_EINVAL, "env" },
        { { .labels = label }, CAY_EINVAL, "label" },
        { { .metadata = "[1]" }, CAY_EINVAL, "metadata" },
        { { .metadata = "{\"a\":1,\"a\":2}" }, CAY_EINVAL, "metadata" },
        { { .limits.memory = 5 }, CAY_EINVAL, "limit memory is 5" },
        { { .limits.pids = 1ull << 40 }, CAY_EINVAL, "limit pids" },
        { { .isolation.min_level = 9 }, CAY_EINVAL, "level 9" },
        { { .isolation.min_level = CAY_LEVEL_ROOT }, CAY_EISOLATION, "level 2 (rootless)" },
        { { .isolation.require = odd }, CAY_EINVAL, "wings" },
        { { .isolation.require = quota },
          CAY_EISOLATION,
          "memory-limit is soft (no cgroup is delegated: systemd-run" },
        { { .isolation.require = quota }, CAY_EISOLATION, "disk-quota is off" },
        { { .life.ttl_ms = 1ull << 60 }, CAY_EINVAL, "hundred years" },
        { { .life.on_expiry = (cay_expiry)7 }, CAY_EINVAL, "on_expiry" },
        { { .files.grants = &(cay_grant){ "/no/such", "/data", false }, .files.ngrants = 1 },
          CAY_ENOENT,
          "/no/such" },
        { { .files.grants = &(cay_grant){ "rel", "/data", false }, .files.ngrants = 1 },
          CAY_EINVAL,
          "absolute" },
        { { .files.grants = &(cay_grant){ "/", "/data", false }, .files.ngrants = 1 },
          CAY_EPERM,
          "whole host" },
        { { .files.grants = &(cay_grant){ "/proc", "/data", false }, .files.ngrants = 1 },
          CAY_EPERM,
          "kernel" },
        { { .files.grants = &(cay_grant){ "/proc/self", "/data", false }, .files.ngrants = 1 },
          CAY_EPERM,
          "kernel" },
        { { .files.grants = &(cay_grant){ "/sys", "/data", false }, .files.ngrants = 1 },
          CAY_EPERM,
          "kernel" },
        { { .files.grants = &(cay_grant){ "/dev", "/data", false }, .files.ngrants = 1 },
          CAY_EPERM,
          "" },
        { { .files.grants = &(cay_grant){ home, "/data", false }, .files.ngrants = 1 },
          CAY_EPERM,
          "state directory" },
        { { .files.grants = &(cay_grant){ "/tmp", "/data", false }, .files.ngrants = 1 },
          CAY_EPERM,
          "state directory" },
        { { .files.grants = &(cay_grant){ sock, "/data", false }, .files.ngrants = 1 },
          CAY_ETYPE,
          "not a directory" },
        { { .files.grants = &(cay_grant){ "/dev/null", "/data", false }, .files.ngrants = 1 },
          CAY_ETYPE,
          "not a directory" },
        { { .files.grants = &(cay_grant){ "/usr", "/proc/x", false }, .files.ngrants = 1 },
          CAY_EINVAL,
          "/proc" },
        { { .files.grants = &(cay_grant){ "/usr", "/", false }, .files.ngrants = 1 },
          CAY_EINVAL,
          "target" },
        { { .files.grants = (cay_grant[]){ { "/usr", "/a", false }, { "/etc", "/a", false } },
            .files.ngrants = 2 },
          CAY_EINVAL,
          "twice" },
    };
    for (size_t i = 0; i < CAY_LEN(cases); i++)
        expect(client, &cases[i].c, cases[i].code, cases[i].text);
    assert_int_equal(look(client).n, 0);
    cay_sandbox *sb = NULL;
    cay_err err = CAY_ERR_INIT;
    assert_int_equal(cay_client_create(client, NULL, &(cay_create){ .size = 3 }, &sb, &err),
                     CAY_EINVAL);
    cay_create c = { .size = sizeof c, .isolation.require = quota };
    assert_int_equal(cay_client_create(client, NULL, &c, &sb, &err), CAY_EISOLATION);
    assert_non_null(strstr(err.detail, "\"remedy\":\"mount it with prjquota\"}]}"));
    cay_client_close(client);
}

static void a_failed_create_leaves_nothing(void **s)
{
    (void)s;
    cay_client *client = open_svc();
    fake.fail = CAY_ENOSPACE;
    expect(client, &(cay_create){ .name = "x" }, CAY_ENOSPACE, "the fake was told to fail");
    fake.fail = 0;
    assert_int_equal(look(client).n, 0);
    cay_call late = { .size = sizeof late, .deadline_ms = 1 };
    cay_sandbox *sb = NULL;
    assert_int_equal(cay_client_create(client, &late, NULL, &sb, NULL), CAY_ETIMEOUT);
    cay_client_close(client);
}

static void a_bad_home_is_named(void **s)
{
    (void)s;
    cay_client *client = NULL;
    cay_err err = CAY_ERR_INIT;
    cay_open o = { .size = sizeof o, .home = "/dev/null" };
    assert_int_equal(cay_client_open(&o, &client, &err), CAY_ETYPE);
    assert_non_null(strstr(err.msg, "/dev/null"));
}

static void a_lost_box_is_a_stopped_sandbox(void **s)
{
    (void)s;
    cay_client *client = open_svc();
    cay_sandbox *sb = make(client, "x"), *again;
    box_file(cay_sandbox_id(sb), NULL);
    cay_client_close(client);
    client = open_svc();
    seen x = look(client);
    assert_int_equal(x.state, CAY_STOPPED);
    assert_string_equal(x.reason, "lost");
    /* both still work on what is no more */
    assert_int_equal(cay_sandbox_kill(sb, NULL, NULL), 0);
    assert_int_equal(cay_client_find(client, NULL, "x", &again, NULL), 0);
    assert_int_equal(cay_sandbox_remove(again, NULL, NULL), 0);
    assert_int_equal(look(client).n, 0);
    cay_sandbox_unref(sb);
    cay_sandbox_unref(again);
    cay_client_close(client);
}

static void after_a_reboot_all_are_stopped_and_resumable(void **s)
{
    (void)s;
    cay_client *client = open_svc();
    cay_sandbox *sb = make(client, "x");
    box_file(cay_sandbox_id(sb), NULL);
    cay_client_close(client);
    raw("UPDATE notes SET value='\"another boot\"' WHERE key='boot'");
    box_file("caaaaaaaaaaaaaaaaaaa", "running"); /* of a one-shot run that the reboot ended */
    client = open_svc();
    assert_false(has_box("caaaaaaaaaaaaaaaaaaa"));
    assert_string_equal(look(client).reason, "reboot");
    assert_int_equal(cay_sandbox_resume(sb, NULL, NULL), 0);
    assert_int_equal(look(client).state, CAY_RUNNING);
    cay_client_close(client);
    client = open_svc(); /* the new boot is known now */
    assert_int_equal(look(client).state, CAY_RUNNING);
    cay_sandbox_unref(sb);
    cay_client_close(client);
}

static void a_damaged_record_is_listed_and_removed(void **s)
{
    (void)s;
    cay_client *client = open_svc();
    cay_sandbox *sb = make(client, "x"), *again;
    cay_err err = CAY_ERR_INIT;
    raw("UPDATE sandboxes SET spec='{', provider='?'");
    assert_int_equal(look(client).state, CAY_DAMAGED);
    cay_client_close(client);
    client = open_svc();
    assert_int_equal(cay_client_find(client, NULL, "x", &again, &err), 0);
    assert_int_equal(cay_sandbox_resume(again, NULL, &err), CAY_ESTATE);
    assert_non_null(strstr(err.msg, "cay rm -f"));
    assert_int_equal(cay_sandbox_remove(again, NULL, &err), 0);
    assert_false(has_box(cay_sandbox_id(sb)));
    assert_int_equal(look(client).n, 0);
    cay_sandbox_unref(sb);
    cay_sandbox_unref(again);
    cay_client_close(client);
}

static void gc_removes_what_no_record_owns(void **s)
{
    (void)s;
    cay_client *client = open_svc();
    cay_sandbox *sb = make(client, "x");
    size_t n = 99;
    box_file("caaaaaaaaaaaaaaaaaaa", "running");
    assert_int_equal(cay_client_gc(client, NULL, &n, NULL), 0);
    assert_int_equal(n, 1);
    assert_false(has_box("caaaaaaaaaaaaaaaaaaa"));
    assert_true(has_box(cay_sandbox_id(sb)));
    cay_sandbox_unref(sb);
    cay_client_close(client);
}

static size_t boxes_on_disk(void)
{
    char path[100];
    size_t n = 0;
    snprintf(path, sizeof path, "%s/fake", home);
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));)
        n += cay__id_valid(e->d_name, 'c');
    if (d)
        closedir(d);
    return n;
}

#ifdef CAY_FAULTS
static cay_state killed_at(const char *point, void (*act)(cay_client *, cay_sandbox *),
                           const char *given)
{
    pid_t pid = fork();
    if (pid == 0) {
        cay_sandbox *sb = NULL;
        cay_client *client = open_svc();
        if (given && cay_client_find(client, NULL, given, &sb, NULL) < 0)
            _exit(9);
        cay__fault_set(point);
        act(client, sb);
        _exit(0);
    }
    int st;
    waitpid(pid, &st, 0);
    if (!WIFSIGNALED(st))
        fail_msg("%s: was not reached (%d)", point, st);
    return CAY_STATE_NONE;
}

static void act_create(cay_client *client, cay_sandbox *sb)
{
    (void)sb;
    make(client, "new");
}

static void act_kill(cay_client *client, cay_sandbox *sb)
{
    (void)client;
    cay_sandbox_kill(sb, NULL, NULL);
}

static void act_pause(cay_client *client, cay_sandbox *sb)
{
    (void)client;
    cay_sandbox_pause(sb, NULL, NULL);
}

static void act_resume(cay_client *client, cay_sandbox *sb)
{
    (void)client;
    cay_sandbox_resume(sb, NULL, NULL);
}

static void act_remove(cay_client *client, cay_sandbox *sb)
{
    (void)client;
    cay_sandbox_remove(sb, NULL, NULL);
}

static void a_killed_maker_leaves_no_orphan(void **s)
{
    (void)s;
    static const struct {
        const char *point;
        int left;
    } at[] = { { "create.recorded=kill", 0 },
               { "create.made=kill", 0 },
               { "create.moved=kill", 1 },
               { "store.committed=kill", 0 } };
    for (size_t i = 0; i < CAY_LEN(at); i++) {
        cay_client *client = open_svc();
        cay_client_close(client);
        killed_at(at[i].point, act_create, NULL);
        client = open_svc();
        assert_int_equal(look(client).n, at[i].left);
        assert_int_equal(boxes_on_disk(), at[i].left);
        cay_sandbox *sb;
        if (cay_client_find(client, NULL, "new", &sb, NULL) == 0) {
            assert_int_equal(cay_sandbox_remove(sb, NULL, NULL), 0);
            cay_sandbox_unref(sb);
        }
        cay_client_close(client);
    }
}

static void a_killed_change_ends_in_one_true_state(void **s)
{
    (void)s;
    static const struct {
        const char *point;
        void (*act)(cay_client *, cay_sandbox *);
        const char *first; /* the box before */
        cay_state after;   /* NONE: gone */
    } at[] = {
        { "pause.done=kill", act_pause, NULL, CAY_PAUSED },
        { "resume.done=kill", act_resume, "paused", CAY_RUNNING },
        { "kill.done=kill", act_kill, NULL, CAY_STOPPED },
        { "resume.intended=kill", act_resume, "stopped", CAY_STOPPED },
        { "resume.started=kill", act_resume, "stopped", CAY_RUNNING },
        { "remove.intended=kill", act_remove, NULL, CAY_STATE_NONE },
        { "remove.wiped=kill", act_remove, NULL, CAY_STATE_NONE },
    };
    for (size_t i = 0; i < CAY_LEN(at); i++) {
        cay_client *client = open_svc();
        cay_sandbox *sb = make(client, "x");
        if (at[i].first)
            box_file(cay_sandbox_id(sb), at[i].first);
        cay_client_close(client);
        killed_at(at[i].point, at[i].act, "x");
        client = open_svc();
        seen x = look(client);
        if (x.n != (at[i].after != CAY_STATE_NONE) || x.state != at[i].after)
            fail_msg("%s: %d, %s", at[i].point, x.n, cay_state_name(x.state));
        assert_int_equal(cay_sandbox_remove(sb, NULL, NULL), 0);
        assert_int_equal(boxes_on_disk(), 0);
        cay_sandbox_unref(sb);
        cay_client_close(client);
    }
}

static void a_create_that_cannot_be_recorded_is_undone(void **s)
{
    (void)s;
    cay_client *client = open_svc();
    cay__fault_set("store.full=fail@2"); /* the move to running */
    expect(client, &(cay_create){ .name = "x" }, CAY_ENOSPACE, "full");
    assert_int_equal(look(client).n, 0);
    assert_int_equal(boxes_on_disk(), 0);
    cay__fault_set("store.full=fail"); /* the record */
    expect(client, &(cay_create){ .name = "x" }, CAY_ENOSPACE, "full");
    cay__fault_set("create.make=fail");
    expect(client, &(cay_create){ .name = "x" }, CAY_ESYS, "make the sandbox");
    cay__fault_set("");
    assert_int_equal(look(client).n, 0);
    cay_client_close(client);
}
#endif

static void a_living_maker_is_left_alone(void **s)
{
    (void)s;
    cay_client *client = open_svc();
    cay_sandbox *sb = make(client, "x");
    char sql[300];
    snprintf(sql, sizeof sql,
             "UPDATE sandboxes SET state='creating', "
             "box='{\"creator\":{\"pid\":%d,\"start\":%s,\"space\":%s}}'",
             1, "-1", "0");
    raw(sql); /* one in another pid namespace, just begun */
    cay_client_close(client);
    client = open_svc();
    assert_int_equal(look(client).state, CAY_CREATING);
    assert_int_equal(cay_sandbox_pause(sb, NULL, NULL), CAY_EBUSY);
    raw("UPDATE sandboxes SET created_ms=1"); /* and one begun long ago */
    cay_client_close(client);
    client = open_svc();
    assert_int_equal(look(client).n, 0);
    cay_sandbox_unref(sb);
    cay_client_close(client);
}

static void *client_thread(void *arg)
{
    cay_client *client = arg;
    for (int i = 0; i < 12; i++) {
        cay_sandbox *sb = NULL;
        seen x = { 0 };
        if (cay_client_create(client, NULL, NULL, &sb, NULL) < 0)
            return (void *)1;
        cay_sandbox_pause(sb, NULL, NULL);
        cay_client_list(client, NULL, NULL, see, &x, NULL);
        cay_sandbox_resume(sb, NULL, NULL);
        int rc = cay_sandbox_remove(sb, NULL, NULL);
        cay_sandbox_unref(sb);
        if (rc < 0)
            return (void *)2;
    }
    return NULL;
}

/* Several threads do everything to the same sandbox: success or a clear refusal, and the end is one
 * true state. */
static void *rival(void *arg)
{
    cay_sandbox *sb = arg;
    for (int i = 0; i < 15; i++) {
        int rc[4] = { cay_sandbox_pause(sb, NULL, NULL), cay_sandbox_resume(sb, NULL, NULL),
                      cay_sandbox_kill(sb, NULL, NULL), cay_sandbox_resume(sb, NULL, NULL) };
        for (int k = 0; k < 4; k++)
            if (rc[k] != 0 && rc[k] != CAY_ESTATE && rc[k] != CAY_EBUSY && rc[k] != CAY_EGONE)
                return (void *)(intptr_t)rc[k];
    }
    return NULL;
}

static void run_threads(void *(*fn)(void *), void *arg)
{
    pthread_t t[4];
    void *bad;
    for (size_t i = 0; i < CAY_LEN(t); i++)
        assert_int_equal(pthread_create(&t[i], NULL, fn, arg), 0);
    for (size_t i = 0; i < CAY_LEN(t); i++) {
        assert_int_equal(pthread_join(t[i], &bad), 0);
        if (bad)
            fail_msg("thread: %s", cay_code_name((int)(intptr_t)bad));
    }
}

static void threads_share_a_service(void **s)
{
    (void)s;
    cay_client *client = open_svc();
    run_threads(client_thread, client);
    assert_int_equal(look(client).n, 0);
    cay_client_close(client);
}

static void rivals_end_in_one_true_state(void **s)
{
    (void)s;
    cay_client *client = open_svc();
    cay_sandbox *sb = make(client, "x");
    run_threads(rival, sb);
    assert_int_equal(look(client).n, 1);
    assert_int_equal(cay_sandbox_remove(sb, NULL, NULL), 0);
    cay_sandbox_unref(sb);
    cay_client_close(client);
}

static void programs_that_open_at_once_agree(void **s)
{
    (void)s;
    cay_client *client = open_svc();
    for (int i = 0; i < 10; i++) {
        cay_sandbox *sb = make(client, "x");
        if (i % 2)
            box_file(cay_sandbox_id(sb), NULL);
        cay_sandbox_unref(sb);
    }
    raw("UPDATE sandboxes SET state='deleting' WHERE seq%3=0");
    cay_client_close(client);
    pid_t pid[4];
    for (size_t i = 0; i < CAY_LEN(pid); i++)
        if ((pid[i] = fork()) == 0) {
            cay_client_close(open_svc());
            _exit(0);
        }
    for (size_t i = 0; i < CAY_LEN(pid); i++) {
        int st;
        assert_int_equal(waitpid(pid[i], &st, 0), pid[i]);
        assert_int_equal(st, 0);
    }
    client = open_svc();
    seen st = { 0 }, run = { 0 };
    cay_filter f = { .size = sizeof f, .states = 1u << CAY_STOPPED };
    assert_int_equal(cay_client_list(client, NULL, &f, see, &st, NULL), 0);
    f.states = 1u << CAY_RUNNING;
    assert_int_equal(cay_client_list(client, NULL, &f, see, &run, NULL), 0);
    assert_int_equal(st.n, 4);  /* 2, 4, 8, 10 */
    assert_int_equal(run.n, 3); /* 1, 5, 7 */
    cay_client_close(client);
}

static bool fair(int rc)
{
    return rc == 0 || rc == CAY_ESTATE || rc == CAY_EBUSY || rc == CAY_EGONE || rc == CAY_ENOENT;
}

/* Everything to the same three, which vanish and come back. */
static int rival_program(int seed)
{
    static const char *const names[] = { "r0", "r1", "r2" };
    cay_client *client = open_svc();
    for (int i = 0; i < 30; i++) {
        const char *name = names[(i + seed) % 3];
        cay_sandbox *sb = NULL;
        cay_create c = { .size = sizeof c, .name = name };
        int rc = cay_client_find(client, NULL, name, &sb, NULL);
        if (rc == CAY_EINVAL) /* two have that name now */
            continue;
        if (rc == CAY_ENOENT)
            rc = cay_client_create(client, NULL, &c, &sb, NULL);
        if (rc == CAY_EGONE) /* another removed it while it was being made */
            continue;
        if (rc < 0)
            return 10 - rc;
        int all[] = { cay_sandbox_pause(sb, NULL, NULL), cay_sandbox_resume(sb, NULL, NULL),
                      seed % 2 ? cay_sandbox_kill(sb, NULL, NULL) : 0,
                      cay_sandbox_resume(sb, NULL, NULL),
                      i % 5 == seed ? cay_sandbox_remove(sb, NULL, NULL) : 0 };
        cay_sandbox_unref(sb);
        for (size_t k = 0; k < CAY_LEN(all); k++)
            if (!fair(all[k]))
                return 40 - all[k];
    }
    cay_client_close(client);
    return 0;
}

static int remove_one(const cay_info *i, void *arg)
{
    cay_sandbox *sb;
    if (i->state == CAY_RUNNING && !has_box(i->id))
        return 1;
    if (cay_client_find(arg, NULL, i->id, &sb, NULL) < 0)
        return 2;
    int rc = cay_sandbox_remove(sb, NULL, NULL);
    cay_sandbox_unref(sb);
    return rc;
}

static void rival_programs_leave_store_and_boxes_agreeing(void **s)
{
    (void)s;
    pid_t pid[4];
    for (size_t i = 0; i < CAY_LEN(pid); i++)
        if ((pid[i] = fork()) == 0)
            _exit(rival_program((int)i));
    for (size_t i = 0; i < CAY_LEN(pid); i++) {
        int st;
        assert_int_equal(waitpid(pid[i], &st, 0), pid[i]);
        assert_int_equal(st, 0);
    }
    cay_client *client = open_svc();
    size_t n = 0;
    assert_int_equal(cay_client_gc(client, NULL, &n, NULL), 0);
    assert_int_equal(n, 0); /* no box without a record */
    assert_int_equal(cay_client_list(client, NULL, NULL, remove_one, client, NULL), 0);
    assert_int_equal(boxes_on_disk(), 0);
    cay_client_close(client);
}

static void events_of_all_are_one_stream(void **s)
{
    (void)s;
    cay_client *client = open_svc();
    cay_events *ev;
    cay_event e = { .size = sizeof e };
    cay_err err = CAY_ERR_INIT;
    cay_call soon = { .size = sizeof soon };
    assert_int_equal(cay_client_events(client, "no id", &ev, &err), CAY_EINVAL);
    assert_int_equal(cay_client_events(client, NULL, &ev, &err), 0);
    assert_true(cay_events_fd(ev) >= 0);
    soon.deadline_ms = cay__now_ms() + 20;
    assert_int_equal(cay_events_next(ev, &soon, &e, &err), CAY_ETIMEOUT);
    cay_event_wire w = { .time_ms = 5,
                         .seq = 1,
                         .code = 3,
                         .sandbox = "cx",
                         .process = "px",
                         .kind = "exit",
                         .reason = "oom" };
    assert_int_equal(send(fake.event_fd, &w, sizeof w, 0), sizeof w);
    assert_int_equal(send(fake.event_fd, "short", 5, 0), 5);
    assert_int_equal(cay_events_next(ev, NULL, &e, &err), 0);
    assert_string_equal(e.kind, "exit");
    assert_string_equal(e.reason, "oom");
    assert_int_equal(e.code, 3);
    assert_int_equal(cay_events_next(ev, NULL, &e, &err), 0);
    assert_string_equal(e.kind, "lost");
    assert_int_equal(e.code, 1);
    close(fake.event_fd); /* the keeper died */
    assert_int_equal(cay_events_next(ev, NULL, &e, &err), 0);
    assert_string_equal(e.kind, "lost");
    assert_string_equal(e.reason, "reconnected");
    assert_int_equal(send(fake.event_fd, &w, sizeof w, 0), sizeof w);
    assert_int_equal(cay_events_next(ev, NULL, &e, &err), 0);
    assert_string_equal(e.sandbox, "cx");
    cay_client_close(client);
    cay_events_close(ev);
    close(fake.event_fd);
}

static void probe_tells_layers(void **s)
{
    (void)s;
    cay_client *client = open_svc();
    cay_probe *p;
    assert_int_equal(cay_client_probe(client, NULL, &p, NULL), 0);
    assert_int_equal(p->level, CAY_LEVEL_ROOTLESS);
    assert_string_equal(p->walls[2].remedy, "mount it with prjquota");
    cay_probe_free(p);
    assert_int_equal(cay_client_probe(client, "no", &p, NULL), CAY_ENOENT);
    cay_client_close(client);
}

static int count_notes(const char *key, const char *json, void *arg)
{
    (void)key, (void)json;
    (*(int *)arg)++;
    return 0;
}

static void notes_are_kept_apart(void **s)
{
    (void)s;
    cay_client *client = open_svc();
    cay_err err = CAY_ERR_INIT;
    char *text = NULL;
    int n = 0;
    assert_int_equal(cay_note_put(client, "port", "a/1", "{\"x\":1}", &err),
                     0); /* the service has a space of that name: not this one */
    assert_int_equal(cay_note_put(client, "port", "a/2", "{}", &err), 0);
    assert_int_equal(cay_note_put(client, "port", "b", "{}", &err), 0);
    assert_int_equal(cay_note_get(client, "port", "a/1", &text, &err), 0);
    assert_string_equal(text, "{\"x\":1}");
    free(text);
    assert_int_equal(cay_note_get(client, "other", "a/1", &text, &err), CAY_ENOENT);
    assert_int_equal(cay_note_list(client, "port", "a/", count_notes, &n, &err), 0);
    assert_int_equal(n, 2);
    assert_int_equal(cay_note_put(client, "port", "a/1", NULL, &err), 0);
    assert_int_equal(cay_note_get(client, "port", "a/1", &text, &err), CAY_ENOENT);
    assert_int_equal(cay_note_put(client, "Port", "k", "{}", &err), CAY_EINVAL);
    assert_int_equal(cay_note_put(client, "port", "", "{}", &err), CAY_EINVAL);
    assert_int_equal(cay_note_put(client, "port", "a\nb", "{}", &err), CAY_EINVAL);
    assert_int_equal(cay_note_put(client, "port", "k", "[]", &err), CAY_EINVAL);
    cay_client_close(client);
}

static void a_manifests_text_that_is_taken_up_again_stays(void **s)
{
    (void)s;
    cay_client *client = open_svc();
    cay_err err = CAY_ERR_INIT;
    cay__arena mem = { 0 };
    cay__mani f = { 0 }, again = { 0 };
    const char *key = NULL, text[] = "{\"entries\":{\"a\":{\"type\":\"file\",\"content\":\"x\"}}}";
    if (cay_manifest_parse(text, strlen(text), 0, &f.m, &err) < 0 ||
        cay__kept_put(client, &f, NULL, &mem, &key, &err) < 0)
        fail_msg("%s", err.msg);
    /* A sweep found it without a record long ago, and another comes after it was kept again and
     * before its record is there. */
    assert_int_equal(client->store->note_put(client->db, CAY__NOTE_UNUSED, key, "1000", &err), 0);
    assert_int_equal(cay__kept_put(client, &f, NULL, &mem, &key, &err), 0);
    cay__mani_sweep(client);
    if (cay__kept_get(client, key, true, &mem, &again, &err) < 0)
        fail_msg("%s", err.msg);
    cay_manifest_free(again.m);
    assert_int_equal(client->store->note_put(client->db, CAY__NOTE_UNUSED, key, "1000", &err), 0);
    cay__mani_sweep(client); /* nobody came */
    assert_int_equal(cay__kept_get(client, key, true, &mem, &again, &err), CAY_ENOENT);
    cay_manifest_free(f.m);
    cay__arena_clear(&mem);
    cay_client_close(client);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_sandbox_lives_through_all_its_states),
        T(describe_tells_all),
        T(a_sandbox_is_found_by_part_and_name),
        T(lists_filter_by_what_is_true_now),
        T(lists_filter_by_metadata),
        T(an_ephemeral_one_has_no_record),
        T(bad_requests_make_nothing),
        T(a_failed_create_leaves_nothing),
        T(a_bad_home_is_named),
        T(a_lost_box_is_a_stopped_sandbox),
        T(after_a_reboot_all_are_stopped_and_resumable),
        T(a_damaged_record_is_listed_and_removed),
        T(gc_removes_what_no_record_owns),
#ifdef CAY_FAULTS
        T(a_killed_maker_leaves_no_orphan),
        T(a_killed_change_ends_in_one_true_state),
        T(a_create_that_cannot_be_recorded_is_undone),
#endif
        T(a_living_maker_is_left_alone),
        T(threads_share_a_service),
        T(rivals_end_in_one_true_state),
        T(programs_that_open_at_once_agree),
        T(rival_programs_leave_store_and_boxes_agreeing),
        T(events_of_all_are_one_stream),
        T(probe_tells_layers),
        T(notes_are_kept_apart),
        T(a_manifests_text_that_is_taken_up_again_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
