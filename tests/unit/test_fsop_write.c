/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are written whole or not at all, and nowhere but below the root. */
#include "fsop.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>

static const cay__fs_write plain = { 0 };

static uint32_t mode_of(const char *path)
{
    struct stat st;
    return cay__fs_stat(&fs, path, true, &st, NULL, 0) < 0 ? 0xffff : st.st_mode & 07777;
}

static void files_write_refuses_dotdot(void **s)
{
    (void)s;
    assert_errno(put_text("..", "x"), EINVAL);
    assert_errno(put_text(".", "x"), EINVAL);
    assert_errno(put_text("a/..", "x"), EINVAL);
    assert_errno(put_text("a/.", "x"), EINVAL);
    assert_errno(put_text("/", "x"), EBUSY);
    assert_errno(put_text("///", "x"), EBUSY);
    assert_errno(put_text("", "x"), ENOENT);
}

static void dotdot_on_the_way_ends_at_the_root(void **s)
{
    (void)s;
    assert_int_equal(put_text("../../../../out/secret", "mine"), 0);
    assert_string_equal(tree_read(t.in, "out/secret"), "mine");
    assert_string_equal(tree_read(t.out, "secret"), "outside");
}

static void files_of_any_size_and_any_bytes_come_back(void **s)
{
    (void)s;
    static char data[300000];
    static const size_t sizes[] = { 0, 1, 4095, 4096, 65536, sizeof data };
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)(i * 7);
    for (size_t i = 0; i < CAY_LEN(sizes); i++) {
        struct stat st;
        static char back[sizeof data + 1];
        assert_int_equal(cay__fs_put(&fs, "f", data, sizes[i], &plain), 0);
        CAY_AUTOFD fd = cay__fs_open_read(&fs, "f", &st);
        assert_int_equal(st.st_size, sizes[i]);
        assert_int_equal(cay__fd_read_all(fd, back, sizeof back), sizes[i]);
        assert_memory_equal(back, data, sizes[i]);
    }
    assert_int_equal(names_in("/work"), 1);
}

static void a_name_may_have_255_bytes(void **s)
{
    (void)s;
    char name[257];
    memset(name, 'n', sizeof name);
    name[255] = 0;
    assert_int_equal(put_text(name, "x"), 0);
    assert_int_equal(put_text(name, "y"), 0);
    assert_string_equal(get_text(name), "y");
    name[255] = 'n';
    name[256] = 0;
    assert_errno(put_text(name, "x"), ENAMETOOLONG);
    assert_int_equal(names_in("/work"), 1);
}

static void links_are_written_through_up_to_a_limit(void **s)
{
    (void)s;
    char from[16], to[16];
    for (int i = 0; i < 45; i++) {
        snprintf(from, sizeof from, "l%d", i);
        snprintf(to, sizeof to, "l%d", i + 1);
        assert_int_equal(cay__fs_symlink(&fs, to, from), 0);
    }
    assert_int_equal(put_text("l6", "end"), 0); /* 39 links */
    assert_string_equal(tree_read(t.in, "work/l45"), "end");
    assert_errno(put_text("l5", "x"), ELOOP);
    assert_errno(put_text("l0", "x"), ELOOP);
    assert_string_equal(tree_read(t.in, "work/l45"), "end");
}

static void a_link_that_leads_nowhere_is_written_where_it_points(void **s)
{
    (void)s;
    assert_int_equal(cay__fs_mkdir(&fs, "d", 0, false), 0);
    assert_int_equal(cay__fs_symlink(&fs, "new", "d/rel"), 0);
    assert_int_equal(cay__fs_symlink(&fs, "/work/abs", "d/abs"), 0);
    assert_int_equal(cay__fs_symlink(&fs, "../up", "d/up"), 0);
    assert_int_equal(put_text("d/rel", "1"), 0);
    assert_int_equal(put_text("d/abs", "2"), 0);
    assert_int_equal(put_text("d/up", "3"), 0);
    assert_string_equal(tree_read(t.in, "work/d/new"), "1");
    assert_string_equal(tree_read(t.in, "work/abs"), "2");
    assert_string_equal(tree_read(t.in, "work/up"), "3");
    struct stat st;
    assert_int_equal(cay__fs_stat(&fs, "d/rel", false, &st, NULL, 0), 0);
    assert_true(S_ISLNK(st.st_mode));
    /* A target that fills the path, and one that is a directory. */
    char target[4090];
    memset(target, 'x', sizeof target);
    target[sizeof target - 1] = 0;
    assert_int_equal(cay__fs_symlink(&fs, target, "long"), 0);
    assert_errno(put_text("long", "x"), ENAMETOOLONG);
    assert_int_equal(cay__fs_symlink(&fs, "d", "dir"), 0);
    assert_errno(put_text("dir", "x"), EISDIR);
}

