/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes in files: whole, by range, streamed, appended, guarded. */
#include "suite.h"
#include <poll.h>
#include <sys/mman.h>

static void put_file(const char *path, const char *text)
{
    ERR;
    OK(cay_file_put(S.sb, NULL, path, text, strlen(text), NULL, E));
}

static void file_is(const char *path, const char *text)
{
    ERR;
    char *data = NULL;
    size_t n = 0;
    OK(cay_file_get(S.sb, NULL, path, 1 << 20, &data, &n, E));
    assert_int_equal(n, strlen(text));
    assert_string_equal(data, text);
    free(data);
}

static void what_is_put_can_be_got(void **state)
{
    (void)state;
    NEED(open_read);
    ERR;
    char all[256], *data = NULL;
    size_t n;
    for (int i = 0; i < 256; i++)
        all[i] = (char)i;
    OK(cay_file_put(S.sb, NULL, "bytes", all, sizeof all, NULL, E));
    OK(cay_file_get(S.sb, NULL, "bytes", 256, &data, &n, E));
    assert_int_equal(n, 256);
    assert_memory_equal(data, all, 256);
    free(data);
    assert_int_equal(cay_file_get(S.sb, NULL, "bytes", 255, &data, &n, E), CAY_ETOOBIG);
    put_file("bytes", ""); /* replaced, and empty */
    file_is("/workspace/bytes", "");
    assert_int_equal(cay_file_get(S.sb, NULL, "absent", 10, &data, &n, E), CAY_ENOENT);
    assert_non_null(strstr(e_.msg, "absent"));
}

static void ranges(void **state)
{
    (void)state;
    NEED(open_read);
    ERR;
    static const struct {
        uint64_t offset, length;
        const char *want;
    } cases[] = {
        { 0, 0, "0123456789" }, { 3, 4, "3456" }, { 7, 100, "789" }, { 10, 5, "" }, { 99, 0, "" }
    };
    put_file("digits", "0123456789");
    for (size_t i = 0; i < CAY_LEN(cases); i++) {
        CAY_AUTOFD fd = -1;
        char buf[32] = "";
        cay_read r = { .size = sizeof r, .offset = cases[i].offset, .length = cases[i].length };
        OK(cay_file_open_read(S.sb, NULL, "digits", &r, &fd, E));
        assert_int_equal(cay__fd_read_all(fd, buf, sizeof buf - 1), (int)strlen(cases[i].want));
        assert_string_equal(buf, cases[i].want);
    }
    int fd = -1;
    cay_read r = { .size = sizeof r, .offset = UINT64_MAX };
    assert_int_equal(cay_file_open_read(S.sb, NULL, "digits", &r, &fd, E), CAY_EINVAL);
}

static void append_exclusive_mode_and_parents(void **state)
{
    (void)state;
    NEED(stat);
    ERR;
    cay_stat st = { .size_of = sizeof st };
    cay_write w = { .size = sizeof w, .append = true };
    put_file("log", "one\n");
    OK(cay_file_put(S.sb, NULL, "log", "two\n", 4, &w, E));
    file_is("log", "one\ntwo\n");
    OK(cay_file_put(S.sb, NULL, "log2", "new\n", 4, &w, E)); /* appending makes it */
    file_is("log2", "new\n");
    w = (cay_write){ .size = sizeof w, .exclusive = true };
    assert_int_equal(cay_file_put(S.sb, NULL, "log", "x", 1, &w, E), CAY_EEXIST);
    file_is("log", "one\ntwo\n");
    w = (cay_write){ .size = sizeof w, .mode = 0640 };
    OK(cay_file_put(S.sb, NULL, "moded", "x", 1, &w, E));
    OK(cay_file_stat(S.sb, NULL, "moded", true, &st, E));
    assert_int_equal(st.mode, 0640);
    put_file("moded", "y"); /* keeps the mode it had */
    OK(cay_file_stat(S.sb, NULL, "moded", true, &st, E));
    assert_int_equal(st.mode, 0640);
    assert_int_equal(cay_file_put(S.sb, NULL, "no/such/dir/f", "x", 1, NULL, E), CAY_ENOENT);
    w = (cay_write){ .size = sizeof w, .parents = true };
    OK(cay_file_put(S.sb, NULL, "made/on/the/way", "x", 1, &w, E));
    file_is("made/on/the/way", "x");
    w = (cay_write){ .size = sizeof w, .mode = 0100644 };
    assert_int_equal(cay_file_put(S.sb, NULL, "m", "x", 1, &w, E), CAY_EINVAL);
    w = (cay_write){ .size = sizeof w, .append = true, .exclusive = true };
    assert_int_equal(cay_file_put(S.sb, NULL, "m", "x", 1, &w, E), CAY_EINVAL);
}

