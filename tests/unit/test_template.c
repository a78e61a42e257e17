/* SPDX-License-Identifier: Apache-2.0 */
/* Templates: their names, their records, and sandboxes that stand on them, on the provider in
 * memory. */
#include "calls.h"
#include <base/base.h>
#include <base/str.h>
#include <cay/template.h>
#include <lib/template/template.h>
#include <stdio.h>
#include <sys/stat.h>

static const cay_provider_ops *const providers[] = { &cay__memory, NULL };

static int set_up(void **s)
{
    home_up(s);
    client = home_open("memory", providers);
    char dir[256];
    snprintf(dir, sizeof dir, "%s/layers", home);
    mkdir(dir, 0711);
    return 0;
}

static void clean(const char *ref, const char *want)
{
    char out[CAY_TEMPLATE_NAME + 1];
    err = (cay_err)CAY_ERR_INIT;
    if (cay__tname_clean(ref, out, &err) < 0)
        fail_msg("%s: %s", ref, err.msg);
    assert_string_equal(out, want);
}

static void name_is_told_in_one_form(void **s)
{
    (void)s;
    char hex[] = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
         ref[100];
    clean("python", "python:latest");
    clean("python:3.11", "python:3.11");
    clean("docker.io/library/python:3.11", "python:3.11");
    clean("index.docker.io/python", "python:latest");
    clean("e2bdev/base", "e2bdev/base:latest");
    clean("docker.io/e2bdev/base:1", "e2bdev/base:1");
    clean("localhost:5000/a/b", "localhost:5000/a/b:latest");
    clean("ghcr.io/x/y__z-w.v:Tag_1", "ghcr.io/x/y__z-w.v:Tag_1");
    snprintf(ref, sizeof ref, "python@%s", hex);
    clean(ref, ref);
    clean("host:1", "host:1");
}

static void name_that_is_none_is_refused(void **s)
{
    (void)s;
    static const char *const bad[] = { "",
                                       "Python",
                                       "a//b",
                                       "/a",
                                       "a/",
                                       "a:",
                                       ":a",
                                       "a:b:c",
                                       "a b",
                                       "a\nb",
                                       "a@sha256:12",
                                       "-a",
                                       "a-",
                                       "a..b",
                                       "a___b",
                                       "../etc",
                                       "host",
                                       "image",
                                       "taaaaaaaaaaaaaaaaaaa",
                                       "a@md5:0",
                                       "exa mple.org/a",
                                       "a:\x1b[0m" };
    char out[CAY_TEMPLATE_NAME + 1], lengthy[400];
    for (size_t i = 0; i < CAY_LEN(bad); i++)
        FAILS(cay__tname_clean(bad[i], out, &err), CAY_EINVAL, "template_name");
    memset(lengthy, 'a', sizeof lengthy - 1);
    lengthy[sizeof lengthy - 1] = 0;
    FAILS(cay__tname_clean(lengthy, out, &err), CAY_EINVAL, "template_name");
}

static void config_is_judged(void **s)
{
    (void)s;
    static const char *const good[] = {
        "{}", "{\"env\":{\"A\":\"b\"},\"user\":\"1000:1000\",\"workdir\":\"/"
              "w\",\"cmd\":[\"a\"],\"limits\":{\"memory\":1},\"more\":[1]}"
    };
    static const char *const bad[] = { "{\"env\":{\"A=\":\"b\"}}",
                                       "{\"env\":[]}",
                                       "{\"env\":{\"A\":1}}",
                                       "{\"workdir\":\"rel\"}",
                                       "{\"cmd\":\"sh\"}",
                                       "{\"limits\":{\"memory\":0}}",
                                       "{\"limits\":{\"nothing\":1}}",
                                       "{\"services\":{}}",
                                       "{\"sudo\":1}",
                                       "{\"user\":\"a\\nb\"}",
                                       "{\"cmd\":[\"a\\u0000b\"]}" };
    for (size_t i = 0; i < CAY_LEN(good); i++)
        OK(cay_template_config_check(good[i], &err));
    for (size_t i = 0; i < CAY_LEN(bad); i++)
        assert_int_equal(cay_template_config_check(bad[i], &err), CAY_EINVAL);
}

#define SETTINGS                                                                                   \
    "\"settings\":{\"permissions\":{\"default\":\"ask\",\"choices\":{\"ask\":{\"p\":\"on\"},"      \
    "\"bypass\":{\"p\":\"never\"}}},\"model\":{\"texts\":{\"line\":\"m=${value};${value}\\n\"}}}"

