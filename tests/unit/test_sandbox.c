/* SPDX-License-Identifier: Apache-2.0 */
/* src/lib/sandbox/ over the provider in memory: what it adds before and after a provider's own
 * work. */
#include "../support/support.h"
#include <base/base.h>
#include <base/fd.h>
#include <base/str.h>
#include <lib/sandbox/sandbox.h>
#include <stdio.h>

#define ARGV(...)                                                                                  \
    (const char *const[])                                                                          \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }

static void *self;
static int touched, dropped;

static void on_touch(cay_sandbox *sb)
{
    (void)sb;
    touched++;
}

static void on_drop(cay_sandbox *sb)
{
    (void)sb;
    dropped++;
}

static int up(void **state)
{
    void *box = NULL;
    cay_create c = { .size = sizeof c };
    touched = dropped = 0;
    assert_int_equal(cay__memory.open(NULL, &self, NULL), 0);
    assert_int_equal(cay__memory.create(self, NULL, "caaaaaaaaaaaaaaaaaaa",
                                        &(cay_box_spec){ .create = &c }, &box, NULL),
                     0);
    cay_sandbox *sb = cay__sandbox_new(&cay__memory, "caaaaaaaaaaaaaaaaaaa", box);
    sb->touch = on_touch;
    sb->drop = on_drop;
    *state = sb;
    return 0;
}

static int down(void **state)
{
    cay_sandbox_unref(*state);
    assert_int_equal(dropped, 1);
    cay__memory.close(self);
    return 0;
}

static void a_handle_is_counted(void **state)
{
    cay_sandbox *sb = *state;
    assert_ptr_equal(cay_sandbox_ref(sb), sb);
    cay_sandbox_unref(sb);
    assert_int_equal(dropped, 0);
    assert_string_equal(cay_sandbox_id(sb), "caaaaaaaaaaaaaaaaaaa");
    cay_sandbox_unref(NULL);
    cay_proc_unref(NULL);
    cay_watch_close(NULL);
    cay_upload_abort(NULL);
}

static void states_refuse_with_their_remedy(void **state)
{
    static const struct {
        cay_state state;
        int code;
        const char *says;
        bool files;
    } cases[] = {
        { CAY_PAUSED, CAY_ESTATE, "cay resume caaaaaaaaaaaaaaaaaaa", true },
        { CAY_STOPPED, CAY_ESTATE, "cay resume caaaaaaaaaaaaaaaaaaa", false },
        { CAY_CREATING, CAY_EBUSY, "try again", false },
        { CAY_DELETING, CAY_EGONE, "being removed", false },
        { CAY_GONE, CAY_EGONE, "is gone", false },
        { CAY_DAMAGED, CAY_ESTATE, "cay rm -f caaaaaaaaaaaaaaaaaaa", false },
    };
    cay_sandbox *sb = *state;
    cay_provider_ops blind = cay__memory;
    blind.status = NULL; /* nobody knows better than the handle */
    sb->ops = &blind;
    for (size_t i = 0; i < CAY_LEN(cases); i++) {
        cay_err e = CAY_ERR_INIT;
        cay_proc *p = NULL;
        bool yes;
        cay_spawn s = { .size = sizeof s, .argv = ARGV("true") };
        atomic_store(&sb->state, cases[i].state);
        touched = 0;
        assert_int_equal(cay_sandbox_spawn(sb, NULL, &s, &p, &e), cases[i].code);
        assert_non_null(strstr(e.msg, cases[i].says));
        assert_true(e.reason[0]);
        assert_int_equal(touched, 0); /* a refusal is no use of the sandbox */
        assert_int_equal(cay_file_exists(sb, NULL, "x", &yes, &e),
                         cases[i].files ? 0 : cases[i].code);
    }
    sb->ops = &cay__memory;
}

static void a_stale_state_is_asked_again(void **state)
{
    cay_sandbox *sb = *state;
    cay_proc *p = NULL;
    cay_spawn s = { .size = sizeof s, .argv = ARGV("true") };
    atomic_store(&sb->state, CAY_PAUSED); /* another program resumed it since */
    assert_int_equal(cay_sandbox_spawn(sb, NULL, &s, &p, NULL), 0);
    assert_int_equal(atomic_load(&sb->state), CAY_RUNNING);
    assert_true(touched > 0);
    cay_exit x = { .size = sizeof x };
    assert_int_equal(cay_proc_wait(p, NULL, &x, NULL), 0);
    cay_proc_unref(p);
}

