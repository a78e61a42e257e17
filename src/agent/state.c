/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run that waits for approval, as JSON. Whoever brings it back may have changed it: nothing in it
 * is obeyed that does not fit the agents at hand. Calls that wait must be calls that were made,
 * once, and were not answered; a sandbox must be the run's own.
 */
#include "run.h"

#define VERSION "cay-1"

static int fail_state(cay_err *err, const char *what)
{
    return cay_fail_why(err, CAY_EINVAL, "run_state", "the state of the run cannot be used: %s",
                        what);
}

json_t *cay__state_save(const cay_run *r)
{
    json_t *sessions = json_object();
    CAY_EACH_LINK(s, r->seats) {
        const char *id = s->resume; /* not touched in this run: kept for the next */
        if (s->sb && s->owned)
            id = cay_sandbox_id(s->sb);
        if (id)
            json_object_set_new(
                sessions, s->key,
                json_pack("{s:s, s:s}", "agent_name", s->agent->name, "sandbox", id));
    }
    json_t *usage = cay__tokens_json(&r->usage);
    cay__json_put_int(usage, "total_tokens", (json_int_t)r->usage.total);
    json_t *st = json_pack(
        "{s:s, s:s, s:i, s:i, s:{s:s, s:s}, s:O, s:O, s:O, s:{s:O, s:o}, s:O, s:s?, s:s, s:{s:s, "
        "s:o}}",
        "$schemaVersion", VERSION, "run_id", r->id, "current_turn", (int)r->turn, "max_turns",
        (int)r->max_turns, "current_agent", "name", r->seat->agent->name, "key", r->seat->key,
        "original_input", r->input, "generated_items", r->items, "context_items", r->context,
        "context", "approvals", r->approvals, "usage", usage, "interruptions", r->pending,
        "previous_response_id", r->response_id, "rollout_id", r->rollout, "sandbox",
        "current_agent_key", r->seat->key, "sessions_by_agent", sessions);
    if (st && r->told_to &&
        r->told <= json_array_size(r->context)) { /* what its endpoint has seen or said */
        cay__json_put_int(st, "told_items", (json_int_t)r->told);
        cay__json_put(st, "told_model", cay_model_name(r->told_to));
    }
    if (st && json_object_size(r->nested))
        json_object_set(st, "nested", r->nested);
    if (st && r->requests)
        json_object_set(usage, "request_usage_entries", r->requests);
    return st;
}

static bool list_of_objects(const json_t *l, size_t most)
{
    if (!json_is_array(l) || json_array_size(l) > most)
        return false;
    CAY_EACH_ITEM(v, l)
        if (!json_is_object(v))
            return false;
    return true;
}

static int check_pending(const json_t *st, const json_t *call, cay_err *err)
{
    const char *id = cay__item_id(call);
    size_t made = 0, waits = 0;
    if (!cay__item_waits(call) || !*id)
        return fail_state(err, "what waits is no tool call");
    CAY_EACH_ITEM(v, json_object_get(st, "generated_items")) {
        if (strcmp(cay__item_id(v), id))
            continue;
        if (!cay__item_waits(v))
            return fail_state(err, "a call that waits was answered already");
        if (!json_equal(v, call))
            return fail_state(err, "a call that waits is not the one that was made");
        made++;
    }
    CAY_EACH_ITEM(v, json_object_get(st, "interruptions"))
        waits += !strcmp(cay__item_id(v), id);
    if (made == 1 && waits == 1)
        return 0;
    return fail_state(err, "a call that waits was not made once");
}

static bool sound_verdicts(const json_t *v)
{
    if (!v || json_is_boolean(v))
        return true;
    CAY_EACH_ITEM(id, v)
        if (!json_is_string(id))
            return false;
    return json_is_array(v);
}

static int check_state(const json_t *st, unsigned depth, cay_err *err);

/* States of agents used as tools: of calls that wait, and sound themselves. */
static int check_nested(const json_t *st, unsigned depth, cay_err *err)
{
    const json_t *nested = json_object_get(st, "nested");
    if (nested && (!json_is_object(nested) || depth >= CAY__NEST_MAX))
        return fail_state(err, "what agents used as tools wait for is of a wrong kind");
    CAY_EACH_MEMBER(id, v, nested) {
        bool waits = false;
        CAY_EACH_ITEM(call, json_object_get(st, "interruptions"))
            waits = waits || !strcmp(cay__item_id(call), id);
        if (!waits)
            return fail_state(err, "an agent used as a tool waits in a call that does not");
        CAY_TRY(check_state(v, depth + 1, err));
    }
    return 0;
}

int cay__state_check(const json_t *st, cay_err *err)
{
    return check_state(st, 0, err);
}

