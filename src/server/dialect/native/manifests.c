/* SPDX-License-Identifier: Apache-2.0 */
/* A manifest judged before it is used: in the same words, and with the same distrust, as when a
 * sandbox is made from it over HTTP. */
#include "native.h"

enum { TREE_DEPTH = 6 };
CAY_DEFINE_AUTO(cay_manifest, cay_manifest_free)

int cay__on_manifest_check(cay__req *r, cay_err *err)
{
    CAY_AUTOPTR(cay_manifest) m = NULL;
    cay__manifest_judged j = { .sum.size = sizeof j.sum };
    json_t *given;
    CAY_TRY(cay__req_json(r, CAY_MANIFEST_BYTES, &given, err));
    CAY_AUTOFREE char *text = cay__json_text(given, CAY_MANIFEST_BYTES);
    if (!text)
        return cay_fail_why(err, CAY_ETOOBIG, "manifest_too_big", "a manifest has at most %u MiB",
                            CAY_MANIFEST_BYTES >> 20);
    CAY_TRY(cay_manifest_parse(text, strlen(text), 0, &m, err));
    CAY_TRY(cay_manifest_measure(m, NULL, &j.sum, err));
    CAY_AUTOFREE char *tree = cay_manifest_describe(m, TREE_DEPTH);
    j.root = cay_manifest_root(m);
    j.tree = CAY_OR(tree, "");
    return cay__reply_object(r, &j);
}

int cay__on_manifest_get(cay__req *r, cay_err *err)
{
    CAY_AUTOFREE char *text = NULL;
    CAY_TRY(cay_sandbox_manifest(r->sb, &r->call, &text, err));
    return cay__reply(r, 200, "application/json", text, strlen(text));
}

/* Judged with distrust first: what a library's caller may name of this host (files, grants, sudo) a
 * request may not. */
int cay__on_manifest_put(cay__req *r, cay_err *err)
{
    CAY_AUTOPTR(cay_manifest) m = NULL;
    cay_manifest_totals sum = { .size = sizeof sum };
    bool replace = false;
    json_t *given;
    CAY_TRY(cay__req_asked(r, &replace, err));
    CAY_TRY(cay__req_json(r, CAY_MANIFEST_BYTES, &given, err));
    CAY_AUTOFREE char *text = cay__json_text(given, CAY_MANIFEST_BYTES);
    if (!text)
        return cay_fail_why(err, CAY_ETOOBIG, "manifest_too_big", "a manifest has at most %u MiB",
                            CAY_MANIFEST_BYTES >> 20);
    CAY_TRY(cay_manifest_parse(text, strlen(text), 0, &m, err));
    CAY_TRY(cay_manifest_measure(m, NULL, &sum, err));
    CAY_TRY(cay_sandbox_set_manifest(r->sb, &r->call, text, NULL,
                                     CAY_MANIFEST_FOREIGN | (replace ? CAY_MANIFEST_REPLACE : 0),
                                     err));
    return cay__reply_done(r);
}

int cay__on_manifest_schema(cay__req *r, cay_err *err)
{
    CAY_AUTOFREE char *text = cay_manifest_schema();
    return cay__reply(r, 200, "application/schema+json", text, strlen(text));
}

/* As many as there are below a member, which may be wrapped: {"environment":{"value":{…}}}. */
static size_t count_members(const json_t *m, const char *name)
{
    const json_t *o = json_object_get(m, name), *in = json_object_get(o, "value");
    return json_object_size(json_is_object(in) ? in : o);
}

int cay__on_sandbox_manifest(cay__req *r, cay_err *err)
{
    CAY_AUTOPTR(cay_manifest) m = NULL;
    CAY_AUTOFREE char *text = NULL;
    CAY_AUTOJSON *o = NULL;
    cay_err why = CAY_ERR_INIT;
    int rc = cay_sandbox_manifest(r->sb, &r->call, &text, &why);
    if (rc == CAY_ENOENT)
        return cay__reply_object(r, &(cay__manifest_given){ .root = "", .tree = "" });
    if (rc < 0)
        *err = why;
    CAY_TRY(rc);
    CAY_TRY(cay__json_object("manifest", text, &o, err));
    CAY_TRY(cay_manifest_parse(text, strlen(text), CAY_MANIFEST_TRUSTED, &m,
                               err)); /* it was judged when it was given */
    CAY_AUTOFREE char *tree = cay_manifest_describe(m, TREE_DEPTH);
    return cay__reply_object(r, &(cay__manifest_given){ cay_manifest_root(m), CAY_OR(tree, ""),
                                                        count_members(o, "entries"),
                                                        count_members(o, "environment") });
}
