/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layers made while processes run: that each is one moment, that nothing of a file is lost, and
 * that the sandbox goes on whatever is killed. test_clone MOMENT [stop]: by the freezer, or by
 * signals.
 */
#include "../support/support.h"
#include <base/base.h>
#include <base/fd.h>
#include <base/str.h>
#include <dirent.h>
#include <fcntl.h>
#include <lib/snapshot/layer.h>
#include <poll.h>
#include <lib/provider/native/native.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#define LAYERS   64
#define CALL(ms) (&(cay_call){ .size = sizeof(cay_call), .deadline_ms = cay__now_ms() + (ms) })
#define OK(call)                                                                                   \
    do {                                                                                           \
        cay_err e_ = CAY_ERR_INIT, *E = &e_;                                                       \
        if ((call) < 0)                                                                            \
            fail_msg("%s: %s (%s, errno %d)", #call, e_.msg, e_.reason, e_.sys);                   \
    } while (0)

static const char *moment;
static bool by_signals;
static char *home;
static cay__native *native;
static cay__nbox *box;
static char layers[LAYERS][24];
static int nlayers;

static void run_as(const char *user, const char *line, bool wait)
{
    void *p;
    cay_exit x = { .size = sizeof x };
    cay_spawn s = { .size = sizeof s, .shell = line, .user = user };
    OK(cay__nbox_spawn(box, CALL(30000), &s, &p, E));
    if (wait) {
        OK(cay__proc_wait(p, CALL(60000), &x, E));
        if (x.code != 0)
            fail_msg("%s: exit %d", line, x.code);
    }
    cay__proc_release(p);
}

static void run_shell(const char *line, bool wait)
{
    run_as(NULL, line, wait);
}

static int up(void **state)
{
    char id[24];
    struct stat st;
    (void)state;
    home = support_home();
    unsetenv("CAY_FAULT");
    OK(cay__native_open(home, support_libexec(), &native, E));
    cay__id_make(id, 'c');
    cay_create c = { .size = sizeof c };
    OK(cay__nbox_create(native, CALL(30000), id, &(cay_box_spec){ .create = &c }, false, &box, E));
    CAY_AUTOFD fd = open(moment, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    CAY_AUTOFREE char *bytes = cay__alloc((size_t)st.st_size);
    assert_int_equal(cay__fd_read_all(fd, bytes, (size_t)st.st_size), st.st_size);
    cay_write w = { .size = sizeof w, .mode = 0755 };
    OK(cay__nf_put(box, CALL(30000), "/home/user/moment", bytes, (size_t)st.st_size, &w, E));
    nlayers = 0;
    return 0;
}

/* Counts how often a program comes to its fault point: CAY_FAULT_HITS of base/fault.h. */
enum { HITS_SIZE = 2 * sizeof(int64_t) };
static const _Atomic int64_t *hits;

static void hits_path(char *out, size_t cap)
{
    snprintf(out, cap, "%s.hits", home);
}

static void forget_hits(void)
{
    char path[512];
    if (!hits)
        return;
    hits_path(path, sizeof path);
    unsetenv("CAY_FAULT_HITS");
    munmap((void *)hits, HITS_SIZE);
    unlink(path);
    hits = NULL;
}

static int down(void **state)
{
    cay__layer_at at = { home, support_libexec() };
    (void)state;
    unsetenv("CAY_FAULT");
    forget_hits();
    for (int i = 0; i < nlayers; i++)
        OK(cay__layer_remove(&at, CALL(30000), layers[i], E));
    OK(cay__nbox_destroy(box, CALL(30000), E));
    cay__native_close(native);
    support_home_remove(home);
    return 0;
}

static void path_of(char *out, size_t cap, const char *layer, const char *rest)
{
    if (layer)
        snprintf(out, cap, "%s/layers/%s%s", home, layer, rest);
    else
        snprintf(out, cap, "%s/sandboxes/%s/upper%s", home, box->base.id, rest);
}

static const char *new_layer(void)
{
    assert_true(nlayers < LAYERS);
    cay__id_make(layers[nlayers], 's');
    return layers[nlayers++];
}

static int take(const char *layer, const cay_call *call, cay_snapped *out, cay_err *err)
{
    cay_snap s = { .size = sizeof s,
                   .layer = layer,
                   .how = by_signals ? CAY_SNAP_STOP : CAY_SNAP_ANY };
    return cay__nbox_clone(box, call, &s, out, err);
}

#ifdef CAY_FAULTS
static bool layer_there(const char *layer)
{
    char path[512];
    path_of(path, sizeof path, layer, "");
    return access(path, F_OK) == 0;
}
#endif

static void check_moment(const char *layer)
{
    char path[512];
    int pid, status = -1;
    path_of(path, sizeof path, layer, "/workspace/w");
    char *argv[] = { (char *)moment, "check", path, NULL };
    assert_int_equal(posix_spawn(&pid, moment, NULL, NULL, argv, environ), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status != 0)
        fail_msg("%s is no moment", layer);
}

static bool counts(void *arg)
{
    char path[512];
    uint64_t *before = arg, now = 0;
    path_of(path, sizeof path, NULL, "/workspace/w/f0");
    CAY_AUTOFD fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || pread(fd, &now, sizeof now, 0) != sizeof now || now == 0)
        return false;
    if (!*before)
        *before = now;
    return now > *before;
}

static bool twin_there(void *arg)
{
    char path[512];
    struct stat st;
    (void)arg;
    path_of(path, sizeof path, NULL, "/workspace/w/twin");
    return stat(path, &st) == 0 && st.st_size > 4096;
}

static void start_counting_as(const char *line)
{
    uint64_t n = 0;
    run_shell("mkdir -p /workspace/w /workspace/many; for i in 1 2 3 4 5 6 7 8 9; do echo $i "
              ">/workspace/many/$i; done",
              true);
    run_shell(line, false);
    assert_true(support_until(counts, &n, 20000));
    assert_true(support_until(twin_there, NULL, 20000));
}

static void start_counting(void)
{
    start_counting_as("exec /home/user/moment write /workspace/w");
}

/* It runs, and so do commands in it. */
static void goes_on(void)
{
    uint64_t n = 0;
    assert_true(support_until(counts, &n, 20000));
    run_shell("true", true);
}

static void each_is_one_moment(void **state)
{
    (void)state;
    start_counting();
    for (int i = 0; i < 12; i++) {
        cay_snapped s = { .size = sizeof s };
        const char *layer = new_layer();
        OK(take(layer, CALL(60000), &s, E));
        assert_false(s.stacked);
        assert_true(s.frozen_us && s.frozen_us <= s.total_us);
        assert_true(s.files > 20);
        check_moment(layer);
        goes_on();
    }
}

static ino_t inode(const char *layer, const char *rest)
{
    char path[512];
    struct stat st;
    path_of(path, sizeof path, layer, rest);
    if (lstat(path, &st) < 0)
        fail_msg("%s: %s", path, strerror(errno));
    return st.st_ino;
}

static void says(const char *layer, const char *rest, const char *text)
{
    char path[512], buf[64] = "";
    path_of(path, sizeof path, layer, rest);
    assert_true(cay__fd_read_file(AT_FDCWD, path, buf, sizeof buf) >= 0);
    assert_string_equal(buf, text);
}

static void unchanged_files_are_shared_by_clones_and_never_with_the_upper(void **state)
{
    (void)state;
    cay_snapped s = { .size = sizeof s };
    start_counting();
    run_shell("sleep 0.1",
              true); /* what changed within a tick of a clone counts as changed at the next */
    const char *a = new_layer(), *b = new_layer(), *c = new_layer();
    OK(take(a, CALL(60000), &s, E));
    run_shell(
        "echo new >/workspace/many/2; mv /workspace/many /workspace/moved; rm /workspace/moved/3",
        true);
    OK(take(b, CALL(60000), &s, E));
    assert_int_equal(inode(a, "/workspace/many/1"), inode(b, "/workspace/moved/1"));
    assert_int_not_equal(inode(a, "/workspace/many/1"), inode(NULL, "/workspace/moved/1"));
    assert_int_not_equal(inode(a, "/workspace/many/2"), inode(b, "/workspace/moved/2"));
    says(a, "/workspace/many/2", "2\n");
    says(b, "/workspace/moved/2", "new\n");
    /* The live one is written in place; no layer sees it. */
    run_shell("echo 111 >/workspace/moved/1; echo more >>/workspace/moved/4", true);
    says(b, "/workspace/moved/1", "1\n");
    says(b, "/workspace/moved/4", "4\n");
    /* A clone whose files are gone is nothing to share with. */
    cay__layer_at at = { home, support_libexec() };
    OK(cay__layer_remove(&at, CALL(30000), b, E));
    OK(take(c, CALL(60000), &s, E));
    says(c, "/workspace/moved/1", "111\n");
    says(c, "/workspace/moved/5", "5\n");
    says(a, "/workspace/many/5", "5\n");
    check_moment(c);
}

static void same_attrs(const char *a, const char *b)
{
    char names[4096], x[512], y[512];
    ssize_t n = llistxattr(a, names, sizeof names), k = llistxattr(b, y, sizeof y);
    assert_int_equal(n, k);
    for (const char *p = names; p < names + n; p += strlen(p) + 1) {
        ssize_t m = lgetxattr(a, p, x, sizeof x);
        if (m != lgetxattr(b, p, y, sizeof y) || memcmp(x, y, (size_t)CAY_MAX(m, 0)))
            fail_msg("%s: attribute %s differs", b, p);
    }
}

static unsigned same_tree(const char *a, const char *b)
{
    struct stat x, y;
    unsigned n = 1;
    if (lstat(a, &x) < 0 || lstat(b, &y) < 0)
        fail_msg("%s: %s", b, strerror(errno));
    if (x.st_mode != y.st_mode || x.st_uid != y.st_uid || x.st_gid != y.st_gid ||
        x.st_rdev != y.st_rdev || x.st_mtim.tv_sec != y.st_mtim.tv_sec ||
        x.st_mtim.tv_nsec != y.st_mtim.tv_nsec ||
        (!S_ISDIR(x.st_mode) &&
         (x.st_size != y.st_size || (x.st_nlink != y.st_nlink && !S_ISCHR(x.st_mode)))) ||
        (S_ISREG(x.st_mode) && x.st_size > 100000 && y.st_blocks > x.st_blocks + 64))
        fail_msg("%s: mode %o %o, owner %u %u, size %lld %lld, links %lu %lu, blocks %lld %lld", b,
                 x.st_mode, y.st_mode, x.st_uid, y.st_uid, (long long)x.st_size,
                 (long long)y.st_size, (unsigned long)x.st_nlink, (unsigned long)y.st_nlink,
                 (long long)x.st_blocks, (long long)y.st_blocks);
    same_attrs(a, b);
    DIR *d = S_ISDIR(x.st_mode) ? opendir(a) : NULL;
    for (struct dirent *e; d && (e = readdir(d));) {
        char p[1024], q[1024];
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        snprintf(p, sizeof p, "%.500s/%s", a, e->d_name);
        snprintf(q, sizeof q, "%.500s/%s", b, e->d_name);
        n += same_tree(p, q);
    }
    if (d)
        closedir(d);
    return n;
}

/* By another process that only sleeps: what is compared does not change. */
static void all_that_belongs_to_a_file_is_kept(void **state)
{
    (void)state;
    cay_snapped s = { .size = sizeof s };
    char a[512], b[512];
    run_shell("cd /workspace && mkdir d d/e && echo x >d/x && ln d/x d/y && ln d/x e-x && ln -s "
              "../nowhere d/link && mkfifo -m 640 d/pipe && "
              "chmod 1777 d/e && chmod 4711 d/x && truncate -s 8M sparse && printf end >>sparse && "
              "dd if=/dev/zero of=big bs=1000 count=300 2>/dev/null && "
              "touch -d '2001-02-03 04:05:06.789' old && : >\"odd\nname \\\\012 (deleted)\"",
              true);
    OK(cay__nf_setxattr(box, CALL(30000), "/workspace/old", "user.note", "one", 3, E));
    if (native->hello.mode !=
        CAY_MODE_SINGLE) /* overlayfs says "removed" and "nothing below" in its own language */
        run_as("root",
               "rm -rf /etc/os-release /etc/alternatives && mkdir /etc/alternatives && chown 7:8 "
               "/workspace/old && mv /etc/hosts /etc/moved",
               true);
    run_shell("exec sleep 60", false);
    const char *first = new_layer(), *second = new_layer();
    OK(take(first, CALL(60000), &s, E));
    path_of(a, sizeof a, NULL, "");
    path_of(b, sizeof b, first, "");
    assert_true(same_tree(a, b) >= 16);
    assert_int_equal(inode(first, "/workspace/d/x"), inode(first, "/workspace/e-x"));
    OK(take(second, CALL(60000), &s, E));
    assert_int_equal(inode(second, "/workspace/d/x"), inode(second, "/workspace/e-x"));
    struct stat st;
    path_of(b, sizeof b, second, "/workspace/sparse");
    assert_true(stat(b, &st) == 0 && st.st_blocks * 512 < 4 << 20);
}

#ifdef CAY_FAULTS
static int leftover_stages(void)
{
    char path[512];
    int n = 0;
    snprintf(path, sizeof path, "%s/layers", home);
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));)
        n += cay__str_starts(e->d_name, ".stage-");
    if (d)
        closedir(d);
    return n;
}

