/* SPDX-License-Identifier: Apache-2.0 */
/* cay create: a sandbox that stays. */
#include "sandbox_options.h"
#include "main.h"
#include "out.h"
#include "show.h"
#include <base/base.h>

static int print_created(cay_sandbox *sb)
{
    cay_err err = CAY_ERR_INIT;
    cay_info *info = NULL;
    if (!cli.json) {
        out_fmt("%s\n", cay_sandbox_id(sb));
        return CLI_OK;
    }
    if (cay_sandbox_describe(sb, NULL, &info, &err) < 0)
        return cli_fail(&err, CLI_FAIL);
    out_json j = OUT_JSON(true);
    show_info_json(&j, info, NULL);
    js_flush(&j);
    cay_info_free(info);
    return CLI_OK;
}

static int create_sandbox(cli_call *c, cay_err *err)
{
    CAY_AUTOPTR(cay_sandbox) sb = NULL;
    box_spec spec;
    int code;
    if (box_spec_make(c->opts, &spec, err) < 0)
        code = cli_usage(c->verb, err);
    else if (cli_boxes->check_name(spec.create.name, err) < 0 ||
             cli_boxes->create(&spec.create, &sb, err) < 0)
        code = cli_fail(err, CLI_FAIL);
    else {
        box_spec_tell(&spec);
        code = print_created(sb);
    }
    box_spec_clear(&spec);
    return code;
}

const cli_verb cli_create = {
    "create",
    "[OPTIONS]",
    "make a sandbox and print its id",
    .text = "It lives until `cay rm`, its --ttl or its --idle time; no program of ours has to stay "
            "for that.",
    .examples = "  id=$(cay create)\n"
                "  cay create --name build --memory 4G --cpus 2 --ttl 1h\n"
                "  cay create --mount ~/project:/workspace/project:rw\n"
                "  cay create --net 'all,!**.internal.example'      # everything public but\n"
                "  cay create --isolation root --require disk-quota  # refuse rather than do less",
    CLI_OPTS(box_opt_defs, box_opts),
    .fn = create_sandbox,
};
