/* SPDX-License-Identifier: Apache-2.0 */
/* keeper.log as a crash, a full disk or another version may leave it. */
#include "support/keeper.h"
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <cmocka.h>

typedef struct seen {
    unsigned n, ops[16];
    jrec last, open;
} seen;

static fake f;

static void note(const jrec *r, void *arg)
{
    seen *s = arg;
    s->n++;
    s->ops[r->op]++;
    s->last = *r;
    if (r->op == J_OPEN)
        s->open = *r;
}

static seen read_all(void)
{
    seen s = { 0 };
    journal_read(note, &s);
    return s;
}

static off_t size_of(const char *name)
{
    struct stat st;
    return fstatat(keeper.home_fd, name, &st, 0) < 0 ? -1 : st.st_size;
}

static void patch(off_t at, const void *data, size_t n)
{
    CAY_AUTOFD fd = openat(keeper.home_fd, "keeper.log", O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0 && pwrite(fd, data, n, at) == (ssize_t)n);
}

static int set_up(void **s)
{
    (void)s;
    fake_open(&f);
    return journal_start("boot", NULL, 0, NULL, 0) ? 0 : -1;
}

static int tear_down(void **s)
{
    (void)s;
    cay__close_fd(&keeper.journal_fd);
    fake_close(&f);
    return 0;
}

static void what_was_put_is_read(void **s)
{
    (void)s;
    f.b->deadline_boot = 77;
    f.b->idle_ms = 5;
    f.b->limits.disk = 9;
    journal_put(J_LIVE, f.b, FAKE_BOX, 3, "");
    seen r = read_all();
    assert_int_equal(r.n, 2);
    assert_string_equal(r.open.id, "boot");
    assert_string_equal(r.open.box, keeper.instance);
    assert_string_equal(r.last.id, FAKE_BOX);
    assert_string_equal(r.last.box, f.b->name);
    assert_true(r.last.a == 77 && r.last.b == 5 && r.last.code == 3);
    journal_put(J_MORE, f.b, FAKE_BOX, 0, "");
    r = read_all();
    assert_int_equal(r.last.a, 9);
    journal_put(J_EXIT, f.b, FAKE_PROC, 137, "a-reason-that-is-longer-than-its-field");
    r = read_all();
    assert_int_equal(strlen(r.last.reason), sizeof r.last.reason - 1);
    assert_true(r.last.seq > r.open.seq);
}

static void without_a_file_there_is_nothing(void **s)
{
    (void)s;
    unlinkat(keeper.home_fd, "keeper.log", 0);
    assert_int_equal(read_all().n, 0);
    assert_int_equal(symlinkat("/etc/passwd", keeper.home_fd, "keeper.log"), 0); /* not followed */
    assert_int_equal(read_all().n, 0);
}

static void a_torn_tail_costs_only_itself(void **s)
{
    (void)s;
    journal_put(J_PARKED, f.b, "", 0, "");
    journal_put(J_LIVE, f.b, FAKE_BOX, 0, "");
    off_t whole = size_of("keeper.log");
    assert_int_equal(whole, 3 * sizeof(jrec));
    for (off_t cut = 1; cut < (off_t)sizeof(jrec); cut += 9) {
        CAY_AUTOFD fd = openat(keeper.home_fd, "keeper.log", O_RDWR | O_CLOEXEC);
        assert_int_equal(ftruncate(fd, whole - cut), 0);
        seen r = read_all();
        assert_int_equal(r.n, 2);
        assert_int_equal(r.last.op, J_PARKED);
    }
}

static void a_bad_sum_costs_only_itself(void **s)
{
    (void)s;
    journal_put(J_PARKED, f.b, "", 0, "");
    journal_put(J_LIVE, f.b, FAKE_BOX, 0, "");
    patch(sizeof(jrec) + offsetof(jrec, pid), "\xff", 1);
    seen r = read_all();
    assert_int_equal(r.n, 2);
    assert_int_equal(r.ops[J_PARKED], 0);
    assert_int_equal(r.ops[J_LIVE], 1);
}

static void another_version_is_nothing_of_ours(void **s)
{
    (void)s;
    journal_put(J_LIVE, f.b, FAKE_BOX, 0, "");
    for (off_t i = 0; i < 2; i++)
        patch(i * (off_t)sizeof(jrec), "cayk", 4);
    assert_int_equal(read_all().n, 0);
    assert_int_equal(adopt_plan(), -1);
    assert_null(adopt_instance());
}

/* Right magic and sum, written by somebody who can count. */
static void forge(jrec *r)
{
    r->magic = 0x6a796163u;
    r->crc = 0;
    r->crc = cay__crc32c(0, r, sizeof *r);
}

