/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/agent/play.h - a model that says what a test wrote down, and keeps what it was sent.
 */
#pragma once
#include <base/base.h>
#include <base/json.h>
#include <cay/cay.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

enum { PLAY_MAX = 80 };
typedef struct play {
    const char *say[PLAY_MAX]; /* lists of items; NULL ends */
    size_t at;
    char *previous[PLAY_MAX], *prompt[PLAY_MAX], *conversation[PLAY_MAX];
    char *input[PLAY_MAX], *instructions[PLAY_MAX], *tools[PLAY_MAX], *extra[PLAY_MAX],
        *choice[PLAY_MAX];
    uint64_t most[PLAY_MAX]; /* output tokens that were allowed */
    uint64_t tokens;         /* of each answer; 0: 1 */
    bool functions;          /* an endpoint without free-form tools */
} play;

#define TEXT(t)                                                                                    \
    "[{\"type\":\"message\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\","        \
    "\"text\":\"" t "\"}]}]"
#define CALL_ITEM(id, name, args)                                                                  \
    "{\"type\":\"function_call\",\"call_id\":\"" id "\",\"name\":\"" name                          \
    "\",\"arguments\":\"" args "\"}"
#define CALL(id, name, args) "[" CALL_ITEM(id, name, args) "]"
#define CUSTOM(id, name, text)                                                                     \
    "[{\"type\":\"custom_tool_call\",\"call_id\":\"" id "\",\"name\":\"" name                      \
    "\",\"input\":\"" text "\"}]"

static inline char *play_copy(const char *s)
{
    return s ? cay__strdup(s) : NULL;
}

static int play_ask(void *self, const cay_call *call, const cay_model_request *q,
                    cay_model_reply *out, cay_err *err)
{
    play *p = self;
    (void)call;
    if (p->at >= PLAY_MAX || !p->say[p->at])
        return cay_fail(err, CAY_EINVAL, "the play has %zu turns and was asked for one more",
                        p->at);
    p->input[p->at] = play_copy(q->input);
    p->instructions[p->at] = play_copy(q->instructions);
    p->tools[p->at] = play_copy(q->tools);
    p->extra[p->at] = play_copy(q->extra);
    p->previous[p->at] = play_copy(q->previous_id);
    p->conversation[p->at] = play_copy(q->conversation);
    p->prompt[p->at] = play_copy(q->prompt);
    p->choice[p->at] = play_copy(q->settings ? q->settings->tool_choice : NULL);
    p->most[p->at] = q->settings ? q->settings->max_output_tokens : 0;
    out->output = cay__strdup(p->say[p->at++]);
    char id[24];
    snprintf(id, sizeof id, "resp_%zu", p->at);
    out->id = cay__strdup(id);
    out->usage = (cay_tokens){
        .requests = 1, .input = 10, .output = p->tokens ? p->tokens : 1, .total = 11
    };
    return 0;
}

static const cay_model_ops play_ops = { .size = sizeof play_ops,
                                        .name = "play",
                                        .custom_tools = true,
                                        .compaction = true,
                                        .images = true,
                                        .ask = play_ask,
                                        .chains = true,
                                        .prompts = true,
                                        .hosted = true };
static const cay_model_ops play_functions = { .size = sizeof play_functions,
                                              .name = "play",
                                              .ask = play_ask };

static inline cay_model *play_model(play *p, const char *name)
{
    return cay_model_new(p->functions ? &play_functions : &play_ops, p, name);
}

static inline void play_clear(play *p)
{
    for (size_t i = 0; i < PLAY_MAX; i++) {
        free(p->input[i]);
        free(p->instructions[i]);
        free(p->tools[i]);
        free(p->extra[i]);
        free(p->choice[i]);
        free(p->previous[i]);
        free(p->conversation[i]);
        free(p->prompt[i]);
    }
    *p = (play){ .at = 0 };
}

static inline void has(const char *text, const char *part)
{
    if (!text || !strstr(text, part))
        fail_msg("no \"%s\" in: %.1500s", part, text ? text : "(nothing)");
}
static inline void has_not(const char *text, const char *part)
{
    if (text && strstr(text, part))
        fail_msg("\"%s\" in: %.1500s", part, text);
}
