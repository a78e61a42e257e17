/* SPDX-License-Identifier: Apache-2.0 */
/* cay top: what sandboxes use, live. */
#include "main.h"
#include "out.h"
#include "show.h"
#include "pump.h"
#include <base/base.h>
#include <inttypes.h>
#include <poll.h>
#include <wire/shapes.h>

enum { MOST = 512, FIRST_MS = 200 };

typedef struct top_args {
    bool once;
    uint64_t delay_ms;
} top_args;

static const opt_def defs[] = {
    OPT_FLAG("-1, --once", "print once and leave (the default when not on a terminal)", top_args,
             once),
    OPT_MS("-d, --delay TIME", "time between two looks (default 1s)", top_args, delay_ms, 100,
           3600000),
    OPT_END
};

typedef struct row {
    char id[CAY_ID_LEN + 1], name[64];
    cay_level level;
    cay_state state;
    uint64_t memory_limit;
    int64_t created_ms, at_us;
    cay_usage now;
    uint64_t cpu_milli; /* of the last interval */
} row;

typedef struct sample {
    row v[MOST];
    size_t n;
} sample;

static int on_info(const cay_info *i, void *arg)
{
    sample *s = arg;
    if (s->n == MOST)
        return 0;
    row *r = &s->v[s->n++];
    *r = (row){ .level = i->level,
                .state = i->state,
                .memory_limit = i->limits.memory,
                .created_ms = i->created_ms };
    CAY_COPY(r->id, i->id);
    CAY_COPY(r->name, cay__text_or(i->name, "-"));
    return 0;
}

/* The CPU time since the sample before, as thousandths of one CPU. */
static void compute_rate(row *r, const sample *before)
{
    for (size_t i = 0; before && i < before->n; i++) {
        const row *b = &before->v[i];
        if (strcmp(b->id, r->id) || r->at_us <= b->at_us || r->now.cpu_us < b->now.cpu_us)
            continue;
        r->cpu_milli = (r->now.cpu_us - b->now.cpu_us) * 1000 / (uint64_t)(r->at_us - b->at_us);
    }
}

static bool is_wanted(const row *r, int argc, char **argv)
{
    CAY_EACH_OF(it, argv, argc)
        if (cay__str_starts(r->id, *it) || !strcmp(r->name, *it))
            return true;
    return argc == 0;
}

static int collect_sample(cay_client *client, int argc, char **argv, const sample *before,
                          sample *s, cay_err *err)
{
    const cay_filter f = { .size = sizeof f, .states = 1u << CAY_RUNNING | 1u << CAY_PAUSED };
    size_t kept = 0;
    s->n = 0;
    CAY_TRY(cay_client_list(client, NULL, &f, on_info, s, err));
    CAY_EACH_OF(r, s->v, s->n) {
        cay_sandbox *sb = NULL;
        if (!is_wanted(r, argc, argv) || cay_client_find(client, NULL, r->id, &sb, NULL) < 0)
            continue;
        r->now.size = sizeof r->now;
        r->at_us = cay__now_us();
        /* One that ends between the list and the look is left out. */
        if (cay_sandbox_usage(sb, NULL, &r->now, NULL) >= 0) {
            compute_rate(r, before);
            s->v[kept++] = *r;
        }
        cay_sandbox_unref(sb);
    }
    s->n = kept;
    return 0;
}

static void to_table(const sample *s, out_table *t)
{
    int64_t now = cay__clock_ms();
    out_table_open(t, "ID|NAME|STATE|WALL|>CPU|>MEMORY|>LIMIT|>PEAK|>PIDS|>DISK|>AGE");
    CAY_EACH_OF(r, s->v, s->n) {
        bool tight = r->memory_limit && r->memory_limit != CAY_UNLIMITED &&
                     r->now.memory > r->memory_limit / 10 * 9;
        out_row(t, "*%s|%s|%c%s|%s|%c%ju.%ju%s|%c%s|~%s|%s|%ju|%s|%s", r->id, r->name,
                show_state_style(r->state), cay_state_name(r->state), cay_level_name(r->level),
                r->cpu_milli > 900 ? OUT_WARN : OUT_PLAIN, r->cpu_milli / 10, r->cpu_milli % 10,
                "%", tight ? OUT_BAD : OUT_PLAIN, out_size(r->now.memory).s,
                out_size(r->memory_limit).s, out_size(r->now.memory_peak).s, r->now.pids,
                out_size(r->now.disk).s, out_age(now - r->created_ms).s);
    }
}

