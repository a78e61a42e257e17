/* SPDX-License-Identifier: Apache-2.0 */
/* Layers: a root that becomes one under a sandbox that runs, and stacks of them. */
#include "suite.h"
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

static char names[16][CAY_ID_LEN + 1];

static const char *layer(int i)
{
    cay__id_make(names[i], 's');
    return names[i];
}

static cay_snapped snap(cay_sandbox *sb, const char *name)
{
    ERR;
    cay_snapped out = { .size = sizeof out };
    OK(S.ops->snapshot(
        sb->box, NULL,
        &(cay_snap){ .size = sizeof(cay_snap), .layer = name, .how = CAY_SNAP_QUIET }, &out, E));
    return out;
}

static void text_is(cay_sandbox *sb, const char *path, const char *want)
{
    ERR;
    char *data = NULL;
    size_t len = 0;
    int rc = cay_file_get(sb, NULL, path, 1 << 20, &data, &len, E);
    if (!want) {
        assert_int_equal(rc, CAY_ENOENT);
        return;
    }
    OK(rc);
    assert_int_equal(len, strlen(want));
    assert_memory_equal(data, want, len);
    free(data);
}

static void put(cay_sandbox *sb, const char *path, const char *text)
{
    ERR;
    OK(cay_file_put(sb, NULL, path, text, strlen(text), NULL, E));
}

static void drop(const char *name)
{
    ERR;
    OK(S.ops->layer_remove(S.self, NULL, name, E));
}

static void a_quiet_box_goes_on_from_its_snapshot(void **state)
{
    (void)state;
    ERR;
    NEED(snapshot);
    cay_sandbox *sb = box_new(NULL);
    put(sb, "a", "one");
    put(sb, "b", "two");
    const char *first = layer(0);
    cay_snapped s = snap(sb, first);
    assert_true(s.method && s.method[0]);
    text_is(sb, "a", "one");
    put(sb, "a", "changed");
    OK(cay_file_remove(sb, NULL, "b", false, E));
    put(sb, "c", "three");
    const char *second = layer(1);
    snap(sb, second);
    text_is(sb, "a", "changed");
    text_is(sb, "b", NULL);
    text_is(sb, "c", "three");
    /* another stands on the first alone */
    cay_sandbox *fork = box_on(&first, 1);
    text_is(fork, "a", "one");
    text_is(fork, "b", "two");
    text_is(fork, "c", NULL);
    put(fork, "a", "fork");
    text_is(sb, "a", "changed");
    box_end(fork);
    box_end(sb);
    drop(second);
    drop(first);
    drop(first); /* what is not there is gone */
}

static void commands_see_one_root_before_and_after(void **state)
{
    (void)state;
    NEED(snapshot);
    NEED_SHELL();
    cay_sandbox *sb = box_new(NULL);
    sh_is(sb,
          "mkdir -p d/e && echo x >d/e/f && ln -s e d/l && chmod 640 d/e/f && echo s >/dev/shm/s "
          "&& mkfifo p && echo ok",
          "ok\n");
    const char *first = layer(0);
    snap(sb, first);
    sh_is(sb,
          "cat d/l/f /dev/shm/s; stat -c %a d/e/f; test -p p && rm d/e/f && echo y >d/e/g && ls "
          "d/e; ls /proc/self/fd >/dev/null && test -c /dev/null && test -d /usr/bin && echo ok",
          "x\ns\n640\ng\nok\n");
    const char *second = layer(1);
    snap(sb, second);
    sh_is(sb, "ls d/e; rm -r d && mkdir d && ls d; touch d/new && echo z >/tmp/t && id -un",
          "g\nuser\n");
    const char *third = layer(2);
    snap(sb, third);
    sh_is(sb, "ls d; cat /tmp/t", "new\nz\n");
    /* nothing of the former roots can be reached or seen */
    sh_is(sb,
          "grep -c ' / / ' /proc/self/mountinfo; grep ' / / ' /proc/self/mountinfo | cut -d' ' -f6 "
          "| cut -d, -f1",
          "1\nrw\n");
    box_end(sb);
    for (int i = 0; i < 3; i++)
        drop(names[i]);
}

