/* SPDX-License-Identifier: Apache-2.0 */
/* The worker and its client over a socket pair, without keeper or namespaces. */
#include <arpa/inet.h>
#include <base/base.h>
#include <base/fd.h>
#include <base/fsop.h>
#include <daemon/init/session.h>
#include <proto/session.h>
#include <lib/provider/native/session.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <cmocka.h>
#include "../support/tree.h"

static tree t;
static cay__sessions ses;
static int opened;
static pid_t workers[256];
static int nworkers;
static cay_err err;

static int open_worker(void *arg, const cay_call *call, const char *user, int *sock, cay_err *e)
{
    (void)arg, (void)call, (void)user, (void)e;
    int sv[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv), 0);
    pid_t pid = fork();
    if (pid == 0) {
        int sock_ = fcntl(sv[1], F_DUPFD, 10), root_ = fcntl(t.root, F_DUPFD, 10);
        dup2(sock_, 3);
        dup2(root_, 4);
        cay__fd_close_from(5);
        signal(SIGPIPE, SIG_IGN);
        cay__session_serve(3, 4, "/work", "/home/u");
        _exit(0);
    }
    close(sv[1]);
    opened++;
    assert_true(nworkers < 256);
    workers[nworkers++] = pid;
    *sock = sv[0];
    return 0;
}

static int setup(void **s)
{
    (void)s;
    tree_open(&t);
    assert_int_equal(mkdirat(t.root, "work", 0755), 0);
    assert_int_equal(mkdirat(t.root, "home", 0755), 0);
    assert_int_equal(mkdirat(t.root, "home/u", 0755), 0);
    cay__sessions_open(&ses, open_worker, NULL);
    opened = nworkers = 0;
    err = (cay_err)CAY_ERR_INIT;
    return 0;
}

