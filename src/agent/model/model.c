/* SPDX-License-Identifier: Apache-2.0 */
#include "endpoint.h"

struct cay_model {
    cay_model_ops ops; /* a copy: those of its maker may be shorter than we know */
    void *self;
    char *name;
    uint64_t window;
};

cay_model *cay_model_new(const cay_model_ops *ops, void *self, const char *model)
{
    cay_model *m = cay__alloc(sizeof *m);
    if (!ops || cay__spec_take(&m->ops, sizeof m->ops, ops, "cay_model_ops", NULL) < 0 ||
        !m->ops.ask) {
        free(m);
        return NULL;
    }
    m->self = self;
    m->name = cay__strdup(model);
    return m;
}

void cay_model_free(cay_model *m)
{
    if (!m)
        return;
    if (m->ops.close)
        m->ops.close(m->self);
    free(m->name);
    free(m);
}

const char *cay_model_name(const cay_model *m)
{
    return m->name;
}

const cay_model_ops *cay_model_kind(const cay_model *m)
{
    return &m->ops;
}

uint64_t cay_model_window(const cay_model *m)
{
    return m->window;
}

void cay_model_set_window(cay_model *m, uint64_t tokens)
{
    m->window = tokens;
}

int cay_model_ask(cay_model *m, const cay_call *call, const cay_model_request *req,
                  cay_model_reply *out, cay_err *err)
{
    cay_model_reply r = { .size = sizeof r };
    int rc = m->ops.ask(m->self, call, req, &r, err);
    if (rc == 0 && !r.output)
        rc = cay_fail_why(err, CAY_EUPSTREAM, "model_answer", "the model gave no answer");
    if (rc < 0)
        cay_model_reply_clear(&r);
    else
        *out = r;
    return rc;
}

void cay_model_reply_clear(cay_model_reply *r)
{
    free(r->id);
    free(r->output);
    *r = (cay_model_reply){ .size = sizeof *r };
}

int cay_model_open(const cay_model_open_spec *given, cay_model **out, cay_err *err)
{
    cay_model_open_spec own, *spec = &own;
    CAY_TRY(cay__spec_take(&own, sizeof own, given, "cay_model_open_spec", err));
    if (spec->model && !strncmp(spec->model, "scripted:", 9))
        return cay__model_scripted(spec->model + 9, out, err);
    CAY_AUTOFREE cay__endpoint *e = cay__alloc(sizeof *e);
    CAY_TRY(cay__endpoint_make(spec, e, err));
    const cay_model_ops *ops = &cay__responses_model;
    if (!strcmp(e->api, "chat"))
        ops = &cay__chat_model;
    *out = cay_model_new(ops, e, e->model);
    (*out)->window = CAY_STEAL(e)->window;
    return 0;
}

static uint64_t read_tokens(const json_t *o, const char *kind, int64_t fallback)
{
    char name[40];
    CAY_JOIN(name, kind, "_tokens");
    return (uint64_t)CAY_MAX(cay__json_int(o, name, fallback), 0);
}

static const json_t *token_details(const json_t *usage, const char *kind)
{
    char name[40];
    CAY_JOIN(name, kind, "_tokens_details");
    return json_object_get(usage, name);
}

cay_tokens cay__model_usage(const json_t *usage, const char *asked, const char *answered)
{
    cay_tokens t = { .requests = 1 };
    t.input = read_tokens(usage, asked, 0);
    t.output = read_tokens(usage, answered, 0);
    t.total = read_tokens(usage, "total", (int64_t)(t.input + t.output));
    t.cached = read_tokens(token_details(usage, asked), "cached", 0);
    t.reasoning = read_tokens(token_details(usage, answered), "reasoning", 0);
    return t;
}
