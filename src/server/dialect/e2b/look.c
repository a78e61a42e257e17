/* SPDX-License-Identifier: Apache-2.0 */
/* How things look in the control plane. */
#include "e2b.h"
#include <time.h>

json_t *e2b_member(const json_t *in, const char *key)
{
    json_t *v = json_object_get(in, key);
    if (json_is_null(v))
        return NULL;
    return v;
}

int e2b_limit(cay__req *r, uint64_t *out, cay_err *err)
{
    CAY_TRY(cay__req_number(r, "limit", E2B_PAGE, E2B_PAGE, out, err));
    if (*out)
        return 0;
    return cay_fail(err, CAY_EINVAL, "limit is 1 to %d", E2B_PAGE);
}

void *e2b_grow(void *list, size_t n, size_t *cap, size_t size)
{
    if (n < *cap)
        return list;
    *cap = CAY_MAX(2 * n, 64u);
    list = reallocarray(list, *cap, size);
    if (!list)
        abort();
    return list;
}

const char *e2b_when(int64_t ms, char out[32])
{
    time_t s = (time_t)(ms / 1000);
    struct tm tm;
    gmtime_r(&s, &tm);
    size_t n = strftime(out, 32, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out + n, 32 - n, ".%03dZ", (int)(ms % 1000));
    return out;
}

/* SDKs make host names of ports with it, so it is how this very client reaches us:
 * "localhost:8090", or what is behind "api.". */
json_t *e2b_domain(cay__req *r)
{
    const char *host = r->head.host, *colon = strrchr(host, ':');
    if (cay__str_starts(host, "api."))
        return json_string(host + 4);
    return json_sprintf("%s%s", cay__server_domain(r->server),
                        colon && !strchr(colon, ']') ? colon : "");
}

int e2b_sandbox_json(cay__req *r, const char *id, const char *template_, json_t **out, cay_err *err)
{
    char token[E2B_TOKEN_LEN + 1], traffic[E2B_TOKEN_LEN + 1];
    CAY_TRY(e2b_token(r, "envd", id, token, err));
    CAY_TRY(e2b_token(r, "traffic", id, traffic, err));
    *out = json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:o}", "sandboxID", id, "templateID", template_,
                     "clientID", "cay", "envdVersion", E2B_ENVD_VERSION, "envdAccessToken", token,
                     "trafficAccessToken", traffic, "domain", e2b_domain(r));
    return 0;
}

int64_t e2b_bounded(uint64_t v, int64_t none)
{
    if (v == CAY_UNLIMITED || v > INT64_MAX)
        return none;
    return (int64_t)v;
}

int e2b_cpus(const cay_info *i)
{
    return (int)(e2b_bounded(i->limits.cpu_milli, 1000) + 999) / 1000;
}

json_t *e2b_listed(const e2b_box *b)
{
    const cay_info *i = b->info;
    char started[32], end[32];
    int64_t end_ms = CAY_OR(i->deadline_ms, i->created_ms + 86400000LL * 365);
    return json_pack(
        "{s:s,s:s,s:s,s:s,s:s,s:I,s:I,s:I,s:O,s:s,s:s,s:o*,s:O*}", "sandboxID", i->id, "templateID",
        b->note.template_, "clientID", "cay", "startedAt", e2b_when(i->created_ms, started),
        "endAt", e2b_when(end_ms, end), "cpuCount", (json_int_t)e2b_cpus(i), "memoryMB",
        (json_int_t)(e2b_bounded(i->limits.memory, 0) >> 20), "diskSizeMB",
        (json_int_t)(e2b_bounded(i->limits.disk, 0) >> 20), "metadata",
        CAY_OR(b->note.metadata, json_null()), "state", e2b_running(i) ? "running" : "paused",
        "envdVersion", E2B_ENVD_VERSION, "alias", CAY_IF(*i->name, json_string(i->name)),
        "volumeMounts", b->note.volumes);
}