/* Every worker leaves by itself once its socket is closed. */
static int teardown(void **s)
{
    (void)s;
    cay__sessions_close(&ses);
    for (int i = 0; i < nworkers; i++) {
        int status, tries = 0;
        while (waitpid(workers[i], &status, WNOHANG) == 0 && tries++ < 2000)
            usleep(1000);
        assert_true(tries < 2000);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    tree_close(&t);
    return 0;
}

static int put(const char *path, const char *text)
{
    return cay__nf_put(&ses, NULL, path, text, strlen(text),
                       &(cay_write){ .size = sizeof(cay_write), .parents = true }, &err);
}

static const char *get(const char *path, uint64_t off, uint64_t len)
{
    static char buf[8192];
    CAY_AUTOFD fd = -1;
    if (cay__nf_open_read(&ses, NULL, path,
                          &(cay_read){ .size = sizeof(cay_read), .offset = off, .length = len },
                          &fd, &err) < 0)
        return NULL;
    ssize_t n = cay__fd_read_all(fd, buf, sizeof buf - 1);
    buf[n > 0 ? n : 0] = 0;
    return buf;
}

static void small_files_go_through_one_session(void **s)
{
    (void)s;
    assert_int_equal(put("a/b.txt", "hello world"), 0);
    assert_string_equal(get("a/b.txt", 0, 0), "hello world");
    assert_string_equal(get("a/b.txt", 6, 3), "wor");
    assert_string_equal(get("a/b.txt", 100, 0), "");
    assert_string_equal(get("/work/a/b.txt", 0, 5), "hello");
    assert_int_equal(put("~/x", ""), 0);
    assert_string_equal(get("/home/u/x", 0, 0), "");
    assert_null(get("none", 0, 0));
    assert_int_equal(err.code, CAY_ENOENT);
    assert_string_equal(err.reason, "file_not_found");
    assert_int_equal(
        cay__nf_put(&ses, NULL, "a/b.txt", "+", 1, &(cay_write){ .append = true }, &err), 0);
    assert_string_equal(get("a/b.txt", 0, 0), "hello world+");
    assert_int_equal(
        cay__nf_put(&ses, NULL, "a/b.txt", "+", 1, &(cay_write){ .exclusive = true }, &err),
        CAY_EEXIST);
    assert_int_equal(opened, 1);
}

static void names_and_attributes(void **s)
{
    (void)s;
    cay_stat st;
    char v[16];
    size_t len = sizeof v;
    assert_int_equal(cay__nf_mkdir(&ses, NULL, "d/e", 0750, true, &err), 0);
    assert_int_equal(cay__nf_stat(&ses, NULL, "d/e", true, &st, &err), 0);
    assert_true(st.type == CAY_DIR && st.mode == 0750);
    assert_int_equal(cay__nf_mkdir(&ses, NULL, "d/e", 0750, false, &err), CAY_EEXIST);
    assert_int_equal(put("d/f", "12345"), 0);
    assert_int_equal(cay__nf_chmod(&ses, NULL, "d/f", 0600, &err), 0);
    assert_int_equal(cay__nf_chmod(&ses, NULL, "d/f", 010000, &err), CAY_EINVAL);
    assert_int_equal(cay__nf_rename(&ses, NULL, "d/f", "d/g", &err), 0);
    assert_int_equal(cay__nf_symlink(&ses, NULL, "g", "d/l", &err), 0);
    assert_int_equal(cay__nf_stat(&ses, NULL, "d/l", false, &st, &err), 0);
    assert_true(st.type == CAY_LINK);
    assert_string_equal(st.target, "g");
    assert_int_equal(cay__nf_stat(&ses, NULL, "d/l", true, &st, &err), 0);
    assert_true(st.type == CAY_FILE && st.size == 5 && st.mode == 0600 && st.uid == getuid() &&
                st.nlink == 1);
    assert_int_equal(cay__nf_chown(&ses, NULL, "d/g", UINT32_MAX, UINT32_MAX, &err), 0);
    if (cay__nf_setxattr(&ses, NULL, "d/g", "user.k", "val", 3, &err) == 0) {
        assert_int_equal(cay__nf_getxattr(&ses, NULL, "d/g", "user.k", v, &len, &err), 0);
        assert_int_equal(len, 3);
        len = 2;
        assert_int_equal(cay__nf_getxattr(&ses, NULL, "d/g", "user.k", v, &len, &err), CAY_ETOOBIG);
        assert_int_equal(cay__nf_setxattr(&ses, NULL, "d/g", "user.k", NULL, 0, &err), 0);
        len = sizeof v;
        assert_int_equal(cay__nf_getxattr(&ses, NULL, "d/g", "user.k", v, &len, &err), CAY_ENOENT);
    }
    assert_int_equal(cay__nf_setxattr(&ses, NULL, "d/g", "security.k", "v", 1, &err), CAY_EPERM);
    assert_int_equal(cay__nf_remove(&ses, NULL, "d", false, &err), CAY_EEXIST);
    assert_int_equal(cay__nf_remove(&ses, NULL, "d", true, &err), 0);
    assert_int_equal(cay__nf_stat(&ses, NULL, "d", true, &st, &err), CAY_ENOENT);
}

static char seen[1 << 16];
static int note(const cay_dirent *e, void *arg)
{
    size_t n = strlen(seen);
    snprintf(seen + n, sizeof seen - n, "%s%s ", e->path, e->st.type == CAY_DIR ? "/" : "");
    return arg ? *(int *)arg : 0;
}

static int note_match(const cay_match *m, void *arg)
{
    (void)arg;
    size_t n = strlen(seen);
    snprintf(seen + n, sizeof seen - n, "%s:%lu:%lu:%s ", m->path, (unsigned long)m->line,
             (unsigned long)m->column, m->text);
    return 0;
}

static int note_name(const char *name, void *arg)
{
    (void)arg;
    strncat(seen, name, sizeof seen - strlen(seen) - 1);
    return 0;
}

static void lists_globs_and_greps(void **s)
{
    (void)s;
    int stop = 42;
    put("a.c", "int x;\nreturn x;\n"), put("sub/b.c", "x\n"), put("sub/c.h", "y\n");
    seen[0] = 0;
    assert_int_equal(cay__nf_list_dir(&ses, NULL, ".", 0, note, NULL, &err), 0);
    assert_string_equal(seen, "a.c sub/ sub/b.c sub/c.h ");
    seen[0] = 0;
    assert_int_equal(cay__nf_glob(&ses, NULL, ".", "**/*.c", note, NULL, &err), 0);
    assert_string_equal(seen, "a.c sub/b.c ");
    seen[0] = 0;
    assert_int_equal(
        cay__nf_grep(&ses, NULL, ".", &(cay_grep){ .pattern = "x;?$" }, note_match, NULL, &err), 0);
    assert_string_equal(seen, "a.c:1:5:int x; a.c:2:8:return x; sub/b.c:1:1:x ");
    seen[0] = 0;
    assert_int_equal(
        cay__nf_grep(
            &ses, NULL, ".",
            &(cay_grep){
                .pattern = "X", .plain = true, .ignore_case = true, .max = 1, .include = "b.*" },
            note_match, NULL, &err),
        0);
    assert_string_equal(seen, "sub/b.c:1:1:x ");
    assert_int_equal(
        cay__nf_grep(&ses, NULL, ".", &(cay_grep){ .pattern = "(" }, note_match, NULL, &err),
        CAY_EINVAL);
    assert_string_equal(err.reason, "pattern_invalid");
    assert_int_equal(cay__nf_glob(&ses, NULL, ".", "../*", note, NULL, &err), CAY_EINVAL);
    assert_int_equal(cay__nf_list_dir(&ses, NULL, "a.c", 1, note, NULL, &err), CAY_ETYPE);
    assert_int_equal(cay__nf_list_dir(&ses, NULL, ".", 0, note, &stop, &err), 42);
    seen[0] = 0;
    if (cay__nf_setxattr(&ses, NULL, "a.c", "user.one", "1", 1, &err) == 0) {
        assert_int_equal(cay__nf_listxattr(&ses, NULL, "a.c", note_name, NULL, &err), 0);
        assert_string_equal(seen, "user.one");
    }
}

static int count_entry(const cay_dirent *e, void *arg)
{
    (void)e;
    ++*(int *)arg;
    return 0;
}

static void a_long_list_comes_in_many_packets(void **s)
{
    (void)s;
    enum { N = 5000 };
    int n = 0;
    cay__nf_mkdir(&ses, NULL, "many", 0, false, &err);
    for (int i = 0; i < N; i++) {
        char name[64];
        snprintf(name, sizeof name, "work/many/file-with-a-long-name-%d", i);
        close(openat(t.root, name, O_CREAT | O_WRONLY, 0600));
    }
    assert_int_equal(cay__nf_list_dir(&ses, NULL, "many", 1, count_entry, &n, &err), 0);
    assert_int_equal(n, N);
    assert_int_equal(opened, 1);
}

static void reading_special_files_fails_at_once(void **s)
{
    (void)s;
    char p[200];
    int fd;
    snprintf(p, sizeof p, "%s/work/fifo", t.in);
    assert_int_equal(mkfifo(p, 0600), 0);
    int64_t t0 = cay__now_ms();
    assert_int_equal(cay__nf_open_read(&ses, NULL, "fifo", NULL, &fd, &err), CAY_ETYPE);
    assert_int_equal(cay__nf_open_read(&ses, NULL, "/work", NULL, &fd, &err), CAY_ETYPE);
    assert_true(cay__now_ms() - t0 < 5000);
    assert_int_equal(opened, 1);
}

static void links_do_not_lead_out(void **s)
{
    (void)s;
    char abs[200];
    int fd;
    snprintf(abs, sizeof abs, "%s/secret", t.out);
    assert_int_equal(cay__nf_symlink(&ses, NULL, abs, "esc", &err), 0);
    assert_int_equal(cay__nf_symlink(&ses, NULL, "../../out", "escdir", &err), 0);
    assert_int_equal(cay__nf_open_read(&ses, NULL, "esc", NULL, &fd, &err), CAY_ENOENT);
    assert_int_equal(cay__nf_remove(&ses, NULL, "escdir/secret", true, &err), CAY_ENOENT);
    assert_string_equal(tree_read(t.out, "secret"), "outside");
}

/* 100 MB each way, neither side holding more than a buffer. */
static void big_files_stream_in_constant_memory(void **s)
{
    (void)s;
    enum { CHUNK = 1 << 20, CHUNKS = 100 };
    void *up;
    int fd;
    struct rusage ru;
    struct stat st;
    CAY_AUTOFREE unsigned char *buf = malloc(CHUNK);
    assert_int_equal(
        cay__nf_open_write(&ses, NULL, "big", &(cay_write){ .mode = 0640 }, &up, &fd, &err), 0);
    for (int i = 0; i < CHUNKS; i++) {
        memset(buf, i, CHUNK);
        assert_true(cay__fd_write_all(fd, buf, CHUNK));
    }
    assert_int_equal(fstatat(t.root, "work/big", &st, 0), -1);
    assert_int_equal(cay__nf_commit_write(up, NULL, &err), 0);
    assert_int_equal(fstatat(t.root, "work/big", &st, 0), 0);
    assert_true(st.st_size == (off_t)CHUNK * CHUNKS && (st.st_mode & 07777) == 0640);
    assert_int_equal(opened, 1);
    CAY_AUTOFD rd = -1;
    assert_int_equal(
        cay__nf_open_read(&ses, NULL, "big", &(cay_read){ .offset = CHUNK / 2 }, &rd, &err), 0);
    for (int i = 0; i < CHUNKS; i++) {
        size_t want = i ? CHUNK : CHUNK / 2;
        assert_int_equal(cay__fd_read_all(rd, buf, want), want);
        assert_true(buf[0] == i && buf[want - 1] == i);
    }
    assert_int_equal(read(rd, buf, 1), 0);
    /* a reader that stops early ends the worker (teardown sees it leave) */
    CAY_AUTOFD part = -1;
    assert_int_equal(cay__nf_open_read(&ses, NULL, "big", NULL, &part, &err), 0);
    assert_int_equal(read(part, buf, 10), 10);
    cay__close_fd(&part);
    cay__sessions_drop(&ses);
    int status;
    assert_int_equal(wait4(workers[0], &status, 0, &ru), workers[0]);
    workers[0] = workers[--nworkers];
    printf("worker: %ld KiB resident at most\n", ru.ru_maxrss);
}

/* The end of a worker is not the end of a file. */
static void a_cut_stream_is_an_error(void **s)
{
    (void)s;
    enum { BIG = 8 << 20 };
    CAY_AUTOFREE char *buf = calloc(1, BIG);
    CAY_AUTOFD fd = -1;
    ssize_t n;
    assert_int_equal(cay__nf_put(&ses, NULL, "big", buf, BIG, NULL, &err), 0);
    assert_int_equal(cay__nf_open_read(&ses, NULL, "big", NULL, &fd, &err), 0);
    assert_int_equal(read(fd, buf, 1000), 1000);
    kill(workers[0], SIGKILL);
    waitpid(workers[0], NULL, 0);
    nworkers = 0;
    while ((n = read(fd, buf, BIG)) > 0)
        ;
    assert_int_equal(n, -1);
    assert_int_equal(errno, ECONNRESET);
}

static size_t count_work(void)
{
    int n = 0;
    cay__nf_list_dir(&ses, NULL, "/work", 0, count_entry, &n, &err);
    return (size_t)n;
}

static void an_aborted_upload_leaves_nothing(void **s)
{
    (void)s;
    void *up;
    int fd;
    put("f", "old");
    assert_int_equal(cay__nf_open_write(&ses, NULL, "f", NULL, &up, &fd, &err), 0);
    assert_true(cay__fd_write_all(fd, "new bytes", 9));
    cay__nf_abort_write(up);
    assert_int_equal(cay__nf_open_write(&ses, NULL, "g", NULL, &up, &fd, &err), 0);
    assert_true(cay__fd_write_all(fd, "x", 1));
    cay__nf_abort_write(up);
    for (int i = 0; count_work() != 1 && i < 1000; i++)
        usleep(1000);
    assert_int_equal(count_work(), 1);
    assert_string_equal(get("f", 0, 0), "old");
    /* the client's whole process dies in the middle */
    pid_t pid = fork();
    if (pid == 0) {
        cay__sessions_open(&ses, open_worker, NULL);
        if (cay__nf_open_write(&ses, NULL, "h", NULL, &up, &fd, &err) < 0)
            _exit(1);
        cay__fd_write_all(fd, "x", 1);
        raise(SIGKILL);
    }
    int status;
    waitpid(pid, &status, 0);
    assert_true(WIFSIGNALED(status));
    for (int i = 0; count_work() != 1 && i < 1000; i++)
        usleep(1000);
    assert_int_equal(count_work(), 1);
    /* more than fits in a packet, in one call */
    CAY_AUTOFREE char *big = malloc(300000);
    memset(big, 'b', 300000);
    assert_int_equal(cay__nf_put(&ses, NULL, "big", big, 300000, NULL, &err), 0);
    assert_int_equal(strlen(get("big", 299000, 0)), 1000);
    /* an append by stream */
    assert_int_equal(cay__nf_put(&ses, NULL, "f", big, 40000, &(cay_write){ .append = true }, &err),
                     0);
    assert_memory_equal(get("f", 0, 10), "oldbbbbbbb", 10);
}

static void a_failed_write_is_told_by_commit(void **s)
{
    (void)s;
    void *up;
    int fd;
    assert_int_equal(cay__nf_open_write(&ses, NULL, "d/f", NULL, &up, &fd, &err), CAY_ENOENT);
    assert_int_equal(
        cay__nf_open_write(&ses, NULL, "x", &(cay_write){ .exclusive = true }, &up, &fd, &err), 0);
    put("x", "first");
    assert_int_equal(cay__nf_commit_write(up, NULL, &err), CAY_EEXIST);
    assert_string_equal(get("x", 0, 0), "first");
    assert_int_equal(count_work(), 1);
}

static void a_dead_worker_is_gone_and_replaced(void **s)
{
    (void)s;
    put("a", "1");
    kill(workers[0], SIGKILL);
    waitpid(workers[0], NULL, 0);
    nworkers = 0;
    assert_string_equal(get("a", 0, 0), "1");
    assert_int_equal(opened, 2);
    void *up;
    int fd;
    assert_int_equal(cay__nf_open_write(&ses, NULL, "b", NULL, &up, &fd, &err), 0);
    kill(workers[0], SIGKILL);
    waitpid(workers[0], NULL, 0);
    nworkers = 0;
    assert_int_equal(cay__nf_commit_write(up, NULL, &err), CAY_EGONE);
}

static const char *next_change(void *w)
{
    static char line[512];
    cay_watch_event e;
    cay_call call = { .size = sizeof call, .deadline_ms = cay__now_ms() + 1000 };
    int rc = cay__nf_watch_next(w, &call, &e, &err);
    if (rc < 0)
        return cay_code_name(rc);
    snprintf(line, sizeof line, "%c%s %s%s%s", e.change, e.dir ? "d" : "", e.path,
             *e.from ? " < " : "", e.from);
    return line;
}

static void a_watch_tells_changes_below(void **s)
{
    (void)s;
    void *w;
    int fd;
    put("d/old", "1"), put("top", "1");
    assert_int_equal(cay__nf_watch_open(&ses, NULL, "top", true, &w, &fd, &err), CAY_ETYPE);
    assert_int_equal(cay__nf_watch_open(&ses, NULL, ".", true, &w, &fd, &err), 0);
    assert_int_equal(poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 0), 0);
    put("new", "x");
    assert_string_equal(next_change(w), "c new");
    assert_string_equal(next_change(w), "w new");
    put("new", "y");
    assert_string_equal(next_change(w), "w new");
    renameat(t.root, "work/d/old", t.root, "work/moved");
    assert_string_equal(next_change(w), "m moved < d/old");
    assert_int_equal(fchmodat(t.root, "work/moved", 0600, 0), 0);
    assert_string_equal(next_change(w), "p moved");
    renameat(t.root, "work/d", t.root, "work/e");
    assert_string_equal(next_change(w), "md e < d");
    put("e/in", "x");
    assert_string_equal(next_change(w), "c e/in");
    assert_string_equal(next_change(w), "w e/in");
    unlinkat(t.root, "work/e/in", 0);
    assert_string_equal(next_change(w), "r e/in");
    renameat(t.root, "work/moved", t.root, "outside");
    assert_string_equal(next_change(w), "r moved");
    /* a tree that is whole before its watch can be set */
    mkdirat(t.root, "x", 0755), mkdirat(t.root, "x/y", 0755),
        close(openat(t.root, "x/y/z", O_CREAT | O_WRONLY, 0600));
    renameat(t.root, "x", t.root, "work/x");
    assert_string_equal(next_change(w), "cd x");
    assert_string_equal(next_change(w), "cd x/y");
    assert_string_equal(next_change(w), "c x/y/z");
    unlinkat(t.root, "work/x/y/z", 0);
    assert_string_equal(next_change(w), "r x/y/z");
    /* moved out: nothing more is heard from below */
    renameat(t.root, "work/x", t.root, "x");
    assert_string_equal(next_change(w), "rd x");
    unlinkat(t.root, "x/y", AT_REMOVEDIR);
    assert_string_equal(next_change(w), "ETIMEOUT");
    cay__nf_remove(&ses, NULL, "/work", true, &err);
    const char *last;
    do
        last = next_change(w);
    while (last[0] == 'r' && strcmp(last, "rd ."));
    assert_string_equal(last, "rd .");
    assert_string_equal(next_change(w), "EGONE");
    cay__nf_watch_close(w);
}