static void settings_are_judged_with_every_choice(void **s)
{
    (void)s;
    static const char *const good[] = {
        "{" SETTINGS "}",
        "{\"setting_files\":{\"/a/b\":{\"content\":\"${random} $${x} $1\",\"mode\":\"0644\"}}}",
        "{" SETTINGS ",\"setting_files\":{\"/"
        "a\":{\"content\":\"${permissions}${permissions.p}${model}${model.line}\"}}}"
    };
    static const char *const bad[] = {
        "{\"settings\":[]}",
        "{\"settings\":{\"A\":{}}}",
        "{\"settings\":{\"random\":{}}}",
        "{\"settings\":{\"a\":1}}",
        "{\"settings\":{\"a\":{\"x\":1}}}",
        "{\"settings\":{\"a\":{\"default\":\"q\\\"\"}}}",
        "{\"settings\":{\"a\":{\"description\":1}}}",
        "{\"settings\":{\"a\":{\"choices\":{}}}}",
        "{\"settings\":{\"a\":{\"choices\":{\"x\":{}}}}}",
        "{\"settings\":{\"a\":{\"default\":\"y\",\"choices\":{\"x\":{}}}}}",
        "{\"settings\":{\"a\":{\"default\":\"x\",\"choices\":{\"x\":{}},\"texts\":{}}}}",
        "{\"settings\":{\"a\":{\"default\":\"x\",\"choices\":{\"x\":{\"k\":1}}}}}",
        "{\"settings\":{\"a\":{\"texts\":{\"K\":\"\"}}}}",
        "{\"setting_files\":{\"a\":{\"content\":\"\"}}}",
        "{\"setting_files\":{\"/\":{\"content\":\"\"}}}",
        "{\"setting_files\":{\"/a/../b\":{\"content\":\"\"}}}",
        "{\"setting_files\":{\"/proc/x\":{\"content\":\"\"}}}",
        "{\"setting_files\":{\"/a\":{}}}",
        "{\"setting_files\":{\"/a\":{\"content\":\"\",\"mode\":\"4755\"}}}",
        "{\"setting_files\":{\"/a\":{\"content\":\"\",\"mode\":600}}}",
        "{\"setting_files\":{\"/a\":{\"content\":\"\",\"owner\":\"x\"}}}",
        "{\"setting_files\":{\"/a\":{\"content\":\"${nosuch}\"}}}",
        "{\"setting_files\":{\"/a\":{\"content\":\"${x\"}}}",
        "{" SETTINGS ",\"setting_files\":{\"/a\":{\"content\":\"${permissions.q}\"}}}",
        "{" SETTINGS ",\"setting_files\":{\"/a\":{\"content\":\"${model.q}\"}}}",
        ("{\"settings\":{\"a\":{\"default\":\"x\",\"choices\":{\"x\":{\"k\":\"\"},\"y\":{}}}},"
         "\"setting_files\":{\"/a\":{\"content\":\"${a.k}\"}}}")
    };
    for (size_t i = 0; i < CAY_LEN(good); i++)
        OK(cay_template_config_check(good[i], &err));
    for (size_t i = 0; i < CAY_LEN(bad); i++)
        FAILS(cay_template_config_check(bad[i], &err), CAY_EINVAL, "template_config");
}

static char *layer(char *id)
{
    char dir[256];
    cay__id_make(id, 'l');
    snprintf(dir, sizeof dir, "%s/layers/%s", home, id);
    assert_int_equal(mkdir(dir, 0755), 0);
    return id;
}

static char *record(char *id, const char *tenant, const char *name, const char *base,
                    const char *config, bool shared)
{
    char l[CAY_ID_LEN + 1], layers[64];
    const char *const names[] = { name, NULL };
    cay__id_make(id, 't');
    snprintf(layers, sizeof layers, "[\"%s\"]", layer(l));
    cay_template_row row = { .size = sizeof row,
                             .id = id,
                             .tenant = tenant,
                             .base = base,
                             .layers = layers,
                             .config = config,
                             .source = "test",
                             .digest = "",
                             .shared = shared };
    OK(cay__template_record(client, NULL, &row, names, NULL, &err));
    return id;
}

