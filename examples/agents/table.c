/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table - a table out of running text, as JSON that fits a schema: what does not fit never reaches
 * us.
 */
#include "task.h"

static const file letter[] = {
    { "letter.txt", "Please send us two lamps at 40 each, a desk for 250\nand, if you still have "
                    "them, six chairs (35 apiece).\n" },
    { NULL, NULL },
};

static const char schema[] =
    "{\"type\":\"object\",\"required\":[\"rows\"],\"additionalProperties\":false,\"properties\":{"
    "\"rows\":{\"type\":\"array\",\"items\":"
    "{\"type\":\"object\",\"required\":[\"item\",\"count\",\"price\"],\"additionalProperties\":"
    "false,\"properties\":"
    "{\"item\":{\"type\":\"string\"},\"count\":{\"type\":\"integer\"},\"price\":{\"type\":"
    "\"number\"}}}}}}";

int main(int argc, char **argv)
{
    cay_run_result *res = NULL;
    task t;

    int rc = task_open(&t, argc, argv, letter);
    if (rc == 0) {
        cay_agent reader = { .size = sizeof reader,
                             .name = "Reader",
                             .sandbox = true,
                             .manifest = t.manifest,
                             .output_schema = schema,
                             .output_strict = true,
                             .instructions =
                                 "Extract every line of the order. Prices are for one piece." };
        rc = task_run(&t, &reader, "Read letter.txt.", NULL, &res);
    }
    if (rc == 0)
        printf("%s\n", res->output);
    cay_run_result_free(res);
    return task_close(&t, rc);
}
