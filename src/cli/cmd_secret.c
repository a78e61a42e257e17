/* SPDX-License-Identifier: Apache-2.0 */
/* cay secret set, ls, rm, renew: values that no sandbox ever sees. */
#include "sandbox_options.h"
#include "main.h"
#include "show.h"
#include "pump.h"
#include <base/base.h>
#include <cay/policy.h>

/* One line that is typed, unseen; or all of a pipe, of which a last newline is not part. */
ssize_t cli_read_secret(const char *what, char *value)
{
    ssize_t n = 0;
    if (!isatty(0) || !term_hide(0)) {
        n = cay__fd_read_all(0, value, CLI_SECRET_MAX + 2);
        if (n > 0 && value[n - 1] == '\n')
            return n - 1;
        return n;
    }
    out_note("cay: type the %s and Enter; it is not shown", what);
    while (n < CLI_SECRET_MAX + 1 && read(0, value + n, 1) == 1 && value[n] != '\n')
        n++;
    term_restore();
    return n;
}

static int set_secret(cli_call *c, cay_err *err)
{
    char *value = cay__alloc(CLI_SECRET_MAX + 3);
    ssize_t n = cli_read_secret("value", value);
    int rc;
    if (n < 0)
        rc = cay_fail_sys(err, "read the value");
    else
        rc = cli_client(&c->client, err);
    if (rc == 0)
        rc = cay_secret_put(c->client, c->argv[0], value, (size_t)n, err);
    explicit_bzero(value, CLI_SECRET_MAX + 3);
    free(value);
    return rc;
}

const cli_verb cli_secret_set = {
    "secret set",
    "NAME",
    "keep a secret for --secret …=store:NAME@…",
    .text = "The value comes from standard input, or is asked for on a terminal without being "
            "shown. It is encrypted under a key outside the state directory: $CAY_SECRET_KEY,\n"
            "a systemd credential cay-secret-key, /etc/cay/secret.key or ~/.config/cay/secret.key, "
            "made when it is missing.",
    .examples = "  pass show github | cay secret set GITHUB_TOKEN\n"
                "  cay run --net github --secret GITHUB_TOKEN=store:GITHUB_TOKEN@api.github.com -- "
                "gh repo list",
    .min = 1,
    .fn = set_secret,
};

static int on_secret(const char *name, int64_t changed_ms, void *arg)
{
    out_list *r = arg;
    const cay__secret_told told = { name, changed_ms };
    if (!show_item(r, &cay__secret_shape, &told, name)) {
        out_row(&r->table, "*%s|%s", name, out_time(changed_ms).s);
    }
    return 0;
}

static int list_secrets(cli_call *c, cay_err *err)
{
    return cay_secret_list(c->client, on_secret, c->list, err);
}

const cli_verb cli_secret_ls = {
    "secret ls",
    "",
    "list the names of stored secrets",
    .examples = "  cay secret ls",
    .needs = CLI_CLIENT,
    .columns = "NAME|CHANGED",
    .fn = list_secrets,
};

static int remove_secret(cli_call *c, cay_err *err)
{
    return cay_secret_remove(c->client, c->argv[0], err);
}

const cli_verb cli_secret_rm = {
    "secret rm",
    "NAME…",
    "forget stored secrets",
    .text = "Sandboxes that run keep the value they were given until they end.",
    .examples = "  cay secret rm GITHUB_TOKEN",
    .min = 1,
    .max = CLI_ANY,
    .needs = CLI_CLIENT | CLI_EACH,
    .fn = remove_secret,
};

static int renew_sandbox_secrets(cli_call *c, cay_err *err)
{
    return cay_sandbox_renew_secrets(c->sb, NULL, err);
}

const cli_verb cli_secret_renew = {
    "secret renew",
    "ID",
    "read a sandbox's secrets anew from their sources",
    .text = "New requests carry the new values; nothing inside is restarted.",
    .examples = "  cay secret renew c7f",
    .min = 1,
    .needs = CLI_SANDBOX,
    .fn = renew_sandbox_secrets,
};

static int bind_secrets(cli_call *c, cay_err *err)
{
    CAY_AUTOFREE cay_secret *list = cay__alloc((size_t)c->argc * sizeof *list);
    char *path = NULL;
    size_t n = (size_t)c->argc - 1;
    for (size_t i = 0; i < n; i++)
        if (secret_take(c->argv[i + 1], &path, &list[i], err) < 0)
            return cli_usage(c->verb, err);
    CAY_TRY(cli_find(c, err));
    return cay_sandbox_set_secrets(c->sb, NULL, NULL, list, n, err);
}

const cli_verb cli_secret_bind = {
    "secret bind",
    "ID [NAME=SOURCE@DESTINATION…]",
    "give a sandbox other secrets in place of all it has",
    .text = "They hold from its next request on, and nothing inside is restarted; its rules have "
            "to allow where they go. Without any\n"
            "it has none. Variables with placeholders, and those that lead programs to the "
            "certificates they have to trust, are there\n"
            "when it had a secret before, or from its next start on.",
    .examples = "  cay secret bind c7f KEY=store:KEY@api.example.com,header:X-Key "
                "ORG=env:ORG@api.example.com,header:X-Org\n"
                "  cay secret bind c7f 'KEY=store:KEY@*.example.com'",
    .min = 1,
    .max = CLI_ANY,
    .fn = bind_secrets,
};
