/* SPDX-License-Identifier: Apache-2.0 */
#include "fsop.h"
#include <base/str.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/xattr.h>

static int setup_home(void **s)
{
    setup(s);
    return cay__fs_mkdir(&fs, "/home/u", 0, true);
}

static uint32_t mode_of(const char *path)
{
    struct stat st;
    return cay__fs_stat(&fs, path, true, &st, NULL, 0) < 0 ? 0xffff : st.st_mode & 07777;
}

static void paths_begin_at_workdir_home_or_root(void **s)
{
    (void)s;
    assert_int_equal(put_text("a.txt", "one"), 0);
    assert_string_equal(get_text("/work/a.txt"), "one");
    assert_string_equal(get_text("../work/./a.txt"), "one");
    assert_int_equal(put_text("~/b", "two"), 0);
    assert_string_equal(get_text("/home/u/b"), "two");
    assert_int_equal(put_text("~x", "three"), 0);
    assert_string_equal(get_text("/work/~x"), "three");
    assert_string_equal(get_text("/../../../../../work/a.txt"), "one");
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
    assert_int_equal(put_text("esc2", "mine"), 0);
    assert_string_equal(tree_read(t.in, "out/secret"), "mine");
    assert_int_equal(cay__fs_remove(&fs, "esc1", true), 0);
    assert_int_equal(cay__fs_remove(&fs, "escdir", true), 0);
    assert_string_equal(tree_read(t.in, "out/secret"), "mine");
    assert_string_equal(tree_read(t.out, "secret"), "outside");
    assert_int_equal(cay__fs_symlink(&fs, "loop", "loop"), 0);
    assert_errno(put_text("loop", "x"), ELOOP);
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
    assert_errno(put_text("fifo", "x"), ENXIO);
    assert_errno(cay__fs_put(&fs, "fifo", "x", 1, &(cay__fs_write){ .append = true }), ENXIO);
    assert_errno(put_text("/work", "x"), EISDIR);
    CAY_AUTOFD dev = open("/dev", O_PATH | O_DIRECTORY);
    cay__fs d = { .root = dev };
    assert_errno(cay__fs_open_read(&d, "/null", NULL), ENXIO);
    assert_true(cay__now_ms() - t0 < 5000);
}

static void writes_keep_or_set_the_mode(void **s)
{
    (void)s;
    assert_int_equal(put_text("m", "1"), 0);
    assert_int_equal(mode_of("m"), 0644);
    assert_int_equal(cay__fs_chmod(&fs, "m", 0751), 0);
    assert_int_equal(put_text("m", "2"), 0);
    assert_int_equal(mode_of("m"), 0751);
    assert_int_equal(cay__fs_put(&fs, "m", "3", 1, &(cay__fs_write){ .mode = 06755 }), 0);
    assert_int_equal(mode_of("m"), 06755);
    assert_errno(cay__fs_put(&fs, "m", "3", 1, &(cay__fs_write){ .mode = 0100644 }), EINVAL);
    assert_int_equal(cay__fs_put(&fs, "m", "45", 2, &(cay__fs_write){ .append = true }), 0);
    assert_string_equal(get_text("m"), "345");
    assert_int_equal(
        cay__fs_put(&fs, "new", "45", 2, &(cay__fs_write){ .append = true, .mode = 0600 }), 0);
    assert_int_equal(mode_of("new"), 0600);
    assert_errno(cay__fs_put(&fs, "m", "x", 1, &(cay__fs_write){ .exclusive = true }), EEXIST);
    assert_errno(cay__fs_put(&fs, "no/such/dir", "x", 1, &(cay__fs_write){ 0 }), ENOENT);
    assert_int_equal(put_text("deep/er/file", "x"), 0);
    assert_int_equal(names_in("/work"), 3);
}

