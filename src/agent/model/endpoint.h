/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/model/endpoint.h - a server that answers for a model: where it is, the key it wants, and
 * asking again when that may help.
 */
#pragma once
#include <base/json.h>
#include <cay/sys/model.h>
#include <net/http.h>

typedef struct cay__endpoint {
    cay__http *http; /* opened at the first request */
    char *base, *model, *api;
    char *key; /* in memory only; wiped when it is closed */
    char **headers;
    size_t nheaders;
    unsigned retries;
    uint64_t connect_ms, idle_ms, total_ms;
    uint64_t window; /* of the model, in tokens; 0: unknown */
    bool stream;
    bool over_socket; /* WebSocket: events come whether asked for or not */
    int socket;       /* one that is open, or -1 */
} cay__endpoint;

/* Of spec, environment and configuration file, in this order. Nothing is sent. */
int cay__endpoint_make(const cay_model_open_spec *spec, cay__endpoint *out, cay_err *err);
void cay__endpoint_clear(cay__endpoint *e);

/* headers.c: those of spec, environment and configuration; none of their values is in text
 * afterwards. */
int cay__headers_set(cay__endpoint *e, const cay_model_open_spec *spec, const json_t *conf,
                     cay_err *err);
void cay__headers_begin(cay__endpoint *e); /* what is always sent */
int cay__headers_line(cay__endpoint *e, const cay_model_open_spec *spec, const char *where,
                      const char *line, cay_err *err);
void cay__headers_clear(cay__endpoint *e);
void cay__secret_free(char *s); /* wipes it; NULL is nothing */
void cay__headers_mask(const cay__endpoint *e, char *text);
/* "env:NAME", "file:PATH", "none", or NULL for $OPENAI_API_KEY; *out stays NULL where there is
 * none. */
int cay__model_secret(const char *source, char **out, cay_err *err);

/* What a POST is answered with: events as they come, or one document. */
typedef struct cay__model_ask {
    const char *path; /* "/responses" */
    const cay__buf *body;
    const cay_model_request *req; /* who is told when it is asked again */
    /* Of a stream; event: what data says, NULL for the mark of its end. */
    int (*on_event)(const char *data, json_t *event, void *arg, cay_err *err);
    int (*on_json)(json_t *doc, void *arg, cay_err *err); /* of a document */
    bool (*done)(void *arg); /* of a WebSocket: the event just told was the last one */
    void *arg;
} cay__model_ask;
/* Errors by status: CAY_EAUTH 401 403, CAY_ENOENT 404, CAY_ERATE 429, CAY_EINVAL other 4xx,
 * CAY_EUPSTREAM 5xx; "model_http". */
int cay__endpoint_ask(cay__endpoint *e, const cay_call *call, const cay__model_ask *ask,
                      cay_err *err);

/* A POST whose answer is only its status: again after a failure of the network or the server, but
 * not when there is no time left. */
int cay__endpoint_post(cay__http *http, const cay_call *call, const cay__http_req *q, int tries,
                       int *status, cay_err *err);

/* The keys of a body, so that none is given twice. */
typedef struct cay__body {
    cay__buf b;
    const char *keys[64];
    size_t n;
    char *twice; /* a key that came again, or NULL */
} cay__body;
static inline void cay__body_clear(cay__body *b)
{
    cay__buf_clear(&b->b);
    free(b->twice);
}
#define CAY__AUTOBODY __attribute__((cleanup(cay__body_clear))) cay__body
void cay__body_raw(cay__body *b, const char *key, const char *json);
void cay__body_json(cay__body *b, const char *key, json_t *value); /* takes value */
void cay__body_str(cay__body *b, const char *key, const char *text);
/* Every member of one JSON object; keys stay alive as long as *keep, which the caller drops. */
int cay__body_merge(cay__body *b, const char *what, const char *object, json_t **keep,
                    cay_err *err);
int cay__body_end(cay__body *b, cay_err *err); /* CAY_EINVAL when a key came twice */

/* What an answer cost; asked and answered: how its two kinds of tokens are called. */
cay_tokens cay__model_usage(const json_t *usage, const char *asked, const char *answered);
/* Temperature and the like; tokens: how the most of them is called. */
void cay__body_sampling(cay__body *b, const cay_model_settings *s, const char *tokens);
/* One of the words that stand for no tool in particular. */
bool cay__model_choice(const char *tool_choice);
/* Tells an event, which it takes. CAY_ECANCELED when the run is to end. */
int cay__model_tell(const cay_model_request *q, const char *type, json_t *ev, cay_err *err);
/* self: an endpoint, malloc'ed */
extern const cay_model_ops cay__responses_model, cay__chat_model;
void cay__endpoint_free(void *self);
int cay__model_scripted(const char *path, cay_model **out, cay_err *err);

/* Our items as the messages of Chat Completions. */

/* Items and instructions to messages. Tool calls that stand together are one assistant message;
 * images of tools, which a tool message cannot hold, follow in a user message. */
json_t *cay__chat_messages(const json_t *items, const char *instructions);
/* Our tools to theirs. */
json_t *cay__chat_tools(const json_t *tools);

/* One question over a WebSocket that stays open between questions
 * (endpoint.h: e->socket). */

typedef struct cay__socket_ask {
    const char *path; /* "/responses" */
    const char *body; /* a JSON text */
    size_t len;
    int (*on_message)(const char *data, size_t len, bool *over, void *arg,
                      cay_err *err); /* *over: that was the last one */
    int (*refused)(int status, const cay__buf *said, void *arg,
                   cay_err *err); /* the handshake: an error, always */
    void *arg;
} cay__socket_ask;

int cay__socket_try(cay__endpoint *e, const cay_call *call, const cay__socket_ask *ask,
                    cay_err *err);
void cay__socket_close(cay__endpoint *e);
