/* SPDX-License-Identifier: Apache-2.0 */
/* Policies of sandboxes that a provider holds: kept, changed live, taken up at start, refused by
 * name where there are none. */
#include "fake.h"
#include "home.h"
#include <policy/url.h>
#include <base/sha256.h>

static struct {
    char text[4096], created[4096], started[4096], dialled[300];
    uint64_t revision;
    int fail;
    bool implicit;
} net;

static int net_policy(void *box, const cay_call *call, const char *text, size_t len,
                      uint64_t *revision, cay_err *err)
{
    (void)box, (void)call;
    if (net.fail)
        return cay_fail(err, net.fail, "egress does not answer");
    assert_int_equal(strlen(text), len);
    cay__str_copy(net.text, sizeof net.text, text);
    *revision = ++net.revision;
    return 0;
}

static int net_policy_get(void *box, const cay_call *call, char **text, size_t *len,
                          uint64_t *revision, cay_err *err)
{
    (void)box, (void)call, (void)err;
    *text = cay__strdup(net.text);
    *len = strlen(*text);
    *revision = net.revision;
    return 0;
}

static int net_dial(void *box, const cay_call *call, const char *host, uint16_t port, bool implicit,
                    int *fd, cay_err *err)
{
    (void)box, (void)call, (void)err;
    snprintf(net.dialled, sizeof net.dialled, "%s %d", host, (int)port);
    net.implicit = implicit;
    *fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    return 0;
}

static int net_create(void *self, const cay_call *call, const char *id, const cay_box_spec *spec,
                      void **box, cay_err *err)
{
    const cay_create *c = spec->create;
    cay__str_copy(net.created, sizeof net.created, c->net.policy ? c->net.policy : "");
    cay__str_copy(net.text, sizeof net.text,
                  c->net.policy ? c->net.policy : "cay-net 1\nmode off\n");
    return fake_create(self, call, id, spec, box, err);
}

static int net_start(void *self, const cay_call *call, const char *id, const cay_box_spec *spec,
                     void **box, cay_err *err)
{
    const cay_create *c = spec->create;
    cay__str_copy(net.started, sizeof net.started, c->net.policy ? c->net.policy : "");
    return fake_start(self, call, id, spec, box, err);
}

static cay_provider_ops net_ops;
static const cay_provider_ops *const list[] = { &net_ops, &fake_ops, NULL };

static int set_up(void **s)
{
    memset(&fake, 0, sizeof fake);
    memset(&net, 0, sizeof net);
    net_ops = fake_ops;
    net_ops.name = "net";
    net_ops.create = net_create;
    net_ops.start = net_start;
    net_ops.policy = net_policy;
    net_ops.policy_get = net_policy_get;
    net_ops.dial = net_dial;
    return home_up(s);
}

static int tear_down(void **s)
{
    home_down(s);
    return fake.boxes || fake.opened ? -1 : 0;
}

static cay_client *open_svc(void)
{
    return home_open("net", list);
}

static char *text_of(const char *words)
{
    char *text = NULL;
    cay_err err = CAY_ERR_INIT;
    const char *rules[] = { words, NULL };
    cay_policy p = { .size = sizeof p, .rules = rules };
    if (cay_policy_text(&p, &text, &err) < 0)
        fail_msg("%s: %s", words, err.msg);
    return text;
}

static cay_sandbox *make(cay_client *client, const char *words)
{
    cay_sandbox *sb = NULL;
    cay_err err = CAY_ERR_INIT;
    CAY_AUTOFREE char *text = words ? text_of(words) : NULL;
    cay_create c = { .size = sizeof c, .net.policy = text };
    if (cay_client_create(client, NULL, &c, &sb, &err) < 0)
        fail_msg("create: %s", err.msg);
    return sb;
}