static void an_exclusive_write_refuses_even_a_link_to_nowhere(void **s)
{
    (void)s;
    const cay__fs_write only_new = { .exclusive = true };
    assert_int_equal(cay__fs_symlink(&fs, "nowhere", "l"), 0);
    assert_errno(cay__fs_put(&fs, "l", "x", 1, &only_new), EEXIST);
    assert_int_equal(cay__fs_mkdir(&fs, "d", 0, false), 0);
    assert_errno(cay__fs_put(&fs, "d", "x", 1, &only_new), EEXIST);
    assert_int_equal(cay__fs_put(&fs, "f", "x", 1, &only_new), 0);
    assert_errno(cay__fs_put(&fs, "f", "y", 1, &only_new), EEXIST);
    assert_string_equal(get_text("f"), "x");
    assert_int_equal(names_in("/work"), 3);
}

static void the_mode_does_not_depend_on_the_umask(void **s)
{
    (void)s;
    mode_t old = umask(077);
    assert_int_equal(cay__fs_put(&fs, "a", "x", 1, &(cay__fs_write){ .mode = 0666 }), 0);
    assert_int_equal(put_text("p/q/b", "x"), 0);
    umask(old);
    assert_int_equal(mode_of("a"), 0666);
    assert_int_equal(mode_of("p/q/b"), 0644);
    assert_int_equal(mode_of("p/q"), 0755);
    assert_int_equal(mode_of("p"), 0755);
    assert_errno(cay__fs_put(&fs, "a", "x", 1, &(cay__fs_write){ .mode = 010000 }), EINVAL);
}

