/* SPDX-License-Identifier: Apache-2.0 */
#include "audit.h"
#include "run.h"
#include "trace.h"
#include <cay/workspace.h>

enum { MAX_TURNS = 10, KEPT_MS = 24 * 3600 * 1000 };

const cay_agent *cay_run_agent(const cay_run *r)
{
    return r->seat->given;
}
cay_sandbox *cay_run_sandbox(const cay_run *r)
{
    return r->seat->sb;
}
void *cay_run_context(const cay_run *r)
{
    return r->conf->context;
}
const cay_call *cay_run_call(const cay_run *r)
{
    return r->call;
}
cay_tokens cay_run_usage(const cay_run *r)
{
    return r->usage;
}

int cay__call_check_run(const cay_run *r)
{
    if (r->canceled)
        return CAY_ECANCELED;
    return cay__call_check(r->call, "run", NULL);
}

int cay__call_fail_run(const cay_run *r, cay_err *err)
{
    if (r->canceled)
        return cay_fail_why(err, CAY_ECANCELED, "canceled", "the run was ended");
    return cay__call_check(r->call, "run", err);
}

void cay__tokens_add(cay_tokens *sum, const cay_tokens *u)
{
    sum->requests += u->requests;
    sum->input += u->input;
    sum->cached += u->cached;
    sum->output += u->output;
    sum->reasoning += u->reasoning;
    sum->total += u->total;
}

json_t *cay__tokens_json(const cay_tokens *u)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I}", "requests", (json_int_t)u->requests,
                     "input_tokens", (json_int_t)u->input, "cached_tokens", (json_int_t)u->cached,
                     "output_tokens", (json_int_t)u->output, "reasoning_tokens",
                     (json_int_t)u->reasoning);
}

void cay__request_add(cay_run *r, const cay_model *m, const cay_model_reply *reply)
{
    const cay_tokens *u = &reply->usage;
    if (!r->requests)
        r->requests = json_array();
    json_t *e = json_pack(
        "{s:s, s:s, s:s?, s:I, s:I, s:I, s:I, s:I, s:I}", "agent", r->seat->agent->name, "model",
        cay_model_name(m), "response_id", reply->id, "input_tokens", (json_int_t)u->input,
        "cached_tokens", (json_int_t)u->cached, "cache_write_tokens",
        (json_int_t)reply->cache_write, "output_tokens", (json_int_t)u->output, "reasoning_tokens",
        (json_int_t)u->reasoning, "total_tokens", (json_int_t)u->total);
    if (e)
        json_array_append_new(r->requests, e);
}

int cay__run_event(cay_run *r, cay_run_event_kind kind, const char *name, const json_t *json,
                   cay_err *err)
{
    if (!r->conf->on_event)
        return 0;
    CAY_AUTOFREE char *text = cay__json_text(json, CAY__TEXT_MAX);
    cay_run_event ev = { .size = sizeof ev,
                         .kind = kind,
                         .agent = CAY_IF(r->seat, r->seat->given),
                         .name = name,
                         .json = CAY_OR(text, "null") };
    if (r->conf->on_event(r->conf->event_arg, &ev) >= 0)
        return 0;
    r->canceled = true;
    return cay_fail_why(err, CAY_ECANCELED, "canceled", "the run was ended");
}

int cay__run_note(cay_run *r, const char *name, const char *text, cay_err *err)
{
    CAY_AUTOJSON *j = json_string(text);
    return cay__run_event(r, CAY_RUN_NOTE, name, CAY_OR(j, json_null()), err);
}

int cay__run_add(cay_run *r, const char *event, json_t *item, cay_err *err)
{
    CAY_AUTOJSON *own = item;
    if (json_array_size(r->items) >= CAY__ITEMS_MAX)
        return cay_fail_why(err, CAY_ETOOBIG, "history_too_big",
                            "the run has made more than %d items", CAY__ITEMS_MAX);
    json_array_append(r->items, own);
    /* What it thought cannot be sent back when nobody kept it and it came without its sealed form.
     */
    bool lost = cay__item_is(own, "reasoning") && !json_object_get(own, "encrypted_content") &&
                !strncmp(cay__json_str(own, "id", ""), "rs_", 3);
    if (!lost || r->seat->agent->settings.store)
        json_array_append(r->context, own);
    return cay__run_event(r, CAY_RUN_ITEM, event, own, err);
}

