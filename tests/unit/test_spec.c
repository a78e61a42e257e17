/* SPDX-License-Identifier: Apache-2.0 */
#include <base/base.h>
#include <lib/sandbox/limits.h>
#include <lib/client/spec.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static cay__spec *read_back(const cay_create *c)
{
    CAY_AUTOFREE char *text = NULL, *labels = cay__pairs_text(c->labels);
    cay__spec *s = NULL;
    cay_err err = CAY_ERR_INIT;
    assert_int_equal(cay__spec_text(&(cay__spec){ .create = *c }, &text, &err), 0);
    cay_row row = { .size = sizeof row,
                    .provider = c->provider,
                    .name = c->name,
                    .spec = text,
                    .labels = labels,
                    .metadata = c->metadata };
    if (cay__spec_read(&row, &s, &err) < 0)
        fail_msg("%s in %s", err.msg, text);
    return s;
}

static void every_field_comes_back(void **st)
{
    (void)st;
    const cay_pair env[] = {
        { "PATH", "/bin" }, { "RAW", "a\xff\n" }, { "EMPTY", "" }, { NULL, NULL }
    };
    const cay_pair labels[] = { { "team", "r\xc3\xa9"
                                          "d" },
                                { NULL, NULL } };
    const char *const require[] = { "disk-quota", "memory-limit", NULL };
    const cay_grant grants[] = { { "/data", "/data", true }, { "/d\xfe", "/x", false } };
    const cay_create c = {
        .size = sizeof c,
        .provider = "native",
        .from.template_ = "host",
        .from.root = "/r",
        .name = "n",
        .hostname = "h",
        .process.user = "u",
        .process.workdir = "/w",
        .process.env = env,
        .labels = labels,
        .metadata = "{\"a\":[1]}",
        .files.grants = grants,
        .files.ngrants = 2,
        .limits = { 1, 2, 3, 4, 5, 6, 7, 8, CAY_UNLIMITED },
        .isolation.min_level = 2,
        .isolation.require = require,
        .life.ttl_ms = 9,
        .life.idle_ms = CAY_UNLIMITED,
        .life.on_expiry = CAY_EXPIRE_PAUSE,
        .isolation.no_pin = true,
        .life.durable = true,
        .net.policy = "cay-net 1\nmode rules\nrule example.com\n",
    };
    cay__spec *s = read_back(&c);
    const cay_create *r = &s->create;
    assert_string_equal(r->provider, "native");
    assert_string_equal(r->from.template_, "host");
    assert_string_equal(r->from.root, "/r");
    assert_string_equal(r->name, "n");
    assert_string_equal(r->hostname, "h");
    assert_string_equal(r->process.user, "u");
    assert_string_equal(r->process.workdir, "/w");
    assert_string_equal(r->net.policy, c.net.policy);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(r->process.env[i].key, env[i].key);
        assert_string_equal(r->process.env[i].value, env[i].value);
    }
    assert_null(r->process.env[3].key);
    assert_string_equal(r->labels[0].value, labels[0].value);
    assert_string_equal(r->metadata, c.metadata);
    assert_int_equal(r->files.ngrants, 2);
    assert_true(r->files.grants[0].rw && !r->files.grants[1].rw);
    assert_string_equal(r->files.grants[1].source, "/d\xfe");
    assert_memory_equal(&r->limits, &c.limits, sizeof c.limits);
    assert_int_equal(r->isolation.min_level, 2);
    assert_string_equal(r->isolation.require[1], "memory-limit");
    assert_null(r->isolation.require[2]);
    assert_int_equal(r->life.ttl_ms, 9);
    assert_true(r->life.idle_ms == CAY_UNLIMITED);
    assert_int_equal(r->life.on_expiry, CAY_EXPIRE_PAUSE);
    assert_true(r->isolation.no_pin && r->life.durable && !r->life.ephemeral);
    cay__spec_free(s);
}

