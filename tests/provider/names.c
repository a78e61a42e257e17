/* SPDX-License-Identifier: Apache-2.0 */
/* Names: stat, directories, links, attributes, patterns, watches. */
#include "suite.h"
#include <poll.h>

static void put_file(const char *path, const char *text)
{
    ERR;
    cay_write w = { .size = sizeof w, .parents = true };
    OK(cay_file_put(S.sb, NULL, path, text, strlen(text), &w, E));
}

static void stat_tells_kind_size_and_link(void **state)
{
    (void)state;
    NEED(stat);
    NEED(symlink);
    ERR;
    cay_stat st = { .size_of = sizeof st };
    bool yes = false;
    put_file("st/file", "12345");
    OK(cay_file_stat(S.sb, NULL, "st/file", true, &st, E));
    assert_int_equal(st.type, CAY_FILE);
    assert_int_equal(st.size, 5);
    assert_true(st.mtime_ns > 1600000000000000000);
    OK(cay_file_stat(S.sb, NULL, "st", true, &st, E));
    assert_int_equal(st.type, CAY_DIR);
    OK(cay_file_symlink(S.sb, NULL, "file", "st/link", E));
    OK(cay_file_stat(S.sb, NULL, "st/link", false, &st, E));
    assert_int_equal(st.type, CAY_LINK);
    assert_string_equal(st.target, "file");
    OK(cay_file_stat(S.sb, NULL, "st/link", true, &st, E));
    assert_int_equal(st.type, CAY_FILE);
    assert_int_equal(cay_file_stat(S.sb, NULL, "st/none", true, &st, E), CAY_ENOENT);
    OK(cay_file_exists(S.sb, NULL, "st/file", &yes, E));
    assert_true(yes);
    OK(cay_file_exists(S.sb, NULL, "st/none", &yes, E));
    assert_false(yes);
    OK(cay_file_exists(S.sb, NULL, "st/file/below", &yes, E));
    assert_false(yes);
    assert_int_equal(cay_file_symlink(S.sb, NULL, "x", "st/link", E), CAY_EEXIST);
}

static int long_target(const cay_dirent *e, void *arg)
{
    if (!strcmp(e->path, "long"))
        assert_string_equal(e->st.target, arg);
    return 0;
}

static void a_links_target_is_told_whole(void **state)
{
    (void)state;
    NEED(stat);
    NEED(symlink);
    ERR;
    cay_stat st = { .size_of = sizeof st };
    char to[4001];
    memset(to, 'x', sizeof to - 1);
    for (size_t i = 0; i < sizeof to; i += 200)
        to[i] = '/';
    to[sizeof to - 1] = 0;
    put_file("links/file", "x");
    OK(cay_file_symlink(S.sb, NULL, to, "links/long", E));
    OK(cay_file_stat(S.sb, NULL, "links/long", false, &st, E));
    assert_string_equal(st.target, to);
    OK(cay_dir_list(S.sb, NULL, "links", 1, long_target, to, E));
}

static void directories_are_made_moved_and_removed(void **state)
{
    (void)state;
    NEED(mkdir);
    ERR;
    cay_stat st = { .size_of = sizeof st };
    bool yes = true;
    OK(cay_file_mkdir(S.sb, NULL, "d1", 0700, false, E));
    OK(cay_file_stat(S.sb, NULL, "d1", true, &st, E));
    assert_int_equal(st.mode, 0700);
    assert_int_equal(cay_file_mkdir(S.sb, NULL, "d1", 0, false, E), CAY_EEXIST);
    OK(cay_file_mkdir(S.sb, NULL, "d1", 0, true, E));
    assert_int_equal(cay_file_mkdir(S.sb, NULL, "d1/a/b", 0, false, E), CAY_ENOENT);
    OK(cay_file_mkdir(S.sb, NULL, "d1/a/b", 0, true, E));
    put_file("d1/a/b/f", "x");
    OK(cay_file_rename(S.sb, NULL, "d1/a", "moved", E));
    OK(cay_file_exists(S.sb, NULL, "moved/b/f", &yes, E));
    assert_true(yes);
    assert_int_equal(cay_file_rename(S.sb, NULL, "absent", "other", E), CAY_ENOENT);
    assert_int_equal(cay_file_remove(S.sb, NULL, "moved", false, E), CAY_EEXIST); /* not empty */
    OK(cay_file_remove(S.sb, NULL, "moved", true, E));
    OK(cay_file_exists(S.sb, NULL, "moved", &yes, E));
    assert_false(yes);
    OK(cay_file_remove(S.sb, NULL, "d1", false, E));
    assert_int_equal(cay_file_remove(S.sb, NULL, "d1", false, E), CAY_ENOENT);
}

