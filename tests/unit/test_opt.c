/* SPDX-License-Identifier: Apache-2.0 */
#include <base/base.h>
#include <cli/opt.h>
#include <cli/parse.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

typedef struct args {
    bool input, tty;
    const char *name;
    uint64_t memory, pids, ttl, cpus, keep;
    uint32_t mode;
    opt_list env;
} args;

static const opt_def defs[] = { OPT_FLAG("-i, --interactive", "input", args, input),
                                OPT_FLAG("-t, --tty", "terminal", args, tty),
                                OPT_STR("-n, --name NAME", "a name", args, name),
                                OPT_SIZE("-m, --memory SIZE", "memory", args, memory, 1u << 20,
                                         1ull << 40),
                                OPT_NUM("--pids N", "processes", args, pids, 1, CAY_UNLIMITED),
                                OPT_MS("--ttl TIME", "time", args, ttl, 1),
                                OPT_CPUS("--cpus N", "cpus", args, cpus),
                                OPT_MODE("--mode MODE", "mode", args, mode),
                                OPT_NUM("--keep[=N]", "how many", args, keep, 1, 100, .bare = "20"),
                                OPT_LIST("-e, --env KEY=VALUE", "environment", args, env),
                                OPT_END };

static int parse(args *a, size_t stop_after, char **words, int *n, cay_err *err)
{
    opt_group g = { defs, a };
    opt_spec s = { .groups = &g, .ngroups = 1, .stop_after = stop_after };
    int argc = 0;
    while (words[argc])
        argc++;
    *err = (cay_err)CAY_ERR_INIT;
    memset(a, 0, sizeof *a);
    return opt_parse(&s, argc, words, n, NULL, err);
}
#define WORDS(...) ((char *[]){ __VA_ARGS__, NULL })

static void every_form_of_an_option_is_taken(void **s)
{
    (void)s;
    args a;
    cay_err err;
    int n;
    char **w = WORDS("-it", "--name=x", "-m", "2G", "--pids", "7", "-eA=1", "-e", "B=2", "one",
                     "--ttl", "5m", "two");
    assert_int_equal(parse(&a, 0, w, &n, &err), 0);
    assert_true(a.input && a.tty);
    assert_string_equal(a.name, "x");
    assert_int_equal(a.memory, 2ull << 30);
    assert_int_equal(a.pids, 7);
    assert_int_equal(a.ttl, 300000);
    assert_int_equal(a.env.n, 2);
    assert_string_equal(a.env.v[1], "B=2");
    assert_int_equal(n, 2);
    assert_string_equal(w[0], "one");
    assert_string_equal(w[1], "two");
}

static void a_value_may_be_left_out_where_that_means_something(void **s)
{
    (void)s;
    args a;
    cay_err err;
    int n;
    char **w = WORDS("--keep", "7");
    assert_int_equal(parse(&a, 0, w, &n, &err), 0);
    assert_int_equal(a.keep, 20);
    assert_int_equal(n, 1); /* the next word is no value of it */
    assert_string_equal(w[0], "7");
    assert_int_equal(parse(&a, 0, WORDS("--keep=7"), &n, &err), 0);
    assert_int_equal(a.keep, 7);
    assert_int_equal(parse(&a, 0, WORDS("--keep="), &n, &err), CAY_EINVAL);
    assert_int_equal(parse(&a, 0, WORDS("--keep=101"), &n, &err), CAY_EINVAL);
}

static void the_command_keeps_its_own_options(void **s)
{
    (void)s;
    args a;
    cay_err err;
    int n;
    char **w = WORDS("-i", "id", "-t", "ls", "-l", "--name", "x");
    assert_int_equal(parse(&a, 2, w, &n, &err), 0);
    assert_true(a.input && a.tty && !a.name);
    assert_int_equal(n, 5);
    assert_string_equal(w[1], "ls");
    assert_string_equal(w[2], "-l");
    w = WORDS("id", "--", "-l", "--", "x");
    assert_int_equal(parse(&a, 2, w, &n, &err), 0);
    assert_int_equal(n, 4);
    assert_string_equal(w[1], "-l");
    assert_string_equal(w[2], "--");
}

static void mistakes_name_the_option_and_what_was_meant(void **s)
{
    (void)s;
    args a;
    cay_err err;
    int n;
    assert_int_equal(parse(&a, 0, WORDS("--memry", "1G"), &n, &err), CAY_EINVAL);
    assert_string_equal(err.msg, "unknown option --memry; did you mean --memory?");
    assert_int_equal(parse(&a, 0, WORDS("--zzz"), &n, &err), CAY_EINVAL);
    assert_string_equal(err.msg, "unknown option --zzz");
    assert_int_equal(parse(&a, 0, WORDS("-z"), &n, &err), CAY_EINVAL);
    assert_int_equal(parse(&a, 0, WORDS("--name"), &n, &err), CAY_EINVAL);
    assert_string_equal(err.msg, "--name wants NAME");
    assert_int_equal(parse(&a, 0, WORDS("--tty=yes"), &n, &err), CAY_EINVAL);
    assert_string_equal(err.msg, "--tty takes no value");
}