static void a_watch_that_is_not_read_overflows_once(void **s)
{
    (void)s;
    void *w;
    int fd, n = 0, over = 0;
    assert_int_equal(cay__nf_watch_open(&ses, NULL, ".", false, &w, &fd, &err), 0);
    for (int i = 0; i < 30000; i++) {
        char name[64];
        snprintf(name, sizeof name, "work/f%d", i);
        close(openat(t.root, name, O_CREAT | O_WRONLY, 0600));
        unlinkat(t.root, name, 0);
    }
    usleep(50000);
    for (const char *c; (c = next_change(w))[0] != 'E';) {
        n++;
        over += c[0] == 'o';
    }
    printf("%d changes kept, %d overflow\n", n, over);
    assert_true(n > 1000 && n < 60000 && over >= 1 && over <= n / 100);
    put("after", "x");
    assert_string_equal(next_change(w), "c after");
    /* the same thing many times is one thing while nobody looks */
    usleep(20000);
    cay__nf_watch_close(w);
}

static int want_port, found_pid;
static char found_addr[46];
static int on_port(const cay_port *p, void *arg)
{
    (void)arg;
    if (p->port == want_port) {
        found_pid = p->pid;
        memcpy(found_addr, p->address, sizeof found_addr);
    }
    return 0;
}

