/* SPDX-License-Identifier: Apache-2.0 */
/*
 * suite - a test suite is run until it passes. Events tell what the agent does while it does it.
 */
#include "task.h"

static const file project[] = {
    { "add.py", "def add(a, b):\n    return a - b\n" },
    { "test_add.py", "import unittest\nfrom add import add\n\nclass Add(unittest.TestCase):\n    "
                     "def test_sum(self):\n        self.assertEqual(add(2, 3), 5)\n" },
    { NULL, NULL },
};

static int follow(void *arg, const cay_run_event *ev)
{
    unsigned *commands = arg;
    if (ev->kind == CAY_RUN_ITEM && !strcmp(ev->name, "tool_called"))
        printf("%u. %s\n", ++*commands,
               strstr(ev->json, "apply_patch") ? "changes files" : "runs a command");
    return 0; /* a negative number would end the run */
}

int main(int argc, char **argv)
{
    unsigned commands = 0;
    cay_run_result *res = NULL;
    task t;

    int rc = task_open(&t, argc, argv, project);
    if (rc == 0) {
        cay_agent fixer = {
            .size = sizeof fixer,
            .name = "Fixer",
            .sandbox = true,
            .manifest = t.manifest,
            .instructions = "Run the tests first. Mend the code, never the tests. Run them again."
        };
        cay_run_config conf = { .size = sizeof conf, .on_event = follow, .event_arg = &commands };
        rc = task_run(&t, &fixer, "Make the tests pass: python3 -B -m unittest", &conf, &res);
    }
    if (rc == 0)
        printf("%s\n", res->output);
    cay_run_result_free(res);
    return task_close(&t, rc);
}
