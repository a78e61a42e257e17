/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox's life, its clock and its ports. */
#include "suite.h"
#include <poll.h>
#include <sys/socket.h>

#define ARGV(...)                                                                                  \
    (const char *const[])                                                                          \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }

static cay_box_status status(cay_sandbox *sb)
{
    ERR;
    cay_box_status st = { .size = sizeof st };
    OK(sb->ops->status(sb->box, NULL, &st, E));
    return st;
}

/* Native freezes and counts by a control group, which a user without delegation does not have. */
static void need_group(void)
{
    ERR;
    NEED(pause);
    int rc = S.ops->pause(S.sb->box, NULL, E);
    if (rc == CAY_ENOTSUP) {
        assert_true(e_.msg[0]);
        printf("[   N/A    ] %s: %s\n", S.ops->name, e_.msg);
        skip();
    }
    OK(rc);
    OK(S.ops->resume(S.sb->box, NULL, E));
}

/* A provider may keep no record of what does not run: the service has it. */
static void is_stopped(cay_sandbox *sb, const char *reason)
{
    ERR;
    cay_box_status st = { .size = sizeof st };
    int rc = sb->ops->status(sb->box, NULL, &st, E);
    if (rc == CAY_EGONE)
        return;
    OK(rc);
    assert_int_equal(st.state, CAY_STOPPED);
    if (reason)
        assert_string_equal(st.reason, reason);
}

static void create_is_idempotent_and_destroy_final(void **state)
{
    (void)state;
    ERR;
    cay_create c = { .size = sizeof c };
    cay_sandbox *sb = box_new(&c);
    char id[CAY_ID_LEN + 1];
    snprintf(id, sizeof id, "%s", sb->id);
    assert_int_equal(status(sb).state, CAY_RUNNING);
    OK(cay_file_put(sb, NULL, "mine", "x", 1, NULL, E));
    void *box = NULL;
    OK(S.ops->create(S.self, NULL, id, BOX(&c), &box, E)); /* the same id finds the same box */
    cay_sandbox *same = cay__sandbox_new(S.ops, id, box);
    bool yes = false;
    OK(cay_file_exists(same, NULL, "mine", &yes, E));
    assert_true(yes);
    cay_sandbox_unref(same);
    box_end(sb);
    assert_int_equal(S.ops->attach(S.self, NULL, id, NULL, &box, E), CAY_EGONE);
}

static void destroy_ends_every_process(void **state)
{
    (void)state;
    NEED_SHELL();
    cay_sandbox *sb = box_new(NULL);
    cay_proc *p = start(sb, (cay_spawn){ .shell = marked("setsid sleep @18 & sleep @19") });
    for (int i = 0; i < 100 && !process_with(marked("@18")); i++)
        poll(NULL, 0, 10);
    assert_true(process_with(marked("@18")));
    box_end(sb);
    for (int i = 0; i < 100 && (process_with(marked("@18")) || process_with(marked("@19"))); i++)
        poll(NULL, 0, 20);
    assert_false(process_with(marked("@18")));
    assert_false(process_with(marked("@19")));
    cay_proc_unref(p);
}

typedef struct listed {
    const char *id;
    bool there;
} listed;

static int look_for(const char *id, void *arg)
{
    listed *l = arg;
    l->there |= strcmp(id, l->id) == 0;
    return 0;
}

static bool is_listed(const char *id)
{
    ERR;
    listed l = { .id = id };
    OK(S.ops->list(S.self, NULL, look_for, &l, E));
    return l.there;
}

static void boxes_are_listed(void **state)
{
    (void)state;
    NEED(list);
    cay_sandbox *a = box_new(NULL), *b = box_new(NULL);
    char id[CAY_ID_LEN + 1];
    snprintf(id, sizeof id, "%s", a->id);
    assert_true(is_listed(id) && is_listed(b->id) && is_listed(S.sb->id));
    box_end(a);
    for (int i = 0; i < 100 && is_listed(id); i++) /* files may follow in the background */
        poll(NULL, 0, 10);
    assert_false(is_listed(id));
    assert_true(is_listed(b->id));
    box_end(b);
}

