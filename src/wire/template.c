/* SPDX-License-Identifier: Apache-2.0 */
/* Templates, what builds and keeps them ready, and where images come from. */
#include "shapes.h"

#define FIELD CAY__FIELD
#define NAMED CAY__NAMED

enum { NAMES = 16 };

static const cay__field registry_login_fields[] = {
    FIELD(cay__registry_login, username, STR, CAY__F_REQUIRED, .min = 1, .max = 2000),
    FIELD(cay__registry_login, password, STR, CAY__F_REQUIRED | CAY__F_SECRET, .min = 1,
          .max = 2000, .about = "goes in, and is never told"),
};
const cay__shape cay__registry_login_shape =
    CAY__SHAPE("RegistryLogin", cay__registry_login, registry_login_fields, CAY__F_IN,
               "who a tenant's pulls are to a registry");

static const cay__field registry_fields[] = {
    FIELD(cay__registry_told, registry, STR),
    FIELD(cay__registry_told, tenant, STR),
    FIELD(cay__registry_told, changed_ms, I64),
};
const cay__shape cay__registry_shape =
    CAY__SHAPE("Registry", cay__registry_told, registry_fields, CAY__F_OUT,
               "that there is a log-in; who and what is never told");

static const cay__field template_fields[] = {
    FIELD(cay__template_view, name, STR, CAY__F_UNSHOWN,
          .about = "what a request for a sandbox says: its first name, else its id"),
    FIELD(cay__template_view, about, STR, CAY__F_MAYBE | CAY__F_UNSHOWN),
    NAMED("id", cay__template_view, t.id, STR, CAY__F_MAYBE | CAY__F_FULL),
    NAMED("names", cay__template_view, t.names, STRS),
    NAMED("tenant", cay__template_view, t.tenant, STR, CAY__F_MAYBE | CAY__F_FULL),
    NAMED("shared", cay__template_view, t.shared, BOOL, .about = "other tenants may use it"),
    NAMED("base", cay__template_view, t.base, STR,
          .about = "what is below its layers: image, which is nothing, or host"),
    NAMED("source", cay__template_view, t.source, STR, CAY__F_MAYBE | CAY__F_FULL),
    NAMED("digest", cay__template_view, t.digest, STR, CAY__F_MAYBE | CAY__F_FULL),
    NAMED("layers", cay__template_view, t.layers, STRS),
    NAMED("config", cay__template_view, t.config, JSON, CAY__F_MAYBE | CAY__F_FULL),
    NAMED("bytes", cay__template_view, t.bytes, U64),
    NAMED("files", cay__template_view, t.files, U64),
    NAMED("users", cay__template_view, t.users, SIZE, .about = "sandboxes that were made from it"),
    NAMED("created_ms", cay__template_view, t.created_ms, I64),
};
const cay__shape cay__template_shape = CAY__SHAPE("Template", cay__template_view, template_fields,
                                                  CAY__F_OUT, "what a sandbox starts from");

static const cay__field template_patch_fields[] = {
    FIELD(cay__template_patch, name, STR, .min = 1, .max = CAY_TEMPLATE_NAME,
          .about = "one more name, which goes from the one that had it"),
    FIELD(cay__template_patch, shared, BOOL,
          .about = "other tenants may use it; said by keys of scope admin or tenant default"),
};
const cay__shape cay__template_patch_shape =
    CAY__SHAPE("TemplatePatch", cay__template_patch, template_patch_fields, CAY__F_IN,
               "what is to be different of a template; what is not named stays");

static const cay__field publish_fields[] = {
    FIELD(cay__publish_body, from, STR, CAY__F_REQUIRED, .min = 1, .max = 100,
          .about = "a sandbox, of which a snapshot is taken for it, or a snapshot"),
    FIELD(cay__publish_body, names, STRS, .max = NAMES),
    FIELD(cay__publish_body, config, JSON,
          .about =
              "what its sandboxes are told; left out: what the sandbox had from its own template"),
    FIELD(cay__publish_body, hidden, BOOL,
          .about = "not for other tenants; a tenant's own never are"),
};
const cay__shape cay__publish_shape =
    CAY__SHAPE("TemplateCreate", cay__publish_body, publish_fields, CAY__F_IN,
               "a template of a sandbox's files as they are");

