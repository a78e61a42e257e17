/* SPDX-License-Identifier: Apache-2.0 */
/* Saying yes or no to what an interrupted run waits for, in its saved state. */
#include "run.h"

struct cay_state_doc {
    json_t           *st;
    cay_interruption *list;
    size_t            n;
};

int cay_state_open(const char *json, cay_state_doc **out, cay_err *err)
{
    CAY_AUTOJSON *st = NULL;
    cay_err quiet = CAY_ERR_INIT;
    if (cay__json_object("it", json, &st, &quiet) < 0)
        return cay_fail_why(err, CAY_EINVAL, "run_state", "the state of the run is no sound JSON object");
    CAY_TRY(cay__state_check(st, err));
    cay_state_doc *d = cay__alloc(sizeof *d);
    const json_t *calls = json_object_get(st, "interruptions");
    size_t i;
    json_t *c;
    d->list = cay__alloc((json_array_size(calls) + 1) * sizeof *d->list);
    json_array_foreach(calls, i, c)
        d->list[d->n++] = (cay_interruption){ .call_id = cay__json_str(c, "call_id", ""), .tool = cay__json_str(c, "name", ""),
                                              .agent = cay__json_str(json_object_get(st, "current_agent"), "name", ""),
                                              .arguments = cay__json_str(c, cay__item_is(c, "custom_tool_call") ? "input" : "arguments", "") };
    d->st = CAY_STEAL(st);
    *out = d;
    return 0;
}

void cay_state_close(cay_state_doc *d)
{
    if (!d)
        return;
    json_decref(d->st);
    free(d->list);
    free(d);
}

const cay_interruption *cay_state_interruptions(const cay_state_doc *d, size_t *n)
{
    *n = d->n;
    return d->list;
}

/* A list of ids, or true for all. */
static void add_id(json_t *of, const char *key, const char *id, bool always)
{
    json_t *v = json_object_get(of, key);
    if (always) {
        json_object_set_new(of, key, json_true());
        return;
    }
    if (json_is_true(v))
        return;
    if (!json_is_array(v)) {
        v = json_array();
        json_object_set_new(of, key, v);
    }
    json_array_append_new(v, json_string(id));
}

static void forget_id(json_t *of, const char *key, const char *id)
{
    json_t *v = json_object_get(of, key);
    for (size_t i = json_array_size(v); i-- > 0;)
        if (!strcmp(json_string_value(json_array_get(v, i)), id))
            json_array_remove(v, i);
}

static int decide(cay_state_doc *d, const char *call_id, bool yes, bool always, const char *message, cay_err *err)
{
    const cay_interruption *it = NULL;
    for (size_t i = 0; i < d->n; i++)
        if (!strcmp(d->list[i].call_id, call_id))
            it = &d->list[i];
    if (!it)
        return cay_fail(err, CAY_ENOENT, "no call \"%.80s\" waits for approval", call_id);
    json_t *all = json_object_get(json_object_get(d->st, "context"), "approvals"), *a = json_object_get(all, it->tool);
    if (!a) {
        a = json_object();
        json_object_set_new(all, it->tool, a);
    }
    forget_id(a, yes ? "rejected" : "approved", call_id);
    if (always)
        json_object_del(a, yes ? "rejected" : "approved");
    add_id(a, yes ? "approved" : "rejected", call_id, always);
    if (!yes && message) {
        json_t *m = json_object_get(a, "rejection_messages");
        if (!json_is_object(m)) {
            m = json_object();
            json_object_set_new(a, "rejection_messages", m);
        }
        json_object_set_new(m, call_id, json_string(message));
        if (always)
            json_object_set_new(a, "sticky_rejection_message", json_string(message));
    }
    return 0;
}

int cay_state_approve(cay_state_doc *d, const char *call_id, bool always, cay_err *err)
{
    return decide(d, call_id, true, always, NULL, err);
}

int cay_state_reject(cay_state_doc *d, const char *call_id, bool always, const char *message, cay_err *err)
{
    return decide(d, call_id, false, always, message, err);
}

char *cay_state_text(const cay_state_doc *d)
{
    return cay__json_text(d->st, CAY__TEXT_MAX);
}
