/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox uses. */
#include "e2b.h"
#include <base/str.h>
#include <time.h>

/* Use is told as a rate: over a short moment. */
int e2b_sample(const cay_call *call, cay_sandbox *sb, cay_usage *out, double *cpu, cay_err *err)
{
    cay_usage u = { .size = sizeof u };
    struct timespec a, b;
    CAY_TRY(cay_sandbox_usage(sb, call, &u, err));
    clock_gettime(CLOCK_MONOTONIC, &a);
    nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
    *out = (cay_usage){ .size = sizeof *out };
    CAY_TRY(cay_sandbox_usage(sb, call, out, err));
    clock_gettime(CLOCK_MONOTONIC, &b);
    double us = (double)(b.tv_sec - a.tv_sec) * 1e6 + (double)(b.tv_nsec - a.tv_nsec) / 1e3;
    *cpu = out->cpu_us > u.cpu_us && us > 0 ? (double)(out->cpu_us - u.cpu_us) * 100 / us : 0;
    return 0;
}

static int sample(cay__req *r, const e2b_box *b, json_t **out, cay_err *err)
{
    cay_usage v;
    double cpu;
    char now[32];
    struct timespec t;
    int cpus = (int)(e2b_bounded(b->info->limits.cpu_milli, 1000) + 999) / 1000;
    CAY_TRY(e2b_sample(&r->call, b->sb, &v, &cpu, err));
    clock_gettime(CLOCK_REALTIME, &t);
    e2b_when(t.tv_sec * 1000LL + t.tv_nsec / 1000000, now);
    *out = json_pack("{s:s,s:I,s:i,s:f,s:I,s:I,s:I,s:I,s:I}", "timestamp", now, "timestampUnix", (json_int_t)t.tv_sec, "cpuCount", cpus, "cpuUsedPct", cpu / cpus, "memUsed", (json_int_t)v.memory,
                     "memTotal", (json_int_t)e2b_bounded(b->info->limits.memory, 0), "memCache", (json_int_t)0, "diskUsed", (json_int_t)v.disk, "diskTotal",
                     (json_int_t)e2b_bounded(b->info->limits.disk, 0));
    return 0;
}

int e2b_on_metrics(cay__req *r, cay_err *err)
{
    E2B_AUTOBOX b = { 0 };
    uint64_t end;
    json_t *one;
    CAY_TRY(cay__req_number(r, "end", UINT64_MAX, UINT64_MAX, &end, err));
    CAY_TRY(e2b_find(r, r->param[0], false, &b, err));
    CAY_AUTOJSON *list = json_array();
    /* No history is kept: there is the moment itself, if that is asked for. */
    if (e2b_running(b.info) && end >= (uint64_t)time(NULL)) {
        CAY_TRY(sample(r, &b, &one, err));
        json_array_append_new(list, one);
    }
    return cay__reply_json(r, 200, json_incref(list));
}

int e2b_on_all_metrics(cay__req *r, cay_err *err)
{
    const char *q = cay__req_query(r, "sandbox_ids");
    CAY_AUTOJSON *all = json_object();
    char *s = cay__arena_str(&r->arena, q ? q : ""), *save = NULL;
    int n = 0;
    for (char *id = strtok_r(s, ",", &save); id; id = strtok_r(NULL, ",", &save)) {
        E2B_AUTOBOX b = { 0 };
        json_t *one;
        if (++n > 100)
            return cay_fail(err, CAY_EINVAL, "sandbox_ids has at most 100");
        if (e2b_find(r, id, false, &b, NULL) == 0 && e2b_running(b.info) && sample(r, &b, &one, NULL) == 0)
            json_object_set_new(all, b.info->id, one);
    }
    return cay__reply_json(r, 200, json_pack("{s:O}", "sandboxes", all));
}