static void modes_and_owners_change(void **state)
{
    (void)state;
    NEED(chmod);
    ERR;
    cay_stat st = { .size_of = sizeof st };
    put_file("perm", "x");
    OK(cay_file_chmod(S.sb, NULL, "perm", 0604, E));
    OK(cay_file_stat(S.sb, NULL, "perm", true, &st, E));
    assert_int_equal(st.mode, 0604);
    assert_int_equal(cay_file_chmod(S.sb, NULL, "perm", 010000, E), CAY_EINVAL);
    NEED(chown);
    OK(cay_file_chown(S.sb, NULL, "perm", st.uid, st.gid, E));
    OK(cay_file_chown(S.sb, NULL, "perm", UINT32_MAX, UINT32_MAX, E));
}

static void attributes_are_kept(void **state)
{
    (void)state;
    NEED(setxattr);
    ERR;
    char buf[64];
    size_t n = sizeof buf;
    put_file("attr", "x");
    int rc = cay_file_setxattr(S.sb, NULL, "attr", "user.note", "hi\0there", 8, E);
    if (rc == CAY_ENOTSUP) {
        printf("[   N/A    ] the filesystem of the state directory has no user attributes\n");
        skip();
    }
    OK(rc);
    OK(cay_file_getxattr(S.sb, NULL, "attr", "user.note", buf, &n, E));
    assert_int_equal(n, 8);
    assert_memory_equal(buf, "hi\0there", 8);
    n = sizeof buf;
    assert_int_equal(cay_file_getxattr(S.sb, NULL, "attr", "user.none", buf, &n, E), CAY_ENOENT);
    assert_int_equal(cay_file_setxattr(S.sb, NULL, "attr", "security.capability", "x", 1, E),
                     CAY_EINVAL);
    OK(cay_file_setxattr(S.sb, NULL, "attr", "user.note", NULL, 0, E));
    n = sizeof buf;
    assert_int_equal(cay_file_getxattr(S.sb, NULL, "attr", "user.note", buf, &n, E), CAY_ENOENT);
}

typedef struct names {
    char text[2048];
    size_t count;
} names;

static int on_ent(const cay_dirent *e, void *arg)
{
    names *n = arg;
    size_t at = strlen(n->text);
    snprintf(n->text + at, sizeof n->text - at, "%s%c ", e->path,
             e->st.type == CAY_DIR    ? '/'
             : e->st.type == CAY_LINK ? '@'
                                      : ' ');
    n->count++;
    return 0;
}

static int stop_at_two(const cay_dirent *e, void *arg)
{
    (void)e;
    return ++*(int *)arg == 2 ? 77 : 0;
}

static void make_tree(void)
{
    ERR;
    put_file("tree/b.txt", "beta\nalpha line\n");
    put_file("tree/a.c", "int main;\n");
    put_file("tree/sub/c.txt", "gamma alpha\n");
    put_file("tree/sub/deep/d.c", "ALPHA\n");
    put_file("tree/.hidden", "alpha\n");
    bool yes;
    OK(cay_file_exists(S.sb, NULL, "tree/loop", &yes, E));
    if (!yes)
        OK(cay_file_symlink(S.sb, NULL, "..", "tree/loop", E));
}

