/* SPDX-License-Identifier: Apache-2.0 */
/* git_clone, git_status, git_commit, git_push. */
#include "toolset.h"

enum { GIT_S = 600, WORDS = 24 };
#define WORDS_OF(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* Never asks, and trusts the owner of whatever is in the sandbox. */
static const cay_pair quiet[] = { { "GIT_TERMINAL_PROMPT", "0" },
                                  { "GIT_ASKPASS", "/bin/true" },
                                  { "GIT_EDITOR", "true" },
                                  { "LC_ALL", "C" },
                                  { NULL, NULL } };

/* Names and passwords in addresses: what stands between :// and @ is replaced. */
static void hide_credentials(const char *s, size_t n, cay__buf *out)
{
    for (size_t i = 0; i < n;) {
        if (n - i < 3 || memcmp(s + i, "://", 3)) {
            cay__buf_add(out, s + i++, 1);
            continue;
        }
        size_t end = i + 3, at = 0;
        for (; end < n && !strchr("/ \t\r\n'\"", s[end]); end++) {
            if (s[end] == '@')
                at = end;
        }
        cay__buf_str(out, "://");
        i += 3;
        if (at) {
            cay__buf_str(out, "***");
            i = at;
        }
    }
}

static int run_git(cay_toolset *ts, const cay_call *call, const char *dir, const char *const *words,
                   cay_result *res, cay_err *err)
{
    const char *argv[WORDS + 8] = { "git", "-c", "safe.directory=*" };
    size_t n = 3;
    for (size_t i = 0; words[i] && i < WORDS; i++)
        argv[n++] = words[i];
    cay__tool_cmd cmd = { .argv = argv, .dir = dir, .env = quiet, .seconds = GIT_S };
    int rc = cay__tool_run(ts, call, &cmd, res, err);
    if (rc == CAY_ENOENT)
        return cay_fail(err, rc,
                        "git is not in this sandbox, or the directory is not there; "
                        "install it, or use a template that has it");
    return rc;
}

static void report_result(const cay_result *res, cay_tool_output *out)
{
    CAY_AUTOBUF a = CAY__BUF(4 * CAY__KEEP_BYTES);
    CAY_AUTOBUF b = CAY__BUF(4 * CAY__KEEP_BYTES);
    hide_credentials(CAY_OR(res->out, ""), res->out_len, &a);
    hide_credentials(CAY_OR(res->errout, ""), res->errout_len, &b);
    cay_result hidden = { .exit = res->exit,
                          .out = a.data,
                          .out_len = a.len,
                          .errout = b.data,
                          .errout_len = b.len,
                          .truncated = res->truncated };
    cay__tool_told(&hidden, GIT_S, out);
}

/* A word that git would take for an option. */
static int no_option(const char *what, const char *word, cay_err *err)
{
    if (word && *word == '-')
        return cay_fail(err, CAY_EINVAL, "%s \"%.60s\" begins with a dash", what, word);
    return 0;
}

/* Tells what failed, if it did. */
static bool clear_success(cay_result *res, cay_tool_output *out)
{
    bool ok = !res->exit.code;
    if (!ok)
        report_result(res, out);
    cay_result_clear(res);
    return ok;
}

CAY__TOOL_FN(git_clone)
{
    const char *url = cay__json_str(args, "url", ""), *path = cay__json_str(args, "path", NULL),
               *branch = cay__json_str(args, "branch", NULL);
    int64_t depth = cay__json_int(args, "depth", 0);
    char dir[CAY__TOOL_PATH], name[256], number[24];
    size_t n = strlen(url), from;
    while (n && url[n - 1] == '/')
        n--;
    for (from = n; from && !strchr("/:", url[from - 1]); from--)
        ;
    CAY_FORMAT(name, "%.*s", (int)(n - from), url + from);
    if (strlen(name) > 4 && !strcmp(name + strlen(name) - 4, ".git"))
        name[strlen(name) - 4] = 0;
    CAY_TRY(no_option("url", url, err));
    CAY_TRY(no_option("branch", branch, err));
    if (!*name && !path)
        return cay_fail(err, CAY_EINVAL, "url \"%.100s\" has no name in it; give a path", url);
    CAY_TRY(cay__tool_path(ts, call, CAY_OR(path, name), dir, err));
    const char *words[WORDS] = { "clone", "--no-progress" };
    size_t k = 2;
    CAY_FORMAT(number, "%lld", (long long)depth);
    if (branch)
        words[k++] = "--branch", words[k++] = branch;
    if (depth)
        words[k++] = "--depth", words[k++] = number;
    /* Named from the directory above: what a command sees as absolute paths is the provider's
     * affair. */
    char above[CAY__TOOL_PATH];
    const char *slash = strrchr(dir, '/');
    CAY_FORMAT(above, "%.*s", slash > dir ? (int)(slash - dir) : 1, dir);
    CAY_TRY(cay_file_mkdir(ts->sb, call, above, 0755, true, err));
    words[k++] = "--", words[k++] = url, words[k++] = slash + 1;
    cay_result res;
    CAY_TRY(run_git(ts, call, above, words, &res, err));
    if (!clear_success(&res, out))
        return 0;
    CAY_TRY(run_git(ts, call, dir, WORDS_OF("rev-parse", "HEAD"), &res, err));
    cay__tool_say(out, "[SUCCESS]\nCloned into %s at %.40s", cay__tool_shown(ts, dir),
                  res.exit.code ? "no commit yet" : res.out);
    cay_result_clear(&res);
    return 0;
}

