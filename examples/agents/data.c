/* SPDX-License-Identifier: Apache-2.0 */
/*
 * data - numbers are worked on by a script that the agent writes. The sandbox is ours: we take the
 * result out of it.
 */
#include "task.h"

static const file sales[] = {
    { "sales.csv", "region,amount\nnorth,10\nsouth,5\nnorth,7\neast,1\n" },
    { NULL, NULL },
};

int main(int argc, char **argv)
{
    cay_agent analyst = {
        .size = sizeof analyst,
        .name = "Data worker",
        .sandbox = true,
        .instructions = "Write a script, run it, check what it wrote. Leave the input as it is."
    };
    cay_run_result *res = NULL;
    cay_sandbox *sb = NULL;
    char *text = NULL;
    size_t len;
    task t;

    int rc = task_open(&t, argc, argv, sales);
    if (rc == 0) {
        cay_create spec = { .size = sizeof spec, .name = "data", .manifest.text = t.manifest };
        rc = cay_client_create(t.service, NULL, &spec, &sb, &t.err);
    }
    if (rc == 0) {
        cay_run_config conf = { .size = sizeof conf,
                                .sandbox = sb }; /* given, so the run does not end it */
        rc = task_run(&t, &analyst, "Sum sales.csv by region into totals.csv, largest first.",
                      &conf, &res);
    }
    if (rc == 0)
        rc = cay_file_get(sb, NULL, "totals.csv", 65536, &text, &len, &t.err);
    if (rc == 0)
        printf("%s\n%s", res->output, text);
    free(text);
    cay_run_result_free(res);
    if (sb)
        cay_sandbox_remove(sb, NULL, NULL);
    cay_sandbox_unref(sb);
    return task_close(&t, rc);
}