static void listings_are_structured_and_follow_no_link(void **state)
{
    (void)state;
    NEED(list_dir);
    ERR;
    names n = { 0 };
    make_tree();
    OK(cay_dir_list(S.sb, NULL, "tree", 1, on_ent, &n, E));
    assert_int_equal(n.count, 5);
    assert_non_null(strstr(n.text, "sub/ "));
    assert_non_null(strstr(n.text, "loop@"));
    assert_null(strstr(n.text, "c.txt"));
    n = (names){ 0 };
    OK(cay_dir_list(S.sb, NULL, "tree", 2, on_ent, &n, E));
    assert_int_equal(n.count, 7);
    n = (names){ 0 };
    OK(cay_dir_list(S.sb, NULL, "tree", 0, on_ent, &n, E));
    assert_int_equal(n.count, 8);
    assert_non_null(strstr(n.text, "sub/deep/d.c"));
    int count = 0;
    assert_int_equal(cay_dir_list(S.sb, NULL, "tree", 0, stop_at_two, &count, E), 77);
    assert_int_equal(count, 2);
    assert_int_equal(cay_dir_list(S.sb, NULL, "tree/a.c", 1, on_ent, &n, E), CAY_ETYPE);
    assert_int_equal(cay_dir_list(S.sb, NULL, "tree/none", 1, on_ent, &n, E), CAY_ENOENT);
}

static void many_entries_are_listed(void **state)
{
    (void)state;
    NEED(list_dir);
    NEED_SHELL();
    ERR;
    names n = { 0 };
    sh_is(S.sb,
          "mkdir many && cd many && seq -f 'entry-with-a-long-name-%06g' 1 5000 | xargs touch", "");
    OK(cay_dir_list(S.sb, NULL, "many", 1, on_ent, &n, E));
    assert_int_equal(n.count, 5000);
    OK(cay_file_remove(S.sb, NULL, "many", true, E));
}

static void patterns_find_files(void **state)
{
    (void)state;
    NEED(glob);
    ERR;
    static const struct {
        const char *pattern, *want;
    } cases[] = { { "*.txt", "b.txt  " },
                  { "**/*.c", "a.c  sub/deep/d.c  " },
                  { "sub/?.txt", "sub/c.txt  " },
                  { "[ab].*", "a.c  b.txt  " },
                  { "nothing*", "" } };
    make_tree();
    for (size_t i = 0; i < CAY_LEN(cases); i++) {
        names n = { 0 };
        OK(cay_file_glob(S.sb, NULL, "tree", cases[i].pattern, on_ent, &n, E));
        assert_string_equal(n.text, cases[i].want);
    }
}

static int on_match(const cay_match *m, void *arg)
{
    names *n = arg;
    size_t at = strlen(n->text);
    snprintf(n->text + at, sizeof n->text - at, "%s:%d:%d:%.*s ", m->path, (int)m->line,
             (int)m->column, (int)m->text_len, m->text);
    n->count++;
    return 0;
}

static void grep_finds_lines(void **state)
{
    (void)state;
    NEED(grep);
    ERR;
    names n = { 0 };
    make_tree();
    cay_grep g = { .size = sizeof g, .pattern = "alpha" };
    OK(cay_file_grep(S.sb, NULL, "tree", &g, on_match, &n, E));
    assert_int_equal(n.count, 3);
    assert_non_null(strstr(n.text, "b.txt:2:1:alpha line"));
    assert_non_null(strstr(n.text, "sub/c.txt:1:7:gamma alpha"));
    n = (names){ 0 };
    g = (cay_grep){
        .size = sizeof g, .pattern = "^al[p]ha$", .ignore_case = true, .include = "*.c"
    };
    OK(cay_file_grep(S.sb, NULL, "tree", &g, on_match, &n, E));
    assert_string_equal(n.text, "sub/deep/d.c:1:1:ALPHA ");
    g = (cay_grep){ .size = sizeof g, .pattern = "(" };
    assert_int_equal(cay_file_grep(S.sb, NULL, "tree", &g, on_match, &n, E), CAY_EINVAL);
    n = (names){ 0 };
    g = (cay_grep){ .size = sizeof g, .pattern = "al", .plain = true, .max = 1 };
    OK(cay_file_grep(S.sb, NULL, "tree", &g, on_match, &n, E));
    assert_int_equal(n.count, 1);
}

static bool next_is(cay_watch *w, cay_change change, const char *path)
{
    for (int i = 0; i < 50; i++) {
        cay_watch_event ev = { .size = sizeof ev };
        cay_call c = { .size = sizeof c, .deadline_ms = cay__now_ms() + 3000 };
        if (cay_watch_next(w, &c, &ev, NULL) < 0)
            return false;
        if (ev.change == change && (!path || strcmp(ev.path, path) == 0))
            return true;
    }
    return false;
}

