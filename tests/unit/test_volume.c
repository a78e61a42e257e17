/* SPDX-License-Identifier: Apache-2.0 */
#include "fake.h"
#include "home.h"
#include <lib/sandbox/limits.h>

static struct {
    char name[64];
    bool there, fails, holds;
} disk; /* what the provider has of a volume; one is enough */

static int volume(void *self, const cay_call *call, cay_volume_request *ask, cay_err *err)
{
    (void)self, (void)call;
    if (disk.fails)
        return cay_fail_why(err, CAY_ESYS, "volume_failed", "no room");
    if (ask->op == CAY_VOLUME_MAKE)
        cay__str_copy(disk.name, sizeof disk.name, ask->name);
    if (ask->op == CAY_VOLUME_MAKE || ask->op == CAY_VOLUME_REMOVE)
        disk.there = ask->op == CAY_VOLUME_MAKE;
    ask->used = 4096;
    ask->inodes = 1;
    ask->hard = disk.holds;
    return 0;
}

static cay_provider_ops with_volumes;
static const cay_provider_ops *list[] = { &with_volumes, NULL };

static cay_client *open_svc(void)
{
    with_volumes = *fake_list_of_one[0];
    with_volumes.size = sizeof with_volumes;
    with_volumes.volume = volume;
    return home_open("fake", list);
}

static int set_up(void **s)
{
    memset(&fake, 0, sizeof fake);
    memset(&disk, 0, sizeof disk);
    return home_up(s);
}

static int tear_down(void **s)
{
    home_down(s);
    return fake.boxes || fake.opened ? -1 : 0;
}

static int create(cay_client *client, const char *name, uint64_t limit, cay_err *err)
{
    return cay_volume_create(
        client, NULL,
        &(cay_volume_spec){ .size = sizeof(cay_volume_spec), .name = name, .limit = limit }, err);
}

static int with(cay_client *client, const cay_volume_use *v, size_t n, cay_sandbox **sb,
                cay_err *err)
{
    cay_create c = { .size = sizeof c, .files.volumes = v, .files.nvolumes = n };
    return cay_client_create(client, NULL, &c, sb, err);
}

static void names(void **s)
{
    (void)s;
    static const char *const good[] = { "a", "A9", "my-cache_1.0", "0" };
    static const char *const bad[] = { "",
                                       ".",
                                       "..",
                                       ".a",
                                       "-a",
                                       "_a",
                                       "a/b",
                                       "a b",
                                       "a\n",
                                       "\xc3\xa4",
                                       "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" };
    for (size_t i = 0; i < CAY_LEN(good); i++)
        assert_true(cay__volume_name(good[i]));
    for (size_t i = 0; i < CAY_LEN(bad); i++)
        assert_false(cay__volume_name(bad[i]));
    assert_false(cay__volume_name(NULL));
}

static void made_found_and_removed(void **s)
{
    (void)s;
    cay_err err = CAY_ERR_INIT;
    cay_volume *v = NULL;
    cay_client *client = open_svc();
    assert_int_equal(create(client, "../x", 0, &err), CAY_EINVAL);
    assert_int_equal(create(client, "data", 1 << 20, &err), 0);
    assert_int_equal(create(client, "data", 0, &err), CAY_EEXIST);
    assert_string_equal(err.reason, "volume_exists");
    assert_int_equal(cay_volume_find(client, NULL, "data", &v, &err), 0);
    assert_string_equal(v->name, "data");
    assert_string_equal(v->quota, "soft");
    assert_int_equal(v->limit, 1 << 20);
    assert_int_equal(v->used, 4096);
    assert_int_equal(v->nusers, 0);
    cay_volume_free(v);
    assert_int_equal(cay_volume_remove(client, NULL, "data", &err), 0);
    assert_false(disk.there);
    assert_int_equal(cay_volume_remove(client, NULL, "data", &err), CAY_ENOENT);
    assert_int_equal(cay_volume_find(client, NULL, "data", &v, &err), CAY_ENOENT);
    cay_client_close(client);
}

