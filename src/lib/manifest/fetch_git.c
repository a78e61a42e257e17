/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A repository, by the git of the host's /usr, in a sandbox that reaches its host and nothing else.
 *
 * What a repository could make git run stays off: hooks, filters, submodules, other transports,
 * bundle lists, credential helpers. It would run inside the sandbox, which has nothing; still
 * nothing is to run. A token is put into the requests outside.
 */
#include "fetch_inside.h"

#define REPO     "repo" /* in the working directory of the sandbox */
#define ARGS     40
#define OUTPUT   (8u << 20)       /* of ls-remote */
#define DEADLINE (30 * 60 * 1000) /* of all that git does for one entry */
enum { HEX_SHORT = 7, HEX_SHA1 = 40, HEX_SHA256 = 64 };

static const char *const safe[] = {
    "git",
    "-c",
    "protocol.allow=never",
    "-c",
    "protocol.https.allow=always",
    "-c",
    "protocol.http.allow=always",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "submodule.recurse=false",
    "-c",
    "fetch.recurseSubmodules=false",
    "-c",
    "transfer.bundleURI=false",
    "-c",
    "credential.helper=",
    "-c",
    "filter.lfs.required=false",
    "-c",
    "filter.lfs.smudge=",
    "-c",
    "http.lowSpeedLimit=1000",
    "-c",
    "http.lowSpeedTime=60",
    "-c",
    "gc.auto=0",
    "-c",
    "advice.detachedHead=false",
};
static const cay_pair env[] = {
    { "GIT_TERMINAL_PROMPT", "0" },
    { "GIT_CONFIG_NOSYSTEM", "1" },
    { "GIT_CONFIG_GLOBAL", "/dev/null" },
    { "GIT_ALLOW_PROTOCOL", "https:http" },
    { "GIT_ASKPASS", "/bin/false" },
    { "LC_ALL", "C.UTF-8" },
    { NULL, NULL },
};

typedef struct git {
    const cay__fetch_source *f;
    const cay_call *call;
    cay__oneshot *o;
    int64_t until; /* as cay__now_ms() has it */
} git;

static int is_not_found(const char *said)
{
    return strstr(said, "not found") || strstr(said, "No such file");
}

static int too_slow(const git *g, cay_err *err)
{
    return cay_fail_why(err, CAY_ETIMEOUT, "git_clone_error",
                        "git of %.120s took more than %d minutes", g->f->url, DEADLINE / 60000);
}

/* Runs it; *code is its status, and what it said goes to `out` (NUL-terminated text; may be NULL)
 * and `said`. */
static int run_git(const git *g, const char *const *args, const char *cwd, char **out,
                   char said[400], int *code, cay_err *err)
{
    const char *argv[CAY_LEN(safe) + ARGS + 1];
    size_t n = 0;
    cay_result r = { .size = sizeof r };
    for (; n < CAY_LEN(safe); n++)
        argv[n] = safe[n];
    for (size_t i = 0; args[i]; i++) {
        if (i == ARGS)
            return cay_fail(err, CAY_ETOOBIG, "too many words for git");
        argv[n++] = args[i];
    }
    argv[n] = NULL;
    int64_t left = g->until - cay__now_ms();
    if (left <= 0)
        return too_slow(g, err);
    cay_spawn spec = {
        .size = sizeof spec, .argv = argv, .env = env, .cwd = cwd, .timeout_ms = (uint64_t)left
    };
    int rc = cay_sandbox_run(cay__oneshot_sandbox(g->o), g->call, &spec, NULL, 0, OUTPUT, &r, err);
    if (rc == CAY_ENOENT && !cwd)
        return cay_fail_why(err, CAY_ENOENT, "git_missing_in_image",
                            "git is not installed on this host; install the package git");
    CAY_TRY(rc);
    if (!strcmp(r.exit.reason, "time")) {
        cay_result_clear(&r);
        return too_slow(g, err);
    }
    *code = r.exit.code;
    snprintf(said, 400, "%.399s", cay__source_last_line(r.errout));
    if (out)
        *out = CAY_STEAL(r.out);
    cay_result_clear(&r);
    return 0;
}

