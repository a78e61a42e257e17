/* SPDX-License-Identifier: Apache-2.0 */
/* GET /console/sample: what every running sandbox uses at this moment, in one answer; the console
 * draws its chart and plots from it. */
#include <server/http/connection.h>
#include "console.h"
#include <base/base.h>
#include <inttypes.h>
#include <sys/sysinfo.h>

enum { BOXES = 2000 };

typedef struct ids {
    cay__req *r;
    const char *id[BOXES];
    size_t n;
} ids;

static int take_id(const cay_info *i, void *arg)
{
    ids *l = arg;
    if (l->n < BOXES)
        l->id[l->n++] = cay__arena_str(&l->r->arena, i->id);
    return 0;
}

static void put_box(cay__req *r, const char *id, cay__buf *b)
{
    cay_sandbox *sb = NULL;
    cay_usage u = { .size = sizeof u };
    if (cay_client_find_of(r->client, &r->call, NULL, id, &sb, NULL) < 0)
        return;
    if (cay_sandbox_usage(sb, &r->call, &u, NULL) == 0)
        cay__buf_fmt(b,
                     "%s{\"id\":\"%s\",\"cpu_us\":%" PRIu64 ",\"memory\":%" PRIu64
                     ",\"pids\":%" PRIu64 ",\"disk\":%" PRIu64 ",\"net_rx\":%" PRIu64
                     ",\"net_tx\":%" PRIu64 "}",
                     b->data[b->len - 1] == '[' ? "" : ",", id, u.cpu_us, u.memory, u.pids, u.disk,
                     u.net_rx, u.net_tx);
    cay_sandbox_unref(sb);
}

static uint64_t read_available_memory(void)
{
    char text[1024];
    uint64_t kb = 0;
    const char *at = cay__fd_read_file(-100 /* AT_FDCWD */, "/proc/meminfo", text, sizeof text) > 0
                         ? strstr(text, "MemAvailable:")
                         : NULL;
    if (at)
        sscanf(at, "MemAvailable: %" SCNu64, &kb);
    return kb << 10;
}

int cay__on_sample(cay__req *r, cay_err *err)
{
    CAY_AUTOBUF b = CAY__BUF(4u << 20);
    struct sysinfo host;
    ids *l = cay__arena_take(&r->arena, sizeof *l);
    cay_filter f = { .size = sizeof f, .tenant = cay__req_tenant(r), .states = 1u << CAY_RUNNING };
    *l = (ids){ .r = r };
    CAY_TRY(cay_client_list(r->client, &r->call, &f, take_id, l, err));
    sysinfo(&host);
    cay__buf_fmt(&b,
                 "{\"time_ms\":%" PRId64 ",\"cpus\":%ld,\"memory\":%" PRIu64
                 ",\"memory_free\":%" PRIu64 ",\"uptime_s\":%ld,\"items\":[",
                 cay__clock_ms(), sysconf(_SC_NPROCESSORS_ONLN),
                 (uint64_t)host.totalram * host.mem_unit, read_available_memory(), host.uptime);
    CAY_EACH_OF(it, l->id, l->n)
        put_box(r, *it, &b);
    cay__buf_str(&b, "]}");
    return cay__reply(r, 200, "application/json", b.data, b.len);
}