static void a_killed_clone_lets_it_go_on(void **state)
{
    static const char *const points[] = {
        "clone.stage",       "clone.hold.ask",      "clone.hold.asked", "clone.hold.still",
        "clone.walk",        "clone.copy",          "clone.walked",     "clone.hold.end",
        "clone.guard.start", "clone.guard.stopped", "clone.published",  "clone.answer",
    };
    (void)state;
    start_counting();
    for (size_t i = 0; i < CAY_LEN(points); i++) {
        char fault[96];
        cay_snapped s = { .size = sizeof s };
        cay_err e = CAY_ERR_INIT;
        const char *layer = new_layer();
        bool guard = strstr(points[i], "guard"), whole = i >= 10;
        if (guard && !by_signals)
            continue;
        snprintf(fault, sizeof fault, "%s=kill", points[i]);
        setenv("CAY_FAULT", fault, 1);
        assert_true(take(layer, CALL(60000), &s, &e) < 0);
        unsetenv("CAY_FAULT");
        goes_on();
        if (layer_there(layer) != whole)
            fail_msg("%s: layer there: %d", points[i], !whole);
        OK(take(layer, CALL(60000), &s, E)); /* the same name again */
        check_moment(layer);
        goes_on();
    }
    /* What was left lies there until the next removal. */
    assert_true(leftover_stages() > 0);
    cay__layer_at at = { home, support_libexec() };
    OK(cay__layer_remove(&at, CALL(30000), layers[0], E));
    assert_int_equal(leftover_stages(), 0);
}

