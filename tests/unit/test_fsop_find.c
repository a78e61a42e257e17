/* SPDX-License-Identifier: Apache-2.0 */
/* Finding by name and by content. */
#include "fsop.h"
#include <base/str.h>
#include <fnmatch.h>

static char seen[1 << 16];

static int note_entry(const cay__fs_entry *e, void *arg)
{
    (void)arg;
    size_t n = strlen(seen);
    snprintf(seen + n, sizeof seen - n, "%s ", e->path);
    return 0;
}

static const char *globbed(const char *base, const char *pattern)
{
    seen[0] = 0;
    return cay__fs_glob(&fs, base, pattern, note_entry, NULL) < 0 ? NULL : seen;
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

static void patterns_match_whole_names(void **s)
{
    (void)s;
    static const struct {
        const char *pattern, *text;
        bool fits;
    } rows[] = {
        { "", "", true },
        { "", "a", false },
        { "a", "", false },
        { "*", "", true },
        { "**", "", true },
        { "?", "", false },
        { "*", ".a", false },
        { ".*", ".a", true },
        { "?a", ".a", false },
        { "[.]a", ".a", false }, /* a leading dot is matched only by a dot */
        { "\\.a", ".a", true },
        { "a*", "a.b", true },
        { "a?b", "a.b", true },
        { "a", "ab", false },
        { "*b", "abab", true },
        { "*ab", "aab", true },
        { "?", "\xe2\x82\xac", true }, /* one character of three bytes */
        { "??", "\xe2\x82\xac", false },
        { "?", "\xe2\x82", true }, /* broken, and still one */
        { "*\x82*", "\xe2\x82\xac", false },
        { "[a-c]", "b", true },
        { "[a-c]", "d", false },
        { "[c-a]", "b", false },
        { "[!a-c]", "d", true },
        { "[^a-c]", "b", false },
        { "[]]", "]", true },
        { "[!]]", "]", false },
        { "[]-a]", "_", true },
        { "[a-]", "-", true },
        { "[-a]", "-", true },
        { "[\\]]", "]", true },
        { "[a\\-c]", "b", false },
        { "[a\\-c]", "-", true },
        { "[a", "[a", true }, /* no whole set stands for itself */
        { "[", "[", true },
        { "[]", "[]", true },
        { "[!", "[!", true },
        { "\\[a]", "[a]", true },
        { "a\\", "a\\", true },
        { "\\a", "a", true },
        { "\\\\", "\\", true },
        { "A", "a", false },
        { "[\xc0-\xff]", "\xe2", true },
    };
    for (size_t i = 0; i < CAY_LEN(rows); i++)
        if (cay__fs_match(rows[i].pattern, rows[i].text) != rows[i].fits)
            fail_msg("%s and %s", rows[i].pattern, rows[i].text);
}

static uint32_t next_random(uint32_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 17;
    *x ^= *x << 5;
    return *x;
}

static void make_random(uint32_t *seed, const char *alphabet, char *out, size_t most)
{
    size_t n = next_random(seed) % (most + 1);
    for (size_t i = 0; i < n; i++)
        out[i] = alphabet[next_random(seed) % strlen(alphabet)];
    out[n] = 0;
}

/* Patterns and names from a fixed seed. Sets are put in whole, and leading dots are judged here:
 * about broken sets and FNM_PERIOD after a star the C library has its own opinion. */
static void random_patterns_match_as_in_the_c_library(void **s)
{
    (void)s;
    static const char *const sets[] = { "[a-c]", "[!b]", "[.x]", "[]a]", "[^-a]", "[b\\]]" };
    uint32_t seed = 7;
    unsigned fit = 0;
    for (int round = 0; round < 200000; round++) {
        char pattern[64], name[16], more[8];
        make_random(&seed, "abc.*?", pattern, 5);
        if (next_random(&seed) % 2) {
            make_random(&seed, "ab*", more, 3);
            size_t n = strlen(pattern);
            const char *set = sets[next_random(&seed) % CAY_LEN(sets)];
            assert_true(cay__str_join(pattern + n, sizeof pattern - n, set, more, NULL));
        }
        make_random(&seed, "abc.x-]", name, 7);
        bool ours = cay__fs_match(pattern, name);
        bool hidden = name[0] == '.' && pattern[0] != '.';
        bool theirs = !hidden && fnmatch(pattern, name, 0) == 0;
        if (ours != theirs)
            fail_msg("%s and %s: ours says %d", pattern, name, ours);
        fit += ours;
    }
    assert_true(fit > 2000);
}

static void double_stars_match_any_number_of_directories(void **s)
{
    (void)s;
    static const struct {
        const char *pattern, *path;
        bool whole, below;
    } rows[] = {
        { "**", "a", true, true },
        { "**", ".a", false, false },
        { "**", "a/.b", false, false },
        { "**/x", "x", true, true },
        { "**/x", "a/b/x", true, true },
        { "**/x", "a/.b/x", false, false },
        { "**/.x", "a/.x", true, false }, /* nothing below what is hidden */
        { "a/**", "a/b/c", true, true },
        { "a/**", "b", false, false },
        { "a/**/b", "a/b", true, true },
        { "a/**/b", "a/x/y/b", true, true },
        { "a/**/b", "a/x/y/c", false, true },
        { "a/*/b", "a/x/y/b", false, false },
        { "a/*/b", "a/x", false, true },
        { "**/**/x", "x", true, true },
        { "a", "a/b", false, false },
        { "a/b", "a", false, true },
        { "a**b", "a/b", false, false }, /* within a name it is a star */
        { "a**b", "axxb", true, true },
    };
    for (size_t i = 0; i < CAY_LEN(rows); i++) {
        bool whole = cay__fs_match_path(rows[i].pattern, rows[i].path, false);
        bool below = cay__fs_match_path(rows[i].pattern, rows[i].path, true);
        if (whole != rows[i].whole || below != rows[i].below)
            fail_msg("%s and %s: %d, %d", rows[i].pattern, rows[i].path, whole, below);
    }
}

static void repeat_text(char *out, size_t cap, const char *piece, int times, const char *end)
{
    size_t at = 0, n = strlen(piece);
    assert_true((size_t)times * n + strlen(end) < cap);
    for (int i = 0; i < times; i++, at += n)
        memcpy(out + at, piece, n);
    memcpy(out + at, end, strlen(end) + 1);
}

static void hostile_patterns_take_no_time(void **s)
{
    (void)s;
    char name[256], path[4000], pattern[2000];
    memset(name, 'a', 255);
    name[255] = 0;
    repeat_text(pattern, sizeof pattern, "a*", 400, "b");
    int64_t began = cay__now_ms();
    assert_false(cay__fs_match(pattern, name));
    repeat_text(pattern, sizeof pattern, "**/a/", 300, "b");
    repeat_text(path, sizeof path, "a/", 1900, "c");
    assert_false(cay__fs_match_path(pattern, path, false));
    assert_true(cay__now_ms() - began < 20000); /* backtracking would take for ever */
}

static void glob_skips_directories_that_cannot_match(void **s)
{
    (void)s;
    assert_int_equal(put_text("a/b/c.c", ""), 0);
    assert_int_equal(put_text("a/x/d.c", ""), 0);
    assert_string_equal(globbed(".", "*/b/*"), "a/b/c.c ");
    assert_string_equal(globbed(".", "./././a/b/*"), "a/b/c.c ");
    assert_string_equal(globbed(".", "a/b"), "a/b ");
    assert_string_equal(globbed(".", "a/[bx]/*.c"), "a/b/c.c a/x/d.c ");
    assert_string_equal(globbed(".", "a/\\b/*"), "a/b/c.c ");
    assert_string_equal(globbed("a", "**"), "b b/c.c x x/d.c ");
    assert_string_equal(globbed("/", "work/a/b/*"), "work/a/b/c.c ");
    assert_string_equal(globbed(".", "a/b/c.c/*"), ""); /* below a file there is nothing */
}

static void glob_follows_links_only_in_plain_parts(void **s)
{
    (void)s;
    assert_int_equal(put_text("real/f", ""), 0);
    assert_int_equal(cay__fs_symlink(&fs, "real", "l"), 0);
    assert_int_equal(cay__fs_symlink(&fs, t.out, "out"), 0);
    assert_string_equal(globbed(".", "l/*"), "l/f ");
    assert_string_equal(globbed(".", "*/f"), "real/f ");
    assert_string_equal(globbed(".", "out/*"), "");
    assert_string_equal(globbed("l", "*"), "f ");
}

static void glob_refuses_what_leads_out_of_its_base(void **s)
{
    (void)s;
    static const char *const rows[] = { "",     "/",      "/a",    "..",  "../*",
                                        "a/..", "a/../b", "**/..", ".//a" };
    for (size_t i = 0; i < CAY_LEN(rows); i++) {
        errno = 0;
        if (globbed(".", rows[i]) || errno != EINVAL)
            fail_msg("%s is taken", rows[i]);
    }
    char longer[4200];
    memset(longer, 'a', sizeof longer);
    longer[4096] = 0;
    assert_null(globbed(".", longer));
    assert_int_equal(errno, EINVAL);
    assert_int_equal(put_text("f", ""), 0);
    assert_null(globbed("f", "*"));
    assert_int_equal(errno, ENOTDIR);
    assert_string_equal(globbed(".", "..."), ""); /* three dots are a name */
}

static int end_with_9(const cay__fs_entry *e, void *arg)
{
    (void)e;
    (void)arg;
    return 9;
}

static bool stop_at_once(void *arg)
{
    (void)arg;
    return true;
}

static void a_search_can_be_ended_and_stopped(void **s)
{
    (void)s;
    char name[16];
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof name, "d/%d", i);
        assert_int_equal(put_text(name, "line\n"), 0);
    }
    size_t before = fds_open();
    assert_int_equal(cay__fs_glob(&fs, "d", "*", end_with_9, NULL), 9);
    fs.stop = stop_at_once;
    assert_errno(cay__fs_glob(&fs, "d", "*", note_entry, NULL), ECANCELED);
    assert_errno(cay__fs_grep(&fs, "d", &(cay__fs_grep_spec){ .pattern = "line" }, note_line, NULL),
                 ECANCELED);
    assert_errno(
        cay__fs_grep(&fs, "d/1", &(cay__fs_grep_spec){ .pattern = "line" }, note_line, NULL),
        ECANCELED);
    assert_int_equal(fds_open(), before);
}

