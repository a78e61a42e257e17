/* SPDX-License-Identifier: Apache-2.0 */
/* cay open: the console in a browser, logged in by a link that works once. */
#include "main.h"
#include "out.h"
#include <base/base.h>
#include <base/path.h>
#include <cay/access.h>
#include <spawn.h>
#include <strings.h>
#include <sys/wait.h>

extern char **environ;
enum { LINK_MS = 15 * 60000 };

typedef struct open_args {
    bool print;
    const char *url;
} open_args;

static const opt_def defs[] = {
    OPT_FLAG("-p, --print", "print the link and open nothing", open_args, print),
    OPT_STR("--url URL", "where the server is, when it is not the one of this state directory",
            open_args, url),
    OPT_END
};

/* Cookies know no ports: what a browser keeps for 127.0.0.1 it shows to every server there, to a
 * sandbox's that `cay port forward` put there as well. So the console has a name of its own, which
 * browsers find without asking anybody. */
static void own_name(char *url, size_t cap)
{
    static const char *const shared[] = { "http://127.0.0.1", "http://localhost", "http://[::1]" };
    char rest[1024];
    CAY_EACH(it, shared) {
        size_t n = strlen(*it);
        if (strncasecmp(url, *it, n) != 0 || (url[n] && url[n] != ':' && url[n] != '/') ||
            !CAY_COPY(rest, url + n))
            continue;
        cay__str_join(url, cap, "http://cay.localhost", rest, NULL);
        return;
    }
}

/* The server leaves its address in the state directory as long as it runs. */
static int server_url(cay_client *client, const open_args *a, char *out, size_t cap, cay_err *err)
{
    char path[4096];
    if (a->url) {
        cay__str_copy(out, cap, a->url);
    } else {
        CAY_JOIN(path, cay_client_home(client), "/server.url");
        if (cay__fd_read_file(AT_FDCWD, path, out, cap) <= 0)
            return cay_fail_why(
                err, CAY_ENOENT, "no_server",
                "no server runs on this state directory: start `cay serve`, or name one by --url");
    }
    for (size_t n = strlen(out); n && strchr("/\n", out[n - 1]);)
        out[--n] = 0;
    if (!cay__str_starts(out, "http://") && !cay__str_starts(out, "https://"))
        return cay_fail(err, CAY_EINVAL, "--url \"%.100s\": want http:// or https://", out);
    own_name(out, cap);
    return 0;
}

/* What opens an address here; no shell in between. */
static bool open_browser(char *url)
{
    static const char *const openers[] = { "xdg-open", "x-www-browser", "open" };
    const char *own = getenv("BROWSER");
    if (!getenv("DISPLAY") && !getenv("WAYLAND_DISPLAY") && !own)
        return false;
    for (size_t i = own && *own ? 0 : 1; i <= CAY_LEN(openers); i++) {
        const char *program = own;
        if (i)
            program = openers[i - 1];
        char *argv[] = { (char *)(uintptr_t)program, url, NULL };
        pid_t pid;
        int status;
        if (posix_spawnp(&pid, program, NULL, NULL, argv, environ) == 0 &&
            waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status))
            return true;
    }
    return false;
}

static int run_open(cli_call *c, cay_err *err)
{
    const open_args *a = c->opts;
    char url[1024], link[2048], text[CAY_KEY_LEN + 1], id[CAY_KEY_ID_LEN + 1] = "";
    cay_key k = { .size = sizeof k,
                  .scope = CAY_KEY_LOGIN_LINK,
                  .name = "console link",
                  .expires_ms = cay__clock_ms() + LINK_MS };
    if (cay_client_host(c->client)) {
        cay_fail_why(err, CAY_ENOTSUP, "remote_unsupported",
                     "open: a link that logs in is made on the server's host; go to %.150s and log "
                     "in with a key",
                     cay_client_host(c->client));
        return cli_fail(err, CLI_FAIL);
    }
    if (server_url(c->client, a, url, sizeof url, err) < 0 ||
        (c->argc && cli_boxes->find(c->argv[0], &c->sb, err) < 0) ||
        cay_key_create(c->client, &k, text, err) < 0)
        return cli_fail(err, CLI_FAIL);
    memcpy(id, text + 4, CAY_KEY_ID_LEN);
    cli_audit("console.link", CAY_TENANT_DEFAULT, id);
    /* Behind the #: browsers send that to nobody, so it is in no log. */
    CAY_FORMAT(link, "%s/#/%s%s?in=%s", url, c->sb ? "sandbox/" : "",
               c->sb ? cay_sandbox_id(c->sb) : "", text);
    explicit_bzero(text, sizeof text);
    if (a->print || cli.quiet || !open_browser(link)) {
        out_fmt("%s\n", link);
        out_note("cay: the link logs in once, within 15 minutes");
    }
    explicit_bzero(link, sizeof link);
    return CLI_OK;
}

const cli_verb cli_open = {
    "open",
    "[SANDBOX]",
    "the console of the running server, in a browser",
    .text = "The link logs in once, within 15 minutes. Without a browser here it is printed.",
    .examples = "  cay open\n"
                "  cay open fix-flaky-tests\n"
                "  ssh -L 8090:127.0.0.1:8090 HOST cay open --print",
    .min = 0,
    .max = 1,
    CLI_OPTS(defs, open_args),
    .needs = CLI_CLIENT,
    .fn = run_open,
};
