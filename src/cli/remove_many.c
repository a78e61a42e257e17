/* SPDX-License-Identifier: Apache-2.0 */
#include "remove_many.h"
#include "main.h"
#include "open.h"

const opt_def forget_defs[] = { { "force", 'f', NULL, "one that is not there is no error", OPT_FLAG,
                                  offsetof(forget_args, force) },
                                OPT_END };

int forget_all(const forget_args *a, int argc, char **argv,
               int (*fn)(cay_client *, const char *, cay_err *))
{
    cay_err err = CAY_ERR_INIT;
    cay_client *client;
    int code = CLI_OK;
    if (cli_service(&client, &err) < 0)
        return cli_fail(&err, CLI_FAIL);
    for (int i = 0; i < argc; i++) {
        cay_err e = CAY_ERR_INIT;
        int rc = fn(client, argv[i], &e);
        if (rc < 0 && !(a->force && rc == CAY_ENOENT))
            code = cli_fail(&e, CLI_FAIL);
    }
    return code;
}