/* "XY path" lines: X is the index, Y the work tree. */
static void sort_line(const char *line, size_t n, cay__buf parts[3])
{
    if (n < 4)
        return;
    if (line[0] == '?') {
        cay__buf_fmt(&parts[2], "  %.*s\n", (int)(n - 3), line + 3);
        return;
    }
    if (line[0] != ' ')
        cay__buf_fmt(&parts[0], "  %c %.*s\n", line[0], (int)(n - 3), line + 3);
    if (line[1] != ' ')
        cay__buf_fmt(&parts[1], "  %c %.*s\n", line[1], (int)(n - 3), line + 3);
}

CAY__TOOL_FN(git_status)
{
    static const char *const titles[] = { "staged", "unstaged", "untracked" };
    cay__buf parts[3] = { CAY__BUF(CAY__KEEP_BYTES), CAY__BUF(CAY__KEEP_BYTES),
                          CAY__BUF(CAY__KEEP_BYTES) };
    char dir[CAY__TOOL_PATH];
    cay_result res;
    CAY_TRY(cay__tool_path(ts, call, cay__json_str(args, "path", ""), dir, err));
    CAY_TRY(run_git(ts, call, dir, WORDS_OF("status", "--porcelain=v1", "--branch"), &res, err));
    if (res.exit.code) {
        report_result(&res, out);
        cay_result_clear(&res);
        return 0;
    }
    for (const char *p = res.out, *end = p + res.out_len; p < end;) {
        size_t n = strcspn(p, "\n");
        if (!strncmp(p, "## ", 3))
            cay__tool_say(out, "branch: %.*s\n", (int)CAY_MIN(n - 3, (size_t)299), p + 3);
        else
            sort_line(p, n, parts);
        p += n + 1;
    }
    bool clean = true;
    for (size_t i = 0; i < 3; i++) {
        if (parts[i].len)
            cay__tool_say(out, "%s:\n%s", titles[i], parts[i].data);
        clean = clean && !parts[i].len;
        cay__buf_clear(&parts[i]);
    }
    cay_result_clear(&res);
    if (clean)
        return cay__tool_say(out, "nothing to commit\n");
    return 0;
}

CAY__TOOL_FN(git_commit)
{
    char dir[CAY__TOOL_PATH];
    CAY_AUTOBUF author = CAY__BUF(1024);
    const char *who = cay__json_str(args, "author", NULL);
    cay_result res;
    CAY_TRY(cay__tool_path(ts, call, cay__json_str(args, "path", ""), dir, err));
    if (cay__json_bool(args, "all", false)) {
        CAY_TRY(run_git(ts, call, dir, WORDS_OF("add", "--all"), &res, err));
        if (!clear_success(&res, out))
            return 0;
    }
    CAY_TRY(run_git(ts, call, dir, WORDS_OF("config", "user.email"), &res, err));
    bool known = !res.exit.code;
    cay_result_clear(&res);
    const char *words[WORDS] = { 0 };
    size_t k = 0;
    if (!known) /* a sandbox knows nobody: the commit is the agent's */
        words[k++] = "-c", words[k++] = "user.name=agent", words[k++] = "-c",
        words[k++] = "user.email=agent@localhost";
    words[k++] = "commit", words[k++] = "--quiet", words[k++] = "-m",
    words[k++] = cay__json_str(args, "message", "");
    cay__buf_fmt(&author, "--author=%s", CAY_OR(who, ""));
    if (who)
        words[k++] = author.data;
    CAY_TRY(run_git(ts, call, dir, words, &res, err));
    if (!clear_success(&res, out))
        return 0;
    CAY_TRY(run_git(ts, call, dir, WORDS_OF("rev-parse", "HEAD"), &res, err));
    cay__tool_say(out, "[SUCCESS]\nCommitted %.40s", CAY_OR(res.out, ""));
    cay_result_clear(&res);
    return 0;
}

CAY__TOOL_FN(git_push)
{
    char dir[CAY__TOOL_PATH];
    const char *remote = cay__json_str(args, "remote", "origin"),
               *branch = cay__json_str(args, "branch", "HEAD");
    cay_result res;
    CAY_TRY(cay__tool_path(ts, call, cay__json_str(args, "path", ""), dir, err));
    CAY_TRY(no_option("remote", remote, err));
    CAY_TRY(no_option("branch", branch, err));
    CAY_TRY(
        run_git(ts, call, dir, WORDS_OF("push", "--no-progress", "--", remote, branch), &res, err));
    report_result(&res, out);
    cay_result_clear(&res);
    return 0;
}
