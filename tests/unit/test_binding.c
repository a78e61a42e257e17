/* SPDX-License-Identifier: Apache-2.0 */
#include <policy/binding.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

static cay__policy bound(const char *rules, const char *const *pairs)
{
    cay__policy p = { 0 };
    cay_err err = CAY_ERR_INIT;
    int rc = cay__policy_words(&p, rules, &err);
    for (; rc == 0 && *pairs; pairs += 2)
        rc = cay__binding_add(&p, pairs[0], pairs[1], &err);
    if (rc == 0)
        rc = cay__policy_check(&p, &err);
    if (rc < 0)
        fail_msg("%s", err.msg);
    return p;
}
#define BOUND(rules, ...) bound(rules, (const char *const[]){ __VA_ARGS__, NULL })

static void destinations_have_one_spelling(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "api.example.com", "https://api.example.com:443/,bearer" },
        { "API.Example.com:8443/v1/", "https://api.example.com:8443/v1,bearer" },
        { "https://api.example.com/v1,header:X-Api-Key",
          "https://api.example.com:443/v1,header:X-Api-Key" },
        { "http://api.example.com,query:key,GET+POST",
          "http://api.example.com:80/,query:key,GET+POST" },
        { "github.com,basic:me@example.com,POST+GET",
          "https://github.com:443/,basic:me@example.com,GET+POST" },
        { "*.Example.com,header:X-Key", "https://*.example.com:443/,header:X-Key" },
    };
    for (size_t i = 0; i < CAY_LEN(cases); i++) {
        cay__policy p = BOUND("any,any:8443", "T", cases[i][0]);
        char text[CAY__BINDING_TEXT];
        cay__binding_text(&p.bindings[0], text, sizeof text);
        assert_string_equal(text, cases[i][1]);
        char *file = NULL;
        size_t len;
        cay__policy again;
        assert_int_equal(cay__policy_write(&p, &file, &len, NULL), 0);
        assert_int_equal(cay__policy_read(&again, file, len, false, NULL), 0);
        assert_memory_equal(&again.bindings[0], &p.bindings[0], sizeof(cay__binding));
        free(file);
        cay__policy_clear(&again);
        cay__policy_clear(&p);
    }
}

static void bad_bindings_are_refused_by_name(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        { "9T", "a.example", "variable" },
        { "", "a.example", "variable" },
        { "A-B", "a.example", "variable" },
        { "T", "", "destination" },
        { "T", "**.a.example", "one exact name" },
        { "T", "any", "one exact name" },
        { "T", "a.example.", "without the dot" },
        { "T", "*", "" },
        { "T", "a.*.example", "" },
        { "T", "192.0.2.1", "one exact name" },
        { "T", "a.example:1-9", "one exact name" },
        { "T", "!a.example", "one exact name" },
        { "T", "ftp://a.example", "scheme" },
        { "T", "a.example:0", "port" },
        { "T", "a.example/../x", "plain path" },
        { "T", "a.example/x/..", "plain path" },
        { "T", "a.example/%2e%2e/x", "plain path" },
        { "T", "a.example/%2fx", "plain path" },
        { "T", "a.example//x", "plain path" },
        { "T", "a.example/a?b", "plain path" },
        { "T", "a.example,cookie", "neither a kind" },
        { "T", "a.example,bearer:x", "neither a kind" },
        { "T", "a.example,GET+FETCH", "neither a kind" },
        { "T", "a.example,", "neither a kind" },
        { "T", "a.example,bearer,basic:x", "twice" },
        { "T", "a.example,GET,POST", "twice" },
        { "T", "a.example,header:", "needs a name" },
        { "T", "a.example,header:Host", "frames" },
        { "T", "a.example,header:content-LENGTH", "frames" },
        { "T", "a.example,header:X Y", "cannot stand" },
        { "T", "a.example,header:X:Y", "cannot stand" },
        { "T", "a.example,query:a&b", "cannot stand" },
        { "T", "a.example,basic:a:b", "cannot stand" },
    };
    for (size_t i = 0; i < CAY_LEN(cases); i++) {
        cay__policy p = { 0 };
        cay_err err = CAY_ERR_INIT;
        int rc = cay__binding_add(&p, cases[i][0], cases[i][1], &err);
        if (rc != CAY_EINVAL || !strstr(err.msg, cases[i][2]))
            fail_msg("%s@%s: %d %s", cases[i][0], cases[i][1], rc, err.msg);
        cay__policy_clear(&p);
    }
}

