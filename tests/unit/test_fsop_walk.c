/* SPDX-License-Identifier: Apache-2.0 */
/* Walks of a tree that changes meanwhile, and trees that are removed. */
#include "fsop.h"
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>

static char seen[1 << 16];

static int note_entry(const cay__fs_entry *e, void *arg)
{
    (void)arg;
    size_t n = strlen(seen);
    snprintf(seen + n, sizeof seen - n, "%s ", e->path);
    return 0;
}

static int note_leave(const cay__fs_entry *e, void *arg)
{
    (void)arg;
    size_t n = strlen(seen);
    snprintf(seen + n, sizeof seen - n, "<%s ", e->path);
    return 0;
}

static int walk_tree(const char *path, cay__fs_walk w)
{
    seen[0] = 0;
    w.fn = w.fn ? w.fn : note_entry;
    return cay__fs_walk_path(&fs, path, &w);
}

static void put_sample(void)
{
    assert_int_equal(put_text("a/1", ""), 0);
    assert_int_equal(put_text("a/sub/2", ""), 0);
    assert_int_equal(put_text("b/3", ""), 0);
    assert_int_equal(put_text("c", ""), 0);
}

static int check_entry(const cay__fs_entry *e, void *arg)
{
    (void)arg;
    struct stat st;
    const char *slash = strrchr(e->path, '/');
    unsigned depth = 1;
    assert_string_equal(e->name, slash ? slash + 1 : e->path);
    for (const char *p = e->path; (p = strchr(p, '/')); p++)
        depth++;
    assert_int_equal(e->depth, depth);
    assert_int_equal(fstatat(e->dir, e->name, &st, AT_SYMLINK_NOFOLLOW), 0);
    assert_int_equal(st.st_ino, e->st->st_ino);
    assert_int_equal(st.st_mode, e->st->st_mode);
    return note_entry(e, NULL);
}

static void entries_say_where_they_are(void **s)
{
    (void)s;
    put_sample();
    assert_int_equal(walk_tree(".", (cay__fs_walk){ .fn = check_entry }), 0);
    assert_string_equal(seen, "a a/1 a/sub a/sub/2 b b/3 c ");
}

static void a_directory_is_left_after_what_is_inside(void **s)
{
    (void)s;
    put_sample();
    assert_int_equal(cay__fs_mkdir(&fs, "empty", 0, false), 0);
    assert_int_equal(walk_tree(".", (cay__fs_walk){ .leave = note_leave }), 0);
    assert_string_equal(seen, "a a/1 a/sub a/sub/2 <a/sub <a b b/3 <b c empty <empty ");
    assert_int_equal(walk_tree(".", (cay__fs_walk){ .leave = note_leave, .depth = 1 }), 0);
    assert_string_equal(seen, "a b c empty "); /* what is not entered is not left */
}

static int skip_a(const cay__fs_entry *e, void *arg)
{
    note_entry(e, arg);
    return strcmp(e->path, "a") == 0 || strcmp(e->path, "c") == 0 ? CAY__FS_SKIP : 0;
}

static int end_at_2(const cay__fs_entry *e, void *arg)
{
    note_entry(e, arg);
    return strcmp(e->name, "2") == 0 ? 42 : 0;
}

static int end_at_leave(const cay__fs_entry *e, void *arg)
{
    (void)e;
    (void)arg;
    return -7;
}

static void a_callback_may_skip_or_end_the_walk(void **s)
{
    (void)s;
    put_sample();
    size_t before = fds_open();
    assert_int_equal(walk_tree(".", (cay__fs_walk){ .fn = skip_a }), 0);
    assert_string_equal(seen, "a b b/3 c ");
    assert_int_equal(walk_tree(".", (cay__fs_walk){ .fn = end_at_2 }), 42);
    assert_string_equal(seen, "a a/1 a/sub a/sub/2 ");
    assert_int_equal(walk_tree(".", (cay__fs_walk){ .leave = end_at_leave }), -7);
    assert_string_equal(seen, "a a/1 a/sub a/sub/2 ");
    assert_int_equal(fds_open(), before);
}

static void an_empty_directory_has_nothing(void **s)
{
    (void)s;
    assert_int_equal(walk_tree(".", (cay__fs_walk){ .leave = note_leave }), 0);
    assert_string_equal(seen, "");
}

