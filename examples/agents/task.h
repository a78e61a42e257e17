/* SPDX-License-Identifier: Apache-2.0 */
/*
 * task.h - what these examples share: a service, a model, and files to begin with. ../agent.c shows
 * the same step by step.
 *
 *     ./review native gpt-5.5                  a real model; its key is in $OPENAI_API_KEY
 *     ./review local scripted:review.json      a recorded one: no network, no key
 *
 * Without a second argument $CAY_MODEL names the model, $OPENAI_BASE_URL where it is.
 */
#pragma once
#include <cay/cay.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct file {
    const char *path, *text;
} file;

typedef struct task {
    const char *name;
    cay_client *service;
    cay_model *model;
    char *manifest; /* of the files, for a cay_agent */
    cay_err err;
} task;

/* files ends with a NULL path; or NULL for none. */
static inline int task_open(task *t, int argc, char **argv, const file *files)
{
    const char *slash = strrchr(argv[0], '/');
    cay_open open = { .size = sizeof open, .provider = argc > 1 ? argv[1] : "native" };
    cay_model_open_spec model = { .size = sizeof model, .model = argc > 2 ? argv[2] : NULL };
    cay_manifest *m = cay_manifest_new();
    *t = (task){ .name = slash ? slash + 1 : argv[0], .err = CAY_ERR_INIT };
    int rc = cay_client_open(&open, &t->service, &t->err);
    if (rc == 0)
        rc = cay_model_open(&model, &t->model, &t->err);
    for (; rc == 0 && files && files->path; files++)
        rc = cay_manifest_file(m, files->path, files->text, strlen(files->text), NULL, &t->err);
    if (rc == 0)
        rc = cay_manifest_to_json(m, &t->manifest, &t->err);
    cay_manifest_free(m);
    return rc;
}

/* One run; `more` is what this example adds to the usual. */
static inline int task_run(task *t, cay_agent *agent, const char *input, const cay_run_config *more,
                           cay_run_result **out)
{
    cay_run_config conf = more ? *more : (cay_run_config){ .size = sizeof conf };
    conf.model = t->model;
    conf.service = t->service;
    conf.max_turns = conf.max_turns ? conf.max_turns : 20;
    return cay_agent_run(agent, NULL, input, &conf, out, &t->err);
}

/* The exit code of the program. */
static inline int task_close(task *t, int rc)
{
    if (rc < 0)
        fprintf(stderr, "%s: %s: %s (%s)\n", t->name, cay_code_name(t->err.code), t->err.msg,
                t->err.reason);
    cay_model_free(t->model);
    if (t->service)
        cay_client_close(t->service);
    free(t->manifest);
    return rc < 0;
}
