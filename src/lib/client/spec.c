/* SPDX-License-Identifier: Apache-2.0 */
#include "spec.h"
#include "net.h"
#include <base/json.h>
#include <base/mutant.h>
#include <cay/sys/provider.h>
#include <cay/policy.h>
#include <wire/shapes.h>

cay_pair *cay__pairs_read(cay__arena *mem, const json_t *obj)
{
    size_t i = 0;
    const char *key;
    json_t *v;
    if (!json_is_object(obj))
        return NULL;
    cay_pair *list = cay__arena_take(mem, (json_object_size(obj) + 1) * sizeof *list);
    json_object_foreach((json_t *)obj, key, v) {
        char *s = cay__json_to_bytes(v);
        if (!s)
            return NULL;
        list[i++] = (cay_pair){ cay__arena_str(mem, key), cay__arena_adopt(mem, s) };
    }
    return list;
}

char *cay__pairs_text(const cay_pair *pairs)
{
    CAY_AUTOJSON *o = json_object();
    for (; pairs && pairs->key; pairs++)
        if (json_object_set_new(o, pairs->key, json_string(CAY_OR(pairs->value, ""))) < 0)
            return NULL;
    return cay__json_text(o, CAY__SPEC_MAX);
}

/* A name may have several destinations, which are in the policy's bind lines. */
static size_t copy_named_once(const cay_secret *from, size_t n, cay_secret *to)
{
    size_t kept = 0;
    CAY_EACH_OF(it, from, n) {
        size_t k = 0;
        while (k < kept && strcmp(to[k].name, it->name) != 0)
            k++;
        if (k == kept)
            to[kept++] = *it;
    }
    return kept;
}

static char *text_of(json_t *taken)
{
    CAY_AUTOJSON *j = taken;
    return CAY_IF(j, cay__json_text(j, CAY__SPEC_MAX));
}

int cay__spec_text(const cay__spec *spec, char **out, cay_err *err)
{
    const cay_create *c = &spec->create;
    const cay_box_spec *box = &spec->box;
    CAY_AUTOFREE cay_secret *secrets = cay__alloc((c->net.nsecrets + 1) * sizeof *secrets);
    CAY_AUTOFREE const char **layers =
        cay__alloc((box->nlayers + !CAY__MUTANT("fuzz-spec")) * sizeof *layers);
    CAY_AUTOFREE char *net = CAY_IF(c->net.policy, text_of(cay__policy_json(c->net.policy)));
    /* As JSON inside JSON, so that people can read a record. */
    CAY_AUTOFREE char *services =
        CAY_IF(c->services, text_of(json_loads(c->services, JSON_REJECT_DUPLICATES, NULL)));
    CAY_AUTOBUF text = CAY__BUF(CAY__SPEC_MAX);
    cay__create_record r = { .c = *c,
                             .net = net,
                             .template_config = spec->template_config,
                             .template_id = box->template_id,
                             .template_name = box->template_name,
                             .layers = layers,
                             .on_since_ms = spec->on_since_ms };
    r.c.services = services;
    r.c.net.secrets = secrets;
    r.c.net.nsecrets = copy_named_once(c->net.secrets, c->net.nsecrets, secrets);
    for (size_t i = 0; i < box->nlayers; i++)
        layers[i] = box->layers[i];
    cay__shape_put(&text, &cay__create_record_shape, CAY__F_KEPT, &r);
    if (text.full)
        return cay_fail_why(err, CAY_ETOOBIG, "spec_too_big",
                            "the request is larger than %u bytes; shorten env", CAY__SPEC_MAX);
    *out = CAY_STEAL(text.data);
    return 0;
}

static int read_spec(const char *json, cay__spec *s, cay_err *err)
{
    CAY_AUTOJSON *o = NULL;
    cay__create_record r = { .c = s->create };
    char *policy = NULL;
    CAY_TRY(cay__json_object("record: spec", json, &o, err));
    CAY_TRY(cay__shape_read(s->mem, o, &cay__create_record_shape, CAY__F_KEPT, &r, err));
    if (r.net && cay_policy_from_json(r.net, &policy, NULL) < 0)
        return cay_fail(err, CAY_EINVAL, "record: net is no policy");
    s->create = r.c;
    s->create.net.policy = CAY_IF(policy, cay__arena_adopt(s->mem, policy));
    s->template_config = r.template_config;
    s->on_since_ms = r.on_since_ms;
    s->box.template_id = r.template_id;
    s->box.template_name = r.template_name;
    s->box.layers = r.layers;
    while (r.layers && r.layers[s->box.nlayers])
        s->box.nlayers++;
    return 0;
}

static const char *copy_word(cay__arena *mem, const char *s)
{
    return CAY_IF(s && *s, cay__arena_str(mem, s));
}

static int read_row(const cay_row *row, cay__spec *s, cay_err *err)
{
    CAY_AUTOJSON *labels = NULL;
    cay_create *c = &s->create;
    CAY_TRY(read_spec(row->spec, s, err));
    CAY_TRY(cay__json_object("record: labels", row->labels, &labels, err));
    if (!(c->labels = cay__pairs_read(s->mem, labels)))
        return cay_fail(err, CAY_EINVAL, "record: a label is not a string");
    c->provider = cay__arena_str(s->mem, row->provider);
    c->tenant = CAY_IF(row->tenant, cay__arena_str(s->mem, row->tenant));
    c->name = copy_word(s->mem, row->name);
    c->metadata = copy_word(s->mem, row->metadata);
    return 0;
}

const cay_box_spec *cay__spec_box(cay__spec *spec)
{
    spec->box.size = sizeof spec->box;
    spec->box.create = &spec->create;
    return &spec->box;
}

typedef struct kept {
    cay__spec spec; /* first: it is what the caller has */
    cay__arena mem;
} kept;

int cay__spec_read(const cay_row *row, cay__spec **out, cay_err *err)
{
    kept *k = cay__alloc(sizeof *k);
    k->spec.create.size = sizeof k->spec.create;
    k->spec.mem = &k->mem;
    int rc = read_row(row, &k->spec, err);
    if (rc < 0)
        cay__spec_free(&k->spec);
    else
        *out = &k->spec;
    return rc;
}

void cay__spec_free(cay__spec *s)
{
    if (s)
        cay__arena_clear(s->mem);
    free(s);
}