static void stop_keeps_files_and_start_goes_on(void **state)
{
    (void)state;
    NEED(stop);
    NEED(start);
    ERR;
    cay_create c = { .size = sizeof c };
    cay_sandbox *sb = box_new(&c);
    OK(cay_file_put(sb, NULL, "kept", "still here", 10, NULL, E));
    cay_proc *p = start(sb, (cay_spawn){ .argv = ARGV("sleep", marked("@21")) });
    OK(S.ops->stop(sb->box, NULL, E));
    atomic_store(&sb->state, CAY_STOPPED);
    assert_false(process_with(marked("@21")));
    is_stopped(sb, NULL);
    cay_proc *q = NULL;
    cay_spawn s = { .size = sizeof s, .argv = ARGV("true") };
    assert_int_equal(cay_sandbox_spawn(sb, NULL, &s, &q, E), CAY_ESTATE);
    assert_non_null(strstr(e_.msg, "cay resume"));
    cay_proc_unref(p);
    void *box = NULL;
    OK(S.ops->start(S.self, NULL, sb->id, BOX(&c), &box, E));
    cay_sandbox *again = cay__sandbox_new(S.ops, sb->id, box);
    char *data = NULL;
    size_t n;
    OK(cay_file_get(again, NULL, "kept", 100, &data, &n, E));
    assert_string_equal(data, "still here");
    free(data);
    p = start(again, (cay_spawn){ .argv = ARGV("true") });
    assert_int_equal(wait_for(p, 20000).code, 0);
    cay_proc_unref(p);
    cay_sandbox_unref(sb);
    box_end(again);
}

static void pause_holds_and_resume_goes_on(void **state)
{
    (void)state;
    need_group();
    NEED_SHELL();
    ERR;
    CAY_AUTOFD fd = -1;
    cay_sandbox *sb = box_new(NULL);
    cay_proc *p = start(
        sb, (cay_spawn){ .shell = "i=0; while :; do i=$((i+1)); echo tick $i; sleep 0.02; done",
                         .ring_bytes = 65536 });
    OK(cay_proc_output(p, NULL, CAY_STDOUT, 0, &fd, E));
    expect(fd, "tick 3");
    OK(S.ops->pause(sb->box, NULL, E));
    atomic_store(&sb->state, CAY_PAUSED);
    assert_int_equal(status(sb).state, CAY_PAUSED);
    char skip_buf[4096];
    struct pollfd w = { .fd = fd, .events = POLLIN };
    for (int64_t end = cay__now_ms() + 10000;
         poll(&w, 1, 300) == 1 && read(fd, skip_buf, sizeof skip_buf) > 0;)
        assert_true(cay__now_ms() < end); /* what was on its way comes, then it is silent */
    assert_int_equal(poll(&w, 1, 0), 0);
    cay_proc *q = NULL;
    cay_spawn s = { .size = sizeof s, .argv = ARGV("true") };
    assert_int_equal(cay_sandbox_spawn(sb, NULL, &s, &q, E), CAY_ESTATE);
    assert_non_null(strstr(e_.msg, "cay resume"));
    OK(S.ops->resume(sb->box, NULL,
                     E)); /* as if by another program: the handle still says paused */
    assert_int_equal(poll(&w, 1, 20000), 1);
    OK(cay_sandbox_spawn(sb, NULL, &s, &q, E));
    wait_for(q, 20000);
    cay_proc_unref(q);
    cay_proc_unref(p);
    box_end(sb);
}

static void wait_tells_that_it_stopped(cay_sandbox *sb, const char *reason)
{
    ERR;
    cay_state st = CAY_STATE_NONE;
    cay_call c = { .size = sizeof c, .deadline_ms = cay__now_ms() + 8000 };
    OK(S.ops->wait(sb->box, &c, &st, E));
    assert_true(st == CAY_STOPPED || st == CAY_GONE);
    is_stopped(sb, reason);
}

