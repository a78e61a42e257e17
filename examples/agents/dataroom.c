/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dataroom - questions about documents, answered with the file that says so. A guard lets no answer
 * out that names none.
 */
#include "task.h"

static const file documents[] = {
    { "contracts/lease.txt", "Lease of the office at 1 Quay Street.\nTerm: five years from 1 March "
                             "2024.\nNotice: six months.\n" },
    { "contracts/supply.txt",
      "Supply of paper.\nTerm: until either side ends it.\nNotice: thirty days.\n" },
    { "finance/2024.txt", "Revenue 1,200,000. Rent 90,000.\n" },
    { NULL, NULL },
};

/* 0: fine; 1: the run ends with guardrail_output. */
static int names_a_source(void *arg, cay_run *run, const char *text, char **info, cay_err *err)
{
    (void)arg;
    (void)run;
    (void)info;
    (void)err;
    for (const file *f = documents; f->path; f++)
        if (strstr(text, f->path))
            return 0;
    return 1;
}

int main(int argc, char **argv)
{
    const cay_guard sources = { .name = "sources", .check = names_a_source };
    cay_run_result *res = NULL;
    task t;

    int rc = task_open(&t, argc, argv, documents);
    if (rc == 0) {
        cay_agent clerk = { .size = sizeof clerk,
                            .name = "Clerk",
                            .sandbox = true,
                            .manifest = t.manifest,
                            .output_guards = &sources,
                            .noutput_guards = 1,
                            .instructions = "Answer from the documents alone and name the file in "
                                            "brackets. If they do not say it, say so." };
        rc = task_run(&t, &clerk, "When can we leave the office?", NULL, &res);
    }
    if (rc == 0)
        printf("%s\n", res->output);
    cay_run_result_free(res);
    return task_close(&t, rc);
}
