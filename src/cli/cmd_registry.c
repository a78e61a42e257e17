/* SPDX-License-Identifier: Apache-2.0 */
/* cay template login, logins, logout: who we are to registries. */
#include "main.h"
#include "open.h"
#include "out.h"
#include "rows.h"
#include <base/base.h>
#include <cay/template.h>

typedef struct login_args {
    const char *user, *tenant;
} login_args;

static const opt_def login_defs[] = { { "user", 'u', "NAME", "who logs in", OPT_STR,
                                        offsetof(login_args, user) },
                                      { "tenant", 0, "NAME", "for whose pulls (default: default)",
                                        OPT_STR, offsetof(login_args, tenant) },
                                      OPT_END };

static int login_registry(void *opts, int argc, char **argv)
{
    const login_args *a = opts;
    cay_err err = CAY_ERR_INIT;
    cay_client *client;
    char *password = cay__alloc(CLI_SECRET_MAX + 3);
    (void)argc;
    int rc = 0;
    if (!a->user)
        rc = cay_fail_why(&err, CAY_EINVAL, "registry_auth", "--user NAME is needed");
    ssize_t n = 0;
    if (rc == 0)
        n = cli_read_secret("password", password);
    password[n > 0 ? n : 0] = 0;
    if (rc == 0)
        rc = cli_service(&client, &err);
    if (rc == 0)
        rc = cay_registry_login(client, a->tenant, argv[0], a->user,
                                n > 0 && strlen(password) == (size_t)n ? password : "", &err);
    explicit_bzero(password, CLI_SECRET_MAX + 3);
    free(password);
    if (rc < 0)
        return cli_fail(&err, CLI_FAIL);
    cli_audit("registry.login", a->tenant, argv[0]);
    return CLI_OK;
}

const cli_verb cli_template_login = {
    .name = "template login",
    .operands = "[OPTIONS] REGISTRY",
    .summary = "keep a user and password for pulls from a registry",
    .text = "The password comes from standard input, or is asked for on a terminal without being "
            "shown. It is encrypted as `cay secret set` does it, and used by template pull, by "
            "builds and,\n"
            "for its tenant, by the server. What `docker login` kept is used without it.",
    .examples = "  pass show registry | cay template login -u me registry.example\n"
                "  cay template pull registry.example/team/tools:2",
    .opts = { { login_defs, 0 } },
    .size = sizeof(login_args),
    .min = 1,
    .max = 1,
    .fn = login_registry,
};

typedef struct tenant_args {
    const char *tenant;
} tenant_args;

static const opt_def tenant_defs[] = {
    { "tenant", 0, "NAME", "whose", OPT_STR, offsetof(tenant_args, tenant) }, OPT_END
};

static int logout_registry(void *opts, int argc, char **argv)
{
    const tenant_args *a = opts;
    cay_err err = CAY_ERR_INIT;
    cay_client *client;
    (void)argc;
    if (cli_service(&client, &err) < 0 || cay_registry_logout(client, a->tenant, argv[0], &err) < 0)
        return cli_fail(&err, CLI_FAIL);
    cli_audit("registry.logout", a->tenant, argv[0]);
    return CLI_OK;
}

const cli_verb cli_template_logout = {
    .name = "template logout",
    .operands = "[OPTIONS] REGISTRY",
    .summary = "forget a user and password for a registry",
    .examples = "  cay template logout registry.example",
    .opts = { { tenant_defs, 0 } },
    .size = sizeof(tenant_args),
    .min = 1,
    .max = 1,
    .fn = logout_registry,
};

static int on_login(const char *tenant, const char *host, int64_t changed_ms, void *arg)
{
    rows *r = arg;
    char when[OUT_HUMAN];
    if (cli.json) {
        js_open(&r->json, '{');
        js_kstr(&r->json, "registry", host);
        js_kstr(&r->json, "tenant", tenant);
        js_ki64(&r->json, "changed_ms", changed_ms);
        js_close(&r->json, '}');
    } else if (cli.quiet) {
        out_fmt("%s\n", host);
    } else {
        out_cell(&r->table, OUT_BOLD, host);
        out_cell(&r->table, OUT_PLAIN, tenant);
        out_cell(&r->table, OUT_PLAIN, out_time(when, changed_ms));
    }
    return 0;
}

static int list_logins(void *opts, int argc, char **argv)
{
    static const char *const titles[] = { "REGISTRY", "TENANT", "CHANGED", NULL };
    const tenant_args *a = opts;
    cay_err err = CAY_ERR_INIT;
    cay_client *client;
    rows r;
    (void)argc, (void)argv;
    if (cli_service(&client, &err) < 0)
        return cli_fail(&err, CLI_FAIL);
    rows_open(&r, titles);
    return rows_done(&r, cay_registry_logins(client, a->tenant, on_login, &r, &err), &err);
}

const cli_verb cli_template_logins = {
    .name = "template logins",
    .operands = "[OPTIONS]",
    .summary = "list the registries that a user and password are kept for",
    .examples = "  cay template logins",
    .opts = { { tenant_defs, 0 } },
    .size = sizeof(tenant_args),
    .fn = list_logins,
};