static bool keeper_pid(int *pid)
{
    CAY_AUTOFD s = -1;
    struct ucred cr;
    socklen_t n = sizeof cr;
    if (native->link.dial(native->link.arg, CALL(20000), &s, NULL) < 0 ||
        getsockopt(s, SOL_SOCKET, SO_PEERCRED, &cr, &n) < 0)
        return false;
    *pid = cr.pid;
    return true;
}

static void count_hits(void)
{
    char path[512];
    hits_path(path, sizeof path);
    CAY_AUTOFD fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && ftruncate(fd, HITS_SIZE) == 0);
    void *p = mmap(NULL, HITS_SIZE, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(p != MAP_FAILED);
    hits = p;
    setenv("CAY_FAULT_HITS", path, 1);
}

static bool was_hit(void *arg)
{
    (void)arg;
    return *hits > 0;
}

typedef struct keeper_kill {
    int pid;
    bool done; /* it was killed while the walk waited */
} keeper_kill;

static void *kill_keeper(void *arg)
{
    keeper_kill *k = arg;
    k->done = support_until(was_hit, NULL, 20000) && kill(k->pid, SIGKILL) == 0;
    return NULL;
}

static void a_killed_keeper_lets_it_go_on(void **state)
{
    pthread_t t;
    int next = 0;
    (void)state;
    cay_snapped s = { .size = sizeof s };
    start_counting();
    const char *layer = new_layer();
    keeper_kill k = { .done = false };
    count_hits();
    assert_true(keeper_pid(&k.pid));
    setenv("CAY_FAULT", "clone.walk=delay:600", 1);
    assert_int_equal(pthread_create(&t, NULL, kill_keeper, &k), 0);
    OK(take(layer, CALL(60000), &s, E)); /* thrown away and taken again, with the next keeper */
    pthread_join(t, NULL);
    assert_true(k.done);
    assert_true(*hits > 1); /* the first walk was thrown away */
    assert_true(keeper_pid(&next));
    assert_int_not_equal(next, k.pid);
    check_moment(layer);
    goes_on();
}

