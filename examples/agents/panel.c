/* SPDX-License-Identifier: Apache-2.0 */
/*
 * panel - agents as tools of another agent. Each has a sandbox of its own; the first one hears
 * their answers and stays in charge.
 */
#include "task.h"

int main(int argc, char **argv)
{
    cay_run_result *res = NULL;
    task t;
    cay_agent optimist = { .size = sizeof optimist,
                           .name = "Optimist",
                           .instructions = "Argue for it, in one sentence." };
    cay_agent checker = { .size = sizeof checker,
                          .name = "Checker",
                          .sandbox = true,
                          .instructions =
                              "Test the claim with a command; answer in one sentence." };
    cay_tool *tools[] = { cay_agent_as_tool(&optimist, "ask_optimist", "Somebody who is for it."),
                          cay_agent_as_tool(&checker, "ask_checker", "Somebody who tries it.") };
    cay_agent chair = { .size = sizeof chair,
                        .name = "Chair",
                        .instructions = "Hear both, then decide.",
                        .tools = (const cay_tool *const *)tools,
                        .ntools = 2 };

    int rc = task_open(&t, argc, argv, NULL);
    if (rc == 0)
        rc = task_run(&t, &chair, "Is sort stable when told so?", NULL, &res);
    if (rc == 0)
        printf("%s\n%llu requests\n", res->output, (unsigned long long)res->usage.requests);
    cay_run_result_free(res);
    cay_tool_free(tools[0]);
    cay_tool_free(tools[1]);
    return task_close(&t, rc);
}
