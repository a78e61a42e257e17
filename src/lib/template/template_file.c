/* SPDX-License-Identifier: Apache-2.0 */
/* A template file: one JSON object, of which the same steps are made as of a Dockerfile.
 * docs/template-file.md */
#include "template_file.h"
#include <base/mutant.h>
#include <ctype.h>

int cay__tfile_bad(const cay__tfile *f, const char *fmt, ...)
{
    char text[200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return cay_fail_why(f->err, CAY_EINVAL, "template_file_invalid", "%.40s: %s%s%s", f->what,
                        f->at, CAY_TEXT_IF(*f->at, ": "), text);
}

void cay__tfile_at(cay__tfile *f, const char *fmt, ...)
{
    char raw[160];
    CAY_AUTOBUF safe = CAY__BUF(600);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(raw, sizeof raw, fmt, ap);
    va_end(ap);
    cay__buf_safe(&safe, raw, strlen(raw), false);
    CAY_FORMAT(f->at, "%s", CAY_OR(safe.data, ""));
}

const char *cay__tfile_text(const cay__tfile *f, const json_t *j)
{
    if (cay__json_cstr(j))
        return cay__arena_str(&f->r->mem, json_string_value(j));
    cay__tfile_bad(f, "it is a text");
    return NULL;
}

int cay__tfile_step(cay__tfile *f, cay__step_kind kind, cay__step **out)
{
    *out = cay__recipe_step(f->r, kind, f->no);
    if (!*out)
        return cay__tfile_bad(f, "there are more than %d steps", CAY__RECIPE_STEPS);
    return 0;
}

void cay__tfile_tell(cay__tfile *f, cay__step *s)
{
    CAY_AUTOBUF b = CAY__BUF(4096);
    cay__buf_str(&b, cay__step_name(s->kind));
    for (size_t i = 0; i < s->nwords && b.len < 400; i++) {
        cay__buf_str(&b, " ");
        size_t n = strcspn(s->words[i], "\n");
        cay__buf_safe(&b, s->words[i], CAY_MIN(n, (size_t)300), false);
        if (s->words[i][n] || n > 300)
            cay__buf_str(&b, " …");
    }
    s->text = cay__arena_str(&f->r->mem, b.data);
}

int cay__tfile_words(cay__tfile *f, cay__step_kind kind, const cay__words *w, bool literal,
                     cay__step **out)
{
    CAY_TRY(cay__tfile_step(f, kind, out));
    (*out)->words = w->w;
    (*out)->nwords = w->n;
    (*out)->literal = literal;
    cay__tfile_tell(f, *out);
    return 0;
}

int cay__tfile_list(const cay__tfile *f, const json_t *j, cay__words *out)
{
    size_t n = 1;
    if (json_is_array(j))
        n = json_array_size(j);
    if (n > CAY__RECIPE_WORDS)
        return cay__tfile_bad(f, "it has more than %d members", CAY__RECIPE_WORDS);
    *out = (cay__words){ .w = cay__arena_take(&f->r->mem, (n + !CAY__MUTANT("fuzz-template_file")) *
                                                              sizeof *out->w) };
    for (; out->n < n; out->n++)
        if (!(out->w[out->n] =
                  cay__tfile_text(f, json_is_array(j) ? json_array_get(j, out->n) : j)))
            return CAY_EINVAL;
    return 0;
}

int cay__tfile_pairs(cay__tfile *f, const json_t *j, cay__step_kind kind)
{
    const char *key;
    json_t *v;
    cay__step *s;
    char where[160];
    if (!json_is_object(j))
        return cay__tfile_bad(f, "it is an object of texts");
    if (!json_object_size(j))
        return 0;
    if (json_object_size(j) > CAY__RECIPE_WORDS / 2)
        return cay__tfile_bad(f, "it has more than %d members", CAY__RECIPE_WORDS / 2);
    const char **w = cay__arena_take(&f->r->mem, (2 * json_object_size(j) + 1) * sizeof *w);
    size_t n = 0;
    memcpy(where, f->at, sizeof where);
    json_object_foreach((json_t *)j, key, v) {
        cay__tfile_at(f, "%.80s.%.60s", where, key);
        size_t len = strlen(key);
        bool ok = len && len < 128 && (kind == CAY__STEP_LABEL || !isdigit((unsigned char)*key));
        for (size_t i = 0; ok && i < len; i++) {
            if (kind == CAY__STEP_LABEL)
                ok = (unsigned char)key[i] > ' ';
            else
                ok = isalnum((unsigned char)key[i]) || key[i] == '_';
        }
        if (!ok)
            return cay__tfile_bad(f, "that is no name of a %s",
                                  kind == CAY__STEP_LABEL ? "label" : "variable");
        w[n++] = cay__arena_str(&f->r->mem, key);
        if (!(w[n++] = cay__tfile_text(f, v)))
            return CAY_EINVAL;
    }
    return cay__tfile_words(f, kind, &(cay__words){ w, n }, kind == CAY__STEP_LABEL, &s);
}

/* Where the recipe keeps the field at hand. */
static const char **field_text(cay__tfile *f)
{
    return (const char **)(void *)((char *)f->r + f->field->at);
}

static int on_labels(cay__tfile *f, const json_t *j)
{
    return cay__tfile_pairs(f, j, CAY__STEP_LABEL);
}

static int on_workdir(cay__tfile *f, const json_t *j)
{
    f->no++;
    return cay__tfile_workdir(f, j);
}

static int on_ports(cay__tfile *f, const json_t *j)
{
    cay__words w = { 0 };
    cay__step *s;
    if (!json_is_array(j) || json_array_size(j) > 1000)
        return cay__tfile_bad(f, "it is a list of ports");
    w.w = cay__arena_take(&f->r->mem, (json_array_size(j) + 1) * sizeof *w.w);
    for (; w.n < json_array_size(j); w.n++) {
        const json_t *e = json_array_get(j, w.n);
        char num[32];
        unsigned a, b;
        bool udp;
        CAY_FORMAT(num, "%lld", (long long)json_integer_value(e));
        const char *t;
        if (json_is_integer(e))
            t = cay__arena_str(&f->r->mem, num);
        else
            t = cay__tfile_text(f, e);
        if (!t)
            return CAY_EINVAL;
        if (!cay__recipe_port(t, &a, &b, &udp))
            return cay__tfile_bad(f, "%.40s is no port: it is 8080, \"53/udp\" or \"8000-8010\"",
                                  t);
        w.w[w.n] = t;
    }
    if (!w.n)
        return 0;
    return cay__tfile_words(f, CAY__STEP_EXPOSE, &w, true, &s);
}

static int argv_step(cay__tfile *f, const json_t *j, cay__step_kind kind)
{
    cay__step *s;
    cay__words w;
    CAY_TRY(cay__tfile_list(f, j, &w));
    CAY_TRY(cay__tfile_words(f, kind, &w, true, &s));
    s->exec = json_is_array(j);
    return 0;
}
static int on_cmd(cay__tfile *f, const json_t *j)
{
    return argv_step(f, j, CAY__STEP_CMD);
}
static int on_entrypoint(cay__tfile *f, const json_t *j)
{
    return argv_step(f, j, CAY__STEP_ENTRYPOINT);
}

/* Kept as they are: the template's config has them, and who uses it judges them. */
static int keep_json(cay__tfile *f, const json_t *j, bool ok)
{
    if (!ok)
        return cay__tfile_bad(f, "it is %s", f->field->form);
    CAY_AUTOFREE char *t = cay__json_text(j, CAY__RECIPE_BYTES);
    *field_text(f) = cay__arena_str(&f->r->mem, t);
    return 0;
}
static int keep_object(cay__tfile *f, const json_t *j)
{
    return keep_json(f, j, json_is_object(j));
}
static int keep_list(cay__tfile *f, const json_t *j)
{
    cay__words w;
    CAY_TRY(cay__tfile_list(f, j, &w));
    return keep_json(f, j, json_is_array(j));
}
static int on_services(cay__tfile *f, const json_t *j)
{
    return keep_json(f, j, json_is_array(j) || json_is_object(j));
}
static int keep_text(cay__tfile *f, const json_t *j)
{
    const char **to = field_text(f);
    *to = cay__tfile_text(f, j);
    if (*to)
        return 0;
    return CAY_EINVAL;
}
static int on_sudo(cay__tfile *f, const json_t *j)
{
    f->r->sudo = json_is_true(j);
    if (json_is_boolean(j))
        return 0;
    return cay__tfile_bad(f, "it is true or false");
}
static int on_from(cay__tfile *f, const json_t *j)
{
    const char *from = cay__tfile_text(f, j);
    if (!from)
        return CAY_EINVAL;
    f->r->stages[0].from = from;
    return 0;
}
static int on_version(cay__tfile *f, const json_t *j)
{
    if (json_is_integer(j) && json_integer_value(j) == 1)
        return 0;
    return cay__tfile_bad(f, "it is 1");
}
static int on_comment(cay__tfile *f, const json_t *j)
{
    if (cay__tfile_text(f, j))
        return 0;
    return CAY_EINVAL;
}

#define AT(field) offsetof(cay__recipe, field)
/* In the order in which they take effect, whatever the file's. */
static const cay__tfield fields[] = {
    { "version", on_version },
    { "description", on_comment },
    { "$schema", on_comment },
    { "from", on_from },
    { "name", keep_text, AT(name) },
    { "aliases", keep_list, AT(aliases), "a list of names" },
    { "net", keep_list, AT(net), "a list of rules and presets, as --net takes them" },
    { "env", cay__tfile_env },
    { "workdir", on_workdir },
    { "packages", cay__tfile_packages },
    { "files", cay__tfile_files },
    { "run", cay__tfile_run },
    { "steps", cay__tfile_steps },
    { "user", keep_text, AT(user) },
    { "labels", on_labels },
    { "ports", on_ports },
    { "cmd", on_cmd },
    { "entrypoint", on_entrypoint },
    { "services", on_services, AT(services), "services by name, or a list of them" },
    { "start", keep_text, AT(start) },
    { "ready", keep_text, AT(ready) },
    { "limits", keep_object, AT(limits), "an object" },
    { "sudo", on_sudo },
    { "settings", keep_object, AT(settings), "settings by name" },
    { "setting_files", keep_object, AT(setting_files), "files by path" },
    { "interpreter", keep_list, AT(interpreter), "a list of languages" },
};

static int read_fields(cay__tfile *f, const json_t *top)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)top, key, v) {
        size_t i = 0;
        while (i < CAY_LEN(fields) && strcmp(fields[i].name, key))
            i++;
        cay__tfile_at(f, "%.100s", key);
        if (i == CAY_LEN(fields))
            return cay__tfile_bad(f, "no such field; docs/template-file.md lists them");
    }
    CAY_EACH(field, fields)
        if ((v = json_object_get(top, field->name))) {
            cay__tfile_at(f, "%s", field->name);
            f->field = field;
            CAY_TRY(field->on(f, v));
        }
    cay__tfile_at(f, "from");
    if (*f->r->stages[0].from)
        return 0;
    return cay__tfile_bad(f, "it is missing: the template that this one "
                             "stands on, \"host\" or \"scratch\"");
}