static void bytes_on_their_way_are_for_the_owner_only(void **s)
{
    (void)s;
    cay__fs_upload up;
    struct stat st;
    assert_int_equal(cay__fs_put_open(&fs, "f", &(cay__fs_write){ .mode = 0666 }, &up), 0);
    assert_int_equal(fstat(up.fd, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_true(strncmp(up.tmp, CAY__FS_TMP "n", strlen(CAY__FS_TMP) + 1) == 0);
    assert_int_equal(cay__fs_put_commit(&up), 0);
    assert_int_equal(mode_of("f"), 0666);
    assert_int_equal(cay__fs_put_open(&fs, "f", &plain, &up), 0);
    assert_true(strncmp(up.tmp, CAY__FS_TMP "r", strlen(CAY__FS_TMP) + 1) == 0);
    assert_int_equal(names_in("/work"), 2);
    cay__fs_put_abort(&up);
    cay__fs_put_abort(&up); /* a second time does no harm */
    assert_int_equal(names_in("/work"), 1);
}

static void a_replaced_file_keeps_its_owner(void **s)
{
    (void)s;
    struct stat st;
    if (geteuid() != 0)
        skip();
    assert_int_equal(put_text("f", "1"), 0);
    assert_int_equal(cay__fs_chown(&fs, "f", 1234, 5678), 0);
    assert_int_equal(cay__fs_chmod(&fs, "f", 04755), 0);
    assert_int_equal(put_text("f", "2"), 0);
    assert_int_equal(cay__fs_stat(&fs, "f", true, &st, NULL, 0), 0);
    assert_int_equal(st.st_uid, 1234);
    assert_int_equal(st.st_gid, 5678);
    assert_int_equal(st.st_mode & 07777, 04755);
    /* Either of the two may be the same. */
    static const uint32_t owners[][2] = { { 0, 5678 }, { 1234, 0 } };
    for (size_t i = 0; i < CAY_LEN(owners); i++) {
        assert_int_equal(cay__fs_chown(&fs, "f", owners[i][0], owners[i][1]), 0);
        assert_int_equal(put_text("f", "3"), 0);
        assert_int_equal(cay__fs_stat(&fs, "f", true, &st, NULL, 0), 0);
        assert_int_equal(st.st_uid, owners[i][0]);
        assert_int_equal(st.st_gid, owners[i][1]);
    }
}

static int replace_setuid(void)
{
    return put_text("d/suid", "mine");
}

/* Somebody else's file in a directory where all may write: the new one is the writer's own, and
 * must not be set-uid. */
static void a_set_id_bit_is_not_carried_to_another_owner(void **s)
{
    (void)s;
    struct stat st;
    if (geteuid() != 0)
        skip();
    assert_int_equal(put_text("d/suid", "root's"), 0);
    assert_int_equal(cay__fs_chmod(&fs, "d", 0777), 0);
    assert_int_equal(cay__fs_chmod(&fs, "d/suid", 06777), 0);
    assert_int_equal(as_nobody(replace_setuid), 0);
    assert_string_equal(get_text("d/suid"), "mine");
    assert_int_equal(cay__fs_stat(&fs, "d/suid", true, &st, NULL, 0), 0);
    assert_int_equal(st.st_uid, 65534);
    assert_int_equal(st.st_mode & 07777, 0777);
}

static int replace_readonly(void)
{
    return put_text("d/ro", "mine");
}

static int append_readonly(void)
{
    return cay__fs_put(&fs, "d/ro", "x", 1, &(cay__fs_write){ .append = true });
}

static int write_into_closed(void)
{
    return put_text("/closed/new", "x");
}

static void a_file_that_may_not_be_written_is_not_replaced(void **s)
{
    (void)s;
    assert_int_equal(put_text("d/ro", "kept"), 0);
    assert_int_equal(cay__fs_chmod(&fs, "d", 0777), 0);
    assert_int_equal(cay__fs_chmod(&fs, "d/ro", 0444), 0);
    assert_int_equal(as_nobody(replace_readonly), EACCES);
    assert_int_equal(as_nobody(append_readonly), EACCES);
    assert_int_equal(cay__fs_mkdir(&fs, "/closed", 0555, false), 0);
    assert_int_equal(as_nobody(write_into_closed), EACCES);
    assert_string_equal(get_text("d/ro"), "kept");
    assert_int_equal(names_in("d"), 1);
}

static void other_names_of_a_file_keep_the_old_bytes(void **s)
{
    (void)s;
    assert_int_equal(put_text("a", "old"), 0);
    assert_int_equal(linkat(t.root, "work/a", t.root, "work/b", 0), 0);
    assert_int_equal(put_text("a", "new"), 0);
    assert_string_equal(get_text("b"), "old");
    assert_int_equal(linkat(t.root, "work/a", t.root, "work/c", 0), 0);
    assert_int_equal(cay__fs_put(&fs, "a", "er", 2, &(cay__fs_write){ .append = true }), 0);
    assert_string_equal(get_text("c"), "newer"); /* an append is to the file itself */
}

/* Whoever reads meanwhile has a descriptor of the old file. */
static void a_reader_keeps_the_file_that_it_opened(void **s)
{
    (void)s;
    char buf[8] = "";
    assert_int_equal(put_text("f", "old"), 0);
    CAY_AUTOFD fd = cay__fs_open_read(&fs, "f", NULL);
    assert_int_equal(put_text("f", "new"), 0);
    assert_int_equal(read(fd, buf, sizeof buf), 3);
    assert_string_equal(buf, "old");
}

/* Bounds the size of files of this process until it is called with RLIM_INFINITY. */
static void limit_file_size(rlim_t most)
{
    struct rlimit l;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &l), 0);
    l.rlim_cur = CAY_MIN(most, l.rlim_max);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &l), 0);
    signal(SIGXFSZ, most == RLIM_INFINITY ? SIG_DFL : SIG_IGN);
}

static void a_write_that_fails_leaves_the_old_bytes(void **s)
{
    (void)s;
    static char data[20000];
    assert_int_equal(put_text("f", "old"), 0);
    limit_file_size(15000);
    errno = 0;
    int rc = cay__fs_put(&fs, "f", data, sizeof data, &plain), e = errno;
    int again = cay__fs_put(&fs, "g", data, sizeof data, &plain);
    limit_file_size(RLIM_INFINITY);
    assert_int_equal(rc, -1);
    assert_int_equal(e, EFBIG);
    assert_int_equal(again, -1);
    assert_string_equal(get_text("f"), "old");
    assert_int_equal(names_in("/work"), 1);
}

static void an_append_that_does_not_fit_is_taken_back(void **s)
{
    (void)s;
    static char data[30000];
    struct stat st;
    cay__fs_upload up;
    assert_int_equal(cay__fs_put(&fs, "f", data, 10000, &plain), 0);
    assert_int_equal(cay__fs_put_open(&fs, "f", &(cay__fs_write){ .append = true }, &up), 0);
    assert_true(cay__fd_write_all(up.fd, data, 30000));
    limit_file_size(35000); /* the last of the pieces does not fit */
    errno = 0;
    int rc = cay__fs_put_commit(&up), e = errno;
    limit_file_size(RLIM_INFINITY);
    assert_int_equal(rc, -1);
    assert_int_equal(e, EFBIG);
    assert_int_equal(cay__fs_stat(&fs, "f", true, &st, NULL, 0), 0);
    assert_int_equal(st.st_size, 10000);
    assert_int_equal(names_in("/work"), 1);
}

