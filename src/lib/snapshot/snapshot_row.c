/* SPDX-License-Identifier: Apache-2.0 */
#include "snapshot_row.h"
#include <base/base.h>
#include <base/json.h>
#include <base/mutant.h>

bool cay__layer_name_ok(const char *name)
{
    return cay__id_valid(name, 's') || cay__id_valid(name, 'm') || cay__id_valid(name, 'g') ||
           cay__id_valid(name, 'l');
}

bool cay__layer_removable(const char *name)
{
    return cay__layer_name_ok(name) || cay__id_valid(name, 'o');
}

int cay__stack_push(cay__stack *s, const char *name, cay_err *err)
{
    if (!cay__layer_name_ok(name))
        return cay_fail_why(err, CAY_EINVAL, "layer_invalid",
                            "\"%.40s\" is not the name of a layer", name);
    if (s->n == CAY__STACK_MAX + CAY__MUTANT("fuzz-snaprow"))
        return cay_fail_why(
            err, CAY_ETOOBIG, "stack_too_deep",
            "a workspace stands on at most %d layers; `cay gc` merges them, then resume it",
            CAY__STACK_MAX);
    char *to = s->text + s->n * (CAY_ID_LEN + 1);
    cay__str_copy(to, CAY_ID_LEN + 1, name);
    s->name[s->n++] = to;
    s->name[s->n] = NULL;
    return 0;
}

int cay__stack_of(const char *const *names, size_t n, cay__stack *out, cay_err *err)
{
    out->n = 0;
    out->name[0] = NULL;
    CAY_EACH_OF(it, names, n)
        CAY_TRY(cay__stack_push(out, *it, err));
    return 0;
}

int cay__stack_read(const char *text, cay__stack *out, cay_err *err)
{
    CAY_AUTOJSON *j = NULL;
    out->n = 0;
    out->name[0] = NULL;
    CAY_TRY(cay__json_any("layers", text, &j, err));
    if (!json_is_array(j))
        return cay_fail(err, CAY_EINVAL, "layers: not a list");
    for (size_t i = 0; i < json_array_size(j); i++) {
        const char *name = cay__json_cstr(json_array_get(j, i));
        if (!name)
            return cay_fail(err, CAY_EINVAL, "layers: a name is not a string");
        CAY_TRY(cay__stack_push(out, name, err));
    }
    return 0;
}

char *cay__stack_text(const cay__stack *s)
{
    CAY_AUTOBUF b = CAY__BUF(8192);
    cay__buf_str(&b, "[");
    for (size_t i = 0; i < s->n; i++)
        cay__buf_fmt(&b, "%s\"%s\"", CAY_TEXT_IF(i, ","), s->name[i]);
    cay__buf_str(&b, "]");
    return cay__strdup(b.data);
}

static bool is_object(const char *text)
{
    CAY_AUTOJSON *j = NULL;
    return cay__json_object("", text, &j, NULL) == 0;
}

static bool is_valid_row(const cay__snap_cols *c, const cay_snap_row *r, size_t *depth)
{
    cay__stack stack;
    for (size_t i = 0; i < CAY_LEN(c->text); i++)
        if (!c->text[i] || strlen(c->text[i]) != c->len[i])
            return false;
    if (!cay__id_valid(r->id, 's') || (*r->parent && !cay__id_valid(r->parent, 's')) ||
        !*r->provider)
        return false;
    if (strcmp(r->state, "making") != 0 && strcmp(r->state, "ready") != 0)
        return false;
    if (!is_object(r->spec) || (*r->metadata && !is_object(r->metadata)) ||
        cay__stack_read(r->layers, &stack, NULL) < 0)
        return false;
    *depth = stack.n;
    return true;
}

static cay__snaprow *pack_row(const cay__snap_cols *c)
{
    const char *at[CAY__SNAP_TEXTS];
    size_t need = 0;
    CAY_EACH_OF(it, c->len, CAY_LEN(c->text))
        need += *it + 1;
    cay__snaprow *r = cay__alloc(sizeof *r + need);
    char *p = r->text;
    for (size_t i = 0; i < CAY_LEN(c->text); i++) {
        at[i] = p;
        if (c->len[i])
            memcpy(p, c->text[i], c->len[i]);
        p += c->len[i] + 1;
    }
    r->row = (cay_snap_row){
        .size = sizeof r->row,
        .id = at[CAY__SNAP_ID],
        .sandbox = at[CAY__SNAP_SANDBOX],
        .parent = at[CAY__SNAP_PARENT],
        .label = at[CAY__SNAP_LABEL],
        .provider = at[CAY__SNAP_PROVIDER],
        .template_ = at[CAY__SNAP_TEMPLATE],
        .method = at[CAY__SNAP_METHOD],
        .digest = at[CAY__SNAP_DIGEST],
        .state = at[CAY__SNAP_STATE],
        .boot = at[CAY__SNAP_BOOT],
        .mark = at[CAY__SNAP_MARK],
        .metadata = at[CAY__SNAP_METADATA],
        .layers = at[CAY__SNAP_LAYERS],
        .spec = at[CAY__SNAP_SPEC],
        .tenant = at[CAY__SNAP_TENANT],
        .automatic = c->automatic != 0,
        .durable = c->durable != 0,
        .created_ms = c->created_ms,
        .bytes = (uint64_t)c->bytes,
        .files = (uint64_t)c->files,
        .frozen_us = (uint64_t)c->frozen_us,
        .total_us = (uint64_t)c->total_us,
        .users = (size_t)c->users,
    };
    return r;
}

cay__snaprow *cay__snaprow_new(const cay__snap_cols *c)
{
    cay__snaprow *r = pack_row(c);
    if (!is_valid_row(c, &r->row, &r->row.depth)) {
        r->row.state = "damaged";
        r->row.layers = "[]";
        r->row.spec = "{}";
        r->row.metadata = r->row.mark = "";
    }
    return r;
}

cay__snaprow *cay__snaprow_copy(const cay_snap_row *r)
{
    const char *text[] = { r->id,        r->sandbox,  r->parent, r->label, r->provider,
                           r->template_, r->method,   r->digest, r->state, r->boot,
                           r->mark,      r->metadata, r->layers, r->spec,  r->tenant };
    cay__snap_cols c = { .automatic = r->automatic,
                         .durable = r->durable,
                         .created_ms = r->created_ms,
                         .bytes = (int64_t)r->bytes,
                         .files = (int64_t)r->files,
                         .frozen_us = (int64_t)r->frozen_us,
                         .total_us = (int64_t)r->total_us,
                         .users = (int64_t)r->users };
    for (size_t i = 0; i < CAY_LEN(text); i++) {
        c.text[i] = CAY_OR(text[i], "");
        c.len[i] = strlen(c.text[i]);
    }
    cay__snaprow *copy = pack_row(&c);
    copy->row.depth = r->depth;
    return copy;
}
