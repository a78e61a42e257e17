/* SPDX-License-Identifier: Apache-2.0 */
/* Structs as JSON and back, the table of operations, and what each scope sees of all that is told:
 * `test_shape list` prints it, and tests/unit/wire_seen.txt is what it may be. */
#include <base/base.h>
#include <wire/shapes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

static void list_names(const cay__shape *s, const char *title, unsigned with, unsigned without)
{
    bool any = false;
    for (size_t i = 0; i < s->n; i++) {
        const cay__field *f = &s->fields[i];
        if (!cay__field_seen(s, f, with) || (without && cay__field_seen(s, f, without)))
            continue;
        printf("%s%s", any ? " " : title, f->name);
        any = true;
    }
    if (any)
        printf("\n");
}

static const cay__shape *listed[200];
static size_t nlisted;

/* A shape, and those inside it, each once. */
static void list_shape(const cay__shape *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < nlisted; i++)
        if (listed[i] == s)
            return;
    assert_true(nlisted < CAY_LEN(listed));
    listed[nlisted++] = s;
    printf("%s\n", s->name);
    list_names(s, "  everybody: ", CAY__F_OUT, 0);
    list_names(s, "  scope admin: ", CAY__F_OUT | CAY__F_ADMIN, CAY__F_OUT);
    list_names(s, "  told once: ", CAY__F_OUT | CAY__F_SECRET, CAY__F_OUT);
    for (size_t i = 0; i < s->n; i++) {
        cay__field_kind k = s->fields[i].kind;
        if (k == CAY__F_OBJECT || k == CAY__F_POINT || k == CAY__F_LIST)
            list_shape(s->fields[i].more);
    }
}

static void list_all(void)
{
    for (size_t i = 0; i < CAY__OP_COUNT; i++)
        for (size_t k = 0; k < CAY_LEN(cay__operations[i].answers); k++)
            list_shape(cay__operations[i].answers[k].shape);
}

static void every_operation_has_a_row_and_names_of_its_own(void **state)
{
    (void)state;
    for (size_t i = 0; i < CAY__OP_COUNT; i++) {
        const cay__operation *op = &cay__operations[i];
        assert_non_null(op->method);
        assert_non_null(op->id);
        assert_true(op->answers[0].status != 0);
        for (size_t k = 0; k < i; k++) {
            const cay__operation *o = &cay__operations[k];
            assert_string_not_equal(op->id, o->id);
            assert_false(!strcmp(op->path, o->path) && !strcmp(op->method, o->method));
            /* a schema has one shape */
            if (op->body && o->body && op->body != o->body)
                assert_string_not_equal(op->body->name, o->body->name);
        }
        /* a secret is told by operations that are flagged so */
        const cay__shape *s = op->answers[0].shape;
        for (size_t k = 0; s && k < s->n && op->flags & CAY__OP_CREATE; k++)
            if (s->fields[k].flags & CAY__F_SECRET)
                assert_true(op->flags & CAY__OP_SECRET);
    }
}

static json_t *load(const char *text)
{
    json_t *j = json_loads(text, 0, NULL);
    assert_non_null(j);
    return j;
}

static int read_create(cay__arena *mem, const char *text, unsigned view, cay__create_body *b,
                       cay_err *err)
{
    CAY_AUTOJSON *j = load(text);
    *b = (cay__create_body){ .c.size = sizeof b->c };
    *err = (cay_err)CAY_ERR_INIT;
    return cay__shape_read(mem, j, &cay__create_shape, CAY__F_IN | view, b, err);
}

static void a_request_is_checked_member_by_member(void **state)
{
    (void)state;
    cay__arena mem = { 0 };
    cay__create_body b;
    cay_err err;
    assert_int_equal(
        read_create(&mem, "{\"limits\":{\"memory\":\"unlimited\",\"pids\":7}}", 0, &b, &err), 0);
    assert_true(b.c.limits.memory == CAY_UNLIMITED && b.c.limits.pids == 7);
    assert_int_equal(read_create(&mem, "{\"limits\":{\"colour\":1}}", 0, &b, &err), CAY_EINVAL);
    assert_string_equal(err.reason, "field_unknown");
    assert_string_equal(err.detail, "{\"field\":\"limits.colour\"}");
    assert_int_equal(read_create(&mem, "{\"sudo\":1}", 0, &b, &err), CAY_EINVAL);
    assert_string_equal(err.reason, "field_invalid");
    assert_int_equal(read_create(&mem, "{\"secrets\":[{\"name\":\"a\"}]}", 0, &b, &err),
                     CAY_EINVAL);
    assert_string_equal(err.reason, "field_missing");
    cay__arena_clear(&mem);
}