static void appends_make_follow_and_refuse_as_writes_do(void **s)
{
    (void)s;
    const cay__fs_write more = { .append = true };
    assert_int_equal(cay__fs_put(&fs, "new", "", 0, &more), 0);
    assert_string_equal(get_text("new"), "");
    assert_int_equal(mode_of("new"), 0644);
    assert_int_equal(cay__fs_symlink(&fs, "new", "l"), 0);
    assert_int_equal(cay__fs_put(&fs, "l", "a\0b", 3, &more), 0);
    struct stat st;
    assert_int_equal(cay__fs_stat(&fs, "new", true, &st, NULL, 0), 0);
    assert_int_equal(st.st_size, 3);
    assert_errno(cay__fs_put(&fs, "/work", "x", 1, &more), EISDIR);
    assert_errno(cay__fs_put(&fs, "no/dir", "x", 1, &more), ENOENT);
    assert_int_equal(
        cay__fs_put(&fs, "with/dir", "x", 1, &(cay__fs_write){ .append = true, .parents = true }),
        0);
    assert_string_equal(get_text("with/dir"), "x");
}

static void a_directory_that_moves_takes_its_upload_along(void **s)
{
    (void)s;
    cay__fs_upload up;
    assert_int_equal(cay__fs_mkdir(&fs, "d", 0, false), 0);
    assert_int_equal(cay__fs_put_open(&fs, "d/f", &plain, &up), 0);
    assert_int_equal(cay__fs_rename(&fs, "d", "e"), 0);
    assert_int_equal(cay__fs_symlink(&fs, "/home", "d"), 0);
    assert_true(cay__fd_write_all(up.fd, "x", 1));
    assert_int_equal(cay__fs_put_commit(&up), 0);
    assert_string_equal(get_text("e/f"), "x");
}

static void an_upload_into_a_directory_that_goes_fails(void **s)
{
    (void)s;
    cay__fs_upload up;
    size_t before = fds_open();
    assert_int_equal(cay__fs_mkdir(&fs, "d", 0, false), 0);
    assert_int_equal(cay__fs_put_open(&fs, "d/f", &plain, &up), 0);
    assert_int_equal(cay__fs_remove(&fs, "d", true), 0);
    assert_errno(cay__fs_put_commit(&up), ENOENT);
    assert_int_equal(names_in("/work"), 0);
    /* And one whose name became a directory meanwhile. */
    assert_int_equal(cay__fs_put_open(&fs, "f", &plain, &up), 0);
    assert_int_equal(cay__fs_mkdir(&fs, "f", 0, false), 0);
    assert_errno(cay__fs_put_commit(&up), EISDIR);
    assert_int_equal(names_in("/work"), 1);
    assert_int_equal(fds_open(), before);
}

static void parents_are_made_through_links_but_not_through_files(void **s)
{
    (void)s;
    assert_int_equal(cay__fs_mkdir(&fs, "real", 0, false), 0);
    assert_int_equal(cay__fs_symlink(&fs, "real", "l"), 0);
    assert_int_equal(put_text("l/a/b/c", "x"), 0);
    assert_string_equal(get_text("real/a/b/c"), "x");
    assert_int_equal(put_text("file", ""), 0);
    assert_errno(put_text("file/a/b", "x"), ENOTDIR);
    assert_errno(put_text("file/a", "x"), ENOTDIR);
    assert_errno(cay__fs_put(&fs, "no/a", "x", 1, &plain), ENOENT);
    assert_errno(cay__fs_stat(&fs, "no", false, &(struct stat){ 0 }, NULL, 0), ENOENT);
}

enum { MANY = 4, ROUNDS = 200, BYTES = 3000 };
static atomic_int winners, turn_of, ready;
static atomic_bool writing;

static void *race_exclusive(void *arg)
{
    (void)arg;
    char name[16];
    for (int i = 0; i < ROUNDS; i++) {
        ready++;
        while (turn_of <= i)
            sched_yield();
        snprintf(name, sizeof name, "f%d", i);
        if (cay__fs_put(&fs, name, "x", 1, &(cay__fs_write){ .exclusive = true }) == 0)
            winners++;
        else if (errno != EEXIST)
            winners += 1000;
    }
    return NULL;
}

