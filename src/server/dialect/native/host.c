/* SPDX-License-Identifier: Apache-2.0 */
/* What serves all this: its version, the host's walls, and how much of a tenant's share is used. */
#include "native.h"
#include <base/base.h>
#include <base/fd.h>
#include <cay/access.h>
#include <sys/utsname.h>

typedef struct version {
    const char *version, *api;
} version;
static const cay__field version_fields[] = { { "version", CAY__F_STR, offsetof(version, version) },
                                             { "api", CAY__F_STR, offsetof(version, api) } };
static const cay__shape version_shape =
    CAY__SHAPE("Version", version, version_fields, "who answers");

const cay__doc cay__doc_version = { "getVersion", "about", "who answers",
                                    .answers = { { 200, &version_shape } } };
int cay__on_version(cay__req *r, cay_err *err)
{
    (void)err;
    return cay__reply_shape(r, 200, &version_shape, &(version){ CAY_VERSION, "v1" });
}

typedef struct doctor {
    const char *version, *kernel, *machine, *home, *isolation, *mode;
    int level;
    const cay_wall *layers;
    size_t nlayers;
    int64_t time_ms;
    uint64_t took_us, spawn_us;
} doctor;
static const cay__field doctor_fields[] = {
    { "version", CAY__F_STR, offsetof(doctor, version) },
    { "kernel", CAY__F_STR, offsetof(doctor, kernel) },
    { "machine", CAY__F_STR, offsetof(doctor, machine) },
    { "home", CAY__F_STR, offsetof(doctor, home), CAY__F_MAYBE },
    { "level", CAY__F_INT, offsetof(doctor, level) },
    { "isolation", CAY__F_STR, offsetof(doctor, isolation) },
    { "mode", CAY__F_STR, offsetof(doctor, mode) },
    { "time_ms", CAY__F_I64, offsetof(doctor, time_ms), .about = "when it was looked at" },
    { "took_us", CAY__F_U64, offsetof(doctor, took_us), .about = "and how long that took" },
    { "spawn_us", CAY__F_U64, offsetof(doctor, spawn_us), CAY__F_MAYBE,
      .about = "a bare spawn of true here, the yardstick for what a command takes; tried every ten "
               "minutes at most" },
    { "layers", CAY__F_LIST, offsetof(doctor, layers), .more = &cay__layer_shape,
      .count = offsetof(doctor, nlayers) },
};
static const cay__shape doctor_shape = CAY__SHAPE(
    "Doctor", doctor, doctor_fields, "how strong the wall is here, layer by layer, with remedies");

static const cay__query doctor_query[] = { { "provider", "string", "of this one" }, { 0 } };
const cay__doc cay__doc_doctor = { "doctor", "about", "how strong the wall is here",
                                   .query = doctor_query,
                                   .answers = { { 200, &doctor_shape }, { 404 } } };
int cay__on_doctor(cay__req *r, cay_err *err)
{
    struct utsname u;
    cay_probe *p = NULL;
    uname(&u);
    int64_t began = cay__now_us();
    CAY_TRY(cay_client_probe(r->client, cay__req_query(r, "provider"), &p, err));
    doctor d = { .version = CAY_VERSION,
                 .kernel = u.release,
                 .machine = u.machine,
                 .isolation = cay_level_name(p->level),
                 .mode = p->mode,
                 .level = (int)p->level,
                 .layers = p->walls,
                 .nlayers = p->nwalls,
                 .home = r->who.scope == CAY__SCOPE_ADMIN ? cay_client_home(r->client) : "",
                 .time_ms = cay__clock_ms(),
                 .took_us = (uint64_t)(cay__now_us() - began) };
    (void)cay__native_spawn_kept(&d.spawn_us, NULL); /* without it there is no yardstick */
    int rc = cay__reply_shape(r, 200, &doctor_shape, &d);
    cay_probe_free(p);
    return rc;
}

static const cay__field quota_fields[] = {
    { "sandboxes", CAY__F_U64, offsetof(cay_quota, sandboxes) },
    { "cpu_milli", CAY__F_U64, offsetof(cay_quota, cpu_milli) },
    { "memory", CAY__F_U64, offsetof(cay_quota, memory) },
    { "disk", CAY__F_U64, offsetof(cay_quota, disk) },
    { "creates_per_min", CAY__F_U64, offsetof(cay_quota, creates_per_min) },
    { "templates", CAY__F_U64, offsetof(cay_quota, templates),
      .about = "bytes of its templates' layers" },
};
static const cay__shape quota_shape =
    CAY__SHAPE("Quota", cay_quota, quota_fields, "0 in `most`: no bound");
static const cay__field share_fields[] = {
    { "tenant", CAY__F_STR, offsetof(cay_tenant, name) },
    { "used", CAY__F_OBJECT, offsetof(cay_tenant, used), .more = &quota_shape },
    { "most", CAY__F_OBJECT, offsetof(cay_tenant, most), .more = &quota_shape },
};
static const cay__shape share_shape =
    CAY__SHAPE("Share", cay_tenant, share_fields, "what a tenant has, and may have");

static int on_tenant(const cay_tenant *t, void *arg)
{
    return cay__reply_shape(arg, 200, &share_shape, t);
}

static const cay__query share_query[] = { { "tenant", "string", "another one: scope admin" },
                                          { 0 } };
const cay__doc cay__doc_tenant_usage = { "getUsage", "about", "what a tenant has, and may have",
                                         .query = share_query,
                                         .answers = { { 200, &share_shape }, { 404 } } };
int cay__on_tenant_usage(cay__req *r, cay_err *err)
{
    const char *asked = cay__req_tenant(r);
    return cay_tenant_get(r->client, CAY_OR(asked, cay__text_or(r->who.tenant, CAY_TENANT_DEFAULT)),
                          on_tenant, r, err);
}
