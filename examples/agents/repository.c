/* SPDX-License-Identifier: Apache-2.0 */
/*
 * repository - what is this project? The agent has a skill: instructions that it reads when they
 * fit the task.
 */
#include "task.h"

static const file project[] = {
    { "README.md", "# tally\nCounts words.\n" },
    { "tally.py", "import sys\n\ndef tally(text):\n    return len(text.split())\n\nif __name__ == "
                  "'__main__':\n    print(tally(sys.stdin.read()))\n" },
    { "test_tally.py", "from tally import tally\n\nassert tally('one two') == 2\n" },
    { NULL, NULL },
};

int main(int argc, char **argv)
{
    const cay_skill survey = { .name = "survey",
                               .description =
                                   "How to describe a repository somebody has never seen.",
                               .content = "Say what it does, where it starts and how it is tested. "
                                          "Name files. Three lines at most.\n" };
    const cay_skills_options skills = { .size = sizeof skills, .skills = &survey, .nskills = 1 };
    cay_capability *can[2] = { cay_cap_shell(NULL), NULL };
    cay_run_result *res = NULL;
    task t;

    int rc = task_open(&t, argc, argv, project);
    if (rc == 0)
        rc = cay_cap_skills(&skills, &can[1], &t.err);
    if (rc == 0) {
        cay_agent analyst = { .size = sizeof analyst,
                              .name = "Analyst",
                              .sandbox = true,
                              .manifest = t.manifest,
                              .capabilities = can,
                              .ncapabilities = 2,
                              .instructions = "Look before you answer. Change nothing." };
        rc = task_run(&t, &analyst, "What is this repository?", NULL, &res);
    }
    if (rc == 0)
        printf("%s\n", res->output);
    cay_run_result_free(res);
    cay_cap_free(can[0]);
    cay_cap_free(can[1]);
    return task_close(&t, rc);
}
