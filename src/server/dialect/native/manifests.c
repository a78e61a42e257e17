/* SPDX-License-Identifier: Apache-2.0 */
/* A manifest judged before it is used: in the same words, and with the same distrust, as when a sandbox is made from it over HTTP. */
#include "native.h"
#include <base/base.h>
#include <cay/manifest.h>
#include <string.h>

enum { TREE_DEPTH = 6 };
CAY_DEFINE_AUTO(cay_manifest, cay_manifest_free)

typedef struct judged {
    const char      *root, *tree;
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
    { "fetched", CAY__F_U64, AT(sum.fetched), .about = "repositories and remote files; nothing was fetched for this" },
    { "tree", CAY__F_STR, AT(tree), .about = "for people" },
};
static const cay__shape judged_shape = CAY__SHAPE("ManifestSum", judged, judged_fields, "what a manifest would put into a sandbox");

const cay__doc cay__doc_manifest_check = { "checkManifest", "sandboxes", "judge a manifest, which is the body, as if a sandbox were made with it; nothing is made, read or fetched",
                                           .body_type = "application/json", .answers = { { 200, &judged_shape }, { 400 } } };
int cay__on_manifest_check(cay__req *r, cay_err *err)
{
    CAY_AUTOPTR(cay_manifest) m = NULL;
    judged j = { .sum.size = sizeof j.sum };
    json_t *given;
    CAY_TRY(cay__req_json(r, CAY_MANIFEST_BYTES, &given, err));
    CAY_AUTOFREE char *text = cay__json_text(given, CAY_MANIFEST_BYTES);
    if (!text)
        return cay_fail_why(err, CAY_ETOOBIG, "manifest_too_big", "a manifest has at most %u MiB", CAY_MANIFEST_BYTES >> 20);
    CAY_TRY(cay_manifest_parse(text, strlen(text), 0, &m, err));
    CAY_TRY(cay_manifest_look(m, NULL, &j.sum, err));
    CAY_AUTOFREE char *tree = cay_manifest_describe(m, TREE_DEPTH);
    j.root = cay_manifest_root(m);
    j.tree = tree ? tree : "";
    return cay__reply_shape(r, 200, &judged_shape, &j);
}

const cay__doc cay__doc_manifest_schema = { "getManifestSchema", "sandboxes", "a manifest's form as JSON Schema, for editors", .answers = { { 200, .type = "application/schema+json" } } };
int cay__on_manifest_schema(cay__req *r, cay_err *err)
{
    CAY_AUTOFREE char *text = cay_manifest_schema();
    (void)err;
    return cay__reply(r, 200, "application/schema+json", text, strlen(text));
}