static void a_port_is_listed_and_connected(void **s)
{
    (void)s;
    for (int v6 = 0; v6 < 2; v6++) {
        struct sockaddr_in6 a6 = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
        struct sockaddr_in a4 = { .sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        CAY_AUTOFD srv = socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        socklen_t n = v6 ? sizeof a6 : sizeof a4;
        if (srv < 0 || bind(srv, v6 ? (void *)&a6 : (void *)&a4, n) < 0)
            continue; /* no IPv6 here */
        listen(srv, 4);
        getsockname(srv, v6 ? (void *)&a6 : (void *)&a4, &n);
        want_port = ntohs(v6 ? a6.sin6_port : a4.sin_port);
        found_pid = -1;
        assert_int_equal(cay__nf_ports(&ses, NULL, on_port, NULL, &err), 0);
        assert_int_equal(found_pid, getpid());
        assert_string_equal(found_addr, v6 ? "::1" : "127.0.0.1");
        CAY_AUTOFD fd = -1;
        assert_int_equal(cay__nf_connect(&ses, NULL, (uint16_t)want_port, &fd, &err), 0);
        CAY_AUTOFD peer = accept(srv, NULL, NULL);
        assert_int_equal(write(peer, "hi", 2), 2);
        char b[3] = "";
        assert_int_equal(read(fd, b, 2), 2);
        assert_string_equal(b, "hi");
    }
    int fd;
    assert_int_equal(cay__nf_connect(&ses, NULL, 1, &fd, &err), CAY_ENOENT);
    assert_string_equal(err.reason, "port_not_found");
    ses.netns = 12345; /* not ours */
    CAY_AUTOFD srv = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t n = sizeof a;
    bind(srv, (void *)&a, n), listen(srv, 1), getsockname(srv, (void *)&a, &n);
    assert_int_equal(cay__nf_connect(&ses, NULL, ntohs(a.sin_port), &fd, &err), CAY_EUPSTREAM);
}

static int on_proc(const cay_proc_info *p, void *arg)
{
    cay_proc_info *out = arg;
    if (p->pid == getpid()) {
        *out = *p;
        snprintf(seen, sizeof seen, "%s|%s", p->user, p->command);
    }
    return 0;
}

static void processes_are_listed(void **s)
{
    (void)s;
    cay_proc_info p = { 0 };
    mkdirat(t.root, "etc", 0755);
    char line[64];
    snprintf(line, sizeof line, "bad\nmyself:x:%u:0::/:/bin/sh\n", getuid());
    put("/etc/passwd", line);
    assert_int_equal(cay__nf_ps(&ses, NULL, on_proc, &p, &err), 0);
    assert_int_equal(p.pid, getpid());
    assert_int_equal(p.ppid, getppid());
    assert_true(p.state == 'S' || p.state == 'R');
    assert_true(p.rss > 100000 && p.started_ms <= cay__clock_ms() + 1000 &&
                p.started_ms > cay__clock_ms() - 3600000);
    assert_true(!strncmp(seen, "myself|", 7) && strstr(seen, program_invocation_short_name));
}

typedef struct ending {
    pid_t pid;
    bool there, over;
    int bare; /* how often it was told without arguments, and not as ended */
} ending;

static int on_ending(const cay_proc_info *p, void *arg)
{
    ending *e = arg;
    e->there |= p->pid == e->pid;
    e->over |= p->pid == e->pid && p->state == 'Z';
    e->bare += p->pid == e->pid && p->command[0] == '[' && p->state != 'Z';
    return 0;
}

/* One that gives its memory back takes a while over it, is no zombie yet and has no arguments any
 * more: who asks whether anything runs is not told that it does. */
static void a_process_that_is_ending_has_ended(void **s)
{
    (void)s;
    for (int i = 0; i < 3; i++) {
        const size_t big = 96 << 20;
        char word;
        int up[2];
        assert_int_equal(pipe(up), 0);
        ending e = { .pid = fork() };
        if (e.pid == 0) {
            char *m = malloc(big);
            if (m)
                memset(m, 1, big);
            if (write(up[1], m, 1) == 1)
                pause();
            _exit(1);
        }
        close(up[1]);
        assert_int_equal(read(up[0], &word, 1), 1);
        close(up[0]);
        kill(e.pid, SIGKILL);
        while (!e.over)
            assert_int_equal(cay__nf_ps(&ses, NULL, on_ending, &e, &err), 0);
        assert_int_equal(waitpid(e.pid, NULL, 0), e.pid);
        assert_true(e.there);
        assert_int_equal(e.bare, 0);
    }
}

static void deadline_and_cancel_are_kept(void **s)
{
    (void)s;
    put("a", "1");
    kill(workers[0], SIGSTOP);
    cay_stat st;
    int64_t t0 = cay__now_ms();
    cay_call call = { .size = sizeof call, .deadline_ms = t0 + 50 };
    assert_int_equal(cay__nf_stat(&ses, &call, "a", true, &st, &err), CAY_ETIMEOUT);
    assert_true(cay__now_ms() - t0 < 5000);
    int p[2];
    assert_int_equal(pipe(p), 0);
    assert_int_equal(write(p[1], "x", 1), 1);
    assert_int_equal(cay__nf_stat(&ses, &(cay_call){ .cancel_fd = p[0] }, "a", true, &st, &err),
                     CAY_ECANCELED);
    close(p[0]), close(p[1]);
    kill(workers[0], SIGCONT);
    assert_int_equal(cay__nf_stat(&ses, NULL, "a", true, &st, &err), 0);
    char longer[5000];
    memset(longer, 'x', sizeof longer);
    longer[4999] = 0;
    assert_int_equal(cay__nf_stat(&ses, NULL, longer, true, &st, &err), CAY_EINVAL);
}

static void hostile_requests_end_or_are_refused(void **s)
{
    (void)s;
    struct {
        cay_ses_req r;
        char tail[100];
    } m;
    static const struct {
        const char *why;
        size_t len;
        cay_ses_req r;
        bool ends;
    } cases[] = {
        { "short", 10, { .magic = CAY_SES_MAGIC }, true },
        { "magic", sizeof(cay_ses_req) + 2, { .magic = 1, .op = CAY_SES_STAT }, true },
        { "path past the end",
          sizeof(cay_ses_req) + 2,
          { .magic = CAY_SES_MAGIC, .op = CAY_SES_STAT, .path = 50 },
          true },
        { "huge path",
          sizeof(cay_ses_req) + 2,
          { .magic = CAY_SES_MAGIC, .op = CAY_SES_STAT, .path = UINT32_MAX },
          true },
        { "sum overflows",
          sizeof(cay_ses_req) + 2,
          { .magic = CAY_SES_MAGIC, .op = CAY_SES_STAT, .path = UINT32_MAX, .second = 2 },
          true },
        { "bytes left over",
          sizeof(cay_ses_req) + 30,
          { .magic = CAY_SES_MAGIC, .op = CAY_SES_STAT },
          true },
        { "no such op", sizeof(cay_ses_req) + 2, { .magic = CAY_SES_MAGIC, .op = 999 }, false },
        { "op 0", sizeof(cay_ses_req) + 2, { .magic = CAY_SES_MAGIC, .op = 0 }, false },
        { "unknown flag",
          sizeof(cay_ses_req) + 2,
          { .magic = CAY_SES_MAGIC, .op = CAY_SES_STAT, .flags = 0x8000 },
          false },
        { "read without a pipe",
          sizeof(cay_ses_req) + 2,
          { .magic = CAY_SES_MAGIC, .op = CAY_SES_READ },
          false },
        { "commit of nothing",
          sizeof(cay_ses_req) + 2,
          { .magic = CAY_SES_MAGIC, .op = CAY_SES_COMMIT },
          false },
        { "mode",
          sizeof(cay_ses_req) + 2,
          { .magic = CAY_SES_MAGIC, .op = CAY_SES_MKDIR, .a = UINT64_MAX },
          false },
        { "depth",
          sizeof(cay_ses_req) + 2,
          { .magic = CAY_SES_MAGIC, .op = CAY_SES_LIST, .a = UINT64_MAX },
          false },
        { "port",
          sizeof(cay_ses_req) + 2,
          { .magic = CAY_SES_MAGIC, .op = CAY_SES_CONNECT, .a = 1ull << 33 },
          false },
    };
    for (size_t i = 0; i < CAY_LEN(cases); i++) {
        CAY_AUTOFD sock = -1;
        cay_ses_rep rep;
        open_worker(NULL, NULL, NULL, &sock, NULL);
        memset(&m, 0, sizeof m);
        m.r = cases[i].r;
        assert_int_equal(send(sock, &m, cases[i].len, 0), cases[i].len);
        ssize_t n = recv(sock, &rep, sizeof rep, 0);
        if (cases[i].ends ? n > 0 : n != sizeof rep || rep.sys == 0)
            fail_msg("%s: %zd", cases[i].why, n);
    }
    /* a regular file where a pipe is asked for, and two descriptors where one is */
    CAY_AUTOFD sock = -1, file = open("/dev/null", O_RDWR | O_CLOEXEC);
    cay_ses_rep rep;
    open_worker(NULL, NULL, NULL, &sock, NULL);
    memset(&m, 0, sizeof m);
    m.r = (cay_ses_req){ .magic = CAY_SES_MAGIC, .op = CAY_SES_UPLOAD, .path = 1 };
    m.tail[0] = 'q';
    cay__fd_send(sock, &m, sizeof m.r + 3, &file, 1, 0);
    assert_int_equal(recv(sock, &rep, sizeof rep, 0), sizeof rep);
    assert_int_equal(rep.sys, EINVAL);
    cay__fd_send(sock, &m, sizeof m.r + 3, (int[]){ file, file }, 2, 0);
    assert_int_equal(recv(sock, &rep, sizeof rep, 0), 0);
    assert_int_equal(count_work(), 0);
}

/* A worker under the test's control: answers the first request with what `lie` makes of it. */
typedef struct liar {
    void (*lie)(int sock, const cay_ses_req *req);
} liar;

static int open_liar(void *arg, const cay_call *call, const char *user, int *sock, cay_err *e)
{
    (void)call, (void)user, (void)e;
    int sv[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(sv[0]);
        char buf[CAY_SES_MAX];
        int fd = -1, nfds = 1;
        signal(SIGPIPE, SIG_IGN);
        if (cay__fd_recv(sv[1], buf, sizeof buf, &fd, &nfds, 0) > 0)
            ((liar *)arg)->lie(sv[1], (void *)buf);
        _exit(0);
    }
    close(sv[1]);
    workers[nworkers++] = pid;
    *sock = sv[0];
    return 0;
}

static void reply(int sock, const cay_ses_req *req, uint16_t flags, uint32_t count,
                  const void *body, size_t len)
{
    char buf[CAY_SES_MAX];
    cay_ses_rep rep = { .magic = CAY_SES_MAGIC,
                        .op = req->op,
                        .seq = req->seq,
                        .flags = flags,
                        .count = count,
                        .len = (uint32_t)len };
    memcpy(buf, &rep, sizeof rep);
    memcpy(buf + sizeof rep, body, len);
    cay__fd_send(sock, buf, sizeof rep + len, NULL, 0, 0);
}

static void lie_garbage(int sock, const cay_ses_req *req)
{
    cay__fd_send(sock, req, 20, NULL, 0, 0);
}
static void lie_seq(int sock, const cay_ses_req *req)
{
    cay_ses_req r = *req;
    r.seq++;
    reply(sock, &r, 0, 0, "", 0);
}
static void lie_len(int sock, const cay_ses_req *req)
{
    cay_ses_rep rep = {
        .magic = CAY_SES_MAGIC, .op = req->op, .seq = req->seq, .len = 5000, .count = 1
    };
    cay__fd_send(sock, &rep, sizeof rep, NULL, 0, 0);
}
static void lie_sys(int sock, const cay_ses_req *req)
{
    cay_ses_rep rep = { .magic = CAY_SES_MAGIC, .op = req->op, .seq = req->seq, .sys = -5 };
    cay__fd_send(sock, &rep, sizeof rep, NULL, 0, 0);
}
static void lie_fd(int sock, const cay_ses_req *req)
{
    int fd = 0;
    cay_ses_rep rep = { .magic = CAY_SES_MAGIC, .op = req->op, .seq = req->seq };
    cay__fd_send(sock, &rep, sizeof rep, &fd, 1, 0);
}
static void lie_entry(int sock, const cay_ses_req *req, const char *path, size_t n)
{
    char b[512] = { 0 };
    cay_ses_stat st = { .mode = S_IFREG, .path = (uint16_t)n };
    memcpy(b, &st, sizeof st);
    memcpy(b + sizeof st, path, n);
    reply(sock, req, 0, 1, b, sizeof st + n);
}
static void lie_dotdot(int sock, const cay_ses_req *req)
{
    lie_entry(sock, req, "a/../../x", 9);
}
static void lie_absolute(int sock, const cay_ses_req *req)
{
    lie_entry(sock, req, "/etc/passwd", 11);
}
static void lie_nul(int sock, const cay_ses_req *req)
{
    lie_entry(sock, req, "a\0b", 3);
}
static void lie_empty(int sock, const cay_ses_req *req)
{
    lie_entry(sock, req, "", 0);
}
static void lie_endless(int sock, const cay_ses_req *req)
{
    reply(sock, req, CAY_SES_MORE, 0, "", 0);
}
static void lie_count(int sock, const cay_ses_req *req)
{
    reply(sock, req, 0, 1000000, "", 0);
}
static void lie_rest(int sock, const cay_ses_req *req)
{
    reply(sock, req, 0, 0, "rest", 4);
}
static void lie_silent(int sock, const cay_ses_req *req)
{
    (void)sock, (void)req;
}
static void lie_socket(int sock, const cay_ses_req *req)
{
    int sv[2];
    cay_ses_rep rep = { .magic = CAY_SES_MAGIC, .op = req->op, .seq = req->seq, .a = AF_INET };
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, sv) == 0)
        cay__fd_send(sock, &rep, sizeof rep, sv, 1, 0);
}

