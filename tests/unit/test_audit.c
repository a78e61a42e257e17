/* SPDX-License-Identifier: Apache-2.0 */
#include "home.h"
#include <base/base.h>
#include <base/fd.h>
#include <base/str.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>

static cay_client *open_svc(void)
{
    return home_open(NULL, NULL);
}

static void tell(cay_client *client, const char *action, const char *object, const char *verdict)
{
    cay_err err = CAY_ERR_INIT;
    cay_audit a = { .size = sizeof a,
                    .actor = "key:0123abcd",
                    .tenant = "acme",
                    .action = action,
                    .object = object,
                    .verdict = verdict,
                    .us = 7 };
    if (cay_audit_put(client, &a, &err) < 0)
        fail_msg("put: %s", err.msg);
}

static const char *path_of(unsigned n)
{
    static char path[300];
    snprintf(path, sizeof path, "%s/audit/%08u.jsonl", home, n);
    return path;
}

static char *slurp(size_t *len)
{
    char *all = cay__alloc(4 << 20);
    FILE *f = fopen(path_of(1), "r");
    assert_non_null(f);
    *len = fread(all, 1, (4 << 20) - 1, f);
    fclose(f);
    return all;
}

static void spew(const char *all, size_t len)
{
    FILE *f = fopen(path_of(1), "w");
    assert_non_null(f);
    assert_int_equal(fwrite(all, 1, len, f), len);
    fclose(f);
}

static int count(const cay_audit *a, void *arg)
{
    assert_true(a->seq > 0 && a->time_ms > 0 && strlen(a->hash) == 64);
    ++*(int *)arg;
    return 0;
}

static cay_audit_proof prove(cay_client *client, const char *head, int want)
{
    cay_audit_proof p = { .size = sizeof p };
    cay_err err = CAY_ERR_INIT;
    int rc = cay_audit_verify(client, head, &p, &err);
    if (rc != want)
        fail_msg("verify: %d instead of %d: %s", rc, want, p.why);
    return p;
}

static void lines_are_kept_listed_and_proved(void **s)
{
    (void)s;
    cay_client *client = open_svc(), *other = open_svc();
    int n = 0;
    cay_audit_proof p = prove(client, NULL, 0);
    assert_int_equal(p.last, 0);
    for (int i = 0; i < 10; i++)
        tell(i % 2 ? other : client, i == 3 ? "key.create" : "POST /sandboxes",
             i == 4 ? "weird \"\n\x01 object" : "cabc", "ok");
    p = prove(client, NULL, 0);
    assert_int_equal(p.first, 1);
    assert_int_equal(p.last, 10);
    assert_int_equal(cay_audit_list(client, NULL, count, &n, NULL), 0);
    assert_int_equal(n, 10);
    n = 0;
    assert_int_equal(
        cay_audit_list(client, &(cay_audit_filter){ .size = sizeof(cay_audit_filter), .last = 3 },
                       count, &n, NULL),
        0);
    assert_int_equal(n, 3);
    n = 0;
    assert_int_equal(
        cay_audit_list(client,
                       &(cay_audit_filter){ .size = sizeof(cay_audit_filter), .action = "key." },
                       count, &n, NULL),
        0);
    assert_int_equal(n, 1);
    assert_int_equal(
        cay_audit_list(client,
                       &(cay_audit_filter){ .size = sizeof(cay_audit_filter), .tenant = "other" },
                       count, &n, NULL),
        0);
    assert_int_equal(n, 1);
    /* the head of before is still in it when more has come, and not when the end was taken away */
    char head[100];
    snprintf(head, sizeof head, "%llu:%s", (unsigned long long)p.last, p.head);
    tell(client, "x", "y", "ok");
    prove(client, head, 0);
    size_t len;
    char *all = slurp(&len);
    len--;
    for (int i = 0; i < 2; i++)
        while (all[--len] != '\n')
            continue;
    spew(all, len + 1);
    free(all);
    prove(client, NULL, 0); /* nobody can tell without it */
    p = prove(client, head, CAY_ESTATE);
    assert_non_null(strstr(p.why, "from the end"));
    assert_int_equal(cay_audit_verify(client, "nonsense", &p, NULL), CAY_EINVAL);
    cay_client_close(other);
    cay_client_close(client);
}

