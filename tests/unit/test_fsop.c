/* SPDX-License-Identifier: Apache-2.0 */
#include <base/base.h>
#include <base/fd.h>
#include <base/fsop.h>
#include <base/str.h>
#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <cmocka.h>
#include "../support/tree.h"

static tree t;
static cay__fs fs;

static int setup(void **s)
{
    (void)s;
    tree_open(&t);
    fs = (cay__fs){ .root = t.root, .workdir = "/work", .home = "/home/u" };
    assert_int_equal(mkdirat(t.root, "work", 0755), 0);
    assert_int_equal(cay__fs_mkdir(&fs, "/home/u", 0, true), 0);
    return 0;
}

static int teardown(void **s)
{
    (void)s;
    tree_close(&t);
    return 0;
}

static int put(const char *path, const char *text)
{
    return cay__fs_put(&fs, path, text, strlen(text), &(cay__fs_write){ .parents = true });
}

static const char *get(const char *path)
{
    static char buf[4096];
    CAY_AUTOFD fd = cay__fs_open_read(&fs, path, NULL);
    ssize_t n = fd < 0 ? -1 : read(fd, buf, sizeof buf - 1);
    buf[n > 0 ? n : 0] = 0;
    return n < 0 ? NULL : buf;
}

static uint32_t mode_of(const char *path)
{
    struct stat st;
    return cay__fs_stat(&fs, path, true, &st, NULL, 0) < 0 ? 0xffff : st.st_mode & 07777;
}

#define assert_errno(call, e)                                                                      \
    do {                                                                                           \
        errno = 0;                                                                                 \
        assert_int_equal((call), -1);                                                              \
        assert_int_equal(errno, (e));                                                              \
    } while (0)

static void paths_begin_at_workdir_home_or_root(void **s)
{
    (void)s;
    assert_int_equal(put("a.txt", "one"), 0);
    assert_string_equal(get("/work/a.txt"), "one");
    assert_string_equal(get("../work/./a.txt"), "one");
    assert_int_equal(put("~/b", "two"), 0);
    assert_string_equal(get("/home/u/b"), "two");
    assert_int_equal(put("~x", "three"), 0);
    assert_string_equal(get("/work/~x"), "three");
    assert_string_equal(get("/../../../../../work/a.txt"), "one");
    assert_errno(cay__fs_open(&fs, "", O_PATH), ENOENT);
    char longer[5000];
    memset(longer, 'a', sizeof longer);
    longer[sizeof longer - 1] = 0;
    assert_errno(cay__fs_open(&fs, longer, O_PATH), ENAMETOOLONG);
}

static void links_resolve_inside_the_root(void **s)
{
    (void)s;
    char abs[256];
    snprintf(abs, sizeof abs, "%s/secret", t.out);
    assert_int_equal(cay__fs_symlink(&fs, abs, "esc1"), 0);
    assert_int_equal(cay__fs_symlink(&fs, "../../../out/secret", "esc2"), 0);
    assert_int_equal(cay__fs_symlink(&fs, "../../out", "escdir"), 0);
    assert_int_equal(cay__fs_symlink(&fs, "/proc/self/root/etc", "magic"), 0);
    assert_errno(cay__fs_open_read(&fs, "esc1", NULL), ENOENT);
    assert_errno(cay__fs_open_read(&fs, "esc2", NULL), ENOENT);
    assert_errno(cay__fs_open_read(&fs, "escdir/secret", NULL), ENOENT);
    assert_errno(cay__fs_open_read(&fs, "magic/passwd", NULL), ENOENT);
    assert_errno(cay__fs_mkdir(&fs, "escdir/new", 0, false), ENOENT);
    assert_errno(cay__fs_remove(&fs, "escdir/secret", true), ENOENT);
    assert_errno(cay__fs_rename(&fs, "a", "escdir/secret"), ENOENT);
    assert_errno(cay__fs_chmod(&fs, "esc1", 0777), ENOENT);
    /* written through a link: the place it names inside, made with its parents */
    assert_int_equal(put("esc2", "mine"), 0);
    assert_string_equal(tree_read(t.in, "out/secret"), "mine");
    assert_int_equal(cay__fs_remove(&fs, "esc1", true), 0);
    assert_int_equal(cay__fs_remove(&fs, "escdir", true), 0);
    assert_string_equal(tree_read(t.in, "out/secret"), "mine");
    assert_string_equal(tree_read(t.out, "secret"), "outside");
    assert_int_equal(cay__fs_symlink(&fs, "loop", "loop"), 0);
    assert_errno(put("loop", "x"), ELOOP);
}