static void policy_is_kept_and_taken_up_again(void **st)
{
    (void)st;
    cay_client *client = open_svc();
    cay_sandbox *sb = make(client, "example.com");
    cay_err err = CAY_ERR_INIT;
    uint64_t rev = 0;
    assert_string_equal(net.created, "cay-net 1\nmode rules\nrule example.com\n");
    CAY_AUTOFREE char *text = text_of("all,!bad.example");
    if (cay_sandbox_set_policy(sb, NULL, text, &rev, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(rev, 1);
    assert_int_equal(cay_sandbox_kill(sb, NULL, &err), 0);
    char *stopped = NULL;
    assert_int_equal(cay_sandbox_get_policy(sb, NULL, &stopped, &rev, &err), 0);
    assert_string_equal(stopped, text);
    assert_int_equal(rev, 0);
    free(stopped);
    /* One that is stopped takes it up when it starts. */
    CAY_AUTOFREE char *third = text_of("pypi");
    assert_int_equal(cay_sandbox_set_policy(sb, NULL, third, &rev, &err), 0);
    assert_int_equal(rev, 0);
    assert_int_equal(cay_sandbox_resume(sb, NULL, &err), 0);
    assert_string_equal(net.started, third);
    assert_int_equal(cay_sandbox_remove(sb, NULL, &err), 0);
    cay_sandbox_unref(sb);
    cay_client_close(client);
}

static void a_refused_policy_leaves_the_former(void **st)
{
    (void)st;
    cay_client *client = open_svc();
    cay_sandbox *sb = make(client, "example.com");
    cay_err err = CAY_ERR_INIT;
    assert_int_equal(cay_sandbox_set_policy(sb, NULL, "cay-net 1\nrule a.*.b\n", NULL, &err),
                     CAY_EINVAL);
    assert_string_equal(err.reason, "policy_invalid");
    net.fail = CAY_EBUSY;
    CAY_AUTOFREE char *other = text_of("all");
    assert_int_equal(cay_sandbox_set_policy(sb, NULL, other, NULL, &err), CAY_EBUSY);
    net.fail = 0;
    assert_int_equal(cay_sandbox_kill(sb, NULL, &err), 0);
    assert_int_equal(cay_sandbox_resume(sb, NULL, &err), 0);
    assert_string_equal(net.started, "cay-net 1\nmode rules\nrule example.com\n");
    assert_int_equal(cay_sandbox_remove(sb, NULL, &err), 0);
    cay_sandbox_unref(sb);
    cay_client_close(client);
}

static void providers_without_policy_refuse_by_name(void **st)
{
    (void)st;
    cay_client *client = open_svc();
    cay_sandbox *sb = NULL;
    cay_err err = CAY_ERR_INIT;
    CAY_AUTOFREE char *text = text_of("pypi"), *got = NULL;
    cay_create c = { .size = sizeof c, .provider = "fake", .net.policy = text };
    assert_int_equal(cay_client_create(client, NULL, &c, &sb, &err), CAY_ENOTSUP);
    assert_non_null(strstr(err.msg, "provider fake"));
    c.net.policy = NULL;
    assert_int_equal(cay_client_create(client, NULL, &c, &sb, &err), 0);
    assert_int_equal(cay_sandbox_set_policy(sb, NULL, text, NULL, &err), CAY_ENOTSUP);
    assert_non_null(strstr(err.msg, "provider fake"));
    assert_int_equal(cay_sandbox_get_policy(sb, NULL, &got, NULL, &err), CAY_ENOTSUP);
    int fd;
    assert_int_equal(cay_net_dial(sb, NULL, "example.com", 443, &fd, &err), CAY_ENOTSUP);
    cay_net_fetch *f;
    assert_int_equal(cay_net_fetch_open(sb, "https://example.com", &f, &err), CAY_ENOTSUP);
    /* A bad one is refused whole, with nothing made. */
    c.provider = "net";
    c.net.policy = "cay-net 1\nrule exa mple\n";
    cay_sandbox *none = NULL;
    assert_int_equal(cay_client_create(client, NULL, &c, &none, &err), CAY_EINVAL);
    assert_null(none);
    assert_int_equal(cay_sandbox_remove(sb, NULL, &err), 0);
    cay_sandbox_unref(sb);
    cay_client_close(client);
}

static void live_rules_take_effect_over_older_ones(void **st)
{
    (void)st;
    static const struct {
        const char *before, *rule, *after;
    } cases[] = {
        { "off", "example.com", "mode rules\nrule example.com\n" },
        { "example.com", "!example.com", "mode rules\nrule !example.com\n" },
        { "a.example,b.example", "!*.example", "mode rules\nrule !*.example\n" },
        { "all,!example.com", "example.com", "mode all\n" },
        { "all", "example.com", "mode all\n" },
        { "all", "!example.com", "mode all\nrule !example.com\n" },
        { "off", "!example.com", "mode off\n" },
        { "a.example", "b.example:22", "mode rules\nrule a.example\nrule b.example:22\n" },
        { "a.example", "!a.example:80", "mode rules\nrule a.example\nrule !a.example:80\n" },
    };
    cay_client *client = open_svc();
    cay_sandbox *sb = make(client, NULL);
    cay_err err = CAY_ERR_INIT;
    for (size_t i = 0; i < CAY_LEN(cases); i++) {
        char want[200];
        CAY_AUTOFREE char *before = text_of(cases[i].before);
        const char *rules[] = { cases[i].rule, NULL };
        assert_int_equal(cay_sandbox_set_policy(sb, NULL, before, NULL, &err), 0);
        if (cay_sandbox_net_add(sb, NULL, rules, NULL, &err) < 0)
            fail_msg("%s + %s: %s", cases[i].before, cases[i].rule, err.msg);
        snprintf(want, sizeof want, "cay-net 1\n%s", cases[i].after);
        assert_string_equal(net.text, want);
    }
    const char *all[] = { "all", NULL }, *bad[] = { "a.*.b", NULL };
    assert_int_equal(cay_sandbox_net_add(sb, NULL, all, NULL, &err), CAY_EINVAL);
    assert_int_equal(cay_sandbox_net_add(sb, NULL, bad, NULL, &err), CAY_EINVAL);
    assert_int_equal(cay_sandbox_remove(sb, NULL, &err), 0);
    cay_sandbox_unref(sb);
    cay_client_close(client);
}

static void why_names_rule_and_remedy(void **st)
{
    (void)st;
    cay_client *client = open_svc();
    cay_sandbox *sb = make(client, "pypi,all.example:22,!bad.pypi.org");
    cay_err err = CAY_ERR_INIT;
    cay_net_verdict v = { .size = sizeof v };
    char path[128];
    assert_int_equal(cay_net_evaluate(sb, NULL, "PyPI.org", 443, &v, &err), 0);
    assert_true(v.allow);
    assert_string_equal(v.rule, "pypi.org:443");
    assert_string_equal(v.proto, "tls");
    assert_int_equal(cay_net_evaluate(sb, NULL, "example.com", 5432, &v, &err), 0);
    assert_false(v.allow);
    assert_string_equal(v.reason, "default_deny");
    assert_string_equal(v.remedy, "example.com:5432");
    assert_int_equal(cay_net_evaluate(sb, NULL, "169.254.169.254", 80, &v, &err), 0);
    assert_string_equal(v.range, "metadata");
    assert_int_equal(cay_net_evaluate(sb, NULL, "all.example", 0, &v, &err), 0);
    assert_true(v.allow);
    assert_int_equal(cay_net_evaluate(sb, NULL, "0x7f.1", 80, &v, &err), CAY_EINVAL);
    snprintf(path, sizeof path, "%s/egress.conf", home);
    CAY_AUTOFD fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, "deny pypi.org\n", 14), 14);
    assert_int_equal(cay_net_evaluate(sb, NULL, "pypi.org", 443, &v, &err), 0);
    assert_string_equal(v.reason, "operator_deny");
    assert_non_null(strstr(v.remedy, "egress.conf"));
    assert_int_equal(write(fd, "nonsense\n", 9), 9);
    assert_int_equal(cay_net_evaluate(sb, NULL, "pypi.org", 443, &v, &err), CAY_EINVAL);
    assert_non_null(strstr(err.msg, "egress.conf: line 2"));
    assert_int_equal(cay_sandbox_remove(sb, NULL, &err), 0);
    cay_sandbox_unref(sb);
    cay_client_close(client);
}