static void grep_reads_lines_as_they_end(void **s)
{
    (void)s;
    assert_int_equal(put_text("f", "\n\nab\r\nlast"), 0);
    assert_string_equal(grepped(".", (cay__fs_grep_spec){ .pattern = "^$" }), "f:1:1: f:2:1: ");
    assert_string_equal(grepped(".", (cay__fs_grep_spec){ .pattern = "b." }), "f:3:2:ab\r ");
    assert_string_equal(grepped(".", (cay__fs_grep_spec){ .pattern = "t$" }), "f:4:4:last ");
    assert_int_equal(put_text("f", "x\n"), 0); /* no line after the last newline */
    assert_string_equal(grepped(".", (cay__fs_grep_spec){ .pattern = ".*" }), "f:1:1:x ");
    assert_int_equal(put_text("f", ""), 0);
    assert_string_equal(grepped(".", (cay__fs_grep_spec){ .pattern = ".*" }), "");
}

static void plain_text_is_no_expression(void **s)
{
    (void)s;
    assert_int_equal(put_text("f", "a.b*[\nA.B*[\naxb\n"), 0);
    assert_string_equal(grepped(".", (cay__fs_grep_spec){ .pattern = "a.b*[", .plain = true }),
                        "f:1:1:a.b*[ ");
    assert_string_equal(
        grepped(".", (cay__fs_grep_spec){ .pattern = "a.B*[", .plain = true, .ignore_case = true }),
        "f:1:1:a.b*[ f:2:1:A.B*[ ");
    assert_string_equal(grepped(".", (cay__fs_grep_spec){ .pattern = "A.B", .ignore_case = true }),
                        "f:1:1:a.b*[ f:2:1:A.B*[ f:3:1:axb ");
    assert_null(grepped(".", (cay__fs_grep_spec){ .pattern = "a[" }));
    assert_int_equal(errno, EINVAL);
}