static void a_snapshot_asked_for_twice_is_one(void **state)
{
    (void)state;
    NEED(snapshot);
    cay_sandbox *sb = box_new(NULL);
    put(sb, "a", "1");
    const char *first = layer(0);
    snap(sb, first);
    put(sb, "a", "2");
    snap(sb, first); /* as after a lost answer */
    text_is(sb, "a", "2");
    cay_sandbox *fork = box_on(&first, 1);
    text_is(fork, "a", "1");
    box_end(fork);
    box_end(sb);
    drop(first);
}

static void what_runs_is_no_quiet_box(void **state)
{
    (void)state;
    ERR;
    NEED(snapshot);
    NEED_SHELL();
    cay_sandbox *sb = box_new(NULL);
    cay_snapped out = { .size = sizeof out };
    cay_snap spec = { .size = sizeof spec, .layer = layer(0), .how = CAY_SNAP_QUIET };
    cay_proc *p = start(sb, (cay_spawn){ .shell = "echo here; exec sleep 1000" });
    int rc = S.ops->snapshot(sb->box, NULL, &spec, &out, E);
    assert_int_equal(rc, CAY_EBUSY);
    assert_string_equal(e_.reason, "processes_running");
    OK(cay_proc_signal(p, NULL, SIGKILL, CAY_SCOPE_TREE, E));
    wait_for(p, 20000);
    cay_proc_unref(p);
    /* one that nobody waits for */
    sh_is(sb, "(sleep 1000 >/dev/null 2>&1 </dev/null &) ; echo ok", "ok\n");
    assert_int_equal(S.ops->snapshot(sb->box, NULL, &spec, &out, E), CAY_EBUSY);
    sh_is(sb, "pkill sleep; echo w >still && cat still", "w\n"); /* its root is as it was */
    for (int i = 0; i < 2000 && (rc = S.ops->snapshot(sb->box, NULL, &spec, &out, E)) == CAY_EBUSY;
         i++)
        poll(NULL, 0, 5);
    OK(rc);
    text_is(sb, "still", "w\n");
    box_end(sb);
    drop(spec.layer);
}

static void a_snapshot_of_what_runs_is_a_copy(void **state)
{
    (void)state;
    ERR;
    NEED(snapshot);
    NEED_SHELL();
    cay_sandbox *sb = box_new(NULL);
    cay_snapped out = { .size = sizeof out };
    cay_snap spec = { .size = sizeof spec, .layer = layer(0), .how = CAY_SNAP_STOP };
    put(sb, "a", "1");
    cay_proc *p = start(sb, (cay_spawn){ .shell = "exec sleep 1000" });
    OK(S.ops->snapshot(sb->box, NULL, &spec, &out, E));
    assert_false(out.stacked); /* the stack stays */
    put(sb, "a", "2");
    cay_sandbox *fork = box_on(&spec.layer, 1);
    text_is(fork, "a", "1");
    box_end(fork);
    OK(cay_proc_signal(p, NULL, SIGKILL, CAY_SCOPE_TREE, E));
    cay_proc_unref(p);
    box_end(sb);
    drop(spec.layer);
}

static void an_upload_is_no_quiet_box(void **state)
{
    (void)state;
    ERR;
    NEED(snapshot);
    need("layers that are trees", !CAY__HAS(S.ops, opaque_layers));
    NEED(open_write);
    need("files that wait", strcmp(S.ops->name, "memory") != 0);
    cay_sandbox *sb = box_new(NULL);
    cay_snapped out = { .size = sizeof out };
    cay_snap spec = { .size = sizeof spec, .layer = layer(0), .how = CAY_SNAP_QUIET };
    void *up = NULL;
    int fd = -1;
    OK(S.ops->open_write(sb->box, NULL, "up", &(cay_write){ .size = sizeof(cay_write) }, &up, &fd,
                         E));
    assert_int_equal(S.ops->snapshot(sb->box, NULL, &spec, &out, E), CAY_EBUSY);
    assert_int_equal(write(fd, "abc", 3), 3);
    close(fd);
    OK(S.ops->commit_write(up, NULL, E));
    OK(S.ops->snapshot(sb->box, NULL, &spec, &out, E));
    text_is(sb, "up", "abc");
    box_end(sb);
    drop(spec.layer);
}

/* Requests that come while a root is changed wait, and none of them fails or is lost. */
typedef struct busy {
    cay_sandbox *sb;
    atomic_bool stop;
    atomic_int done, failed;
    bool shell;
} busy;