static int run_turns(cay_run *r, cay_err *err)
{
    const cay__seat *greeted = NULL;
    for (cay__next next = CAY__AGAIN; next == CAY__AGAIN;) {
        if (cay__call_check_run(r) < 0)
            CAY_TRY(cay__call_fail_run(r, err));
        if (!r->resumed && r->turn >= r->max_turns)
            return cay_fail_why(
                err, CAY_ETOOBIG, "max_turns",
                "the run has not ended after %u turn%s; raise max_turns if it should go on",
                r->max_turns, r->max_turns == 1 ? "" : "s");
        if (!r->agent_span)
            r->agent_span = cay__span_begin(r, "agent", r->seat->agent->name);
        CAY_TRY(cay__seat_prepare(r, r->seat, err));
        if (greeted != r->seat)
            CAY__HOOK(r, agent_start, r);
        greeted = r->seat;
        r->turn += !r->resumed;
        CAY_TRY(cay__turn(r, &next, err));
        if (greeted != r->seat) { /* somebody else goes on */
            cay__span_end(r->agent_span, NULL);
            r->agent_span = NULL;
        }
        if (next == CAY__FINAL)
            CAY_TRY(cay__guard_output(r, err));
        if (next == CAY__FINAL)
            CAY__HOOK(r, agent_end, r, r->output);
    }
    return 0;
}

