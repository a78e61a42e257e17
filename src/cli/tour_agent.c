/* SPDX-License-Identifier: Apache-2.0 */
/* An agent at work, for the tour: its model is a script, what it does in the sandbox is real. */
#include "main.h"
#include <base/base.h>
#include <cay/agent.h>
#include <sys/mman.h>

/* Each turn says what it wants to have been told: a script that does not fit ends the run. */
static const char script[] =
    "{\"model\": \"a script\", \"turns\": ["
    "{\"expect\": {\"tools\": [\"exec_command\", \"apply_patch\"], \"input\": [\"failing test\"]},"
    " \"calls\": [{\"name\": \"exec_command\", \"arguments\": {\"cmd\": \"sh tour/test.sh\", "
    "\"login\": false}}]},"
    "{\"expect\": {\"last\": [\"code 1\", \"want 4\"]}, \"calls\": [{\"name\": \"apply_patch\", "
    "\"input\": "
    "\"*** Begin Patch\\n*** Update File: tour/add.sh\\n@@\\n-echo $(($1 - $2))\\n+echo $(($1 + "
    "$2))\\n*** End Patch\\n\"}]},"
    "{\"expect\": {\"last\": [\"Updated tour/add.sh\"]}, \"calls\": [{\"name\": \"exec_command\", "
    "\"arguments\": {\"cmd\": \"sh tour/test.sh\", \"login\": false}}]},"
    "{\"expect\": {\"last\": [\"code 0\", \"passed\"]}, \"text\": \"add.sh subtracted\"}]}";
static const char add[] = "echo $(($1 - $2))\n";
static const char test[] = "got=$(sh tour/add.sh 2 2)\n[ \"$got\" = 4 ] && echo passed || { echo "
                           "\"2 and 2: got $got, want 4\"; exit 1; }\n";

typedef struct seen {
    unsigned calls;
} seen;

static int on_event(void *arg, const cay_run_event *ev)
{
    seen *s = arg;
    s->calls += ev->kind == CAY_RUN_ITEM && !strcmp(ev->name, "tool_called");
    return 0;
}

static int put_files(cay_sandbox *sb, cay_err *err)
{
    const cay_write w = { .size = sizeof w, .parents = true };
    CAY_TRY(cay_file_put(sb, NULL, "tour/add.sh", add, sizeof add - 1, &w, err));
    return cay_file_put(sb, NULL, "tour/test.sh", test, sizeof test - 1, &w, err);
}

int tour_agent(cay_sandbox *sb, char *said, size_t cap, cay_err *err)
{
    char name[64];
    cay_model *model = NULL;
    cay_run_result *r = NULL;
    seen s = { 0 };
    CAY_AUTOFD fd = memfd_create("script", MFD_CLOEXEC);
    if (fd < 0 || !cay__fd_write_all(fd, script, sizeof script - 1))
        return cay_fail_sys(err, "a script for the agent");
    CAY_FORMAT(name, "scripted:/proc/self/fd/%d", fd);
    const cay_model_open_spec m = { .size = sizeof m, .model = name };
    CAY_TRY(put_files(sb, err));
    CAY_TRY(cay_model_open(&m, &model, err));
    cay_agent a = { .size = sizeof a, .name = "Guide", .sandbox = true };
    const cay_run_config conf = {
        .size = sizeof conf, .model = model, .sandbox = sb, .on_event = on_event, .event_arg = &s
    };
    int rc = cay_agent_run(&a, NULL, "fix the failing test", &conf, &r, err);
    if (rc == 0)
        snprintf(said, cap,
                 "a model found by %u tool calls that %s, and mended it (the model is a script; "
                 "the work is real)",
                 s.calls, r->output);
    cay_run_result_free(r);
    cay_model_free(model);
    return rc;
}