/* The same where anything but success is an error. */
static int run_git_checked(const git *g, const char *const *args, const char *cwd, char **out,
                           cay_err *err)
{
    char said[400];
    int code;
    CAY_TRY(run_git(g, args, cwd, out, said, &code, err));
    if (code == 0)
        return 0;
    if (code == 127 && is_not_found(said))
        return cay_fail_why(err, CAY_ENOENT, "git_missing_in_image",
                            "git is not installed on this host; install the package git");
    return cay_fail_why(err, CAY_EUPSTREAM, "git_clone_error", "git %s of %.80s: %.120s", args[0],
                        g->f->url, cay__text_or(said, "failed"));
}

static bool is_hex(const char *s, size_t at_least)
{
    size_t n = strspn(s, "0123456789abcdefABCDEF");
    return !s[n] && n >= at_least && n <= HEX_SHA256;
}

static bool whole_commit(const char *s)
{
    return s && is_hex(s, HEX_SHA1) && (strlen(s) == HEX_SHA1 || strlen(s) == HEX_SHA256);
}

/* Nothing that git or a server could read as something else. A manifest's check says the same; here
 * it is the wall. */
static int check_source(const cay__fetch_source *f, cay__url *url, cay_err *err)
{
    CAY_TRY(cay__url_parse(f->url, url, err));
    if (f->ref && (!f->ref[0] || f->ref[0] == '-' || strlen(f->ref) > 250 || strstr(f->ref, "..") ||
                   strstr(f->ref, "@{") || strpbrk(f->ref, " ~^:?*[\\\x7f\n\r\t") ||
                   f->ref[strlen(f->ref) - 1] == '/'))
        return cay_fail_why(err, CAY_EINVAL, "git_ref_not_found",
                            "\"%.60s\" is no name of a branch, tag or commit", f->ref);
    for (size_t i = 0; f->sparse && f->sparse[i]; i++)
        if (!cay__item_path_ok(f->sparse[i], false) || f->sparse[i][0] == '-' || i >= 64)
            return cay_fail_why(err, CAY_EINVAL, "git_subpath_error",
                                "sparse \"%.60s\" has to be a directory of the repository",
                                f->sparse[i]);
    if (f->subpath && f->subpath[0] && !cay__item_path_ok(f->subpath, true))
        return cay_fail_why(err, CAY_EINVAL, "git_subpath_error",
                            "subpath \"%.60s\" has to stay in the repository", f->subpath);
    return 0;
}

static int start_sandbox(cay_client *client, const cay__url *url, git *g, cay_err *err)
{
    char to[CAY__NAME_MAX + 64], place[CAY__NAME_MAX + 32];
    cay__source_place(url, place, sizeof place);
    CAY_FORMAT(to, "%s,basic:x-access-token",
               place); /* hosts take a token as password, whoever the user */
    g->until = cay__now_ms() + DEADLINE;
    cay_secret s = { .name = "GIT_TOKEN", .source = g->f->credentials, .destination = to };
    return cay__source_sandbox(client, g->call, g->f, url, &s, g->f->credentials ? 1 : 0, &g->o,
                               err);
}

/* The commit that a line of ls-remote names `name`, in hex. */
static bool find_commit(const char *text, const char *name, char out[HEX_SHA256 + 1])
{
    size_t want = strlen(name);
    for (const char *p = text; *p; p += strcspn(p, "\n"), p += *p == '\n') {
        size_t n = strcspn(p, "\t\n"), line = strcspn(p, "\n");
        if (p[n] != '\t' || line - n - 1 != want || memcmp(p + n + 1, name, want) || n > HEX_SHA256)
            continue;
        memcpy(out, p, n);
        out[n] = 0;
        return whole_commit(out);
    }
    return false;
}

