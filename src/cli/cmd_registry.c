/* SPDX-License-Identifier: Apache-2.0 */
/* cay template login, logins, logout: who we are to registries. */
#include "main.h"
#include "show.h"
#include <base/base.h>
#include <cay/template.h>

typedef struct login_args {
    const char *user, *tenant;
} login_args;

static const opt_def login_defs[] = {
    OPT_STR("-u, --user NAME", "who logs in", login_args, user),
    OPT_STR("--tenant NAME", "for whose pulls (default: default)", login_args, tenant), OPT_END
};

static int login_registry(cli_call *c, cay_err *err)
{
    const login_args *a = c->opts;
    char *password = cay__alloc(CLI_SECRET_MAX + 3);
    int rc = 0;
    if (!a->user)
        rc = cay_fail_why(err, CAY_EINVAL, "registry_auth", "--user NAME is needed");
    ssize_t n = 0;
    if (rc == 0)
        n = cli_read_secret("password", password);
    password[n > 0 ? n : 0] = 0;
    if (rc == 0)
        rc = cli_client(&c->client, err);
    if (rc == 0)
        rc = cay_registry_login(c->client, a->tenant, c->argv[0], a->user,
                                n > 0 && strlen(password) == (size_t)n ? password : "", err);
    explicit_bzero(password, CLI_SECRET_MAX + 3);
    free(password);
    CAY_TRY(rc);
    cli_audit("registry.login", a->tenant, c->argv[0]);
    return CLI_OK;
}

const cli_verb cli_template_login = {
    "template login",
    "[OPTIONS] REGISTRY",
    "keep a user and password for pulls from a registry",
    .text = "The password comes from standard input, or is asked for on a terminal without being "
            "shown. It is encrypted as `cay secret set` does it, and used by template pull, by "
            "builds and,\n"
            "for its tenant, by the server. What `docker login` kept is used without it.",
    .examples = "  pass show registry | cay template login -u me registry.example\n"
                "  cay template pull registry.example/team/tools:2",
    CLI_OPTS(login_defs, login_args),
    .min = 1,
    .fn = login_registry,
};

typedef struct tenant_args {
    const char *tenant;
} tenant_args;

static const opt_def tenant_defs[] = { OPT_STR("--tenant NAME", "whose", tenant_args, tenant),
                                       OPT_END };

static int logout_registry(cli_call *c, cay_err *err)
{
    const tenant_args *a = c->opts;
    CAY_TRY(cay_registry_logout(c->client, a->tenant, c->argv[0], err));
    cli_audit("registry.logout", a->tenant, c->argv[0]);
    return CLI_OK;
}

const cli_verb cli_template_logout = {
    "template logout",
    "[OPTIONS] REGISTRY",
    "forget a user and password for a registry",
    .examples = "  cay template logout registry.example",
    CLI_OPTS(tenant_defs, tenant_args),
    .min = 1,
    .needs = CLI_CLIENT,
    .fn = logout_registry,
};

static int on_login(const char *tenant, const char *host, int64_t changed_ms, void *arg)
{
    out_list *r = arg;
    const cay__registry_told told = { host, tenant, changed_ms };
    if (!show_item(r, &cay__registry_shape, &told, host)) {
        out_row(&r->table, "*%s|%s|%s", host, tenant, out_time(changed_ms).s);
    }
    return 0;
}

static int list_logins(cli_call *c, cay_err *err)
{
    const tenant_args *a = c->opts;
    return cay_registry_logins(c->client, a->tenant, on_login, c->list, err);
}

const cli_verb cli_template_logins = {
    "template logins",
    "[OPTIONS]",
    "list the registries that a user and password are kept for",
    .examples = "  cay template logins",
    CLI_OPTS(tenant_defs, tenant_args),
    .needs = CLI_CLIENT,
    .columns = "REGISTRY|TENANT|CHANGED",
    .fn = list_logins,
};
