/* SPDX-License-Identifier: Apache-2.0 */
/* A template with `interpreter` has the code interpreter in its files, and as a service that comes
 * up with each sandbox. */
#include "build.h"
#include <cay/interpreter.h>
#include <lib/client/interpreter.h>

int cay__interpreter_steps(cay__builder *b, cay_err *err)
{
    cay__recipe *r = &b->recipe;
    cay__interpreter_file files[CAY__INTERPRETER_FILES];
    if (!*r->interpreter)
        return 0;
    cay__interpreter_files(files);
    CAY_EACH(file, files) {
        cay__step *s = cay__recipe_step(r, CAY__STEP_FILE, 0);
        char path[64], line[80];
        if (!s)
            return cay_fail_why(err, CAY_EINVAL, "template_file_invalid",
                                "interpreter: there are more than %d steps", CAY__RECIPE_STEPS);
        CAY_JOIN(path, CAY__INTERPRETER_BUILT, file->name);
        const char **words = cay__arena_take(&r->mem, 2 * sizeof *words);
        words[0] = cay__arena_str(&r->mem, path);
        words[1] = NULL;
        s->words = words;
        s->nwords = 1;
        s->literal = true;
        s->chmod = "0644";
        if (file->mode == 0755)
            s->chmod = "0755";
        s->data = file->data;
        s->len = file->len;
        CAY_JOIN(line, cay__step_name(s->kind), " ", path);
        s->text = cay__arena_str(&r->mem, line);
    }
    return 0;
}

/* Its place in a list of services; behind the last: it is not there. */
static size_t find_interpreter(const json_t *list)
{
    size_t i = 0;
    while (i < json_array_size(list) &&
           strcmp(cay__json_str(json_array_get(list, i), "name", ""), CAY__INTERPRETER))
        i++;
    return i;
}

json_t *cay__interpreter_of(const json_t *config)
{
    const json_t *list = json_object_get(config, "services");
    return json_incref(json_array_get(list, find_interpreter(list)));
}

static int make_service(const char *wanted, json_t **out, cay_err *err)
{
    CAY_AUTOJSON *languages = NULL;
    json_t *v;
    size_t i;
    CAY_TRY(cay__json_any("interpreter", wanted, &languages, err));
    *out = json_pack("{s:s, s:[s], s:i, s:s}", "name", CAY__INTERPRETER, "command",
                     CAY__INTERPRETER_BUILT CAY__INTERPRETER, "port", CAY_INTERPRETER_PORT,
                     "restart", "always");
    json_array_foreach(languages, i, v)
        json_array_append(json_object_get(*out, "command"), v);
    return 0;
}

int cay__interpreter_service(const cay__recipe *r, json_t *config, json_t *base, cay_err *err)
{
    CAY_AUTOJSON *one = NULL;
    if (!*r->interpreter)
        one = json_incref(base);
    if (*r->interpreter)
        CAY_TRY(make_service(r->interpreter, &one, err));
    if (!one)
        return 0;
    json_t *list = cay__config_part(config, "services", JSON_ARRAY);
    size_t at = find_interpreter(list);
    bool there = at < json_array_size(list);
    if (there && *r->interpreter && *r->services)
        return cay_fail_why(
            err, CAY_EINVAL, "template_file_invalid",
            "services." CAY__INTERPRETER
            ": the field \"interpreter\" is that service; give one of them another name");
    if (there && !*r->interpreter) /* as the file has it, or the base */
        return 0;
    if (there)
        json_array_remove(list, at);
    json_array_append(list, one);
    return 0;
}