static int resolve_commit(const git *g, char commit[HEX_SHA256 + 1], cay_err *err)
{
    static const char *const forms[][2] = {
        { "refs/heads/", "" }, { "refs/tags/", "^{}" }, { "refs/tags/", "" }, { "", "" }
    };
    const char *ref = g->f->ref, *const head[] = { "ls-remote", "--", g->f->url, "HEAD", NULL };
    char names[CAY_LEN(forms)][300];
    CAY_AUTOFREE char *text = NULL;
    if (!ref) {
        CAY_TRY(run_git_checked(g, head, NULL, &text, err));
        if (find_commit(text, "HEAD", commit))
            return 0;
        return cay_fail_why(err, CAY_ENOENT, "git_ref_not_found", "%.120s has no commit yet",
                            g->f->url);
    }
    for (size_t i = 0; i < CAY_LEN(forms); i++)
        CAY_FORMAT(names[i], "%s%s%s", forms[i][0], ref, forms[i][1]);
    const char *const args[] = { "ls-remote", "--",     g->f->url, names[0],
                                 names[1],    names[2], names[3],  NULL };
    CAY_TRY(run_git_checked(g, args, NULL, &text, err));
    for (size_t i = 0; i < CAY_LEN(forms); i++)
        if ((i < 3 || cay__str_starts(ref, "refs/")) && find_commit(text, names[i], commit))
            return 0;
    return cay_fail_why(
        err, CAY_ENOENT, "git_ref_not_found", "%.100s has no branch or tag %.80s%s", g->f->url, ref,
        CAY_TEXT_IF(is_hex(ref, HEX_SHORT), "; give a commit with all its 40 digits"));
}

int cay__git_identity(cay_client *client, const cay_call *call, const cay__fetch_source *f,
                      char identity[CAY__IDENTITY], cay_err *err)
{
    char commit[HEX_SHA256 + 1];
    cay__url url;
    CAY_TRY(check_source(f, &url, err));
    if (whole_commit(f->ref)) {
        snprintf(identity, CAY__IDENTITY, "git:%s", f->ref);
        return 0;
    }
    git g = { .f = f, .call = call };
    CAY_TRY(start_sandbox(client, &url, &g, err));
    CAY_AUTOPTR(cay__oneshot) o __attribute__((unused)) = g.o;
    CAY_TRY(resolve_commit(&g, commit, err));
    snprintf(identity, CAY__IDENTITY, "git:%s", commit);
    return 0;
}

static int fetch_commit(const git *g, const char *commit, cay_err *err)
{
    char depth[32], said[400];
    const char *ref = CAY_IF(g->f->ref && !whole_commit(g->f->ref), g->f->ref), *args[16];
    int code;
    size_t n = 0;
    CAY_FORMAT(depth, "--depth=%u", CAY_OR(g->f->depth, 1));
    args[n++] = "fetch";
    args[n++] = "-q";
    args[n++] = "--no-tags";
    args[n++] = "--no-recurse-submodules";
    if (!g->f->whole)
        args[n++] = depth;
    if (g->f->sparse && g->f->sparse[0])
        args[n++] = "--filter=blob:none";
    args[n++] = "--end-of-options";
    args[n++] = "origin";
    args[n++] = commit;
    args[n] = NULL;
    CAY_TRY(run_git(g, args, REPO, NULL, said, &code, err));
    if (code == 0)
        return 0;
    /* Some servers give commits only by the names they have. */
    args[n - 1] = CAY_OR(ref, "HEAD");
    CAY_TRY(run_git(g, args, REPO, NULL, said, &code, err));
    if (code)
        return cay_fail_why(err, CAY_EUPSTREAM, "git_clone_error", "git fetch of %.80s: %.120s",
                            g->f->url, cay__text_or(said, "failed"));
    return 0;
}

