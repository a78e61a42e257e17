/* SPDX-License-Identifier: Apache-2.0 */
/* Output: rings, offsets, many readers, other processes. */
#include "suite.h"
#include <poll.h>
#include <pthread.h>
#include <sys/wait.h>

#define ARGV(...)                                                                                  \
    (const char *const[])                                                                          \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }

static void output_can_be_had_from_any_offset(void **state)
{
    (void)state;
    ERR;
    cay_proc *p = start(S.sb, (cay_spawn){ .argv = ARGV("echo", "0123456789") });
    wait_for(p, 20000);
    for (int round = 0; round < 2; round++) { /* again and again, also after the end */
        char *all = drain(p, CAY_STDOUT, CAY_FROM_START, NULL),
             *part = drain(p, CAY_STDOUT, 4, NULL);
        char *none = drain(p, CAY_STDOUT, CAY_FROM_NOW, NULL), *err = drain(p, CAY_STDERR, 0, NULL);
        assert_string_equal(all, "0123456789\n");
        assert_string_equal(part, "456789\n");
        assert_string_equal(none, "");
        assert_string_equal(err, "");
        free(all), free(part), free(none), free(err);
    }
    cay_proc_unref(p);
}

static void an_offset_may_be_still_to_come(void **state)
{
    (void)state;
    ERR;
    CAY_AUTOFD fd = -1;
    cay_proc *p = start(S.sb, (cay_spawn){ .argv = ARGV("cat"), .stdin_mode = CAY_STDIN_PIPE });
    OK(cay_proc_output(p, NULL, CAY_STDOUT, 3, &fd, E));
    OK(cay_proc_write(p, NULL, "abcdef", 6, E));
    char buf[4] = "";
    assert_int_equal(cay__fd_read_all(fd, buf, 3), 3);
    assert_string_equal(buf, "def");
    OK(cay_proc_close_stdin(p, NULL, E));
    assert_int_equal(wait_for(p, 20000).code, 0);
    cay_proc_unref(p);
}

static void many_readers_get_the_same(void **state)
{
    (void)state;
    ERR;
    int fds[5];
    cay_proc *p = start(S.sb, (cay_spawn){ .argv = ARGV("cat"), .stdin_mode = CAY_STDIN_PIPE });
    for (size_t i = 0; i < CAY_LEN(fds); i++)
        OK(cay_proc_output(p, NULL, CAY_STDOUT, 0, &fds[i], E));
    OK(cay_proc_write(p, NULL, "to all of you", 13, E));
    for (size_t i = 0; i < CAY_LEN(fds); i++)
        expect(fds[i], "to all of you");
    close(fds[0]); /* one that leaves disturbs nobody */
    OK(cay_proc_write(p, NULL, "and more", 8, E));
    OK(cay_proc_close_stdin(p, NULL, E));
    for (size_t i = 1; i < CAY_LEN(fds); i++) {
        expect(fds[i], "and more");
        char c;
        assert_int_equal(read(fds[i], &c, 1), 0);
        close(fds[i]);
    }
    assert_int_equal(wait_for(p, 20000).code, 0);
    cay_proc_unref(p);
}

static void polling_reads_advance_and_end(void **state)
{
    (void)state;
    NEED(proc_read);
    ERR;
    char buf[4], all[64] = "";
    size_t n = 0, total = 0;
    uint64_t at = 0, lost = 0;
    bool eof = false;
    cay_proc *p = start(S.sb, (cay_spawn){ .argv = ARGV("echo", "abcdefghij") });
    wait_for(p, 20000);
    while (!eof) {
        OK(cay_proc_read(p, NULL, CAY_STDOUT, &at, buf, sizeof buf, &n, &lost, &eof, E));
        memcpy(all + total, buf, n);
        total += n;
        assert_int_equal(lost, 0);
    }
    assert_string_equal(all, "abcdefghij\n");
    assert_int_equal(at, 11);
    cay_proc_unref(p);
}

/* What came at different times is read apart, and in the order of its times over both streams. */
static void reads_tell_when_output_came(void **state)
{
    (void)state;
    NEED_SHELL();
    NEED(proc_read_at);
    ERR;
    int64_t t[3] = { 0 }, before = cay__clock_ms();
    static const struct {
        cay_stream which;
        uint64_t at;
    } piece[] = { { CAY_STDOUT, 0 }, { CAY_STDERR, 0 }, { CAY_STDOUT, 2 } };
    /* Each piece is there before the next one is asked for: a busy machine may take two at once. */
    cay_proc *p = start(
        S.sb,
        (cay_spawn){ .shell = "echo a; read x; sleep 0.2; echo b >&2; read x; sleep 0.2; echo c",
                     .stdin_mode = CAY_STDIN_PIPE });
    for (size_t i = 0; i < 3; i++) {
        char buf[8];
        size_t n = 0;
        for (int64_t end = cay__now_ms() + 20000; !n && cay__now_ms() < end;) {
            uint64_t at = piece[i].at;
            OK(cay_proc_read_at(p, NULL, piece[i].which, &at, buf, sizeof buf, &n, NULL, NULL,
                                &t[i], E));
            poll(NULL, 0, n ? 0 : 10);
        }
        assert_int_equal(n, 2);
        assert_int_equal(buf[0], "abc"[i]);
        if (i < 2)
            OK(cay_proc_write(p, NULL, "\n", 1, E));
    }
    wait_for(p, 20000);
    assert_in_range(t[0], before - 1000, cay__clock_ms());
    assert_true(t[1] - t[0] >= 150 && t[2] - t[1] >= 150);
    cay_proc_unref(p);
}