static void magic_links_of_proc_are_refused(void **s)
{
    (void)s;
    CAY_AUTOFD slash = open("/", O_PATH | O_DIRECTORY);
    cay__fs host = { .root = slash };
    assert_errno(cay__fs_open_read(&host, "/proc/self/root/etc/passwd", NULL), ELOOP);
    assert_errno(cay__fs_open_read(&host, "/proc/self/fd/0", NULL), ELOOP);
}

static void special_files_fail_at_once(void **s)
{
    (void)s;
    char p[200];
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    CAY_AUTOFD sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(p, sizeof p, "%s/work/fifo", t.in);
    assert_int_equal(mkfifo(p, 0666), 0);
    snprintf(un.sun_path, sizeof un.sun_path, "%.80s/work/sock", t.in);
    assert_int_equal(bind(sock, (void *)&un, sizeof un), 0);
    int64_t t0 = cay__now_ms();
    assert_errno(cay__fs_open_read(&fs, "fifo", NULL), ENXIO);
    assert_errno(cay__fs_open_read(&fs, "sock", NULL), ENXIO);
    assert_errno(cay__fs_open_read(&fs, "/work", NULL), EISDIR);
    assert_errno(put("fifo", "x"), ENXIO);
    assert_errno(cay__fs_put(&fs, "fifo", "x", 1, &(cay__fs_write){ .append = true }), ENXIO);
    assert_errno(put("/work", "x"), EISDIR);
    CAY_AUTOFD dev = open("/dev", O_PATH | O_DIRECTORY);
    cay__fs d = { .root = dev };
    assert_errno(cay__fs_open_read(&d, "/null", NULL), ENXIO);
    assert_true(cay__now_ms() - t0 < 5000);
}

static size_t count_dir(const char *path)
{
    char p[200];
    size_t n = 0;
    snprintf(p, sizeof p, "%s%s", t.in, path);
    DIR *d = opendir(p);
    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n - 2;
}

static void writes_keep_or_set_the_mode(void **s)
{
    (void)s;
    assert_int_equal(put("m", "1"), 0);
    assert_int_equal(mode_of("m"), 0644);
    assert_int_equal(cay__fs_chmod(&fs, "m", 0751), 0);
    assert_int_equal(put("m", "2"), 0);
    assert_int_equal(mode_of("m"), 0751);
    assert_int_equal(cay__fs_put(&fs, "m", "3", 1, &(cay__fs_write){ .mode = 06755 }), 0);
    assert_int_equal(mode_of("m"), 06755);
    assert_errno(cay__fs_put(&fs, "m", "3", 1, &(cay__fs_write){ .mode = 0100644 }), EINVAL);
    assert_int_equal(cay__fs_put(&fs, "m", "45", 2, &(cay__fs_write){ .append = true }), 0);
    assert_string_equal(get("m"), "345");
    assert_int_equal(
        cay__fs_put(&fs, "new", "45", 2, &(cay__fs_write){ .append = true, .mode = 0600 }), 0);
    assert_int_equal(mode_of("new"), 0600);
    assert_errno(cay__fs_put(&fs, "m", "x", 1, &(cay__fs_write){ .exclusive = true }), EEXIST);
    assert_errno(cay__fs_put(&fs, "no/such/dir", "x", 1, &(cay__fs_write){ 0 }), ENOENT);
    assert_int_equal(put("deep/er/file", "x"), 0);
    assert_int_equal(count_dir("/work"), 3);
}

