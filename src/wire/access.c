/* SPDX-License-Identifier: Apache-2.0 */
/* Who may do what: keys, tenants, volumes, secrets; jobs, and the audit log. */
#include "shapes.h"

#define FIELD CAY__FIELD
#define NAMED CAY__NAMED

static const cay__field volume_fields[] = {
    FIELD(cay_volume, name, STR),
    FIELD(cay_volume, provider, STR),
    FIELD(cay_volume, limit, U64, CAY__F_NULL, .about = "bytes; 0: none"),
    FIELD(cay_volume, quota, STR, .about = "on, soft or none"),
    FIELD(cay_volume, used, U64),
    FIELD(cay_volume, inodes, U64),
    FIELD(cay_volume, created_ms, I64),
    FIELD(cay_volume, users, STRS, .about = "the sandboxes that have it"),
};
CAY__SHAPED(volume, "Volume", cay_volume, CAY__F_OUT | CAY__F_SIZED,
            "a directory that outlives sandboxes");

static const cay__field volume_spec_fields[] = {
    FIELD(cay_volume_spec, name, STR, CAY__F_REQUIRED, .max = CAY_VOLUME_NAME),
    FIELD(cay_volume_spec, provider, STR),
    FIELD(cay_volume_spec, limit, U64, .max = 1ull << 60, .about = "bytes; 0: none"),
    FIELD(cay_volume_spec, hard, BOOL, .about = "the kernel has to hold the limit"),
};
CAY__SHAPED(volume_spec, "VolumeSpec", cay_volume_spec, CAY__F_IN, "a volume to be made");

static const cay__field secret_value_fields[] = {
    FIELD(cay__secret_body, value, STR, CAY__F_SECRET, .max = 65536),
    NAMED("value_base64", cay__secret_body, base64, BASE64, CAY__F_SECRET,
          .count = offsetof(cay__secret_body, base64_len)),
};
CAY__SHAPED(secret_value, "SecretValue", cay__secret_body, CAY__F_IN, "one of the two");

static const cay__field secret_fields[] = {
    FIELD(cay__secret_told, name, STR),
    FIELD(cay__secret_told, changed_ms, I64),
};
CAY__SHAPED(secret, "Secret", cay__secret_told, CAY__F_OUT,
            "that there is one; its value is never told");

static const cay__field secret_bind_fields[] = {
    FIELD(cay__secret_binds, secrets, LIST, CAY__F_REQUIRED,
          .count = offsetof(cay__secret_binds, n), .max = 64, .more = &cay__secret_use_shape,
          .about = "in place of all it has"),
    FIELD(cay__secret_binds, net, JSON, .about = "a policy beside them; the rules that hold"),
};
CAY__SHAPED(secret_bind, "SecretUses", cay__secret_binds, CAY__F_IN, "other secrets for a sandbox");

static const char *const scope_words[] = { "login",  "port",  "file",    "sandbox",
                                           "tenant", "admin", "session", NULL };
/* Those that a request may name. */
static const char *const made_words[] = { "port", "file", "sandbox", "tenant", "admin", NULL };
static const cay__field key_fields[] = {
    FIELD(cay_key, id, STR, .about = "8 hex digits"),
    FIELD(cay_key, tenant, STR),
    FIELD(cay_key, scope, WORD, .min = CAY_KEY_LOGIN_LINK, .more = scope_words),
    FIELD(cay_key, name, STR),
    FIELD(cay_key, sandbox, STR, CAY__F_MAYBE),
    FIELD(cay_key, path, STR, CAY__F_MAYBE),
    FIELD(cay_key, port, U16, CAY__F_MAYBE),
    FIELD(cay_key, from, STR, CAY__F_MAYBE,
          .about =
              "of a session: the key it stands for, and dies with; without, it came by a link"),
    FIELD(cay_key, created_ms, I64),
    FIELD(cay_key, expires_ms, I64, CAY__F_MAYBE),
    FIELD(cay_key, revoked_ms, I64, CAY__F_MAYBE),
    FIELD(cay_key, used_ms, I64, CAY__F_MAYBE,
          .about = "when it last opened something, to the minute; left out: never yet"),
};
CAY__SHAPED(key, "Key", cay_key, CAY__F_OUT | CAY__F_SIZED,
            "what opens something, without its secret");