static const cay__field build_fields[] = {
    FIELD(cay_build_info, id, STR),
    FIELD(cay_build_info, tenant, STR, CAY__F_UNSHOWN),
    FIELD(cay_build_info, state, STR,
          .about = "waiting, building, ready, failed, canceled or lost"),
    FIELD(cay_build_info, names, STR, CAY__F_MAYBE | CAY__F_FULL,
          .about = "of the template, between blanks"),
    NAMED("template", cay_build_info, template_, STR, CAY__F_MAYBE | CAY__F_FULL,
          .about = "once it is ready"),
    FIELD(cay_build_info, sandbox, STR, CAY__F_MAYBE | CAY__F_FULL,
          .about = "in which a step failed, with keep_failed"),
    FIELD(cay_build_info, reason, STR, CAY__F_MAYBE | CAY__F_FULL),
    FIELD(cay_build_info, error, STR, CAY__F_MAYBE | CAY__F_FULL),
    FIELD(cay_build_info, step, U32),
    FIELD(cay_build_info, steps, U32),
    FIELD(cay_build_info, cached, U32),
    FIELD(cay_build_info, started_ms, I64),
    FIELD(cay_build_info, ended_ms, I64),
};
const cay__shape cay__build_shape =
    CAY__SHAPE("Build", cay_build_info, build_fields, CAY__F_OUT | CAY__F_SIZED,
               "a template that is made by steps");

static const cay__field pull_fields[] = {
    FIELD(cay__pull_body, image, STR, CAY__F_REQUIRED, .min = 1, .max = 400,
          .about = "[HOST[:PORT]/]NAME[:TAG][@DIGEST]"),
    FIELD(cay__pull_body, names, STRS, .max = NAMES,
          .about = "of the template; left out: what the image is called"),
    FIELD(cay__pull_body, platform, STR, .max = 100,
          .about = "os/architecture; left out: this machine's"),
    FIELD(cay__pull_body, hidden, BOOL, .about = "not for other tenants; a tenant's own never are"),
};
const cay__shape cay__pull_shape = CAY__SHAPE("TemplatePull", cay__pull_body, pull_fields,
                                              CAY__F_IN, "an image to get from its registry");

static const cay__field build_cache_fields[] = {
    FIELD(cay_build_cache, id, STR, .about = "as the Dockerfile has it, else its target"),
    FIELD(cay_build_cache, volume, STR, .about = "that holds it"),
    FIELD(cay_build_cache, tenant, STR),
    FIELD(cay_build_cache, bytes, U64),
    FIELD(cay_build_cache, limit, U64),
    FIELD(cay_build_cache, used_ms, I64, .about = "when a build last had it; 0: not known"),
};
const cay__shape cay__build_cache_shape =
    CAY__SHAPE("BuildCache", cay_build_cache, build_cache_fields, CAY__F_OUT | CAY__F_SIZED,
               "a directory that builds keep for the next one");

static const cay__field removed_fields[] = {
    FIELD(cay__removed, removed, SIZE, .about = "how many"),
};
const cay__shape cay__removed_shape =
    CAY__SHAPE("Removed", cay__removed, removed_fields, CAY__F_OUT, "how much was removed");

static const cay__field pool_fields[] = {
    FIELD(cay_pool, id, STR, .about = "subject of its jobs"),
    NAMED("template", cay_pool, template_, STR),
    FIELD(cay_pool, tenant, STR, .about = "who looks the template up"),
    FIELD(cay_pool, low, U32, .about = "with fewer ready, more are made"),
    FIELD(cay_pool, high, U32, .about = "until so many are"),
    FIELD(cay_pool, ready, U32),
    FIELD(cay_pool, making, U32),
    FIELD(cay_pool, error, STR, CAY__F_MAYBE | CAY__F_FULL,
          .about = "why the last one could not be made"),
};
const cay__shape cay__pool_shape = CAY__SHAPE(
    "Pool", cay_pool, pool_fields, CAY__F_OUT | CAY__F_SIZED, "sandboxes that are ready");

static const cay__field pool_put_fields[] = {
    NAMED("template", cay_pool, template_, STR, CAY__F_REQUIRED,
          .about = "a name, looked up each time, or an id"),
    FIELD(cay_pool, tenant, STR, .about = "who looks it up; default"),
    FIELD(cay_pool, low, U32, .max = CAY_POOL_MAX, .about = "1"),
    FIELD(cay_pool, high, U32, CAY__F_REQUIRED, .max = CAY_POOL_MAX),
};
const cay__shape cay__pool_put_shape =
    CAY__SHAPE("PoolPut", cay_pool, pool_put_fields, CAY__F_IN, "a pool as it is wanted");