static void commit_shows_and_abort_leaves_nothing(void **state)
{
    (void)state;
    NEED(open_write);
    ERR;
    cay_upload *up = NULL;
    bool there = true;
    put_file("target", "old");
    OK(cay_file_open_write(S.sb, NULL, "target", NULL, &up, E));
    assert_true(cay__fd_write_all(cay_upload_fd(up), "streamed", 8));
    file_is("target", "old"); /* invisible until it is whole */
    OK(cay_upload_commit(up, NULL, E));
    file_is("target", "streamed");
    OK(cay_file_open_write(S.sb, NULL, "target", NULL, &up, E));
    assert_true(cay__fd_write_all(cay_upload_fd(up), "half", 4));
    cay_upload_abort(up);
    file_is("target", "streamed");
    OK(cay_file_open_write(S.sb, NULL, "fresh", NULL, &up, E));
    cay_upload_abort(up);
    OK(cay_file_exists(S.sb, NULL, "fresh", &there, E));
    assert_false(there);
    assert_int_equal(cay_file_open_write(S.sb, NULL, "no/dir/x", NULL, &up, E), CAY_ENOENT);
}

static void large_files_stream_both_ways(void **state)
{
    (void)state;
    NEED(open_write);
    ERR;
    static char chunk[65536];
    enum { CHUNKS = 320 }; /* 20 MiB */
    cay_upload *up = NULL;
    OK(cay_file_open_write(S.sb, NULL, "large", NULL, &up, E));
    for (int i = 0; i < CHUNKS; i++) {
        memset(chunk, i & 0xff, sizeof chunk);
        assert_true(cay__fd_write_all(cay_upload_fd(up), chunk, sizeof chunk));
    }
    OK(cay_upload_commit(up, NULL, E));
    CAY_AUTOFD fd = -1;
    OK(cay_file_open_read(S.sb, NULL, "large", NULL, &fd, E));
    for (int i = 0; i < CHUNKS; i++) {
        assert_int_equal(cay__fd_read_all(fd, chunk, sizeof chunk), sizeof chunk);
        assert_int_equal((unsigned char)chunk[0], i & 0xff);
        assert_int_equal((unsigned char)chunk[65535], i & 0xff);
    }
    assert_int_equal(read(fd, chunk, 1), 0);
    OK(cay_file_remove(S.sb, NULL, "large", false, E));
}

static void odd_names_are_bytes(void **state)
{
    (void)state;
    NEED(open_read);
    ERR;
    static const char *const names[] = { " lead",    "trail ",      "-rf",      "*",
                                         "a\tb",     "\x1b[31m",    "\xff\xfe", "\xc3\xa4",
                                         "'\"`$(x)", "back\\slash", "...",      "a\nb" };
    for (size_t i = 0; i < CAY_LEN(names); i++) {
        put_file(names[i], names[i]);
        file_is(names[i], names[i]);
        OK(cay_file_remove(S.sb, NULL, names[i], false, E));
    }
    char longest[256], over[257];
    memset(longest, 'n', 255);
    longest[255] = 0;
    put_file(longest, "x");
    OK(cay_file_remove(S.sb, NULL, longest, false, E));
    memset(over, 'n', 256);
    over[256] = 0;
    assert_int_equal(cay_file_put(S.sb, NULL, over, "x", 1, NULL, E), CAY_EINVAL);
    assert_int_equal(cay_file_put(S.sb, NULL, "", "x", 1, NULL, E), CAY_EINVAL);
    assert_int_equal(cay_file_put(S.sb, NULL, NULL, "x", 1, NULL, E), CAY_EINVAL);
}

