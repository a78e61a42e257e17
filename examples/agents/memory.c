/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory - what one run learns the next one knows, in another sandbox. What is kept between them is
 * a directory of files to read.
 *
 *     ./memory native gpt-5.5 DIR
 */
#include "task.h"

int main(int argc, char **argv)
{
    char store[] = "/tmp/memory-XXXXXX";
    const cay_memory_options how = { .size = sizeof how,
                                     .read = true,
                                     .generate = true,
                                     .store = argc > 3 ? argv[3] : mkdtemp(store) };
    cay_capability *can[] = { NULL, cay_cap_shell(NULL), cay_cap_filesystem(NULL) };
    static const char *const asked[] = { "We indent with tabs here. Write hello.sh.",
                                         "How do we indent?" };
    task t;

    int rc = task_open(&t, argc, argv, NULL);
    if (rc == 0)
        rc = cay_cap_memory(&how, &can[0], &t.err);
    for (size_t i = 0; rc == 0 && i < 2; i++) {
        cay_agent coder = { .size = sizeof coder,
                            .name = "Coder",
                            .sandbox = true,
                            .capabilities = can,
                            .ncapabilities = 3 };
        cay_run_result *res = NULL;
        rc = task_run(&t, &coder, asked[i], NULL, &res);
        if (rc == 0)
            printf("%s\n", res->output);
        cay_run_result_free(res);
    }
    for (size_t i = 0; i < 3; i++)
        cay_cap_free(can[i]);
    if (argc <= 3 && rc == 0)
        printf("what was learnt is in %s\n", store);
    return task_close(&t, rc);
}
