/* SPDX-License-Identifier: Apache-2.0 */
/* What survives kill -9 of the keeper, of its helpers, and of a keeper that is just taking over. */
#include "../support/support.h"
#include <base/base.h>
#include <base/fd.h>
#include <base/path.h>
#include <base/str.h>
#include <cay/sandbox.h>
#include <cay/client.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <lib/provider/provider.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#define CALL(ms) (&(cay_call){ .size = sizeof(cay_call), .deadline_ms = cay__now_ms() + (ms) })
#define OK(call)                                                                                   \
    do {                                                                                           \
        cay_err e_ = CAY_ERR_INIT, *E = &e_;                                                       \
        if ((call) < 0)                                                                            \
            fail_msg("%s: %s (%s, errno %d)", #call, e_.msg, e_.reason, e_.sys);                   \
    } while (0)

static char *home;
static cay_client *client;

static void nap(int ms)
{
    poll(NULL, 0, ms);
}

static bool of_proc(int pid, const char *file, char *buf, size_t cap)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
    return cay__fd_read_file(AT_FDCWD, path, buf, cap) > 0;
}

static int parent_of(int pid)
{
    char stat[512];
    const char *p = of_proc(pid, "stat", stat, sizeof stat) ? strrchr(stat, ')') : NULL;
    int up = 0;
    return p && sscanf(p, ") %*c %d", &up) == 1 ? up : 0;
}

/* Its descriptors are closed: a process that was killed has no command line any more while somebody
 * can still send to it. */
static bool has_ended(int pid)
{
    char stat[512];
    const char *p = of_proc(pid, "stat", stat, sizeof stat) ? strrchr(stat, ')') : NULL;
    return !p || p[2] == 'Z' || p[2] == 'X';
}

/* The process that fn likes; the youngest of several. */
static int find_process(bool (*fn)(int pid, const void *arg), const void *arg)
{
    DIR *d = opendir("/proc");
    int found = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        uint64_t pid;
        if (cay__str_to_u64(e->d_name, &pid) && fn((int)pid, arg))
            found = (int)pid;
    }
    if (d)
        closedir(d);
    return found;
}

static bool is_keeper(int pid, const void *arg)
{
    char text[4096] = "";
    (void)arg;
    if (!of_proc(pid, "cmdline", text, sizeof text))
        return false;
    const char *slash = strrchr(text, '/'), *name = slash ? slash + 1 : text;
    return !strcmp(name, "cay-keeper") && !strcmp(text + strlen(text) + 1, home);
}

static int keeper(void)
{
    return find_process(is_keeper, NULL);
}

typedef struct helper_of {
    int keeper;
    const char *role;
} helper_of;

static bool is_helper(int pid, const void *arg)
{
    const helper_of *h = arg;
    char comm[64] = "";
    return parent_of(pid) == h->keeper && of_proc(pid, "comm", comm, sizeof comm) &&
           cay__str_starts(comm, h->role);
}

static void kill_keeper(void)
{
    int pid = keeper();
    if (!pid)
        return;
    kill(pid, SIGKILL);
    for (int i = 0; i < 5000 && !has_ended(pid); i++)
        nap(2);
}

static int up(void **state)
{
    (void)state;
    home = support_home();
    cay_open o = { .size = sizeof o, .home = home, .libexec = support_libexec() };
    OK(cay_client_open(&o, &client, E));
    return 0;
}

static int on_box(const cay_info *i, void *arg)
{
    (void)arg;
    cay_sandbox *sb = NULL;
    if (cay_client_find(client, CALL(20000), i->id, &sb, NULL) == 0) {
        cay_sandbox_remove(sb, CALL(20000), NULL);
        cay_sandbox_unref(sb);
    }
    return 0;
}

static bool keeper_left(void *arg)
{
    (void)arg;
    return !keeper();
}

static int down(void **state)
{
    (void)state;
    OK(cay_client_list(client, CALL(20000), NULL, on_box, NULL, E));
    cay_client_close(client);
    int pid = keeper();
    if (pid)
        kill(pid, SIGTERM);
    assert_true(support_until(keeper_left, NULL, 10000));
    support_home_remove(home);
    return 0;
}

