/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shell - a shell that stays: each command has a result of its own, and what one changes the next
 * one sees.
 *
 * Any program that opens the sandbox and asks for the shell by its name goes on where the last one
 * stopped.
 */
#include "sandboxed.h"
#include <cay/shell.h>

static int run(cay_shell *sh, const char *line, uint64_t timeout_ms, cay_err *err)
{
    cay_shell_cmd cmd = { .size = sizeof cmd, .line = line, .timeout_ms = timeout_ms };
    cay_result res = { .size = sizeof res };

    int rc = cay_shell_run(sh, NULL, &cmd, &res, err);
    if (rc < 0)
        return rc;
    printf("%s -> %d (%s) %s", line, res.exit.code, res.exit.reason, res.out_len ? res.out : "\n");
    cay_result_clear(&res);
    return 0;
}

static int work(cay_sandbox *sb, cay_err *err)
{
    cay_shell_spec spec = { .size = sizeof spec, .name = "build" };
    cay_shell *sh, *again;

    int rc = cay_shell_open(sb, NULL, &spec, &sh, err);
    if (rc < 0)
        return rc;
    rc = run(sh, "mkdir -p src; cd src; answer=42", 0, err);
    /* Too slow: it is interrupted, and the shell lives. */
    if (rc == 0)
        rc = run(sh, "while :; do sleep 1; done", 500, err);
    cay_shell_unref(sh); /* changes nothing inside */

    if (rc == 0)
        rc = cay_shell_open(sb, NULL, &spec, &again, err);
    if (rc < 0)
        return rc;
    rc = run(again, "echo $answer in ${PWD##*/}", 0, err);
    if (rc == 0)
        rc = run(again, "exit 7", 0, err);
    cay_shell_unref(again);
    return rc;
}

int main(int argc, char **argv)
{
    return sandboxed("shell", argc > 1 ? argv[1] : NULL, work);
}