static void a_failed_one_leaves_nothing(void **s)
{
    (void)s;
    cay_err err = CAY_ERR_INIT;
    cay_client *client = open_svc();
    disk.fails = true;
    assert_int_equal(create(client, "data", 0, &err), CAY_ESYS);
    disk.fails = false; /* its removal failed, too: what is recorded says that it is not finished */
    cay_sandbox *sb = NULL;
    cay_volume_use use = { "data", "/data", true };
    assert_int_equal(with(client, &use, 1, &sb, &err), CAY_ESTATE);
    assert_string_equal(err.reason, "volume_unfinished");
    assert_int_equal(create(client, "data", 0, &err), 0);
    assert_true(disk.there);
    cay_client_close(client);
}

static void kept_while_a_sandbox_has_it(void **s)
{
    (void)s;
    cay_err err = CAY_ERR_INIT;
    cay_sandbox *sb = NULL;
    cay_volume *v = NULL;
    cay_client *client = open_svc();
    cay_volume_use use = { "data", "/data", true };
    assert_int_equal(with(client, &use, 1, &sb, &err), CAY_ENOENT);
    assert_string_equal(err.reason, "volume_not_found");
    assert_int_equal(create(client, "data", 0, &err), 0);
    if (with(client, &use, 1, &sb, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(cay_volume_remove(client, NULL, "data", &err), CAY_EBUSY);
    assert_string_equal(err.reason, "volume_used");
    assert_non_null(strstr(err.msg, cay_sandbox_id(sb)));
    assert_int_equal(cay_volume_find(client, NULL, "data", &v, &err), 0);
    assert_int_equal(v->nusers, 1);
    assert_string_equal(v->users[0], cay_sandbox_id(sb));
    assert_null(v->users[1]);
    cay_volume_free(v);
    assert_int_equal(cay_sandbox_remove(sb, NULL, &err), 0);
    cay_sandbox_unref(sb);
    assert_int_equal(cay_volume_remove(client, NULL, "data", &err), 0);
    cay_client_close(client);
}

static void targets(void **s)
{
    (void)s;
    cay_err err = CAY_ERR_INIT;
    cay_sandbox *sb = NULL;
    cay_client *client = open_svc();
    static const char *const bad[] = { "rel", "/", "/proc/x", "/dev", "/a/../b", "/a\nb" };
    assert_int_equal(create(client, "data", 0, &err), 0);
    for (size_t i = 0; i < CAY_LEN(bad); i++)
        assert_int_equal(with(client, &(cay_volume_use){ "data", bad[i], true }, 1, &sb, &err),
                         CAY_EINVAL);
    cay_volume_use twice[] = { { "data", "/a", true }, { "data", "/a", false } };
    assert_int_equal(with(client, twice, 2, &sb, &err), CAY_EINVAL);
    assert_int_equal(cay_volume_remove(client, NULL, "data", &err), 0);
    cay_client_close(client);
}

/* A limit that has to hold holds, or there is no volume, and later no sandbox with it. */
static void a_limit_that_has_to_hold(void **s)
{
    (void)s;
    cay_err err = CAY_ERR_INIT;
    cay_sandbox *sb = NULL;
    cay_volume *v = NULL;
    cay_client *client = open_svc();
    cay_volume_spec spec = { .size = sizeof spec, .name = "data", .hard = true };
    cay_volume_use use = { "data", "/data", true };
    assert_int_equal(cay_volume_create(client, NULL, &spec, &err), CAY_EINVAL); /* of no size */
    spec.limit = 1 << 20;
    assert_int_equal(cay_volume_create(client, NULL, &spec, &err), CAY_EISOLATION);
    assert_string_equal(err.reason, "feature_missing");
    assert_false(disk.there);
    assert_int_equal(cay_volume_find(client, NULL, "data", &v, &err), CAY_ENOENT);
    disk.holds = true;
    assert_int_equal(cay_volume_create(client, NULL, &spec, &err), 0);
    assert_int_equal(cay_volume_find(client, NULL, "data", &v, &err), 0);
    assert_string_equal(v->quota, "on");
    cay_volume_free(v);
    disk.holds = false; /* mounted without its quota */
    assert_int_equal(with(client, &use, 1, &sb, &err), CAY_EISOLATION);
    assert_null(sb);
    assert_int_equal(cay_volume_remove(client, NULL, "data", &err), 0);
    cay_client_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test_setup_teardown(made_found_and_removed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_failed_one_leaves_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(kept_while_a_sandbox_has_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(targets, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_limit_that_has_to_hold, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