static cay_sandbox *make(cay_create c)
{
    cay_sandbox *sb = NULL;
    c.size = sizeof c;
    c.isolation.min_level = CAY_LEVEL_ROOTLESS;
    OK(cay_client_create(client, CALL(20000), &c, &sb, E));
    return sb;
}

static cay_proc *spawn(cay_sandbox *sb, cay_spawn s)
{
    cay_proc *p = NULL;
    s.size = sizeof s;
    OK(cay_sandbox_spawn(sb, CALL(20000), &s, &p, E));
    return p;
}

static cay_state state_of(cay_sandbox *sb, char *reason, int *pid)
{
    cay_info *i = NULL;
    OK(cay_sandbox_describe(sb, CALL(20000), &i, E));
    cay_state s = i->state;
    if (reason)
        cay__str_copy(reason, 24, i->reason);
    if (pid)
        *pid = i->pid;
    cay_info_free(i);
    return s;
}

static int run(cay_sandbox *sb, const char *line)
{
    cay_result r = { .size = sizeof r };
    cay_spawn s = { .size = sizeof s, .shell = line };
    OK(cay_sandbox_run(sb, CALL(20000), &s, NULL, 0, 0, &r, E));
    int code = r.exit.code;
    cay_result_clear(&r);
    return code;
}

/* All of a stream from an offset on, until its end. */
static char *all_from(cay_proc *p, cay_stream which, uint64_t offset, size_t *len)
{
    size_t cap = 8 << 20, n = 0, k;
    char *text = cay__alloc(cap);
    bool eof = false;
    for (int64_t end = cay__now_ms() + 30000; !eof && cay__now_ms() < end;) {
        uint64_t lost = 0;
        OK(cay_proc_read(p, CALL(20000), which, &offset, text + n, cap - 1 - n, &k, &lost, &eof,
                         E));
        assert_int_equal(lost, 0);
        n += k;
        if (!k && !eof)
            nap(5);
    }
    assert_true(eof);
    text[n] = 0;
    if (len)
        *len = n;
    return text;
}

static cay_exit end_of(cay_proc *p)
{
    cay_exit x = { .size = sizeof x };
    OK(cay_proc_wait(p, CALL(30000), &x, E));
    return x;
}

static void assert_counted(const char *text, const char *word, int n, const char *end)
{
    char line[64];
    for (int i = 0; i < n; i++) {
        size_t k = (size_t)snprintf(line, sizeof line, "%s %d%s", word, i, end);
        if (strncmp(text, line, k))
            fail_msg("instead of \"%s %d\" comes \"%.40s\"", word, i, text);
        text += k;
    }
    assert_string_equal(text, "");
}

/* Lines on both streams, a terminal, an open stdin; the keeper is killed again and again meanwhile.
 */
static void streams_terminal_and_stdin_survive(void **state)
{
    (void)state;
    cay_sandbox *sb = make((cay_create){ 0 });
    cay_proc *lines = spawn(
        sb, (cay_spawn){ .shell = "i=0; while [ $i -lt 200 ]; do echo out $i; echo err $i >&2; "
                                  "i=$((i+1)); sleep 0.01; done; exit 7" });
    cay_proc *term = spawn(
        sb, (cay_spawn){
                .shell = "stty -echo; echo ready; i=0; while [ $i -lt 12 ]; do read x; echo $x; "
                         "i=$((i+1)); done; kill -USR1 $$",
                .tty = true });
    cay_proc *cat = spawn(
        sb, (cay_spawn){ .argv = (const char *[]){ "cat", NULL }, .stdin_mode = CAY_STDIN_PIPE });
    cay_proc *late = spawn(
        sb, (cay_spawn){ .shell = "trap 'exit 3' TERM; sleep 60 & wait", .timeout_ms = 2500 });
    char text[32];
    for (int i = 0; i < 12; i++) {
        nap(40 + i * 17 % 90);
        int n = snprintf(text, sizeof text, "line %d\n", i);
        OK(cay_proc_write(cat, CALL(20000), text, (size_t)n, E));
        OK(cay_proc_write(term, CALL(20000), text, (size_t)n, E));
        if (i % 2)
            kill_keeper();
    }
    kill_keeper();
    OK(cay_proc_close_stdin(cat, CALL(20000), E));
    assert_int_equal(end_of(cat).code, 0);
    char *got = all_from(cat, CAY_STDOUT, 0, NULL);
    assert_counted(got, "line", 12, "\n");
    free(got);
    assert_int_equal(end_of(term).signal, SIGUSR1);
    got = all_from(term, CAY_STDOUT, 0, NULL);
    assert_true(cay__str_starts(got, "ready\r\n"));
    assert_counted(got + 7, "line", 12, "\r\n");
    free(got);
    cay_exit x = end_of(lines);
    assert_int_equal(x.code, 7);
    assert_int_equal(x.lost_out + x.lost_err, 0);
    kill_keeper(); /* what has ended is kept too */
    got = all_from(lines, CAY_STDOUT, 0, NULL);
    assert_counted(got, "out", 200, "\n");
    char *rest = all_from(lines, CAY_STDOUT, 1000, NULL);
    assert_string_equal(rest, got + 1000);
    free(rest);
    free(got);
    got = all_from(lines, CAY_STDERR, 0, NULL);
    assert_counted(got, "err", 200, "\n");
    free(got);
    x = end_of(late);
    assert_string_equal(x.reason, "time");
    cay_proc_unref(lines);
    cay_proc_unref(term);
    cay_proc_unref(cat);
    cay_proc_unref(late);
    cay_sandbox_unref(sb);
}