static void an_upload_shows_only_when_committed(void **s)
{
    (void)s;
    cay__fs_upload up;
    assert_int_equal(put("f", "old"), 0);
    assert_int_equal(cay__fs_put_open(&fs, "f", &(cay__fs_write){ 0 }, &up), 0);
    assert_true(cay__fd_write_all(up.fd, "new", 3));
    assert_string_equal(get("f"), "old");
    cay__fs_put_abort(&up);
    assert_int_equal(count_dir("/work"), 1);
    assert_int_equal(cay__fs_put_open(&fs, "f", &(cay__fs_write){ .append = true }, &up), 0);
    assert_true(cay__fd_write_all(up.fd, "new", 3));
    assert_int_equal(cay__fs_put_commit(&up), 0);
    assert_string_equal(get("f"), "oldnew");
    /* somebody makes the name while an exclusive upload runs */
    assert_int_equal(cay__fs_put_open(&fs, "g", &(cay__fs_write){ .exclusive = true }, &up), 0);
    assert_int_equal(put("g", "first"), 0);
    assert_errno(cay__fs_put_commit(&up), EEXIST);
    assert_string_equal(get("g"), "first");
    assert_int_equal(count_dir("/work"), 2);
}

static void directories_are_made_with_parents(void **s)
{
    (void)s;
    mode_t old = umask(077);
    assert_errno(cay__fs_mkdir(&fs, "a/b/c", 0, false), ENOENT);
    assert_int_equal(cay__fs_mkdir(&fs, "a/b/../b2//c/", 02770, true), 0);
    assert_int_equal(mode_of("a/b2/c"), 02770);
    assert_int_equal(mode_of("a/b"), 0755);
    assert_int_equal(cay__fs_mkdir(&fs, "a/b", 0, true), 0);
    assert_errno(cay__fs_mkdir(&fs, "a/b", 0, false), EEXIST);
    assert_int_equal(cay__fs_symlink(&fs, "/work/a", "la"), 0);
    assert_int_equal(cay__fs_mkdir(&fs, "la/x/y", 0, true), 0);
    assert_int_equal(mode_of("/work/a/x/y"), 0755);
    assert_int_equal(put("file", ""), 0);
    assert_errno(cay__fs_mkdir(&fs, "file/x", 0, true), ENOTDIR);
    assert_errno(cay__fs_mkdir(&fs, "/", 0, false), EBUSY);
    umask(old);
}

static void rename_stat_and_attributes(void **s)
{
    (void)s;
    struct stat st;
    char target[8], v[16];
    assert_int_equal(put("a", "x"), 0);
    assert_int_equal(cay__fs_rename(&fs, "a", "~/moved"), 0);
    assert_string_equal(get("/home/u/moved"), "x");
    assert_errno(cay__fs_stat(&fs, "a", true, &st, NULL, 0), ENOENT);
    assert_int_equal(cay__fs_symlink(&fs, "0123456789", "l"), 0);
    assert_int_equal(cay__fs_stat(&fs, "l", false, &st, target, sizeof target), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_string_equal(target, "0123456");
    assert_errno(cay__fs_stat(&fs, "l", true, &st, NULL, 0), ENOENT);
    assert_int_equal(cay__fs_chown(&fs, "~/moved", UINT32_MAX, UINT32_MAX), 0);
    if (cay__fs_setxattr(&fs, "~/moved", "user.k", "val", 3) < 0 && errno == EOPNOTSUPP)
        return;
    assert_int_equal(cay__fs_getxattr(&fs, "~/moved", "user.k", v, sizeof v), 3);
    assert_errno(cay__fs_setxattr(&fs, "~/moved", "trusted.k", "v", 1), EPERM);
    assert_errno(cay__fs_setxattr(&fs, "~/moved", "user.overlay.opaque", "y", 1), EPERM);
    assert_int_equal(cay__fs_setxattr(&fs, "~/moved", "user.k", NULL, 0), 0);
    assert_errno(cay__fs_getxattr(&fs, "~/moved", "user.k", v, sizeof v), ENODATA);
}

static char seen[1 << 16];
static int note(const cay__fs_entry *e, void *arg)
{
    (void)arg;
    size_t n = strlen(seen);
    snprintf(seen + n, sizeof seen - n, "%s ", e->path);
    return 0;
}

static const char *list(const char *path, unsigned depth)
{
    seen[0] = 0;
    int rc = cay__fs_walk_path(&fs, path, &(cay__fs_walk){ .fn = note, .depth = depth });
    return rc < 0 ? NULL : seen;
}

static void lists_are_sorted_and_bounded_in_depth(void **s)
{
    (void)s;
    put("b/2", ""), put("b/1/x", ""), put("a", ""), put("c\n\xff", "");
    assert_string_equal(list(".", 1), "a b c\n\xff ");
    assert_string_equal(list(".", 2), "a b b/1 b/2 c\n\xff ");
    assert_string_equal(list("", 0) ? "" : "no", "no");
    assert_string_equal(list(".", 0), "a b b/1 b/1/x b/2 c\n\xff ");
    assert_null(list("a", 1));
    assert_int_equal(errno, ENOTDIR);
}

static int count(const cay__fs_entry *e, void *arg)
{
    static char last[512];
    size_t *n = arg;
    if (*n && strcmp(last, e->path) >= 0)
        return 7;
    snprintf(last, sizeof last, "%s", e->path);
    ++*n;
    return 0;
}

/* More names than a batch holds, so that they come in several, still sorted and each once. */
static void a_huge_directory_comes_in_batches(void **s)
{
    (void)s;
    enum { N = 9000 };
    char name[240];
    cay__fs_mkdir(&fs, "big", 0, false);
    CAY_AUTOFD d = cay__fs_open(&fs, "big", O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "%07u%0200d", (unsigned)(i * 2654435761u) % 10000000u, i);
        close(openat(d, name, O_CREAT | O_WRONLY, 0600));
    }
    size_t n = 0;
    assert_int_equal(cay__fs_walk_path(&fs, "big", &(cay__fs_walk){ .fn = count, .arg = &n }), 0);
    assert_int_equal(n, N);
    assert_int_equal(cay__fs_remove(&fs, "big", true), 0);
    assert_int_equal(count_dir("/work"), 0);
}

