/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of the SDK's template builder as those of a template file. */
#include "envelope.h"
#include <base/json.h>
#include <base/mutant.h>

enum { STEPS_MAX = 1000 };

bool e2b_is_hash(const char *s)
{
    return cay__hex_is(s, 64);
}

static const char *get_step_arg(const json_t *args, size_t i)
{
    const char *s = json_string_value(json_array_get(args, i));
    return CAY_OR(s, "");
}

typedef struct state {
    char user[64]; /* whose files are copied */
} state;

static json_t *copy_step(const json_t *step, const json_t *args, const state *s)
{
    const char *owner = get_step_arg(args, 2), *mode = get_step_arg(args, 3);
    return json_pack("{s:{s:s,s:s,s:s,s:s,s:s*}}", "copy", "src", get_step_arg(args, 0), "dest",
                     get_step_arg(args, 1), "owner", cay__text_or(owner, s->user), "archive",
                     cay__json_str(step, "filesHash", ""), "mode", cay__text_or(mode, NULL));
}

static json_t *run_step(const json_t *args)
{
    return json_pack("{s:{s:[s,s,s,s],s:s*}}", "run", "command", "/bin/bash", "-l", "-c",
                     get_step_arg(args, 0), "user", cay__text_or(get_step_arg(args, 1), NULL));
}

static json_t *env_step(const json_t *args)
{
    json_t *e = json_object();
    for (size_t i = 0; i + 1 < json_array_size(args); i += 2)
        json_object_set_new(e, get_step_arg(args, i), json_string(get_step_arg(args, i + 1)));
    return json_pack("{s:o}", "env", e);
}

/* One of the SDK's as one of ours; CAY_EINVAL names it. */
static int read_step(const json_t *step, size_t i, state *s, json_t **out, cay_err *err)
{
    static const struct {
        const char *type;
        size_t least;
    } kinds[] = { { "COPY", 2 }, { "ADD", 2 },     { "RUN", 1 }, { "ENV", 2 },
                  { "ARG", 2 },  { "WORKDIR", 1 }, { "USER", 1 } };
    const char *type = cay__json_str(step, "type", "");
    const json_t *args = json_object_get(step, "args"), *v;
    size_t k = 0, n;
    while (k < CAY_LEN(kinds) && strcmp(kinds[k].type, type) != 0)
        k++;
    if (k == CAY_LEN(kinds) && !CAY__MUTANT("fuzz-e2b_steps"))
        return cay_fail(
            err, CAY_EINVAL,
            "steps[%zu]: type \"%.20s\" is none of COPY, ADD, RUN, ENV, ARG, WORKDIR and USER", i,
            type);
    if (!json_is_array(args) || json_array_size(args) < kinds[k].least)
        return cay_fail(err, CAY_EINVAL, "steps[%zu]: %s has at least %zu arguments", i, type,
                        kinds[k].least);
    json_array_foreach(args, n, v)
        if (!cay__json_cstr(v))
            return cay_fail(err, CAY_EINVAL, "steps[%zu]: args[%zu] is not a text without NUL", i,
                            n);
    if (kinds[k].type[0] == 'C' || !strcmp(type, "ADD")) {
        if (!e2b_is_hash(cay__json_str(step, "filesHash", "")))
            return cay_fail(err, CAY_EINVAL, "steps[%zu]: %s has no filesHash", i, type);
        *out = copy_step(step, args, s);
    } else if (!strcmp(type, "RUN")) {
        *out = run_step(args);
    } else if (!strcmp(type, "WORKDIR")) {
        *out = json_pack("{s:s}", "workdir", get_step_arg(args, 0));
    } else if (!strcmp(type, "USER")) {
        if (!CAY_COPY(s->user, get_step_arg(args, 0)))
            return cay_fail(err, CAY_EINVAL, "steps[%zu]: the user's name is too long", i);
        *out = json_pack("{s:s}", "user", get_step_arg(args, 0));
    } else {
        *out = env_step(args);
    }
    return 0;
}

int e2b_read_steps(const json_t *steps, bool image, json_t *out, cay_err *err)
{
    state s = { .user = "user" };
    const json_t *v;
    size_t i;
    if (steps && !json_is_array(steps))
        return cay_fail(err, CAY_EINVAL, "steps is a list");
    if (json_array_size(steps) > STEPS_MAX)
        return cay_fail(err, CAY_EINVAL, "at most %d steps", STEPS_MAX);
    if (image) {
        json_array_append_new(out, json_pack("{s:s}", "user", "user"));
        json_array_append_new(out, json_pack("{s:s}", "workdir", "/home/user"));
    }
    json_array_foreach(steps, i, v) {
        json_t *one = NULL;
        CAY_TRY(read_step(v, i, &s, &one, err));
        json_array_append_new(out, one);
    }
    return 0;
}