static int count(const cay_net_record *r, void *arg)
{
    int *n = arg;
    (*n)++;
    if (!strcmp(r->event, "end"))
        assert_int_equal(r->up + r->down, 30);
    return 0;
}

static void log_passes_over_broken_lines(void **st)
{
    (void)st;
    cay_client *client = open_svc();
    cay_sandbox *sb = make(client, "pypi");
    cay_err err = CAY_ERR_INIT;
    char path[160];
    int n = 0;
    assert_int_equal(cay_net_log(sb, count, &n, &err), 0);
    snprintf(path, sizeof path, "%s/net", home);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/net/%s.jsonl", home, cay_sandbox_id(sb));
    static const char text[] =
        "{\"t\":1,\"event\":\"dns\",\"verdict\":\"deny\",\"name\":\"x\"}\nnot json\n"
        "{\"t\":2,\"event\":\"end\",\"up\":10,\"down\":20}\n{\"t\":3,\"event\":\"fl";
    CAY_AUTOFD fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
    assert_int_equal(cay_net_log(sb, count, &n, &err), 0);
    assert_int_equal(n, 2);
    assert_int_equal(cay_sandbox_remove(sb, NULL, &err), 0);
    cay_sandbox_unref(sb);
    cay_client_close(client);
}

static void json_is_the_same_policy(void **st)
{
    (void)st;
    static const char text[] = "cay-net 1\nmode rules\nrule example.com\nrule !bad.example\nrate "
                               "up 4096\nrate down 8192\nconnections 7\n"
                               "bind T https://example.com:443/v1,bearer,GET+POST\n";
    static const char *const bad[] = {
        "{\"rules\":[1]}",
        "{\"rules\":\"pypi\"}",
        "{\"mode\":\"some\"}",
        "{\"rate_up\":-1}",
        "{\"rate_up\":\"1m\"}",
        "{\"colour\":1}",
        "{\"mode\":\"off\",\"rules\":[\"a.example\"]}",
        "{\"bindings\":[{\"name\":\"T\"}]}",
        "{\"rules\":[\"a\\u0000b\"]}",
        "[]",
        "{\"bindings\":[{\"name\":\"T\",\"destination\":\"a.example\"}]}",
        "{\"rules\":[\"!a.example\"]}",
    };
    cay_err err = CAY_ERR_INIT;
    char *json = NULL, *back = NULL;
    assert_int_equal(cay_policy_to_json(text, &json, &err), 0);
    if (cay_policy_from_json(json, &back, &err) < 0)
        fail_msg("%s: %s", json, err.msg);
    assert_string_equal(back, text);
    free(json);
    free(back);
    for (size_t i = 0; i < CAY_LEN(bad); i++)
        if (cay_policy_from_json(bad[i], &back, &err) != CAY_EINVAL)
            fail_msg("%s passes", bad[i]);
}