static void numbers_outside_their_range_are_refused(void **s)
{
    (void)s;
    static const char *const bad[][2] = {
        { "--memory", "12x" }, { "--memory", "1k" }, { "--memory", "2000000000G" },
        { "--memory", "-1" },  { "--pids", "0" },    { "--pids", "x" },
        { "--cpus", "0" },     { "--cpus", "1s" },   { "--cpus", "99999" },
        { "--ttl", "0" },      { "--ttl", "3y" },    { "--mode", "999" },
        { "--mode", "77777" },
    };
    args a;
    cay_err err;
    int n;
    for (size_t i = 0; i < CAY_LEN(bad); i++) {
        assert_int_equal(parse(&a, 0, WORDS((char *)bad[i][0], (char *)bad[i][1]), &n, &err),
                         CAY_EINVAL);
        assert_non_null(strstr(err.msg, bad[i][0]));
    }
    assert_int_equal(parse(&a, 0,
                           WORDS("--pids", "unlimited", "--memory", "unlimited", "--cpus", "1.5"),
                           &n, &err),
                     0);
    assert_true(a.pids == CAY_UNLIMITED && a.memory == CAY_UNLIMITED);
    assert_int_equal(a.cpus, 1500);
}

static void places_are_local_remote_or_a_stream(void **s)
{
    (void)s;
    cli_place p;
    cay_err err = CAY_ERR_INIT;
    assert_int_equal(cli_parse_place("-", &p, &err), 0);
    assert_int_equal(p.kind, CLI_STREAM);
    assert_int_equal(cli_parse_place("c7f:/etc/x:y", &p, &err), 0);
    assert_int_equal(p.kind, CLI_REMOTE);
    assert_string_equal(p.id, "c7f");
    assert_string_equal(p.path, "/etc/x:y");
    static const char *const local[] = { "a", "./a:b", "/a:b", "dir/a:b", "..", "../c:d" };
    for (size_t i = 0; i < CAY_LEN(local); i++) {
        assert_int_equal(cli_parse_place(local[i], &p, &err), 0);
        assert_int_equal(p.kind, CLI_LOCAL);
    }
    static const char *const bad[] = { "", ":x", "c7f:", "a\nb:/x" };
    for (size_t i = 0; i < CAY_LEN(bad); i++)
        assert_int_equal(cli_parse_place(bad[i], &p, &err), CAY_EINVAL);
}

static void mounts_have_a_source_a_target_and_rights(void **s)
{
    (void)s;
    static cli_mount m;
    cay_err err = CAY_ERR_INIT;
    assert_int_equal(cli_parse_mount("/usr/share:/data:rw", &m, &err), 0);
    assert_string_equal(m.source, "/usr/share");
    assert_string_equal(m.target, "/data");
    assert_true(m.rw);
    assert_int_equal(cli_parse_mount("/usr/share", &m, &err), 0);
    assert_string_equal(m.target, "/workspace/share");
    assert_false(m.rw);
    assert_int_equal(cli_parse_mount("a:b:/t", &m, &err), 0);
    assert_string_equal(m.source, "a:b");
    assert_int_equal(cli_parse_mount(":rw", &m, &err), CAY_EINVAL);
    assert_int_equal(cli_parse_mount("/etc:bogus", &m, &err), CAY_EINVAL);
    assert_non_null(strstr(err.msg, "\":bogus\" is neither \":ro\", \":rw\""));
    assert_int_equal(cli_parse_mount("/usr:/a/../b", &m, &err), CAY_EINVAL);
    assert_int_equal(cli_parse_mount("/usr:/a/..", &m, &err), CAY_EINVAL);
    assert_int_equal(cli_parse_mount("/usr:/a\nb", &m, &err), CAY_EINVAL);
    assert_int_equal(cli_parse_mount("/", &m, &err), CAY_EINVAL);
    assert_int_equal(cli_parse_mount("/no/such/dir", &m, &err), CAY_ENOENT);
}

static void small_texts_are_checked_whole(void **s)
{
    (void)s;
    cay_err err = CAY_ERR_INIT;
    uint16_t port, local;
    uint32_t uid, gid;
    int sig;
    assert_int_equal(cli_parse_forward("80:8080", &port, &local, &err), 0);
    assert_true(port == 80 && local == 8080);
    assert_int_equal(cli_parse_forward("80", &port, &local, &err), 0);
    assert_true(local == 80);
    assert_int_equal(cli_parse_forward("80:0", &port, &local, &err), 0);
    assert_int_equal(cli_parse_forward("0", &port, &local, &err), CAY_EINVAL);
    assert_int_equal(cli_parse_forward("70000", &port, &local, &err), CAY_EINVAL);
    assert_int_equal(cli_parse_forward("80:", &port, &local, &err), CAY_EINVAL);
    assert_int_equal(cli_parse_owner("10:20", &uid, &gid, &err), 0);
    assert_true(uid == 10 && gid == 20);
    assert_int_equal(cli_parse_owner(":20", &uid, &gid, &err), 0);
    assert_true(uid == UINT32_MAX);
    assert_int_equal(cli_parse_owner("root", &uid, &gid, &err), CAY_EINVAL);
    assert_int_equal(cli_parse_owner("", &uid, &gid, &err), CAY_EINVAL);
    assert_int_equal(cli_parse_signal("sigterm", &sig, &err), 0);
    assert_int_equal(sig, 15);
    assert_int_equal(cli_parse_signal("99", &sig, &err), CAY_EINVAL);
    assert_int_equal(cli_check_name("name", "a\nb", &err), CAY_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_of_an_option_is_taken),
        cmocka_unit_test(a_value_may_be_left_out_where_that_means_something),
        cmocka_unit_test(the_command_keeps_its_own_options),
        cmocka_unit_test(mistakes_name_the_option_and_what_was_meant),
        cmocka_unit_test(numbers_outside_their_range_are_refused),
        cmocka_unit_test(places_are_local_remote_or_a_stream),
        cmocka_unit_test(mounts_have_a_source_a_target_and_rights),
        cmocka_unit_test(small_texts_are_checked_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
