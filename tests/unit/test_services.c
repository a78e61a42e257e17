/* SPDX-License-Identifier: Apache-2.0 */
/* Services as JSON and as plain structs. */
#include <base/base.h>
#include <cay/manifest.h>
#include <cay/services.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

static cay_err last;

static cay_services *parse(const char *text)
{
    cay_services *u = NULL;
    last = (cay_err)CAY_ERR_INIT;
    return cay_services_parse(text, strlen(text), &u, &last) < 0 ? NULL : u;
}

static void refused(const char *text, const char *service, const char *word)
{
    char detail[120];
    assert_null(parse(text));
    assert_int_equal(last.code, CAY_EINVAL);
    assert_string_equal(last.reason, "services_invalid");
    snprintf(detail, sizeof detail, "{\"service\":\"%s\",\"reason\":\"%s\"}", service, word);
    assert_string_equal(last.detail, detail);
}

static void every_field_is_read(void **state)
{
    size_t n = 0;
    (void)state;
    cay_services *u = parse(
        "{\"db\":{\"command\":\"exec "
        "db\"},\"web\":{\"command\":[\"serve\",\"\"],\"port\":80,\"environment\":{\"A\":\"b\"},"
        "\"user\":\"www\",\"cwd\":\"~\",\"health\":{\"command\":[\"ping\"],\"intervalMs\":20,"
        "\"timeout_ms\":30},"
        "\"restart\":\"always\",\"after\":\"db\",\"stop_ms\":40}}");
    assert_non_null(u);
    const cay_service *l = cay_services_list(u, &n);
    assert_int_equal(n, 2);
    assert_string_equal(l[0].shell, "exec db");
    assert_int_equal(l[0].restart, CAY_RESTART_ON_FAILURE);
    assert_string_equal(l[1].argv[0], "serve");
    assert_string_equal(l[1].argv[1], "");
    assert_null(l[1].argv[2]);
    assert_string_equal(l[1].env[0].value, "b");
    assert_string_equal(l[1].health_argv[0], "ping");
    assert_string_equal(l[1].after[0], "db");
    assert_int_equal(l[1].port, 80);
    assert_int_equal(l[1].interval_ms, 20);
    assert_int_equal(l[1].timeout_ms, 30);
    assert_int_equal(l[1].stop_ms, 40);
    assert_int_equal(l[1].restart, CAY_RESTART_ALWAYS);
    CAY_AUTOFREE char *json = NULL;
    assert_int_equal(cay_services_json(u, &json, NULL), 0);
    cay_services *again = parse(json);
    CAY_AUTOFREE char *twice = NULL;
    assert_int_equal(cay_services_json(again, &twice, NULL), 0);
    assert_string_equal(json, twice);
    cay_services_free(u);
    cay_services_free(again);
}

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    refused("[", "", "json");
    refused("3", "", "json");
    refused("{\"a\":{}}", "a", "command");
    refused("{\"a\":[]}", "a", "type");
    refused("{\"a b\":{\"command\":\"x\"}}", "a b", "name");
    refused("[{\"command\":\"x\"}]", "", "name");
    refused("{\"abcdefghijklmnopqrstuvwx\":{\"command\":\"x\"}}", "abcdefghijklmnopqrstuvwx",
            "name");
    refused("[{\"name\":\"a\",\"command\":\"x\"},{\"name\":\"a\",\"command\":\"x\"}]", "a",
            "duplicate");
    refused("{\"a\":{\"command\":\"x\",\"port\":65536}}", "a", "port");
    refused("{\"a\":{\"command\":\"x\",\"stop_ms\":9}}", "a", "stop_ms");
    refused("{\"a\":{\"command\":\"x\",\"env\":{\"\":\"1\"}}}", "a", "environment");
    refused("{\"a\":{\"command\":\"x\",\"wat\":1}}", "a", "unknown_field");
    refused("{\"a\":{\"command\":\"x\",\"health\":{\"http\":1}}}", "a", "unknown_field");
    refused("{\"a\":{\"command\":\"x\",\"after\":[\"b\"]}}", "a", "after");
}