static void a_right_sum_does_not_make_it_true(void **s)
{
    (void)s;
    jrec r = { .op = J_LIVE, .pid = 1, .start = 1, .box = FAKE_POOL, .id = FAKE_BOX };
    forge(&r);
    assert_true(journal_check(&r));
    r.op = J_MORE + 1;
    forge(&r);
    assert_false(journal_check(&r));
    r.op = 0;
    forge(&r);
    assert_false(journal_check(&r));
    r.op = J_LIVE;
    memset(r.box, 'b', sizeof r.box);
    forge(&r);
    assert_false(journal_check(&r));
    memcpy(r.box, FAKE_POOL, sizeof FAKE_POOL);
    memset(r.reason, 'x', sizeof r.reason);
    forge(&r);
    assert_false(journal_check(&r));
}

static void another_boot_leaves_nobody_to_adopt(void **s)
{
    (void)s;
    f.b->pid = getpid();
    f.b->start = cay__start_time(getpid());
    journal_put(J_LIVE, f.b, FAKE_BOX, 0, "");
    assert_int_equal(adopt_plan(), -1); /* "boot" is not this boot: a pid of it means nothing */
    assert_string_equal(adopt_instance(), keeper.instance);
}

static void compaction_keeps_what_is_there(void **s)
{
    (void)s;
    f.b->pid = 42;
    for (unsigned i = 0; i < 65536; i++)
        journal_put(J_DEADLINE, f.b, FAKE_BOX, 0, "");
    assert_int_equal(size_of("keeper.log"), 65537 * sizeof(jrec));
    journal_put(J_EXIT, f.b, FAKE_PROC, 7, "exit");
    seen r = read_all();
    assert_int_equal(r.ops[J_OPEN], 1);
    assert_int_equal(r.ops[J_DEADLINE], 0);
    assert_int_equal(r.ops[J_LIVE], 1);
    assert_int_equal(r.ops[J_MORE], keeper.nboxes);
    assert_int_equal(r.last.op, J_EXIT); /* the one that was too many is not lost */
    assert_int_equal(size_of("keeper.log.new"), -1);
}

/* Two keepers die, one after the other: what only the first knew of a command's end is known to the
 * third. */
static void why_a_command_ends_outlives_the_next_keeper(void **s)
{
    (void)s;
    char boot[CAY_WIRE_ID];
    boot_id(boot);
    assert_true(journal_start(boot, NULL, 0, NULL, 0));
    f.b->pid = 0;
    journal_put(J_LIVE, f.b, FAKE_BOX, 0, "");
    journal_put(J_EXIT, f.b, FAKE_PROC, 0, "time");
    adopt_plan();
    adopt_run();
    seen r = read_all();
    assert_int_equal(r.ops[J_EXIT], 1);
    assert_int_equal(r.ops[J_GONE], 1);
}

static void compaction_keeps_why_commands_end(void **s)
{
    (void)s;
    keeper_proc *p = proc_find(f.b, FAKE_PROC), *q = proc_find(f.b, FAKE_TTY);
    p->killing = true;
    q->ended = true;
    cay__str_copy(q->exit.reason, sizeof q->exit.reason, "oom");
    keeper.journal_len = 65536;
    journal_put(J_DEADLINE, f.b, FAKE_BOX, 0, "");
    assert_int_equal(read_all().ops[J_EXIT], 2);
    p->killing = q->ended = false;
}

static void after_a_full_disk_records_are_read_again(void **s)
{
    (void)s;
    struct rlimit was, now;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    now = was;
    now.rlim_cur = (rlim_t)size_of("keeper.log") + 40;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &now), 0);
    journal_put(J_PARKED, f.b, "", 0, ""); /* a piece of it is written */
    journal_put(J_PARKED, f.b, "", 0, ""); /* and there is no room to write it all anew */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    assert_int_equal(size_of("keeper.log") % (off_t)sizeof(jrec), 40);
    journal_put(J_EXIT, f.b, FAKE_PROC, 7, "exit");
    seen r = read_all();
    assert_int_equal(r.ops[J_OPEN], 1);
    assert_int_equal(r.ops[J_LIVE], 1);
    assert_int_equal(r.last.op, J_EXIT);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(what_was_put_is_read),
        CASE(without_a_file_there_is_nothing),
        CASE(a_torn_tail_costs_only_itself),
        CASE(a_bad_sum_costs_only_itself),
        CASE(another_version_is_nothing_of_ours),
        CASE(a_right_sum_does_not_make_it_true),
        CASE(another_boot_leaves_nobody_to_adopt),
        CASE(compaction_keeps_what_is_there),
        CASE(compaction_keeps_why_commands_end),
        CASE(why_a_command_ends_outlives_the_next_keeper),
        CASE(after_a_full_disk_records_are_read_again),
    };
    return cmocka_run_group_tests_name("journal", tests, NULL, NULL);
}
