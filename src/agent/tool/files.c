/* SPDX-License-Identifier: Apache-2.0 */
/* file_read, file_write, file_edit, file_delete, file_list, file_search, file_find, grep. */
#include "toolset.h"
#include <regex.h>

enum { LIST_MAX = 2000, FIND_MAX = 1000, GREP_MAX = 50, EDIT_MAX = 16 << 20 };

static const char *behind_line(const char *p, const char *end)
{
    const char *nl = memchr(p, '\n', (size_t)(end - p));
    return nl ? nl + 1 : end;
}

static const char *get_string(const json_t *args, const char *key)
{
    return cay__json_str(args, key, "");
}

CAY__TOOL_FN(file_read)
{
    char path[CAY__TOOL_PATH];
    CAY_AUTOBUF b = CAY__BUF(CAY__TOOL_TEXT + 131072);
    int64_t first = cay__json_int(args, "start_line", 1),
            last = cay__json_int(args, "end_line", INT64_MAX);
    CAY_TRY(cay__tool_path(ts, call, get_string(args, "file"), path, err));
    CAY_TRY(cay__tool_slurp(ts, call, path, CAY__TOOL_TEXT, &b, err));
    if (b.len > CAY__TOOL_TEXT)
        return cay_fail(err, CAY_ETOOBIG,
                        "%.200s is larger than 16 MiB; read it in parts with a command",
                        get_string(args, "file"));
    if (last < first)
        return cay_fail(err, CAY_EINVAL, "end_line is before start_line");
    const char *p = CAY_OR(b.data, ""), *end = p + b.len, *from = p;
    int64_t line = 1;
    for (; line < first && p < end; line++)
        p = behind_line(p, end);
    if (first > 1 && p >= end)
        return cay_fail(err, CAY_EINVAL, "%.150s has only %lld lines", get_string(args, "file"),
                        (long long)line - 1);
    for (from = p; line <= last && p < end; line++)
        p = behind_line(p, end);
    cay_output_text(out, from, (size_t)(p - from));
    return 0;
}