static void only_regular_text_files_are_searched(void **s)
{
    (void)s;
    assert_int_equal(put_text("text", "needle"), 0);
    assert_int_equal(cay__fs_put(&fs, "nul", "needle\0", 7, &(cay__fs_write){ 0 }), 0);
    assert_int_equal(cay__fs_symlink(&fs, "text", "link"), 0);
    assert_int_equal(cay__fs_symlink(&fs, t.out, "out"), 0);
    assert_int_equal(mkfifoat(t.root, "work/fifo", 0600), 0);
    int64_t began = cay__now_ms();
    assert_string_equal(grepped(".", (cay__fs_grep_spec){ .pattern = "needle|outside" }),
                        "text:1:1:needle ");
    assert_null(grepped("fifo", (cay__fs_grep_spec){ .pattern = "x" }));
    assert_int_equal(errno, ENXIO);
    assert_true(cay__now_ms() - began < 5000);
    assert_null(grepped("none", (cay__fs_grep_spec){ .pattern = "x" }));
    assert_int_equal(errno, ENOENT);
    assert_string_equal(grepped("link", (cay__fs_grep_spec){ .pattern = "needle" }),
                        "link:1:1:needle ");
}

static int measure_line(const cay__fs_line *l, void *arg)
{
    *(cay__fs_line *)arg = *l;
    return 3;
}