static void a_watch_tells_what_changes(void **state)
{
    (void)state;
    NEED(watch_open);
    ERR;
    cay_watch *w = NULL;
    OK(cay_file_mkdir(S.sb, NULL, "watched/sub", 0, true, E));
    OK(cay_watch_open(S.sb, NULL, "watched", true, &w, E));
    struct pollfd p = { .fd = cay_watch_fd(w), .events = POLLIN };
    assert_int_equal(poll(&p, 1, 50), 0);
    put_file("watched/sub/new", "x");
    assert_int_equal(poll(&p, 1, 3000), 1);
    assert_true(next_is(w, CAY_CHANGE_CREATE, "sub/new"));
    OK(cay_file_mkdir(S.sb, NULL, "watched/later", 0, false, E));
    assert_true(next_is(w, CAY_CHANGE_CREATE, "later"));
    put_file("watched/later/inside", "x"); /* a directory that came later is watched too */
    assert_true(next_is(w, CAY_CHANGE_CREATE, "later/inside"));
    cay_write app = { .size = sizeof app, .append = true };
    OK(cay_file_put(S.sb, NULL, "watched/sub/new", "y", 1, &app, E));
    assert_true(next_is(w, CAY_CHANGE_WRITE, "sub/new"));
    OK(cay_file_chmod(S.sb, NULL, "watched/sub/new", 0600, E));
    assert_true(next_is(w, CAY_CHANGE_CHMOD, "sub/new"));
    OK(cay_file_rename(S.sb, NULL, "watched/sub/new", "watched/sub/newer", E));
    assert_true(next_is(w, CAY_CHANGE_RENAME, "sub/newer"));
    OK(cay_file_remove(S.sb, NULL, "watched/sub/newer", false, E));
    assert_true(next_is(w, CAY_CHANGE_REMOVE, "sub/newer"));
    cay_watch_event ev = { .size = sizeof ev };
    cay_call c = { .size = sizeof c, .deadline_ms = cay__now_ms() + 50 };
    int rc;
    while ((rc = cay_watch_next(w, &c, &ev, E)) == 0)
        continue;
    assert_int_equal(rc, CAY_ETIMEOUT);
    cay_watch_close(w);
    assert_int_equal(cay_watch_open(S.sb, NULL, "not-there", true, &w, E), CAY_ENOENT);
}

static void a_watch_that_is_not_read_tells_overflow(void **state)
{
    (void)state;
    NEED(watch_open);
    NEED_SHELL();
    ERR;
    cay_watch *w = NULL;
    OK(cay_file_mkdir(S.sb, NULL, "flood", 0, true, E));
    OK(cay_watch_open(S.sb, NULL, "flood", true, &w, E));
    sh_is(S.sb, "cd flood && seq 1 12000 | xargs touch", "");
    bool over = false;
    for (int i = 0; i < 200000 && !over; i++) {
        cay_watch_event ev = { .size = sizeof ev };
        cay_call c = { .size = sizeof c, .deadline_ms = cay__now_ms() + 3000 };
        if (cay_watch_next(w, &c, &ev, E) < 0)
            break;
        over = ev.change == CAY_CHANGE_OVERFLOW;
    }
    assert_true(over);
    cay_watch_close(w);
}

tests suite_names(size_t *n)
{
    static const struct CMUnitTest t[] = {
        cmocka_unit_test(stat_tells_kind_size_and_link),
        cmocka_unit_test(a_links_target_is_told_whole),
        cmocka_unit_test(directories_are_made_moved_and_removed),
        cmocka_unit_test(modes_and_owners_change),
        cmocka_unit_test(attributes_are_kept),
        cmocka_unit_test(listings_are_structured_and_follow_no_link),
        cmocka_unit_test(many_entries_are_listed),
        cmocka_unit_test(patterns_find_files),
        cmocka_unit_test(grep_finds_lines),
        cmocka_unit_test(a_watch_tells_what_changes),
        cmocka_unit_test(a_watch_that_is_not_read_tells_overflow),
    };
    *n = CAY_LEN(t);
    return t;
}