static void hostile_answers_are_refused(void **s)
{
    (void)s;
    static const struct {
        void (*lie)(int, const cay_ses_req *);
        int code;
    } cases[] = {
        { lie_garbage, CAY_EUPSTREAM },  { lie_seq, CAY_EUPSTREAM },
        { lie_len, CAY_EUPSTREAM },      { lie_sys, CAY_EUPSTREAM },
        { lie_fd, CAY_EUPSTREAM },       { lie_dotdot, CAY_EUPSTREAM },
        { lie_absolute, CAY_EUPSTREAM }, { lie_nul, CAY_EUPSTREAM },
        { lie_empty, CAY_EUPSTREAM },    { lie_endless, CAY_EUPSTREAM },
        { lie_count, CAY_EUPSTREAM },    { lie_rest, CAY_EUPSTREAM },
        { lie_silent, CAY_EGONE },
    };
    for (size_t i = 0; i < CAY_LEN(cases); i++) {
        liar l = { cases[i].lie };
        cay__sessions bad;
        cay__sessions_open(&bad, open_liar, &l);
        seen[0] = 0;
        int rc = cay__nf_list_dir(&bad, NULL, ".", 1, note, NULL, &err);
        if (rc != cases[i].code)
            fail_msg("case %zu: %s %s", i, cay_code_name(rc), err.msg);
        assert_string_equal(seen, "");
        cay_stat st;
        assert_true(cases[i].lie == lie_empty ||
                    cay__nf_stat(&bad, NULL, ".", true, &st, &err) < 0);
        cay__sessions_close(&bad);
    }
    liar l = { lie_socket };
    cay__sessions bad;
    int fd;
    cay__sessions_open(&bad, open_liar, &l);
    assert_int_equal(cay__nf_connect(&bad, NULL, 80, &fd, &err), CAY_EUPSTREAM);
    cay__sessions_close(&bad);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        T(small_files_go_through_one_session),
        T(names_and_attributes),
        T(lists_globs_and_greps),
        T(a_long_list_comes_in_many_packets),
        T(reading_special_files_fails_at_once),
        T(links_do_not_lead_out),
        T(big_files_stream_in_constant_memory),
        T(a_cut_stream_is_an_error),
        T(an_aborted_upload_leaves_nothing),
        T(a_failed_write_is_told_by_commit),
        T(a_dead_worker_is_gone_and_replaced),
        T(a_watch_tells_changes_below),
        T(a_watch_that_is_not_read_overflows_once),
        T(a_port_is_listed_and_connected),
        T(processes_are_listed),
        T(a_process_that_is_ending_has_ended),
        T(deadline_and_cancel_are_kept),
        T(hostile_requests_end_or_are_refused),
        T(hostile_answers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