static void time_to_live_ends_it(void **state)
{
    (void)state;
    NEED(wait);
    NEED(extend);
    ERR;
    cay_create c = { .size = sizeof c, .life.ttl_ms = 400 };
    int64_t t = cay__now_ms();
    cay_sandbox *sb = box_new(&c);
    cay_proc *p = start(sb, (cay_spawn){ .argv = ARGV("sleep", marked("@22")) });
    assert_true(status(sb).deadline_ms > 0);
    wait_tells_that_it_stopped(sb, "ttl");
    assert_true(cay__now_ms() - t >= 390);
    assert_false(process_with(marked("@22")));
    cay_proc_unref(p);
    box_end(sb);
    sb = box_new(&c);
    OK(S.ops->extend(sb->box, NULL, 60000, 0, E));
    poll(NULL, 0, 600);
    assert_int_equal(status(sb).state, CAY_RUNNING);
    OK(S.ops->extend(sb->box, NULL, CAY_UNLIMITED, 0, E));
    assert_int_equal(status(sb).deadline_ms, 0);
    box_end(sb);
}

static void idle_time_ends_it_but_not_while_used(void **state)
{
    (void)state;
    NEED(wait);
    NEED(extend);
    cay_create c = { .size = sizeof c, .life.idle_ms = 500 };
    cay_sandbox *sb = box_new(&c);
    for (int i = 0; i < 5; i++) {
        poll(NULL, 0, 200);
        cay_proc *p = start(sb, (cay_spawn){ .argv = ARGV("true") });
        wait_for(p, 20000);
        cay_proc_unref(p);
    }
    assert_int_equal(status(sb).state, CAY_RUNNING);
    wait_tells_that_it_stopped(sb, "idle");
    box_end(sb);
}

static void expiry_may_pause(void **state)
{
    (void)state;
    need_group();
    NEED(extend);
    ERR;
    cay_create c = { .size = sizeof c, .life.ttl_ms = 300, .life.on_expiry = CAY_EXPIRE_PAUSE };
    cay_sandbox *sb = box_new(&c);
    cay_proc *p = start(sb, (cay_spawn){ .argv = ARGV("cat"), .stdin_mode = CAY_STDIN_PIPE });
    for (int i = 0; i < 200 && status(sb).state != CAY_PAUSED; i++)
        poll(NULL, 0, 20);
    assert_int_equal(status(sb).state, CAY_PAUSED);
    OK(S.ops->resume(sb->box, NULL, E));
    OK(cay_proc_close_stdin(p, NULL, E));
    assert_int_equal(wait_for(p, 20000).code, 0); /* it is the same process */
    cay_proc_unref(p);
    box_end(sb);
}

static void usage_is_counted(void **state)
{
    (void)state;
    NEED(usage);
    NEED_SHELL();
    need_group();
    ERR;
    cay_sandbox *sb = box_new(NULL);
    cay_proc *p = start(
        sb, (cay_spawn){
                .shell = "i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done; echo done; sleep 20" });
    CAY_AUTOFD fd = -1;
    OK(cay_proc_output(p, NULL, CAY_STDOUT, 0, &fd, E));
    expect(fd, "done");
    cay_usage u = { .size = sizeof u };
    OK(S.ops->usage(sb->box, NULL, &u, E));
    assert_true(u.cpu_us > 10000);
    assert_true(u.memory > 100000);
    assert_true(u.pids >= 1);
    cay_proc_unref(p);
    box_end(sb);
}

static int find_port(const cay_port *p, void *arg)
{
    cay_port *want = arg;
    if (p->port == want->port)
        *want = *p;
    return 0;
}

