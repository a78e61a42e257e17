/* SPDX-License-Identifier: Apache-2.0 */
/* A manifest judged before it is used: in the same words, and with the same distrust, as when a
 * sandbox is made from it over HTTP. */
#include "native.h"
#include <base/base.h>
#include <cay/manifest.h>
#include <string.h>

enum { TREE_DEPTH = 6 };
CAY_DEFINE_AUTO(cay_manifest, cay_manifest_free)

typedef struct judged {
    const char *root, *tree;
    cay_manifest_sum sum;
} judged;
#define AT(field) offsetof(judged, field)
static const cay__field judged_fields[] = {
    { "root", CAY__F_STR, AT(root), .about = "where entries go" },
    { "entries", CAY__F_U64, AT(sum.entries) },
    { "files", CAY__F_U64, AT(sum.files) },
    { "bytes", CAY__F_U64, AT(sum.bytes), .about = "without those that are fetched" },
    { "ephemeral", CAY__F_U64, AT(sum.ephemeral), .about = "entries that are in no snapshot" },
    { "mounts", CAY__F_U64, AT(sum.mounts) },
    { "fetched", CAY__F_U64, AT(sum.fetched),
      .about = "repositories and remote files; nothing was fetched for this" },
    { "tree", CAY__F_STR, AT(tree), .about = "for people" },
};
static const cay__shape judged_shape =
    CAY__SHAPE("ManifestSum", judged, judged_fields, "what a manifest would put into a sandbox");

const cay__doc cay__doc_manifest_check = { "checkManifest", "sandboxes",
                                           "judge a manifest, which is the body, as if a sandbox "
                                           "were made with it; nothing is made, read or fetched",
                                           .body_type = "application/json",
                                           .answers = { { 200, &judged_shape }, { 400 } } };
int cay__on_manifest_check(cay__req *r, cay_err *err)
{
    CAY_AUTOPTR(cay_manifest) m = NULL;
    judged j = { .sum.size = sizeof j.sum };
    json_t *given;
    CAY_TRY(cay__req_json(r, CAY_MANIFEST_BYTES, &given, err));
    CAY_AUTOFREE char *text = cay__json_text(given, CAY_MANIFEST_BYTES);
    if (!text)
        return cay_fail_why(err, CAY_ETOOBIG, "manifest_too_big", "a manifest has at most %u MiB",
                            CAY_MANIFEST_BYTES >> 20);
    CAY_TRY(cay_manifest_parse(text, strlen(text), 0, &m, err));
    CAY_TRY(cay_manifest_look(m, NULL, &j.sum, err));
    CAY_AUTOFREE char *tree = cay_manifest_describe(m, TREE_DEPTH);
    j.root = cay_manifest_root(m);
    j.tree = CAY_OR(tree, "");
    return cay__reply_shape(r, 200, &judged_shape, &j);
}

const cay__doc cay__doc_manifest_get = {
    "getManifestText", "sandboxes",
    "the manifest behind a sandbox; values that are secret or ephemeral are left out",
    .answers = { { 200, .type = "application/json" }, { 404 } }
};
int cay__on_manifest_get(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    CAY_AUTOFREE char *text = NULL;
    CAY_TRY(cay__native_sandbox(r, &sb, err));
    CAY_TRY(cay_sandbox_manifest(sb, &r->call, &text, err));
    return cay__reply(r, 200, "application/json", text, strlen(text));
}

/* Judged with distrust first: what a library's caller may name of this host (files, grants, sudo) a
 * request may not. */