/* A reader that is attached, and what somebody reads who comes later: the same bytes, all of them.
 */
static void no_byte_of_a_flood_is_lost(void **state)
{
    (void)state;
    cay_sandbox *sb = make((cay_create){ 0 });
    cay_proc *p = spawn(
        sb, (cay_spawn){
                .shell = "i=0; while [ $i -lt 60 ]; do seq 1 6000; i=$((i+1)); sleep 0.02; done",
                .ring_bytes = 4 << 20 });
    int fd = -1;
    size_t seen = 0, len;
    static char flow[4 << 20];
    for (int64_t end = cay__now_ms() + 40000, next = cay__now_ms() + 100; cay__now_ms() < end;) {
        if (fd < 0)
            OK(cay_proc_output(p, CALL(20000), CAY_STDOUT, seen, &fd, E));
        struct pollfd q = { fd, POLLIN, 0 };
        poll(&q, 1, 20);
        ssize_t n = q.revents ? read(fd, flow + seen, sizeof flow - seen) : -1;
        if (n > 0)
            seen += (size_t)n;
        if (n == 0) { /* its end, or that of the keeper that fed it */
            close(fd);
            fd = -1;
            if (kill(keeper(), 0) == 0 &&
                cay_proc_wait(p, CALL(1), &(cay_exit){ .size = sizeof(cay_exit) }, NULL) == 0)
                break;
        }
        if (cay__now_ms() > next) {
            next = cay__now_ms() + 150;
            kill_keeper();
        }
    }
    assert_int_equal(end_of(p).code, 0);
    char *kept = all_from(p, CAY_STDOUT, 0, &len), *at = kept;
    for (int round = 0; round < 60; round++)
        for (int i = 1; i <= 6000; i++) {
            if ((int)strtol(at, &at, 10) != i)
                fail_msg("round %d: after %d comes \"%.20s\"", round, i - 1, at);
            at++;
        }
    assert_string_equal(at, "");
    OK(cay_proc_output(p, CALL(20000), CAY_STDOUT, seen, &fd,
                       E)); /* what came after the last break */
    for (ssize_t n; (n = read(fd, flow + seen, sizeof flow - seen)) > 0;)
        seen += (size_t)n;
    close(fd);
    assert_int_equal(seen, len);
    assert_memory_equal(flow, kept, len);
    free(kept);
    cay_proc_unref(p);
    cay_sandbox_unref(sb);
}

typedef struct stopped {
    cay_sandbox *sb;
    char reason[24];
} stopped;

static bool has_stopped(void *arg)
{
    stopped *s = arg;
    return state_of(s->sb, s->reason, NULL) == CAY_STOPPED;
}