/* Lengths around the buffer of 64 KiB. */
static void long_lines_are_searched_in_pieces_and_cut(void **s)
{
    (void)s;
    static char text[200000];
    cay__fs_line l = { 0 };
    for (size_t len = 65530; len < 65545; len++) {
        memset(text, 'x', len);
        memcpy(text + len, "\nneedle\n", 9);
        assert_int_equal(put_text("f", text), 0);
        assert_string_equal(grepped(".", (cay__fs_grep_spec){ .pattern = "needle" }),
                            "f:2:1:needle ");
    }
    memset(text, 'x', sizeof text - 1);
    assert_int_equal(put_text("f", text), 0);
    assert_int_equal(
        cay__fs_grep(&fs, ".", &(cay__fs_grep_spec){ .pattern = "xx*" }, measure_line, &l), 3);
    assert_int_equal(l.len, 4096);
    assert_int_equal(l.column, 1);
    /* However many pieces match, it is one line. */
    const char *all = grepped(".", (cay__fs_grep_spec){ .pattern = "x", .plain = true });
    assert_string_equal(all, "f:1:1:xxxxxxxxxxxxxxxxxxxx ");
}

static int count_lines(const cay__fs_line *l, void *arg)
{
    (void)l;
    ++*(unsigned *)arg;
    return 0;
}

static void grep_ends_at_its_limit(void **s)
{
    (void)s;
    static char text[25001 * 2];
    unsigned n = 0;
    for (size_t i = 0; i < sizeof text - 2; i += 2)
        memcpy(text + i, "x\n", 2);
    assert_int_equal(put_text("a", text), 0);
    assert_int_equal(put_text("b", text), 0);
    assert_int_equal(
        cay__fs_grep(&fs, ".", &(cay__fs_grep_spec){ .pattern = "x" }, count_lines, &n), 0);
    assert_int_equal(n, 10000);
    n = 0;
    assert_int_equal(cay__fs_grep(&fs, ".", &(cay__fs_grep_spec){ .pattern = "x", .max = 30001 },
                                  count_lines, &n),
                     0);
    assert_int_equal(n, 30001);
    /* The caller's own end is told, also with the last line. */
    cay__fs_line l;
    assert_int_equal(
        cay__fs_grep(&fs, ".", &(cay__fs_grep_spec){ .pattern = "x", .max = 1 }, measure_line, &l),
        3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(patterns_match_whole_names),
        T(random_patterns_match_as_in_the_c_library),
        T(double_stars_match_any_number_of_directories),
        T(hostile_patterns_take_no_time),
        T(glob_skips_directories_that_cannot_match),
        T(glob_follows_links_only_in_plain_parts),
        T(glob_refuses_what_leads_out_of_its_base),
        T(a_search_can_be_ended_and_stopped),
        T(grep_reads_lines_as_they_end),
        T(plain_text_is_no_expression),
        T(only_regular_text_files_are_searched),
        T(long_lines_are_searched_in_pieces_and_cut),
        T(grep_ends_at_its_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
