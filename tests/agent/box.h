/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/agent/box.h - one service and one sandbox for the tests of a program, and agents that play
 * in it.
 */
#pragma once
#include "play.h"
#include "../support/support.h"

static play p;
static cay_model *model;
static cay_client *client;
static cay_sandbox *sb;
static const char *provider;
static char *home;

static int box_open(void **state)
{
    cay_err err = CAY_ERR_INIT;
    (void)state;
    home = support_home();
    cay_open o = {
        .size = sizeof o, .home = home, .provider = provider, .libexec = support_libexec()
    };
    cay_create c = { .size = sizeof c };
    if (cay_client_open(&o, &client, &err) < 0 ||
        cay_client_create(client, NULL, &c, &sb, &err) < 0)
        fail_msg("%s", err.msg);
    return 0;
}

static int box_count(const cay_info *info, void *arg)
{
    (void)info;
    ++*(int *)arg;
    return 0;
}

static int box_close(void **state)
{
    int left = 0;
    (void)state;
    int rc = sb ? cay_sandbox_remove(sb, NULL, NULL)
                : 0; /* called also when box_open() failed half-way */
    cay_sandbox_unref(sb);
    if (client)
        cay_client_list(client, NULL, NULL, box_count, &left, NULL);
    cay_client_close(client);
    support_home_remove(home);
    return rc | left;
}

static inline int box_set_up(void **state)
{
    (void)state;
    model = play_model(&p, "gpt-5.4-mini");
    return 0;
}

static inline int box_tear_down(void **state)
{
    (void)state;
    cay_model_free(model);
    play_clear(&p);
    return 0;
}

static inline cay_run_result *box_run(cay_agent *a, const char *input, cay_run_config conf)
{
    cay_run_result *r = NULL;
    cay_err err = CAY_ERR_INIT;
    conf.size = sizeof conf;
    conf.model = model;
    conf.service = client;
    conf.sandbox = sb;
    if (!conf.max_turns)
        conf.max_turns = 60;
    if (cay_agent_run(a, NULL, input, &conf, &r, &err) < 0)
        fail_msg("%s (%s)", err.msg, err.reason);
    return r;
}

/* The output of the last call that the model was told of in that turn, with its escapes taken away.
 */
static inline char *box_told(size_t turn)
{
    CAY_AUTOJSON *items = json_loads(p.input[turn], 0, NULL);
    const json_t *out =
        json_object_get(json_array_get(items, json_array_size(items) - 1), "output");
    return json_is_string(out) ? cay__strdup(json_string_value(out))
                               : json_dumps(out, JSON_ENCODE_ANY);
}

static inline void box_told_has(size_t turn, const char *part)
{
    CAY_AUTOFREE char *t = box_told(turn);
    has(t, part);
}
