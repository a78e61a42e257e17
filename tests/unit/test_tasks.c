/* SPDX-License-Identifier: Apache-2.0 */
/* The queue and the answers that are given again: contract of the store, rules of the library, and
 * death at any moment. */
#include "home.h"
#include <base/base.h>
#include <base/fd.h>
#include <base/str.h>
#include <cay/sys/store.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>

static const cay_store_ops *ops = &cay__store_sqlite;

static cay_client *open_svc(void)
{
    return home_open(NULL, NULL);
}

static void put(cay_client *client, const char *kind, const char *key, int64_t due, unsigned how,
                char *id)
{
    cay_err err = CAY_ERR_INIT;
    cay_job t = { .size = sizeof t,
                  .kind = kind,
                  .subject = "thing",
                  .key = key,
                  .due_ms = due,
                  .most = 2,
                  .backoff_ms = 1 };
    if (cay_job_put(client, &t, how, id, &err) < 0)
        fail_msg("put: %s", err.msg);
}

static int take_state(const cay_job *t, void *arg)
{
    cay__str_copy(arg, 16, t->state);
    return 0;
}

static void expect_state(cay_client *client, const char *id, const char *want)
{
    char state[16] = "missing";
    assert_int_equal(cay_job_list(client,
                                  &(cay_job_filter){ .size = sizeof(cay_job_filter), .id = id },
                                  take_state, state, NULL),
                     0);
    assert_string_equal(state, want);
}

static int count(const cay_job *t, void *arg)
{
    (void)t;
    ++*(int *)arg;
    return 0;
}

static void what_is_due_first_is_taken_first(void **s)
{
    (void)s;
    cay_client *client = open_svc();
    cay_err err = CAY_ERR_INIT;
    int64_t now = cay__clock_ms();
    char a[CAY_ID_LEN + 1], b[CAY_ID_LEN + 1], c[CAY_ID_LEN + 1];
    cay_job *t = NULL;
    static const char *const other[] = { "other", NULL };
    assert_int_equal(cay_job_claim(client, NULL, "me", 1000, &t, &err), CAY_ENOENT);
    assert_string_equal(err.reason, "task_none");
    assert_int_equal(err.retry_after_ms, 0);
    put(client, "x", NULL, now - 5, 0, a);
    put(client, "x", NULL, now - 9, 0, b);
    put(client, "other", NULL, now + 50000, 0, c);
    assert_int_equal(cay_job_claim(client, other, "me", 1000, &t, &err), CAY_ENOENT);
    assert_true(err.retry_after_ms > 40000 && err.retry_after_ms <= 50000);
    assert_int_equal(cay_job_claim(client, NULL, "me", 60000, &t, &err), 0);
    assert_string_equal(t->id, b);
    assert_string_equal(t->state, "running");
    assert_int_equal(t->attempts, 1);
    assert_int_equal(cay_job_renew(client, t, 60000, &err), 0);
    assert_int_equal(cay_job_done(client, t, &err), 0);
    assert_int_equal(cay_job_done(client, t, &err), CAY_ESTATE);
    assert_string_equal(err.reason, "task_lost");
    cay_job_free(t);
    assert_int_equal(cay_job_claim(client, NULL, "me", 60000, &t, &err), 0);
    assert_string_equal(t->id, a);
    cay_job_free(t);
    expect_state(client, a, "running");
    expect_state(client, b, "done");
    size_t n = 0;
    assert_int_equal(cay_job_sweep(client, cay__clock_ms() + 1000, &n, &err), 0);
    assert_int_equal(n, 1);
    cay_client_close(client);
}

static void put_for(cay_client *client, const char *tenant, unsigned most, int want)
{
    cay_err err = CAY_ERR_INIT;
    const cay_job t = { .size = sizeof t, .kind = "build", .tenant = tenant, .waiting_most = most };
    assert_int_equal(cay_job_put(client, &t, CAY_JOB_KEEP, NULL, &err), want);
    if (want == CAY_ERATE) {
        assert_string_equal(err.reason, "queue_full");
        assert_string_equal(err.detail, "{\"queue\":3,\"most\":3}");
        assert_true(err.retry_after_ms > 0);
    }
}

