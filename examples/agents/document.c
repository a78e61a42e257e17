/* SPDX-License-Identifier: Apache-2.0 */
/*
 * document - the agent writes documentation, and nothing else: which patches need a yes is decided
 * by the files they touch.
 */
#include "task.h"

static const file project[] = {
    { "greet.py", "def greet(name, loud=False):\n    text = 'hello ' + name\n    return "
                  "text.upper() if loud else text\n" },
    { NULL, NULL },
};

static bool not_a_document(void *arg, const char *const *paths, size_t n)
{
    (void)arg;
    for (size_t i = 0; i < n; i++) {
        const char *dot = strrchr(paths[i], '.');
        if (!dot || strcmp(dot, ".md"))
            return true;
    }
    return false;
}

/* Nobody is here to ask; what needs a yes gets a no, and a reason. */
static cay_verdict refuse(void *arg, const cay_tool_call *call, char **message)
{
    (void)arg;
    (void)call;
    *message = strdup("Only .md files may be changed.");
    return CAY_REJECT;
}

int main(int argc, char **argv)
{
    const cay_filesystem_options careful = { .size = sizeof careful,
                                             .needs_approval = not_a_document };
    cay_capability *can[] = { cay_cap_filesystem(&careful), cay_cap_shell(NULL) };
    cay_run_result *res = NULL;
    task t;

    int rc = task_open(&t, argc, argv, project);
    if (rc == 0) {
        cay_agent writer = {
            .size = sizeof writer,
            .name = "Writer",
            .sandbox = true,
            .manifest = t.manifest,
            .capabilities = can,
            .ncapabilities = 2,
            .instructions =
                "Describe what the code does, not how. Try every example that you write."
        };
        cay_run_config conf = { .size = sizeof conf, .approve = refuse };
        rc = task_run(&t, &writer, "Document greet.py.", &conf, &res);
    }
    if (rc == 0)
        printf("%s\n", res->output);
    cay_run_result_free(res);
    cay_cap_free(can[0]);
    cay_cap_free(can[1]);
    return task_close(&t, rc);
}
