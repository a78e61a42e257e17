/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay/sys/model.h - what answers an agent: a model of ours, or one that you write.
 *
 *   cay_model_open()  an endpoint or a script, by name
 *   cay_model_new()   your own, by its operations
 *   cay_model_ask()   one request, one answer
 *   cay_model_list()  which there are
 *   cay_model_free()
 *
 * Items, tools and events are JSON in the form of the Responses API, whatever the endpoint speaks:
 * docs/agents.md lists them. A model belongs to one run at a time.
 */
#pragma once
#include <cay/error.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cay_model cay_model;

/* 0 or NULL: not sent. Numbers that may be zero have a flag of their own. */
typedef struct cay_model_settings {
    size_t size;
    bool has_temperature, has_top_p;
    double temperature, top_p;
    uint64_t max_output_tokens;
    const char *tool_choice; /* "auto", "required", "none", or a tool's name */
    int parallel;            /* parallel tool calls: 1 yes, -1 no, 0 not said */
    const char *reasoning;   /* effort: "low", "medium", "high", … */
    const char *verbosity;
    const char
        *extra; /* one JSON object, merged into the body; a key that is there already is an error */
    bool store; /* let the endpoint keep the answer; else it is asked not to */
} cay_model_settings;

typedef struct cay_tokens {
    uint64_t requests, input, cached, output, reasoning, total;
} cay_tokens;

typedef struct cay_model_request {
    size_t size;
    const char *instructions;  /* or NULL */
    const char *input;         /* a list of items */
    const char *tools;         /* a list of tools, or NULL */
    const char *output_schema; /* JSON schema of the answer, or NULL */
    bool output_strict;
    const cay_model_settings *settings; /* or NULL */
    const char *previous_id; /* continue that answer instead of sending all again, or NULL; only
                                where ops->chains */
    const char
        *prompt; /* one that the endpoint keeps, a JSON object, or NULL; only where ops->prompts */
    const char *extra; /* what capabilities add to the body: one JSON object, or NULL */
    /* Pieces as they come, or NULL: data is JSON, type its "type". A negative return ends the
     * request. */
    int (*on_event)(const char *type, const char *data, void *arg);
    void *arg;
    const char *conversation; /* one that the endpoint keeps, and adds input and answer to; or NULL;
                                 only where ops->chains */
} cay_model_request;

/* Strings are malloc'ed by the model; cay_model_reply_clear() frees them. */
typedef struct cay_model_reply {
    size_t size;
    char *id;     /* of the answer, or NULL */
    char *output; /* a list of items */
    cay_tokens usage;
    uint64_t cache_write; /* of usage.input: tokens that the endpoint has written to its cache */
} cay_model_reply;

typedef struct cay_model_ops {
    size_t size;
    const char *name;
    bool custom_tools; /* takes free-form tools; else they are sent as functions */
    bool compaction;   /* knows context_management; else the history is summarised here */
    bool images;       /* takes images in the output of tools */
    int (*ask)(void *self, const cay_call *call, const cay_model_request *req, cay_model_reply *out,
               cay_err *err);
    void (*close)(void *self);
    bool chains;  /* knows previous_id */
    bool prompts; /* knows prompts by id */
    bool hosted;  /* runs tools of its own: cay_tool.hosted */
} cay_model_ops;

/* Takes self: closed with the model. model: the name to show and to look limits up by. NULL when
 * ops->size is none or it has no ask: then self stays the caller's. */
CAY_API cay_model *cay_model_new(const cay_model_ops *ops, void *self, const char *model);

typedef struct cay_model_open_spec {
    size_t size;
    const char *model;    /* "gpt-5.5", or "scripted:FILE" */
    const char *base_url; /* NULL: $OPENAI_BASE_URL, the configuration, https://api.openai.com/v1 */
    const char *api; /* "responses", "websocket" (the same over one connection that stays open) or
                        "chat"; NULL: $CAY_MODEL_API, the configuration, responses */
    const char *key; /* where the key is: "env:NAME", "file:PATH", "none"; NULL: env:OPENAI_API_KEY,
                        or none when it is not set (not with the default address). A key itself is
                        never taken here, told or logged */
    const char *const
        *headers; /* more of them, "Name: value", NULL-terminated, or NULL; a value "env:NAME" or
                     "file:PATH" is read there. Before them those of the configuration and of
                     $CAY_MODEL_HEADERS, one a line; a later one of a name counts */
    unsigned retries;                       /* after the first try; 0: 4; CAY_NO_RETRY: none */
    uint64_t connect_ms, idle_ms, total_ms; /* 0: 30 s, 5 min, 30 min */
    bool plain_key;                         /* send the key over http:// to other machines too */
    bool no_stream;                         /* ask for whole answers */
    uint64_t window; /* tokens that it can see at once; 0: $CAY_MODEL_WINDOW, "context_window" of
                        the configuration, else unknown */
} cay_model_open_spec;
#define CAY_NO_RETRY 0xffffffffu

CAY_API int cay_model_open(const cay_model_open_spec *spec, cay_model **out, cay_err *err);
/* Names of the models that the endpoint of spec has, as it tells them: a JSON list of texts,
 * malloc'ed. What spec says of the model itself is not looked at. */
CAY_API int cay_model_list(const cay_model_open_spec *spec, const cay_call *call, char **names,
                           cay_err *err);
CAY_API void cay_model_free(cay_model *m);
CAY_API const char *cay_model_name(const cay_model *m);
CAY_API const cay_model_ops *cay_model_kind(const cay_model *m);
CAY_API uint64_t cay_model_window(const cay_model *m); /* as it was told; 0: nobody did */
CAY_API void cay_model_set_window(cay_model *m, uint64_t tokens);
CAY_API int cay_model_ask(cay_model *m, const cay_call *call, const cay_model_request *req,
                          cay_model_reply *out, cay_err *err);
CAY_API void cay_model_reply_clear(cay_model_reply *r);

#ifdef __cplusplus
}
#endif