static void deadlines_still_fire(void **state)
{
    (void)state;
    stopped ttl = { make((cay_create){ .life.ttl_ms = 2500 }), "" },
            idle = { make((cay_create){ .life.idle_ms = 1200 }), "" };
    cay_sandbox *busy = make((cay_create){ .life.idle_ms = 1200 }),
                *pause =
                    make((cay_create){ .life.ttl_ms = 1500, .life.on_expiry = CAY_EXPIRE_PAUSE });
    cay_proc *p = spawn(busy, (cay_spawn){ .shell = "sleep 4" });
    kill_keeper();
    assert_int_equal(state_of(busy, NULL, NULL),
                     CAY_RUNNING); /* starts the next one, which nobody asks again */
    nap(3200);
    assert_true(has_stopped(&ttl));
    assert_string_equal(ttl.reason, "ttl");
    assert_true(has_stopped(&idle));
    assert_string_equal(idle.reason, "idle");
    assert_int_equal(state_of(pause, NULL, NULL), CAY_PAUSED);
    assert_int_equal(state_of(busy, NULL, NULL), CAY_RUNNING); /* a command runs */
    cay_proc_unref(p);
    cay_sandbox_unref(ttl.sb);
    cay_sandbox_unref(idle.sb);
    cay_sandbox_unref(busy);
    cay_sandbox_unref(pause);
}

static bool has_output(void *proc)
{
    uint64_t at = 0, lost;
    char text[64];
    size_t n = 0;
    bool eof;
    OK(cay_proc_read(proc, CALL(20000), CAY_STDOUT, &at, text, sizeof text, &n, &lost, &eof, E));
    return n > 0;
}

static void a_paused_one_stays_paused(void **state)
{
    (void)state;
    cay_sandbox *sb = make((cay_create){ 0 });
    cay_proc *p = spawn(sb, (cay_spawn){ .shell = "i=0; while [ $i -lt 50 ]; do echo tick $i; "
                                                  "i=$((i+1)); sleep 0.02; done; exit 9" });
    assert_true(support_until(has_output, p, 20000));
    OK(cay_sandbox_pause(sb, CALL(20000), E));
    kill_keeper();
    assert_int_equal(state_of(sb, NULL, NULL), CAY_PAUSED);
    uint64_t at = 0, lost;
    static char text[4096];
    size_t a, b;
    bool eof;
    OK(cay_proc_read(p, CALL(20000), CAY_STDOUT, &at, text, sizeof text, &a, &lost, &eof, E));
    nap(300);
    at = 0;
    OK(cay_proc_read(p, CALL(20000), CAY_STDOUT, &at, text, sizeof text, &b, &lost, &eof, E));
    assert_true(a == b && a > 0 && !eof);
    kill_keeper();
    OK(cay_sandbox_resume(sb, CALL(20000), E));
    assert_int_equal(end_of(p).code, 9);
    char *got = all_from(p, CAY_STDOUT, 0, NULL);
    assert_counted(got, "tick", 50, "\n");
    free(got);
    cay_proc_unref(p);
    cay_sandbox_unref(sb);
}

static void an_init_that_is_slow_is_not_lost(void **state)
{
    (void)state;
    int pid = 0, code = -1;
    cay_sandbox *sb = make((cay_create){ 0 });
    cay_proc *p = spawn(sb, (cay_spawn){ .shell = "sleep 3; exit 4" });
    assert_int_equal(state_of(sb, NULL, &pid), CAY_RUNNING);
    kill(pid, SIGSTOP);
    for (int i = 0; i < 6; i++) { /* more than its socket's queue holds */
        kill_keeper();
        assert_int_equal(state_of(sb, NULL, NULL), CAY_RUNNING);
    }
    nap(4500); /* longer than any keeper should wait */
    cay_err e = CAY_ERR_INIT;
    cay_spawn s = { .size = sizeof s, .shell = "true" };
    cay_proc *q = NULL;
    assert_int_equal(cay_sandbox_spawn(sb, CALL(300), &s, &q, &e), CAY_ETIMEOUT);
    cay_sandbox *other = make((cay_create){ 0 }); /* nobody else waits for it */
    assert_int_equal(run(other, "exit 5"), 5);
    kill(pid, SIGCONT);
    code = run(sb, "exit 6");
    assert_int_equal(code, 6);
    assert_int_equal(end_of(p).code, 4);
    cay_proc_unref(p);
    cay_sandbox_unref(sb);
    cay_sandbox_unref(other);
}