static const cay__field key_create_fields[] = {
    NAMED("tenant", cay__key_body, key.tenant, STR, .about = "another one: scope admin"),
    FIELD(cay__key_body, scope, CHOICE, .more = made_words,
          .about = "tenant; a key that is no admin's makes narrower ones than itself"),
    NAMED("name", cay__key_body, key.name, STR, .max = 100),
    NAMED("sandbox", cay__key_body, key.sandbox, STR, .about = "with sandbox, port and file"),
    NAMED("path", cay__key_body, key.path, STR, .about = "with file"),
    NAMED("port", cay__key_body, key.port, U16, .about = "with port"),
    FIELD(cay__key_body, ttl_ms, U64, .max = 1ull << 42, .about = "until it expires; 0: never"),
};
CAY__SHAPED(key_create, "KeyCreate", cay__key_body, CAY__F_IN, "a key as it is wanted");

static const cay__field key_made_fields[] = {
    FIELD(cay__key_made, id, TEXT),
    FIELD(cay__key_made, key, TEXT, CAY__F_SECRET, .about = "told this once"),
};
CAY__SHAPED(key_made, "KeyMade", cay__key_made, CAY__F_OUT, "a new key");

static const cay__field tenant_quota_fields[] = {
    FIELD(cay_quota, sandboxes, U64, CAY__F_ZERO, .about = "0: no bound"),
    FIELD(cay_quota, cpu_milli, U64, CAY__F_ZERO),
    FIELD(cay_quota, memory, U64, CAY__F_ZERO),
    FIELD(cay_quota, disk, U64, CAY__F_ZERO),
    FIELD(cay_quota, creates_per_min, U64, CAY__F_ZERO, .max = 1000000),
    FIELD(cay_quota, templates, U64, CAY__F_ZERO,
          .about = "bytes of its templates' layers, each counted once"),
};
CAY__SHAPED(tenant_quota, "TenantQuota", cay_quota, CAY__F_IN | CAY__F_OUT,
            "what all sandboxes of a tenant may have, or have, together");

static const cay__field tenant_fields[] = {
    FIELD(cay_tenant, name, STR),
    FIELD(cay_tenant, most, OBJECT, .more = &cay__tenant_quota_shape),
    FIELD(cay_tenant, used, OBJECT, .more = &cay__tenant_quota_shape),
    FIELD(cay_tenant, created_ms, I64),
};
CAY__SHAPED(tenant, "Tenant", cay_tenant, CAY__F_OUT | CAY__F_SIZED, "who shares this machine");

static const cay__field tenant_create_fields[] = {
    FIELD(cay_tenant, name, STR, CAY__F_REQUIRED),
    FIELD(cay_tenant, most, OBJECT, .more = &cay__tenant_quota_shape),
};
CAY__SHAPED(tenant_create, "TenantCreate", cay_tenant, CAY__F_IN, "a tenant as it is wanted");

static const cay__field tenant_patch_fields[] = {
    FIELD(cay_tenant, most, OBJECT, CAY__F_REQUIRED, .more = &cay__tenant_quota_shape),
};
CAY__SHAPED(tenant_patch, "TenantPatch", cay_tenant, CAY__F_IN,
            "other bounds; those not named stay");

static const cay__field job_fields[] = {
    FIELD(cay_job, id, STR),
    FIELD(cay_job, kind, STR),
    FIELD(cay_job, subject, STR),
    FIELD(cay_job, tenant, STR),
    FIELD(cay_job, key, STR, CAY__F_MAYBE | CAY__F_FULL),
    FIELD(cay_job, detail, JSON, CAY__F_MAYBE),
    FIELD(cay_job, state, STR, .about = "waiting, running, done, dead or canceled"),
    FIELD(cay_job, due_ms, I64),
    FIELD(cay_job, attempts, U32),
    FIELD(cay_job, most, U32),
    FIELD(cay_job, error, STR, CAY__F_MAYBE | CAY__F_FULL, .about = "of the last attempt"),
    FIELD(cay_job, created_ms, I64),
    FIELD(cay_job, changed_ms, I64),
    FIELD(cay_job, fence, U64, CAY__F_SHOWN),
    FIELD(cay_job, owner, STR, CAY__F_SHOWN),
};
CAY__SHAPED(job, "Job", cay_job, CAY__F_OUT | CAY__F_SIZED, "work that outlives who left it");