static void nothing_comes_back_as_nothing(void **st)
{
    (void)st;
    const cay_create c = { .size = sizeof c, .provider = "native" };
    cay__spec *s = read_back(&c);
    assert_null(s->create.from.template_);
    assert_null(s->create.process.env);
    assert_null(s->create.name);
    assert_null(s->create.metadata);
    assert_null(s->create.labels[0].key);
    assert_int_equal(s->create.files.ngrants, 0);
    assert_int_equal(s->create.limits.memory, 0);
    cay__limits_fill(&s->create.limits);
    assert_true(s->create.limits.memory == 2ull << 30 && s->create.limits.io_read == CAY_UNLIMITED);
    cay__spec_free(s);
}

static void a_wrong_type_is_named(void **st)
{
    (void)st;
    static const char *const bad[][2] = {
        { "{\"hostname\":1}", "hostname" },
        { "{\"ttl_ms\":-1}", "ttl_ms" },
        { "{\"limits\":{\"pids\":\"x\"}}", "pids" },
        { "{\"env\":[]}", "env" },
        { "{\"grants\":{}}", "grants" },
        { "{\"grants\":[{}]}", "grant" },
        { "{\"durable\":1}", "durable" },
        { "{\"require\":[0]}", "require" },
        { "{\"min_level\":99999999999}", "min_level" },
        { "[]", "spec" },
        { "{\"user\":\"a\\u0000b\"}", "user" },
        { "{\"on_expiry\":\"x\"}", "on_expiry" },
    };
    for (size_t i = 0; i < CAY_LEN(bad); i++) {
        cay_err err = CAY_ERR_INIT;
        cay__spec *s = NULL;
        cay_row row = { .size = sizeof row, .provider = "p", .spec = bad[i][0], .labels = "{}" };
        assert_int_equal(cay__spec_read(&row, &s, &err), CAY_EINVAL);
        assert_null(s);
        if (!strstr(err.msg, bad[i][1]))
            fail_msg("%s: %s", bad[i][0], err.msg);
    }
}