static void no_more_wait_than_may(void **s)
{
    (void)s;
    cay_client *client = open_svc();
    static const char *const kinds[] = { "build", NULL };
    cay_job *t = NULL;
    cay_err err = CAY_ERR_INIT;
    for (int i = 0; i < 3; i++)
        put_for(client, "default", 3, 0);
    put_for(client, "default", 3, CAY_ERATE);
    put_for(client, "other", 3, 0); /* another's are not counted */
    assert_int_equal(cay_job_claim_fair(client, kinds, "me", 60000, &t, &err),
                     0); /* one that runs does not wait */
    put_for(client, "default", strcmp(t->tenant, "default") ? 4 : 3, 0);
    cay_job_free(t);
    cay_client_close(client);
}

/* a has many and came first; b and c have one each and are not behind all of a's. */
static void tenants_take_turns(void **s)
{
    (void)s;
    cay_client *client = open_svc();
    cay_err err = CAY_ERR_INIT;
    static const char *const kinds[] = { "build", NULL };
    static const char *const more[] = { "a", "a", "a", "a", "a", "a", "b", "b", "c" };
    char order[16] = "";
    cay_job *held[2] = { 0 };
    for (size_t i = 0; i < CAY_LEN(more); i++) {
        put_for(client, more[i], 0, 0);
        usleep(2000);
    }
    for (size_t i = 0; i < CAY_LEN(more);
         i++) { /* two at work at any time, as the server has them */
        cay_job **mine = &held[i % 2];
        if (*mine) {
            assert_int_equal(cay_job_done(client, *mine, &err), 0);
            cay_job_free(*mine);
        }
        usleep(2000);
        assert_int_equal(cay_job_claim_fair(client, kinds, "me", 60000, mine, &err), 0);
        order[i] = (*mine)->tenant[0];
    }
    assert_string_equal(order, "abcabaaaa");
    cay_job_free(held[0]);
    cay_job_free(held[1]);
    cay_client_close(client);
}

/* Two of one tenant at work, of whatever kind, and no third by the same owner; others are taken
 * meanwhile. */
static void one_tenant_has_not_all_the_builders(void **s)
{
    (void)s;
    cay_client *client = open_svc();
    cay_err err = CAY_ERR_INIT;
    static const char *const builds[] = { "build", NULL }, *const others[] = { "other", NULL };
    cay_job *held[4] = { 0 };
    for (int i = 0; i < 3; i++)
        put_for(client, "a", 0, 0);
    assert_int_equal(
        cay_job_put(client, &(cay_job){ .size = sizeof(cay_job), .kind = "other", .tenant = "a" },
                    CAY_JOB_KEEP, NULL, &err),
        0);
    assert_int_equal(cay_job_claim_fair(client, builds, "me", 60000, &held[0], &err), 0);
    assert_int_equal(cay_job_claim_fair(client, others, "me", 60000, &held[1], &err), 0);
    assert_int_equal(cay_job_claim_fair(client, builds, "me", 60000, &held[2], &err), CAY_ENOENT);
    put_for(client, "b", 0, 0);
    assert_int_equal(cay_job_claim_fair(client, builds, "me", 60000, &held[2], &err), 0);
    assert_string_equal(held[2]->tenant, "b");
    assert_int_equal(cay_job_claim_fair(client, builds, "me", 60000, &held[3], &err), CAY_ENOENT);
    assert_int_equal(cay_job_done(client, held[1], &err), 0);
    assert_int_equal(cay_job_claim_fair(client, builds, "me", 60000, &held[3], &err), 0);
    assert_string_equal(held[3]->tenant, "a");
    for (size_t i = 0; i < CAY_LEN(held); i++)
        cay_job_free(held[i]);
    cay_client_close(client);
}

/* Two who act together have what is for all; who has none is taken all the same, and they get no
 * more. */
