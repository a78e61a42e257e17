/* SPDX-License-Identifier: Apache-2.0 */
#include "home.h"
#include <base/base.h>
#include <base/fd.h>
#include <base/str.h>
#include <server/background.h>
#include <stdio.h>

static const cay_provider_ops *const providers[] = { &cay__memory, NULL };

static cay_client *open_svc(void)
{
    return home_open("memory", providers);
}

static cay_sandbox *make(cay_client *client)
{
    cay_sandbox *sb = NULL;
    cay_err err = CAY_ERR_INIT;
    if (cay_client_create(client, NULL, &(cay_create){ .size = sizeof(cay_create) }, &sb, &err) < 0)
        fail_msg("create: %s", err.msg);
    return sb;
}

static void leave(cay_client *client, const char *kind, const char *subject, int64_t due,
                  unsigned most)
{
    cay_err err = CAY_ERR_INIT;
    cay_job t = { .size = sizeof t,
                  .kind = kind,
                  .subject = subject,
                  .key = subject,
                  .due_ms = due,
                  .most = most,
                  .backoff_ms = 1 };
    if (cay_job_put(client, &t, CAY_JOB_REPLACE, NULL, &err) < 0)
        fail_msg("put: %s", err.msg);
}

static cay_state state_of(cay_sandbox *sb)
{
    cay_info *info = NULL;
    if (cay_sandbox_describe(sb, NULL, &info, NULL) < 0)
        return CAY_GONE;
    cay_state s = info->state;
    cay_info_free(info);
    return s;
}

static int take_state(const cay_job *t, void *arg)
{
    cay__str_copy(arg, 16, t->state);
    return 0;
}

static void expect_task(cay_client *client, const char *kind, const char *want)
{
    char state[16] = "missing";
    assert_int_equal(cay_job_list(client,
                                  &(cay_job_filter){
                                      .size = sizeof(cay_job_filter), .kind = kind, .state = want },
                                  take_state, state, NULL),
                     0);
    assert_string_equal(state, want);
}

static void what_is_due_is_done(void **s)
{
    (void)s;
    cay_client *client = open_svc();
    cay_sandbox *sb = make(client);
    cay_err err = CAY_ERR_INIT;
    uint32_t wait = 0;
    assert_int_equal(cay__controller_step(client, NULL, "me", &wait, &err), 0);
    leave(client, "pause", cay_sandbox_id(sb), cay__clock_ms() + 60000, 0);
    assert_int_equal(cay__controller_step(client, NULL, "me", &wait, &err), 0);
    assert_true(wait > 50000);
    leave(client, "pause", cay_sandbox_id(sb), 0, 0);
    assert_int_equal(cay__controller_step(client, NULL, "me", &wait, &err), 1);
    assert_int_equal(state_of(sb), CAY_PAUSED);
    leave(client, "pause", cay_sandbox_id(sb), 0, 0); /* twice changes nothing */
    assert_int_equal(cay__controller_step(client, NULL, "me", &wait, &err), 1);
    leave(client, "kill", cay_sandbox_id(sb), 0, 0);
    assert_int_equal(cay__controller_step(client, NULL, "me", &wait, &err), 1);
    assert_int_equal(state_of(sb), CAY_STOPPED);
    leave(client, "pause", cay_sandbox_id(sb), 0, 0); /* nor does what cannot be any more */
    assert_int_equal(cay__controller_step(client, NULL, "me", &wait, &err), 1);
    leave(client, "remove", cay_sandbox_id(sb), 0, 0);
    assert_int_equal(cay__controller_step(client, NULL, "me", &wait, &err), 1);
    assert_int_equal(state_of(sb), CAY_GONE);
    leave(client, "remove", cay_sandbox_id(sb), 0, 0);
    assert_int_equal(cay__controller_step(client, NULL, "me", &wait, &err), 1);
    static const char *const done[] = { "pause", "kill", "remove" };
    for (size_t i = 0; i < CAY_LEN(done); i++)
        expect_task(client, done[i], "done");
    leave(client, "settle", "", 0, 0);
    leave(client, "gc", "", 0, 0);
    assert_int_equal(cay__controller_step(client, NULL, "me", &wait, &err), 1);
    assert_int_equal(cay__controller_step(client, NULL, "me", &wait, &err), 1);
    leave(client, "build", "x", 0, 0); /* not ours */
    assert_int_equal(cay__controller_step(client, NULL, "me", &wait, &err), 0);
    expect_task(client, "build", "waiting");
    cay_sandbox_unref(sb);
    cay_client_close(client);
}

static void what_fails_is_tried_again_and_kept(void **s)
{
    (void)s;
    cay_client *client = open_svc();
    cay_err err = CAY_ERR_INIT;
    cay_sandbox *sb = make(client);
    cay_call past = { .size = sizeof past, .deadline_ms = 1 }; /* nothing can be done in no time */
    uint32_t wait = 0;
    int ran = 0;
    leave(client, "pause", cay_sandbox_id(sb), 0, 2);
    for (int64_t until = cay__now_ms() + 10000; ran < 2 && cay__now_ms() < until;) {
        int rc = cay__controller_step(client, &past, "me", &wait, &err);
        assert_true(rc >= 0);
        ran += rc;
        if (!rc)
            usleep(2000);
    }
    assert_int_equal(ran, 2);
    expect_task(client, "pause", "dead");
    cay_sandbox_remove(sb, NULL, NULL);
    cay_sandbox_unref(sb);
    cay_client_close(client);
}

static bool is_paused(void *sb)
{
    return state_of(sb) == CAY_PAUSED;
}

static void the_thread_does_it_in_time(void **s)
{
    (void)s;
    cay_client *client = open_svc(), *other = open_svc();
    cay_err err = CAY_ERR_INIT;
    cay__controller *c[2] = { NULL, NULL };
    cay_sandbox *sb = make(client);
    assert_int_equal(cay__controller_start(client, &c[0], &err), 0);
    assert_int_equal(cay__controller_start(client, &c[1], &err), 0); /* two share it */
    leave(other, "pause", cay_sandbox_id(sb), cay__clock_ms() + 200, 0);
    assert_true(support_until(is_paused, sb, 10000));
    for (int i = 0; i < 2; i++)
        cay__controller_stop(c[i]);
    expect_task(client, "pause", "done");
    cay_sandbox_remove(sb, NULL, NULL);
    cay_sandbox_unref(sb);
    cay_client_close(other);
    cay_client_close(client);
}

#define T(name) cmocka_unit_test_setup_teardown(name, home_up, home_down)
int main(void)
{
    const struct CMUnitTest tests[] = { T(what_is_due_is_done),
                                        T(what_fails_is_tried_again_and_kept),
                                        T(the_thread_does_it_in_time) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