static void an_upload_shows_only_when_committed(void **s)
{
    (void)s;
    cay__fs_upload up;
    assert_int_equal(put_text("f", "old"), 0);
    assert_int_equal(cay__fs_put_open(&fs, "f", &(cay__fs_write){ 0 }, &up), 0);
    assert_true(cay__fd_write_all(up.fd, "new", 3));
    assert_string_equal(get_text("f"), "old");
    cay__fs_put_abort(&up);
    assert_int_equal(names_in("/work"), 1);
    assert_int_equal(cay__fs_put_open(&fs, "f", &(cay__fs_write){ .append = true }, &up), 0);
    assert_true(cay__fd_write_all(up.fd, "new", 3));
    assert_int_equal(cay__fs_put_commit(&up), 0);
    assert_string_equal(get_text("f"), "oldnew");
    /* somebody makes the name while an exclusive upload runs */
    assert_int_equal(cay__fs_put_open(&fs, "g", &(cay__fs_write){ .exclusive = true }, &up), 0);
    assert_int_equal(put_text("g", "first"), 0);
    assert_errno(cay__fs_put_commit(&up), EEXIST);
    assert_string_equal(get_text("g"), "first");
    assert_int_equal(names_in("/work"), 2);
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
    assert_int_equal(put_text("file", ""), 0);
    assert_errno(cay__fs_mkdir(&fs, "file/x", 0, true), ENOTDIR);
    assert_errno(cay__fs_mkdir(&fs, "/", 0, false), EBUSY);
    umask(old);
}

static void rename_stat_and_attributes(void **s)
{
    (void)s;
    struct stat st;
    char target[8], v[16];
    assert_int_equal(put_text("a", "x"), 0);
    assert_int_equal(cay__fs_rename(&fs, "a", "~/moved"), 0);
    assert_string_equal(get_text("/home/u/moved"), "x");
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
    put_text("b/2", ""), put_text("b/1/x", ""), put_text("a", ""), put_text("c\n\xff", "");
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
    assert_int_equal(names_in("/work"), 0);
}

static size_t most_fds;
static int deep_entry(const cay__fs_entry *e, void *arg)
{
    unsigned *deepest = arg;
    *deepest = CAY_MAX(*deepest, e->depth);
    if (e->depth % 100 == 0)
        most_fds = CAY_MAX(most_fds, fds_open());
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
    size_t before = fds_open();
    unsigned deepest = 0;
    assert_int_equal(
        cay__fs_walk_path(&fs, "/work", &(cay__fs_walk){ .fn = deep_entry, .arg = &deepest }), 0);
    assert_int_equal(deepest, DEEP);
    assert_true(most_fds <= before + 32);
    assert_int_equal(fds_open(), before);
    assert_int_equal(cay__fs_remove(&fs, "/work", true), 0);
    assert_int_equal(fds_open(), before);
}

