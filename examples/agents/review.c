/* SPDX-License-Identifier: Apache-2.0 */
/*
 * review - code is reviewed in the sandbox, and what is found comes to us by a tool of our own,
 * which runs on this side.
 */
#include "task.h"

static const file change[] = {
    { "copy.c",
      "#include <string.h>\nvoid copy(char *to, const char *from)\n{\n    strcpy(to, from);\n}\n" },
    { NULL, NULL },
};

/* Arguments fit the schema below by the time we see them. A real one would use a JSON reader. */
static int comment(void *arg, const cay_tool_call *call, cay_tool_output *out, cay_err *err)
{
    unsigned *found = arg;
    (void)err;
    printf("finding %u: %s\n", ++*found, call->arguments);
    cay_output_text(out, "noted", 5);
    return 0;
}

int main(int argc, char **argv)
{
    unsigned found = 0;
    const cay_tool note = {
        .size = sizeof note,
        .name = "comment",
        .description = "Attach a comment to a line.",
        .call = comment,
        .arg = &found,
        .parameters =
            "{\"type\":\"object\",\"required\":[\"file\",\"line\",\"text\"],\"properties\":{"
            "\"file\":{\"type\":\"string\"},"
            "\"line\":{\"type\":\"integer\",\"minimum\":1},\"text\":{\"type\":\"string\"}}}",
    };
    const cay_tool *const tools[] = { &note };
    cay_run_result *res = NULL;
    task t;

    int rc = task_open(&t, argc, argv, change);
    if (rc == 0) {
        cay_agent reviewer = {
            .size = sizeof reviewer,
            .name = "Reviewer",
            .sandbox = true,
            .manifest = t.manifest,
            .tools = tools,
            .ntools = 1,
            .instructions =
                "Report real defects only, one comment each. Then say whether it may go in."
        };
        rc = task_run(&t, &reviewer, "Review copy.c.", NULL, &res);
    }
    if (rc == 0)
        printf("%s\n", res->output);
    cay_run_result_free(res);
    return task_close(&t, rc);
}
