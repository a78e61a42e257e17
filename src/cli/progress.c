/* SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"
#include "cli.h"
#include "out.h"
#include "term.h"
#include <base/base.h>
#include <base/fd.h>
#include <stdio.h>

enum { EVERY_MS = 100, SILENT_MS = 300 };

void progress_begin(cli_progress *p, const char *what, uint64_t total)
{
    *p = (cli_progress){ .what = what, .total = total, .began_ms = cay__now_ms() };
    p->on = isatty(2) && !cli.quiet && !cli.json;
    p->shown_ms = p->began_ms + SILENT_MS - EVERY_MS; /* quick copies show nothing at all */
}

static void draw_progress(cli_progress *p, int64_t now)
{
    enum { BAR = 24 };
    char done[OUT_HUMAN], total[OUT_HUMAN], speed[OUT_HUMAN], bar[BAR + 1];
    uint64_t per_s = p->done * 1000 / (uint64_t)CAY_MAX(now - p->began_ms, 1);
    CAY_AUTOBUF b = CAY__BUF(1024);
    cay__buf_fmt(&b, "\r\033[K");
    if (p->total) {
        uint64_t full = BAR;
        if (p->done < p->total)
            full = (uint64_t)((double)p->done / (double)p->total * BAR);
        for (unsigned i = 0; i < BAR; i++) {
            if (i < full)
                bar[i] = '#';
            else
                bar[i] = '.';
        }
        bar[BAR] = 0;
        cay__buf_fmt(&b, "[%s] %s of %s", bar, out_size(done, p->done), out_size(total, p->total));
    } else {
        cay__buf_str(&b, out_size(done, p->done));
    }
    cay__buf_fmt(&b, "  %s/s  ", out_size(speed, per_s));
    cay__buf_safe(&b, p->what, CAY_MIN(strlen(p->what), 30), false);
    cay__fd_write_all(2, b.data, b.len);
}

void progress_add(cli_progress *p, uint64_t bytes)
{
    progress_at(p, p->done + bytes, p->total);
}

void progress_at(cli_progress *p, uint64_t done, uint64_t total)
{
    p->done = done;
    p->total = total;
    if (!p->on)
        return;
    int64_t now = cay__now_ms();
    if (now - p->shown_ms < EVERY_MS)
        return;
    p->shown_ms = now;
    draw_progress(p, now);
}

void progress_end(cli_progress *p)
{
    if (p->on && p->shown_ms > p->began_ms + SILENT_MS - EVERY_MS)
        cay__fd_write_all(2, "\r\033[K", 4);
    p->on = false;
}