static void a_dead_init_is_noticed(void **state)
{
    (void)state;
    int pid = 0;
    stopped s = { make((cay_create){ 0 }), "" };
    state_of(s.sb, NULL, &pid);
    kill(pid, SIGSTOP);
    kill_keeper();
    assert_int_equal(state_of(s.sb, NULL, NULL), CAY_RUNNING);
    kill(pid, SIGKILL); /* while the new one waits for its answer */
    assert_true(support_until(has_stopped, &s, 5000));
    cay_sandbox_unref(s.sb);
}

static bool process_left(void *pid)
{
    return has_ended(*(int *)pid);
}

/* As systemd-shutdown does: all stand still while they are asked, so that no order counts. One
 * command does not mind. */
static void what_the_host_ends_is_recorded_and_stays(void **state)
{
    static const char *const lines[] = { "trap '' TERM; while :; do sleep 1; done", "sleep 1000" };
    char reason[24] = "";
    cay_sandbox *sb[2];
    int init[2], k, zygote;
    (void)state;
    for (int i = 0; i < 2; i++) {
        sb[i] = make((cay_create){ 0 });
        state_of(sb[i], NULL, &init[i]);
        assert_int_equal(run(sb[i], "echo kept >/workspace/kept"), 0);
        cay_proc_unref(spawn(sb[i], (cay_spawn){ .shell = lines[i] }));
    }
    k = keeper();
    zygote = find_process(is_helper, &(helper_of){ k, "zygote" });
    kill(k, SIGSTOP);
    kill(zygote, SIGTERM);
    kill(k, SIGTERM);
    for (int i = 0; i < 2; i++)
        kill(init[i], SIGTERM);
    for (int i = 0; i < 2; i++)
        assert_true(support_until(process_left, &init[i], 20000));
    kill(k, SIGCONT);
    assert_true(support_until(process_left, &k, 20000));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(state_of(sb[i], reason, NULL), CAY_STOPPED);
        assert_string_equal(reason, "host-stopped");
        OK(cay_sandbox_resume(sb[i], CALL(20000), E));
        assert_int_equal(run(sb[i], "grep kept /workspace/kept"), 0);
        cay_sandbox_unref(sb[i]);
    }
}

/* Not even as root of the sandbox: its pid is not 0 there. */
static void a_tenant_cannot_ask_init_to_end(void **state)
{
    (void)state;
    cay_sandbox *sb = make((cay_create){ .process.user = "root" });
    for (int i = 0; i < 3; i++) {
        run(sb, "for i in 1 2 3 4 5 6 7 8 9; do kill -TERM 1; done");
        assert_int_equal(state_of(sb, NULL, NULL), CAY_RUNNING);
    }
    cay_sandbox_unref(sb);
}

typedef struct starter {
    pthread_t thread;
    cay_sandbox *sb;
    volatile bool stop;
    int ran, refused, wrong;
    char why[200];
} starter;

static void *keeps_starting(void *arg)
{
    starter *t = arg;
    while (!t->stop) {
        cay_err e = CAY_ERR_INIT;
        cay_spawn s = { .size = sizeof s,
                        .argv = (const char *[]){ "true", NULL },
                        .timeout_ms = t->ran % 2 ? 60000 : 0 };
        cay_proc *p = NULL;
        int rc = cay_sandbox_spawn(t->sb, CALL(15000), &s, &p, &e);
        if (rc == 0) {
            cay_exit x = { .size = sizeof x };
            rc = cay_proc_wait(p, CALL(15000), &x, &e);
            t->ran++;
            cay_proc_unref(p);
        }
        if (rc == CAY_ESTATE) {
            t->refused++;
            nap(2);
        } else if (rc < 0) {
            t->wrong++;
            cay__str_copy(t->why, sizeof t->why, e.msg);
        }
    }
    return NULL;
}

