/* SPDX-License-Identifier: Apache-2.0 */
/* cay trace: what a run or a request did, and when, as a waterfall. */
#include "main.h"
#include "out.h"
#include "pump.h"
#include "trace.h"
#include <base/base.h>
#include <cay/policy.h>
#include <inttypes.h>

typedef struct trace_args {
    bool list;
    uint64_t width;
} trace_args;

static const opt_def defs[] = {
    OPT_FLAG("-l, --list", "list the traces of the file instead", trace_args, list),
    OPT_NUM("-w, --width N", "columns; those of the terminal unless told", trace_args, width, 40,
            1000),
    OPT_END
};

static out_text format_duration(int64_t us)
{
    out_text text;
    if (us < 10000)
        CAY_FORMAT(text.s, "%.2f ms", (double)us / 1e3);
    else if (us < 10000000)
        CAY_FORMAT(text.s, "%.0f ms", (double)us / 1e3);
    else
        CAY_FORMAT(text.s, "%.1f s", (double)us / 1e6);
    return text;
}

static void list_traces(const traces *t)
{
    out_list r;
    out_list_open(&r, "TRACE|BEGAN|>TOOK|>SPANS|>FAILED|NAME");
    CAY_EACH_OF(o, t->v, t->n) {
        if (cli.json) {
            js_object(&r.json,
                      "trace:%s, name:%s, began_us:%jd, took_us:%jd, spans:%ju, failed:%ju", o->id,
                      o->name, o->from_us, o->to_us - o->from_us, o->spans, o->failed);
        } else if (!out_list_name(o->id)) {
            out_row(&r.table, "*%s|%s|%s|%zu|%c%zu|%s", o->id, out_time(o->from_us / 1000).s,
                    format_duration(o->to_us - o->from_us).s, o->spans,
                    o->failed ? OUT_BAD : OUT_DIM, o->failed, o->name);
        }
    }
    out_list_close(&r, true);
}

static void print_reached(const trace_tree *t, const trace_span *s, size_t in, out_json *json);

static void print_json(const trace_tree *t)
{
    out_json j = js_begin(true, '[');
    for (size_t i = 0; i < t->n; i++) {
        const trace_span *s = &t->v[i];
        js_open(&j, '{');
        js_put(&j, "id:%s, depth:%u, name:%s, type:%s, after_us:%jd, took_us:%jd, error:%s", s->id,
               s->depth, s->name, s->type, s->from_us - t->from_us, s->to_us - s->from_us,
               s->error);
        if (*s->process) {
            js_put(&j, "process:%s, reached:[", s->process);
            print_reached(t, s, 0, &j);
            js_close(&j, ']');
        }
        js_close(&j, '}');
    }
    js_end(&j, ']');
}

/* Where a moment stands on a bar of `width` cells, in eighths of a cell. */
static size_t compute_eighths(const trace_tree *t, int64_t us, size_t width)
{
    int64_t all = CAY_MAX(t->to_us - t->from_us, (int64_t)1);
    return (size_t)((double)(us - t->from_us) / (double)all * (double)(width * 8));
}

/* How many bytes of a text take at most `room` columns, and how many those are; a character is one.
 */
static size_t fit_text(const char *s, size_t room, size_t *columns)
{
    size_t n = 0;
    for (*columns = 0; s[n]; n++)
        if (((unsigned char)s[n] & 0xc0) != 0x80 && ++*columns > room) {
            --*columns;
            break;
        }
    return n;
}

/* At least an eighth of a cell, so that nothing is invisible. */
static void print_bar(const trace_tree *t, const trace_span *s, size_t width)
{
    static const char *const part[] = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉" };
    size_t from = CAY_MIN(compute_eighths(t, s->from_us, width), width * 8 - 1),
           to = CAY_MIN(compute_eighths(t, s->to_us, width), width * 8);
    size_t cell = from / 8, len = CAY_MAX(to > cell * 8 ? to - cell * 8 : 0, (size_t)1);
    out_fmt("%*s%s", (int)cell, "", out_on(1, s->error ? OUT_BAD : OUT_TITLE));
    for (size_t i = 0; i < len / 8; i++)
        out_str("█");
    out_str(part[len % 8]);
    out_str(out_off(1));
}

static void print_span(const trace_tree *t, const trace_span *s, size_t names, size_t bars)
{
    CAY_AUTOBUF name = CAY__BUF(4096);
    size_t in = CAY_MIN((size_t)s->depth * 2, names / 2), room = names - in, columns;
    cay__buf_safe(&name, s->name, strlen(s->name), false);
    const char *text = CAY_OR(name.data, "");
    size_t bytes = fit_text(text, room, &columns);
    out_fmt("%*s%.*s%*s %10s  ", (int)in, "", (int)bytes, text, (int)(room - columns), "",
            format_duration(s->to_us - s->from_us).s);
    print_bar(t, s, bars);
    if (s->error) {
        out_fmt("  %s", out_on(1, OUT_BAD));
        out_safe("%s", s->error);
        out_str(out_off(1));
    }
    out_str("\n");
}