static size_t open_fds(void)
{
    size_t n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static size_t most_fds;
static int deep_entry(const cay__fs_entry *e, void *arg)
{
    unsigned *deepest = arg;
    *deepest = CAY_MAX(*deepest, e->depth);
    if (e->depth % 100 == 0)
        most_fds = CAY_MAX(most_fds, open_fds());
    return 0;
}

static void a_deep_tree_needs_few_descriptors(void **s)
{
    (void)s;
    enum { DEEP = 3000 };
    CAY_AUTOFD d = cay__fs_open(&fs, "/work", O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < DEEP; i++) {
        assert_int_equal(mkdirat(d, "dir", 0755), 0);
        close(openat(d, "after", O_CREAT | O_WRONLY, 0600));
        close(openat(d, "zz", O_CREAT | O_WRONLY, 0600));
        int next = openat(d, "dir", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(d);
        d = next;
    }
    size_t before = open_fds();
    unsigned deepest = 0;
    assert_int_equal(
        cay__fs_walk_path(&fs, "/work", &(cay__fs_walk){ .fn = deep_entry, .arg = &deepest }), 0);
    assert_int_equal(deepest, DEEP);
    assert_true(most_fds <= before + 32);
    assert_int_equal(open_fds(), before);
    assert_int_equal(cay__fs_remove(&fs, "/work", true), 0);
    assert_int_equal(open_fds(), before);
}

static void remove_needs_recursive_for_full_directories(void **s)
{
    (void)s;
    put("d/x/y", "1");
    assert_int_equal(cay__fs_symlink(&fs, "/home", "d/x/link"), 0);
    assert_errno(cay__fs_remove(&fs, "d", false), ENOTEMPTY);
    assert_errno(cay__fs_remove(&fs, "/", true), EBUSY);
    assert_errno(cay__fs_remove(&fs, "nothing", true), ENOENT);
    assert_int_equal(cay__fs_remove(&fs, "d", true), 0);
    assert_int_equal(mode_of("/home/u"), 0755);
}

static void patterns_match_as_in_a_shell(void **s)
{
    (void)s;
    assert_true(cay__fs_match("*.c", "a.c"));
    assert_false(cay__fs_match("*.c", ".c"));
    assert_true(cay__fs_match("a?c", "a\xc3\xa4"
                                     "c"));
    assert_true(cay__fs_match("[a-c]x[!0-9]", "bxz"));
    assert_false(cay__fs_match("[a-c]x[!0-9]", "bx3"));
    assert_true(cay__fs_match("[]x]", "]"));
    assert_true(cay__fs_match("a[b", "a[b"));
    assert_true(cay__fs_match("\\*", "*"));
    assert_false(cay__fs_match("\\*", "x"));
    assert_true(cay__fs_match("a*b*c*", "aXbYbZcW"));
    char many[200];
    memset(many, 'a', sizeof many);
    many[199] = 0;
    assert_false(cay__fs_match("a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", many));
    assert_true(cay__fs_match_path("src/**/*.c", "src/a.c", false));
    assert_true(cay__fs_match_path("src/**/*.c", "src/x/y/a.c", false));
    assert_true(cay__fs_match_path("**/x/**/y", "x/a/x/b/y", false));
    assert_false(cay__fs_match_path("**/x/**/y", "a/b/y", false));
    assert_false(cay__fs_match_path("**/*.c", ".git/a.c", false));
    assert_true(cay__fs_match_path("a/b/c", "a/b", true));
    assert_false(cay__fs_match_path("a/b/c", "a/x", true));
    assert_true(cay__fs_match_path("**", "a/b", false));
}

static const char *globbed(const char *base, const char *pat)
{
    seen[0] = 0;
    return cay__fs_glob(&fs, base, pat, note, NULL) < 0 ? NULL : seen;
}

static void glob_finds_below_its_base(void **s)
{
    (void)s;
    put("src/a.c", ""), put("src/x/b.c", ""), put("src/.hid/c.c", ""), put("top.c", ""),
        put("src/x/b.h", "");
    assert_string_equal(globbed(".", "**/*.c"), "src/a.c src/x/b.c top.c ");
    assert_string_equal(globbed(".", "src/*"), "src/a.c src/x ");
    assert_string_equal(globbed(".", "src/x/*.h"), "src/x/b.h ");
    assert_string_equal(globbed("src", ".hid/*"), ".hid/c.c ");
    assert_string_equal(globbed(".", "none/*"), "");
    cay__fs_symlink(&fs, "src", "ln");
    assert_string_equal(globbed(".", "ln/*.c"), "ln/a.c ");
    assert_null(globbed(".", "/etc/*"));
    assert_int_equal(errno, EINVAL);
    assert_null(globbed(".", "a/../../*"));
    assert_null(globbed("nowhere", "*"));
    assert_int_equal(errno, ENOENT);
}

static int note_line(const cay__fs_line *l, void *arg)
{
    (void)arg;
    size_t n = strlen(seen);
    snprintf(seen + n, sizeof seen - n, "%s:%lu:%lu:%.*s ", l->path, (unsigned long)l->line,
             (unsigned long)l->column, (int)CAY_MIN(l->len, (size_t)20), l->text);
    return 0;
}

static const char *grepped(const char *base, cay__fs_grep_spec spec)
{
    seen[0] = 0;
    return cay__fs_grep(&fs, base, &spec, note_line, NULL) < 0 ? NULL : seen;
}

static void grep_tells_file_line_and_column(void **s)
{
    (void)s;
    put("a.txt", "one\ntwo foo\nFOO"), put("d/b.c", "foo\n"), put("skip.bin", "foo\n");
    cay__fs_put(&fs, "bin", "foo\0foo", 7, &(cay__fs_write){ 0 });
    put("empty", "");
    assert_string_equal(grepped(".", (cay__fs_grep_spec){ .pattern = "fo+" }),
                        "a.txt:2:5:two foo d/b.c:1:1:foo skip.bin:1:1:foo ");
    assert_string_equal(grepped(".", (cay__fs_grep_spec){ .pattern = "foo",
                                                          .plain = true,
                                                          .ignore_case = true,
                                                          .include = "*.txt" }),
                        "a.txt:2:5:two foo a.txt:3:1:FOO ");
    assert_string_equal(grepped(".", (cay__fs_grep_spec){ .pattern = "foo", .max = 1 }),
                        "a.txt:2:5:two foo ");
    assert_string_equal(grepped("d/b.c", (cay__fs_grep_spec){ .pattern = "^f" }), "b.c:1:1:foo ");
    assert_string_equal(grepped(".", (cay__fs_grep_spec){ .pattern = "foo", .include = "d/*" }),
                        "d/b.c:1:1:foo ");
    assert_null(grepped(".", (cay__fs_grep_spec){ .pattern = "(" }));
    assert_int_equal(errno, EINVAL);
    assert_null(grepped(".", (cay__fs_grep_spec){ .pattern = "" }));
    /* a line longer than the buffer, the match in its second piece */
    CAY_AUTOFREE char *big = malloc(100001);
    memset(big, 'x', 100000);
    memcpy(big + 90000, "needle", 7);
    put("big", big);
    assert_int_equal(
        strncmp(grepped(".", (cay__fs_grep_spec){ .pattern = "needle", .plain = true }),
                "big:1:90001:", 12),
        0);
}

/* S-10: one thread exchanges a directory and a link to the outside as fast as it can. */
static volatile bool swapping;
static unsigned long swaps;
static void *swapper(void *arg)
{
    (void)arg;
    for (; swapping; swaps++)
        syscall(SYS_renameat2, t.root, "work/dir", t.root, "work/lnk", 2 /* RENAME_EXCHANGE */);
    return NULL;
}

static int touch_entry(const cay__fs_entry *e, void *arg)
{
    struct stat *out = arg;
    assert_false(e->st->st_ino == out->st_ino && e->st->st_dev == out->st_dev);
    return 0;
}

static void racing_exchanges_change_nothing_outside(void **s)
{
    (void)s;
    struct stat before, after, secret;
    char out[200];
    pthread_t th;
    snprintf(out, sizeof out, "%s/secret", t.out);
    assert_int_equal(stat(out, &secret), 0);
    assert_int_equal(stat(t.out, &before), 0);
    cay__fs_mkdir(&fs, "dir/keep", 0, true);
    assert_int_equal(symlinkat(t.out, t.root, "work/lnk"), 0);
    swapping = true;
    pthread_create(&th, NULL, swapper, NULL);
    int64_t until = cay__now_ms() + 1500;
    for (unsigned i = 0; cay__now_ms() < until; i++) {
        put("dir/f", "x");
        put("dir/deep/er/f", "x");
        cay__fs_put(&fs, "dir/secret", "x", 1, &(cay__fs_write){ .append = true });
        cay__fs_chmod(&fs, "dir/secret", 0777);
        cay__fs_rename(&fs, "dir/f", "dir/g");
        cay__fs_mkdir(&fs, "dir/m", 0700, true);
        CAY_AUTOFD fd = cay__fs_open_read(&fs, "dir/secret", NULL);
        char c = 0;
        if (fd >= 0 && read(fd, &c, 1) == 1)
            assert_int_equal(c, 'x');
        cay__fs_walk_path(&fs, "/work", &(cay__fs_walk){ .fn = touch_entry, .arg = &secret });
        cay__fs_remove(&fs, i % 2 ? "dir/deep" : "dir/secret", true);
        if (i % 8 == 0)
            cay__fs_remove(&fs, "dir", true), cay__fs_mkdir(&fs, "dir/keep", 0, true);
    }
    swapping = false;
    pthread_join(th, NULL);
    assert_true(swaps > 1000);
    assert_int_equal(stat(t.out, &after), 0);
    assert_memory_equal(&before.st_mtim, &after.st_mtim, sizeof before.st_mtim);
    assert_memory_equal(&before.st_ctim, &after.st_ctim, sizeof before.st_ctim);
    assert_string_equal(tree_read(t.out, "secret"), "outside");
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(paths_begin_at_workdir_home_or_root),   T(links_resolve_inside_the_root),
        T(magic_links_of_proc_are_refused),       T(special_files_fail_at_once),
        T(writes_keep_or_set_the_mode),           T(an_upload_shows_only_when_committed),
        T(directories_are_made_with_parents),     T(rename_stat_and_attributes),
        T(lists_are_sorted_and_bounded_in_depth), T(a_huge_directory_comes_in_batches),
        T(a_deep_tree_needs_few_descriptors),     T(remove_needs_recursive_for_full_directories),
        T(patterns_match_as_in_a_shell),          T(glob_finds_below_its_base),
        T(grep_tells_file_line_and_column),       T(racing_exchanges_change_nothing_outside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