static void circles_are_found(void **state)
{
    (void)state;
    refused("{\"a\":{\"command\":\"x\",\"after\":[\"a\"]}}", "a", "circle");
    refused("{\"z\":{\"command\":\"x\",\"after\":[\"a\"]},\"a\":{\"command\":\"x\",\"after\":["
            "\"b\"]},\"b\":{\"command\":\"x\",\"after\":[\"a\"]}}",
            "b", "circle");
    /* Two ways to the same one are no circle. */
    cay_services *u =
        parse("{\"a\":{\"command\":\"x\",\"after\":[\"b\",\"c\"]},\"b\":{\"command\":"
              "\"x\",\"after\":[\"d\"]},"
              "\"c\":{\"command\":\"x\",\"after\":[\"d\"]},\"d\":{\"command\":\"x\"}}");
    assert_non_null(u);
    cay_services_free(u);
}

static void one_comes_on_top_of_another(void **state)
{
    (void)state;
    CAY_AUTOFREE char *a = NULL, *b = NULL, *c = NULL;
    const char *below = "{\"a\":{\"command\":\"x\"},\"b\":{\"command\":\"y\"}}";
    assert_int_equal(
        cay_services_merge(
            below, "{\"a\":null,\"b\":{\"command\":\"z\"},\"c\":{\"command\":\"w\"}}", &a, NULL),
        0);
    assert_string_equal(a, "{\"b\":{\"command\":\"z\"},\"c\":{\"command\":\"w\"}}");
    assert_int_equal(cay_services_merge(NULL, below, &b, NULL), 0);
    assert_string_equal(b, below);
    assert_int_equal(cay_services_merge(below, "{\"a\":null,\"b\":null}", &c, NULL), 0);
    assert_null(c);
    assert_int_equal(cay_services_merge(
                         "{\"a\":{\"command\":\"x\",\"after\":[\"b\"]},\"b\":{\"command\":\"y\"}}",
                         "{\"b\":null}", &c, &last),
                     CAY_EINVAL);
}

static void a_manifest_carries_them(void **state)
{
    cay_manifest *m = NULL;
    (void)state;
    const char *text =
        "{\"services\":[{\"name\":\"a\",\"command\":\"x\",\"user\":\"root\"}],\"sudo\":true}";
    assert_int_equal(cay_manifest_parse(text, strlen(text), CAY_MANIFEST_TRUSTED, &m, &last), 0);
    CAY_AUTOFREE char *json = NULL;
    assert_int_equal(cay_manifest_to_json(m, &json, NULL), 0);
    assert_non_null(
        strstr(json, "\"services\":{\"a\":{\"command\":\"x\",\"user\":\"root\"}},\"sudo\":true"));
    cay_manifest_free(m);
    assert_int_equal(cay_manifest_parse(text, strlen(text), 0, &m, &last), CAY_EINVAL);
    assert_non_null(strstr(last.detail, "untrusted_account"));
    /* On top of a template's: one is taken away, and one comes after another of those. */
    const char *part = "{\"services\":{\"a\":{\"command\":\"x\",\"after\":[\"db\"]},\"web\":null}}";
    CAY_AUTOFREE char *told = NULL;
    assert_int_equal(cay_manifest_parse(part, strlen(part), 0, &m, &last), 0);
    assert_int_equal(cay_manifest_to_json(m, &told, NULL), 0);
    assert_non_null(strstr(told, "\"after\":[\"db\"]},\"web\":null}"));
    cay_manifest_free(m);
    const char *sudo = "{\"sudo\":true}";
    assert_int_equal(cay_manifest_parse(sudo, strlen(sudo), 0, &m, &last), CAY_EINVAL);
    assert_non_null(strstr(last.detail, "untrusted_account"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_is_read),     cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(circles_are_found),       cmocka_unit_test(one_comes_on_top_of_another),
        cmocka_unit_test(a_manifest_carries_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