static void *take_slowly(void *arg)
{
    cay_snapped s = { .size = sizeof s };
    __atomic_store_n((int *)arg, take(layers[0], CALL(60000), &s, NULL), __ATOMIC_RELEASE);
    return NULL;
}

static void requests_wait_meanwhile(void **state)
{
    pthread_t t;
    int rc = 1;
    (void)state;
    start_counting();
    new_layer();
    setenv("CAY_FAULT", "clone.walk=delay:700", 1);
    assert_int_equal(pthread_create(&t, NULL, take_slowly, &rc), 0);
    for (int64_t end = cay__now_ms() + 20000;
         cay__now_ms() < end && __atomic_load_n(&rc, __ATOMIC_ACQUIRE) > 0;) {
        cay_write w = { .size = sizeof w };
        run_shell("true", true);
        OK(cay__nf_put(box, CALL(30000), "/workspace/put", "x", 1, &w, E));
    }
    pthread_join(t, NULL);
    assert_int_equal(rc, 0);
    check_moment(layers[0]);
}

/* One of them is told so, whichever comes second; each layer that there is, is whole. */
static void two_at_once_do_not_mix(void **state)
{
    pthread_t t;
    int rc = 1, second;
    cay_err e = CAY_ERR_INIT;
    (void)state;
    start_counting();
    new_layer();
    const char *other = new_layer();
    setenv("CAY_FAULT", "clone.walk=delay:700", 1);
    assert_int_equal(pthread_create(&t, NULL, take_slowly, &rc), 0);
    second = take(other, CALL(60000), &(cay_snapped){ .size = sizeof(cay_snapped) }, &e);
    pthread_join(t, NULL);
    assert_true((rc == 0 || rc == CAY_EBUSY) && (second == 0 || second == CAY_EBUSY) &&
                (rc == 0 || second == 0));
    if (second)
        assert_string_equal(e.reason, "snapshot_running");
    if (rc == 0)
        check_moment(layers[0]);
    if (second == 0)
        check_moment(other);
    goes_on();
}

