/* SPDX-License-Identifier: Apache-2.0 */
/*
 * build - a project is built by an agent that can run commands and nothing else: the list of
 * capabilities replaces the usual ones.
 */
#include "task.h"

static const file project[] = {
    { "build.sh",
      "set -e\n[ -n \"$OUT\" ] || { echo 'OUT is not set' >&2; exit 2; }\nmkdir -p "
      "\"$OUT\"\nprintf '#!/bin/sh\\necho built\\n' >\"$OUT/tool\"\nchmod +x \"$OUT/tool\"\n" },
    { NULL, NULL },
};

int main(int argc, char **argv)
{
    const cay_shell_options brief = { .size = sizeof brief,
                                      .max_output_tokens = 2000 }; /* of each command */
    cay_capability *can[] = { cay_cap_shell(&brief) };
    cay_run_result *res = NULL;
    task t;

    int rc = task_open(&t, argc, argv, project);
    if (rc == 0) {
        cay_agent builder = { .size = sizeof builder,
                              .name = "Builder",
                              .sandbox = true,
                              .manifest = t.manifest,
                              .capabilities = can,
                              .ncapabilities = 1,
                              .instructions = "Build the project and try what comes out. Tell the "
                                              "one command line that builds it." };
        rc = task_run(&t, &builder, "Build it.", NULL, &res);
    }
    if (rc == 0)
        printf("%s\n", res->output);
    cay_run_result_free(res);
    cay_cap_free(can[0]);
    return task_close(&t, rc);
}