static void one_of_many_exclusive_writers_wins(void **s)
{
    (void)s;
    pthread_t th[MANY];
    winners = turn_of = ready = 0;
    for (int i = 0; i < MANY; i++)
        assert_int_equal(pthread_create(&th[i], NULL, race_exclusive, NULL), 0);
    for (int i = 0; i < ROUNDS; i++) { /* all of them begin a round together */
        while (ready < MANY * (i + 1))
            sched_yield();
        turn_of++;
    }
    for (int i = 0; i < MANY; i++)
        pthread_join(th[i], NULL);
    assert_int_equal(winners, ROUNDS);
    assert_int_equal(names_in("/work"), ROUNDS);
}

static void *write_in_turns(void *arg)
{
    (void)arg;
    char data[BYTES];
    for (int i = 0; writing; i++) {
        size_t n = i % 2 ? BYTES : BYTES / 3;
        memset(data, i % 2 ? 'b' : 'a', n);
        if (cay__fs_put(&fs, "f", data, n, &plain) < 0)
            abort();
    }
    return NULL;
}

static void a_reader_sees_the_old_bytes_or_the_new(void **s)
{
    (void)s;
    pthread_t th;
    char data[BYTES + 1];
    unsigned seen[2] = { 0 };
    memset(data, 'b', BYTES);
    assert_int_equal(cay__fs_put(&fs, "f", data, BYTES, &plain), 0);
    writing = true;
    assert_int_equal(pthread_create(&th, NULL, write_in_turns, NULL), 0);
    int64_t end = cay__now_ms() + 5000;
    while ((seen[0] < 300 || seen[1] < 300) && cay__now_ms() < end) {
        CAY_AUTOFD fd = cay__fs_open_read(&fs, "f", NULL);
        assert_true(fd >= 0);
        ssize_t n = cay__fd_read_all(fd, data, sizeof data);
        bool is_long = data[0] == 'b';
        assert_int_equal(n, is_long ? BYTES : BYTES / 3);
        for (ssize_t i = 1; i < n; i++)
            assert_int_equal(data[i], data[0]);
        seen[is_long]++;
    }
    writing = false;
    pthread_join(th, NULL);
    assert_true(seen[0] > 0 && seen[1] > 0);
}

static void *append_lines(void *arg)
{
    char line[64];
    memset(line, *(const char *)arg, sizeof line);
    line[63] = '\n';
    for (int i = 0; i < ROUNDS; i++)
        if (cay__fs_put(&fs, "log", line, sizeof line, &(cay__fs_write){ .append = true }) < 0)
            abort();
    return NULL;
}

static void appends_of_many_writers_stay_whole(void **s)
{
    (void)s;
    pthread_t th[MANY];
    static char letters[] = "abcd", data[MANY * ROUNDS * 64 + 1];
    assert_int_equal(put_text("log", ""), 0);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(pthread_create(&th[i], NULL, append_lines, &letters[i]), 0);
    for (int i = 0; i < MANY; i++)
        pthread_join(th[i], NULL);
    CAY_AUTOFD fd = cay__fs_open_read(&fs, "log", NULL);
    assert_int_equal(cay__fd_read_all(fd, data, sizeof data), MANY * ROUNDS * 64);
    for (size_t at = 0; at < MANY * ROUNDS * 64; at += 64) {
        for (size_t i = 0; i < 63; i++)
            assert_int_equal(data[at + i], data[at]);
        assert_int_equal(data[at + 63], '\n');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(files_write_refuses_dotdot),
        T(dotdot_on_the_way_ends_at_the_root),
        T(files_of_any_size_and_any_bytes_come_back),
        T(a_name_may_have_255_bytes),
        T(links_are_written_through_up_to_a_limit),
        T(a_link_that_leads_nowhere_is_written_where_it_points),
        T(an_exclusive_write_refuses_even_a_link_to_nowhere),
        T(the_mode_does_not_depend_on_the_umask),
        T(bytes_on_their_way_are_for_the_owner_only),
        T(a_replaced_file_keeps_its_owner),
        T(a_set_id_bit_is_not_carried_to_another_owner),
        T(a_file_that_may_not_be_written_is_not_replaced),
        T(other_names_of_a_file_keep_the_old_bytes),
        T(a_reader_keeps_the_file_that_it_opened),
        T(a_write_that_fails_leaves_the_old_bytes),
        T(an_append_that_does_not_fit_is_taken_back),
        T(appends_make_follow_and_refuse_as_writes_do),
        T(a_directory_that_moves_takes_its_upload_along),
        T(an_upload_into_a_directory_that_goes_fails),
        T(parents_are_made_through_links_but_not_through_files),
        T(one_of_many_exclusive_writers_wins),
        T(a_reader_sees_the_old_bytes_or_the_new),
        T(appends_of_many_writers_stay_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
