/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handoff - one agent hears what is wanted, another one does it. It is told why, and sees no more
 * of the talk than its filter leaves.
 */
#include "task.h"

static int taken(void *arg, cay_run *run, const char *arguments, cay_err *err)
{
    (void)arg;
    (void)err;
    printf("%s hands over: %s\n", cay_run_agent(run)->name, arguments);
    return 0;
}

/* The next one needs the task and not how it was talked about. */
static int last_words(void *arg, cay_run *run, const char *items, char **instead, cay_err *err)
{
    (void)arg;
    (void)run;
    (void)items;
    (void)err;
    *instead = strdup("[{\"role\":\"user\",\"content\":\"Count the letters of: strawberry\"}]");
    return 0;
}

int main(int argc, char **argv)
{
    cay_run_result *res = NULL;
    task t;
    cay_agent worker = { .size = sizeof worker,
                         .name = "Worker",
                         .sandbox = true,
                         .instructions = "Count by a command, never by looking.",
                         .handoff_description = "Counts things exactly." };
    const cay_handoff to_worker = {
        .agent = &worker,
        .taken = taken,
        .filter = last_words,
        .parameters = "{\"type\":\"object\",\"required\":[\"why\"],\"properties\":{\"why\":{"
                      "\"type\":\"string\"}}}",
    };
    cay_agent host = { .size = sizeof host,
                       .name = "Host",
                       .instructions = "Hand over whatever needs counting.",
                       .handoffs = &to_worker,
                       .nhandoffs = 1 };

    int rc = task_open(&t, argc, argv, NULL);
    if (rc == 0)
        rc =
            task_run(&t, &host, "Between you and me: how many letters has strawberry?", NULL, &res);
    if (rc == 0)
        printf("%s: %s\n", res->agent, res->output);
    cay_run_result_free(res);
    return task_close(&t, rc);
}