static void pausing(bool kills)
{
    starter t[3];
    cay_sandbox *sb = make((cay_create){ 0 });
    memset(t, 0, sizeof t);
    for (size_t i = 0; i < CAY_LEN(t); i++) {
        t[i].sb = sb;
        pthread_create(&t[i].thread, NULL, keeps_starting, &t[i]);
    }
    for (int i = 0; i < 25; i++) {
        nap(5 + i * 7 % 20);
        OK(cay_sandbox_pause(sb, CALL(15000), E));
        if (kills)
            kill_keeper();
        assert_int_equal(state_of(sb, NULL, NULL), CAY_PAUSED);
        OK(cay_sandbox_resume(sb, CALL(15000), E));
        if (kills && i % 3 == 0) {
            nap(i % 5);
            kill_keeper();
        }
    }
    int ran = 0;
    for (size_t i = 0; i < CAY_LEN(t); i++)
        t[i].stop = true;
    for (size_t i = 0; i < CAY_LEN(t); i++)
        pthread_join(t[i].thread, NULL);
    for (size_t i = 0; i < CAY_LEN(t); i++) {
        ran += t[i].ran;
        if (t[i].wrong)
            fail_msg("%d commands went wrong: %s", t[i].wrong, t[i].why);
    }
    assert_true(ran > 0);
    assert_int_equal(run(sb, "exit 8"), 8);
    cay_sandbox_unref(sb);
}

static void pause_waits_for_commands_that_are_being_born(void **state)
{
    (void)state;
    pausing(false);
}

static void pause_and_kills_of_the_keeper_do_not_wedge(void **state)
{
    (void)state;
    pausing(true);
}

static int create_raw(const char *id)
{
    cay_provider_conf conf = {
        .size = sizeof conf, .home = home, .libexec = support_libexec(), .instance = "test"
    };
    cay_create c = { .size = sizeof c };
    void *self = NULL, *box = NULL;
    cay_err e = CAY_ERR_INIT;
    if (cay__provider_native.open(&conf, &self, &e) < 0)
        return CAY_ESYS;
    int rc = cay__provider_native.create(self, CALL(20000), id, &(cay_box_spec){ .create = &c },
                                         &box, &e);
    if (rc == 0)
        cay__provider_native.release(box);
    cay__provider_native.close(self);
    return rc;
}

