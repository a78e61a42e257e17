/* SPDX-License-Identifier: Apache-2.0 */
/* Saying yes or no to what an interrupted run waits for, in its saved state. */
#include "run.h"
#include <base/mutant.h>

enum { WAITS_MAX = 4 * CAY__CALLS_MAX };

struct cay_state_doc {
    json_t *st;
    cay_interruption *list;
    struct decided {
        json_t *approvals; /* where it is decided */
        const char *id;    /* in its own run */
    } * own;
    cay__arena arena;
    size_t n;
};

/* prefix: of calls inside that one. */
static void visit_pending(const json_t *pending, const json_t *nested, const char *agent,
                          json_t *approvals, const char *prefix, unsigned depth, cay__waits_fn *fn,
                          void *arg)
{
    CAY_EACH_ITEM(call, pending) {
        const char *id = cay__item_id(call);
        const json_t *st = json_object_get(nested, id);
        CAY_AUTOBUF whole = CAY__BUF(4096);
        cay__buf_fmt(&whole, "%s%s%s", prefix, CAY_TEXT_IF(*prefix, "/"), id);
        if (whole.full)
            continue;
        if (st && depth < CAY__NEST_MAX)
            visit_pending(json_object_get(st, "interruptions"), json_object_get(st, "nested"),
                          cay__json_str(json_object_get(st, "current_agent"), "name", ""),
                          json_object_get(json_object_get(st, "context"), "approvals"), whole.data,
                          depth + 1, fn, arg);
        else
            fn(arg, call, whole.data, agent, approvals);
    }
}

void cay__waits(const json_t *pending, const json_t *nested, const char *agent, json_t *approvals,
                cay__waits_fn *fn, void *arg)
{
    visit_pending(pending, nested, agent, approvals, "", 0, fn, arg);
}

static void add_interruption(void *arg, const json_t *call, const char *id, const char *agent,
                             json_t *approvals)
{
    cay_state_doc *d = arg;
    d->list = realloc(d->list, (d->n + !CAY__MUTANT("fuzz-run_state")) * sizeof *d->list);
    if (!d->list)
        abort();
    CAY_GROW(d->own, d->n);
    struct cay__hosted_name name;
    d->own[d->n] = (struct decided){ approvals, cay__item_id(call) };
    d->list[d->n++] =
        (cay_interruption){ .call_id = cay__arena_str(&d->arena, id),
                            .tool = cay__arena_str(&d->arena, cay__item_tool(call, &name)),
                            .agent = agent,
                            .arguments = cay__item_arguments(call) };
}

int cay_state_open(const char *json, cay_state_doc **out, cay_err *err)
{
    CAY_AUTOJSON *st = NULL;
    cay_err quiet = CAY_ERR_INIT;
    if (cay__json_object("it", json, &st, &quiet) < 0)
        return cay_fail_why(err, CAY_EINVAL, "run_state",
                            "the state of the run is no sound JSON object");
    CAY_TRY(cay__state_check(st, err));
    cay_state_doc *d = cay__alloc(sizeof *d);
    cay__waits(json_object_get(st, "interruptions"), json_object_get(st, "nested"),
               cay__json_str(json_object_get(st, "current_agent"), "name", ""),
               json_object_get(json_object_get(st, "context"), "approvals"), add_interruption, d);
    d->st = CAY_STEAL(st);
    bool sound = d->n <= WAITS_MAX;
    for (size_t i = 0; sound && i < d->n; i++) /* an id may look like one of a call inside another:
                                                  nobody could tell what is decided */
        for (size_t k = 0; sound && k < i; k++)
            sound = strcmp(d->list[i].call_id, d->list[k].call_id) != 0;
    if (!sound) {
        cay_state_close(d);
        return cay_fail_why(
            err, CAY_EINVAL, "run_state",
            "the state of the run cannot be used: too many calls wait, or two by one id");
    }
    *out = d;
    return 0;
}

void cay_state_close(cay_state_doc *d)
{
    if (!d)
        return;
    json_decref(d->st);
    cay__arena_clear(&d->arena);
    free(d->own);
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
    json_array_append_new(cay__json_list_in(of, key), json_string(id));
}

static void forget_id(json_t *of, const char *key, const char *id)
{
    json_t *v = json_object_get(of, key);
    for (size_t i = json_array_size(v); i-- > 0;)
        if (!strcmp(json_string_value(json_array_get(v, i)), id))
            json_array_remove(v, i);
}

static int record_decision(cay_state_doc *d, const char *call_id, bool yes, bool always,
                           const char *message, cay_err *err)
{
    const cay_interruption *it = NULL;
    json_t *all = NULL;
    for (size_t i = 0; i < d->n && !it; i++)
        if (!strcmp(d->list[i].call_id, call_id)) {
            it = &d->list[i];
            all = d->own[i].approvals;
            call_id = d->own[i].id;
        }
    if (!it)
        return cay_fail(err, CAY_ENOENT, "no call \"%.80s\" waits for approval", call_id);
    json_t *a = cay__json_object_in(all, it->tool);
    forget_id(a, yes ? "rejected" : "approved", call_id);
    if (always)
        json_object_del(a, yes ? "rejected" : "approved");
    add_id(a, yes ? "approved" : "rejected", call_id, always);
    if (!yes && message) {
        cay__json_put(cay__json_object_in(a, "rejection_messages"), call_id, message);
        if (always)
            cay__json_put(a, "sticky_rejection_message", message);
    }
    return 0;
}

int cay_state_approve(cay_state_doc *d, const char *call_id, bool always, cay_err *err)
{
    return record_decision(d, call_id, true, always, NULL, err);
}

int cay_state_reject(cay_state_doc *d, const char *call_id, bool always, const char *message,
                     cay_err *err)
{
    return record_decision(d, call_id, false, always, message, err);
}

char *cay_state_text(const cay_state_doc *d)
{
    return cay__json_text(d->st, CAY__TEXT_MAX);
}
