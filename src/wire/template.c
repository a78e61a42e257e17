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
CAY__SHAPED(registry_login, "RegistryLogin", cay__registry_login, CAY__F_IN,
            "who a tenant's pulls are to a registry");

static const cay__field registry_fields[] = {
    FIELD(cay__registry_told, registry, STR),
    FIELD(cay__registry_told, tenant, STR),
    FIELD(cay__registry_told, changed_ms, I64),
};
CAY__SHAPED(registry, "Registry", cay__registry_told, CAY__F_OUT,
            "that there is a log-in; who and what is never told");

#define TEMPLATE(member, ...) NAMED(#member, cay__template_view, t.member, __VA_ARGS__)
static const cay__field template_fields[] = {
    FIELD(cay__template_view, name, STR, CAY__F_UNSHOWN,
          .about = "what a request for a sandbox says: its first name, else its id"),
    FIELD(cay__template_view, about, STR, CAY__F_MAYBE | CAY__F_UNSHOWN),
    TEMPLATE(id, STR, CAY__F_MAYBE | CAY__F_FULL),
    TEMPLATE(names, STRS),
    TEMPLATE(tenant, STR, CAY__F_MAYBE | CAY__F_FULL),
    TEMPLATE(shared, BOOL, .about = "other tenants may use it"),
    TEMPLATE(base, STR, .about = "what is below its layers: image, which is nothing, or host"),
    TEMPLATE(source, STR, CAY__F_MAYBE | CAY__F_FULL),
    TEMPLATE(digest, STR, CAY__F_MAYBE | CAY__F_FULL),
    TEMPLATE(layers, STRS),
    TEMPLATE(config, JSON, CAY__F_MAYBE | CAY__F_FULL),
    TEMPLATE(bytes, U64),
    TEMPLATE(files, U64),
    TEMPLATE(users, SIZE, .about = "sandboxes that were made from it"),
    TEMPLATE(created_ms, I64),
};
CAY__SHAPED(template, "Template", cay__template_view, CAY__F_OUT, "what a sandbox starts from");

