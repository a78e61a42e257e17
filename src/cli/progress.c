/* SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"
#include "cli.h"
#include "out.h"
#include "pump.h"
#include <base/base.h>
#include <poll.h>
#include <signal.h>

enum { EVERY_MS = 100, SILENT_MS = 300, WAIT_MS = 1000, BAR = 24, MARK = 5 };

/* "[..####..]": marks from `from` to before `to`. */
static void draw_bar(cay__buf *b, uint64_t from, uint64_t to)
{
    char bar[BAR + 1] = "";
    memset(bar, '.', BAR);
    memset(bar + from, '#', to - from);
    cay__buf_fmt(b, "[%s] ", bar);
}

void progress_begin(cli_progress *p, const char *what, uint64_t total)
{
    *p = (cli_progress){ .what = what, .total = total, .began_ms = cay__now_ms() };
    p->on = isatty(2) && !cli.quiet && !cli.json;
    p->shown_ms = p->began_ms + SILENT_MS - EVERY_MS; /* quick copies show nothing at all */
}

static void draw_progress(cli_progress *p, int64_t now)
{
    uint64_t per_s = p->done * 1000 / (uint64_t)CAY_MAX(now - p->began_ms, 1);
    CAY_AUTOBUF b = CAY__BUF(1024);
    cay__buf_fmt(&b, "\r\033[K");
    if (p->total) {
        uint64_t full = BAR;
        if (p->done < p->total)
            full = (uint64_t)((double)p->done / (double)p->total * BAR);
        draw_bar(&b, 0, full);
        cay__buf_fmt(&b, "%s of %s", out_size(p->done).s, out_size(p->total).s);
    } else {
        cay__buf_str(&b, out_size(p->done).s);
    }
    cay__buf_fmt(&b, "  %s/s  ", out_size(per_s).s);
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

static void draw_waiting(const cli_waiting *w, int64_t ms, unsigned step)
{
    unsigned at = step % (2 * (BAR - MARK)); /* there and back */
    if (at >= BAR - MARK)
        at = 2 * (BAR - MARK) - at;
    CAY_AUTOBUF b = CAY__BUF(1024);
    cay__buf_str(&b, "\r\033[K");
    draw_bar(&b, at, at + MARK);
    cay__buf_fmt(&b, "%lld.%lld s  %s ", (long long)ms / 1000, (long long)ms / 100 % 10, w->verb);
    cay__buf_safe(&b, w->what, CAY_MIN(strlen(w->what), 30), false);
    cay__fd_write_all(2, b.data, b.len);
}

static void *run_waiting(void *arg)
{
    const cli_waiting *w = arg;
    int64_t began = cay__now_ms();
    struct pollfd p = { .fd = w->end[0], .events = POLLIN };
    unsigned step = 0;
    for (int wait = WAIT_MS; poll(&p, 1, wait) == 0; wait = EVERY_MS)
        draw_waiting(w, cay__now_ms() - began, step++);
    if (step)
        cay__fd_write_all(2, "\r\033[K", 4);
    return NULL;
}

void waiting_begin(cli_waiting *w, const char *verb, const char *what)
{
    sigset_t all, old;
    *w = (cli_waiting){ .verb = verb, .what = what, .end = { -1, -1 } };
    if (!isatty(2) || cli.quiet || cli.json || pipe2(w->end, O_CLOEXEC) < 0)
        return;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are the command's */
    w->on = pthread_create(&w->thread, NULL, run_waiting, w) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void waiting_end(cli_waiting *w)
{
    cay__close_fd(&w->end[1]);
    if (w->on)
        pthread_join(w->thread, NULL);
    cay__close_fd(&w->end[0]);
    w->on = false;
}
