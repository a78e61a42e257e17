/* SPDX-License-Identifier: Apache-2.0 */
/* POST …/mount and …/unmount: buckets in a sandbox that runs. */
#include "cloudflare.h"

/* rclone and its way out are the host's, outside of every sandbox's policy: so it is for whose
 * machine this is. */
static int check_permission(const cay__req *r, cay_err *err)
{
    if (r->who.scope == CAY__SCOPE_ADMIN ||
        (r->who.scope == CAY__SCOPE_TENANT && !strcmp(r->who.tenant, "default")))
        return 0;
    return cay_fail_why(err, CAY_EPERM, "admin_only",
                        "storage is fetched by this machine; this needs a key of scope admin, or "
                        "of tenant default");
}

/* Absolute and below the root; one slash at its end is nothing. */
static int mount_path(cay__req *r, const json_t *in, const char **out, cay_err *err)
{
    const char *given = cay__json_str(in, "mountPath", "");
    if (*given != '/' || strspn(given, "/.") == strlen(given))
        return cay_fail(err, CAY_EINVAL, "mountPath is an absolute path below the root");
    char *path = cay__arena_str(&r->arena, given);
    size_t n = strlen(path);
    if (path[n - 1] == '/')
        path[n - 1] = 0;
    *out = path;
    return 0;
}

static bool has_suffix(const char *s, size_t n, const char *end)
{
    size_t k = strlen(end);
    return n >= k && !memcmp(s + n - k, end, k);
}

/* s3.REGION.amazonaws.com → REGION. */
static char *region_of(cay__arena *mem, const char *host, size_t n)
{
    if (n < 4 || memcmp(host, "s3.", 3) || !has_suffix(host, n, ".amazonaws.com") ||
        n <= sizeof "s3..amazonaws.com" - 1)
        return NULL;
    char *s = cay__arena_str(mem, host + 3);
    s[n - 3 - (sizeof ".amazonaws.com" - 1)] = 0;
    return s;
}

/* What the request calls it, as a manifest's entry has it. */
static int fields_of(cay__req *r, const json_t *in, char **text, cay_err *err)
{
    const json_t *o = json_object_get(in, "options"), *keys = json_object_get(o, "credentials"),
                 *more = json_object_get(o, "s3fsOptions");
    const char *bucket = cay__json_str(in, "bucket", NULL),
               *endpoint = cay__json_str(o, "endpoint", NULL),
               *prefix = cay__json_str(o, "prefix", ""), *kind = cay__json_str(o, "provider", "");
    if (!bucket || !*bucket || !endpoint)
        return cay_fail(err, CAY_EINVAL,
                        "bucket and options.endpoint are needed; a binding of R2 is known to "
                        "Cloudflare's Workers alone");
    const char *host = "";
    if (cay__str_starts(endpoint, "https://"))
        host = endpoint + 8;
    else if (cay__str_starts(endpoint, "http://"))
        host = endpoint + 7;
    size_t n = strcspn(host, "/:?#");
    if (!n)
        return cay_fail(err, CAY_EINVAL, "options.endpoint is an http or https URL");
    if (json_array_size(more))
        return cay_fail(
            err, CAY_EINVAL,
            "options.s3fsOptions: storage is served by rclone here, and has none of s3fs' options");
    if (keys && (!cay__json_str(keys, "accessKeyId", NULL) ||
                 !cay__json_str(keys, "secretAccessKey", NULL)))
        return cay_fail(err, CAY_EINVAL,
                        "options.credentials has accessKeyId and secretAccessKey, both texts");
    const char *provider = "Other";
    if (has_suffix(host, n, ".amazonaws.com"))
        provider = "AWS";
    else if (!strcmp(kind, "r2"))
        provider = "Cloudflare";
    else if (!strcmp(kind, "gcs"))
        provider = "GCS";
    while (*prefix == '/')
        prefix++;
    CAY_AUTOJSON *f = json_pack(
        "{s:s, s:s, s:s, s:s*, s:s*, s:s*, s:s*}", "bucket", bucket, "endpoint_url", endpoint,
        "s3_provider", provider, "prefix", cay__text_or(prefix, NULL), "access_key_id",
        cay__json_str(keys, "accessKeyId", NULL), "secret_access_key",
        cay__json_str(keys, "secretAccessKey", NULL), "region", region_of(&r->arena, host, n));
    if (f && (*text = cay__json_text(f, 65536)))
        return 0;
    return cay_fail(err, CAY_EINVAL, "the options are too long, or no UTF-8");
}

/* Places of mounts are anywhere, as in the bridge, whose commands are root's. */
static int by_root(cay__req *r, const char *program, const char *option, const char *path,
                   cay_err *err)
{
    const char *const argv[] = { program, option, path, NULL };
    const cay_spawn s = { .size = sizeof s, .argv = argv, .cwd = "/", .user = "root" };
    cay_result res = { .size = sizeof res };
    CAY_TRY(cay_sandbox_run(r->sb, &r->call, &s, NULL, 0, 1024, &res, err));
    int rc = 0;
    if (res.exit.code)
        rc = cay_fail_why(err, CAY_EUPSTREAM, "mount_error", "%.150s", CAY_OR(res.errout, program));
    cay_result_clear(&res);
    return rc;
}

int cf_mount(cay__req *r, cay_err *err)
{
    json_t *in;
    const char *path;
    CAY_AUTOFREE char *fields = NULL;
    CAY_TRY(cay__req_json(r, 0, &in, err));
    CAY_TRY(mount_path(r, in, &path, err));
    CAY_TRY(fields_of(r, in, &fields, err));
    CAY_TRY(check_permission(r, err));
    const cay_mount m = { .size = sizeof m,
                          .type = "s3_mount",
                          .target = path,
                          .fields = fields,
                          .rw =
                              !cay__json_bool(json_object_get(in, "options"), "readOnly", false) };
    bool was = false;
    CAY_TRY(cay_mount_check(&m, err));
    CAY_TRY(cay_file_exists(r->sb, &r->call, path, &was, err));
    if (!was)
        CAY_TRY(cf_as(by_root(r, "mkdir", "-p", path, err), CAY_REASON_MOUNT_ERROR, err));
    int rc = cay_sandbox_mount(r->sb, &r->call, &m, err);
    explicit_bzero(fields, strlen(fields));
    if (rc < 0 && !was)
        by_root(r, "rmdir", "--", path, NULL);
    CAY_TRY(cf_as(rc, CAY_REASON_MOUNT_ERROR, err));
    return cf_ok(r, err);
}

/* The directory goes with it, when nothing is in it; nothing is ever removed through a mount. */
int cf_unmount(cay__req *r, cay_err *err)
{
    json_t *in;
    const char *path;
    CAY_TRY(cay__req_json(r, 0, &in, err));
    CAY_TRY(mount_path(r, in, &path, err));
    CAY_TRY(cf_as(cay_sandbox_unmount(r->sb, &r->call, path, err), CAY_REASON_UNMOUNT_ERROR, err));
    by_root(r, "rmdir", "--", path, NULL);
    return cf_ok(r, err);
}