static void fetches_follow_only_what_is_judged(void **st)
{
    (void)st;
    cay_client *client = open_svc();
    cay_sandbox *sb = make(client, NULL);
    cay_err err = CAY_ERR_INIT;
    cay_net_fetch *f = NULL;
    int fd = -1;
    assert_int_equal(cay_net_fetch_open(sb, "https://Example.com/a/b?c#d", &f, &err), 0);
    assert_string_equal(cay_net_fetch_at(f)->target, "/a/b?c");
    assert_int_equal(cay_net_fetch_dial(f, NULL, &fd, &err), 0);
    close(fd);
    assert_string_equal(net.dialled, "example.com 443");
    assert_true(net.implicit);
    assert_int_equal(cay_net_fetch_redirect(f, "../x", &err), 0);
    assert_int_equal(cay_net_fetch_dial(f, NULL, &fd, &err), 0);
    close(fd);
    assert_true(net.implicit); /* the same place */
    assert_int_equal(cay_net_fetch_redirect(f, "https://cdn.example.net/y", &err), 0);
    assert_int_equal(cay_net_fetch_dial(f, NULL, &fd, &err), 0);
    close(fd);
    assert_false(net.implicit); /* another host needs a rule */
    assert_int_equal(cay_net_fetch_redirect(f, "http://example.com/", &err), CAY_EUPSTREAM);
    assert_int_equal(cay_net_fetch_redirect(f, "https://2130706433/", &err), CAY_EINVAL);
    assert_int_equal(cay_net_fetch_redirect(f, "file:///etc/passwd", &err), CAY_EINVAL);
    assert_int_equal(cay_net_fetch_redirect(f, "//example.com:8443/z", &err), 0);
    assert_int_equal(cay_net_fetch_dial(f, NULL, &fd, &err), 0);
    close(fd);
    assert_string_equal(net.dialled, "example.com 8443");
    assert_false(net.implicit);
    assert_int_equal(cay_net_fetch_redirect(f, "/1", &err), 0);
    assert_int_equal(cay_net_fetch_redirect(f, "/2", &err), 0);
    assert_int_equal(cay_net_fetch_redirect(f, "/3", &err), CAY_EUPSTREAM);
    assert_string_equal(err.reason, "too_many_redirects");
    cay_net_fetch_close(f);
    assert_int_equal(cay_sandbox_remove(sb, NULL, &err), 0);
    cay_sandbox_unref(sb);
    cay_client_close(client);
}