static void a_full_ring_drops_the_oldest_and_counts(void **state)
{
    (void)state;
    NEED_SHELL();
    NEED(proc_read);
    ERR;
    cay_proc *p = start(S.sb, (cay_spawn){ .shell = "seq -w 1 100000", .ring_bytes = 8192 });
    cay_exit x = wait_for(p, 20000);
    size_t len;
    char *out = drain(p, CAY_STDOUT, 0, &len);
    assert_true(len > 0 && len <= 8192);
    assert_string_equal(out + len - 7, "100000\n");
    assert_int_equal(x.lost_out, 700000 - len);
    free(out);
    char buf[16];
    size_t n;
    uint64_t at = 0, lost;
    bool eof;
    OK(cay_proc_read(p, NULL, CAY_STDOUT, &at, buf, sizeof buf, &n, &lost, &eof, E));
    assert_int_equal(lost, 700000 - len);
    assert_int_equal(at, lost + 16);
    cay_proc_unref(p);
}

static void block_mode_loses_nothing_to_a_slow_reader(void **state)
{
    (void)state;
    NEED_SHELL();
    ERR;
    CAY_AUTOFD fd = -1;
    cay_proc *p = start(S.sb, (cay_spawn){ .shell = "seq -w 1 200000",
                                           .ring_bytes = 8192,
                                           .on_full = CAY_FULL_BLOCK,
                                           .attach = true });
    OK(cay_proc_output(p, NULL, CAY_STDOUT, 0, &fd, E));
    poll(NULL, 0, 150); /* it must wait for us */
    size_t total = 0;
    char last[8] = "", buf[5000];
    for (ssize_t n; (n = read(fd, buf, sizeof buf)) > 0;) {
        total += (size_t)n;
        if (n >= 7)
            memcpy(last, buf + n - 7, 7);
        if (total < 300000)
            poll(NULL, 0, 1);
    }
    assert_int_equal(total, 1400000);
    assert_string_equal(last, "200000\n");
    assert_int_equal(wait_for(p, 20000).lost_out, 0);
    cay_proc_unref(p);
}

static void fifty_megabytes_come_through_whole(void **state)
{
    (void)state;
    NEED_SHELL();
    need("readers that are made with the process",
         strcmp(S.ops->name, "cay") != 0); /* more than a ring may be printed before they come */
    ERR;
    cay_result r = { .size = sizeof r };
    cay_spawn s = { .size = sizeof s,
                    .shell = "head -c 52428800 /dev/zero | tr '\\0' x; echo end >&2" };
    OK(cay_sandbox_run(S.sb, NULL, &s, NULL, 0, 60 << 20, &r, E));
    assert_int_equal(r.out_len, 52428800);
    assert_int_equal(r.out[0], 'x');
    assert_int_equal(r.out[52428799], 'x');
    assert_string_equal(r.errout, "end\n");
    assert_int_equal(r.exit.code, 0);
    cay_result_clear(&r);
}

/* Runs in a program of its own: suite --reattach PROVIDER HOME SANDBOX PROCESS. */
int reattach_main(int argc, char **argv)
{
    ERR;
    if (argc != 6)
        return 2;
    extern const cay_provider_ops *const cay__providers[];
    for (size_t i = 0; cay__providers[i]; i++)
        if (strcmp(cay__providers[i]->name, argv[2]) == 0)
            S.ops = cay__providers[i];
    cay_provider_conf conf = {
        .size = sizeof conf, .home = argv[3], .libexec = support_libexec(), .instance = "suite"
    };
    void *box = NULL;
    cay_proc *p = NULL;
    int fd = -1;
    char buf[64] = "";
    if (S.ops->open(&conf, &S.self, E) < 0 ||
        S.ops->attach(S.self, NULL, argv[4], NULL, &box, E) < 0)
        return fprintf(stderr, "%s\n", e_.msg), 3;
    cay_sandbox *sb = cay__sandbox_new(S.ops, argv[4], box);
    if (cay_sandbox_attach(sb, NULL, argv[5], &p, E) < 0 ||
        cay_proc_output(p, NULL, CAY_STDOUT, 3, &fd, E) < 0)
        return fprintf(stderr, "%s\n", e_.msg), 4;
    if (read(fd, buf, sizeof buf - 1) != 4 || strcmp(buf, "ore|") != 0)
        return fprintf(stderr, "got %s\n", buf), 5;
    if (cay_proc_write(p, NULL, "from another program", 20, E) < 0 ||
        cay_proc_close_stdin(p, NULL, E) < 0)
        return fprintf(stderr, "%s\n", e_.msg), 6;
    cay_exit x = { .size = sizeof x };
    if (cay_proc_wait(p, NULL, &x, E) < 0 || x.code != 0)
        return 7;
    close(fd);
    cay_proc_unref(p);
    cay_sandbox_unref(sb);
    S.ops->close(S.self);
    return 0;
}

