/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resume - a command waits for somebody's yes. The run ends meanwhile; its state is a text that
 * another process may go on from, tomorrow.
 */
#include "task.h"

static const file project[] = {
    { "cache/old", "stale\n" },
    { NULL, NULL },
};

static int decide(const char *state, char **decided, cay_err *err)
{
    cay_state_doc *doc = NULL;
    size_t n = 0;
    int rc = cay_state_open(state, &doc, err);
    if (rc < 0)
        return rc;
    const cay_interruption *waiting = cay_state_interruptions(doc, &n);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        printf("%s wants %s %s\n", waiting[i].agent, waiting[i].tool, waiting[i].arguments);
        rc = cay_state_approve(doc, waiting[i].call_id, false, err);
    }
    if (rc == 0)
        *decided = cay_state_text(doc);
    cay_state_close(doc);
    return rc;
}

int main(int argc, char **argv)
{
    const cay_shell_options ask = { .size = sizeof ask, .approval = true };
    cay_capability *can[] = { cay_cap_shell(&ask) };
    cay_run_result *res = NULL;
    char *state = NULL;
    task t;

    int rc = task_open(&t, argc, argv, project);
    cay_agent janitor = { .size = sizeof janitor,
                          .name = "Janitor",
                          .sandbox = true,
                          .manifest = t.manifest,
                          .capabilities = can,
                          .ncapabilities = 1 };
    if (rc == 0)
        rc = task_run(&t, &janitor, "Clear the cache.", NULL, &res);
    while (rc == 0 && res->ninterruptions) {
        free(state);
        state = NULL;
        rc = decide(res->state, &state, &t.err);
        cay_run_result_free(res); /* the sandbox waits, with all that is in it */
        res = NULL;
        if (rc == 0) {
            cay_run_config conf = { .size = sizeof conf, .state = state };
            rc = task_run(&t, &janitor, NULL, &conf, &res);
        }
    }
    if (rc == 0)
        printf("%s\n", res->output);
    free(state);
    cay_run_result_free(res);
    cay_cap_free(can[0]);
    return task_close(&t, rc);
}
