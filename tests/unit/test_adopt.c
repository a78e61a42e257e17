/* SPDX-License-Identifier: Apache-2.0 */
/* What init tells the next keeper of its commands: believed only within bounds. */
#include "support/keeper.h"
#include <setjmp.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <cmocka.h>

#define ID "pbbbbbbbbbbbbbbbbbbb"

static fake f;

static int set_up(void **s)
{
    (void)s;
    fake_open(&f);
    return 0;
}

static int tear_down(void **s)
{
    (void)s;
    fake_close(&f);
    return 0;
}

typedef struct told {
    cay_g_state st;
    char labels[2 * CAY_LABELS_MAX];
} told;

static told state(const char *labels, size_t n)
{
    told t = { .st = { .spawn = { .proc = ID, .tag = "web", .title = "serve", .ring = 4096 },
                       .exit = { .pid = 9 } } };
    memcpy(t.labels, labels, n);
    return t;
}

/* The tail of the PROC answer that a client gets of it. */
static size_t ask(const char *ref, char *tail, size_t cap)
{
    char buf[8192];
    proc_reply(f.c[0], proc_find(f.b, ref));
    ssize_t n = cay__fd_recv(f.peer[0], buf, sizeof buf, NULL, NULL, MSG_DONTWAIT);
    size_t fixed = sizeof(cay_msg) + sizeof(cay_m_proc);
    assert_true(n >= (ssize_t)fixed && (size_t)n - fixed <= cap);
    assert_int_equal(((cay_msg *)buf)->tail, (size_t)n - fixed);
    memcpy(tail, buf + fixed, (size_t)n - fixed);
    return (size_t)n - fixed;
}

static void labels_come_back_as_they_were(void **s)
{
    (void)s;
    static const char labels[] = "job\0"
                                 "42"; /* with its NUL */
    static const char want[] = "web\0serve\0\0job\0"
                               "42";
    char tail[4096];
    told t = state(labels, sizeof labels);
    adopt_state(f.b, &t.st, sizeof t.st + sizeof labels, NULL, 0);
    assert_int_equal(ask("web", tail, sizeof tail), sizeof want);
    assert_memory_equal(tail, want, sizeof want);
}

static void more_than_there_may_be_is_cut(void **s)
{
    (void)s;
    char tail[4096], many[2 * CAY_LABELS_MAX];
    memset(many, 'x', sizeof many);
    told t = state(many, sizeof many);
    adopt_state(f.b, &t.st, sizeof t, NULL, 0);
    assert_int_equal(ask(ID, tail, sizeof tail),
                     sizeof "web" + sizeof "serve" + 1 + CAY_LABELS_MAX);
}

static void a_second_one_with_that_id_is_not_believed(void **s)
{
    (void)s;
    told t = state("a\0b", 4), u = state("c\0d", 4);
    char tail[4096];
    adopt_state(f.b, &t.st, sizeof t.st + 4, NULL, 0);
    unsigned n = f.b->nprocs;
    adopt_state(f.b, &u.st, sizeof u.st + 4, NULL, 0);
    assert_int_equal(f.b->nprocs, n);
    size_t len = ask(ID, tail, sizeof tail);
    assert_memory_equal(tail + len - 4, "a\0b", 4);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(labels_come_back_as_they_were),
        CASE(more_than_there_may_be_is_cut),
        CASE(a_second_one_with_that_id_is_not_believed),
    };
    return cmocka_run_group_tests_name("adopt", tests, NULL, NULL);
}