typedef struct reaching {
    const trace_span *s;
    size_t in;
    out_json *json; /* or NULL */
    unsigned told, more;
} reaching;

enum { REACHED_MOST = 20 };

static int on_reached(const cay_net_record *r, void *arg)
{
    reaching *x = arg;
    const char *host = cay__text_or(r->name, r->address);
    bool told = !strcmp(r->event, "connect") ||
                (!strcmp(r->event, "dns") &&
                 !strcmp(r->verdict, "deny")); /* a name that was refused is never dialled */
    if (strcmp(r->exec, x->s->process) != 0 || !told || !*host)
        return 0;
    if (x->told++ >= REACHED_MOST) {
        x->more++;
        return 0;
    }
    if (x->json) {
        js_object(x->json, "host:%s, port:%u, verdict:%s, time_ms:%jd", host, r->port, r->verdict,
                  r->time_ms);
        return 0;
    }
    out_fmt("%*s%s→ ", (int)x->in, "", out_on(1, strcmp(r->verdict, "allow") ? OUT_BAD : OUT_DIM));
    out_safe("%s", host);
    if (r->port)
        out_fmt(":%u", r->port);
    out_fmt(" %s%s\n", r->verdict, out_off(1));
    return 0;
}

/* By the network log of its sandbox, while that is there; a span of another machine's has none. The
 * first span of a process tells it. */
static void print_reached(const trace_tree *t, const trace_span *s, size_t in, out_json *json)
{
    CAY_AUTOPTR(cay_sandbox) sb = NULL;
    cay_err err = CAY_ERR_INIT;
    for (const trace_span *o = t->v; o < s; o++)
        if (!strcmp(o->process, s->process))
            return;
    reaching x = { s, in, json, 0, 0 };
    if (*s->process && *s->sandbox && cli_boxes->find(s->sandbox, &sb, &err) == 0)
        cay_net_log(sb, on_reached, &x, NULL);
    if (x.more && !json)
        out_fmt("%*s→ %u more\n", (int)in, "", x.more);
}

static void print_tree(const trace_tree *t, size_t width)
{
    size_t names = 12;
    CAY_EACH_OF(it, t->v, t->n)
        names = CAY_MAX(names, strlen(it->name) + 2 * it->depth);
    names = CAY_MIN(names, width * 2 / 5);
    size_t bars = CAY_MAX(width - CAY_MIN(names + 13, width - 10), (size_t)10);
    out_fmt("%strace %s%s  %s, %s, %zu spans\n", out_on(1, OUT_BOLD), t->id, out_off(1),
            out_time(t->from_us / 1000).s, format_duration(t->to_us - t->from_us).s, t->n);
    for (size_t i = 0; i < t->n && !out_broken(); i++) {
        print_span(t, &t->v[i], names, bars);
        print_reached(t, &t->v[i], CAY_MIN((size_t)t->v[i].depth * 2 + 2, names / 2), NULL);
    }
    if (t->left_out)
        out_note("cay: %zu more spans are not shown", t->left_out);
}

static size_t columns_of_terminal(void)
{
    uint16_t cols, lines;
    term_size(1, &cols, &lines);
    return CAY_MAX(cols, (uint16_t)40);
}

static int show_tree(cli_call *c, const traces *all, cay_err *err)
{
    const trace_args *a = c->opts;
    trace_tree tree = { 0 };
    const trace_one *one = traces_find(all, c->argc > 1 ? c->argv[1] : NULL, err);
    if (!one)
        return err->code;
    CAY_TRY(trace_tree_read(c->argv[0], one->id, &tree, err));
    if (cli.json)
        print_json(&tree);
    else
        print_tree(&tree, a->width ? (size_t)a->width : columns_of_terminal());
    trace_tree_free(&tree);
    return CLI_OK;
}

static int show_trace(cli_call *c, cay_err *err)
{
    const trace_args *a = c->opts;
    traces all = { 0 };
    int rc = traces_read(c->argv[0], &all, err);
    if (rc == 0 && a->list)
        list_traces(&all);
    else if (rc == 0)
        rc = show_tree(c, &all, err);
    traces_free(&all);
    return rc;
}

const cli_verb cli_trace = {
    "trace",
    "FILE [TRACE]",
    "show what a run or a request did and when, as a waterfall",
    .text = "FILE is what `cay agent --trace` or `cay serve --trace` wrote. TRACE is the beginning "
            "of an id; without it the newest one.\n"
            "Below a command is what it reached and was refused, where the network log of its "
            "sandbox tells (cay net log).",
    .examples = "  cay agent --trace run.jsonl 'fix the tests' && cay trace run.jsonl\n"
                "  cay trace --list run.jsonl\n"
                "  cay trace run.jsonl 4bf92f",
    .min = 1,
    .max = 2,
    CLI_OPTS(defs, trace_args),
    .fn = show_trace,
};