static const cay__field build_create_params[] = {
    NAMED("name", cay__build_query, names, STRS, .max = 15,
          .about = "of the template; else what the file says"),
    NAMED("file", cay__build_query, b.file, STR,
          .about = "in the context; else template.json or Dockerfile"),
    NAMED("target", cay__build_query, b.target, STR, .about = "stage to build"),
    NAMED("arg", cay__build_query, args, STRS, .max = 99, .about = "NAME=VALUE for an ARG"),
    NAMED("net", cay__build_query, rules, STRS, .max = 199,
          .about = "what steps may reach: a rule or preset; else what the file says, or debian, "
                   "pypi and npm"),
    NAMED("no_cache", cay__build_query, b.no_cache, BOOL, .about = "do every step anew"),
    NAMED("no_pull", cay__build_query, b.no_pull, BOOL, .about = "what FROM names has to be here"),
    NAMED("keep_failed", cay__build_query, b.keep_failed, BOOL,
          .about = "keep the sandbox in which a step failed"),
    NAMED("hidden", cay__build_query, b.hidden, BOOL,
          .about = "not for other tenants; a tenant's own never are"),
    NAMED("step_ms", cay__build_query, b.step_ms, U64, .max = 24 * 3600000,
          .about = "most for one RUN; else an hour, which is the most but for scope admin"),
    NAMED("memory", cay__build_query, b.limits.memory, U64, .max = 1ull << 50,
          .about = "bytes of a step"),
    NAMED("disk", cay__build_query, b.limits.disk, U64, .max = 1ull << 50,
          .about = "bytes that a step may write"),
    NAMED("cpu_milli", cay__build_query, b.limits.cpu_milli, U64, .max = 1000000,
          .about = "CPU of a step, in thousandths"),
};
const cay__shape cay__build_create_query = CAY__QUERY(cay__build_query, build_create_params);

static const cay__field build_log_params[] = {
    FIELD(cay__log_query, after, U64, .max = UINT64_MAX >> 1,
          .about = "go on from the id of an `at` event; the header Last-Event-ID does the same"),
    FIELD(cay__log_query, follow, BOOL, .about = "0: what there is now, without waiting for more"),
};
const cay__shape cay__build_log_query = CAY__QUERY(cay__log_query, build_log_params);

static const cay__field pool_delete_params[] = {
    NAMED("template", cay_pool, template_, STR, CAY__F_REQUIRED, .about = "as it was put"),
    FIELD(cay_pool, tenant, STR, .about = "likewise; default"),
};
const cay__shape cay__pool_delete_query = CAY__QUERY(cay_pool, pool_delete_params);

static const cay__field registry_params[] = {
    { "tenant", CAY__F_STR, .flags = CAY__F_ADMIN,
      .about = "whose; another than your own to scope admin" },
};
const cay__shape cay__registry_query = CAY__QUERY(const char *, registry_params);

static const cay__field template_list_params[] = {
    FIELD(cay_template_filter, name, STR, .about = "with this name"),
    FIELD(cay_template_filter, limit, SIZE, .max = 1000, .about = "how many at most, besides host"),
    FIELD(cay_template_filter, after, STR, .about = "`next` of the answer before, or an id"),
};
const cay__shape cay__template_list_query = CAY__QUERY(cay_template_filter, template_list_params);

static const cay__field template_forget_params[] = {
    { "name", CAY__F_STR, .about = "which one; needed" },
};
const cay__shape cay__template_forget_query = CAY__QUERY(const char *, template_forget_params);

static const cay__field template_import_params[] = {
    NAMED("name", cay_template_file, names, STRS,
          .about = "of the template; else those that the archive has"),
    FIELD(cay_template_file, image, STR, .about = "which of several, by its name in the archive"),
    FIELD(cay_template_file, platform, STR, .about = "os/architecture; else this machine's"),
    FIELD(cay_template_file, config, STR,
          .about = "of a plain tar: a JSON object, what its sandboxes are told"),
    FIELD(cay_template_file, hidden, BOOL,
          .about = "not for other tenants; a tenant's own never are"),
};
const cay__shape cay__template_import_query = CAY__QUERY(cay_template_file, template_import_params);