static void bindings_need_a_rule_and_no_twin(void **state)
{
    (void)state;
    static const struct {
        const char *rules, *one, *two, *reason;
    } cases[] = {
        { "a.example", "b.example", NULL, "secret_without_rule" },
        { "a.example:80", "a.example", NULL, "secret_without_rule" },
        { "http://a.example:443", "a.example", NULL, "secret_without_rule" },
        { "*.example,!a.example", "a.example", NULL, "secret_without_rule" },
        { "off", "a.example", NULL, "secret_without_rule" },
        { "a.example", "a.example", "a.example", "secret_conflict" },
        { "a.example", "a.example/v1", "a.example/v1/x", "secret_conflict" },
        { "a.example", "a.example/v1", "a.example", "secret_conflict" },
        { "a.example", "a.example,GET+POST", "a.example,POST", "secret_conflict" },
        { "a.example", "a.example/v1", "a.example/v12", "" },
        { "a.example", "a.example,GET", "a.example,POST", "" },
        { "a.example", "a.example", "http://a.example", "" },
        { "a.example", "a.example", "a.example,header:X-Key", "" },
        { "a.example", "a.example,query:k", "a.example,query:l", "" },
        { "a.example", "a.example,query:k", "a.example,query:k", "secret_conflict" },
        { "a.example", "a.example", "a.example,header:authorization", "secret_conflict" },
        { "a.example", "a.example,basic:u", "a.example", "secret_conflict" },
        { "a.example", "a.example", "*.example", "" },
        { "a.example", "*.example,header:X", "*.example,header:x", "secret_conflict" },
        { "a.example", "*.other.example", NULL, "" },
        { "all", "a.example:8443", NULL, "" },
        { "a.example:8443", "http://a.example:8443", "a.example:8443", "" },
    };
    for (size_t i = 0; i < CAY_LEN(cases); i++) {
        cay__policy p = { 0 };
        cay_err err = CAY_ERR_INIT;
        assert_int_equal(cay__policy_words(&p, cases[i].rules, &err), 0);
        assert_int_equal(cay__binding_add(&p, "ONE", cases[i].one, &err), 0);
        if (cases[i].two)
            assert_int_equal(cay__binding_add(&p, "TWO", cases[i].two, &err), 0);
        int rc = cay__policy_check(&p, &err);
        if ((rc < 0) != (*cases[i].reason != 0) || strcmp(err.reason, cases[i].reason) != 0)
            fail_msg("%zu: %d %s", i, rc, err.msg);
        cay__policy_clear(&p);
    }
}

static const char *find(const cay__policy *p, const char *host, uint16_t port, const char *method,
                        const char *target)
{
    static char all[256];
    const cay__binding *use[CAY__BINDINGS_MAX];
    bool many;
    size_t n = cay__binding_find(p, true, host, port, method, strlen(method), target,
                                 strlen(target), use, &many),
           len = 0;
    for (size_t i = 0; i < n; i++)
        len += (size_t)snprintf(all + len, sizeof all - len, "%s%s", i ? " " : "", use[i]->name);
    return n ? all : many ? "many" : "none";
}

static void what_names_a_host_most_exactly_counts_alone(void **state)
{
    (void)state;
    cay__policy p = BOUND("any", "ONE", "*.example", "TWO", "*.b.example,header:X", "THREE",
                          "*.b.example,header:Y,GET", "OWN", "a.b.example,header:Z");
    assert_string_equal(find(&p, "c.example", 443, "GET", "/"), "ONE");
    assert_string_equal(find(&p, "b.example", 443, "GET", "/"), "ONE");
    assert_string_equal(find(&p, "x.b.example", 443, "GET", "/"), "TWO THREE");
    assert_string_equal(find(&p, "y.x.b.example", 443, "POST", "/"), "TWO");
    assert_string_equal(find(&p, "a.b.example", 443, "GET", "/"), "OWN");
    assert_string_equal(find(&p, "x.a.b.example", 443, "GET", "/"), "TWO THREE");
    assert_string_equal(find(&p, "example", 443, "GET", "/"), "none");
    assert_string_equal(find(&p, "bexample", 443, "GET", "/"), "none");
    assert_string_equal(find(&p, "evil-example", 443, "GET", "/"), "none");
    assert_string_equal(find(&p, "c.example", 8443, "GET", "/"), "none");
    assert_true(cay__binding_for_host(&p, "q.example", 443, true));
    assert_false(cay__binding_for_host(&p, "example", 443, true));
    cay__policy_clear(&p);
}