static void ports_are_listed_and_reached(void **state)
{
    (void)state;
    NEED(ports);
    NEED(connect);
    NEED_SHELL();
    need("a network inside", strcmp(S.ops->name, "process") != 0);
    ERR;
    cay_result r = sh(S.sb, "command -v python3 >/dev/null && echo yes");
    bool python = strcmp(r.out, "yes\n") == 0;
    cay_result_clear(&r);
    if (!python) {
        printf("[   N/A    ] no python3 inside to listen with\n");
        skip();
    }
    cay_proc *p = start(
        S.sb,
        (cay_spawn){
            .shell =
                "exec python3 -c 'import socket as s\nl=s.socket(); l.bind((\"127.0.0.1\",0)); "
                "l.listen()\nprint(l.getsockname()[1],flush=True)\nc,_=l.accept(); d=c.recv(100); "
                "c.sendall(b\"echo:\"+d); c.close()'" });
    CAY_AUTOFD out = -1, conn = -1;
    char line[32] = "", buf[32] = "";
    OK(cay_proc_output(p, NULL, CAY_STDOUT, 0, &out, E));
    assert_true(read(out, line, sizeof line - 1) > 0);
    cay_port want = { .port = (uint16_t)atoi(line) };
    OK(cay_port_list(S.sb, NULL, find_port, &want, E));
    assert_string_equal(want.address, "127.0.0.1");
    assert_true(want.pid > 0);
    OK(cay_port_connect(S.sb, NULL, want.port, &conn, E));
    assert_true(cay__fd_write_all(conn, "hello", 5));
    assert_int_equal(cay__fd_read_all(conn, buf, sizeof buf - 1), 10);
    assert_string_equal(buf, "echo:hello");
    assert_int_equal(wait_for(p, 20000).code, 0);
    int none = -1;
    assert_int_equal(cay_port_connect(S.sb, NULL, want.port, &none, E), CAY_ENOENT);
    assert_int_equal(cay_port_connect(S.sb, NULL, 0, &none, E), CAY_EINVAL);
    cay_proc_unref(p);
}

static bool heard(int fd, const char *kind, const char *sandbox, cay_event_wire *out)
{
    struct pollfd w = { .fd = fd, .events = POLLIN };
    while (poll(&w, 1, 5000) == 1 && recv(fd, out, sizeof *out, 0) == sizeof *out)
        if (strcmp(out->kind, kind) == 0 && strcmp(out->sandbox, sandbox) == 0)
            return true;
    return false;
}

static void events_tell_what_happens(void **state)
{
    (void)state;
    NEED(events);
    need_group();
    ERR;
    CAY_AUTOFD all = -1, one = -1;
    cay_event_wire e;
    OK(S.ops->events(S.self, NULL, &all, E));
    OK(S.ops->events(S.self, S.sb->id, &one, E));
    cay_sandbox *sb = box_new(NULL);
    assert_true(heard(all, "created", sb->id, &e));
    assert_true(e.time_ms > 1600000000000);
    cay_proc *p = start(sb, (cay_spawn){ .argv = ARGV("false") });
    assert_true(heard(all, "exec", sb->id, &e));
    assert_string_equal(e.process, cay_proc_id(p));
    assert_true(heard(all, "exit", sb->id, &e));
    assert_int_equal(e.code, 1);
    assert_string_equal(e.process, cay_proc_id(p));
    cay_proc_unref(p);
    OK(S.ops->pause(sb->box, NULL, E));
    assert_true(heard(all, "paused", sb->id, &e));
    OK(S.ops->resume(sb->box, NULL, E));
    assert_true(heard(all, "resumed", sb->id, &e));
    char id[CAY_ID_LEN + 1];
    snprintf(id, sizeof id, "%s", sb->id);
    box_end(sb);
    assert_true(heard(all, "removed", id, &e));
    p = start(S.sb, (cay_spawn){ .argv = ARGV("true") });
    struct pollfd w = { .fd = one, .events = POLLIN };
    assert_int_equal(poll(&w, 1, 5000), 1);
    assert_int_equal(recv(one, &e, sizeof e, 0), sizeof e);
    assert_string_equal(e.sandbox, S.sb->id); /* nothing of the other one */
    wait_for(p, 20000);
    cay_proc_unref(p);
}