static int from_base64(const char *s, cay__buf *b, cay_err *err)
{
    static const char set[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t v = 0;
    int bits = 0;
    for (; *s; s++) {
        const char *at = strchr(set, *s);
        if (*s == '\n' || *s == '\r' || *s == ' ' || *s == '=')
            continue;
        if (!at)
            return cay_fail(err, CAY_EINVAL, "content is not base64");
        v = v << 6 | (uint32_t)(at - set);
        if ((bits += 6) >= 8) {
            char byte = (char)(v >> (bits -= 8));
            cay__buf_add(b, &byte, 1);
        }
    }
    return 0;
}

CAY__TOOL_FN(file_write)
{
    char path[CAY__TOOL_PATH];
    const json_t *content = json_object_get(args, "content");
    CAY_AUTOBUF b = CAY__BUF(CAY__TEXT_MAX);
    cay_write spec = { .size = sizeof spec,
                       .parents = true,
                       .append = cay__json_bool(args, "append", false),
                       .user = ts->user };
    const char *data = json_string_value(content);
    size_t n = json_string_length(content);
    CAY_TRY(cay__tool_path(ts, call, get_string(args, "file"), path, err));
    if (!strcmp(get_string(args, "encoding"), "base64")) {
        CAY_TRY(from_base64(data, &b, err));
        data = CAY_OR(b.data, "");
        n = b.len;
    }
    CAY_TRY(cay_file_put(ts->sb, call, path, data, n, &spec, err));
    return cay__tool_say(out, "Successfully wrote %zu bytes to %s", n, cay__tool_shown(ts, path));
}

static size_t count_occurrences(const cay__buf *b, const char *old, size_t n, const char **at)
{
    size_t found = 0;
    const char *p = CAY_OR(b->data, ""), *end = p + b->len;
    for (const char *hit; (hit = memmem(p, (size_t)(end - p), old, n)); p = hit + 1)
        if (!found++)
            *at = hit;
    return found;
}

CAY__TOOL_FN(file_edit)
{
    char path[CAY__TOOL_PATH];
    CAY_AUTOBUF b = CAY__BUF(EDIT_MAX + 131072);
    CAY_AUTOBUF new = CAY__BUF(2 * (size_t)EDIT_MAX);
    const json_t *old = json_object_get(args, "old_str"), *with = json_object_get(args, "new_str");
    const char *at = NULL;
    cay_write spec = { .size = sizeof spec, .user = ts->user };
    CAY_TRY(cay__tool_path(ts, call, get_string(args, "file"), path, err));
    if (!json_string_length(old))
        return cay_fail(err, CAY_EINVAL, "old_str is empty; file_write makes new files");
    CAY_TRY(cay__tool_slurp(ts, call, path, EDIT_MAX, &b, err));
    if (b.len > EDIT_MAX)
        return cay_fail(err, CAY_ETOOBIG, "%.200s is larger than 16 MiB", get_string(args, "file"));
    size_t n = count_occurrences(&b, json_string_value(old), json_string_length(old), &at);
    if (n != 1) {
        if (n)
            return cay_fail(err, CAY_EINVAL,
                            "old_str occurs %zu times in %.150s; give more of what is around it", n,
                            get_string(args, "file"));
        return cay_fail(err, CAY_EINVAL,
                        "old_str is not in %.150s; read it again and give the passage exactly",
                        get_string(args, "file"));
    }
    cay__buf_add(&new, b.data, (size_t)(at - b.data));
    cay__buf_add(&new, json_string_value(with), json_string_length(with));
    at += json_string_length(old);
    cay__buf_add(&new, at, (size_t)(b.data + b.len - at));
    if (new.full)
        return cay_fail(err, CAY_ETOOBIG, "%.200s would be larger than 32 MiB",
                        get_string(args, "file"));
    CAY_TRY(cay_file_put(ts->sb, call, path, CAY_OR(new.data, ""), new.len, &spec, err));
    return cay__tool_say(out, "Successfully edited %s", cay__tool_shown(ts, path));
}

CAY__TOOL_FN(file_delete)
{
    char path[CAY__TOOL_PATH];
    cay_stat st = { .size_of = sizeof st };
    bool all = cay__json_bool(args, "recursive", false);
    CAY_TRY(cay__tool_path(ts, call, get_string(args, "file"), path, err));
    if (!strcmp(path, ts->root) || !strcmp(path, ts->cwd))
        return cay_fail(err, CAY_EPERM, "the working directory itself is not deleted");
    CAY_TRY(cay_file_stat(ts->sb, call, path, false, &st, err));
    if (st.type == CAY_DIR && !all)
        return cay_fail(
            err, CAY_ETYPE,
            "%.200s is a directory; give recursive true to delete it with all that is in it",
            get_string(args, "file"));
    CAY_TRY(cay_file_remove(ts->sb, call, path, all, err));
    return cay__tool_say(out, "Successfully deleted %s", cay__tool_shown(ts, path));
}

typedef struct listing {
    cay__buf b;
    size_t n, most;
    bool hidden, plain;
} listing;

static bool is_hidden(const char *path)
{
    return path[0] == '.' || strstr(path, "/.");
}

static int add_entry(const cay_dirent *e, void *arg)
{
    listing *l = arg;
    if (!l->hidden && is_hidden(e->path))
        return 0;
    if (l->n++ >= l->most)
        return 0;
    if (l->plain)
        cay__buf_fmt(&l->b, "%s\n", e->path);
    else if (e->st.type == CAY_FILE)
        cay__buf_fmt(&l->b, "f %10llu %s\n", (unsigned long long)e->st.size, e->path);
    else if (e->st.type == CAY_LINK)
        cay__buf_fmt(&l->b, "l %10s %s -> %s\n", "-", e->path, e->st.target);
    else
        cay__buf_fmt(&l->b, "%c %10s %s%s\n", (char)e->st.type, "-", e->path,
                     CAY_TEXT_IF(e->st.type == CAY_DIR, "/"));
    return 0;
}

/* rc: of listing; it is returned. */
static int tell_list(listing *l, int rc, const char *none, cay_tool_output *out)
{
    if (l->n > l->most)
        cay__buf_fmt(&l->b, "[%zu more are not told]\n", l->n - l->most);
    if (!l->n)
        cay__buf_str(&l->b, none);
    if (rc >= 0)
        cay_output_text(out, l->b.data, l->b.len);
    cay__buf_clear(&l->b);
    return rc < 0 ? rc : 0;
}

CAY__TOOL_FN(file_list)
{
    char path[CAY__TOOL_PATH];
    listing l = { .b = CAY__BUF(CAY__TOOL_TEXT),
                  .most = LIST_MAX,
                  .hidden = cay__json_bool(args, "show_hidden", false) };
    CAY_TRY(cay__tool_path(ts, call, get_string(args, "path"), path, err));
    int rc = cay_dir_list(ts->sb, call, path, !cay__json_bool(args, "recursive", false), add_entry,
                          &l, err);
    return tell_list(&l, rc, "The directory is empty.", out);
}

CAY__TOOL_FN(file_find)
{
    char path[CAY__TOOL_PATH];
    CAY_AUTOBUF deep = CAY__BUF(CAY__TOOL_PATH);
    listing l = { .b = CAY__BUF(CAY__TOOL_TEXT), .most = FIND_MAX, .plain = true, .hidden = true };
    const char *pattern = cay__json_str(args, "glob", get_string(args, "pattern"));
    CAY_TRY(cay__tool_path(ts, call, get_string(args, "path"), path, err));
    if (!*pattern || pattern[0] == '/' || strstr(pattern, ".."))
        return cay_fail(err, CAY_EINVAL,
                        "pattern \"%.100s\": want one that is relative to path, without ..",
                        pattern);
    /* file_find looks for a bare name everywhere; glob takes it as it is. */
    cay__buf_fmt(&deep, "%s%s",
                 CAY_TEXT_IF(json_object_get(args, "glob") && !strchr(pattern, '/'), "**/"),
                 pattern);
    if (deep.full)
        return cay_fail(err, CAY_ETOOBIG, "the pattern is too long");
    int rc = cay_file_glob(ts->sb, call, path, deep.data, add_entry, &l, err);
    return tell_list(&l, rc, "No file fits.", out);
}

CAY__TOOL_FN(file_search)
{
    char path[CAY__TOOL_PATH], why[128];
    CAY_AUTOBUF b = CAY__BUF(CAY__TOOL_TEXT + 131072);
    regex_t re;
    size_t found = 0;
    CAY_TRY(cay__tool_path(ts, call, get_string(args, "file"), path, err));
    CAY_TRY(cay__tool_slurp(ts, call, path, CAY__TOOL_TEXT, &b, err));
    if (b.len > CAY__TOOL_TEXT)
        return cay_fail(err, CAY_ETOOBIG, "%.200s is larger than 16 MiB; search it with a command",
                        get_string(args, "file"));
    int bad = REG_ESPACE;
    if (strlen(get_string(args, "regex")) <= 1000)
        bad = regcomp(&re, get_string(args, "regex"), REG_EXTENDED | REG_NEWLINE);
    if (bad) {
        regerror(bad, NULL, why, sizeof why);
        return cay_fail_why(err, CAY_EINVAL, "pattern_invalid", "regex \"%.100s\": %s",
                            get_string(args, "regex"), why);
    }
    int64_t line = 1;
    for (char *p = b.data, *end = p + b.len; p && p < end; line++) {
        char *nl = memchr(p, '\n', (size_t)(end - p));
        char *stop = CAY_OR(nl, end);
        *stop = 0; /* the buffer has a byte to spare */
        if (!(line % 4096) && cay__call_check(call, "search", NULL) < 0)
            break;
        if (!regexec(&re, p, 0, NULL, 0) && ++found <= LIST_MAX)
            cay__tool_say(out, "%lld: %.1000s\n", (long long)line, p);
        p = stop + 1;
    }
    regfree(&re);
    if (found > LIST_MAX)
        return cay__tool_say(out, "[%zu more are not told]\n", found - LIST_MAX);
    if (found)
        return 0;
    return cay__tool_say(out, "No line matches.");
}

typedef struct hits {
    cay_tool_output *out;
    size_t n;
} hits;

static int add_hit(const cay_match *m, void *arg)
{
    hits *h = arg;
    h->n++;
    return cay__tool_say(h->out, "%s:%llu: %.*s\n", m->path, (unsigned long long)m->line,
                         (int)CAY_MIN(m->text_len, (size_t)500), m->text);
}

CAY__TOOL_FN(grep)
{
    char path[CAY__TOOL_PATH];
    hits h = { .out = out };
    const char *glob = get_string(args, "file_glob");
    cay_grep spec = { .size = sizeof spec,
                      .pattern = get_string(args, "pattern"),
                      .ignore_case = cay__json_bool(args, "case_insensitive", false),
                      .include = cay__text_or(glob, NULL),
                      .max = GREP_MAX };
    CAY_TRY(cay__tool_path(ts, call, get_string(args, "path"), path, err));
    CAY_TRY(cay_file_grep(ts->sb, call, path, &spec, add_hit, &h, err));
    if (h.n >= GREP_MAX)
        return cay__tool_say(out, "[there may be more: narrow it down]\n");
    if (h.n)
        return 0;
    return cay__tool_say(out, "No line matches.");
}
