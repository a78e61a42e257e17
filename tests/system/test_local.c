/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of a local sandbox when cay-local is killed, and that nothing stays behind. */
#include "../support/support.h"
#include <base/base.h>
#include <base/fd.h>
#include <base/fsop.h>
#include <base/str.h>
#include <fcntl.h>
#include <poll.h>
#include <proto/local_record.h>
#include <base/proctree.h>
#include <lib/provider/provider.h>
#include <lib/sandbox/sandbox.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

#define ARGV(...)                                                                                  \
    (const char *const[])                                                                          \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }

static char *home;
static void *self;

static int up(void **state)
{
    (void)state;
    home = support_home();
    cay_provider_conf conf = {
        .size = sizeof conf, .home = home, .libexec = support_libexec(), .instance = "test"
    };
    return cay__local.open(&conf, &self, NULL);
}

static int down(void **state)
{
    (void)state;
    cay__local.close(self);
    support_home_remove(home);
    return 0;
}

static cay_sandbox *box(cay_create c)
{
    char id[CAY_ID_LEN + 1];
    void *b = NULL;
    cay_err e = CAY_ERR_INIT;
    c.size = sizeof c;
    cay__id_make(id, 'c');
    if (cay__local.create(self, NULL, id, &(cay_box_spec){ .create = &c }, &b, &e) < 0)
        fail_msg("%s", e.msg);
    return cay__sandbox_new(&cay__local, id, b);
}

static int holder(cay_sandbox *sb)
{
    cay_box_status st = { .size = sizeof st };
    assert_int_equal(cay__local.status(sb->box, NULL, &st, NULL), 0);
    return st.pid;
}

static cay_proc *sleeper(cay_sandbox *sb)
{
    cay_proc *p = NULL;
    cay_spawn s = { .size = sizeof s, .argv = ARGV("sleep", "600") };
    assert_int_equal(cay_sandbox_spawn(sb, NULL, &s, &p, NULL), 0);
    return p;
}

static bool dead(void *pid)
{
    tree_proc t;
    return !cay__tree_look(*(int *)pid, &t) || t.state == 'Z';
}

static int first_below(const tree_proc *p, void *arg)
{
    *(int *)arg = p->pid;
    return 1;
}

static void end(cay_sandbox *sb)
{
    assert_int_equal(cay__local.destroy(sb->box, NULL, NULL), 0);
    sb->box = NULL;
    cay_sandbox_unref(sb);
}

static void killed_it_takes_its_processes_and_comes_back(void **state)
{
    (void)state;
    cay_sandbox *sb = box((cay_create){ 0 });
    assert_int_equal(cay_file_put(sb, NULL, "kept", "x", 1, NULL, NULL), 0);
    cay_proc *p = sleeper(sb);
    int pid = cay_proc_pid(p), old = holder(sb);
    kill(old, SIGKILL);
    assert_true(support_until(dead, &pid, 3000));
    cay_exit x = { .size = sizeof x };
    cay_call c = { .size = sizeof c, .deadline_ms = cay__now_ms() + 5000 };
    assert_int_equal(cay_proc_wait(p, &c, &x, NULL), 0); /* an answer, and an honest one */
    assert_string_equal(x.reason, "lost");
    cay_proc_unref(p);
    bool yes = false;
    assert_int_equal(cay_file_exists(sb, NULL, "kept", &yes, NULL), 0);
    assert_true(yes);
    p = sleeper(sb);
    assert_int_not_equal(holder(sb), old);
    pid = cay_proc_pid(p);
    cay_proc_unref(p);
    end(sb);
    assert_true(support_until(dead, &pid, 1000));
}

static void leftovers_that_are_provably_ours_are_ended(void **state)
{
    (void)state;
    cay_sandbox *sb = box((cay_create){ 0 });
    cay_proc *p = sleeper(sb);
    int pid = cay_proc_pid(p), reaper = 0, old = holder(sb);
    cay__tree_walk(old, first_below, &reaper); /* the lowest pid below it: the reaper */
    assert_int_not_equal(reaper, pid);
    kill(reaper, SIGSTOP); /* it cannot see its master die */
    kill(old, SIGKILL);
    assert_true(support_until(dead, &old, 3000));
    kill(reaper, SIGKILL);
    assert_false(dead(&pid));
    cay_proc *q = sleeper(sb); /* the next cay-local begins by cleaning up */
    assert_true(support_until(dead, &pid, 3000));
    cay_proc_unref(p);
    cay_proc_unref(q);
    end(sb);
}