/* The end of what ran in it, that it goes on, and that it is removed while nothing runs. */
static void events_tell_of_a_stopped_one(void **state)
{
    (void)state;
    NEED(events);
    NEED(stop);
    NEED(start);
    ERR;
    CAY_AUTOFD all = -1;
    cay_event_wire e;
    cay_create c = { .size = sizeof c };
    cay_sandbox *sb = box_new(&c);
    char id[CAY_ID_LEN + 1];
    snprintf(id, sizeof id, "%s", sb->id);
    OK(S.ops->events(S.self, id, &all, E));
    cay_proc *p = start(sb, (cay_spawn){ .argv = ARGV("sleep", "1000") });
    assert_true(heard(all, "exec", id, &e));
    OK(S.ops->stop(sb->box, NULL, E));
    assert_true(heard(all, "exit", id, &e));
    assert_string_equal(e.process, cay_proc_id(p));
    assert_string_equal(e.reason, "killed");
    assert_true(heard(all, "stopped", id, &e));
    cay_proc_unref(p);
    void *box = NULL;
    OK(S.ops->start(S.self, NULL, id, BOX(&c), &box, E));
    cay_sandbox_unref(sb);
    sb = cay__sandbox_new(S.ops, id, box);
    assert_true(heard(all, "resumed", id, &e));
    OK(S.ops->stop(sb->box, NULL, E));
    assert_true(heard(all, "stopped", id, &e));
    box_end(sb);
    assert_true(heard(all, "removed", id, &e));
}

static void two_boxes_do_not_see_each_other(void **state)
{
    (void)state;
    ERR;
    cay_sandbox *a = box_new(NULL), *b = box_new(NULL);
    bool yes = true;
    cay_proc *p = start(a, (cay_spawn){ .argv = ARGV("sleep", "20"), .tag = "a-only" }), *q = NULL;
    OK(cay_file_put(a, NULL, "a-file", "x", 1, NULL, E));
    OK(cay_file_exists(b, NULL, "a-file", &yes, E));
    assert_false(yes);
    assert_int_equal(cay_sandbox_attach(b, NULL, "a-only", &q, E), CAY_ENOENT);
    assert_int_equal(cay_sandbox_attach(b, NULL, cay_proc_id(p), &q, E), CAY_ENOENT);
    cay_proc_unref(p);
    box_end(a);
    box_end(b);
}

static void the_status_tells_level_and_layers(void **state)
{
    (void)state;
    cay_box_status st = status(S.sb);
    if (strcmp(S.ops->name, "local") == 0) {
        assert_int_equal(st.level, CAY_LEVEL_NONE);
        assert_true(st.path[0] == '/');
        for (size_t i = 0; i < st.nwalls; i++)
            if (strcmp(st.walls[i].name, "nofile-limit") != 0)
                assert_string_equal(st.walls[i].state, "off");
    } else if (strcmp(S.ops->name, "process") == 0) {
        assert_int_equal(st.level, CAY_LEVEL_PROCESS);
        assert_true(st.path[0] == '/');
        for (size_t i = 0; i < st.nwalls; i++) /* whatever is not on says why */
            assert_true(strcmp(st.walls[i].state, "on") == 0 ||
                        (st.walls[i].why[0] && st.walls[i].remedy[0]));
    } else if (strcmp(S.ops->name, "native") == 0) {
        assert_true(st.level >= CAY_LEVEL_PROCESS);
        assert_true(st.nwalls > 0);
    }
}

static void what_cannot_be_enforced_is_refused(void **state)
{
    (void)state;
    ERR;
    const char *const require[] = { "no-such-feature", NULL };
    char id[CAY_ID_LEN + 1];
    void *box = NULL;
    cay__id_make(id, 'c');
    cay_create c = { .size = sizeof c, .isolation.require = require };
    need("features to require", strcmp(S.ops->name, "memory") != 0);
    assert_true(S.ops->create(S.self, NULL, id, BOX(&c), &box, E) < 0);
    assert_non_null(strstr(e_.msg, "no-such-feature"));
    c = (cay_create){ .size = sizeof c, .isolation.min_level = CAY_LEVEL_VM };
    assert_int_equal(S.ops->create(S.self, NULL, id, BOX(&c), &box, E), CAY_EISOLATION);
    assert_int_equal(S.ops->attach(S.self, NULL, id, NULL, &box, E),
                     CAY_EGONE); /* nothing was made */
}