/* A signal is not the last word: what ran meanwhile is noticed, and the layer is thrown away. If
 * nobody ran, it is a moment. */
static void one_that_goes_on_by_itself_is_noticed(void **state)
{
    (void)state;
    cay_snapped s = { .size = sizeof s };
    cay_err e = CAY_ERR_INIT;
    start_counting_as("exec /home/user/moment again /workspace/w");
    const char *layer = new_layer();
    setenv("CAY_FAULT", "clone.walk=delay:300", 1); /* longer than its timers take */
    int rc = take(layer, CALL(60000), &s, &e);
    unsetenv("CAY_FAULT");
    print_message("%d %s\n", rc, e.reason);
    if (rc == 0)
        check_moment(layer);
    else if (!by_signals || rc != CAY_EBUSY ||
             (strcmp(e.reason, "snapshot_interrupted") && strcmp(e.reason, "freeze_timeout")))
        fail_msg("%s: %s", e.reason, e.msg);
    assert_int_equal(layer_there(layer), rc == 0);
    goes_on();
}

static void a_call_that_is_late_leaves_nothing(void **state)
{
    (void)state;
    cay_snapped s = { .size = sizeof s };
    cay_err e = CAY_ERR_INIT;
    start_counting();
    const char *layer = new_layer();
    setenv("CAY_FAULT", "clone.walk=delay:1000", 1);
    assert_int_equal(take(layer, CALL(300), &s, &e), CAY_ETIMEOUT);
    unsetenv("CAY_FAULT");
    assert_false(layer_there(layer));
    assert_int_equal(leftover_stages(), 0);
    goes_on();
}
#endif

/* Who stood still before stands still afterwards, and nobody else does. */
static void only_what_was_stopped_is_continued(void **state)
{
    (void)state;
    cay_snapped s = { .size = sizeof s };
    start_counting();
    run_shell(
        "(sleep 100 & echo $! >/workspace/pid; kill -STOP $!) >/dev/null 2>&1; exec sleep 100",
        false);
    run_shell("for i in $(seq 1 200); do p=$(cat /workspace/pid 2>/dev/null) && [ \"$(cut -d' ' "
              "-f3 /proc/$p/stat)\" = T ] && exit 0; sleep 0.05; done; exit 1",
              true);
    for (int i = 0; i < 3; i++)
        OK(take(new_layer(), CALL(60000), &s, E));
    run_shell("[ \"$(cut -d' ' -f3 /proc/$(cat /workspace/pid)/stat)\" = T ]", true);
    run_shell("for p in $(pgrep moment); do case $(cut -d' ' -f3 /proc/$p/stat) in T) exit 1;; "
              "esac; done",
              true);
    goes_on();
}

int main(int argc, char **argv)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, up, down)
    const struct CMUnitTest tests[] = {
        T(each_is_one_moment),
        T(unchanged_files_are_shared_by_clones_and_never_with_the_upper),
        T(all_that_belongs_to_a_file_is_kept),
        T(only_what_was_stopped_is_continued),
#ifdef CAY_FAULTS
        T(a_killed_clone_lets_it_go_on),
        T(a_killed_keeper_lets_it_go_on),
        T(requests_wait_meanwhile),
        T(two_at_once_do_not_mix),
        T(one_that_goes_on_by_itself_is_noticed),
        T(a_call_that_is_late_leaves_nothing),
#endif
    };
    if (argc < 3)
        return 2;
    moment = argv[1];
    by_signals = !strcmp(argv[2], "stop");
    if (argc > 3)
        cmocka_set_test_filter(argv[3]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