static void *ask_on(void *arg)
{
    busy *b = arg;
    char text[32];
    while (!b->stop) {
        cay_err e = CAY_ERR_INIT;
        int n = snprintf(text, sizeof text, "%d", b->done + 1);
        int rc = cay_file_put(b->sb, NULL, "counter", text, (size_t)n, NULL, &e);
        if (rc == 0 && b->shell) {
            cay_result r = { .size = sizeof r };
            rc = cay_sandbox_run(b->sb, NULL,
                                 &(cay_spawn){ .size = sizeof(cay_spawn),
                                               .shell = "cat counter >>log && echo >>log" },
                                 NULL, 0, 0, &r, &e);
            rc = rc < 0 ? rc : r.exit.code;
            cay_result_clear(&r);
        }
        if (rc)
            print_error("%s\n", e.msg);
        b->failed += rc != 0;
        b->done++;
    }
    return NULL;
}

static void requests_wait_while_the_root_changes(void **state)
{
    (void)state;
    NEED(snapshot);
    cay_sandbox *sb = box_new(NULL);
    busy b = { .sb = box_again(sb->id), .shell = S.shell };
    pthread_t t;
    int made = 0;
    assert_int_equal(pthread_create(&t, NULL, ask_on, &b), 0);
    for (int i = 0; i < 1500 && (made < 8 || b.done < 20); i++) {
        poll(NULL, 0, 1);
        cay_err e = CAY_ERR_INIT;
        cay_snapped out = { .size = sizeof out };
        char name[CAY_ID_LEN + 1];
        cay__id_make(name, 's');
        int rc = S.ops->snapshot(
            sb->box, NULL,
            &(cay_snap){ .size = sizeof(cay_snap), .layer = name, .how = CAY_SNAP_QUIET }, &out,
            &e);
        if (rc < 0 && rc != CAY_EBUSY)
            fail_msg("snapshot %d: %s", made, e.msg);
        if (rc == 0)
            memcpy(names[made++], name, sizeof name);
        if (made == CAY_LEN(names))
            break;
    }
    b.stop = true;
    pthread_join(t, NULL);
    assert_int_equal(b.failed, 0);
    assert_true(made > 0);
    char want[32];
    snprintf(want, sizeof want, "%d", b.done);
    text_is(sb, "counter", want);
    if (b.shell) {
        snprintf(want, sizeof want, "%d\n", b.done);
        sh_is(sb, "wc -l <log", want);
    }
    cay_sandbox_unref(b.sb);
    box_end(sb);
    for (int i = 0; i < made; i++)
        drop(names[i]);
}

static void a_watch_follows_to_the_new_root(void **state)
{
    (void)state;
    ERR;
    NEED(snapshot);
    NEED(watch_open);
    cay_sandbox *sb = box_new(NULL);
    void *w = NULL;
    int fd = -1;
    bool lost = false, seen = false;
    OK(cay_file_mkdir(sb, NULL, "dir", 0, false, E));
    OK(S.ops->watch_open(sb->box, NULL, "dir", true, &w, &fd, E));
    const char *first = layer(0);
    snap(sb, first);
    for (int i = 0; i < 200 && !seen; i++) { /* until it stands there */
        char name[32];
        struct pollfd p = { fd, POLLIN, 0 };
        snprintf(name, sizeof name, "dir/f%d", i);
        put(sb, name, "x");
        while (!seen && poll(&p, 1, 50) > 0) {
            cay_watch_event ev = { .size = sizeof ev };
            OK(S.ops->watch_next(w, NULL, &ev, E));
            lost |= ev.change == CAY_CHANGE_OVERFLOW;
            seen |= ev.change == CAY_CHANGE_CREATE;
        }
    }
    assert_true(seen);
    if (strcmp(S.ops->name, "memory") != 0 &&
        !CAY__HAS(S.ops, opaque_layers)) /* there the root stays */
        assert_true(lost);
    S.ops->watch_close(w);
    box_end(sb);
    drop(first);
}