static int known_none(const char *id, void *arg)
{
    return strcmp(id, arg) == 0;
}

static void gc_removes_what_no_record_owns(void **state)
{
    (void)state;
    NEED(gc);
    ERR;
    size_t removed = 0;
    cay_sandbox *stray = box_new(NULL);
    char id[CAY_ID_LEN + 1];
    snprintf(id, sizeof id, "%s", stray->id);
    cay_sandbox_unref(stray);
    OK(S.ops->gc(S.self, NULL, known_none, S.sb->id, &removed, E));
    assert_true(removed >= 1);
    void *box = NULL;
    assert_int_equal(S.ops->attach(S.self, NULL, id, NULL, &box, E), CAY_EGONE);
    assert_int_equal(status(S.sb).state, CAY_RUNNING);
}

/* A policy that nobody holds to is worse than none: there is one, numbered, or it is refused by
 * name before anything is made. */
static void a_policy_holds_or_is_refused_by_name(void **state)
{
    (void)state;
    ERR;
    static const char first[] = "cay-net 1\nmode rules\nrule example.com\n",
                      second[] = "cay-net 1\nmode off\n";
    cay_create c = { .size = sizeof c, .net.policy = first };
    if (!CAY__HAS(S.ops, policy)) {
        assert_int_equal(cay__net_check(&c, S.ops, E), CAY_ENOTSUP);
        assert_non_null(strstr(e_.msg, S.ops->name));
        return;
    }
    OK(cay__net_check(&c, S.ops, E));
    c.net.policy = "cay-net 1\nrule a.*.b\n";
    assert_int_equal(cay__net_check(&c, S.ops, E), CAY_EINVAL);
    c.net.policy = first;
    cay_sandbox *sb = box_new(&c);
    char *text = NULL;
    size_t len = 0;
    uint64_t before = 0, after = 0;
    OK(S.ops->policy_get(sb->box, NULL, &text, &len, &before, E));
    assert_int_equal(len, sizeof first - 1);
    assert_memory_equal(text, first, len);
    free(text);
    OK(S.ops->policy(sb->box, NULL, second, sizeof second - 1, &after, E));
    assert_true(after > before);
    OK(S.ops->policy_get(sb->box, NULL, &text, &len, &before, E));
    assert_memory_equal(text, second, sizeof second - 1);
    assert_int_equal(before, after);
    free(text);
    box_end(sb);
}

tests suite_life(size_t *n)
{
    static const struct CMUnitTest t[] = {
        cmocka_unit_test(create_is_idempotent_and_destroy_final),
        cmocka_unit_test(destroy_ends_every_process),
        cmocka_unit_test(boxes_are_listed),
        cmocka_unit_test(stop_keeps_files_and_start_goes_on),
        cmocka_unit_test(pause_holds_and_resume_goes_on),
        cmocka_unit_test(time_to_live_ends_it),
        cmocka_unit_test(idle_time_ends_it_but_not_while_used),
        cmocka_unit_test(expiry_may_pause),
        cmocka_unit_test(usage_is_counted),
        cmocka_unit_test(ports_are_listed_and_reached),
        cmocka_unit_test(events_tell_what_happens),
        cmocka_unit_test(events_tell_of_a_stopped_one),
        cmocka_unit_test(two_boxes_do_not_see_each_other),
        cmocka_unit_test(the_status_tells_level_and_layers),
        cmocka_unit_test(what_cannot_be_enforced_is_refused),
        cmocka_unit_test(gc_removes_what_no_record_owns),
        cmocka_unit_test(a_policy_holds_or_is_refused_by_name),
    };
    *n = CAY_LEN(t);
    return t;
}