int cay__recipe_read(cay__recipe *r, const char *what, const char *text, size_t len, cay_err *err)
{
    *r = (cay__recipe){ .escape = '\\', .sudo = -1, .steps_as_root = true };
    CAY_AUTOJSON *top = NULL;
    if (len > CAY__RECIPE_BYTES)
        return cay_fail_why(err, CAY_ETOOBIG, "template_file_invalid",
                            "%.60s: it has more than %u bytes", what, CAY__RECIPE_BYTES);
    CAY_AUTOFREE char *z = cay__alloc(len + 1);
    memcpy(z, text, len);
    int rc;
    if (strlen(z) == len)
        rc = cay__json_object(what, z, &top, err);
    else
        rc = cay_fail(err, CAY_EINVAL, "%.60s: there is a NUL byte in it", what);
    if (rc < 0) {
        if (err)
            CAY_FORMAT(err->reason, "template_file_invalid");
        return rc;
    }
    r->stages = cay__alloc(sizeof *r->stages);
    r->stages[0] = (cay__stage){ .from = "" };
    r->nstages = 1;
    r->name = r->services = r->settings = r->setting_files = r->interpreter = r->limits =
        r->aliases = r->net = r->start = r->ready = r->user = "";
    cay__tfile f = { .r = r, .what = what, .err = err };
    rc = read_fields(&f, top);
    if (rc < 0)
        cay__recipe_clear(r);
    return rc;
}