static int no_entry(const cay_dirent *e, void *arg)
{
    (void)arg;
    fail_msg("%s is listed", e->path);
    return 0;
}

static void a_path_never_leaves_the_sandbox(void **state)
{
    (void)state;
    NEED_SHELL();
    NEED(symlink);
    ERR;
    char secret[600], *data = NULL, up[200] = "";
    size_t n;
    snprintf(secret, sizeof secret, "%s/secret", S.home);
    FILE *f = fopen(secret, "w");
    assert_non_null(f);
    fputs("host", f);
    fclose(f);
    for (int i = 0; i < 12; i++)
        strncat(up, "../", sizeof up - strlen(up) - 1);
    char path[900];
    snprintf(path, sizeof path, "%s%s", up, secret + 1);
    assert_int_equal(cay_file_get(S.sb, NULL, path, 100, &data, &n, E), CAY_ENOENT);
    OK(cay_file_symlink(S.sb, NULL, secret, "link-abs", E));
    OK(cay_file_symlink(S.sb, NULL, path, "link-up", E));
    OK(cay_file_symlink(S.sb, NULL, S.home, "link-dir", E));
    assert_int_equal(cay_file_get(S.sb, NULL, "link-abs", 100, &data, &n, E), CAY_ENOENT);
    assert_int_equal(cay_file_get(S.sb, NULL, "link-up", 100, &data, &n, E), CAY_ENOENT);
    assert_int_equal(cay_file_get(S.sb, NULL, "link-dir/secret", 100, &data, &n, E), CAY_ENOENT);
    assert_true(cay_file_put(S.sb, NULL, "link-dir/planted", "x", 1, NULL, E) < 0);
    assert_true(cay_dir_list(S.sb, NULL, "link-dir", 1, no_entry, NULL, E) < 0);
    assert_true(cay_file_remove(S.sb, NULL, "link-dir/secret", false, E) < 0);
    OK(cay_file_remove(S.sb, NULL, "link-dir", true, E)); /* the link, not what it names */
    char text[16] = "";
    f = fopen(secret, "r");
    assert_non_null(f);
    assert_non_null(fgets(text, sizeof text, f));
    fclose(f);
    assert_string_equal(text, "host");
    unlink(secret);
}

static void what_is_no_file_fails_at_once(void **state)
{
    (void)state;
    NEED_SHELL();
    NEED(mkdir);
    ERR;
    char *data = NULL;
    size_t n;
    sh_is(S.sb, "mkfifo fifo && mkdir adir", "");
    int64_t t = cay__now_ms();
    assert_int_equal(cay_file_get(S.sb, NULL, "fifo", 10, &data, &n, E), CAY_ETYPE);
    assert_int_equal(cay_file_get(S.sb, NULL, "adir", 10, &data, &n, E), CAY_ETYPE);
    assert_true(cay__now_ms() - t < 5000);
    cay_write w = { .size = sizeof w, .append = true };
    assert_int_equal(cay_file_put(S.sb, NULL, "fifo", "x", 1, &w, E), CAY_ETYPE);
    assert_true(cay_file_put(S.sb, NULL, "adir", "x", 1, NULL, E) < 0);
    put_file("plain", "x");
    assert_int_equal(cay_file_get(S.sb, NULL, "plain/below", 10, &data, &n, E), CAY_ETYPE);
}

static void files_are_touched_with_a_users_rights(void **state)
{
    (void)state;
    ERR;
    cay_write as_root = { .size = sizeof as_root, .user = "root", .mode = 0600 };
    cay_read reads = { .size = sizeof reads, .user = "root" };
    char *data = NULL, text[8] = "";
    size_t n;
    int fd = -1;
    cay_stat own = { .size_of = sizeof own };
    put_file("own", "x");
    if (cay_file_stat(S.sb, NULL, "own", true, &own, E) < 0 || !own.uid ||
        cay_file_put(S.sb, NULL, "/tmp/only-root", "shut", 4, &as_root, E) < 0)
        skip(); /* no second user here */
    assert_int_equal(cay_file_get(S.sb, NULL, "/tmp/only-root", 100, &data, &n, E), CAY_EPERM);
    assert_int_equal(cay_file_put(S.sb, NULL, "/tmp/only-root", "mine", 4,
                                  &(cay_write){ .size = sizeof(cay_write), .append = true }, E),
                     CAY_EPERM);
    assert_int_equal(cay_file_remove(S.sb, NULL, "/tmp/only-root", false, E), CAY_EPERM);
    const cay_call root = { .size = sizeof root, .user = "root" };
    OK(cay_file_mkdir(S.sb, &root, "/tmp/roots", 0755, false, E));
    assert_int_equal(cay_file_mkdir(S.sb, NULL, "/tmp/roots/mine", 0755, false, E), CAY_EPERM);
    OK(cay_file_open_read(S.sb, NULL, "/tmp/only-root", &reads, &fd, E));
    assert_int_equal(read(fd, text, sizeof text), 4);
    close(fd);
    assert_string_equal(text, "shut");
}