static void a_box_goes_back_and_lives_on(void **state)
{
    (void)state;
    ERR;
    NEED(snapshot);
    NEED(restack);
    cay_sandbox *sb = box_new(NULL);
    put(sb, "a", "1");
    const char *first = layer(0);
    snap(sb, first);
    put(sb, "a", "2");
    const char *second = layer(1);
    snap(sb, second);
    put(sb, "a", "3");
    cay_proc *p = S.shell ? start(sb, (cay_spawn){ .shell = "sleep 1000 & sleep 1000" }) : NULL;
    cay_box_status before = { .size = sizeof before }, after = { .size = sizeof after };
    OK(S.ops->status(sb->box, NULL, &before, E));
    OK(S.ops->restack(sb->box, NULL, (const char *const[]){ first, second }, 2, E));
    text_is(sb, "a", "2");
    if (p) { /* processes end, the sandbox does not */
        cay_exit x = wait_for(p, 20000);
        assert_int_equal(x.signal, SIGKILL);
        cay_proc_unref(p);
        sh_is(sb, "pgrep sleep; cat a && echo n >new && cat new", "2n\n");
    }
    OK(S.ops->restack(sb->box, NULL, (const char *const[]){ first }, 1, E));
    text_is(sb, "a", "1");
    text_is(sb, "new", NULL);
    OK(S.ops->restack(sb->box, NULL, NULL, 0, E));
    text_is(sb, "a", NULL);
    OK(S.ops->restack(sb->box, NULL, (const char *const[]){ first, second }, 2, E));
    text_is(sb, "a", "2");
    OK(S.ops->status(sb->box, NULL, &after, E));
    if (!CAY__HAS(S.ops, opaque_layers)) /* an engine gives it another container */
        assert_int_equal(before.pid, after.pid);
    /* what cannot be had leaves it as it is */
    put(sb, "a", "mine");
    assert_true(
        S.ops->restack(sb->box, NULL, (const char *const[]){ first, "s-is-not-there" }, 2, E) < 0);
    text_is(sb, "a", "mine");
    put(sb, "a", "writable");
    text_is(sb, "a", "writable");
    box_end(sb);
    drop(second);
    drop(first);
}

static void a_stopped_box_starts_on_its_stack(void **state)
{
    (void)state;
    ERR;
    NEED(snapshot);
    NEED(stop);
    NEED(start);
    cay_sandbox *sb = box_new(NULL);
    char id[CAY_ID_LEN + 1];
    snprintf(id, sizeof id, "%s", sb->id);
    put(sb, "a", "1");
    const char *stack[40];
    char more[40][CAY_ID_LEN + 1];
    size_t n = 0;
    for (; n < 12; n++) {
        char path[16];
        cay__id_make(more[n], 's');
        stack[n] = more[n];
        snprintf(path, sizeof path, "f%zu", n);
        put(sb, path, path);
        snap(sb, stack[n]);
    }
    put(sb, "top", "t");
    OK(S.ops->stop(sb->box, NULL, E));
    cay_sandbox_unref(sb);
    void *box = NULL;
    cay_create c = { .size = sizeof c };
    cay_box_spec on = { .size = sizeof on, .create = &c, .layers = stack, .nlayers = n };
    OK(S.ops->start(S.self, NULL, id, &on, &box, E));
    sb = cay__sandbox_new(S.ops, id, box);
    text_is(sb, "a", "1");
    text_is(sb, "f0", "f0");
    text_is(sb, "f11", "f11");
    text_is(sb, "top", "t");
    put(sb, "a", "2");
    cay__id_make(more[n], 's');
    snap(sb, more[n]); /* and goes on from there */
    text_is(sb, "a", "2");
    box_end(sb);
    for (size_t i = 0; i <= n; i++)
        drop(more[i]);
}

static void host_file(const char *dir, const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    CAY_AUTOFD fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0 && cay__fd_write_all(fd, text, strlen(text)));
}

static void host_remove(const char *dir, const char *const *files, size_t n)
{
    char path[128];
    for (size_t i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, files[i]);
        assert_int_equal(remove(path), 0);
    }
    assert_int_equal(rmdir(dir), 0);
}