static void template_is_found_by_name_id_and_beginning(void **s)
{
    (void)s;
    char id[CAY_ID_LEN + 1], other[CAY_ID_LEN + 1], some[8];
    cay_template *t = NULL;
    record(id, "default", "python:3.11", "image", "{}", true);
    snprintf(some, sizeof some, "%.7s", id);
    const char *const refs[] = { "python:3.11", "docker.io/library/python:3.11", id, some };
    for (size_t i = 0; i < CAY_LEN(refs); i++) {
        OK(cay_template_find(client, NULL, NULL, refs[i], &t, &err));
        assert_string_equal(t->id, id);
        assert_string_equal(t->names[0], "python:3.11");
        assert_int_equal(t->nlayers, 1);
        cay_template_free(t);
    }
    FAILS(cay_template_find(client, NULL, NULL, "python", &t, &err), CAY_ENOENT,
          "template_not_found");
    FAILS(cay_template_find(client, NULL, NULL, "No Name", &t, &err), CAY_ENOENT,
          "template_not_found");
    /* a name goes to the one that was given it last, and the other has only its id */
    record(other, "default", "python:3.11", "image", "{}", true);
    OK(cay_template_find(client, NULL, NULL, "python:3.11", &t, &err));
    assert_string_equal(t->id, other);
    cay_template_free(t);
    OK(cay_template_find(client, NULL, NULL, id, &t, &err));
    assert_null(t->names[0]);
    cay_template_free(t);
}

static int count(const cay_template *t, void *arg)
{
    (void)t;
    ++*(int *)arg;
    return 0;
}

static void tenant_sees_its_own_and_shared_ones(void **s)
{
    (void)s;
    char mine[CAY_ID_LEN + 1], shared[CAY_ID_LEN + 1], hidden[CAY_ID_LEN + 1];
    cay_template *t = NULL;
    int n = 0;
    OK(cay_tenant_create(client, &(cay_tenant){ .size = sizeof(cay_tenant), .name = "a" }, &err));
    record(shared, "default", "tools", "image", "{}", true);
    record(hidden, "default", "secret", "image", "{}", false);
    OK(cay_template_find(client, NULL, "a", "tools", &t, &err));
    assert_string_equal(t->id, shared);
    cay_template_free(t);
    FAILS(cay_template_find(client, NULL, "a", "secret", &t, &err), CAY_ENOENT,
          "template_not_found");
    FAILS(cay_template_find(client, NULL, "a", hidden, &t, &err), CAY_ENOENT, "template_not_found");
    FAILS(cay_template_remove(client, NULL, "a", "tools", &err), CAY_EPERM, "template_shared");
    FAILS(cay_template_name(client, NULL, "a", "tools", "mine", &err), CAY_EPERM,
          "template_shared");
    record(mine, "a", "tools", "image", "{}", false);
    OK(cay_template_find(client, NULL, "a", "tools", &t, &err));
    assert_string_equal(t->id, mine);
    cay_template_free(t);
    OK(cay_template_list(
        client, NULL, &(cay_template_filter){ .size = sizeof(cay_template_filter), .tenant = "a" },
        count, &n, &err));
    assert_int_equal(n, 2);
    /* What a tenant calls its own is no name to the operator, who would start from what that tenant
     * put there. */
    OK(cay_template_name(client, NULL, "a", mine, "python:3", &err));
    /* Shared, others see it and cannot take that back. */
    cay_template *seen;
    FAILS(cay_template_find(client, NULL, "b", mine, &seen, &err), CAY_ENOENT,
          "template_not_found");
    OK(cay_template_share(client, NULL, "a", mine, true, &err));
    OK(cay_template_find(client, NULL, "b", mine, &seen, &err));
    assert_true(seen->shared);
    cay_template_free(seen);
    FAILS(cay_template_share(client, NULL, "b", mine, false, &err), CAY_EPERM, "template_shared");
    OK(cay_template_share(client, NULL, "a", mine, false, &err));
    FAILS(cay_template_share(client, NULL, "b", mine, true, &err), CAY_ENOENT,
          "template_not_found");
    FAILS(client->store->template_share(client->db, "tnobody", true, &err), CAY_ENOENT,
          "template_not_found");
    FAILS(cay_template_find(client, NULL, NULL, "python:3", &t, &err), CAY_ENOENT,
          "template_not_found");
    OK(cay_template_find(client, NULL, NULL, "tools", &t, &err));
    assert_string_equal(t->id, shared);
    cay_template_free(t);
    OK(cay_template_find(client, NULL, NULL, mine, &t, &err));
    cay_template_free(t);
    FAILS(cay_tenant_remove(client, "a", &err), CAY_ESTATE, "tenant_in_use");
    OK(cay_template_remove(client, NULL, "a", mine, &err));
    OK(cay_tenant_remove(client, "a", &err));
}