static int count_one(const cay_dirent *e, void *arg)
{
    (void)e;
    ++*(int *)arg;
    return 0;
}

static void names_are_touched_with_the_rights_of_the_calls_user(void **state)
{
    (void)state;
    ERR;
    const cay_call root = { .size = sizeof root, .user = "root" },
                   nobody = { .size = sizeof nobody, .user = "no-such-user" },
                   odd = { .size = sizeof odd, .user = "a:b" },
                   old = { .size = offsetof(cay_call, user),
                           .user = "root" }; /* of a program that was built before there was one */
    cay_stat st = { .size_of = sizeof st };
    cay_watch *w = NULL;
    int n = 0;
    put_file("own", "x");
    if (cay_file_stat(S.sb, NULL, "own", true, &st, E) < 0 || !st.uid ||
        cay_file_mkdir(S.sb, &root, "/tmp/roots", 0700, false, E) < 0)
        skip(); /* no second user here */
    OK(cay_file_stat(S.sb, NULL, "/tmp/roots", false, &st, E));
    assert_int_equal(st.uid, 0);
    OK(cay_file_put(S.sb, &root, "/tmp/roots/f", "x", 1, NULL, E));
    OK(cay_file_mkdir(S.sb, &root, "/tmp/roots/a/b", 0755, true, E));
    assert_int_equal(cay_file_mkdir(S.sb, NULL, "/tmp/roots/c", 0755, false, E), CAY_EPERM);
    assert_int_equal(cay_file_mkdir(S.sb, &old, "/tmp/roots/c", 0755, false, E), CAY_EPERM);
    assert_int_equal(cay_file_stat(S.sb, NULL, "/tmp/roots/f", true, &st, E), CAY_EPERM);
    OK(cay_file_stat(S.sb, &root, "/tmp/roots/f", true, &st, E));
    assert_int_equal(cay_dir_list(S.sb, NULL, "/tmp/roots", 0, count_one, &n, E), CAY_EPERM);
    OK(cay_dir_list(S.sb, &root, "/tmp/roots", 0, count_one, &n, E));
    assert_int_equal(n, 3);
    assert_int_equal(cay_watch_open(S.sb, NULL, "/tmp/roots", false, &w, E), CAY_EPERM);
    OK(cay_watch_open(S.sb, &root, "/tmp/roots", false, &w, E));
    cay_watch_close(w);
    assert_int_equal(cay_file_rename(S.sb, NULL, "/tmp/roots/f", "/tmp/taken", E), CAY_EPERM);
    OK(cay_file_rename(S.sb, &root, "/tmp/roots/f", "/tmp/roots/g", E));
    assert_int_equal(cay_file_remove(S.sb, NULL, "/tmp/roots", true, E), CAY_EPERM);
    OK(cay_file_remove(S.sb, &root, "/tmp/roots", true, E));
    assert_int_equal(cay_file_stat(S.sb, &nobody, "/tmp", true, &st, E), CAY_ENOENT);
    assert_int_equal(cay_file_stat(S.sb, &odd, "/tmp", true, &st, E), CAY_EINVAL);
}

typedef struct many {
    const cay_fill_item *items;
    unsigned open; /* gets without their done */
} many;

static int get_item(size_t i, cay_fill_item *out, void *arg, cay_err *err)
{
    many *m = arg;
    (void)err;
    *out = m->items[i];
    if (out->fd >= 0)
        lseek(out->fd, 0, SEEK_SET);
    m->open++;
    return 0;
}

