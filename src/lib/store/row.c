/* SPDX-License-Identifier: Apache-2.0 */
#include "row.h"
#include <base/base.h>
#include <base/json.h>
#include <base/mutant.h>

static const char *check_object(const char *text, bool may_be_empty, const char *why)
{
    CAY_AUTOJSON *j = NULL;
    if (may_be_empty && !*text)
        return NULL;
    if (cay__json_object("", text, &j, NULL) < 0)
        return why;
    return NULL;
}

bool cay__tenant_valid(const char *name)
{
    size_t n = strlen(name);
    return n && n <= CAY_TENANT_MAX && *name >= 'a' && *name <= 'z' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == n;
}

/* What is wrong with it, or NULL. */
static const char *check_row(const cay__cols *c, const cay_row *r)
{
    for (size_t i = 0; i < CAY_LEN(c->text); i++)
        if (!c->text[i] || strlen(c->text[i]) != c->len[i])
            return "record: a column is not text";
    if (!cay__id_valid(r->id, 'c'))
        return "record: the id is not one";
    if (r->state == CAY_STATE_NONE || r->state >= CAY_GONE)
        return "record: the state is unknown";
    if (!*r->provider)
        return "record: the provider is missing";
    if (!cay__tenant_valid(r->tenant) && strcmp(r->tenant, CAY__WARM_TENANT) != 0)
        return "record: the tenant is no name";
    const char *why = check_object(r->spec, false, "record: spec is not a JSON object");
    why = CAY_OR(why, check_object(r->box, true, "record: box is not a JSON object"));
    why = CAY_OR(why, check_object(r->labels, false, "record: labels are not a JSON object"));
    return CAY_OR(why, check_object(r->metadata, true, "record: metadata is not a JSON object"));
}

/* A copy of the texts; state and reason are as given. */
static cay__row *pack_row(const cay__cols *c)
{
    const char *at[CAY_LEN(c->text)];
    size_t need = 0;
    CAY_EACH_OF(it, c->len, CAY_LEN(c->text))
        need += *it + !CAY__MUTANT("fuzz-row");
    cay__row *r = cay__alloc(sizeof *r + need);
    char *p = r->text;
    for (size_t i = 0; i < CAY_LEN(c->text); i++) {
        at[i] = p;
        if (c->len[i])
            memcpy(p, c->text[i], c->len[i]);
        p += c->len[i] + 1;
    }
    r->row = (cay_row){
        .size = sizeof r->row,
        .id = at[CAY__COL_ID],
        .name = at[CAY__COL_NAME],
        .provider = at[CAY__COL_PROVIDER],
        .reason = at[CAY__COL_REASON],
        .state = cay_state_parse(at[CAY__COL_STATE]),
        .spec = at[CAY__COL_SPEC],
        .box = at[CAY__COL_BOX],
        .labels = at[CAY__COL_LABELS],
        .metadata = at[CAY__COL_METADATA],
        .created_ms = c->created_ms,
        .changed_ms = c->changed_ms,
        .version = c->version,
        .tenant = at[CAY__COL_TENANT],
    };
    return r;
}

cay__row *cay__row_new(const cay__cols *c)
{
    cay__row *r = pack_row(c);
    const char *why = check_row(c, &r->row);
    if (why) {
        r->row.reason = why;
        /* A deletion that has begun goes on whatever the rest looks like. */
        if (r->row.state != CAY_DELETING || !cay__id_valid(r->row.id, 'c'))
            r->row.state = CAY_DAMAGED;
        r->row.labels = "{}";
        r->row.box = r->row.metadata = "";
    }
    return r;
}

cay__row *cay__row_copy(const cay_row *row)
{
    const char *text[] = {
        row->id,   row->name, row->provider, row->reason,   cay_state_name(row->state),
        row->spec, row->box,  row->labels,   row->metadata, row->tenant
    };
    cay__cols c = { .created_ms = row->created_ms,
                    .changed_ms = row->changed_ms,
                    .version = row->version };
    for (size_t i = 0; i < CAY_LEN(text); i++) {
        c.text[i] = CAY_OR(text[i], "");
        c.len[i] = strlen(c.text[i]);
    }
    return pack_row(&c);
}

bool cay__row_matches(const cay_row *row, const cay_filter *f)
{
    if (!f)
        return true;
    if (f->states && !(f->states & (1u << row->state)))
        return false;
    if (f->provider && strcmp(f->provider, row->provider) != 0)
        return false;
    if (f->tenant && strcmp(f->tenant, row->tenant) != 0)
        return false;
    if (!f->labels || !f->labels->key)
        return true;
    CAY_AUTOJSON *j = NULL;
    if (cay__json_object("labels", row->labels, &j, NULL) < 0)
        return false;
    for (const cay_pair *p = f->labels; p->key; p++) {
        const char *v = cay__json_str(j, p->key, NULL);
        if (!v || strcmp(v, CAY_OR(p->value, "")) != 0)
            return false;
    }
    return true;
}