static void an_id_is_given_once(void **state)
{
    (void)state;
    char id[CAY_ID_LEN + 1];
    int status;
    cay__id_make(id, 'c');
    assert_int_equal(create_raw(id), 0);
    assert_int_equal(create_raw(id), 0); /* who asked before may have missed the answer */
    int pid = fork();
    if (pid == 0)
        _exit(create_raw(id) == CAY_EEXIST ? 0 : 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    kill_keeper(); /* the next one does not know who asked */
    assert_int_equal(create_raw(id), 0);
    size_t removed = 0;
    OK(cay_client_gc(client, CALL(20000), &removed, E));
    assert_int_equal(removed, 1);
}

typedef struct another {
    helper_of h;
    int old;
} another;

static bool is_another(int pid, const void *arg)
{
    const another *a = arg;
    return pid != a->old && is_helper(pid, &a->h);
}

static bool has_another(void *arg)
{
    return find_process(is_another, arg) != 0;
}

static void a_helper_that_dies_is_replaced(void **state)
{
    static const char *const roles[] = { "zygote", "janitor", "sweeper", "lender", "zygote" };
    (void)state;
    cay_sandbox *sb = make((cay_create){ 0 });
    char dir[] = "/tmp/cay-grant-XXXXXX";
    assert_non_null(mkdtemp(dir));
    int pid = keeper();
    for (size_t i = 0; i < CAY_LEN(roles); i++) {
        nap(1200); /* one that dies at once would take the keeper along */
        another a = { { pid, roles[i] }, 0 };
        a.old = find_process(is_helper, &a.h);
        assert_true(a.old > 0);
        stopped s = { make((cay_create){ .life.ttl_ms = 700 }), "" };
        kill(a.old, SIGKILL);
        assert_true(support_until(has_another, &a, 5000));
        nap(900); /* nobody asks, and yet */
        assert_true(has_stopped(&s));
        assert_string_equal(s.reason, "ttl");
        cay_sandbox_unref(s.sb);
        cay_grant g = { .source = dir, .target = "/mnt/g" };
        cay_sandbox *more[6];
        for (size_t k = 0; k < CAY_LEN(more); k++)
            more[k] = make((cay_create){ .files.grants = &g,
                                         .files.ngrants = k == 0 }); /* more than lay ready */
        assert_int_equal(run(more[0], "test -d /mnt/g"), 0);
        assert_int_equal(run(more[5], "exit 3"), 3);
        for (size_t k = 0; k < CAY_LEN(more); k++) {
            OK(cay_sandbox_remove(more[k], CALL(20000), E));
            cay_sandbox_unref(more[k]);
        }
        assert_int_equal(keeper(), pid);
    }
    assert_int_equal(run(sb, "exit 2"), 2);
    rmdir(dir);
    cay_sandbox_unref(sb);
}

static void a_grant_does_not_wait_for_removals(void **state)
{
    (void)state;
    char dir[] = "/tmp/cay-grant-XXXXXX";
    assert_non_null(mkdtemp(dir));
    cay_sandbox *old = make((cay_create){ 0 });
    another a = { { keeper(), "sweeper" }, 0 };
    assert_true(
        support_until(has_another, &a, 5000)); /* it has its name a moment after its birth */
    int sweeper = find_process(is_helper, &a.h);
    kill(sweeper, SIGSTOP); /* as one is that has a million files before it */
    OK(cay_sandbox_remove(old, CALL(20000), E));
    cay_grant g = { .source = dir, .target = "/mnt/g" };
    cay_sandbox *sb = make((cay_create){ .files.grants = &g, .files.ngrants = 1 });
    assert_int_equal(run(sb, "test -d /mnt/g"), 0);
    kill(sweeper, SIGCONT);
    OK(cay_sandbox_remove(sb, CALL(20000), E));
    rmdir(dir);
    cay_sandbox_unref(old);
    cay_sandbox_unref(sb);
}

static bool init_left(void *arg)
{
    return kill(*(int *)arg, 0) < 0;
}

static void run_of_home(char run[CAY__RUN_MAX])
{
    CAY_AUTOFD fd = open(home, O_PATH | O_DIRECTORY | O_CLOEXEC);
    OK(cay__run_dir(fd, run, CAY__RUN_MAX, false, E));
}

static bool no_groups(void *instance)
{
    size_t removed;
    int status = -1;
    cay_client_gc(client, CALL(20000), &removed, NULL);
    int pid = fork();
    if (pid == 0) {
        execlp("sh", "sh", "-c",
               "test -z \"$(find /sys/fs/cgroup -type d -name \"$0\" 2>/dev/null)\"",
               (char *)instance, NULL);
        _exit(127);
    }
    waitpid(pid, &status, 0);
    return status == 0;
}

static void instance_of(int pid, char out[32])
{
    char text[4096] = "";
    of_proc(pid, "cgroup", text, sizeof text);
    const char *at = strstr(text, "/cay-");
    snprintf(out, 32, "%.*s", at ? (int)strcspn(at + 1, "/\n") : 0, at ? at + 1 : "");
}

/* Makes a throw-away sandbox, tells the pid of its init, and does nothing more until it is killed.
 */
static _Noreturn void owner_main(int tell)
{
    cay_open o = { .size = sizeof o, .home = home, .libexec = support_libexec() };
    cay_create c = { .size = sizeof c, .life.ephemeral = true };
    cay_client *own = NULL;
    cay_sandbox *sb = NULL;
    int pid = 0;
    if (cay_client_open(&o, &own, NULL) == 0 && cay_client_create(own, NULL, &c, &sb, NULL) == 0)
        state_of(sb, NULL, &pid);
    if (write(tell, &pid, sizeof pid) == sizeof pid)
        pause();
    _exit(0);
}

static void an_owner_that_died_is_looked_for_once_more(void **state)
{
    (void)state;
    int tell[2], init = 0, old;
    assert_int_equal(pipe2(tell, O_CLOEXEC), 0);
    int owner = fork();
    if (owner == 0)
        owner_main(tell[1]);
    assert_int_equal(read(tell[0], &init, sizeof init), sizeof init);
    close(tell[0]);
    close(tell[1]);
    assert_true(init > 0);
    kill_keeper();
    cay_sandbox *sb = make((cay_create){ 0 }); /* the next keeper, which knows the owner alive */
    OK(cay_sandbox_remove(sb, CALL(20000), E));
    cay_sandbox_unref(sb);
    assert_int_equal(kill(init, 0), 0);
    kill(owner, SIGKILL);
    waitpid(owner, NULL, 0);
    old = keeper();
    kill(old, SIGTERM);
    assert_true(support_until(init_left, &old, 60000));
    assert_true(support_until(init_left, &init, 1000));
}

/* One who used level 1 too left a second directory in it: a dead socket there, and one that is
 * listened on. All of it old. */
static int used_deeper(const char *run, const struct timespec old[2])
{
    char deeper[CAY__RUN_MAX + 8], dead[CAY__RUN_MAX + 16];
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    cay__str_join(deeper, sizeof deeper, run, "/p", NULL);
    cay__str_join(dead, sizeof dead, deeper, "/dead", NULL);
    assert_true(cay__str_join(a.sun_path, sizeof a.sun_path, deeper, "/alive", NULL));
    assert_true(mkdir(deeper, 0700) == 0 || errno == EEXIST);
    assert_int_equal(mknod(dead, S_IFSOCK | 0600, 0), 0);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(utimensat(AT_FDCWD, deeper, old, 0), 0);
    assert_int_equal(utimensat(AT_FDCWD, run, old, 0), 0);
    return fd;
}

/* Also one that stands still, and one whose command comes and goes. */
static void orphans_without_a_home_end(void **state)
{
    (void)state;
    int pids[3];
    char instance[32], run[CAY__RUN_MAX], next[CAY__RUN_MAX];
    cay_sandbox *sb[3];
    for (int i = 0; i < 3; i++) {
        sb[i] = make((cay_create){ 0 });
        cay_proc_unref(spawn(
            sb[i], (cay_spawn){ .shell = i ? "sleep 1000" : "while :; do sleep 0.05; done" }));
    }
    for (int i = 0; i < 3; i++)
        assert_int_equal(state_of(sb[i], NULL, &pids[i]), CAY_RUNNING);
    OK(cay_sandbox_pause(sb[2], CALL(20000), E));
    instance_of(pids[0], instance);
    kill_keeper();
    nap(200);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(kill(pids[i], 0), 0); /* a keeper's end alone ends nobody */
        cay_sandbox_unref(sb[i]);
    }
    cay_client_close(client);
    run_of_home(run);
    support_home_remove(home);
    for (int i = 0; i < 3; i++)
        assert_true(support_until(init_left, &pids[i], 60000));
    /* Whoever tidies up another state directory of this user takes the rest along. */
    up(state);
    run_of_home(next);
    struct stat st;
    struct timespec old[2] = { { .tv_sec = 1000000000 }, { .tv_sec = 1000000000 } };
    int alive = strcmp(run, next) ? used_deeper(run, old) : -1;
    if (instance[0])
        assert_true(support_until(no_groups, instance, 30000));
    size_t removed;
    /* A new directory, ours or that of a test beside us, may have got the number of the old one:
     * then it is in use, and young. */
    bool gone = !strcmp(run, next);
    for (int i = 0; i < 100 && !gone; i++) {
        OK(cay_client_gc(client, CALL(20000), &removed, E));
        assert_int_equal(i == 0 && stat(run, &st) < 0, 0); /* somebody listens there still */
        cay__close_fd(&alive);
        if (!(gone = stat(run, &st) < 0 || st.st_mtime > old[0].tv_sec))
            nap(100); /* another who tidies up holds its locks for a moment */
    }
    assert_true(gone);
}

int main(int argc, char **argv)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, up, down)
    const struct CMUnitTest tests[] = {
        T(streams_terminal_and_stdin_survive),
        T(no_byte_of_a_flood_is_lost),
        T(deadlines_still_fire),
        T(a_paused_one_stays_paused),
        T(an_init_that_is_slow_is_not_lost),
        T(a_dead_init_is_noticed),
        T(what_the_host_ends_is_recorded_and_stays),
        T(a_tenant_cannot_ask_init_to_end),
        T(pause_waits_for_commands_that_are_being_born),
        T(pause_and_kills_of_the_keeper_do_not_wedge),
        T(an_id_is_given_once),
        T(a_helper_that_dies_is_replaced),
        T(a_grant_does_not_wait_for_removals),
        T(an_owner_that_died_is_looked_for_once_more),
        T(orphans_without_a_home_end),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