static int check_state(const json_t *st, unsigned depth, cay_err *err)
{
    if (strcmp(cay__json_str(st, "$schemaVersion", ""), VERSION))
        return fail_state(err, "it is of another version; this cay reads " VERSION);
    if (!cay__id_valid(cay__json_str(st, "run_id", ""), 'r') ||
        !list_of_objects(json_object_get(st, "original_input"), CAY__ITEMS_MAX) ||
        !list_of_objects(json_object_get(st, "generated_items"), CAY__ITEMS_MAX) ||
        !list_of_objects(json_object_get(st, "context_items"), CAY__ITEMS_MAX) ||
        !list_of_objects(json_object_get(st, "interruptions"), CAY__CALLS_MAX) ||
        !json_is_object(json_object_get(st, "context")))
        return fail_state(err, "a part of it is missing or of a wrong kind");
    int64_t turn = cay__json_int(st, "current_turn", -1), most = cay__json_int(st, "max_turns", -1);
    if (turn < 0 || turn > 1000000 || most < 1 || most > 1000000)
        return fail_state(err, "its turns are no counts");
    CAY_EACH_ITEM(v, json_object_get(st, "interruptions")) {
        CAY_TRY(check_pending(st, v, err));
    }
    const json_t *approvals = json_object_get(json_object_get(st, "context"), "approvals");
    if (!json_is_object(approvals))
        return fail_state(err, "its approvals are of a wrong kind");
    CAY_EACH_MEMBER(key, v, approvals)
        if (!json_is_object(v) || !sound_verdicts(json_object_get(v, "approved")) ||
            !sound_verdicts(json_object_get(v, "rejected")))
            return fail_state(err, "its approvals are of a wrong kind");
    CAY_EACH_MEMBER(key, v, json_object_get(json_object_get(st, "sandbox"), "sessions_by_agent"))
        if (!cay__id_valid(cay__json_str(v, "sandbox", ""), 'c'))
            return fail_state(err, "it names a sandbox by "
                                   "something that is no id");
    return check_nested(st, depth, err);
}

/* Every agent that can be reached from the first gets its seat, in one order, so that keys mean the
 * same as when it was saved. */
static void seat_all(cay_run *r, cay_agent *a, unsigned depth)
{
    CAY_EACH_LINK(s, r->seats)
        if (s->given == a)
            return;
    cay__seat_of(r, a);
    for (size_t i = 0; depth < 32 && i < a->nhandoffs; i++)
        seat_all(r, a->handoffs[i].agent, depth + 1);
}

static json_t *copy_of(const json_t *st, const char *key)
{
    return json_deep_copy(json_object_get(st, key));
}

static cay_tokens usage_of(const json_t *u)
{
#define N(key) ((uint64_t)CAY_MAX(cay__json_int(u, key, 0), 0))
    return (cay_tokens){ N("requests"),      N("input_tokens"),     N("cached_tokens"),
                         N("output_tokens"), N("reasoning_tokens"), N("total_tokens") };
#undef N
}

/* How much of the context the endpoint knows: by a state that says so, and when it is still the
 * same model. Else all is sent, as a new history. */
static size_t told_of(const json_t *st, const cay_model *m)
{
    int64_t n = cay__json_int(st, "told_items", -1);
    bool same =
        m && cay_model_name(m) && !strcmp(cay__json_str(st, "told_model", ""), cay_model_name(m));
    if (same && n >= 0 && (size_t)n <= json_array_size(json_object_get(st, "context_items")))
        return (size_t)n;
    return SIZE_MAX;
}

int cay__state_load(cay_run *r, cay_agent *start, const char *text, cay_err *err)
{
    CAY_AUTOJSON *st = NULL;
    cay_err quiet = CAY_ERR_INIT;
    if (cay__json_object("it", text, &st, &quiet) < 0) /* its text may hold anything: not told */
        return fail_state(err, "it is no sound JSON object");
    CAY_TRY(cay__state_check(st, err));
    seat_all(r, start, 0);
    const char *key = cay__json_str(json_object_get(st, "current_agent"), "key", "");
    CAY_EACH_LINK(s, r->seats) {
        const json_t *kept = json_object_get(
            json_object_get(json_object_get(st, "sandbox"), "sessions_by_agent"), s->key);
        if (kept)
            s->resume = cay__strdup(cay__json_str(kept, "sandbox", ""));
        if (!strcmp(s->key, key))
            r->seat = s;
    }
    if (!r->seat)
        return fail_state(err, "the agent that it waits for cannot be reached from this one");
    const char *rollout = cay__json_str(st, "rollout_id", "");
    CAY_COPY(r->id, cay__json_str(st, "run_id", ""));
    CAY_COPY(r->rollout, rollout);
    r->input = copy_of(st, "original_input");
    r->items = copy_of(st, "generated_items");
    r->context = copy_of(st, "context_items");
    r->pending = copy_of(st, "interruptions");
    r->nested = copy_of(st, "nested");
    r->approvals = json_deep_copy(json_object_get(json_object_get(st, "context"), "approvals"));
    const json_t *usage = json_object_get(json_object_get(st, "context"), "usage"),
                 *entries = json_object_get(usage, "request_usage_entries");
    r->usage = usage_of(usage);
    r->requests = CAY_IF(list_of_objects(entries, CAY__ITEMS_MAX), json_deep_copy(entries));
    r->turn = (unsigned)cay__json_int(st, "current_turn", 0);
    r->max_turns = CAY_OR(r->conf->max_turns, (unsigned)cay__json_int(st, "max_turns", 10));
    const char *id = cay__json_str(st, "previous_response_id", NULL);
    r->response_id = cay__strdup_if(id);
    r->told = told_of(st, cay__seat_model(r, r->seat));
    r->kept = json_array_size(r->items);
    r->resumed = json_array_size(r->pending) > 0;
    r->tools_used = true;
    return 0;
}
