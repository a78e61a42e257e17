/* SPDX-License-Identifier: Apache-2.0 */
/* cay volume create, ls, inspect, rm: directories that outlive sandboxes. */
#include "main.h"
#include "out.h"
#include "show.h"
#include <base/base.h>
#include <cay/volume.h>

typedef struct volume_args {
    uint64_t size;
    bool hard;
} volume_args;

static const opt_def create_defs[] = {
    OPT_SIZE("--size SIZE", "most it may hold (default: no limit)", volume_args, size, 1u << 20,
             1ull << 60),
    OPT_FLAG("--hard", "the kernel has to hold --size; refused where it cannot", volume_args, hard),
    OPT_END
};

static int print_volume(cli_call *c, cay_err *err)
{
    cay_volume *v = NULL;
    CAY_TRY(cay_volume_find(c->client, NULL, c->argv[0], &v, err));
    show_print(&cay__volume_shape, v);
    cay_volume_free(v);
    return CLI_OK;
}

static int create_volume(cli_call *c, cay_err *err)
{
    const volume_args *a = c->opts;
    cay_volume *v = NULL;
    cay_volume_spec spec = { .size = sizeof spec,
                             .name = c->argv[0],
                             .provider = cli_provider(),
                             .limit = a->size,
                             .hard = a->hard };
    CAY_TRY(cay_volume_create(c->client, NULL, &spec, err));
    if (a->size && a->size != CAY_UNLIMITED &&
        cay_volume_find(c->client, NULL, c->argv[0], &v, NULL) == 0) {
        if (!strcmp(v->quota, "soft"))
            out_note("cay: the size of %s is only watched (soft): the state directory has no "
                     "project quota; --hard makes it hold",
                     c->argv[0]);
        cay_volume_free(v);
    }
    if (cli.json)
        return print_volume(c, err);
    if (!cli.quiet)
        out_fmt("%s\n", c->argv[0]);
    return CLI_OK;
}

const cli_verb cli_volume_create = {
    "volume create",
    "[OPTIONS] NAME",
    "make a named volume for --volume NAME:/path",
    .text = "A volume outlives sandboxes and may be shown in several at once. It is never part of "
            "a snapshot.",
    .examples = "  cay volume create cache --size 5G\n"
                "  cay volume create scratch --size 1G --hard\n"
                "  cay run --volume cache:/cache -- sh -c 'date >> /cache/log'",
    CLI_OPTS(create_defs, volume_args),
    .min = 1,
    .needs = CLI_CLIENT,
    .fn = create_volume,
};

static int on_volume(const cay_volume *v, void *arg)
{
    out_list *r = arg;
    if (!show_item(r, &cay__volume_shape, v, v->name)) {
        out_row(&r->table, "*%s|%s|%s%s|%zu|~%s", v->name, out_size(v->used).s,
                v->limit ? out_size(v->limit).s : "-",
                CAY_TEXT_IF(!strcmp(v->quota, "soft"), " (soft)"), v->nusers,
                out_time(v->created_ms).s);
    }
    return 0;
}

static int list_volumes(cli_call *c, cay_err *err)
{
    return cay_volume_list(c->client, NULL, on_volume, c->list, err);
}

const cli_verb cli_volume_ls = {
    "volume ls",
    "",
    "list the volumes, with what they hold",
    .examples = "  cay volume ls",
    .needs = CLI_CLIENT,
    .columns = "NAME|>USED|>LIMIT|>SANDBOXES|CREATED",
    .fn = list_volumes,
};

const cli_verb cli_volume_inspect = {
    "volume inspect",
    "NAME",
    "all that is known of one volume, as JSON",
    .examples = "  cay volume inspect cache",
    .min = 1,
    .needs = CLI_CLIENT,
    .fn = print_volume,
};

static int remove_volume(cli_call *c, cay_err *err)
{
    return cay_volume_remove(c->client, NULL, c->argv[0], err);
}

const cli_verb cli_volume_rm = {
    "volume rm",
    "NAME…",
    "remove volumes with all that is in them",
    .text = "Refused while a sandbox has it, a stopped one too.",
    .examples = "  cay volume rm cache",
    .min = 1,
    .max = CLI_ANY,
    .needs = CLI_CLIENT | CLI_EACH,
    .fn = remove_volume,
};