static void a_walk_begins_only_at_directories_and_keeps_no_descriptor(void **s)
{
    (void)s;
    put_sample();
    size_t before = fds_open();
    assert_errno(walk_tree("c", (cay__fs_walk){ 0 }), ENOTDIR);
    assert_errno(walk_tree("none", (cay__fs_walk){ 0 }), ENOENT);
    assert_errno(walk_tree("", (cay__fs_walk){ 0 }), ENOENT);
    int file = cay__fs_open(&fs, "c", O_RDONLY);
    assert_errno(cay__fs_walk_fd(file, &(cay__fs_walk){ .fn = note_entry }), ENOTDIR);
    int dir = cay__fs_open(&fs, "a", O_PATH | O_DIRECTORY);
    assert_errno(cay__fs_walk_fd(dir, &(cay__fs_walk){ .fn = note_entry }), EBADF);
    assert_int_equal(fds_open(), before);
}

static void links_are_named_and_not_entered(void **s)
{
    (void)s;
    put_sample();
    assert_int_equal(cay__fs_symlink(&fs, "..", "a/up"), 0);
    assert_int_equal(cay__fs_symlink(&fs, t.out, "a/out"), 0);
    assert_int_equal(walk_tree("a", (cay__fs_walk){ .leave = note_leave }), 0);
    assert_string_equal(seen, "1 out sub sub/2 <sub up ");
    /* The base may be a link: it is resolved below the root. */
    assert_int_equal(cay__fs_symlink(&fs, "/work/b", "l"), 0);
    assert_int_equal(walk_tree("l", (cay__fs_walk){ 0 }), 0);
    assert_string_equal(seen, "3 ");
    assert_int_equal(cay__fs_symlink(&fs, t.out, "o"), 0);
    assert_errno(walk_tree("o", (cay__fs_walk){ 0 }), ENOENT);
}

static int count_sorted(const cay__fs_entry *e, void *arg)
{
    static unsigned char last;
    unsigned *n = arg;
    unsigned char c = (unsigned char)e->name[0];
    if (*n)
        assert_true(c > last);
    last = c;
    assert_int_equal(e->name[1], 0);
    ++*n;
    return 0;
}

static void names_of_any_byte_are_sorted_by_bytes(void **s)
{
    (void)s;
    CAY_AUTOFD d = cay__fs_open(&fs, "/work", O_RDONLY | O_DIRECTORY);
    for (int c = 255; c > 0; c--) {
        char name[2] = { (char)c, 0 };
        if (c != '/' && c != '.')
            close(openat(d, name, O_CREAT | O_WRONLY, 0600));
    }
    unsigned n = 0;
    assert_int_equal(walk_tree(".", (cay__fs_walk){ .fn = count_sorted, .arg = &n }), 0);
    assert_int_equal(n, 253);
}

static int asked;

static bool stop_at_once(void *arg)
{
    (void)arg;
    asked++;
    return true;
}

static bool stop_at_third(void *arg)
{
    (void)arg;
    return ++asked == 3;
}

static int count_entry(const cay__fs_entry *e, void *arg)
{
    (void)e;
    ++*(unsigned *)arg;
    return 0;
}

static void a_walk_can_be_stopped(void **s)
{
    (void)s;
    unsigned n = 0;
    CAY_AUTOFD d = cay__fs_open(&fs, "/work", O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < 500; i++) {
        char name[8];
        snprintf(name, sizeof name, "%d", i);
        close(openat(d, name, O_CREAT | O_WRONLY, 0600));
    }
    size_t before = fds_open();
    fs.stop = stop_at_third;
    asked = 0;
    assert_errno(walk_tree(".", (cay__fs_walk){ .fn = count_entry, .arg = &n }), ECANCELED);
    assert_in_range(n, 1, 499);
    fs.stop = stop_at_once;
    asked = 0;
    assert_errno(cay__fs_remove(&fs, "/work", true), ECANCELED);
    assert_int_equal(asked, 1);
    assert_in_range(names_in("/work"), 300, 499);
    assert_int_equal(fds_open(), before);
    fs.stop = NULL;
    assert_int_equal(cay__fs_remove(&fs, "/work", true), 0);
}

/* The callback runs between the look at a directory and entering it: the moment of the race. */
static int exchange_for_link(const cay__fs_entry *e, void *arg)
{
    note_entry(e, arg);
    if (strcmp(e->path, "a") == 0) {
        assert_int_equal(renameat(e->dir, "a", e->dir, "zz"), 0);
        assert_int_equal(symlinkat(t.out, e->dir, "a"), 0);
    }
    return 0;
}

static int exchange_for_directory(const cay__fs_entry *e, void *arg)
{
    note_entry(e, arg);
    if (strcmp(e->path, "a") == 0)
        assert_int_equal(syscall(SYS_renameat2, e->dir, "a", e->dir, "b", 2 /* exchange */), 0);
    return 0;
}

