/* SPDX-License-Identifier: Apache-2.0 */
#include "show.h"
#include "out.h"
#include "pump.h"
#include <base/base.h>
#include <signal.h>
#include <time.h>

enum { SILENT_MS = 1000, TICK_MS = 250 };

out_text build_took(int64_t ms)
{
    out_text text;
    if (ms < 1000)
        CAY_FORMAT(text.s, "%d ms", (int)CAY_MAX(ms, 0));
    else if (ms < 60000)
        CAY_FORMAT(text.s, "%.1f s", (double)ms / 1000);
    else
        CAY_FORMAT(text.s, "%jd min %d s", CAY_MIN(ms / 60000, 9999999), (int)(ms / 1000 % 60));
    return text;
}

static void erase_line(build_show *v)
{
    if (v->drawn)
        cay__fd_write_all(v->fd, "\r\033[K", 4);
    v->drawn = false;
}

static void draw_status(build_show *v, int64_t now)
{
    CAY_AUTOBUF b = CAY__BUF(2048);
    uint16_t cols, rows;
    term_size(v->fd, &cols, &rows);
    out_text span = build_took(now - v->since_ms);
    size_t head = strlen(span.s) + 4, room = cols > head + 4 ? cols - head - 2 : 0;
    cay__buf_fmt(&b, "\r\033[K%s  %s  ", out_on(v->fd, OUT_DIM), span.s);
    /* Cut in bytes: what is not ASCII takes no more columns than it has bytes. */
    size_t n = CAY_MIN(strlen(v->title), room);
    while (n && (v->title[n] & 0xc0) == 0x80)
        n--;
    cay__buf_safe(&b, v->title, n, false);
    cay__buf_str(&b, out_off(v->fd));
    if (!b.full)
        v->drawn = cay__fd_write_all(v->fd, b.data, b.len);
}

static void *run_ticker(void *arg)
{
    build_show *v = arg;
    pthread_mutex_lock(&v->lock);
    while (!v->stop) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += TICK_MS * 1000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&v->wake, &v->lock, &until);
        int64_t now = cay__clock_ms();
        if (!v->stop && v->step && now - v->last_ms >= SILENT_MS)
            draw_status(v, now);
    }
    pthread_mutex_unlock(&v->lock);
    return NULL;
}

/* What steps print is escaped: a file that is built may come from anybody. */
static void write_line(const build_show *v, out_style style, const char *before, const char *text,
                       size_t len)
{
    CAY_AUTOBUF b = CAY__BUF(64u << 10);
    if (style != OUT_PLAIN)
        cay__buf_str(&b, out_on(v->fd, style));
    cay__buf_str(&b, before);
    cay__buf_safe(&b, text, len, false);
    if (style != OUT_PLAIN)
        cay__buf_str(&b, out_off(v->fd));
    cay__buf_str(&b, "\n");
    if (!b.full)
        cay__fd_write_all(v->fd, b.data, b.len);
}

static void step_over(build_show *v, int64_t now)
{
    char text[96];
    if (!v->step)
        return;
    int n =
        CAY_FORMAT(text, "[%u/%u] done in %s", v->step, v->steps, build_took(now - v->since_ms).s);
    write_line(v, OUT_DIM, "", text, (size_t)n);
    v->step = 0;
}

static void begin_step(build_show *v, const cay_build_event *e)
{
    char head[48];
    step_over(v, e->time_ms);
    CAY_FORMAT(head, "[%u/%u] %s", e->step, e->steps, e->cached ? "cached: " : "");
    write_line(v, e->cached ? OUT_DIM : OUT_BOLD, head, e->text, e->len);
    if (e->cached)
        return;
    v->step = e->step;
    v->steps = e->steps;
    v->since_ms = e->time_ms;
    CAY_FORMAT(v->title, "%.*s", (int)CAY_MIN(e->len, sizeof v->title - 1), e->text);
}

void build_show_event(build_show *v, const cay_build_event *e)
{
    if (v->live)
        pthread_mutex_lock(&v->lock);
    erase_line(v);
    v->last_ms = cay__clock_ms();
    switch (e->kind) {
    case CAY_BUILD_STEP: begin_step(v, e); break;
    case CAY_BUILD_WARN: write_line(v, OUT_WARN, "warning: ", e->text, e->len); break;
    case CAY_BUILD_FAIL:
        v->step = 0;
        if (!v->live) /* a build that runs tells it as every error is told */
            write_line(v, OUT_BAD, "", e->text, e->len);
        break;
    default:
        write_line(v, OUT_PLAIN, v->tty && e->kind != CAY_BUILD_NOTE ? "  " : "", e->text, e->len);
    }
    if (v->live)
        pthread_mutex_unlock(&v->lock);
}

void build_show_open(build_show *v, int fd, bool live)
{
    sigset_t all, old;
    *v = (build_show){ .fd = fd,
                       .tty = isatty(fd),
                       .live = live,
                       .last_ms = cay__clock_ms(),
                       .lock = PTHREAD_MUTEX_INITIALIZER,
                       .wake = PTHREAD_COND_INITIALIZER,
                       .stop = true };
    if (!live || !v->tty)
        return;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* an interrupt is the build's */
    v->stop = false;
    v->stop = pthread_create(&v->thread, NULL, run_ticker, v) != 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void build_show_close(build_show *v)
{
    pthread_mutex_lock(&v->lock);
    bool join = !v->stop;
    v->stop = true;
    pthread_cond_signal(&v->wake);
    pthread_mutex_unlock(&v->lock);
    if (join)
        pthread_join(v->thread, NULL);
    erase_line(v);
    if (v->live)
        step_over(v, cay__clock_ms());
}

void build_show_json(const cay_build_event *e)
{
    out_json j = js_begin(false, '{');
    js_put(&j, "time_ms:%jd, kind:%s, step:%u, steps:%u", e->time_ms, cay_build_event_name(e->kind),
           e->step, e->steps);
    if (e->kind == CAY_BUILD_STEP)
        js_put(&j, "cached?%d", e->cached);
    js_key(&j, "text");
    js_bytes(&j, e->text, e->len);
    js_end(&j, '}');
}