static void what_is_scope_admins_is_refused_of_others(void **state)
{
    (void)state;
    cay__arena mem = { 0 };
    cay__create_body b;
    cay_err err;
    assert_int_equal(read_create(&mem, "{\"root\":\"/\"}", 0, &b, &err), CAY_EPERM);
    assert_string_equal(err.reason, "admin_only");
    assert_int_equal(read_create(&mem, "{\"root\":null,\"mounts\":[]}", 0, &b, &err), 0);
    assert_int_equal(read_create(&mem, "{\"root\":\"/\"}", CAY__F_ADMIN, &b, &err), 0);
    assert_string_equal(b.c.from.root, "/");
    cay__arena_clear(&mem);
}

static const cay_pair none[] = { { NULL, NULL } };
static const cay_info one = { .id = "c1",
                              .name = "",
                              .state = CAY_PAUSED,
                              .reason = "",
                              .provider = "local",
                              .template_ = "host",
                              .hostname = "h",
                              .user = "u",
                              .workdir = "/w",
                              .path = "/host/path",
                              .pid = 17,
                              .tenant = "t",
                              .from = "",
                              .network = "",
                              .metadata = "",
                              .settings = none,
                              .labels = none,
                              .level = CAY_LEVEL_NONE };

static void only_scope_admin_is_told_of_the_host(void **state)
{
    (void)state;
    CAY_AUTOBUF mine = CAY__BUF(1 << 16), theirs = CAY__BUF(1 << 16);
    cay__shape_put(&mine, &cay__sandbox_shape, CAY__F_OUT | CAY__F_ADMIN, &one);
    cay__shape_put(&theirs, &cay__sandbox_shape, CAY__F_OUT, &one);
    assert_non_null(strstr(mine.data, "\"path\":\"/host/path\",\"pid\":17"));
    assert_null(strstr(theirs.data, "host/path"));
    assert_null(strstr(theirs.data, "\"pid\""));
    assert_non_null(strstr(theirs.data, "\"state\":\"paused\""));
}

static void a_token_is_told_by_who_makes_it_alone(void **state)
{
    (void)state;
    cay__exposed_told x = { .e.port = 80 };
    snprintf(x.e.token, sizeof x.e.token, "secret");
    CAY_AUTOBUF made = CAY__BUF(4096), seen = CAY__BUF(4096);
    cay__shape_put(&made, &cay__exposed_shape, CAY__F_OUT | CAY__F_SECRET, &x);
    cay__shape_put(&seen, &cay__exposed_shape, CAY__F_OUT | CAY__F_ADMIN, &x);
    assert_non_null(strstr(made.data, "\"token\":\"secret\""));
    assert_null(strstr(seen.data, "secret"));
}

static void an_answer_is_read_as_it_was_written(void **state)
{
    (void)state;
    cay__arena mem = { 0 };
    cay_info got = { 0 };
    CAY_AUTOBUF b = CAY__BUF(1 << 16), again = CAY__BUF(1 << 16);
    cay__shape_put(&b, &cay__sandbox_shape, CAY__F_OUT | CAY__F_ADMIN, &one);
    CAY_AUTOJSON *j = load(b.data);
    assert_int_equal(cay__shape_read(&mem, j, &cay__sandbox_shape, CAY__F_OUT, &got, NULL), 0);
    cay__shape_put(&again, &cay__sandbox_shape, CAY__F_OUT | CAY__F_ADMIN, &got);
    assert_string_equal(again.data, b.data);
    assert_string_equal(got.metadata, "");
    assert_null(got.labels->key);
    cay__arena_clear(&mem);
}

static void a_newer_servers_members_are_skipped(void **state)
{
    (void)state;
    cay__arena mem = { 0 };
    cay_info got = { .pid = 3 };
    CAY_AUTOJSON *j =
        load("{\"id\":\"c2\",\"boot_id\":\"x\",\"pid\":\"seven\",\"state\":\"molten\","
             "\"labels\":[],\"limits\":{\"memory\":\"unlimited\",\"heat\":1}}");
    assert_int_equal(cay__shape_read(&mem, j, &cay__sandbox_shape, CAY__F_OUT, &got, NULL), 0);
    assert_string_equal(got.id, "c2");
    assert_int_equal(got.pid, 3);
    assert_int_equal(got.state, CAY_STATE_NONE);
    assert_true(got.limits.memory == CAY_UNLIMITED);
    CAY_AUTOJSON *list = load("[]");
    assert_int_equal(cay__shape_read(&mem, list, &cay__sandbox_shape, CAY__F_OUT, &got, NULL),
                     CAY_EUPSTREAM);
    cay__arena_clear(&mem);
}

