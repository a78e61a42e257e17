/* SPDX-License-Identifier: Apache-2.0 */
/* States of sandboxes, written and resumed, on the provider in memory. */
#include "calls.h"
#include <base/base.h>
#include <base/json.h>
#include <base/str.h>
#include <stdio.h>

static const cay_provider_ops *const providers[] = { &cay__memory, NULL };

static int set_up(void **s)
{
    home_up(s);
    client = home_open("memory", providers);
    return 0;
}

static char *save(cay_sandbox *sb, bool snapshot)
{
    char *json = NULL;
    cay_save_state s = { .size = sizeof s, .snapshot = snapshot };
    OK(cay_sandbox_save_state(sb, NULL, &s, &json, &err));
    return json;
}

static int resume(const char *json, const cay_create *with, cay_sandbox **sb, cay_resumed *how)
{
    cay_resume_state r = { .size = sizeof r, .state = json, .len = strlen(json), .with = with };
    err = (cay_err)CAY_ERR_INIT;
    return cay_client_resume_state(client, NULL, &r, sb, how, &err);
}

/* The text with one member of an object below `in` (NULL: the top) changed. */
static char *with_change(const char *json, const char *in, const char *key, const char *value)
{
    json_t *o = json_loads(json, 0, NULL);
    json_object_set_new(in ? json_object_get(o, in) : o, key,
                        json_loads(value, JSON_DECODE_ANY, NULL));
    char *text = json_dumps(o, JSON_COMPACT);
    json_decref(o);
    return text;
}

static void the_living_one_is_found(void **s)
{
    (void)s;
    cay_sandbox *sb = make((cay_create){ 0 }), *again = NULL;
    cay_resumed how = 0;
    CAY_AUTOFREE char *json = save(sb, false);
    put(sb, "/workspace/f", "later");
    assert_int_equal(resume(json, NULL, &again, &how), 0);
    assert_int_equal(how, CAY_RESUMED_ALIVE);
    assert_string_equal(cay_sandbox_id(again), cay_sandbox_id(sb));
    assert_string_equal(text_of(again, "/workspace/f"), "later");
    cay_sandbox_unref(again);
    OK(cay_sandbox_kill(sb, NULL, &err));
    assert_int_equal(resume(json, NULL, &again, &how), 0);
    assert_int_equal(how, CAY_RESUMED_KEPT); /* no snapshot: what is there counts */
    assert_string_equal(text_of(again, "/workspace/f"), "later");
    cay_sandbox_unref(again);
    OK(cay_sandbox_remove(sb, NULL, &err));
    assert_int_equal(resume(json, NULL, &again, &how), CAY_EGONE);
    assert_string_equal(err.reason, "state_lost");
    cay_sandbox_unref(sb);
}

static void a_stopped_one_goes_back(void **s)
{
    (void)s;
    cay_sandbox *sb = make((cay_create){ 0 }), *again = NULL;
    cay_resumed how = 0;
    put(sb, "/workspace/f", "saved");
    CAY_AUTOFREE char *json = save(sb, true);
    put(sb, "/workspace/f", "changed");
    OK(cay_sandbox_kill(sb, NULL, &err));
    assert_int_equal(resume(json, NULL, &again, &how), 0);
    assert_int_equal(how, CAY_RESUMED_RESTORED);
    assert_string_equal(text_of(again, "/workspace/f"), "saved");
    cay_sandbox_unref(again);
    OK(cay_sandbox_remove(sb, NULL, &err));
    cay_sandbox_unref(sb);
}

static void one_that_is_gone_is_made_again(void **s)
{
    (void)s;
    cay_pair env[] = { { "A", "b" }, { NULL, NULL } },
             labels[] = { { "team", "red" }, { NULL, NULL } };
    cay_sandbox *sb = make((cay_create){
                    .name = "web", .process.env = env, .labels = labels, .metadata = "{\"k\":1}" }),
                *again = NULL;
    cay_resumed how = 0;
    cay_info *info = NULL;
    char id[CAY_ID_LEN + 1];
    put(sb, "/workspace/f", "saved");
    CAY_AUTOFREE char *json = save(sb, true);
    cay__str_copy(id, sizeof id, cay_sandbox_id(sb));
    OK(cay_sandbox_remove(sb, NULL, &err));
    cay_sandbox_unref(sb);
    if (resume(json, NULL, &again, &how) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(how, CAY_RESUMED_REBUILT);
    assert_string_equal(cay_sandbox_id(again), id);
    assert_string_equal(text_of(again, "/workspace/f"), "saved");
    OK(cay_sandbox_describe(again, NULL, &info, &err));
    assert_string_equal(info->name, "web");
    assert_string_equal(info->labels[0].value, "red");
    assert_string_equal(info->metadata, "{\"k\":1}");
    cay_info_free(info);
    OK(cay_sandbox_remove(again, NULL, &err));
    cay_sandbox_unref(again);
}

static void what_is_forged_is_refused(void **s)
{
    (void)s;
    cay_sandbox *sb = make((cay_create){ 0 }), *other = make((cay_create){ 0 }), *again = NULL;
    cay_resumed how = 0;
    CAY_AUTOFREE char *json = save(sb, true), *theirs = save(other, true);
    json_t *o = json_loads(theirs, 0, NULL);
    CAY_AUTOFREE char *snapshot = json_dumps(json_object_get(o, "snapshot"), 0);
    json_decref(o);
    OK(cay_sandbox_remove(sb, NULL, &err));
    CAY_AUTOFREE char *a = with_change(json, NULL, "snapshot", snapshot),
                      *b = with_change(json, NULL, "provider", "\"local\""),
                      *c = with_change(json, "sandbox", "limits", "{\"memory\":\"unlimited\"}"),
                      *d = with_change(json, NULL, "isolation", "4"),
                      *e = with_change(json, "sandbox", "grants",
                                       "[{\"source\":\"/etc\",\"target\":\"/x\"}]");
    assert_int_equal(resume(a, NULL, &again, &how), CAY_EPERM); /* another's snapshot */
    assert_string_equal(err.reason, "state_refused");
    assert_int_equal(resume(b, NULL, &again, &how), CAY_EPERM); /* another provider */
    assert_string_equal(err.reason, "state_refused");
    assert_int_equal(resume(c, NULL, &again, &how), CAY_EINVAL); /* more than everybody gets */
    assert_string_equal(err.reason, "state_incomplete");
    assert_true(resume(d, NULL, &again, &how) <
                0); /* a wall that is not there, or cannot be told */
    assert_int_equal(resume(e, NULL, &again, &how), CAY_EPERM);
    assert_string_equal(err.reason, "state_refused");
    cay_sandbox_unref(sb);
    OK(cay_sandbox_remove(other, NULL, &err));
    cay_sandbox_unref(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_living_one_is_found, set_up, calls_end),
        cmocka_unit_test_setup_teardown(a_stopped_one_goes_back, set_up, calls_end),
        cmocka_unit_test_setup_teardown(one_that_is_gone_is_made_again, set_up, calls_end),
        cmocka_unit_test_setup_teardown(what_is_forged_is_refused, set_up, calls_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