static void urls_have_one_reading(void **st)
{
    (void)st;
    static const char *const good[][2] = {
        { "http://example.com", "example.com 80 /" },
        { "HTTPS://EXAMPLE.com.:8443?x", "example.com 8443 /?x" },
        { "http://192.0.2.1/a", "192.0.2.1 80 /a" },
        { "http://[2001:db8::1]:81/a#b", "2001:db8::1 81 /a" },
    };
    static const char *const bad[] = {
        "ftp://a.example",
        "file:///x",
        "a.example",
        "//a.example",
        "http://",
        "http:///x",
        "http://u@a.example",
        "http://u:p@a.example",
        "http://a.example\\@b.example",
        "http://a.example:0",
        "http://a.example:70000",
        "http://a.example:x",
        "http://2130706433",
        "http://0x7f.1",
        "http://127.1",
        "http://0177.0.0.1",
        "http://[::ffff:127.0.0.1]",
        "http://[::1",
        "http://[fe80::1%25eth0]",
        "http://a b.example",
        "http://a.example/\n",
        "http://b\xc3\xbc.example",
        "http://a..example",
        "http://%61.example",
        "http://[a.example]",
    };
    for (size_t i = 0; i < CAY_LEN(good); i++) {
        cay__url u;
        char text[CAY__URL_MAX + 300];
        assert_int_equal(cay__url_parse(good[i][0], &u, NULL), 0);
        snprintf(text, sizeof text, "%s %d %s", u.host, (int)u.port, u.target);
        assert_string_equal(text, good[i][1]);
    }
    for (size_t i = 0; i < CAY_LEN(bad); i++) {
        cay__url u;
        cay_err err = CAY_ERR_INIT;
        if (cay__url_parse(bad[i], &u, &err) != CAY_EINVAL)
            fail_msg("%s passes as %s", bad[i], u.host);
    }
    cay_err err = CAY_ERR_INIT;
    cay__url u;
    assert_int_equal(cay__url_parse("ftp://a.example/?token=s3cret", &u, &err), CAY_EINVAL);
    assert_null(strstr(err.msg, "s3cret"));
}

static int one_port(const cay_exposed *e, void *arg)
{
    assert_string_equal(e->token, "");
    *(int *)arg += e->port;
    return 0;
}

