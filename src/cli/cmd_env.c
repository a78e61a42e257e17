/* SPDX-License-Identifier: Apache-2.0 */
/* cay e2b env, cay cloudflare env: what programs that use others' SDKs have to have in their environment to work here. */
#include "main.h"
#include "open.h"
#include "out.h"
#include <base/base.h>
#include <cay/access.h>
#include <stdio.h>
#include <string.h>

typedef struct env_args {
    const char *url, *tenant;
} env_args;

static const opt_def defs[] = {
    { "url", 0, "URL", "where the server is; http://127.0.0.1:8090 unless told", OPT_STR, offsetof(env_args, url) },
    { "tenant", 0, "NAME", "whose key it is; default: default", OPT_STR, offsetof(env_args, tenant) },
    OPT_END
};

/* It is typed into a shell: nothing in it may mean something there. */
static bool plain_url(const char *s)
{
    if (strncmp(s, "http://", 7) && strncmp(s, "https://", 8))
        return false;
    return strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:/.-_[]") == strlen(s);
}

typedef struct var {
    const char *name;
    bool        key; /* its value is the key, else the address */
} var;

static int show(const env_args *a, const cli_verb *verb, const var *vars, size_t n)
{
    cay_err err = CAY_ERR_INIT;
    cay_service *svc;
    char text[CAY_KEY_LEN + 1];
    const char *url = a->url ? a->url : "http://127.0.0.1:8090";
    const cay_key k = { .size = sizeof k, .tenant = a->tenant, .name = verb->name };
    if (!plain_url(url)) {
        cay_fail(&err, CAY_EINVAL, "--url \"%.100s\": want http://HOST:PORT or https://HOST:PORT", url);
        return cli_usage(verb, &err);
    }
    if (cli_service(&svc, &err) < 0 || cay_key_create(svc, &k, text, &err) < 0)
        return cli_fail(&err, CLI_FAIL);
    if (cli.json) {
        out_json j = OUT_JSON(true);
        js_open(&j, '{');
        for (size_t i = 0; i < n; i++)
            js_kstr(&j, vars[i].name, vars[i].key ? text : url);
        js_close(&j, '}');
        js_flush(&j);
        cay__buf_clear(&j.b);
    } else {
        for (size_t i = 0; i < n; i++)
            out_fmt("export %s=%s\n", vars[i].name, vars[i].key ? text : url);
        out_note("cay: a new key, shown this once; `cay key revoke %.8s` ends it", text + 4);
    }
    explicit_bzero(text, sizeof text);
    return CLI_OK;
}

static int e2b(void *opts, int argc, char **argv)
{
    static const var vars[] = { { "E2B_API_KEY", true }, { "E2B_API_URL", false }, { "E2B_SANDBOX_URL", false }, { "E2B_VOLUME_API_URL", false } };
    (void)argc, (void)argv;
    return show(opts, &cli_e2b_env, vars, CAY_LEN(vars));
}

static int cloudflare(void *opts, int argc, char **argv)
{
    static const var vars[] = { { "CLOUDFLARE_SANDBOX_API_KEY", true }, { "CLOUDFLARE_SANDBOX_WORKER_URL", false } };
    (void)argc, (void)argv;
    return show(opts, &cli_cloudflare_env, vars, CAY_LEN(vars));
}

const cli_verb cli_e2b_env = {
    .name = "e2b env",
    .operands = "[OPTIONS]",
    .summary = "print what makes E2B's SDKs use this server",
    .text = "Makes a key and prints four variables for a shell. Programs with E2B's SDK then work unchanged on this machine; docs/wire/e2b.md tells what is answered.",
    .examples = "  cay serve &\n"
                "  eval \"$(cay e2b env)\"\n"
                "  node my-program-with-e2b.js",
    .opts = { { defs, 0 } },
    .size = sizeof(env_args),
    .fn = e2b,
};

const cli_verb cli_cloudflare_env = {
    .name = "cloudflare env",
    .operands = "[OPTIONS]",
    .summary = "print what makes the Agents SDK's Cloudflare client use this server",
    .text = "Makes a key and prints two variables for a shell: the key, which the SDK reads itself, and the address to give as workerUrl. docs/wire/cloudflare.md tells what is answered.",
    .examples = "  cay serve &\n"
                "  eval \"$(cay cloudflare env)\"\n"
                "  node my-agent.js      # new CloudflareSandboxClient({ workerUrl: process.env.CLOUDFLARE_SANDBOX_WORKER_URL })",
    .opts = { { defs, 0 } },
    .size = sizeof(env_args),
    .fn = cloudflare,
};
