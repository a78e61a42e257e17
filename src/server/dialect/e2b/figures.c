/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox uses, and did use. */
#include "e2b.h"
#include <server/history.h>
#include <time.h>

/* Use is told as a rate: over a short moment. */
int e2b_sample(const cay_call *call, cay_sandbox *sb, cay_usage *out, double *cpu, cay_err *err)
{
    cay_usage u = { .size = sizeof u };
    CAY_TRY(cay_sandbox_usage(sb, call, &u, err));
    int64_t from = cay__now_us();
    nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
    *out = (cay_usage){ .size = sizeof *out };
    CAY_TRY(cay_sandbox_usage(sb, call, out, err));
    int64_t us = cay__now_us() - from;
    *cpu = 0;
    if (out->cpu_us > u.cpu_us && us > 0)
        *cpu = (double)(out->cpu_us - u.cpu_us) * 100 / (double)us;
    return 0;
}

static json_t *describe_metric(const e2b_box *b, int64_t ms, double cpu, uint64_t memory,
                               uint64_t disk)
{
    char when[32];
    int cpus = e2b_cpus(b->info);
    return json_pack("{s:s,s:I,s:i,s:f,s:I,s:I,s:i,s:I,s:I}", "timestamp", e2b_when(ms, when),
                     "timestampUnix", (json_int_t)(ms / 1000), "cpuCount", cpus, "cpuUsedPct",
                     cpu / cpus, "memUsed", (json_int_t)memory, "memTotal",
                     (json_int_t)e2b_bounded(b->info->limits.memory, 0), "memCache", 0, "diskUsed",
                     (json_int_t)disk, "diskTotal",
                     (json_int_t)e2b_bounded(b->info->limits.disk, 0));
}

static int sample_sandbox(cay__req *r, const e2b_box *b, json_t **out, cay_err *err)
{
    cay_usage v;
    double cpu;
    CAY_TRY(e2b_sample(&r->call, b->sb, &v, &cpu, err));
    *out = describe_metric(b, cay__clock_ms(), cpu, v.memory, v.disk);
    return 0;
}

typedef struct told {
    const e2b_box *b;
    json_t *list;
} told;

static void on_history_moment(const cay__moment *m, const cay__pace *pace, void *arg)
{
    told *t = arg;
    json_array_append_new(t->list, describe_metric(t->b, m->ms, pace->cpu, m->memory, m->disk));
}

/* start and end are seconds; without them it is everything that is kept. Of a sandbox that runs,
 * the moment itself is the last. */
int e2b_on_metrics(cay__req *r, cay_err *err)
{
    E2B_AUTOBOX b = { 0 };
    CAY_AUTOFD dir = -1;
    uint64_t start, end;
    const uint64_t most = INT64_MAX / 1000;
    json_t *one;
    CAY_TRY(cay__req_number(r, "start", 0, most, &start, err));
    CAY_TRY(cay__req_number(r, "end", most - 1, most, &end, err));
    if (start > end)
        return cay_fail(err, CAY_EINVAL, "start is after end");
    CAY_TRY(e2b_open(r, &b, err));
    CAY_AUTOJSON *list = json_array();
    uint64_t now = (uint64_t)time(NULL);
    if (cay__history_dir(r->client, &dir, NULL) == 0)
        cay__history_read(dir, b.info->id, (int64_t)start * 1000, (int64_t)end * 1000 + 999,
                          on_history_moment, &(told){ &b, list });
    if (e2b_running(b.info) && start <= now && end >= now) {
        CAY_TRY(sample_sandbox(r, &b, &one, err));
        json_array_append_new(list, one);
    }
    return cay__reply_json(r, 200, json_incref(list));
}

int e2b_on_all_metrics(cay__req *r, cay_err *err)
{
    const char *q = cay__req_query(r, "sandbox_ids");
    CAY_AUTOJSON *all = json_object();
    char *s = cay__arena_str(&r->arena, CAY_OR(q, "")), *save = NULL;
    int n = 0;
    for (char *id = strtok_r(s, ",", &save); id; id = strtok_r(NULL, ",", &save)) {
        E2B_AUTOBOX b = { 0 };
        json_t *one;
        if (++n > 100)
            return cay_fail(err, CAY_EINVAL, "sandbox_ids has at most 100");
        if (e2b_find(r, id, false, &b, NULL) == 0 && e2b_running(b.info) &&
            sample_sandbox(r, &b, &one, NULL) == 0)
            json_object_set_new(all, b.info->id, one);
    }
    return cay__reply_pack(r, 200, "{s:O}", "sandboxes", all);
}