static void what_is_mounted_inside_moves_along(void **state)
{
    (void)state;
    ERR;
    NEED(snapshot);
    need("layers that are trees", !CAY__HAS(S.ops, opaque_layers));
    NEED_SHELL();
    char ro[] = "/tmp/cay-grant-XXXXXX", rw[] = "/tmp/cay-grant-XXXXXX", git[64];
    assert_true(mkdtemp(ro) && mkdtemp(rw));
    snprintf(git, sizeof git, "%s/.git", rw);
    assert_int_equal(mkdir(git, 0755), 0);
    host_file(git, "config", "obeyed\n");
    host_file(ro, "f", "host\n");
    assert_int_equal(chmod(ro, 0755) + chmod(rw, 0777), 0);
    cay_grant g[] = { { .source = ro, .target = "/a b/deep" },
                      { .source = rw, .target = "/workspace/in", .rw = true } };
    cay_create c = { .size = sizeof c, .files.grants = g, .files.ngrants = 2 };
    cay_sandbox *sb = box_new(&c);
    sh_is(sb, "cat '/a b/deep/f'; echo 1 >in/w && cat in/w; echo x >before", "host\n1\n");
    const char *first = layer(0);
    snap(sb, first);
    sh_is(sb,
          "cat '/a b/deep/f'; echo 2 >in/w && cat in/w before; echo y 2>/dev/null >'/a b/deep/f' "
          "|| echo ro; echo z 2>/dev/null >in/.git/config || echo guarded",
          "host\n2\nx\nro\nguarded\n");
    OK(S.ops->restack(sb->box, NULL, NULL, 0,
                      E)); /* to a time when the mount points were not there */
    sh_is(sb,
          "cat '/a b/deep/f' in/w; ls before 2>/dev/null; echo z 2>/dev/null >in/.git/config || "
          "echo guarded",
          "host\n2\nguarded\n");
    box_end(sb);
    drop(first);
    host_remove(git, (const char *const[]){ "config" }, 1);
    host_remove(rw, (const char *const[]){ "w" }, 1);
    host_remove(ro, (const char *const[]){ "f" }, 1);
}

/* Names on the way to a mount point are the tenant's: they may be others by now, and a link may
 * stand where one was. */
static void a_mount_point_is_where_it_is_and_not_behind_a_link(void **state)
{
    (void)state;
    ERR;
    NEED(snapshot);
    need("layers that are trees", !CAY__HAS(S.ops, opaque_layers));
    NEED_SHELL();
    char dir[] = "/tmp/cay-grant-XXXXXX";
    assert_non_null(mkdtemp(dir));
    host_file(dir, "f", "host\n");
    assert_int_equal(chmod(dir, 0755), 0);
    cay_create c = { .size = sizeof c,
                     .files.grants = &(cay_grant){ .source = dir, .target = "/workspace/d/in" },
                     .files.ngrants = 1 };
    const char *first = layer(0), *second = layer(1);
    cay_sandbox *sb = box_new(NULL);
    sh_is(sb, "ln -s /etc e && echo ok", "ok\n");
    snap(sb, first);
    box_end(sb);
    sb = box_new(&c);
    sh_is(sb, "mv -T d e && ln -s /etc d && cat e/in/f", "host\n");
    snap(sb, second);
    sh_is(sb, "cat e/in/f; readlink d", "host\n/etc\n");
    put(sb, "a", "1");
    assert_true(S.ops->restack(sb->box, NULL, &first, 1, E) < 0); /* there e is a link */
    text_is(sb, "a", "1");
    put(sb, "a", "2");
    sh_is(sb, "cat e/in/f a", "host\n2");
    OK(S.ops->restack(sb->box, NULL, NULL, 0, E));
    sh_is(sb, "cat e/in/f; ls /etc/in 2>/dev/null; ls a 2>/dev/null; echo ok", "host\nok\n");
    box_end(sb);
    drop(second);
    drop(first);
    host_remove(dir, (const char *const[]){ "f" }, 1);
}

static void a_root_of_ones_own_can_be_snapshotted(void **state)
{
    (void)state;
    ERR;
    NEED(snapshot);
    need("layers that are trees", !CAY__HAS(S.ops, opaque_layers));
    NEED_SHELL();
    char root[] = "/tmp/cay-root-XXXXXX", id[CAY_ID_LEN + 1];
    assert_non_null(mkdtemp(root));
    assert_int_equal(chmod(root, 0755), 0);
    host_file(root, "base", "host");
    cay_create c = { .size = sizeof c, .from.root = root };
    cay_sandbox *sb = box_new(&c);
    snprintf(id, sizeof id, "%s", sb->id);
    put(sb, "/workspace/a", "1");
    const char *first = layer(0);
    snap(sb, first);
    text_is(sb, "/base", "host");
    put(sb, "/workspace/a", "2");
    OK(S.ops->restack(sb->box, NULL, &first, 1, E));
    text_is(sb, "/workspace/a", "1");
    OK(S.ops->stop(sb->box, NULL, E));
    cay_sandbox_unref(sb);
    void *box = NULL;
    cay_box_spec on = { .size = sizeof on, .create = &c, .layers = &first, .nlayers = 1 };
    OK(S.ops->start(S.self, NULL, id, &on, &box, E));
    sb = cay__sandbox_new(S.ops, id, box);
    text_is(sb, "/base", "host");
    text_is(sb, "/workspace/a", "1");
    box_end(sb);
    drop(first);
    host_remove(root, (const char *const[]){ "base" }, 1);
}