static void a_killed_reaper_leaves_no_process(void **state)
{
    (void)state;
    cay_sandbox *sb = box((cay_create){ 0 });
    cay_proc *p = NULL;
    cay_spawn s = { .size = sizeof s, .shell = "setsid sleep 601 & echo $!; wait", .attach = true };
    assert_int_equal(cay_sandbox_spawn(sb, NULL, &s, &p, NULL), 0);
    CAY_AUTOFD fd = -1;
    char line[32] = "";
    assert_int_equal(cay_proc_output(p, NULL, CAY_STDOUT, 0, &fd, NULL), 0);
    assert_true(read(fd, line, sizeof line - 1) > 0);
    int reaper = 0, pid = cay_proc_pid(p), orphan = atoi(line);
    cay__tree_walk(holder(sb), first_below, &reaper);
    assert_true(reaper != pid && reaper != orphan);
    kill(reaper, SIGKILL);
    cay_exit x = { .size = sizeof x };
    assert_int_equal(cay_proc_wait(p, NULL, &x, NULL), 0);
    assert_string_equal(x.reason, "lost");
    assert_true(support_until(dead, &pid, 2000));
    cay_proc_unref(p);
    end(sb);
    assert_true(support_until(dead, &orphan, 1000));
}

static void it_leaves_when_its_directory_vanishes(void **state)
{
    (void)state;
    cay_sandbox *sb = box((cay_create){ 0 });
    cay_proc *p = sleeper(sb);
    int pid = cay_proc_pid(p), old = holder(sb);
    CAY_AUTOFD root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    cay__fs fs = { .root = root };
    char path[4096];
    snprintf(path, sizeof path, "%s/local/%s", home, sb->id);
    assert_int_equal(cay__fs_remove(&fs, path, true), 0);
    assert_true(support_until(dead, &old, 8000));
    assert_true(support_until(dead, &pid, 1000));
    cay_proc_unref(p);
    cay_sandbox_unref(sb);
}

static void an_ephemeral_one_leaves_nothing(void **state)
{
    (void)state;
    cay_sandbox *sb = box((cay_create){ .life.ephemeral = true });
    char path[4096];
    int old = holder(sb);
    snprintf(path, sizeof path, "%s/local/%s", home, sb->id);
    cay_sandbox_unref(sb);
    assert_true(support_until(dead, &old, 8000));
    assert_int_equal(access(path, F_OK), -1);
}

static void another_boot_means_stopped_with_files(void **state)
{
    (void)state;
    cay_sandbox *sb = box((cay_create){ 0 });
    char path[4096];
    assert_int_equal(cay_file_put(sb, NULL, "kept", "x", 1, NULL, NULL), 0);
    assert_int_equal(cay__local.stop(sb->box, NULL, NULL), 0);
    snprintf(path, sizeof path, "%s/local/%s/root/workspace/kept", home, sb->id);
    assert_int_equal(access(path, F_OK), 0);
    cay_box_status st = { .size = sizeof st };
    assert_int_equal(cay__local.status(sb->box, NULL, &st, NULL), 0);
    assert_int_equal(st.state, CAY_STOPPED);
    assert_string_equal(st.reason, "killed");
    local_meta m;
    snprintf(path, sizeof path, "%s/local/%s/meta", home, sb->id);
    CAY_AUTOFD fd = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(pread(fd, &m, sizeof m, 0), sizeof m);
    m.state = CAY_RUNNING; /* as if the machine had gone down under it */
    memcpy(m.boot, "another", 8);
    m.crc = 0;
    m.crc = cay__crc32c(0, &m, sizeof m);
    assert_int_equal(pwrite(fd, &m, sizeof m, 0), sizeof m);
    assert_int_equal(cay__local.status(sb->box, NULL, &st, NULL), 0);
    assert_int_equal(st.state, CAY_STOPPED);
    assert_string_equal(st.reason, "reboot");
    assert_int_equal(pwrite(fd, "garbage", 7, 20), 7); /* a damaged record is said, not guessed */
    cay_err e = CAY_ERR_INIT;
    assert_int_equal(cay__local.status(sb->box, NULL, &st, &e), CAY_ESTATE);
    assert_string_equal(e.reason, "sandbox_damaged");
    cay_sandbox_unref(sb);
}

static void fifty_at_once_come_and_go(void **state)
{
    (void)state;
    cay_sandbox *sb[50];
    int pids[50];
    for (int i = 0; i < 50; i++) {
        sb[i] = box((cay_create){ 0 });
        pids[i] = holder(sb[i]);
    }
    for (int i = 0; i < 50; i++)
        end(sb[i]);
    for (int i = 0; i < 50; i++)
        assert_true(support_until(dead, &pids[i], 2000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_it_takes_its_processes_and_comes_back),
        cmocka_unit_test(leftovers_that_are_provably_ours_are_ended),
        cmocka_unit_test(a_killed_reaper_leaves_no_process),
        cmocka_unit_test(it_leaves_when_its_directory_vanishes),
        cmocka_unit_test(an_ephemeral_one_leaves_nothing),
        cmocka_unit_test(another_boot_means_stopped_with_files),
        cmocka_unit_test(fifty_at_once_come_and_go),
    };
    return cmocka_run_group_tests(tests, up, down);
}