static void every_change_is_seen(void **s)
{
    (void)s;
    cay_client *client = open_svc();
    for (int i = 0; i < 5; i++)
        tell(client, "POST /sandboxes", "cabc", "ok");
    size_t len;
    char *all = slurp(&len), *cut = cay__alloc(len + 1), *line[6] = { all };
    for (int i = 1; i < 6; i++)
        line[i] = strchr(line[i - 1], '\n') + 1;
    /* any byte but the last newline */
    for (size_t i = 0; i < len - 1; i += 37) {
        memcpy(cut, all, len);
        cut[i] = cut[i] == 'X' ? 'Y' : 'X';
        spew(cut, len);
        prove(client, NULL, CAY_ESTATE);
    }
    /* a line taken out; two in another order; one twice */
    memcpy(cut, all, len);
    memmove(cut + (line[2] - all), line[3], (size_t)(line[5] - line[3]));
    spew(cut, len - (size_t)(line[3] - line[2]));
    prove(client, NULL, CAY_ESTATE);
    size_t a = (size_t)(line[2] - line[1]), b = (size_t)(line[3] - line[2]);
    memcpy(cut, all, len);
    memcpy(cut + (line[1] - all), line[2], b);
    memcpy(cut + (line[1] - all) + b, line[1], a);
    spew(cut, len);
    prove(client, NULL, CAY_ESTATE);
    /* from the beginning is allowed: old files may go */
    spew(line[2], (size_t)(line[5] - line[2]));
    cay_audit_proof p = prove(client, NULL, 0);
    assert_int_equal(p.first, 3);
    free(cut);
    free(all);
    cay_client_close(client);
}

static void a_line_that_a_crash_cut_hides_nothing(void **s)
{
    (void)s;
    cay_client *client = open_svc();
    size_t len;
    for (int i = 0; i < 3; i++)
        tell(client, "a", "b", "ok");
    char *all = slurp(&len);
    spew(all, len - 30);
    free(all);
    cay_audit_proof p = prove(client, NULL, 0);
    assert_int_equal(p.last, 2);
    assert_int_equal(p.torn, 1);
    tell(client, "a", "b", "ok"); /* goes on from the last whole one */
    p = prove(client, NULL, 0);
    assert_int_equal(p.last, 3);
    assert_int_equal(p.torn, 1);
    cay_client_close(client);
}

static void another_file_goes_on_where_one_ended(void **s)
{
    (void)s;
    cay_client *client = open_svc(), *other = open_svc();
    char next[300];
    struct stat st;
    for (int i = 0; i < 11; i++)
        tell(i % 2 ? client : other, "a", "b", "ok");
    cay__str_copy(next, sizeof next, path_of(2));
    FILE *f = fopen(next, "w"); /* another program found the first one full, and died */
    assert_non_null(f);
    fclose(f);
    tell(client, "c", "d", "ok");
    tell(other, "c", "d", "ok");
    assert_int_equal(stat(next, &st), 0);
    assert_true(st.st_size > 0);
    cay_audit_proof p = prove(client, NULL, 0);
    assert_int_equal(p.first, 1);
    assert_int_equal(p.last, 13);
    unlink(path_of(1)); /* old ones may go */
    p = prove(client, NULL, 0);
    assert_int_equal(p.first, 12);
    cay_client_close(other);
    cay_client_close(client);
}

static void a_flood_of_refusals_is_counted(void **s)
{
    (void)s;
    cay_client *client = open_svc();
    for (int i = 0; i < 3000; i++)
        tell(client, "GET /", "", "refused");
    tell(client, "POST /sandboxes", "cabc", "ok"); /* passes all the same */
    cay_audit_proof p = prove(client, NULL, 0);
    assert_true(p.dropped > 0 && p.dropped <= 1000);
    assert_true(p.last + p.dropped >= 3001);
    cay_client_close(client);
}

static void *teller(void *arg)
{
    for (int i = 0; i < 50; i++)
        tell(arg, "a", "b", "ok");
    return NULL;
}

static void many_add_at_once(void **s)
{
    (void)s;
    cay_client *client[2] = { open_svc(), open_svc() };
    pthread_t t[4];
    for (size_t i = 0; i < CAY_LEN(t); i++)
        assert_int_equal(pthread_create(&t[i], NULL, teller, client[i % 2]), 0);
    for (size_t i = 0; i < CAY_LEN(t); i++)
        pthread_join(t[i], NULL);
    cay_audit_proof p = prove(client[0], NULL, 0);
    assert_int_equal(p.last, 200);
    cay_client_close(client[1]);
    cay_client_close(client[0]);
}

#define T(name) cmocka_unit_test_setup_teardown(name, home_up, home_down)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(lines_are_kept_listed_and_proved),      T(every_change_is_seen),
        T(a_line_that_a_crash_cut_hides_nothing), T(another_file_goes_on_where_one_ended),
        T(a_flood_of_refusals_is_counted),        T(many_add_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
