/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What it is busy with, on the last line, as long as nothing else is there to be shown: a thread
 * draws it again, so that it moves while the talk waits for a model or a command. Whoever wants to
 * write takes the line away first: spin_end().
 */
#include "chat.h"
#include <base/base.h>
#include <cli/pump.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

enum { EVERY_MS = 120, HINT_MS = 2000 };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool started, on;
    int64_t since;
    unsigned step;
    size_t width; /* columns that stand there, 0: none */
    char what[64];
} spinner = { .lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER };

/* With the lock. A terminal that became narrower has broken the line: all of its parts go. */
static void erase_line(cay__buf *b, uint16_t cols)
{
    size_t rows = 0;
    if (spinner.width)
        rows = (spinner.width - 1) / CAY_MAX(cols, (uint16_t)1);
    if (rows)
        cay__buf_fmt(b, "\033[%zuA", rows);
    cay__buf_str(b, rows ? "\r\033[J" : "\r\033[K");
    spinner.width = 0;
}

static void draw_spinner(void)
{
    static const char *const frames[] = { "⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏" };
    CAY_AUTOBUF b = CAY__BUF(1024);
    uint16_t cols, rows;
    char rest[64] = "";
    int64_t ms = cay__now_ms() - spinner.since;
    term_size(1, &cols, &rows);
    if (spinner.width)
        erase_line(&b, cols);
    if (ms >= 1000)
        CAY_FORMAT(rest, " %lld s%s", (long long)(ms / 1000),
                   ms >= HINT_MS ? " · Ctrl+C interrupts" : "");
    size_t room = cols > 4 ? cols - 3u : 1, what = CAY_MIN(strlen(spinner.what), room),
           more = strlen(rest) - 2 * (strstr(rest, "·") != NULL) + (strstr(rest, "·") != NULL);
    bool fits = what + more <= room;
    cay__buf_fmt(&b, "%s%s %s%s%.*s%s%s", out_on(1, OUT_TITLE),
                 frames[spinner.step++ % CAY_LEN(frames)], out_off(1), out_on(1, OUT_DIM),
                 (int)what, spinner.what, fits ? rest : "", out_off(1));
    spinner.width = 2 + what + (fits ? more : 0);
    cay__fd_write_all(1, b.data, b.len);
}

static void *run_spinner(void *arg)
{
    pthread_mutex_lock(&spinner.lock);
    for (;;) {
        struct timespec until;
        if (!spinner.on) {
            pthread_cond_wait(&spinner.wake, &spinner.lock);
            continue;
        }
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += EVERY_MS * 1000000l;
        until.tv_sec += until.tv_nsec / 1000000000l;
        until.tv_nsec %= 1000000000l;
        pthread_cond_timedwait(&spinner.wake, &spinner.lock, &until);
        if (spinner.on)
            draw_spinner();
    }
    return NULL;
}

static void start_thread(void)
{
    sigset_t all, old;
    pthread_t t;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* Ctrl+C is for the talk */
    spinner.started = pthread_create(&t, &attr, run_spinner, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
}

void spin_begin(const char *what)
{
    pthread_mutex_lock(&spinner.lock);
    if (!spinner.started)
        start_thread();
    CAY_FORMAT(spinner.what, "%s", what);
    spinner.on = true;
    spinner.since = cay__now_ms();
    draw_spinner();
    pthread_cond_signal(&spinner.wake);
    pthread_mutex_unlock(&spinner.lock);
}

void spin_end(void)
{
    CAY_AUTOBUF b = CAY__BUF(64);
    uint16_t cols, rows;
    pthread_mutex_lock(&spinner.lock);
    term_size(1, &cols, &rows);
    if (spinner.width)
        erase_line(&b, cols);
    spinner.on = false;
    pthread_mutex_unlock(&spinner.lock);
    if (b.len)
        cay__fd_write_all(1, b.data, b.len);
}
