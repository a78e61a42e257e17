/* SPDX-License-Identifier: Apache-2.0 */
/* What was used in the past day: of one sandbox, or of all that ran. The server looks every few
 * seconds and keeps it on disk: server/history.h. */
#include "native.h"
#include <base/base.h>
#include <base/fd.h>
#include <server/history.h>

enum { HOUR_MS = 3600000 };

typedef struct point {
    int64_t time_ms;
    uint64_t cpu_milli, memory, disk, net_rx, net_tx;
} point;
static const cay__field point_fields[] = {
    { "time_ms", CAY__F_I64, offsetof(point, time_ms) },
    { "cpu_milli", CAY__F_U64, offsetof(point, cpu_milli),
      .about = "thousandths of a CPU, since the moment before" },
    { "memory", CAY__F_U64, offsetof(point, memory) },
    { "disk", CAY__F_U64, offsetof(point, disk) },
    { "net_rx", CAY__F_U64, offsetof(point, net_rx),
      .about = "bytes a second that came in, since the moment before" },
    { "net_tx", CAY__F_U64, offsetof(point, net_tx),
      .about = "bytes a second that left, likewise" },
};
static const cay__shape point_shape =
    CAY__SHAPE("UsagePoint", point, point_fields, "what was used at a moment");

static void add_point(const cay__moment *m, const cay__pace *pace, void *arg)
{
    cay__items_add(arg, &(point){ m->ms, (uint64_t)(pace->cpu * 10), m->memory, m->disk,
                                  (uint64_t)pace->net_rx, (uint64_t)pace->net_tx });
}

static int reply_past(cay__req *r, const char *id, cay_err *err)
{
    uint64_t since, until;
    cay__items l;
    CAY_AUTOFD dir = -1;
    int64_t now = cay__clock_ms();
    CAY_TRY(cay__req_number(r, "since_ms", (uint64_t)(now - HOUR_MS), INT64_MAX, &since, err));
    CAY_TRY(cay__req_number(r, "until_ms", (uint64_t)now, INT64_MAX, &until, err));
    CAY_TRY(cay__history_dir(r->client, &dir, err));
    cay__items_begin(&l, r, &point_shape);
    cay__history_read(dir, id, (int64_t)since, (int64_t)until, add_point, &l);
    return cay__items_reply(&l, 200, err);
}

static const cay__query past_query[] = {
    { "since_ms", "integer", "from then on; an hour ago unless told, and a day is kept" },
    { "until_ms", "integer", "until then; now" },
    { NULL },
};
const cay__doc cay__doc_sandbox_past = {
    "listUsage", "sandboxes", "what it used, oldest first; at most 1,000 points, evenly",
    .query = past_query, .answers = { { 200, &point_shape, .list = true }, { 400 }, { 404 } }
};
int cay__on_sandbox_past(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    CAY_TRY(cay__native_sandbox(r, &sb, err));
    return reply_past(r, cay_sandbox_id(sb), err);
}

const cay__doc cay__doc_host_past = {
    "listHostUsage", "about", "what all running sandboxes together used", .query = past_query,
    .answers = { { 200, &point_shape, .list = true }, { 400 }, { 403 } }
};
int cay__on_host_past(cay__req *r, cay_err *err)
{
    return reply_past(r, CAY__HISTORY_ALL, err);
}