/* It becomes the name of a file. */
static bool sound_rollout(const char *id)
{
    static const char set[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    return *id && !strchr("._-", *id) && strlen(id) <= 128 && strspn(id, set) == strlen(id);
}

static int choose_rollout(cay_run *r, cay_err *err)
{
    const char *session =
        CAY_IF(r->conf->conversation, cay__conversation_id(r->conf->conversation));
    const char *ids[] = { r->conf->rollout_id, r->conf->conversation_id, r->conf->kept_conversation,
                          session, r->conf->group_id };
    if (ids[0] && !sound_rollout(ids[0]))
        return cay_fail_why(err, CAY_EINVAL, "rollout_invalid",
                            "rollout id \"%.60s\": want letters, digits, . _ and -, at most 128, "
                            "the first a letter or digit",
                            ids[0]);
    for (size_t i = 0; i < CAY_LEN(ids) && !*r->rollout; i++)
        if (ids[i] && sound_rollout(ids[i]))
            CAY_COPY(r->rollout, ids[i]);
    if (!*r->rollout)
        CAY_FORMAT(r->rollout, "run-%s", r->id);
    return 0;
}

static int begin_run(cay_run *r, cay_agent *agent, const char *input, cay_err *err)
{
    CAY_AUTOFREE char *before = NULL;
    if (r->conf->kept_conversation &&
        (r->conf->conversation || r->conf->chain || r->conf->previous_response_id))
        return cay_fail_why(
            err, CAY_EINVAL, "kept_conversation",
            "what was said is kept by the endpoint (kept_conversation) or here (conversation), or "
            "is gone on from (chain, previous_response_id): choose one");
    if (r->conf->state) {
        if (input)
            return cay_fail(err, CAY_EINVAL, "a run that goes on from a state takes no new input");
        return cay__state_load(r, agent, r->conf->state, err);
    }
    CAY_TRY(cay__input_items(input, &r->input, err));
    cay__id_make(r->id, 'r');
    r->items = json_array();
    r->approvals = json_object();
    r->pending = json_array();
    r->seat = cay__seat_of(r, agent);
    r->max_turns = CAY_OR(r->conf->max_turns, MAX_TURNS);
    if (r->conf->conversation) {
        CAY_TRY(cay_conversation_items(r->conf->conversation, &before, err));
        CAY_TRY(cay__json_any("the conversation", before, &r->context, err));
    }
    if (!json_is_array(r->context)) {
        json_decref(r->context);
        r->context = json_array();
    }
    json_array_extend(r->context, r->input);
    if (r->conf->previous_response_id)
        r->response_id = cay__strdup(r->conf->previous_response_id);
    CAY_TRY(choose_rollout(r, err));
    return cay__guard_input(r, err);
}

static const char *state_of_run(const cay_run *r, int rc)
{
    if (rc == CAY_ECANCELED)
        return "cancelled";
    if (rc < 0)
        return "failed";
    if (json_array_size(r->pending))
        return "interrupted";
    return "completed";
}

static void tell_capabilities(cay_run *r, int rc, const cay_err *err)
{
    static const struct {
        cay_reason reason;
        const char *state;
    } states[] = { { CAY_REASON_MAX_TURNS, "max_turns_exceeded" },
                   { CAY_REASON_GUARDRAIL_INPUT, "guardrail_tripped" },
                   { CAY_REASON_GUARDRAIL_OUTPUT, "guardrail_tripped" },
                   { CAY_REASON_GUARDRAIL_TOOL, "guardrail_tripped" } };
    const char *state = state_of_run(r, rc);
    for (size_t i = 0; rc < 0 && i < CAY_LEN(states); i++)
        if (cay_err_is(err, states[i].reason))
            state = states[i].state;
    CAY_AUTOFREE char *input = NULL, *items = NULL, *waits = NULL;
    CAY_EACH_LINK(s, r->seats)
        CAY_EACH_OF(it, s->caps, s->ncaps) {
            const cay_capability_ops *ops = it->cap->ops;
            cay_err own = CAY_ERR_INIT;
            if (!ops->finish)
                continue;
            if (!input) {
                CAY_AUTOJSON *new = json_array(); /* of this part of the run */
                for (size_t k = r->kept; k < json_array_size(r->items); k++)
                    json_array_append(new, json_array_get(r->items, k));
                input = cay__json_text(r->input, CAY__TEXT_MAX);
                items = cay__json_text(new, CAY__TEXT_MAX);
                waits = cay__json_text(r->pending, CAY__TEXT_MAX);
            }
            cay_rollout o = { .size = sizeof o,
                              .id = r->rollout,
                              .input = r->conf->state ? "[]" : input,
                              .items = items,
                              .interruptions = waits,
                              .state = state,
                              .reason = CAY_IF(rc < 0, err->reason),
                              .message = CAY_IF(rc < 0, err->msg),
                              .output = CAY_IF(rc == 0, r->output) };
            if (ops->finish(it->bound, &o, &own) < 0)
                cay__run_note(r, ops->name, own.msg, NULL);
        }
}

/* What was said is kept even when the run failed later: the tools have done it. */
static int keep_conversation(cay_run *r, int rc, cay_err *err)
{
    if (!r->conf->conversation || !r->items || (rc < 0 && !json_array_size(r->items)))
        return 0;
    CAY_AUTOJSON *new = json_array();
    if (!r->conf->state)
        json_array_extend(new, r->input);
    for (size_t i = r->kept; i < json_array_size(r->items); i++)
        json_array_append(new, json_array_get(r->items, i));
    CAY_AUTOFREE char *text = cay__json_text(new, CAY__TEXT_MAX);
    if (text)
        return cay__conversation_append(r->conf->conversation, text, err);
    return 0;
}

typedef struct result {
    cay_run_result pub;
    cay__arena arena;
} result;

static const char *keep_text(result *res, char *text)
{
    return CAY_IF(text, cay__arena_adopt(&res->arena, text));
}

typedef struct listing {
    result *res;
    cay_interruption *list;
    size_t n;
} listing;

static void count_pending(void *arg, const json_t *call, const char *id, const char *agent,
                          json_t *approvals)
{
    ++*(size_t *)arg;
}

static void list_pending(void *arg, const json_t *call, const char *id, const char *agent,
                         json_t *approvals)
{
    listing *l = arg;
    cay__arena *a = &l->res->arena;
    struct cay__hosted_name name;
    l->list[l->n++] =
        (cay_interruption){ .call_id = cay__arena_str(a, id),
                            .agent = cay__arena_str(a, agent),
                            .tool = cay__arena_str(a, cay__item_tool(call, &name)),
                            .arguments = cay__arena_str(a, cay__item_arguments(call)) };
}

static void fill_interruptions(cay_run *r, result *res)
{
    size_t n = 0;
    cay__waits(r->pending, r->nested, res->pub.agent, r->approvals, count_pending, &n);
    listing l = { .res = res, .list = cay__arena_take(&res->arena, (n + 1) * sizeof *l.list) };
    cay__waits(r->pending, r->nested, res->pub.agent, r->approvals, list_pending, &l);
    res->pub.interruptions = l.list;
    res->pub.ninterruptions = l.n;
    CAY_AUTOJSON *st = cay__state_save(r);
    res->pub.state = keep_text(res, cay__json_text(st, CAY__TEXT_MAX));
}

static cay_run_result *make_result(cay_run *r, bool keep)
{
    result *res = cay__alloc(sizeof *res);
    CAY_AUTOJSON *history = json_deep_copy(r->context);
    res->pub = (cay_run_result){ .size = sizeof res->pub, .usage = r->usage, .turns = r->turn };
    res->pub.agent = cay__arena_str(&res->arena, r->seat->agent->name);
    res->pub.items = keep_text(res, cay__json_text(r->items, CAY__TEXT_MAX));
    if (r->requests)
        res->pub.requests = keep_text(res, cay__json_text(r->requests, CAY__TEXT_MAX));
    else
        res->pub.requests = "[]";
    res->pub.history = keep_text(res, cay__json_text(history, CAY__TEXT_MAX));
    res->pub.response_id = CAY_IF(r->response_id, cay__arena_str(&res->arena, r->response_id));
    if (cay__trace_id(r))
        res->pub.trace_id = cay__arena_str(&res->arena, cay__trace_id(r));
    res->pub.sandbox_state = keep_text(res, CAY_STEAL(r->sandbox_state));
    res->pub.sandbox =
        CAY_IF(keep && r->seat->sb, cay__arena_str(&res->arena, cay_sandbox_id(r->seat->sb)));
    if (json_array_size(r->pending))
        fill_interruptions(r, res);
    else
        res->pub.output = keep_text(res, CAY_STEAL(r->output));
    return &res->pub;
}

void cay_run_result_free(cay_run_result *pub)
{
    result *res = (result *)pub;
    if (!res)
        return;
    cay__arena_clear(&res->arena);
    free(res);
}

/* A sandbox that waits with the run is not thrown away, and not kept for ever either. */
static void close_run(cay_run *r, bool waits, const cay_err *fault, result *res)
{
    bool keep = waits || r->conf->keep;
    json_int_t ending = 0;
    CAY_EACH_LINK(s, r->seats) {
        if (s->returned && fault)
            s->owned = false; /* not of our making, and nothing was saved: whoever has its state
                                 comes back to it */
        if (s->sb && s->owned && waits && !r->conf->keep)
            cay_sandbox_extend(s->sb, NULL, KEPT_MS, KEPT_MS, NULL);
        ending += s->sb && s->owned && !keep;
    }
    cay__span *span = CAY_IF(ending, cay__span_begin(r, "custom", "sandbox.cleanup_sessions"));
    cay__span_data(span, "session_count", json_integer(ending));
    CAY_EACH_LINK_SAFE(s, r->seats)
        cay__seat_close(r, s, keep);
    cay__span_end(span, NULL);
    cay__span_end(r->agent_span, fault);
    CAY_AUTOFREE char *trace = cay__run_trace_end(r, fault);
    if (res)
        res->pub.trace = keep_text(res, CAY_STEAL(trace));
    json_decref(r->input);
    json_decref(r->context);
    json_decref(r->items);
    json_decref(r->approvals);
    json_decref(r->pending);
    json_decref(r->nested);
    json_decref(r->results);
    json_decref(r->requests);
    free(r->response_id);
    free(r->output);
    free(r->sandbox_state);
}

int cay_agent_run(cay_agent *agent, const cay_call *call, const char *input,
                  const cay_run_config *config, cay_run_result **out, cay_err *err)
{
    cay_run_config conf;
    const cay_call known = cay__call_copy(call);
    cay_run r = { .conf = &conf, .call = call, .on_op = known.on_op, .on_op_arg = known.on_op_arg };
    cay__sampled sampled = { 0 };
    cay_err own = CAY_ERR_INIT;
    CAY_TRY(cay__spec_take(&conf, sizeof conf, config, "cay_run_config", err));
    r.nest = r.conf->nest_;
    r.sampled = CAY_OR(r.conf->sampled_, &sampled);
    if (!agent->name || !*agent->name)
        return cay_fail(err, CAY_EINVAL, "an agent has a name");
    cay__run_trace_begin(&r);
    const uint64_t lost = conf.ledger ? cay_audit_sink_lost(conf.ledger) : 0;
    int rc = begin_run(&r, agent, input, &own);
    if (rc == 0)
        rc = cay__audit_sink(&r, "run", json_pack("{s:s}", "state", "started"), &own);
    if (rc == 0)
        rc = run_turns(&r, &own);
    if (r.seat)
        tell_capabilities(&r, rc, &own);
    int kept = keep_conversation(&r, rc, CAY_IF(rc == 0, &own));
    if (rc >= 0)
        rc = kept;
    bool waits = rc == 0 && json_array_size(r.pending);
    if (*r.id)
        cay__audit_sink(
            &r, "run", json_pack("{s:s, s:s}", "state", state_of_run(&r, rc), "reason", own.reason),
            NULL);
    if (conf.ledger && cay_audit_sink_lost(conf.ledger) > lost && *r.id && r.seat)
        cay__run_note(&r, "audit", "some of what happened could not be written down", NULL);
    bool stays = waits || r.conf->keep || r.conf->sandbox;
    if (rc == 0)
        cay__seat_save(&r, r.seat, !stays);
    if (rc == 0)
        *out = make_result(&r, stays || (r.seat->sb && !r.seat->owned));
    close_run(&r, waits, CAY_IF(rc < 0, &own), CAY_IF(rc == 0, (result *)*out));
    return cay__err_pass(rc, &own, err);
}

/* Archives into the sandbox of a run, within the run's limits. */
int cay_run_extract(const cay_run *r, const cay_extract *given, cay_extracted *out, cay_err *err)
{
    cay_extract spec;
    CAY_TRY(cay__spec_take(&spec, sizeof spec, given, "cay_extract", err));
    if (!r->seat->sb)
        return cay_fail_why(err, CAY_ESTATE, "sandbox_config_invalid",
                            "agent %.60s works in no sandbox", r->seat->agent->name);
    if (!spec.limits)
        spec.limits = r->conf->archive_limits;
    return cay_sandbox_extract(r->seat->sb, r->call, &spec, out, err);
}