static const cay__field template_patch_fields[] = {
    FIELD(cay__template_patch, name, STR, .min = 1, .max = CAY_TEMPLATE_NAME,
          .about = "one more name, which goes from the one that had it"),
    FIELD(cay__template_patch, shared, BOOL,
          .about = "other tenants may use it; said by keys of scope admin or tenant default"),
};
CAY__SHAPED(template_patch, "TemplatePatch", cay__template_patch, CAY__F_IN,
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
CAY__SHAPED(publish, "TemplateCreate", cay__publish_body, CAY__F_IN,
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
CAY__SHAPED(build, "Build", cay_build_info, CAY__F_OUT | CAY__F_SIZED,
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
CAY__SHAPED(pull, "TemplatePull", cay__pull_body, CAY__F_IN, "an image to get from its registry");

static const cay__field build_cache_fields[] = {
    FIELD(cay_build_cache, id, STR, .about = "as the Dockerfile has it, else its target"),
    FIELD(cay_build_cache, volume, STR, .about = "that holds it"),
    FIELD(cay_build_cache, tenant, STR),
    FIELD(cay_build_cache, bytes, U64),
    FIELD(cay_build_cache, limit, U64),
    FIELD(cay_build_cache, used_ms, I64, .about = "when a build last had it; 0: not known"),
};
CAY__SHAPED(build_cache, "BuildCache", cay_build_cache, CAY__F_OUT | CAY__F_SIZED,
            "a directory that builds keep for the next one");

static const cay__field removed_fields[] = {
    FIELD(cay__removed, removed, SIZE, .about = "how many"),
};
CAY__SHAPED(removed, "Removed", cay__removed, CAY__F_OUT, "how much was removed");

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
CAY__SHAPED(pool, "Pool", cay_pool, CAY__F_OUT | CAY__F_SIZED, "sandboxes that are ready");

static const cay__field pool_put_fields[] = {
    NAMED("template", cay_pool, template_, STR, CAY__F_REQUIRED,
          .about = "a name, looked up each time, or an id"),
    FIELD(cay_pool, tenant, STR, .about = "who looks it up; default"),
    FIELD(cay_pool, low, U32, .max = CAY_POOL_MAX, .about = "1"),
    FIELD(cay_pool, high, U32, CAY__F_REQUIRED, .max = CAY_POOL_MAX),
};
CAY__SHAPED(pool_put, "PoolPut", cay_pool, CAY__F_IN, "a pool as it is wanted");

#define BUILD(member, ...) NAMED(#member, cay__build_query, b.member, __VA_ARGS__)
static const cay__field build_create_params[] = {
    NAMED("name", cay__build_query, names, STRS, .max = 15,
          .about = "of the template; else what the file says"),
    BUILD(file, STR, .about = "in the context; else template.json or Dockerfile"),
    BUILD(target, STR, .about = "stage to build"),
    NAMED("arg", cay__build_query, args, STRS, .max = 99, .about = "NAME=VALUE for an ARG"),
    NAMED("net", cay__build_query, rules, STRS, .max = 199,
          .about = "what steps may reach: a rule or preset; else what the file says, or debian, "
                   "pypi and npm"),
    BUILD(no_cache, BOOL, .about = "do every step anew"),
    BUILD(no_pull, BOOL, .about = "what FROM names has to be here"),
    BUILD(keep_failed, BOOL, .about = "keep the sandbox in which a step failed"),
    BUILD(hidden, BOOL, .about = "not for other tenants; a tenant's own never are"),
    BUILD(step_ms, U64, .max = 24 * 3600000,
          .about = "most for one RUN; else an hour, which is the most but for scope admin"),
    NAMED("memory", cay__build_query, b.limits.memory, U64, .max = 1ull << 50,
          .about = "bytes of a step"),
    NAMED("disk", cay__build_query, b.limits.disk, U64, .max = 1ull << 50,
          .about = "bytes that a step may write"),
    NAMED(CAY__CPU_MILLI, cay__build_query, b.limits.cpu_milli, U64, .max = 1000000,
          .about = "CPU of a step, in thousandths"),
};
CAY__ASKED(build_create, cay__build_query);

static const cay__field build_log_params[] = {
    FIELD(cay__log_query, after, U64, .max = UINT64_MAX >> 1,
          .about = "go on from the id of an `at` event; the header Last-Event-ID does the same"),
    FIELD(cay__log_query, follow, BOOL, .about = "0: what there is now, without waiting for more"),
};
CAY__ASKED(build_log, cay__log_query);

static const cay__field pool_delete_params[] = {
    NAMED("template", cay_pool, template_, STR, CAY__F_REQUIRED, .about = "as it was put"),
    FIELD(cay_pool, tenant, STR, .about = "likewise; default"),
};
CAY__ASKED(pool_delete, cay_pool);

static const cay__field registry_params[] = {
    { "tenant", CAY__F_STR, .flags = CAY__F_ADMIN,
      .about = "whose; another than your own to scope admin" },
};
CAY__ASKED(registry, const char *);

static const cay__field template_list_params[] = {
    FIELD(cay_template_filter, name, STR, .about = "with this name"),
    FIELD(cay_template_filter, limit, SIZE, .max = 1000, .about = "how many at most, besides host"),
    FIELD(cay_template_filter, after, STR, .about = "`next` of the answer before, or an id"),
};
CAY__ASKED(template_list, cay_template_filter);

static const cay__field template_forget_params[] = {
    { "name", CAY__F_STR, .flags = CAY__F_REQUIRED, .about = "which one" },
};
CAY__ASKED(template_forget, const char *);

static const cay__field template_import_params[] = {
    NAMED("name", cay_template_file, names, STRS, .max = 32,
          .about = "of the template; else those that the archive has"),
    FIELD(cay_template_file, image, STR, .about = "which of several, by its name in the archive"),
    FIELD(cay_template_file, platform, STR, .about = "os/architecture; else this machine's"),
    FIELD(cay_template_file, config, STR,
          .about = "of a plain tar: a JSON object, what its sandboxes are told"),
    FIELD(cay_template_file, hidden, BOOL,
          .about = "not for other tenants; a tenant's own never are"),
};
CAY__ASKED(template_import, cay_template_file);