static void remove_needs_recursive_for_full_directories(void **s)
{
    (void)s;
    put_text("d/x/y", "1");
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
    put_text("src/a.c", ""), put_text("src/x/b.c", ""), put_text("src/.hid/c.c", ""),
        put_text("top.c", ""), put_text("src/x/b.h", "");
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
    put_text("a.txt", "one\ntwo foo\nFOO"), put_text("d/b.c", "foo\n"),
        put_text("skip.bin", "foo\n");
    cay__fs_put(&fs, "bin", "foo\0foo", 7, &(cay__fs_write){ 0 });
    put_text("empty", "");
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
    put_text("big", big);
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
        put_text("dir/f", "x");
        put_text("dir/deep/er/f", "x");
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

static void paths_fit_up_to_their_limit(void **s)
{
    (void)s;
    char path[CAY__FS_PATH_MAX + 1], abs[CAY__FS_PATH_MAX];
    memset(path, '/', sizeof path);
    path[CAY__FS_PATH_MAX - 1] = 0; /* slashes alone are the root */
    assert_int_equal(cay__fs_path(&fs, path, abs), 0);
    path[CAY__FS_PATH_MAX - 1] = '/';
    path[CAY__FS_PATH_MAX] = 0;
    assert_errno(cay__fs_path(&fs, path, abs), ENAMETOOLONG);
    memset(path, 'a', sizeof path); /* "/work/" is counted, too */
    path[CAY__FS_PATH_MAX - 1 - 6] = 0;
    assert_int_equal(cay__fs_path(&fs, path, abs), 0);
    assert_memory_equal(abs, "/work/aa", 8);
    path[CAY__FS_PATH_MAX - 1 - 6] = 'a';
    path[CAY__FS_PATH_MAX - 6] = 0;
    assert_errno(cay__fs_path(&fs, path, abs), ENAMETOOLONG);
    const cay__fs bare = { .root = t.root }; /* no working directory, no home */
    assert_int_equal(cay__fs_path(&bare, "a", abs), 0);
    assert_int_equal(cay__fs_path(&bare, "~/a", abs), 0);
    assert_int_equal(cay__fs_put(&bare, "~/a", "x", 1, &(cay__fs_write){ 0 }), 0);
    assert_string_equal(tree_read(t.in, "a"), "x");
}

static void a_parent_is_a_directory_and_a_name(void **s)
{
    (void)s;
    char name[256];
    static const char *const rows[][2] = {
        { "f", "f" },   { "/work/f", "f" },   { "/work//f//", "f" }, { "/f", "f" },
        { "./f", "f" }, { "../work/f", "f" }, { "~/f", "f" },
    };
    for (size_t i = 0; i < CAY_LEN(rows); i++) {
        CAY_AUTOFD dir = cay__fs_parent(&fs, rows[i][0], name);
        assert_true(dir >= 0);
        assert_string_equal(name, rows[i][1]);
    }
    assert_errno(cay__fs_parent(&fs, "/", name), EBUSY);
    assert_errno(cay__fs_parent(&fs, ".", name), EINVAL);
    assert_errno(cay__fs_parent(&fs, "f/..", name), EINVAL);
    assert_errno(cay__fs_parent(&fs, "none/f", name), ENOENT);
    assert_int_equal(put_text("f", ""), 0);
    assert_errno(cay__fs_parent(&fs, "f/g", name), ENOTDIR);
}

static void modes_are_changed_behind_links_and_exactly(void **s)
{
    (void)s;
    assert_int_equal(put_text("f", ""), 0);
    assert_int_equal(cay__fs_symlink(&fs, "f", "l"), 0);
    assert_int_equal(cay__fs_chmod(&fs, "l", 0), 0);
    assert_int_equal(mode_of("f"), 0);
    assert_int_equal(cay__fs_chmod(&fs, "f", 07777), 0);
    assert_int_equal(mode_of("f"), 07777);
    assert_errno(cay__fs_chmod(&fs, "f", 010000), EINVAL);
    assert_errno(cay__fs_chmod(&fs, "f", UINT32_MAX), EINVAL);
    assert_int_equal(mode_of("f"), 07777);
}

static void renames_move_links_and_replace_only_what_fits(void **s)
{
    (void)s;
    struct stat st;
    assert_int_equal(put_text("f", "1"), 0);
    assert_int_equal(put_text("d/x", ""), 0);
    assert_int_equal(put_text("e/y", ""), 0);
    assert_int_equal(cay__fs_symlink(&fs, "f", "l"), 0);
    assert_int_equal(cay__fs_rename(&fs, "l", "d/l"), 0);
    assert_int_equal(cay__fs_stat(&fs, "d/l", false, &st, NULL, 0), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_errno(cay__fs_rename(&fs, "d", "e"), ENOTEMPTY);
    assert_errno(cay__fs_rename(&fs, "f", "e"), EISDIR);
    assert_errno(cay__fs_rename(&fs, "d", "f"), ENOTDIR);
    assert_errno(cay__fs_rename(&fs, "d", "d/inside"), EINVAL);
    assert_errno(cay__fs_rename(&fs, "none", "f"), ENOENT);
    assert_errno(cay__fs_rename(&fs, "f", ".."), EINVAL);
    assert_errno(cay__fs_rename(&fs, "/", "x"), EBUSY);
    assert_string_equal(get_text("f"), "1");
}

static void links_are_made_as_they_are_given(void **s)
{
    (void)s;
    struct stat st;
    char target[64];
    assert_int_equal(cay__fs_symlink(&fs, "../../../\xff\n", "l"), 0);
    assert_int_equal(cay__fs_stat(&fs, "l", false, &st, target, sizeof target), 0);
    assert_string_equal(target, "../../../\xff\n");
    assert_int_equal(cay__fs_stat(&fs, "l", false, &st, target, 1), 0);
    assert_string_equal(target, "");
    assert_errno(cay__fs_symlink(&fs, "x", "l"), EEXIST);
    assert_errno(cay__fs_symlink(&fs, "", "m"), ENOENT);
    assert_errno(cay__fs_symlink(&fs, "x", "none/l"), ENOENT);
}

enum { NAMES_MAX = 256 };

static int note_name(const char *name, void *arg)
{
    char *end = (char *)arg + strlen(arg);
    assert_true(cay__str_join(end, NAMES_MAX - strlen(arg), name, " ", NULL));
    return strcmp(name, "user.end") == 0 ? 5 : 0;
}

static void attributes_of_others_are_not_listed(void **s)
{
    (void)s;
    char names[NAMES_MAX] = "", path[200];
    assert_int_equal(put_text("f", ""), 0);
    snprintf(path, sizeof path, "%s/work/f", t.in);
    if (cay__fs_setxattr(&fs, "f", "user.a", "", 0) < 0 && errno == EOPNOTSUPP)
        skip();
    setxattr(path, "trusted.k", "v", 1, 0); /* root only */
    assert_int_equal(setxattr(path, "user.overlay.opaque", "y", 1, 0), 0);
    assert_int_equal(cay__fs_listxattr(&fs, "f", note_name, names), 0);
    assert_string_equal(names, "user.a ");
    char v[4];
    assert_errno(cay__fs_getxattr(&fs, "f", "user.overlay.opaque", v, sizeof v), EPERM);
    assert_errno(cay__fs_getxattr(&fs, "f", "user.", v, sizeof v), EPERM);
    assert_errno(cay__fs_getxattr(&fs, "f", "security.selinux", v, sizeof v), EPERM);
    assert_int_equal(cay__fs_setxattr(&fs, "f", "user.end", "12345678", 8), 0);
    assert_errno(cay__fs_getxattr(&fs, "f", "user.end", v, sizeof v), ERANGE);
    assert_int_equal(cay__fs_listxattr(&fs, "f", note_name, names), 5);
    assert_errno(cay__fs_listxattr(&fs, "none", note_name, names), ENOENT);
}

static void *make_parents(void *arg)
{
    char path[64];
    for (int i = 0; i < 200; i++) {
        snprintf(path, sizeof path, "p%d/q/r", i);
        if (cay__fs_mkdir(&fs, path, 0, true) < 0)
            ++*(int *)arg;
    }
    return NULL;
}

static void parents_made_by_many_at_once_are_fine(void **s)
{
    (void)s;
    enum { MANY = 4 };
    pthread_t th[MANY];
    int failed[MANY] = { 0 };
    for (int i = 0; i < MANY; i++)
        assert_int_equal(pthread_create(&th[i], NULL, make_parents, &failed[i]), 0);
    for (int i = 0; i < MANY; i++) {
        pthread_join(th[i], NULL);
        assert_int_equal(failed[i], 0);
    }
    assert_int_equal(names_in("/work"), 200);
}

static void deep_parents_are_made_in_one_call(void **s)
{
    (void)s;
    char path[CAY__FS_PATH_MAX] = "";
    for (int i = 0; i < 1000; i++)
        memcpy(path + 2 * i, "d/", 3);
    size_t before = fds_open();
    assert_int_equal(cay__fs_mkdir(&fs, path, 0700, true), 0);
    assert_int_equal(fds_open(), before);
    assert_int_equal(mode_of(path), 0700);
    assert_int_equal(cay__fs_symlink(&fs, "none", "l"), 0);
    assert_errno(cay__fs_mkdir(&fs, "l/x", 0, true), ENOENT); /* a link to nowhere */
    char name[300];
    memset(name, 'n', sizeof name);
    name[256] = 0;
    assert_errno(cay__fs_mkdir(&fs, name, 0, true), ENAMETOOLONG);
    assert_errno(cay__fs_mkdir(&fs, name, 0, false), ENAMETOOLONG);
}

#define WITH_HOME(f) cmocka_unit_test_setup_teardown(f, setup_home, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_HOME(paths_begin_at_workdir_home_or_root),
        WITH_HOME(links_resolve_inside_the_root),
        WITH_HOME(magic_links_of_proc_are_refused),
        WITH_HOME(special_files_fail_at_once),
        WITH_HOME(writes_keep_or_set_the_mode),
        WITH_HOME(an_upload_shows_only_when_committed),
        WITH_HOME(directories_are_made_with_parents),
        WITH_HOME(rename_stat_and_attributes),
        WITH_HOME(lists_are_sorted_and_bounded_in_depth),
        WITH_HOME(a_huge_directory_comes_in_batches),
        WITH_HOME(a_deep_tree_needs_few_descriptors),
        WITH_HOME(remove_needs_recursive_for_full_directories),
        WITH_HOME(patterns_match_as_in_a_shell),
        WITH_HOME(glob_finds_below_its_base),
        WITH_HOME(grep_tells_file_line_and_column),
        WITH_HOME(racing_exchanges_change_nothing_outside),
        WITH_HOME(paths_fit_up_to_their_limit),
        WITH_HOME(a_parent_is_a_directory_and_a_name),
        WITH_HOME(modes_are_changed_behind_links_and_exactly),
        WITH_HOME(renames_move_links_and_replace_only_what_fits),
        WITH_HOME(links_are_made_as_they_are_given),
        WITH_HOME(attributes_of_others_are_not_listed),
        WITH_HOME(parents_made_by_many_at_once_are_fine),
        WITH_HOME(deep_parents_are_made_in_one_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