static void a_request_finds_its_one_binding(void **state)
{
    (void)state;
    cay__policy p =
        BOUND("any", "V1", "a.example/v1", "V2", "a.example/v2,GET", "ROOT", "b.example");
    assert_string_equal(find(&p, "a.example", 443, "GET", "/v1"), "V1");
    assert_string_equal(find(&p, "a.example", 443, "GET", "/v1/x?y=1"), "V1");
    assert_string_equal(find(&p, "a.example", 443, "GET", "/v1?y=/../v2"), "V1");
    assert_string_equal(find(&p, "a.example", 443, "GET", "/v12"), "none");
    assert_string_equal(find(&p, "a.example", 443, "GET", "/V1"), "none");
    assert_string_equal(find(&p, "a.example", 443, "GET", "/"), "none");
    assert_string_equal(find(&p, "a.example", 443, "POST", "/v2"), "none");
    assert_string_equal(find(&p, "a.example", 443, "get", "/v2"), "none");
    assert_string_equal(find(&p, "a.example", 443, "GET", "/v2/a"), "V2");
    assert_string_equal(find(&p, "a.example", 443, "GET", "/v1/../admin"), "none");
    assert_string_equal(find(&p, "a.example", 443, "GET", "/v1/%2E%2e/admin"), "none");
    assert_string_equal(find(&p, "a.example", 443, "GET", "/v1/..;/admin"), "none");
    assert_string_equal(find(&p, "a.example", 443, "GET", "/v1\\..\\admin"), "none");
    assert_string_equal(find(&p, "a.example", 443, "GET", "/v1//x"), "none");
    assert_string_equal(find(&p, "a.example", 443, "GET", "/v1/%252e"), "none");
    assert_string_equal(find(&p, "a.example", 443, "GET", "v1"), "none");
    assert_string_equal(find(&p, "a.example", 443, "GET", "http://a.example/v1"), "none");
    assert_string_equal(find(&p, "a.example", 8443, "GET", "/v1"), "none");
    assert_string_equal(find(&p, "b.example", 443, "BREW", "/any/../thing"), "ROOT");
    assert_string_equal(find(&p, "x.b.example", 443, "GET", "/"), "none");
    bool many;
    assert_int_equal(cay__binding_find(&p, false, "b.example", 443, "GET", 3, "/", 1,
                                       (const cay__binding *[CAY__BINDINGS_MAX]){ NULL }, &many),
                     0);
    assert_true(cay__binding_for_host(&p, "b.example", 443, true));
    assert_false(cay__binding_for_host(&p, "b.example", 443, false));
    assert_false(cay__binding_for_host(&p, "b.example", 80, true));
    /* Two at once, however they came there. */
    cay__policy two = BOUND("any", "A", "a.example,GET", "B", "a.example,POST");
    two.bindings[1].methods = two.bindings[0].methods;
    assert_string_equal(find(&two, "a.example", 443, "GET", "/"), "many");
    cay__policy_clear(&two);
    cay__policy_clear(&p);
}

static void values_are_rendered_for_their_place(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        { "a.example", "s3cret", "Bearer s3cret" },
        { "a.example,header:X-Api-Key", "s3cret", "s3cret" },
        { "a.example,basic:me", "s3cret", "Basic bWU6czNjcmV0" },
        { "a.example,basic:x", "ab", "Basic eDphYg==" },
        { "a.example,query:key", "a b&c=d/\xc3\xa9", "a%20b%26c%3Dd%2F%C3%A9" },
    };
    for (size_t i = 0; i < CAY_LEN(cases); i++) {
        cay__policy p = BOUND("any", "T", cases[i][0]);
        CAY_AUTOBUF b = CAY__BUF(1024);
        assert_true(cay__binding_render(&p.bindings[0], cases[i][1], strlen(cases[i][1]), &b));
        assert_string_equal(b.data, cases[i][2]);
        CAY_AUTOBUF none = CAY__BUF(1024);
        assert_false(cay__binding_render(&p.bindings[0], "a\r\nX: y", 7, &none));
        assert_false(cay__binding_render(&p.bindings[0], "a\0b", 3, &none));
        assert_false(cay__binding_render(&p.bindings[0], "", 0, &none));
        cay__policy_clear(&p);
    }
}

static void a_key_leaves_the_query_in_every_spelling(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "key=1", "" },
        { "a=1&key=2&b=3", "a=1&b=3" },
        { "k%65y=1&x", "x" },
        { "key", "" },
        { "keys=1&ke=2", "keys=1&ke=2" },
        { "a=1;key=2;b", "a=1&b" },
        { "", "" },
        { "&&a", "a" },
        { "key=1&key=2", "" },
    };
    for (size_t i = 0; i < CAY_LEN(cases); i++) {
        CAY_AUTOBUF b = CAY__BUF(1024);
        cay__query_without(cases[i][0], strlen(cases[i][0]), "key", &b);
        assert_string_equal(b.data ? b.data : "", cases[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(destinations_have_one_spelling),
        cmocka_unit_test(bad_bindings_are_refused_by_name),
        cmocka_unit_test(bindings_need_a_rule_and_no_twin),
        cmocka_unit_test(a_request_finds_its_one_binding),
        cmocka_unit_test(what_names_a_host_most_exactly_counts_alone),
        cmocka_unit_test(values_are_rendered_for_their_place),
        cmocka_unit_test(a_key_leaves_the_query_in_every_spelling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