static void to_json(const sample *s)
{
    out_json j = js_begin(true, '[');
    CAY_EACH_OF(r, s->v, s->n) {
        js_open(&j, '{');
        js_put(&j, "id:%s, state:%s, " CAY__CPU_MILLI ":%ju, memory_limit=%s", r->id,
               cay_state_name(r->state), r->cpu_milli, js_limit(r->memory_limit).s);
        show_members(&j, &cay__usage_shape, &r->now);
        js_close(&j, '}');
    }
    js_end(&j, ']');
}

static void print_once(const sample *s)
{
    out_table t;
    if (cli.json) {
        to_json(s);
        return;
    }
    to_table(s, &t);
    out_table_print(&t);
}

/* One screen: home, each line wiped to its end, the rest wiped. The terminal is raw, so lines end
 * in CR LF. */
static void draw_screen(const sample *s)
{
    out_table t;
    uint16_t cols, rows;
    CAY_AUTOBUF text = CAY__BUF(4u << 20);
    CAY_AUTOBUF screen = CAY__BUF(8u << 20);
    term_size(1, &cols, &rows);
    to_table(s, &t);
    out_table_text(&t, &text);
    out_table_close(&t);
    cay__buf_fmt(&screen, "\033[H%scay top%s  %s  %zu sandbox%s  q leaves\033[K\r\n",
                 out_on(1, OUT_TITLE), out_off(1), out_time(cay__clock_ms()).s, s->n,
                 out_plural(s->n, "es"));
    unsigned line = 1;
    for (char *p = text.data, *end; p && *p && line + 1 < rows; p = end + 1, line++) {
        end = strchr(p, '\n');
        cay__buf_add(&screen, p, (size_t)(end - p));
        cay__buf_str(&screen, "\033[K\r\n");
    }
    cay__buf_str(&screen, "\033[J");
    out_write(screen.data, screen.len);
}

/* true: the user wants to leave. */
static bool key_within(uint64_t ms)
{
    struct pollfd p = { .fd = 0, .events = POLLIN };
    char c;
    if (poll(&p, 1, (int)ms) <= 0)
        return false;
    return read(0, &c, 1) != 1 || c == 'q' || c == 'Q' || c == 3 || c == 4;
}

static int show_live(cay_client *client, int argc, char **argv, uint64_t delay, sample *a,
                     sample *b, cay_err *err)
{
    int rc = 0;
    if (!term_raw(0))
        return cay_fail_sys(err, "terminal");
    out_str("\033[?1049h\033[?25l"); /* the other screen, no cursor */
    for (;;) {
        sample *t = a;
        rc = collect_sample(client, argc, argv, b, a, err);
        if (rc < 0)
            break;
        draw_screen(a);
        if (out_broken() || key_within(delay))
            break;
        a = b;
        b = t;
    }
    out_str("\033[?25h\033[?1049l");
    term_restore();
    return rc;
}

static int run_top(cli_call *c, cay_err *err)
{
    const top_args *args = c->opts;
    bool once = args->once || cli.json || !isatty(0) || !isatty(1);
    CAY_AUTOFREE sample *a = cay__alloc(sizeof *a);
    CAY_AUTOFREE sample *b = cay__alloc(sizeof *b);
    int rc = 0;
    if (rc >= 0 && !once)
        rc = show_live(c->client, c->argc, c->argv, CAY_OR(args->delay_ms, 1000), a, b, err);
    if (rc >= 0 && once) {
        rc = collect_sample(c->client, c->argc, c->argv, NULL, a, err);
        if (rc >= 0 && a->n) /* a rate needs two looks */
            poll(NULL, 0, FIRST_MS);
        if (rc >= 0)
            rc = collect_sample(c->client, c->argc, c->argv, a, b, err);
        if (rc >= 0)
            print_once(b);
    }
    return rc;
}

const cli_verb cli_top = {
    "top",
    "[-d TIME] [--once] [ID…]",
    "show what running sandboxes use, live",
    .examples = "  cay top\n"
                "  cay top --once | sort -k5 -n\n"
                "  cay top --json",
    CLI_OPTS(defs, top_args),
    .max = CLI_ANY,
    .needs = CLI_CLIENT,
    .fn = run_top,
};