static void tokens_open_one_port_for_a_time(void **st)
{
    (void)st;
    char hash[CAY__SHA256_HEX], long_text[200];
    cay__sha256_hex("abc", 3, hash);
    assert_string_equal(hash, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    cay__sha256_hex("", 0, hash);
    assert_string_equal(hash, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    memset(long_text, 'a', sizeof long_text);
    cay__sha256_hex(long_text, 119, hash);
    assert_string_equal(hash, "31eba51c313a5c08226adf18d4a359cfdfd8d2e816b13f4af952f7ea6584dcfb");
    cay_client *client = open_svc();
    cay_sandbox *sb = make(client, NULL);
    cay_err err = CAY_ERR_INIT;
    cay_exposed a = { .size = sizeof a }, b = { .size = sizeof b };
    char id[CAY_ID_LEN + 1], file[200];
    int ports = 0;
    cay__str_copy(id, sizeof id, cay_sandbox_id(sb));
    assert_int_equal(cay_port_expose(sb, 8000, 0, &a, &err), 0);
    assert_int_equal(cay_port_expose(sb, 8001, 1, &b, &err), 0);
    assert_int_equal(cay_port_expose(sb, 0, 0, &b, &err), CAY_EINVAL);
    assert_int_equal(cay_port_expose(sb, 8000, 8 * 86400000ull, &b, &err), CAY_EINVAL);
    assert_int_equal(cay_port_token_check(client, id, 8000, a.token, &err), 0);
    assert_int_equal(cay_port_token_check(client, id, 8001, a.token, &err), CAY_EPERM);
    assert_int_equal(cay_port_token_check(client, "caaaaaaaaaaaaaaaaaaa", 8000, a.token, &err),
                     CAY_EPERM);
    assert_int_equal(cay_port_token_check(client, "../x", 8000, a.token, &err), CAY_EPERM);
    assert_int_equal(cay_port_token_check(client, id, 8000, "", &err), CAY_EPERM);
    usleep(3000);
    assert_int_equal(cay_port_token_check(client, id, 8001, b.token, &err),
                     CAY_EPERM); /* its time is over */
    assert_int_equal(cay_port_exposed(sb, one_port, &ports, &err), 0);
    assert_int_equal(ports, 8000);
    snprintf(file, sizeof file, "%s/store.db-wal", home);
    static char text[1 << 20];
    CAY_AUTOFD fd = open(file, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text) : 0;
    assert_true(n <= 0 ||
                !memmem(text, (size_t)n, a.token, strlen(a.token))); /* its hash alone is kept */
    char first[sizeof a.token];
    memcpy(first, a.token, sizeof first);
    assert_int_equal(cay_port_expose(sb, 8000, 0, &a, &err), 0);
    assert_int_equal(cay_port_token_check(client, id, 8000, first, &err), CAY_EPERM);
    assert_int_equal(cay_port_unexpose(sb, 8000, &err), 0);
    assert_int_equal(cay_port_unexpose(sb, 8000, &err), CAY_ENOENT);
    assert_int_equal(cay_port_token_check(client, id, 8000, a.token, &err), CAY_EPERM);
    assert_int_equal(cay_port_expose(sb, 8000, 0, &a, &err), 0);
    assert_int_equal(cay_sandbox_remove(sb, NULL, &err), 0);
    assert_int_equal(cay_port_token_check(client, id, 8000, a.token, &err), CAY_EPERM);
    cay_sandbox_unref(sb);
    cay_client_close(client);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(policy_is_kept_and_taken_up_again),
        T(a_refused_policy_leaves_the_former),
        T(providers_without_policy_refuse_by_name),
        T(live_rules_take_effect_over_older_ones),
        T(why_names_rule_and_remedy),
        T(log_passes_over_broken_lines),
        T(json_is_the_same_policy),
        T(fetches_follow_only_what_is_judged),
        T(urls_have_one_reading),
        T(tokens_open_one_port_for_a_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