static int done_item(size_t i, const cay_fill_item *item, bool read, void *arg, cay_err *err)
{
    (void)i, (void)item, (void)read, (void)err;
    ((many *)arg)->open--;
    return 0;
}

static int fill_by(const cay_call *call, const cay_fill_item *items, size_t n, cay_err *err)
{
    many m = { items, 0 };
    const cay_fill f = { .size = sizeof f, .n = n, .get = get_item, .done = done_item, .arg = &m };
    int rc = cay_file_fill(S.sb, call, &f, err);
    assert_int_equal(m.open, 0);
    return rc;
}

static int fill(const cay_fill_item *items, size_t n, cay_err *err)
{
    return fill_by(NULL, items, n, err);
}

static void many_files_come_in_one_go(void **state)
{
    (void)state;
    NEED(open_read);
    NEED(symlink);
    NEED_SHELL();
    ERR;
    CAY_AUTOFD big = memfd_create("big", MFD_CLOEXEC);
    enum { BIG = 300001, MANY = 1200 };
    char *bytes = calloc(1, BIG), *data = NULL;
    size_t n;
    memset(bytes, 'b', BIG);
    assert_true(cay__fd_write_all(big, bytes, BIG));
    put_file("/workspace/lump-old", "old, and longer than the new one");
    OK(cay_file_symlink(S.sb, NULL, "lump-old", "/workspace/lump-link", E));
    const cay_fill_item some[] = {
        { .type = 'd', .path = "/workspace/lump", .mode = 0750, .gid = UINT32_MAX, .fd = -1 },
        { .type = 'p', .path = "/workspace/lump", .mode = 0777, .gid = UINT32_MAX, .fd = -1 },
        { .type = 'f',
          .path = "/workspace/lump/a",
          .mode = 0640,
          .gid = UINT32_MAX,
          .data = "a",
          .len = 1,
          .fd = -1 },
        { .type = 'f',
          .path = "/workspace/lump/x/y/deep",
          .mode = 0777,
          .gid = UINT32_MAX,
          .data = "",
          .len = 0,
          .fd = -1 },
        { .type = 'f',
          .path = "/workspace/lump/big",
          .mode = 0600,
          .gid = UINT32_MAX,
          .len = BIG,
          .fd = big },
        { .type = 'l',
          .path = "/workspace/lump/l",
          .gid = UINT32_MAX,
          .data = "a",
          .len = 1,
          .fd = -1 },
        { .type = 'f',
          .path = "/workspace/lump-old",
          .mode = 0644,
          .gid = UINT32_MAX,
          .data = "new",
          .len = 3,
          .fd = -1 },
    };
    OK(fill(some, CAY_LEN(some), E));
    OK(fill(some, CAY_LEN(some), E)); /* once more over what is there */
    file_is("/workspace/lump/a", "a");
    file_is("/workspace/lump/l", "a");
    file_is("/workspace/lump-link", "new");
    file_is("/workspace/lump/x/y/deep", "");
    OK(cay_file_get(S.sb, NULL, "/workspace/lump/big", BIG, &data, &n, E));
    assert_true(n == BIG && !memcmp(data, bytes, BIG));
    free(data);
    cay_stat st = { .size_of = sizeof st };
    OK(cay_file_stat(S.sb, NULL, "/workspace/lump", true, &st, E));
    assert_int_equal(st.mode, 0750);
    OK(cay_file_stat(S.sb, NULL, "/workspace/lump/a", true, &st, E));
    assert_int_equal(st.mode, 0640);
    OK(cay_file_stat(S.sb, NULL, "/workspace/lump/x/y/deep", true, &st, E));
    assert_int_equal(st.mode, 0777);
    /* more than a pipe holds, and one in the middle that cannot be */
    cay_fill_item *lots = calloc(MANY, sizeof *lots);
    char(*names)[48] = calloc(MANY, sizeof *names);
    for (size_t i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "/workspace/lots/d%zu/f%zu", i % 7, i);
        lots[i] = (cay_fill_item){ .type = 'f',
                                   .path = names[i],
                                   .mode = 0644,
                                   .gid = UINT32_MAX,
                                   .data = bytes,
                                   .len = 5000,
                                   .fd = -1 };
    }
    OK(fill(lots, MANY, E));
    sh_is(S.sb, "find lots -type f -size 5000c | wc -l | tr -d ' \n'", "1200");
    lots[200].path = "/workspace/lump/a/below-a-file";
    assert_true(fill(lots, MANY, E) < 0);
    assert_non_null(strstr(e_.msg, "below-a-file"));
    lots[200].path = "relative";
    assert_int_equal(fill(lots, MANY, E), S.ops->fill ? CAY_EINVAL : 0);
    file_is("/workspace/lump/a", "a"); /* and the worker, or another, goes on */
    free(names);
    free(lots);
    free(bytes);
}