static void bytes_that_are_no_text_come_back(void **state)
{
    (void)state;
    cay__arena mem = { 0 };
    cay_dirent e = { .path = "/a\xff", .st = { .type = CAY_LINK, .mode = 0777 } }, back = { 0 };
    snprintf(e.st.target, sizeof e.st.target, "b\xfe");
    cay_result r = { .out = (char *)"\xff\x00x", .out_len = 3, .exit.code = -1 }, res = { 0 };
    CAY_AUTOBUF b = CAY__BUF(1 << 16), c = CAY__BUF(1 << 16);
    cay__shape_put(&b, &cay__file_shape, CAY__F_OUT, &e);
    cay__shape_put(&c, &cay__result_shape, CAY__F_OUT, &r);
    CAY_AUTOJSON *file = load(b.data), *result = load(c.data);
    cay__shape_read(&mem, file, &cay__file_shape, CAY__F_OUT, &back, NULL);
    cay__shape_read(&mem, result, &cay__result_shape, CAY__F_OUT, &res, NULL);
    assert_string_equal(back.path, e.path);
    assert_string_equal(back.st.target, e.st.target);
    assert_int_equal(back.st.type, CAY_LINK);
    assert_int_equal(res.out_len, 3);
    assert_memory_equal(res.out, r.out, 3);
    assert_int_equal(res.exit.code, -1);
    cay__arena_clear(&mem);
}

/* --json has null where an answer of the server has 0. */
static void json_for_people_says_null_for_no_limit(void **state)
{
    (void)state;
    CAY_AUTOBUF b = CAY__BUF(4096), c = CAY__BUF(4096);
    const char *const nobody[] = { NULL };
    cay_volume v = { .name = "v", .provider = "native", .quota = "none", .users = nobody };
    cay__shape_put(&b, &cay__volume_shape, CAY__F_OUT, &v);
    assert_non_null(strstr(b.data, "\"limit\":0,"));
    cay__shape_put(&c, &cay__volume_shape, CAY__F_SHOWN, &v);
    assert_non_null(strstr(c.data, "\"limit\":null,"));
}

static void a_change_has_the_sides_that_there_are(void **state)
{
    (void)state;
    CAY_AUTOBUF b = CAY__BUF(4096);
    cay_file_change made = { .kind = 'A',
                             .path = "new",
                             .from = "",
                             .new_mode = S_IFDIR | 0750,
                             .new_size = 4096,
                             .old_digest = "" };
    cay__file_changed x;
    cay__file_changed_set(&x, &made);
    cay__shape_put(&b, &cay__change_shape, CAY__F_SHOWN, &x);
    assert_string_equal(b.data, "{\"kind\":\"A\",\"path\":\"new\",\"old\":null,"
                                "\"new\":{\"type\":\"directory\",\"mode\":\"0750\",\"size\":4096},"
                                "\"content\":false,\"mode\":false,\"owner\":false}");
}

static void a_request_says_what_was_asked_for_and_no_more(void **state)
{
    (void)state;
    CAY_AUTOBUF b = CAY__BUF(4096), c = CAY__BUF(4096);
    cay_fork f = { .n = 2 };
    cay__shape_put(&b, &cay__fork_shape, CAY__F_IN, &f);
    assert_string_equal(b.data, "{\"count\":2}");
    cay__edit_body e = { .path = "/x", .uid = 0, .gid = UINT32_MAX };
    cay__shape_put(&c, &cay__chown_shape, CAY__F_IN, &e);
    assert_string_equal(c.data, "{\"path\":\"/x\",\"uid\":0}");
}

static void a_target_is_encoded(void **state)
{
    (void)state;
    CAY_AUTOBUF b = CAY__BUF(4096), c = CAY__BUF(4096);
    const char *params[] = { "c1", "a/b c" };
    cay__process_query q = { .stream = "a&b", .follow = true };
    cay__operation_target(&b, CAY__OPERATION(process_output), params, &q);
    assert_string_equal(b.data, "/sandboxes/c1/processes/a%2Fb%20c/output?stream=a%26b&follow=1");
    const cay_pair labels[] = { { "k", "v" }, { NULL, NULL } };
    const char *const states[] = { "running", "paused", NULL };
    cay__list_query l = { .f = { .labels = labels, .limit = 5 }, .states = states };
    cay__operation_target(&c, CAY__OPERATION(sandbox_list), NULL, &l);
    assert_string_equal(c.data, "/sandboxes?state=running&state=paused&label=k%3Dv&limit=5");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_has_a_row_and_names_of_its_own),
        cmocka_unit_test(a_request_is_checked_member_by_member),
        cmocka_unit_test(what_is_scope_admins_is_refused_of_others),
        cmocka_unit_test(only_scope_admin_is_told_of_the_host),
        cmocka_unit_test(a_token_is_told_by_who_makes_it_alone),
        cmocka_unit_test(an_answer_is_read_as_it_was_written),
        cmocka_unit_test(a_newer_servers_members_are_skipped),
        cmocka_unit_test(bytes_that_are_no_text_come_back),
        cmocka_unit_test(json_for_people_says_null_for_no_limit),
        cmocka_unit_test(a_change_has_the_sides_that_there_are),
        cmocka_unit_test(a_request_says_what_was_asked_for_and_no_more),
        cmocka_unit_test(a_target_is_encoded),
    };
    if (argc == 2 && !strcmp(argv[1], "list")) {
        list_all();
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