/* Bytes on the disk: cay__pool_kind() hashes them into names, so they stay as they are. */
static void the_bytes_of_a_record_stay(void **st)
{
    (void)st;
    const cay_pair env[] = { { "PATH", "/bin" },
                             { "RAW", "a\xff\n" },
                             { "PATH", "/usr/bin\"\x01/" },
                             { "NONE", NULL },
                             { NULL, NULL } };
    const cay_pair none[] = { { NULL, NULL } }, settings[] = { { "model", "m" }, { NULL, NULL } };
    const char *const require[] = { "disk-quota", "\xfe", NULL };
    const cay_grant grants[] = { { "/data", "/data", true }, { "/d\xfe", "/x", false } };
    const cay_volume_use volumes[] = { { "v", "/v", true }, { "w", "/w", false } };
    const cay_secret secrets[] = { { "TOKEN", "env:T", "a.example" },
                                   { "TOKEN", "env:T", "b.example" },
                                   { "KEY", "store:k", NULL } };
    const char *const layers[] = { "sabc", "sdef" };
    const cay__spec full = {
        .create = { .from = { .template_ = "t",
                              .root = "/r",
                              .snapshot = "s",
                              .directory = "/on",
                              .settings = settings },
                    .hostname = "h",
                    .process = { .user = "u", .group = "", .workdir = "/w", .env = env },
                    .options = none,
                    .isolation = { .min_level = 2,
                                   .require = require,
                                   .sudo = true,
                                   .no_pin = true },
                    .life = { .ttl_ms = 9,
                              .idle_ms = CAY_UNLIMITED,
                              .on_expiry = CAY_EXPIRE_PAUSE,
                              .auto_resume = true,
                              .durable = true,
                              .checkpoints = 3 },
                    .net = { .policy = "cay-net 1\nmode rules\nrule example.com\n",
                             .secrets = secrets,
                             .nsecrets = 3 },
                    .manifest.text = "{\"entries\": {}}",
                    .services = "{ \"web\" : {\"command\": \"x\", \"n\": [1.5, null]} }",
                    .files = { grants, 2, volumes, 2 },
                    .limits = { 1, 2, 3, 4, 5, 0, 7, 8, CAY_UNLIMITED } },
        .box = { .template_id = "tid", .template_name = "tn", .layers = layers, .nlayers = 2 },
        .template_config = "{\"a\":1}",
        .on_since_ms = 1700000000000,
    };
    static const char full_text[] =
        "{\"template\":\"t\",\"root\":\"/r\",\"hostname\":\"h\",\"user\":\"u\","
        "\"workdir\":\"/w\",\"env\":{\"PATH\":\"/usr/bin\\\"\\u0001/\","
        "\"RAW\":{\"hex\":\"61ff0a\"},\"NONE\":\"\"},\"min_level\":2,"
        "\"require\":[\"disk-quota\",{\"hex\":\"fe\"}],\"ttl_ms\":9,\"idle_ms\":\"unlimited\","
        "\"on_expiry\":\"pause\",\"no_pin\":true,\"durable\":true,\"net\":{\"mode\":\"rules\","
        "\"rules\":[\"example.com\"]},\"from\":\"s\",\"checkpoint\":3,\"on\":\"/on\","
        "\"on_since_ms\":1700000000000,\"manifest\":\"{\\\"entries\\\": {}}\","
        "\"auto_resume\":true,\"image\":\"{\\\"a\\\":1}\",\"template_id\":\"tid\","
        "\"template_name\":\"tn\",\"services\":{\"web\":{\"command\":\"x\",\"n\":[1.5,null]}},"
        "\"sudo\":true,\"group\":\"\",\"settings\":{\"model\":\"m\"},\"limits\":{\"memory\":1,"
        "\"swap\":2,\"cpu_milli\":3,\"pids\":4,\"disk\":5,\"nofile\":7,\"io_read\":8,"
        "\"io_write\":\"unlimited\"},\"grants\":[{\"source\":\"/data\",\"target\":\"/data\","
        "\"rw\":true},{\"source\":{\"hex\":\"2f64fe\"},\"target\":\"/x\"}],"
        "\"secrets\":[{\"name\":\"TOKEN\",\"source\":\"env:T\"},{\"name\":\"KEY\","
        "\"source\":\"store:k\"}],\"volumes\":[{\"name\":\"v\",\"target\":\"/v\",\"rw\":true},"
        "{\"name\":\"w\",\"target\":\"/w\"}],\"layers\":[\"sabc\",\"sdef\"]}";
    CAY_AUTOFREE char *text = NULL, *empty = NULL;
    cay_err err = CAY_ERR_INIT;
    assert_int_equal(cay__spec_text(&full, &text, &err), 0);
    assert_string_equal(text, full_text);
    assert_int_equal(cay__spec_text(&(cay__spec){ .box = { 0 } }, &empty, &err), 0);
    assert_string_equal(empty, "{\"limits\":{},\"grants\":[]}");
}

static void too_long_a_request_is_refused(void **st)
{
    (void)st;
    enum { BIG = 100000 };
    CAY_AUTOFREE char *big = cay__alloc(BIG + 1);
    cay_pair env[13];
    memset(big, 'x', BIG);
    for (int i = 0; i < 12; i++)
        env[i] = (cay_pair){
            (const char *[]){ "A", "B", "C", "D", "E", "F", "G", "H", "I", "J", "K", "L" }[i], big
        };
    env[12] = (cay_pair){ NULL, NULL };
    CAY_AUTOFREE char *text = NULL;
    const cay_create c = { .size = sizeof c, .process.env = env };
    assert_int_equal(cay__spec_text(&(cay__spec){ .create = c }, &text, NULL), CAY_ETOOBIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_comes_back),
        cmocka_unit_test(nothing_comes_back_as_nothing),
        cmocka_unit_test(a_wrong_type_is_named),
        cmocka_unit_test(the_bytes_of_a_record_stay),
        cmocka_unit_test(too_long_a_request_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