static void who_has_none_at_work_is_taken_beyond_the_common_ones(void **s)
{
    (void)s;
    cay_client *client = open_svc();
    cay_err err = CAY_ERR_INIT;
    static const char *const builds[] = { "build", NULL };
    static const char *const order[] = { "a", "b", "a", "c", "d" };
    cay_job *held[CAY_LEN(order) + 1] = { 0 };
    for (int i = 0; i < 4; i++)
        put_for(client, "a", 0, 0), put_for(client, "b", 0, 0);
    for (size_t i = 0; i < CAY_LEN(order); i++) {
        if (i == CAY_JOB_SHARED_MAX) {
            assert_int_equal(cay_job_claim_fair(client, builds, "me", 60000, &held[i], &err),
                             CAY_ENOENT); /* b has one, and would be the second */
            put_for(client, "c", 0, 0), put_for(client, "d", 0, 0);
        }
        assert_int_equal(cay_job_claim_fair(client, builds, "me", 60000, &held[i], &err), 0);
        if (i < CAY_JOB_SHARED_MAX)
            assert_true(*held[i]->tenant == 'a' || *held[i]->tenant == 'b');
        else
            assert_true(*held[i]->tenant == 'c' || *held[i]->tenant == 'd');
    }
    assert_string_not_equal(held[3]->tenant, held[4]->tenant);
    assert_int_equal(cay_job_claim_fair(client, builds, "me", 60000, &held[5], &err), CAY_ENOENT);
    for (size_t i = 0; i < CAY_LEN(held); i++)
        cay_job_free(held[i]);
    cay_client_close(client);
}

static void a_key_is_there_once(void **s)
{
    (void)s;
    cay_client *client = open_svc();
    cay_err err = CAY_ERR_INIT;
    char a[CAY_ID_LEN + 1], b[CAY_ID_LEN + 1], c[CAY_ID_LEN + 1];
    int64_t later = cay__clock_ms() + 60000;
    cay_job *t = NULL;
    put(client, "pause", "box", later, CAY_JOB_KEEP, a);
    put(client, "pause", "box", 0, CAY_JOB_KEEP, b);
    assert_string_equal(a, b);
    put(client, "kill", "box", later, CAY_JOB_KEEP, c); /* of another kind */
    assert_string_not_equal(a, c);
    put(client, "pause", "box", 0, CAY_JOB_REPLACE, b);
    assert_string_not_equal(a, b);
    expect_state(client, a, "canceled");
    /* one that runs is replaced, too: whoever has it cannot end it any more */
    assert_int_equal(cay_job_claim(client, NULL, "me", 60000, &t, &err), 0);
    put(client, "pause", "box", later, CAY_JOB_REPLACE, c);
    assert_int_equal(cay_job_renew(client, t, 1000, &err), CAY_ESTATE);
    assert_int_equal(cay_job_fail(client, t, "x", &err), CAY_ESTATE);
    cay_job_free(t);
    size_t n = 0;
    assert_int_equal(cay_job_cancel_of(client, "pause", "thing", &n, &err), 0);
    assert_int_equal(n, 1);
    assert_int_equal(cay_job_cancel_of(client, NULL, "thing", &n, &err), 0);
    assert_int_equal(n, 1);
    cay_client_close(client);
}

static void a_failure_comes_again_and_dies_at_last(void **s)
{
    (void)s;
    cay_client *client = open_svc();
    cay_err err = CAY_ERR_INIT;
    char id[CAY_ID_LEN + 1];
    cay_job *t = NULL;
    put(client, "x", NULL, 0, 0, id);
    for (unsigned i = 1; i <= 2; i++) {
        int64_t until = cay__now_ms() + 10000;
        while (cay_job_claim(client, NULL, "me", 60000, &t, &err) == CAY_ENOENT &&
               cay__now_ms() < until)
            usleep(2000);
        assert_non_null(t);
        assert_int_equal(t->attempts, i);
        assert_int_equal(cay_job_fail(client, t, "no luck", &err), 0);
        cay_job_free(CAY_STEAL(t));
        expect_state(client, id, i < 2 ? "waiting" : "dead");
    }
    assert_int_equal(cay_job_claim(client, NULL, "me", 60000, &t, &err), CAY_ENOENT);
    assert_int_equal(cay_job_cancel(client, id, &err), CAY_ESTATE);
    size_t n = 9;
    assert_int_equal(cay_job_sweep(client, cay__clock_ms() + 1000, &n, &err),
                     0); /* dead ones stay to be seen */
    assert_int_equal(n, 0);
    assert_int_equal(cay_job_replay(client, id, &err), 0);
    assert_int_equal(cay_job_replay(client, id, &err), CAY_ESTATE);
    assert_int_equal(cay_job_claim(client, NULL, "me", 60000, &t, &err), 0);
    assert_int_equal(t->attempts, 1);
    assert_int_equal(cay_job_done(client, t, &err), 0);
    cay_job_free(t);
    assert_int_equal(cay_job_replay(client, "jaaaaaaaaaaaaaaaaaaa", &err), CAY_ENOENT);
    assert_int_equal(cay_job_cancel(client, "nonsense", &err), CAY_EINVAL);
    cay_client_close(client);
}

