/* SPDX-License-Identifier: Apache-2.0 */
/* GET /metrics: the text that Prometheus reads. */
#include <server/http/connection.h>
#include "telemetry.h"
#include <base/base.h>
#include <cay/jobs.h>
#include <cay/pool.h>
#include <inttypes.h>

static int on_info(const cay_info *i, void *arg)
{
    uint64_t *n = arg;
    n[CAY_MIN((unsigned)i->state, (unsigned)CAY_DAMAGED)]++;
    return 0;
}

static int put_sandboxes(cay__req *r, cay__buf *b, cay_err *err)
{
    uint64_t n[CAY_DAMAGED + 1] = { 0 };
    cay_filter all = { .size = sizeof all };
    CAY_TRY(cay_client_list(r->client, &r->call, &all, on_info, n, err));
    cay__buf_str(
        b, "# HELP cay_sandboxes Sandboxes that exist, by state.\n# TYPE cay_sandboxes gauge\n");
    for (unsigned s = CAY_CREATING; s <= CAY_DAMAGED; s++)
        if (s != CAY_GONE)
            cay__buf_fmt(b, "cay_sandboxes{state=\"%s\"} %" PRIu64 "\n",
                         cay_state_name((cay_state)s), n[s]);
    return 0;
}

static const char *const job_states[] = { "waiting", "running", "dead" };
static int on_task(const cay_job *t, void *arg)
{
    ++*(uint64_t *)arg;
    return 0;
}

static int put_jobs(cay__req *r, cay__buf *b, cay_err *err)
{
    cay__buf_str(b,
                 "# HELP cay_jobs Work in the store's queue, by state.\n# TYPE cay_jobs gauge\n");
    CAY_EACH(job_state, job_states) {
        uint64_t n = 0;
        cay_job_filter f = { .size = sizeof f, .state = *job_state };
        CAY_TRY(cay_job_list(r->client, &f, on_task, &n, err));
        cay__buf_fmt(b, "cay_jobs{state=\"%s\"} %" PRIu64 "\n", *job_state, n);
    }
    return 0;
}

typedef struct pools {
    cay__buf *b;
    bool making;
} pools;

static int on_pool(const cay_pool *w, void *arg)
{
    const pools *p = arg;
    cay__buf_fmt(p->b, "cay_warm_%s{template=", p->making ? "making" : "ready");
    cay__buf_json(
        p->b, w->template_,
        strlen(w->template_)); /* names have nothing that the two would write differently */
    cay__buf_str(p->b, ",tenant=");
    cay__buf_json(p->b, w->tenant, strlen(w->tenant));
    cay__buf_fmt(p->b, "} %u\n", p->making ? w->making : w->ready);
    return 0;
}

static void write_figure(cay__buf *b, const char *kind, const char *name, const char *help,
                         uint64_t v)
{
    cay__buf_fmt(b, "# HELP %s %s\n# TYPE %s %s\n%s %" PRIu64 "\n", name, help, name, kind, name,
                 v);
}

static int put_pools(cay__req *r, cay__buf *b, cay_err *err)
{
    uint64_t taken, missed;
    cay_pool_counts(r->client, &taken, &missed);
    write_figure(b, "counter", "cay_warm_taken_total",
                 "Sandboxes that were ready when they were asked for.", taken);
    write_figure(b, "counter", "cay_warm_missed_total",
                 "Sandboxes of a template with a pool that had to be made.", missed);
    cay__buf_str(
        b,
        "# HELP cay_warm_ready Sandboxes that are ready, by pool.\n# TYPE cay_warm_ready gauge\n");
    CAY_TRY(cay_pool_list(r->client, &r->call, on_pool, &(pools){ b, false }, err));
    cay__buf_str(b, "# HELP cay_warm_making Sandboxes that are being made ready, by pool.\n# TYPE "
                    "cay_warm_making gauge\n");
    return cay_pool_list(r->client, &r->call, on_pool, &(pools){ b, true }, err);
}

static void put_process(cay__server *s, cay__buf *b)
{
    char text[128];
    uint64_t pages = 0;
    if (cay__fd_read_file(-100 /* AT_FDCWD */, "/proc/self/statm", text, sizeof text) > 0)
        sscanf(text, "%*u %" SCNu64, &pages);
    write_figure(b, "gauge", "process_resident_memory_bytes", "Memory of the server.",
                 pages * (uint64_t)sysconf(_SC_PAGESIZE));
    write_figure(b, "gauge", "cay_http_connections", "Connections that are open.", s->nconns);
    write_figure(b, "gauge", "cay_http_queue", "Requests that wait for a worker.",
                 cay__worker_pool_waiting(s->pool));
    if (s->tracing)
        write_figure(b, "counter", "cay_spans_lost_total", "Spans that could not be kept or sent.",
                     cay__tracing_lost(s->tracing));
    cay__buf_fmt(b,
                 "# HELP cay_build_info What is running.\n# TYPE cay_build_info "
                 "gauge\ncay_build_info{version=\"%s\"} 1\n",
                 CAY_VERSION);
}

int cay__on_metrics(cay__req *r, cay_err *err)
{
    CAY_AUTOBUF b = CAY__BUF(4u << 20);
    put_process(r->server, &b);
    CAY_TRY(put_sandboxes(r, &b, err));
    CAY_TRY(put_jobs(r, &b, err));
    CAY_TRY(put_pools(r, &b, err));
    cay__metrics_print(r->server->metrics, &b);
    return cay__reply(r, 200, "text/plain; version=0.0.4; charset=utf-8", b.data, b.len);
}
