/* SPDX-License-Identifier: Apache-2.0 */
/* cay key create, ls, revoke: what a server asks for. */
#include "main.h"
#include "out.h"
#include "show.h"
#include <base/base.h>
#include <cay/access.h>

typedef struct create_args {
    const char *scope, *tenant, *name, *sandbox, *path;
    uint64_t port, ttl_ms;
} create_args;

static const opt_def create_defs[] = {
    OPT_STR("--scope SCOPE", "admin, tenant (default), sandbox, port or file", create_args, scope),
    OPT_STR("--tenant NAME", "whose key it is; default: default", create_args, tenant),
    OPT_STR("-n, --name TEXT", "what people call it", create_args, name),
    OPT_STR("--sandbox ID", "with sandbox, port and file: the only one it opens", create_args,
            sandbox),
    OPT_NUM("-p, --port PORT", "with port: the only one it opens", create_args, port, 1, 65535),
    OPT_STR("--path PATH", "with file: what it opens, and what is below", create_args, path),
    OPT_MS("--ttl TIME", "until it expires; default: never, for port and file 7 days", create_args,
           ttl_ms, 1000),
    OPT_END
};

static int create_key(cli_call *c, cay_err *err)
{
    const create_args *a = c->opts;
    char text[CAY_KEY_LEN + 1];
    cay_key k = { .size = sizeof k,
                  .tenant = a->tenant,
                  .name = a->name,
                  .sandbox = a->sandbox,
                  .path = a->path,
                  .port = (uint16_t)a->port };
    if (a->scope && (k.scope = cay_key_scope_parse(a->scope)) == CAY_KEY_NONE)
        return cli_misuse(c, "--scope \"%.40s\": want admin, tenant, sandbox, port or file",
                          a->scope);
    if (a->ttl_ms && a->ttl_ms != CAY_UNLIMITED)
        k.expires_ms = cay__clock_ms() + (int64_t)CAY_MIN(a->ttl_ms, (uint64_t)1 << 42);
    CAY_TRY(cli_client(&c->client, err));
    CAY_TRY(cay_key_create(c->client, &k, text, err));
    char id[CAY_KEY_ID_LEN + 1] = "";
    memcpy(id, text + 4, CAY_KEY_ID_LEN);
    cli_audit("key.create", CAY_OR(a->tenant, CAY_TENANT_DEFAULT), id);
    if (cli.json) {
        out_object(true, "id:%s, key:%s", id, text);
    } else {
        out_fmt("%s\n", text);
        out_note("cay: this is the only time the key is shown; its id is %s", id);
    }
    explicit_bzero(text, sizeof text);
    return CLI_OK;
}

const cli_verb cli_key_create = {
    "key create",
    "[OPTIONS]",
    "make a key for the server and print it, this once",
    .text = "The store has only a hash of it. A key of one sandbox dies with the sandbox.",
    .examples = "  cay key create --scope admin\n"
                "  cay key create --tenant acme --name ci --ttl 30d\n"
                "  cay key create --scope port --sandbox cabc… --port 8080 --ttl 1h",
    CLI_OPTS(create_defs, create_args),
    .fn = create_key,
};

typedef struct key_ls_args {
    const char *tenant;
} key_ls_args;

static const opt_def ls_defs[] = {
    OPT_STR("--tenant NAME", "only those of one", key_ls_args, tenant), OPT_END
};

static const char *state_of(const cay_key *k, int64_t now)
{
    if (k->revoked_ms)
        return "revoked";
    if (k->expires_ms && k->expires_ms < now)
        return "expired";
    return "good";
}

static void key_json(out_json *j, const cay_key *k, int64_t now)
{
    js_open(j, '{');
    show_members(j, &cay__key_shape, k);
    js_put(j, "state:%s", state_of(k, now));
    js_close(j, '}');
}

static int on_key(const cay_key *k, void *arg)
{
    out_list *r = arg;
    const char *state = state_of(k, r->now);
    if (cli.json) {
        key_json(&r->json, k, r->now);
    } else if (!out_list_name(k->id)) {
        out_row(&r->table, "*%s|%s|%s|%c%s|-%s|%s|-%s|%s|-%s", k->id, k->tenant,
                cay_key_scope_name(k->scope), *state == 'g' ? OUT_GOOD : OUT_DIM, state, k->sandbox,
                out_time(k->created_ms).s, out_when(k->expires_ms).s,
                k->used_ms ? out_time(k->used_ms).s : "never", k->name);
    }
    return 0;
}

static int list_keys(cli_call *c, cay_err *err)
{
    const key_ls_args *a = c->opts;
    return cay_key_list(c->client, a->tenant, on_key, c->list, err);
}

const cli_verb cli_key_ls = {
    "key ls",
    "[--tenant NAME]",
    "list keys by their ids",
    .text = "USED is when it last opened something, to the minute.",
    .examples = "  cay key ls",
    CLI_OPTS(ls_defs, key_ls_args),
    .needs = CLI_CLIENT,
    .columns = "ID|TENANT|SCOPE|STATE|SANDBOX|CREATED|EXPIRES|USED|NAME",
    .fn = list_keys,
};

static int revoke_key(cli_call *c, cay_err *err)
{
    CAY_TRY(cay_key_revoke(c->client, c->argv[0], err));
    cli_audit("key.revoke", NULL, c->argv[0]);
    return CLI_OK;
}

const cli_verb cli_key_revoke = {
    "key revoke",
    "ID…",
    "let keys open nothing any more",
    .text = "A server that runs knows within a second.",
    .examples = "  cay key revoke 0123abcd",
    .min = 1,
    .max = CLI_ANY,
    .needs = CLI_CLIENT | CLI_EACH,
    .fn = revoke_key,
};