static int take_one(const cay_job *t, void *arg)
{
    *(uint64_t *)arg = t->fence;
    return 0;
}

/* By the store alone, whose clock is the caller's. */
static void a_lease_that_ran_out_is_anothers(void **s)
{
    (void)s;
    void *st = NULL;
    char id[CAY_ID_LEN + 1];
    uint64_t one = 0, two = 0, three = 0;
    int64_t next = 0;
    cay_err err = CAY_ERR_INIT;
    assert_int_equal(ops->open(home, &st, &err), 0);
    cay_job t = { .size = sizeof t,
                  .kind = "x",
                  .subject = "",
                  .tenant = "default",
                  .due_ms = 1000,
                  .most = 2,
                  .backoff_ms = 10 };
    assert_int_equal(ops->job_put(st, &t, 0, id, &err), 0);
    assert_int_equal(ops->job_claim(st, NULL, "a", 999, 2000, take_one, &one, &next, &err),
                     CAY_ENOENT);
    assert_int_equal(next, 1000);
    assert_int_equal(ops->job_claim(st, NULL, "a", 1000, 2000, take_one, &one, &next, &err), 0);
    assert_int_equal(ops->job_claim(st, NULL, "b", 1999, 3000, take_one, &two, &next, &err),
                     CAY_ENOENT);
    assert_int_equal(next, 2000);
    assert_int_equal(ops->job_claim(st, NULL, "b", 2000, 3000, take_one, &two, &next, &err), 0);
    assert_true(two > one);
    assert_int_equal(ops->job_end(st, id, one, "done", 0, "", &err),
                     CAY_ESTATE); /* the first is too late */
    assert_int_equal(ops->job_claim(st, NULL, "c", 3000, 4000, take_one, &three, &next, &err),
                     CAY_ENOENT); /* no attempt is left */
    char state[16] = "";
    assert_int_equal(ops->job_list(st, &(cay_job_filter){ .size = sizeof(cay_job_filter) },
                                   take_state, state, &err),
                     0);
    assert_string_equal(state, "dead");
    assert_int_equal(ops->job_end(st, id, two, "done", 0, "", &err), CAY_ESTATE);
    ops->close(st);
}

/* Effects are counted, not runs: an effect is a file that can be made once. */
static int effect(const char *id)
{
    char path[300];
    snprintf(path, sizeof path, "%s/effect-%s", home, id);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    return fd >= 0 ? 0 : errno == EEXIST ? 0 : -1; /* it has happened: that is what was wanted */
}

static void work_off(cay_client *client, const char *me, int64_t until, atomic_int *ran)
{
    cay_job *t = NULL;
    cay_err err = CAY_ERR_INIT;
    while (cay__now_ms() < until) {
        int rc = cay_job_claim(client, NULL, me, 60000, &t, &err);
        if (rc == CAY_ENOENT)
            return;
        if (rc < 0)
            continue;
        if (effect(t->id) == 0 && cay_job_done(client, t, &err) == 0 && ran)
            atomic_fetch_add(ran, 1);
        cay_job_free(t);
    }
}

typedef struct worker {
    cay_client *client;
    const char *me;
    atomic_int ran;
} worker;

static void *run_worker(void *arg)
{
    worker *w = arg;
    work_off(w->client, w->me, cay__now_ms() + 12000, &w->ran);
    return NULL;
}