static int check_out(const git *g, const char *commit, cay_err *err)
{
    const char *const have[] = { "cat-file", "-e", commit, NULL };
    const char *const head[] = { "rev-parse", "--verify", "HEAD", NULL };
    const char *sparse[70] = { "sparse-checkout", "set", "--cone", "--end-of-options" };
    char said[400], full[HEX_SHA256 + 20];
    CAY_AUTOFREE char *at = NULL;
    int code;
    CAY_TRY(run_git(g, have, REPO, NULL, said, &code, err));
    if (code && whole_commit(g->f->ref))
        return cay_fail_why(err, CAY_ENOENT, "git_ref_not_found", "%.100s gives no commit %.12s",
                            g->f->url, commit);
    if (code)
        return cay_fail_why(err, CAY_EBUSY, "git_moved",
                            "%.100s has commit %.12s no more; try again", g->f->url, commit);
    for (size_t i = 0; g->f->sparse && g->f->sparse[i]; i++)
        sparse[4 + i] = g->f->sparse[i];
    if (g->f->sparse && g->f->sparse[0])
        CAY_TRY(run_git_checked(g, sparse, REPO, NULL, err));
    CAY_FORMAT(full, "%s^{commit}", commit);
    const char *const go[] = { "checkout", "-q", "--detach", full, NULL };
    CAY_TRY(run_git_checked(g, go, REPO, NULL, err));
    CAY_TRY(run_git_checked(g, head, REPO, &at, err));
    /* A tag may stand for a commit; a commit's name stands for itself, and is its content's hash.
     */
    if (strncasecmp(at, commit, strlen(commit)))
        return cay_fail_why(err, CAY_EUPSTREAM, "git_clone_error",
                            "%.100s gave another commit than %.12s", g->f->url, commit);
    return 0;
}

static int on_items(uint64_t items, uint64_t bytes, void *arg, cay_err *err)
{
    const cay__fetch_source *f = arg;
    if (f->progress)
        return f->progress(bytes, f->arg, err);
    return 0;
}

static int copy_tree(const git *g, int dir, cay__brought *out, cay_err *err)
{
    char tree[CAY__ITEM_PATH + 8];
    bool all = !g->f->subpath || !g->f->subpath[0] || !strcmp(g->f->subpath, ".");
    CAY_FORMAT(tree, REPO "%s%s", CAY_TEXT_IF(!all, "/"), CAY_TEXT_IF(!all, g->f->subpath));
    const char *const args[] = { "clone", "walk", tree, NULL };
    cay__sink sink = { .root = dir,
                       .threads = 1,
                       .max_bytes = 8ull << 30,
                       .max_items = 500000,
                       .check = on_items,
                       .arg = (void *)(uintptr_t)g->f };
    int rc = cay__oneshot_unpack(g->o, g->call, args, -1, &sink, err);
    out->bytes = sink.bytes;
    out->items = sink.items;
    if (rc == CAY_EUPSTREAM)
        return cay_fail_why(err, CAY_EUPSTREAM, "git_copy_error",
                            "%.60s of %.100s is no directory there, or could not be copied",
                            all ? "the tree" : g->f->subpath, g->f->url);
    return rc;
}

int cay__git_fetch(cay_client *client, const cay_call *call, const cay__fetch_source *f,
                   const char *identity, int dir, cay__brought *out, cay_err *err)
{
    char commit[HEX_SHA256 + 1];
    cay__url url;
    git g = { .f = f, .call = call };
    CAY_TRY(check_source(f, &url, err));
    CAY_TRY(start_sandbox(client, &url, &g, err));
    CAY_AUTOPTR(cay__oneshot) o __attribute__((unused)) = g.o;
    if (identity && cay__str_starts(identity, "git:") && whole_commit(identity + 4))
        CAY_COPY(commit, identity + 4);
    else if (whole_commit(f->ref))
        CAY_COPY(commit, f->ref);
    else
        CAY_TRY(resolve_commit(&g, commit, err));
    const char *const init[] = {
        "init",
        "-q",
        "--template=",
        strlen(commit) == HEX_SHA256 ? "--object-format=sha256" : "--object-format=sha1",
        "--",
        REPO,
        NULL
    };
    const char *const remote[] = { "remote", "add", "--", "origin", f->url, NULL };
    CAY_TRY(run_git_checked(&g, init, NULL, NULL, err));
    CAY_TRY(run_git_checked(&g, remote, REPO, NULL, err));
    CAY_TRY(fetch_commit(&g, commit, err));
    CAY_TRY(check_out(&g, commit, err));
    CAY_TRY(copy_tree(&g, dir, out, err));
    CAY_FORMAT(out->identity, "git:%s", commit);
    return 0;
}