static void another_program_can_attach(void **state)
{
    (void)state;
    need("another process", strcmp(S.ops->name, "memory") != 0);
    ERR;
    cay_proc *p = start(S.sb, (cay_spawn){ .argv = ARGV("cat"), .stdin_mode = CAY_STDIN_PIPE });
    OK(cay_proc_write(p, NULL, "before|", 7, E));
    pid_t pid = fork();
    if (pid == 0) {
        execl("/proc/self/exe", "suite", "--reattach", S.ops->name, S.home, S.sb->id,
              cay_proc_id(p), (char *)NULL);
        _exit(99);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    char *out = drain(p, CAY_STDOUT, 0, NULL);
    assert_string_equal(out, "before|from another program");
    free(out);
    assert_int_equal(wait_for(p, 20000).code, 0);
    cay_proc_unref(p);
}

static void a_process_lives_on_when_its_handle_is_dropped(void **state)
{
    (void)state;
    ERR;
    char id[32];
    cay_proc *q = NULL,
             *p = start(S.sb, (cay_spawn){ .argv = ARGV("cat"), .stdin_mode = CAY_STDIN_PIPE });
    snprintf(id, sizeof id, "%s", cay_proc_id(p));
    OK(cay_proc_write(p, NULL, "kept", 4, E));
    cay_proc_unref(p);
    OK(cay_sandbox_attach(S.sb, NULL, id, &q, E));
    OK(cay_proc_close_stdin(q, NULL, E));
    char *out = drain(q, CAY_STDOUT, 0, NULL);
    assert_string_equal(out, "kept");
    free(out);
    assert_int_equal(wait_for(q, 20000).code, 0);
    cay_proc_unref(q);
}

static void *storm(void *arg)
{
    char text[64], want[70];
    (void)arg;
    for (int i = 0; i < 5; i++) {
        cay_result r = { .size = sizeof r };
        snprintf(text, sizeof text, "%p-%d", (void *)pthread_self(), i);
        snprintf(want, sizeof want, "%s\n", text);
        cay_spawn s = { .size = sizeof s, .argv = ARGV("echo", text) };
        cay_err e = CAY_ERR_INIT;
        if (cay_sandbox_run(S.sb, NULL, &s, NULL, 0, 0, &r, &e) < 0)
            return cay__strdup(e.msg);
        bool same = strcmp(r.out, want) == 0 && r.exit.code == 0;
        cay_result_clear(&r);
        if (!same)
            return cay__strdup("wrong output");
    }
    return NULL;
}

static void twenty_threads_at_once(void **state)
{
    (void)state;
    pthread_t t[20];
    char *why = NULL;
    for (size_t i = 0; i < CAY_LEN(t); i++)
        assert_int_equal(pthread_create(&t[i], NULL, storm, NULL), 0);
    for (size_t i = 0; i < CAY_LEN(t); i++) {
        void *bad = NULL;
        pthread_join(t[i], &bad);
        if (bad && !why)
            why = bad;
    }
    if (why)
        fail_msg("%s", why);
}

static void a_large_ring_keeps_all_of_it(void **state)
{
    (void)state;
    NEED_SHELL();
    size_t len = 0;
    cay_proc *p = start(S.sb, (cay_spawn){ .shell = "head -c 9000000 /dev/zero | tr '\\0' x",
                                           .ring_bytes = 16 << 20 });
    assert_int_equal(wait_for(p, 20000).lost_out, 0);
    char *out = drain(p, CAY_STDOUT, 0, &len);
    assert_int_equal(len, 9000000);
    free(out);
    cay_proc_unref(p);
}

tests suite_stream(size_t *n)
{
    static const struct CMUnitTest t[] = {
        cmocka_unit_test(a_large_ring_keeps_all_of_it),
        cmocka_unit_test(output_can_be_had_from_any_offset),
        cmocka_unit_test(an_offset_may_be_still_to_come),
        cmocka_unit_test(many_readers_get_the_same),
        cmocka_unit_test(polling_reads_advance_and_end),
        cmocka_unit_test(reads_tell_when_output_came),
        cmocka_unit_test(a_full_ring_drops_the_oldest_and_counts),
        cmocka_unit_test(block_mode_loses_nothing_to_a_slow_reader),
        cmocka_unit_test(fifty_megabytes_come_through_whole),
        cmocka_unit_test(another_program_can_attach),
        cmocka_unit_test(a_process_lives_on_when_its_handle_is_dropped),
        cmocka_unit_test(twenty_threads_at_once),
    };
    *n = CAY_LEN(t);
    return t;
}
