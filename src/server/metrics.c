/* SPDX-License-Identifier: Apache-2.0 */
#include "telemetry.h"
#include <base/base.h>
#include <inttypes.h>
#include <stdatomic.h>

enum { ROWS = 512, CLASSES = 5, BUCKETS = 8 };
static const int64_t bounds_us[BUCKETS] = {
    500, 1000, 2500, 10000, 50000, 250000, 1000000, 10000000
};

typedef struct row {
    _Atomic(const cay__route *) route;
    _Atomic(const cay__dialect *) dialect;
    _Atomic uint64_t classes[CLASSES]; /* 1xx to 5xx */
    _Atomic uint64_t buckets[BUCKETS], us, bytes;
} row;

struct cay__metrics {
    row rows[ROWS]; /* by the route's address; the last one for all that have no route or no place
                     */
};

struct cay__metrics *cay__metrics_new(void)
{
    return cay__alloc(sizeof(struct cay__metrics));
}

void cay__metrics_free(struct cay__metrics *m)
{
    free(m);
}

static row *row_of(struct cay__metrics *m, const cay__dialect *d, const cay__route *route)
{
    size_t at = ((uintptr_t)route / sizeof *route) % (ROWS - 1);
    for (size_t i = 0; route && i < ROWS - 1; i++) {
        row *x = &m->rows[(at + i) % (ROWS - 1)];
        const cay__route *there = NULL;
        if (atomic_load(&x->route) == route)
            return x;
        if (atomic_compare_exchange_strong(&x->route, &there, route)) {
            atomic_store(&x->dialect, d);
            return x;
        }
        if (there == route)
            return x;
    }
    return &m->rows[ROWS - 1];
}

void cay__metrics_request(struct cay__metrics *m, const cay__dialect *d, const cay__route *route,
                          int status, uint64_t bytes, int64_t us)
{
    row *x = row_of(m, d, route);
    int class = CAY_MIN(CAY_MAX(status / 100, 1), CLASSES) - 1;
    atomic_fetch_add_explicit(&x->classes[class], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&x->us, (uint64_t)CAY_MAX(us, 0), memory_order_relaxed);
    atomic_fetch_add_explicit(&x->bytes, bytes, memory_order_relaxed);
    for (size_t i = 0; i < BUCKETS; i++)
        if (us <= bounds_us[i]) {
            atomic_fetch_add_explicit(&x->buckets[i], 1, memory_order_relaxed);
            break;
        }
}

/* Paths and methods of our own tables: nothing in them needs an escape. */
static void write_labels(cay__buf *b, const char *figure, const row *x)
{
    const cay__route *route = x->route;
    const cay__dialect *d = x->dialect;
    if (route && d)
        cay__buf_fmt(b, "%s{dialect=\"%s\",method=\"%s\",route=\"%s%s\"", figure, d->name,
                     route->op->method, CAY_OR(d->base, ""), CAY_OR(route->op->path, "/*"));
    else
        cay__buf_fmt(b, "%s{dialect=\"\",method=\"\",route=\"\"", figure);
}

static uint64_t sum_classes(const row *x)
{
    uint64_t n = 0;
    CAY_EACH_OF(class_, x->classes, CLASSES)
        n += *class_;
    return n;
}

static void print_times(const row *x, cay__buf *out)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < BUCKETS; i++) {
        sum += x->buckets[i];
        write_labels(out, "cay_http_request_seconds_bucket", x);
        cay__buf_fmt(out, ",le=\"%g\"} %" PRIu64 "\n", (double)bounds_us[i] / 1e6, sum);
    }
    write_labels(out, "cay_http_request_seconds_bucket", x);
    cay__buf_fmt(out, ",le=\"+Inf\"} %" PRIu64 "\n", sum_classes(x));
    write_labels(out, "cay_http_request_seconds_sum", x);
    cay__buf_fmt(out, "} %.6f\n", (double)x->us / 1e6);
    write_labels(out, "cay_http_request_seconds_count", x);
    cay__buf_fmt(out, "} %" PRIu64 "\n", sum_classes(x));
}

void cay__metrics_print(const struct cay__metrics *m, cay__buf *out)
{
    cay__buf_str(out, "# HELP cay_http_requests_total Requests that were answered, by route and "
                      "class of status.\n# TYPE cay_http_requests_total counter\n");
    CAY_EACH_OF(item, m->rows, ROWS)
        for (size_t k = 0; k < CLASSES; k++)
            if (item->classes[k]) {
                write_labels(out, "cay_http_requests_total", item);
                cay__buf_fmt(out, ",status=\"%zuxx\"} %" PRIu64 "\n", k + 1,
                             (uint64_t)item->classes[k]);
            }
    cay__buf_str(out, "# HELP cay_http_response_bytes_total Bytes of bodies that were sent.\n# "
                      "TYPE cay_http_response_bytes_total counter\n");
    CAY_EACH_OF(it, m->rows, ROWS)
        if (sum_classes(it)) {
            write_labels(out, "cay_http_response_bytes_total", it);
            cay__buf_fmt(out, "} %" PRIu64 "\n", (uint64_t)it->bytes);
        }
    cay__buf_str(out, "# HELP cay_http_request_seconds From a request's head to the end of its "
                      "answer.\n# TYPE cay_http_request_seconds histogram\n");
    CAY_EACH_OF(one, m->rows, ROWS)
        if (sum_classes(one))
            print_times(one, out);
}