typedef struct newer {
    cay_spawn s;
    int unknown;
} newer;

static void specs_may_be_older_or_newer(void **state)
{
    cay_sandbox *sb = *state;
    cay_err e = CAY_ERR_INIT;
    cay_proc *p = NULL;
    newer n = { .s = { .size = sizeof n, .argv = ARGV("true") } };
    assert_int_equal(cay_sandbox_spawn(sb, NULL, &n.s, &p, &e), 0);
    cay_proc_unref(p);
    n.unknown = 1; /* asks for something we cannot know: not silently ignored */
    assert_int_equal(cay_sandbox_spawn(sb, NULL, &n.s, &p, &e), CAY_ENOTSUP);
    /* A caller of the first day knows argv alone; what lies behind its struct must not be read. */
    cay_spawn poison;
    memset(&poison, 0xff, sizeof poison);
    poison.size = offsetof(cay_spawn, shell);
    poison.argv = ARGV("true");
    assert_int_equal(cay_sandbox_spawn(sb, NULL, &poison, &p, &e), 0);
    struct {
        size_t size;
        int code, guard;
    } old = { .size = sizeof(size_t) + sizeof(int), .code = 99, .guard = 12345 };
    assert_int_equal(cay_proc_wait(p, NULL, (cay_exit *)(void *)&old, &e), 0);
    assert_int_equal(old.code, 0);
    assert_int_equal(old.guard, 12345);
    cay_proc_unref(p);
}

static void paths_are_checked_before_anything(void **state)
{
    cay_sandbox *sb = *state;
    char deep[5000];
    memset(deep, 'a', sizeof deep - 1);
    deep[sizeof deep - 1] = 0;
    const char *const bad[] = { "", deep };
    cay_stat st = { .size_of = sizeof st };
    for (size_t i = 0; i < CAY_LEN(bad); i++) {
        cay_err e = CAY_ERR_INIT;
        assert_int_equal(cay_file_stat(sb, NULL, bad[i], true, &st, &e), CAY_EINVAL);
        assert_true(strncmp(e.reason, "path_", 5) == 0);
        assert_int_equal(cay_file_rename(sb, NULL, "x", bad[i], &e), CAY_EINVAL);
    }
    assert_int_equal(cay_file_stat(sb, NULL, "a\nb", true, &st, NULL),
                     CAY_ENOENT); /* any byte but NUL may be in a name */
    assert_int_equal(cay_file_stat(sb, NULL, NULL, true, &st, NULL), CAY_EINVAL);
}

static void a_missing_operation_names_itself(void **state)
{
    cay_sandbox *sb = *state;
    cay_err e = CAY_ERR_INIT;
    int fd = -1;
    assert_int_equal(cay_port_connect(sb, NULL, 80, &fd, &e), CAY_ENOTSUP);
    assert_non_null(strstr(e.msg, "provider memory"));
    assert_int_equal(cay_file_glob(sb, NULL, ".", "*", NULL, NULL, &e), CAY_ENOTSUP);
}

static void put_is_made_of_an_upload_when_need_be(void **state)
{
    cay_sandbox *sb = *state;
    cay_provider_ops streams_only = cay__memory;
    streams_only.put = NULL;
    sb->ops = &streams_only;
    char *data = NULL;
    size_t n;
    assert_int_equal(cay_file_put(sb, NULL, "up", "through a stream", 16, NULL, NULL), 0);
    assert_int_equal(cay_file_get(sb, NULL, "up", 100, &data, &n, NULL), 0);
    assert_string_equal(data, "through a stream");
    free(data);
    sb->ops = &cay__memory;
}

static void a_passed_deadline_does_no_work(void **state)
{
    cay_sandbox *sb = *state;
    cay_call c = { .size = sizeof c, .deadline_ms = 1 };
    bool yes;
    assert_int_equal(cay_file_put(sb, &c, "never", "x", 1, NULL, NULL), CAY_ETIMEOUT);
    assert_int_equal(cay_file_exists(sb, NULL, "never", &yes, NULL), 0);
    assert_false(yes);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, up, down)
    const struct CMUnitTest tests[] = {
        T(a_handle_is_counted),
        T(states_refuse_with_their_remedy),
        T(a_stale_state_is_asked_again),
        T(specs_may_be_older_or_newer),
        T(paths_are_checked_before_anything),
        T(a_missing_operation_names_itself),
        T(put_is_made_of_an_upload_when_need_be),
        T(a_passed_deadline_does_no_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