static const char *const job_words[] = { "pause", "kill", "remove", NULL };
static const cay__field job_create_fields[] = {
    FIELD(cay__job_body, kind, CHOICE, CAY__F_REQUIRED, .more = job_words),
    FIELD(cay__job_body, sandbox, STR, CAY__F_REQUIRED, .about = "what it is done to"),
    FIELD(cay__job_body, due_ms, I64, .about = "wall clock; left out: now"),
    FIELD(cay__job_body, in_ms, U64, .max = 1ull << 42, .about = "instead: so long from now"),
};
CAY__SHAPED(job_create, "JobCreate", cay__job_body, CAY__F_IN,
            "what to do to a sandbox later; takes the place of one of the same kind");

static const cay__field audit_fields[] = {
    FIELD(cay_audit, seq, U64),
    FIELD(cay_audit, time_ms, I64),
    FIELD(cay_audit, actor, STR, .about = "key:ID, tenant:NAME, uid:N"),
    FIELD(cay_audit, tenant, STR, CAY__F_MAYBE | CAY__F_FULL),
    FIELD(cay_audit, action, STR),
    FIELD(cay_audit, object, STR, CAY__F_MAYBE | CAY__F_FULL),
    FIELD(cay_audit, verdict, STR, .about = "ok, refused or failed"),
    FIELD(cay_audit, peer, STR, CAY__F_MAYBE | CAY__F_FULL),
    FIELD(cay_audit, request, STR, CAY__F_MAYBE | CAY__F_FULL,
          .about = "X-Request-Id of its answer"),
    FIELD(cay_audit, status, INT, CAY__F_MAYBE | CAY__F_FULL),
    FIELD(cay_audit, us, U64, CAY__F_MAYBE | CAY__F_FULL, .about = "how long it took"),
    FIELD(cay_audit, hash, STR),
};
CAY__SHAPED(audit, "AuditLine", cay_audit, CAY__F_OUT | CAY__F_SIZED,
            "one thing that was done, or refused");

#define PROOF(member, ...) NAMED(#member, cay__audit_proof_told, p.member, __VA_ARGS__)
static const cay__field audit_proof_fields[] = {
    FIELD(cay__audit_proof_told, sound, BOOL),
    PROOF(first, U64),
    PROOF(last, U64),
    PROOF(torn, U64, .about = "lines that a crash cut"),
    PROOF(dropped, U64, .about = "lines that were only counted"),
    PROOF(head, TEXT),
    PROOF(why, TEXT, CAY__F_MAYBE),
};
CAY__SHAPED(audit_proof, "AuditProof", cay__audit_proof_told, CAY__F_OUT,
            "do all lines follow each other");

static const cay__field key_list_params[] = {
    { "tenant", CAY__F_STR, .flags = CAY__F_ADMIN, .about = "only of this one; to scope admin" },
};
CAY__ASKED(key_list, const char *);

static const cay__field audit_list_params[] = {
    FIELD(cay_audit_filter, object, STR, .about = "only what was done to it"),
    FIELD(cay_audit_filter, action, STR, .about = "only what begins so"),
    FIELD(cay_audit_filter, since_ms, I64, .about = "only from then on"),
    FIELD(cay_audit_filter, last, SIZE, .max = 10000, .about = "the newest: 1 to 10000; 100"),
    FIELD(cay_audit_filter, tenant, STR, CAY__F_ADMIN, .about = "only of this one; to scope admin"),
};
CAY__ASKED(audit_list, cay_audit_filter);

static const cay__field audit_proof_params[] = {
    { "head", CAY__F_STR, .about = "SEQ:HASH of an earlier proof, which has to be there still" },
};
CAY__ASKED(audit_proof, const char *);

static const cay__field job_list_params[] = {
    FIELD(cay_job_filter, state, STR, .about = "waiting, running, done, dead or canceled"),
    FIELD(cay_job_filter, kind, STR, .about = "pause, kill, …"),
    NAMED("sandbox", cay_job_filter, subject, STR, .about = "only what is done to this one"),
    FIELD(cay_job_filter, tenant, STR, CAY__F_ADMIN, .about = "only of this one; to scope admin"),
    FIELD(cay_job_filter, limit, SIZE, .max = 1000, .about = "how many at most: 1 to 1000; 100"),
};
CAY__ASKED(job_list, cay_job_filter);