static void a_directory_that_is_exchanged_is_not_entered(void **s)
{
    (void)s;
    put_sample();
    assert_int_equal(walk_tree(".", (cay__fs_walk){ .fn = exchange_for_link }), 0);
    /* The new name came after the batch of names was read. */
    assert_string_equal(seen, "a b b/3 c ");
    assert_int_equal(cay__fs_remove(&fs, "a", true), 0);
    assert_int_equal(cay__fs_rename(&fs, "zz", "a"), 0);
    assert_int_equal(walk_tree(".", (cay__fs_walk){ .fn = exchange_for_directory }), 0);
    assert_string_equal(seen, "a b b/1 b/sub b/sub/2 c ");
}

static void links_are_removed_and_never_followed(void **s)
{
    (void)s;
    put_sample();
    CAY_AUTOFD d = cay__fs_open(&fs, "/work", O_RDONLY | O_DIRECTORY);
    assert_int_equal(symlinkat(t.out, d, "a/link"), 0);
    assert_int_equal(cay__fs_remove(&fs, "a/link/", true), 0); /* the link itself */
    assert_string_equal(tree_read(t.out, "secret"), "outside");
    assert_int_equal(symlinkat(t.out, d, "a/link"), 0);
    assert_int_equal(cay__fs_remove(&fs, "a", true), 0);
    assert_string_equal(tree_read(t.out, "secret"), "outside");
    assert_errno(cay__fs_remove(&fs, "a", true), ENOENT);
}

static int remove_next(const cay__fs_entry *e, void *arg)
{
    note_entry(e, arg);
    if (strcmp(e->path, "a") == 0) {
        assert_int_equal(unlinkat(e->dir, "c", 0), 0);
        assert_int_equal(unlinkat(e->dir, "a/1", 0), 0);
    }
    return 0;
}

static void names_that_go_meanwhile_are_passed_over(void **s)
{
    (void)s;
    put_sample();
    assert_int_equal(walk_tree(".", (cay__fs_walk){ .fn = remove_next, .flags = CAY__FS_STRICT }),
                     0);
    assert_string_equal(seen, "a a/sub a/sub/2 b b/3 ");
}

enum { DEEP = 60 };

/* More levels than stay open, and the whole is moved while its deepest entry is looked at: the way
 * back leads elsewhere. */
static int move_from_deep(const cay__fs_entry *e, void *arg)
{
    (void)arg;
    if (e->depth == DEEP)
        assert_int_equal(renameat(t.root, "work/d/d", t.root, "moved"), 0);
    return 0;
}