static void name_goes_before_the_template_does(void **s)
{
    (void)s;
    char id[CAY_ID_LEN + 1];
    cay_template *t = NULL;
    record(id, "default", "one", "image", "{}", true);
    OK(cay_template_name(client, NULL, NULL, "one", "two:2", &err));
    OK(cay_template_remove(client, NULL, NULL, "one", &err));
    OK(cay_template_find(client, NULL, NULL, "two:2", &t, &err));
    assert_null(t->names[1]);
    cay_template_free(t);
    OK(cay_template_remove(client, NULL, NULL, "two:2", &err));
    FAILS(cay_template_find(client, NULL, NULL, id, &t, &err), CAY_ENOENT, "template_not_found");
    FAILS(cay_template_remove(client, NULL, NULL, id, &err), CAY_ENOENT, "template_not_found");
}

static void layers_are_held_by_templates(void **s)
{
    (void)s;
    char id[CAY_ID_LEN + 1], l[CAY_ID_LEN + 1];
    cay_template *t = NULL;
    bool used = false;
    record(id, "default", "one", "image", "{}", true);
    OK(cay_template_find(client, NULL, NULL, id, &t, &err));
    cay__str_copy(l, sizeof l, t->layers[0]);
    cay_template_free(t);
    OK(client->store->layer_used(client->db, l, &used, &err));
    assert_true(used);
    OK(cay_template_remove(client, NULL, NULL, id, &err));
    OK(client->store->layer_used(client->db, l, &used, &err));
    assert_false(used);
}

static void record_without_its_layers_is_taken_back(void **s)
{
    (void)s;
    char id[CAY_ID_LEN + 1], l[CAY_ID_LEN + 1], layers[64];
    cay_template *t = NULL;
    cay__id_make(id, 't');
    cay__id_make(l, 'l');
    snprintf(layers, sizeof layers, "[\"%s\"]", l);
    cay_template_row row = { .size = sizeof row,
                             .id = id,
                             .tenant = "default",
                             .base = "image",
                             .layers = layers,
                             .config = "{}",
                             .source = "",
                             .digest = "" };
    FAILS(cay__template_record(client, NULL, &row, NULL, NULL, &err), CAY_EBUSY, "layers_gone");
    FAILS(cay_template_find(client, NULL, NULL, id, &t, &err), CAY_ENOENT, "template_not_found");
}

/* What the request says wins; what it does not say the template does. */
static void request_takes_over_what_the_template_says(void **state)
{
    (void)state;
    char id[CAY_ID_LEN + 1];
    __attribute__((cleanup(cay__arena_clear))) cay__arena mem = { 0 };
    record(id, "default", "app:1", "image",
           "{\"env\":{\"A\":\"1\",\"B\":\"2\"},\"user\":\"web:www\",\"workdir\":\"/"
           "srv\",\"limits\":{\"memory\":1000000,\"pids\":7}}",
           true);
    const cay_pair env[] = { { "B", "mine" }, { NULL, NULL } };
    cay__spec s = {
        .create = { .from.template_ = "app:1", .process.env = env, .limits = { .pids = 9 } },
        .template_config = "{not read",
        .box.template_id = "x",
        .mem = &mem
    };
    const cay_create *c = &s.create;
    OK(cay__template_prepare(client, NULL, &s, &err));
    assert_string_equal(c->from.template_, "image");
    assert_string_equal(s.box.template_id, id);
    assert_string_equal(s.box.template_name, "app:1");
    assert_string_equal(c->process.user, "web");
    assert_string_equal(c->process.workdir, "/srv");
    assert_int_equal(s.box.nlayers, 1);
    assert_int_equal(c->limits.memory, 1000000);
    assert_int_equal(c->limits.pids, 9);
    assert_string_equal(c->process.env[0].key, "A");
    assert_string_equal(c->process.env[1].value, "mine");
    assert_null(c->process.env[2].key);
    cay__spec plain = { .template_config = "x",
                        .box = { .template_id = "y", .template_name = "z" },
                        .mem = &mem };
    OK(cay__template_prepare(client, NULL, &plain, &err));
    assert_null(plain.template_config);
    assert_null(plain.box.template_id);
    cay__spec direct = { .create.from.template_ = "image", .mem = &mem };
    OK(cay__template_prepare(client, NULL, &direct,
                             &err)); /* nothing at all, for who puts a root filesystem together */
    assert_string_equal(direct.box.template_id, "");
    cay__spec none = { .create.from.template_ = "nosuch", .mem = &mem };
    FAILS(cay__template_prepare(client, NULL, &none, &err), CAY_ENOENT, "template_not_found");
}