static const cay__query put_query[] = {
    { "replace", "boolean", "entries that are there may get other content and permissions" },
    { NULL }
};
const cay__doc cay__doc_manifest_put = {
    "putManifest",
    "sandboxes",
    "let a running sandbox follow a manifest, which is the body: what is new is written, and what "
    "cannot be followed is refused whole",
    .query = put_query,
    .body_type = "application/json",
    .answers = { { 204 }, { 400 }, { 404 }, { 409 } }
};
int cay__on_manifest_put(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    CAY_AUTOPTR(cay_manifest) m = NULL;
    cay_manifest_sum sum = { .size = sizeof sum };
    json_t *given;
    CAY_TRY(cay__native_use(r, &sb, err));
    CAY_TRY(cay__req_json(r, CAY_MANIFEST_BYTES, &given, err));
    CAY_AUTOFREE char *text = cay__json_text(given, CAY_MANIFEST_BYTES);
    if (!text)
        return cay_fail_why(err, CAY_ETOOBIG, "manifest_too_big", "a manifest has at most %u MiB",
                            CAY_MANIFEST_BYTES >> 20);
    CAY_TRY(cay_manifest_parse(text, strlen(text), 0, &m, err));
    CAY_TRY(cay_manifest_look(m, NULL, &sum, err));
    CAY_TRY(cay_sandbox_set_manifest(
        sb, &r->call, text, NULL,
        CAY_MANIFEST_FOREIGN | (cay__req_flag(r, "replace") ? CAY_MANIFEST_REPLACE : 0), err));
    return cay__reply(r, 204, NULL, NULL, 0);
}

const cay__doc cay__doc_manifest_schema = {
    "getManifestSchema", "sandboxes", "a manifest's form as JSON Schema, for editors",
    .answers = { { 200, .type = "application/schema+json" } }
};
int cay__on_manifest_schema(cay__req *r, cay_err *err)
{
    CAY_AUTOFREE char *text = cay_manifest_schema();
    (void)err;
    return cay__reply(r, 200, "application/schema+json", text, strlen(text));
}

/* what a sandbox was made with
 */

typedef struct given {
    const char *root, *tree;
    size_t entries, variables;
} given;
static const cay__field given_fields[] = {
    { "root", CAY__F_STR, offsetof(given, root), .about = "where its entries are" },
    { "entries", CAY__F_SIZE, offsetof(given, entries), .about = "of the top" },
    { "variables", CAY__F_SIZE, offsetof(given, variables), .about = "of the environment" },
    { "tree", CAY__F_STR, offsetof(given, tree),
      .about = "for people; where entries came from is not in it" },
};
static const cay__shape given_shape =
    CAY__SHAPE("ManifestGiven", given, given_fields,
               "what was put into a sandbox as it was made; without a manifest nothing");

/* As many as there are below a member, which may be wrapped: {"environment":{"value":{…}}}. */
static size_t count_members(const json_t *m, const char *name)
{
    const json_t *o = json_object_get(m, name), *in = json_object_get(o, "value");
    return json_object_size(json_is_object(in) ? in : o);
}

const cay__doc cay__doc_sandbox_manifest = { "getSandboxManifest", "sandboxes",
                                             "what was put into it as it was made",
                                             .answers = { { 200, &given_shape }, { 404 } } };
int cay__on_sandbox_manifest(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    CAY_AUTOPTR(cay_manifest) m = NULL;
    CAY_AUTOFREE char *text = NULL;
    CAY_AUTOJSON *o = NULL;
    CAY_TRY(cay__native_sandbox(r, &sb, err));
    cay_err why = CAY_ERR_INIT;
    int rc = cay_sandbox_manifest(sb, &r->call, &text, &why);
    if (rc == CAY_ENOENT)
        return cay__reply_shape(r, 200, &given_shape, &(given){ .root = "", .tree = "" });
    if (rc < 0)
        *err = why;
    CAY_TRY(rc);
    CAY_TRY(cay__json_object("manifest", text, &o, err));
    CAY_TRY(cay_manifest_parse(text, strlen(text), CAY_MANIFEST_TRUSTED, &m,
                               err)); /* it was judged when it was given */
    CAY_AUTOFREE char *tree = cay_manifest_describe(m, TREE_DEPTH);
    return cay__reply_shape(r, 200, &given_shape,
                            &(given){ cay_manifest_root(m), CAY_OR(tree, ""),
                                      count_members(o, "entries"),
                                      count_members(o, "environment") });
}