static void make_deep(void)
{
    CAY_AUTOFD d = cay__fs_open(&fs, "/work", O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < DEEP; i++) {
        assert_int_equal(mkdirat(d, "d", 0755), 0);
        int next = openat(d, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(d);
        d = next;
    }
}

static void a_tree_that_moves_during_a_deep_walk_ends_it(void **s)
{
    (void)s;
    make_deep();
    size_t before = fds_open();
    assert_errno(walk_tree(".", (cay__fs_walk){ .fn = move_from_deep }), EBUSY);
    assert_int_equal(fds_open(), before);
}

static int read_closed(void)
{
    return walk_tree(".", (cay__fs_walk){ .leave = note_leave });
}

static int read_closed_strictly(void)
{
    return walk_tree(".", (cay__fs_walk){ .flags = CAY__FS_STRICT });
}

static int see_the_rest(void)
{
    if (read_closed() < 0)
        return -1;
    errno = EPROTO;
    return strcmp(seen, "a a/1 a/sub a/sub/2 <a/sub <a b c ") == 0 ? 0 : -1;
}

static void a_closed_directory_is_an_error_only_when_strict(void **s)
{
    (void)s;
    if (geteuid() != 0)
        skip();
    put_sample();
    assert_int_equal(cay__fs_chmod(&fs, "b", 0), 0);
    assert_int_equal(as_nobody(see_the_rest), 0);
    assert_int_equal(as_nobody(read_closed_strictly), EACCES);
}

static int remove_guarded(void)
{
    return cay__fs_remove(&fs, "pub", true);
}

static void a_removal_goes_as_far_as_it_may(void **s)
{
    (void)s;
    if (geteuid() != 0)
        skip();
    assert_int_equal(put_text("pub/a/kept", ""), 0);
    assert_int_equal(put_text("pub/b/gone", ""), 0);
    assert_int_equal(cay__fs_chmod(&fs, "/work", 0777), 0);
    assert_int_equal(cay__fs_chmod(&fs, "pub", 0777), 0);
    assert_int_equal(cay__fs_chmod(&fs, "pub/b", 0777), 0);
    assert_int_equal(as_nobody(remove_guarded), EACCES);
    assert_int_equal(walk_tree(".", (cay__fs_walk){ 0 }), 0);
    assert_string_equal(seen, "pub pub/a pub/a/kept ");
}

static int walk_over_mounts(void)
{
    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
        _exit(77);
    char at[160], proc[160];
    snprintf(at, sizeof at, "%s/work/a/sub", t.in);
    snprintf(proc, sizeof proc, "%s/work/b", t.in);
    if (mount("none", at, "tmpfs", 0, NULL) || mount("none", proc, "proc", 0, NULL))
        _exit(77);
    close(fs.root); /* the mounts are those of this namespace */
    fs.root = open(t.in, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (put_text("a/sub/inside", "") < 0)
        return -1;
    errno = EPROTO;
    if (walk_tree(".", (cay__fs_walk){ 0 }) || strcmp(seen, "a a/1 a/sub a/sub/inside b c "))
        return -1;
    errno = ERANGE;
    if (walk_tree(".", (cay__fs_walk){ .flags = CAY__FS_ONE_MOUNT }) ||
        strcmp(seen, "a a/1 a/sub b c "))
        return -1;
    if (cay__fs_remove(&fs, "a/sub", true) == 0 || errno != EBUSY)
        return -1;
    if (cay__fs_remove(&fs, "a", true) == 0 || errno != EBUSY)
        return -1;
    errno = EDOM; /* everything else of it is gone, and nothing below the mount */
    if (walk_tree("a", (cay__fs_walk){ 0 }) || strcmp(seen, "sub sub/inside "))
        return -1;
    return 0;
}

static void mounts_are_entered_by_walks_and_never_by_removals(void **s)
{
    (void)s;
    int status;
    put_sample();
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(walk_over_mounts() < 0 ? errno : 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* Paths longer than any system call takes, names of 250 bytes, and one longer than a walk keeps. */
static void paths_are_longer_than_any_call_takes(void **s)
{
    (void)s;
    enum { LEVELS = 1060 };
    char name[251];
    unsigned n = 0;
    memset(name, 'n', 250);
    name[250] = 0;
    CAY_AUTOFD d = cay__fs_open(&fs, "/work", O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < 200; i++) {
        assert_int_equal(mkdirat(d, name, 0755), 0);
        int next = openat(d, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(d);
        d = next;
    }
    assert_int_equal(walk_tree(".", (cay__fs_walk){ .fn = count_entry, .arg = &n }), 0);
    assert_int_equal(n, 200);
    for (int i = 200; i < LEVELS; i++) {
        assert_int_equal(mkdirat(d, name, 0755), 0);
        int next = openat(d, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(d);
        d = next;
    }
    assert_errno(walk_tree(".", (cay__fs_walk){ .fn = count_entry, .arg = &n }), E2BIG);
    /* From below its middle the rest is short enough. */
    for (int i = 0; i < LEVELS / 2; i++) {
        int up = openat(d, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(d);
        d = up;
    }
    assert_int_equal(renameat(d, name, t.root, "half"), 0);
    assert_int_equal(cay__fs_remove(&fs, "/half", true), 0);
    assert_int_equal(cay__fs_remove(&fs, "/work", true), 0);
}

static void names_that_stand_for_directories_are_not_removed(void **s)
{
    (void)s;
    put_sample();
    assert_errno(cay__fs_remove(&fs, ".", true), EINVAL);
    assert_errno(cay__fs_remove(&fs, "..", true), EINVAL);
    assert_errno(cay__fs_remove(&fs, "a/..", true), EINVAL);
    assert_errno(cay__fs_remove(&fs, "a/.", true), EINVAL);
    assert_errno(cay__fs_remove(&fs, "", true), ENOENT);
    assert_errno(cay__fs_remove(&fs, "///", true), EBUSY);
    assert_errno(cay__fs_remove(&fs, "c/x", true), ENOTDIR);
    assert_int_equal(names_in("/work"), 3);
    assert_int_equal(cay__fs_remove(&fs, "../work/a/", true), 0);
    assert_int_equal(cay__fs_remove(&fs, "c", false), 0);
    assert_int_equal(names_in("/work"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(entries_say_where_they_are),
        T(a_directory_is_left_after_what_is_inside),
        T(a_callback_may_skip_or_end_the_walk),
        T(an_empty_directory_has_nothing),
        T(a_walk_begins_only_at_directories_and_keeps_no_descriptor),
        T(links_are_named_and_not_entered),
        T(names_of_any_byte_are_sorted_by_bytes),
        T(a_walk_can_be_stopped),
        T(a_directory_that_is_exchanged_is_not_entered),
        T(links_are_removed_and_never_followed),
        T(names_that_go_meanwhile_are_passed_over),
        T(a_tree_that_moves_during_a_deep_walk_ends_it),
        T(a_closed_directory_is_an_error_only_when_strict),
        T(a_removal_goes_as_far_as_it_may),
        T(mounts_are_entered_by_walks_and_never_by_removals),
        T(paths_are_longer_than_any_call_takes),
        T(names_that_stand_for_directories_are_not_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
