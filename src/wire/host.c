/* SPDX-License-Identifier: Apache-2.0 */
/* The machine that serves all this. */
#include "shapes.h"

#define FIELD CAY__FIELD
#define NAMED CAY__NAMED

static const cay__field version_fields[] = {
    FIELD(cay__version_told, version, STR),
    FIELD(cay__version_told, api, STR),
};
CAY__SHAPED(version, "Version", cay__version_told, CAY__F_OUT, "who answers");

static const cay__field doctor_fields[] = {
    FIELD(cay__doctor_told, version, STR),
    FIELD(cay__doctor_told, kernel, STR),
    FIELD(cay__doctor_told, machine, STR),
    FIELD(cay__doctor_told, home, STR, CAY__F_MAYBE | CAY__F_ADMIN),
    FIELD(cay__doctor_told, level, INT),
    FIELD(cay__doctor_told, isolation, STR),
    FIELD(cay__doctor_told, mode, STR),
    FIELD(cay__doctor_told, time_ms, I64, CAY__F_UNSHOWN, .about = "when it was looked at"),
    FIELD(cay__doctor_told, took_us, U64, CAY__F_UNSHOWN, .about = "and how long that took"),
    FIELD(cay__doctor_told, spawn_us, U64, CAY__F_MAYBE,
          .about =
              "a bare spawn of true here, the yardstick for what a command takes; tried every ten "
              "minutes at most"),
    FIELD(cay__doctor_told, layers, LIST, .more = &cay__wall_shape,
          .count = offsetof(cay__doctor_told, nlayers)),
};
CAY__SHAPED(doctor, "Doctor", cay__doctor_told, CAY__F_OUT,
            "how strong the wall is here, layer by layer, with remedies");

static const cay__field quota_fields[] = {
    FIELD(cay_quota, sandboxes, U64),
    FIELD(cay_quota, cpu_milli, U64),
    FIELD(cay_quota, memory, U64),
    FIELD(cay_quota, disk, U64),
    FIELD(cay_quota, creates_per_min, U64),
    FIELD(cay_quota, templates, U64, .about = "bytes of its templates' layers"),
};
CAY__SHAPED(quota, "Quota", cay_quota, CAY__F_OUT, "0 in `most`: no bound");

static const cay__field share_fields[] = {
    NAMED("tenant", cay_tenant, name, STR),
    FIELD(cay_tenant, used, OBJECT, .more = &cay__quota_shape),
    FIELD(cay_tenant, most, OBJECT, .more = &cay__quota_shape),
};
CAY__SHAPED(share, "Share", cay_tenant, CAY__F_OUT, "what a tenant has, and may have");

static const cay__field speed_fields[] = {
    FIELD(cay__speed, create_us, U64, .about = "until a sandbox was there"),
    FIELD(cay__speed, exec_us, U64,
          .about = "`true` in it, started and waited for; the median of nine"),
    FIELD(cay__speed, remove_us, U64, .about = "until it was gone"),
    FIELD(cay__speed, spawn_us, U64,
          .about = "`true` beside it, without a sandbox; the median of nine"),
    FIELD(cay__speed, time_ms, I64),
};
CAY__SHAPED(speed, "Speed", cay__speed, CAY__F_OUT, "how quick this host is, tried now");

static const cay__field wall_tried_fields[] = {
    FIELD(cay__wall_tried, name, STR, .about = "as in layers of GET /doctor"),
    FIELD(cay__wall_tried, ok, BOOL, .about = "it showed itself"),
    FIELD(cay__wall_tried, found, TEXT, .about = "for people"),
    FIELD(cay__wall_tried, took_us, U64),
};
CAY__SHAPED(wall_tried, "Wall", cay__wall_tried, CAY__F_OUT, "a layer as it was tried");

static const cay__field walls_tried_fields[] = {
    FIELD(cay__walls_tried, time_ms, I64),
    FIELD(cay__walls_tried, took_us, U64,
          .about = "all of them, with the making and removing of a sandbox"),
    NAMED("checks", cay__walls_tried, items, LIST, .more = &cay__wall_tried_shape,
          .count = offsetof(cay__walls_tried, n)),
};
CAY__SHAPED(walls_tried, "Walls", cay__walls_tried, CAY__F_OUT,
            "each layer as it was tried in a sandbox made for it");

static const cay__field doctor_params[] = {
    { "provider", CAY__F_STR, .about = "of this one" },
};
CAY__ASKED(doctor, const char *);

static const cay__field tenant_usage_params[] = {
    { "tenant", CAY__F_STR, .flags = CAY__F_ADMIN, .about = "another one: scope admin" },
};
CAY__ASKED(tenant_usage, const char *);

/* Of RFC 9457. */
static const cay__field problem_fields[] = {
    FIELD(cay__problem, type, STR, CAY__F_REQUIRED),
    FIELD(cay__problem, title, STR, CAY__F_REQUIRED),
    FIELD(cay__problem, status, INT, CAY__F_REQUIRED),
    FIELD(cay__problem, detail, STR, CAY__F_REQUIRED, .about = "one line for people"),
    FIELD(cay__problem, code, STR, CAY__F_REQUIRED, .about = "decide by this one: ENOENT, …"),
    FIELD(cay__problem, reason, STR, CAY__F_REQUIRED, .about = "a stable word"),
    FIELD(cay__problem, retry, STR, CAY__F_REQUIRED,
          .about = "would the same request help: yes, no or unknown"),
    FIELD(cay__problem, retry_after_ms, U32),
    NAMED("errno", cay__problem, sys, INT),
    FIELD(cay__problem, info, JSON),
    FIELD(cay__problem, request, STR, CAY__F_REQUIRED,
          .about = "the request's id: it is in the log"),
};
CAY__SHAPED(problem, "Problem", cay__problem, CAY__F_OUT, "what went wrong");