static void of_two_consumers_each_task_has_one(void **s)
{
    (void)s;
    enum { N = 60 };
    worker w[2] = { { .client = open_svc(), .me = "a" }, { .client = open_svc(), .me = "b" } };
    pthread_t t[2];
    int n = 0;
    for (int i = 0; i < N; i++)
        put(w[0].client, "x", NULL, 1 + i, 0, NULL);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&t[i], NULL, run_worker, &w[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    assert_int_equal(atomic_load(&w[0].ran) + atomic_load(&w[1].ran), N);
    assert_int_equal(
        cay_job_list(w[0].client,
                     &(cay_job_filter){ .size = sizeof(cay_job_filter), .state = "done" }, count,
                     &n, NULL),
        0);
    assert_int_equal(n, N);
    for (int i = 0; i < 2; i++)
        cay_client_close(w[i].client);
}

static void what_a_killed_consumer_had_is_done_by_the_next(void **s)
{
    (void)s;
    cay_client *client = open_svc();
    char id[CAY_ID_LEN + 1];
    cay_err err = CAY_ERR_INIT;
    cay_job *t = NULL;
    int tell[2], n = 0;
    put(client, "x", "k", 0, 0, id);
    cay_client_close(client);
    assert_int_equal(pipe(tell), 0);
    pid_t pid = fork();
    if (pid == 0) { /* takes it and dies before it says so */
        cay_client *mine = NULL;
        cay_job *got = NULL;
        if (cay_client_open(&(cay_open){ .size = sizeof(cay_open), .home = home }, &mine, NULL) <
                0 ||
            cay_job_claim(mine, NULL, "dead", 300, &got, NULL) < 0 || effect(got->id) < 0 ||
            write(tell[1], "x", 1) != 1)
            _exit(1);
        kill(getpid(), SIGKILL);
        _exit(2);
    }
    char c;
    close(tell[1]);
    assert_int_equal(read(tell[0], &c, 1), 1);
    close(tell[0]);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    client = open_svc();
    int64_t until = cay__now_ms() + 10000;
    while (cay_job_claim(client, NULL, "next", 60000, &t, &err) == CAY_ENOENT &&
           cay__now_ms() < until)
        usleep(5000);
    assert_non_null(t);
    assert_string_equal(t->id, id);
    assert_int_equal(t->attempts, 2);
    assert_int_equal(effect(t->id), 0); /* the second time changes nothing */
    assert_int_equal(cay_job_done(client, t, &err), 0);
    cay_job_free(t);
    assert_int_equal(
        cay_job_list(client, &(cay_job_filter){ .size = sizeof(cay_job_filter), .state = "done" },
                     count, &n, NULL),
        0);
    assert_int_equal(n, 1);
    cay_client_close(client);
}

static void wrong_tasks_are_refused(void **s)
{
    (void)s;
    cay_client *client = open_svc();
    cay_err err = CAY_ERR_INIT;
    cay_job *t = NULL;
    const cay_job cases[] = {
        { .kind = NULL },
        { .kind = "" },
        { .kind = "A" },
        { .kind = "a b" },
        { .kind = "x", .detail = "[]" },
        { .kind = "x", .detail = "{" },
        { .kind = "x", .tenant = "No" },
        { .kind = "x", .most = 101 },
        { .kind = "x", .due_ms = -1 },
        { .kind = "x", .backoff_ms = UINT64_MAX },
    };
    for (size_t i = 0; i < CAY_LEN(cases); i++) {
        cay_job c = cases[i];
        c.size = sizeof c;
        assert_int_equal(cay_job_put(client, &c, 0, NULL, &err), CAY_EINVAL);
    }
    assert_int_equal(cay_job_claim(client, NULL, "me", 0, &t, &err), CAY_EINVAL);
    cay_client_close(client);
}

static int take_body(const cay_idempotency_record *a, void *arg)
{
    snprintf(arg, 64, "%d %s %.*s", a->status, a->type, (int)a->len, (const char *)a->body);
    return 0;
}

static void the_same_request_gets_the_same_answer(void **s)
{
    (void)s;
    cay_client *client = open_svc();
    cay_err err = CAY_ERR_INIT;
    char hash[65], other[65], got[64] = "";
    cay_idempotency_hash("{}", 2, hash);
    cay_idempotency_hash("{ }", 3, other);
    cay_idempotency_record a = { .size = sizeof a,
                                 .tenant = "default",
                                 .route = "POST /sandboxes",
                                 .key = "k1",
                                 .request = hash };
    assert_int_equal(cay_idempotency_begin(client, &a, take_body, got, &err), 0);
    assert_int_equal(cay_idempotency_begin(client, &a, take_body, got, &err), CAY_EBUSY);
    assert_string_equal(err.reason, "idempotency_busy");
    assert_string_equal(got, "");
    a.status = 201, a.type = "application/json", a.body = "{\"id\":1}", a.len = 8;
    assert_int_equal(cay_idempotency_end(client, &a, &err), 0);
    assert_int_equal(cay_idempotency_begin(client, &a, take_body, got, &err), CAY_EEXIST);
    assert_string_equal(err.reason, "idempotency_replay");
    assert_string_equal(got, "201 application/json {\"id\":1}");
    a.request = other;
    assert_int_equal(cay_idempotency_begin(client, &a, take_body, got, &err), CAY_EEXIST);
    assert_string_equal(err.reason, "idempotency_conflict");
    a.tenant = "acme"; /* another's key is another's */
    assert_int_equal(cay_idempotency_begin(client, &a, take_body, got, &err), 0);
    a.status = 0; /* it failed: the next one may try */
    assert_int_equal(cay_idempotency_end(client, &a, &err), 0);
    assert_int_equal(cay_idempotency_begin(client, &a, take_body, got, &err), 0);
    a.key = "";
    assert_int_equal(cay_idempotency_begin(client, &a, take_body, got, &err), CAY_EINVAL);
    a.key = "a\nb";
    assert_int_equal(cay_idempotency_begin(client, &a, take_body, got, &err), CAY_EINVAL);
    assert_int_equal(cay_idempotency_sweep(client, &err), 0);
    cay_client_close(client);
}

static void who_died_at_an_answer_is_followed(void **s)
{
    (void)s;
    char got[64] = "";
    cay_idempotency_record a = {
        .size = sizeof a, .tenant = "default", .route = "r", .key = "k", .request = "h"
    };
    cay_err err = CAY_ERR_INIT;
    pid_t pid = fork();
    if (pid == 0) {
        cay_client *mine = NULL;
        bool bad = cay_client_open(&(cay_open){ .size = sizeof(cay_open), .home = home }, &mine,
                                   NULL) < 0 ||
                   cay_idempotency_begin(mine, &a, take_body, got, NULL) < 0;
        a.status = 201, a.type = "", a.body = "chosen", a.len = 6, a.begun = true;
        _exit(bad || cay_idempotency_end(mine, &a, NULL) < 0 ||
              cay_idempotency_begin(mine, &a, take_body, got, NULL) != CAY_EBUSY || *got);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    if ((pid = fork()) == 0) { /* the next one dies before it chose the same once more */
        cay_client *mine = NULL;
        _exit(cay_client_open(&(cay_open){ .size = sizeof(cay_open), .home = home }, &mine, NULL) <
                  0 ||
              cay_idempotency_begin(mine, &a, take_body, got, NULL) < 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    cay_client *client = open_svc();
    assert_int_equal(cay_idempotency_begin(client, &a, take_body, got, &err), 0);
    assert_string_equal(got, "201  chosen"); /* what the first of the dead ones had in mind */
    assert_int_equal(cay_idempotency_begin(client, &a, take_body, got, &err), CAY_EBUSY);
    a.status = 0;
    assert_int_equal(cay_idempotency_end(client, &a, &err), 0);
    *got = 0;
    assert_int_equal(cay_idempotency_begin(client, &a, take_body, got, &err), 0);
    assert_string_equal(got, ""); /* it failed: nothing is left of it */
    cay_client_close(client);
}

#define T(name) cmocka_unit_test_setup_teardown(name, home_up, home_down)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(what_is_due_first_is_taken_first),
        T(no_more_wait_than_may),
        T(tenants_take_turns),
        T(one_tenant_has_not_all_the_builders),
        T(who_has_none_at_work_is_taken_beyond_the_common_ones),
        T(a_key_is_there_once),
        T(a_failure_comes_again_and_dies_at_last),
        T(a_lease_that_ran_out_is_anothers),
        T(of_two_consumers_each_task_has_one),
        T(what_a_killed_consumer_had_is_done_by_the_next),
        T(wrong_tasks_are_refused),
        T(the_same_request_gets_the_same_answer),
        T(who_died_at_an_answer_is_followed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