/* What is written there is another overlay than the root: both are copied, and neither is exchanged
 * under a sandbox that runs. */
static void a_directory_copied_on_write_is_copied(void **state)
{
    (void)state;
    ERR;
    NEED(snapshot);
    need("layers that are trees", !CAY__HAS(S.ops, opaque_layers));
    NEED_SHELL();
    char dir[] = "/tmp/cay-on-XXXXXX";
    assert_non_null(mkdtemp(dir));
    cay_create c = { .size = sizeof c, .from.directory = dir };
    cay_sandbox *sb = box_new(&c);
    cay_snapped out = { .size = sizeof out };
    put(sb, "a", "1");
    const char *name = layer(0);
    char path[512], both[400];
    struct stat st;
    OK(S.ops->snapshot(sb->box, NULL, &(cay_snap){ .size = sizeof(cay_snap), .layer = name }, &out,
                       E));
    assert_false(out.stacked); /* the stack stays */
    assert_string_not_equal(out.method, "swap");
    snprintf(both, sizeof both, "o%s", name + 1);
    snprintf(path, sizeof path, "%s/layers/%s/upper/a", S.home, both);
    if (geteuid() == 0)
        assert_int_equal(stat(path, &st), 0);
    drop(name);
    drop(both);
    assert_int_equal(S.ops->restack(sb->box, NULL, NULL, 0, E), CAY_ENOTSUP);
    text_is(sb, "a", "1");
    box_end(sb);
    assert_int_equal(rmdir(dir), 0);
}

static void names_of_layers_are_names(void **state)
{
    (void)state;
    ERR;
    NEED(snapshot);
    static const char *const bad[] = {
        "",   ".", "..",  "a/b",  "../x",
        "-a", "A", "a b", "a\nb", "0123456789012345678901234567890123456789012345678901234567890123"
    };
    for (size_t i = 0; i < CAY_LEN(bad); i++) {
        cay_snapped out = { .size = sizeof out };
        cay_create c = { .size = sizeof c };
        cay_box_spec on = { .size = sizeof on, .create = &c, .layers = &bad[i], .nlayers = 1 };
        void *box = NULL;
        char id[CAY_ID_LEN + 1];
        cay__id_make(id, 'c');
        assert_int_equal(
            S.ops->snapshot(
                S.sb->box, NULL,
                &(cay_snap){ .size = sizeof(cay_snap), .layer = bad[i], .how = CAY_SNAP_QUIET },
                &out, E),
            CAY_EINVAL);
        assert_int_equal(S.ops->restack(S.sb->box, NULL, &bad[i], 1, E), CAY_EINVAL);
        assert_int_equal(S.ops->layer_remove(S.self, NULL, bad[i], E), CAY_EINVAL);
        assert_int_equal(S.ops->create(S.self, NULL, id, &on, &box, E), CAY_EINVAL);
    }
}

tests suite_snapshot(size_t *n)
{
    static const struct CMUnitTest t[] = {
        cmocka_unit_test(a_quiet_box_goes_on_from_its_snapshot),
        cmocka_unit_test(commands_see_one_root_before_and_after),
        cmocka_unit_test(a_snapshot_asked_for_twice_is_one),
        cmocka_unit_test(what_runs_is_no_quiet_box),
        cmocka_unit_test(a_snapshot_of_what_runs_is_a_copy),
        cmocka_unit_test(an_upload_is_no_quiet_box),
        cmocka_unit_test(requests_wait_while_the_root_changes),
        cmocka_unit_test(a_watch_follows_to_the_new_root),
        cmocka_unit_test(a_box_goes_back_and_lives_on),
        cmocka_unit_test(a_stopped_box_starts_on_its_stack),
        cmocka_unit_test(what_is_mounted_inside_moves_along),
        cmocka_unit_test(a_mount_point_is_where_it_is_and_not_behind_a_link),
        cmocka_unit_test(a_root_of_ones_own_can_be_snapshotted),
        cmocka_unit_test(a_directory_copied_on_write_is_copied),
        cmocka_unit_test(names_of_layers_are_names),
    };
    *n = CAY_LEN(t);
    return t;
}