static void many_files_stay_inside_the_fence(void **state)
{
    (void)state;
    NEED(open_read);
    NEED(symlink);
    ERR;
    const char *const inside[] = { "/workspace/pen", NULL };
    const cay_fence fence = { .size = sizeof fence, .write = inside };
    const cay_call call = { .size = sizeof call, .fence = &fence };
    const cay_fill_item items[] = {
        { .type = 'd', .path = "/workspace/pen", .mode = 0755, .gid = UINT32_MAX, .fd = -1 },
        { .type = 'f',
          .path = "/workspace/pen/in",
          .mode = 0644,
          .gid = UINT32_MAX,
          .data = "in",
          .len = 2,
          .fd = -1 },
        { .type = 'l',
          .path = "/workspace/pen/up",
          .gid = UINT32_MAX,
          .data = "..",
          .len = 2,
          .fd = -1 },
        { .type = 'f',
          .path = "/workspace/pen/up/astray",
          .mode = 0644,
          .gid = UINT32_MAX,
          .data = "x",
          .len = 1,
          .fd = -1 },
    };
    bool there = true;
    OK(fill_by(&call, items, 2, E));
    file_is("/workspace/pen/in", "in");
    assert_int_equal(fill_by(&call, items, CAY_LEN(items), E),
                     CAY_EPERM); /* by the link that the same call makes */
    assert_string_equal(e_.reason, "fence");
    OK(cay_file_exists(S.sb, NULL, "/workspace/astray", &there, E));
    assert_false(there);
    /* as many bytes as were said, or none */
    CAY_AUTOFD source = memfd_create("source", MFD_CLOEXEC);
    assert_true(cay__fd_write_all(source, "longer", 6));
    cay_fill_item part = { .type = 'f',
                           .path = "/workspace/pen/part",
                           .mode = 0644,
                           .gid = UINT32_MAX,
                           .len = 4,
                           .fd = source };
    OK(fill_by(&call, &part, 1, E));
    file_is("/workspace/pen/part", "long");
    part.len = 7;
    assert_int_equal(fill_by(&call, &part, 1, E), CAY_EINVAL);
    assert_string_equal(e_.reason, "path_changed_during_copy");
    file_is("/workspace/pen/part", "long");
}

static void processes_see_what_the_api_writes(void **state)
{
    (void)state;
    NEED_SHELL();
    NEED(open_read);
    put_file("shared", "from the api");
    sh_is(S.sb, "cat shared; printf 'from inside' > back", "from the api");
    file_is("back", "from inside");
}

tests suite_files(size_t *n)
{
    static const struct CMUnitTest t[] = {
        cmocka_unit_test(what_is_put_can_be_got),
        cmocka_unit_test(ranges),
        cmocka_unit_test(append_exclusive_mode_and_parents),
        cmocka_unit_test(commit_shows_and_abort_leaves_nothing),
        cmocka_unit_test(large_files_stream_both_ways),
        cmocka_unit_test(odd_names_are_bytes),
        cmocka_unit_test(a_path_never_leaves_the_sandbox),
        cmocka_unit_test(files_are_touched_with_a_users_rights),
        cmocka_unit_test(names_are_touched_with_the_rights_of_the_calls_user),
        cmocka_unit_test(what_is_no_file_fails_at_once),
        cmocka_unit_test(many_files_come_in_one_go),
        cmocka_unit_test(many_files_stay_inside_the_fence),
        cmocka_unit_test(processes_see_what_the_api_writes),
    };
    *n = CAY_LEN(t);
    return t;
}
