/* SPDX-License-Identifier: Apache-2.0 */
/* cay e2b env, cay cloudflare env: what programs that use others' SDKs have to have in their
 * environment to work here. */
#include "main.h"
#include "out.h"
#include "parse.h"
#include <arpa/inet.h>
#include <base/base.h>
#include <cay/access.h>

typedef struct env_args {
    const char *url, *listen, *tenant;
} env_args;

static const opt_def defs[] = {
    OPT_STR("--listen ADDR",
            "which server is meant, as `cay serve --listen` was given it: HOST:PORT, :PORT or PORT",
            env_args, listen),
    OPT_STR("--url URL", "where the server is; that of --host, else http://127.0.0.1:8090",
            env_args, url),
    OPT_STR("--tenant NAME", "whose key it is; default: default", env_args, tenant), OPT_END
};

/* It is typed into a shell: nothing in it may mean something there. */
static bool plain_url(const char *s)
{
    if (strncmp(s, "http://", 7) && strncmp(s, "https://", 8))
        return false;
    return strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:/.-_[]") ==
           strlen(s);
}

/* What a server was told to listen on, as the address to reach it by from this machine: every
 * address has this one among it. */
static int url_of(const char *addr, char *url, size_t cap, cay_err *err)
{
    static const struct {
        const char *all, *here;
    } wide[] = {
        { "", "127.0.0.1" }, { "0.0.0.0", "127.0.0.1" }, { "*", "127.0.0.1" }, { "::", "::1" }
    };
    const char *colon = strrchr(addr, ':'), *digits = colon ? colon + 1 : addr;
    size_t n = colon ? (size_t)(colon - addr) : 0,
           bare = n > 2 && addr[0] == '[' && addr[n - 1] == ']';
    char name[256];
    uint16_t port;
    if (cay__str_starts(addr, "unix:") || cay__str_starts(addr, "fd:"))
        return cay_fail(err, CAY_EINVAL,
                        "--listen %.100s: SDKs come by TCP: give the HOST:PORT that the server has "
                        "besides, or --url",
                        addr);
    if (n >= sizeof name || memchr(addr, '/', n) || cli_parse_port(digits, &port, NULL) < 0)
        return cay_fail(err, CAY_EINVAL,
                        "--listen \"%.100s\": want HOST:PORT, :PORT or PORT, with the port that "
                        "the server says it listens on",
                        addr);
    CAY_FORMAT(name, "%.*s", (int)(n - 2 * bare), addr + bare);
    const char *host = name;
    CAY_EACH(it, wide)
        if (!strcmp(name, it->all))
            host = it->here;
    if (strpbrk(host, "[]:") && inet_pton(AF_INET6, host, &(struct in6_addr){ 0 }) != 1)
        return cay_fail(err, CAY_EINVAL, "--listen \"%.100s\": %.60s is no address", addr, host);
    snprintf(url, cap, strchr(host, ':') ? "http://[%s]:%u" : "http://%s:%u", host, port);
    return 0;
}

static int choose_url(const env_args *a, char *made, size_t cap, const char **url, cay_err *err)
{
    if (a->url && a->listen)
        return cay_fail(err, CAY_EINVAL,
                        "--url and --listen: one of them says where the server is");
    if (a->listen)
        CAY_TRY(url_of(a->listen, made, cap, err));
    *url = CAY_OR(a->url, a->listen ? made : "http://127.0.0.1:8090");
    if (!plain_url(*url)) {
        if (a->listen)
            return cay_fail(err, CAY_EINVAL, "--listen \"%.100s\": want HOST:PORT, :PORT or PORT",
                            a->listen);
        return cay_fail(err, CAY_EINVAL,
                        "--url \"%.100s\": want http://HOST:PORT or https://HOST:PORT", a->url);
    }
    return 0;
}

typedef struct var {
    const char *name;
    bool key; /* its value is the key, else the address */
} var;

static int print_env_with_key(cli_call *c, const var *vars, size_t n, cay_err *err)
{
    const env_args *a = c->opts;
    char text[CAY_KEY_LEN + 1], made[300];
    const char *url = NULL;
    const cay_key k = { .size = sizeof k, .tenant = a->tenant, .name = c->verb->name };
    if (choose_url(a, made, sizeof made, &url, err) < 0)
        return cli_usage(c->verb, err);
    CAY_TRY(cli_client(&c->client, err));
    const char *there = cay_client_host(c->client);
    if (there && !a->url && !a->listen)
        url = there;
    if (!plain_url(url)) /* that of CAY_HOST */
        return cli_misuse(
            c, "%.100s: SDKs come by TCP: give the address that the server has besides, by --url",
            url);
    CAY_TRY(cay_key_create(c->client, &k, text, err));
    if (cli.json) {
        out_json j = js_begin(true, '{');
        CAY_EACH_OF(item, vars, n)
            js_member(&j, item->name, item->key ? text : url);
        js_end(&j, '}');
    } else {
        CAY_EACH_OF(it, vars, n)
            out_fmt("export %s=%s\n", it->name, it->key ? text : url);
        out_note("cay: a new key, shown this once; `cay key revoke %.8s` ends it", text + 4);
    }
    explicit_bzero(text, sizeof text);
    return CLI_OK;
}

static int print_e2b_env(cli_call *c, cay_err *err)
{
    static const var vars[] = { { "E2B_API_KEY", true },
                                { "E2B_API_URL", false },
                                { "E2B_SANDBOX_URL", false },
                                { "E2B_VOLUME_API_URL", false } };
    return print_env_with_key(c, vars, CAY_LEN(vars), err);
}

static int print_cloudflare_env(cli_call *c, cay_err *err)
{
    static const var vars[] = { { "CLOUDFLARE_SANDBOX_API_KEY", true },
                                { "CLOUDFLARE_SANDBOX_WORKER_URL", false } };
    return print_env_with_key(c, vars, CAY_LEN(vars), err);
}

const cli_verb cli_e2b_env = {
    "e2b env",
    "[OPTIONS]",
    "print what makes E2B's SDKs use this server",
    .text = "Makes a key and prints four variables for a shell. Programs with E2B's SDK then work "
            "unchanged on this machine; docs/wire/e2b.md tells what is answered.",
    .examples = "  cay serve &\n"
                "  eval \"$(cay e2b env)\"\n"
                "  node my-program-with-e2b.js\n"
                "  cay serve --listen :9000 &\n"
                "  eval \"$(cay e2b env --listen :9000)\"",
    CLI_OPTS(defs, env_args),
    .fn = print_e2b_env,
};

const cli_verb cli_cloudflare_env = {
    "cloudflare env",
    "[OPTIONS]",
    "print what makes the Agents SDK's Cloudflare client use this server",
    .text =
        "Makes a key and prints two variables for a shell: the key, which the SDK reads itself, "
        "and the address to give as workerUrl. docs/wire/cloudflare.md tells what is answered.",
    .examples = "  cay serve &\n"
                "  eval \"$(cay cloudflare env)\"\n"
                "  node my-agent.js      # new CloudflareSandboxClient({ workerUrl: "
                "process.env.CLOUDFLARE_SANDBOX_WORKER_URL })",
    CLI_OPTS(defs, env_args),
    .fn = print_cloudflare_env,
};