static void setting_goes_into_the_files_of_its_sandbox(void **state)
{
    (void)state;
    char id[CAY_ID_LEN + 1];
    __attribute__((cleanup(cay__arena_clear))) cay__arena mem = { 0 };
    record(id, "default", "agent:1", "image",
           "{" SETTINGS ",\"setting_files\":{\"/etc/a\":{\"content\":\"p=${permissions.p} "
           "${model.line}$${HOME}${permissions}\"},\"/etc/"
           "id\":{\"content\":\"${random}\",\"mode\":\"0444\"}}}",
           true);
    cay__spec c = { .create.from.template_ = "agent:1", .nseeds = 7, .mem = &mem };
    OK(cay__template_prepare(client, NULL, &c, &err));
    assert_string_equal(c.create.from.settings[0].key, "permissions");
    assert_string_equal(c.create.from.settings[0].value, "ask");
    assert_string_equal(c.create.from.settings[1].value, "");
    assert_null(c.create.from.settings[2].key);
    assert_int_equal(c.nseeds, 2);
    assert_string_equal(c.seeds[0].path, "/etc/a");
    assert_string_equal(c.seeds[0].data, "p=on ${HOME}ask");
    assert_int_equal(c.seeds[0].mode, 0600);
    assert_int_equal(c.seeds[1].mode, 0444);
    assert_int_equal(c.seeds[1].len, 64);
    cay__spec other = { .mem = &mem,
                        .create.from.template_ = "agent:1",
                        .create.from.settings = (const cay_pair[]){
                            { "model", "m-1" }, { "permissions", "bypass" }, { NULL, NULL } } };
    OK(cay__template_prepare(client, NULL, &other, &err));
    assert_string_equal(other.seeds[0].data, "p=never m=m-1;m-1\n${HOME}bypass");
    assert_string_equal(other.create.from.settings[0].value, "bypass");
    assert_string_not_equal(other.seeds[1].data,
                            c.seeds[1].data); /* each has a number of its own */
    cay__spec off = { .create = { .from.template_ = "agent:1", .from.no_settings = true },
                      .mem = &mem };
    OK(cay__template_prepare(client, NULL, &off, &err));
    assert_int_equal(off.nseeds, 0);
    static const struct {
        const char *template_, *key, *value, *reason;
    } bad[] = { { "agent:1", "permission", "ask", "setting_unknown" },
                { "agent:1", "permissions", "yes", "setting_invalid" },
                { "agent:1", "permissions", "", "setting_invalid" },
                { "agent:1", "model", "a\"b", "setting_invalid" },
                { "agent:1", "model", "a\nb", "setting_invalid" },
                { "host", "permissions", "bypass", "setting_unknown" },
                { NULL, "permissions", "bypass", "setting_unknown" } };
    for (size_t i = 0; i < CAY_LEN(bad); i++) {
        cay__spec b = { .mem = &mem,
                        .create.from.template_ = bad[i].template_,
                        .create.from.settings =
                            (const cay_pair[]){ { bad[i].key, bad[i].value }, { NULL, NULL } } };
        FAILS(cay__template_prepare(client, NULL, &b, &err), CAY_EINVAL, bad[i].reason);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(name_is_told_in_one_form),
        cmocka_unit_test(name_that_is_none_is_refused),
        cmocka_unit_test(config_is_judged),
        cmocka_unit_test(settings_are_judged_with_every_choice),
        cmocka_unit_test_setup_teardown(setting_goes_into_the_files_of_its_sandbox, set_up,
                                        calls_end),
        cmocka_unit_test_setup_teardown(template_is_found_by_name_id_and_beginning, set_up,
                                        calls_end),
        cmocka_unit_test_setup_teardown(tenant_sees_its_own_and_shared_ones, set_up, calls_end),
        cmocka_unit_test_setup_teardown(name_goes_before_the_template_does, set_up, calls_end),
        cmocka_unit_test_setup_teardown(layers_are_held_by_templates, set_up, calls_end),
        cmocka_unit_test_setup_teardown(record_without_its_layers_is_taken_back, set_up, calls_end),
        cmocka_unit_test_setup_teardown(request_takes_over_what_the_template_says, set_up,
                                        calls_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
