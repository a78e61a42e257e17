/* SPDX-License-Identifier: Apache-2.0 */
/* cay tour: a real session, told step by step with its timings. */
#include "main.h"
#include "out.h"
#include <base/base.h>
#include <poll.h>

enum { MEMORY = 64 << 20, COLS = 100, ROWS = 30, TIMEOUT_MS = 200, PAUSE_MS = 150 };

typedef struct tour {
    cay_client *client;
    cay_sandbox *sb;
    cay_info *info;
    char said[400]; /* what the step has to tell */
    unsigned failed;
} tour;

static void format_message(tour *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void format_message(tour *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(t->said, sizeof t->said, fmt, ap);
    va_end(ap);
}

/* Runs a shell line and keeps its first line of output. */
static int line_of(tour *t, const char *line, char *out, size_t cap, cay_exit *ex, cay_err *err)
{
    cay_result r = { .size = sizeof r };
    const char *const argv[] = { "/bin/sh", "-c", line, NULL };
    cay_spawn spec = { .size = sizeof spec, .argv = argv };
    CAY_TRY(cay_sandbox_run(t->sb, NULL, &spec, NULL, 0, 64 << 10, &r, err));
    if (r.out)
        r.out[strcspn(r.out, "\n")] = 0;
    cay__str_copy(out, cap, CAY_OR(r.out, ""));
    if (ex)
        *ex = r.exit;
    cay_result_clear(&r);
    return 0;
}

static bool layer_on(const tour *t, const char *name)
{
    CAY_EACH_OF(wall, t->info->walls, t->info->nwalls)
        if (!strcmp(wall->name, name))
            return !strcmp(wall->state, "on");
    return false;
}

static int step_doctor(tour *t, cay_err *err)
{
    cay_probe *p = NULL;
    size_t on = 0;
    CAY_TRY(cay_client_probe(t->client, cli_provider(), &p, err));
    CAY_EACH_OF(wall, p->walls, p->nwalls)
        on += !strcmp(wall->state, "on");
    format_message(t, "isolation %d (%s), %zu of %zu layers on", p->level, cay_level_name(p->level),
                   on, p->nwalls);
    cay_probe_free(p);
    return 0;
}

static int step_create(tour *t, cay_err *err)
{
    const cay_create spec = { .size = sizeof spec,
                              .provider = cli_provider(),
                              .name = "tour",
                              .limits.memory = MEMORY,
                              .limits.pids = 64,
                              .life.ttl_ms = 600000 };
    CAY_TRY(cay_client_create(t->client, NULL, &spec, &t->sb, err));
    CAY_TRY(cay_sandbox_describe(t->sb, NULL, &t->info, err));
    format_message(t, "%s%s, gone in 10 minutes whatever happens", t->info->id,
                   layer_on(t, "memory-limit") ? ", at most 64 MiB and 64 processes" : "");
    return 0;
}

static int step_exec(tour *t, cay_err *err)
{
    char who[100];
    CAY_TRY(line_of(t, "echo $(id -un) on $(hostname), in $PWD", who, sizeof who, NULL, err));
    format_message(t, "\"who am I, and where?\" %s", who);
    return 0;
}

static int step_walls(tour *t, cay_err *err)
{
    char n[32], homes[64], net[64];
    CAY_TRY(line_of(t, "ls -d /proc/[0-9]* | wc -l", n, sizeof n, NULL, err));
    CAY_TRY(line_of(t, "ls /root 2>/dev/null | wc -l", homes, sizeof homes, NULL, err));
    CAY_TRY(
        line_of(t, "echo $(tail -n +3 /proc/net/dev | cut -d: -f1)", net, sizeof net, NULL, err));
    format_message(t, "%s processes, %s files in root's home, network: %s%s", n, homes, net,
                   t->info->level == CAY_LEVEL_NONE ? " (no wall: this is your own machine)" : "");
    return 0;
}

static int step_files(tour *t, cay_err *err)
{
    enum { SIZE = 1 << 20 };
    CAY_AUTOFREE char *data = cay__alloc(SIZE);
    CAY_AUTOFREE char *back = NULL;
    size_t len = 0;
    char sum[80];
    cay__random(data, SIZE);
    CAY_TRY(cay_file_put(t->sb, NULL, "tour/data.bin", data, SIZE,
                         &(cay_write){ .size = sizeof(cay_write), .parents = true }, err));
    CAY_TRY(line_of(t, "wc -c < tour/data.bin", sum, sizeof sum, NULL, err));
    CAY_TRY(cay_file_get(t->sb, NULL, "tour/data.bin", SIZE, &back, &len, err));
    if (len != SIZE || memcmp(data, back, SIZE))
        return cay_fail(err, CAY_EUPSTREAM, "the file came back different");
    format_message(t, "1 MiB in, seen inside as %s bytes, the same 1 MiB out", sum);
    return 0;
}

/* Reads a stream to its end. */
static void read_stream(int fd, char *buf, size_t cap)
{
    ssize_t n = cay__fd_read_all(fd, buf, cap - 1);
    buf[n > 0 ? n : 0] = 0;
}

static int step_pty(tour *t, cay_err *err)
{
    const char *const argv[] = { "/bin/sh", "-c", "read line; stty size; exit 42", NULL };
    cay_spawn spec = { .size = sizeof spec,
                       .argv = argv,
                       .tty = true,
                       .cols = COLS,
                       .rows = ROWS,
                       .stdin_mode = CAY_STDIN_PIPE };
    CAY_AUTOPTR(cay_proc) p = NULL;
    CAY_AUTOFD out = -1;
    cay_exit ex = { .size = sizeof ex };
    char text[256], *size;
    CAY_TRY(cay_sandbox_spawn(t->sb, NULL, &spec, &p, err));
    CAY_TRY(cay_proc_output(p, NULL, CAY_STDOUT, 0, &out, err));
    CAY_TRY(cay_proc_resize(p, NULL, COLS + 20, ROWS + 10, err));
    CAY_TRY(cay_proc_write(p, NULL, "go\n", 3, err));
    read_stream(out, text, sizeof text);
    CAY_TRY(cay_proc_wait(p, NULL, &ex, err));
    size = strstr(text, "40 120");
    format_message(t, "a terminal of %d × %d, resized to %s, ended with code %d", ROWS, COLS,
                   size ? "40 × 120" : "something else", ex.code);
    if (size && ex.code == 42)
        return 0;
    return cay_fail(err, CAY_EUPSTREAM, "the terminal did not behave");
}

static int step_memory(tour *t, cay_err *err)
{
    char out[32];
    cay_exit ex;
    if (!layer_on(t, "memory-limit")) {
        format_message(t, "not enforced on this host; `cay doctor` tells why");
        return 0;
    }
    CAY_TRY(line_of(t, "exec dd if=/dev/zero of=/dev/null bs=256M count=1 2>/dev/null", out,
                    sizeof out, &ex, err));
    format_message(t, "a command that wants 256 MiB ends with code %d, reason \"%s\"", ex.code,
                   ex.reason);
    if (ex.code)
        return 0;
    return cay_fail(err, CAY_EUPSTREAM, "it got more memory than it may have");
}

static int step_time(tour *t, cay_err *err)
{
    cay_result r = { .size = sizeof r };
    const char *const argv[] = { "/bin/sh", "-c", "sleep 60 & sleep 60", NULL };
    cay_spawn spec = { .size = sizeof spec, .argv = argv, .timeout_ms = TIMEOUT_MS };
    CAY_TRY(cay_sandbox_run(t->sb, NULL, &spec, NULL, 0, 4096, &r, err));
    format_message(t, "two sleeps of a minute, told to end after %d ms: code %d, reason \"%s\"",
                   TIMEOUT_MS, r.exit.code, r.exit.reason);
    cay_result_clear(&r);
    return 0;
}

static int step_pause(tour *t, cay_err *err)
{
    const char *const argv[] = { "/bin/sh", "-c", "while :; do echo; sleep 0.01; done", NULL };
    cay_spawn spec = { .size = sizeof spec, .argv = argv, .tag = "ticker" };
    CAY_AUTOPTR(cay_proc) p = NULL;
    CAY_AUTOFD out = -1;
    char buf[4096];
    CAY_TRY(cay_sandbox_spawn(t->sb, NULL, &spec, &p, err));
    CAY_TRY(cay_proc_output(p, NULL, CAY_STDOUT, 0, &out, err));
    poll(NULL, 0, 50);
    int rc = cay_sandbox_pause(t->sb, NULL, err);
    if (rc == CAY_ENOTSUP || rc == CAY_EISOLATION) {
        format_message(t, "not on this host: %s", err->msg);
        return cay_proc_signal(p, NULL, 9, CAY_SCOPE_TREE, err);
    }
    CAY_TRY(rc);
    poll(NULL, 0, 30);
    cay__fd_nonblock(out, true);
    while (read(out, buf, sizeof buf) > 0)
        continue;
    poll(NULL, 0, PAUSE_MS);
    ssize_t frozen = read(out, buf, sizeof buf);
    CAY_TRY(cay_sandbox_resume(t->sb, NULL, err));
    poll(NULL, 0, PAUSE_MS);
    ssize_t after = read(out, buf, sizeof buf);
    CAY_TRY(cay_proc_signal(p, NULL, 9, CAY_SCOPE_TREE, err));
    format_message(t,
                   "a ticking loop: %zd ticks while frozen for %d ms, %zd in the same time after",
                   CAY_MAX(frozen, 0), PAUSE_MS, CAY_MAX(after, 0));
    if (frozen <= 0 && after > 0)
        return 0;
    return cay_fail(err, CAY_EUPSTREAM, "the freeze did not hold");
}

static int step_agent(tour *t, cay_err *err)
{
    return tour_agent(t->sb, t->said, sizeof t->said, err);
}

static int step_kill(tour *t, cay_err *err)
{
    cay_sandbox *again = NULL;
    CAY_TRY(cay_sandbox_kill(t->sb, NULL, err));
    CAY_TRY(cay_sandbox_remove(t->sb, NULL, err));
    bool gone = cay_client_find(t->client, NULL, t->info->id, &again, NULL) < 0;
    cay_sandbox_unref(t->sb);
    t->sb = NULL;
    if (!gone)
        cay_sandbox_unref(again);
    format_message(t, "every process ended, files removed; `cay ls` does not know it any more");
    if (gone)
        return 0;
    return cay_fail(err, CAY_EUPSTREAM, "it is still listed");
}

static const struct {
    const char *name, *like;
    int (*fn)(tour *t, cay_err *err);
} steps[] = {
    { "doctor", "cay doctor", step_doctor },
    { "create", "cay create --memory 64m --pids 64 --ttl 10m", step_create },
    { "exec", "cay exec ID -- sh -c '...'", step_exec },
    { "walls", "cay exec ID -- ls /proc", step_walls },
    { "files", "cay cp data.bin ID:tour/", step_files },
    { "terminal", "cay shell ID", step_pty },
    { "memory", "cay exec ID -- dd bs=256M", step_memory },
    { "time-out", "cay exec --timeout 200ms ID -- sleep 60", step_time },
    { "pause", "cay pause ID && cay resume ID", step_pause },
    { "agent", "cay agent --sandbox ID 'fix the failing test'", step_agent },
    { "kill", "cay rm -f ID", step_kill },
};

static void print_step(const char *name, const char *like, const char *text, int64_t us, bool ok)
{
    out_fmt("%s%-9s%s %s%-48s%s %7jd.%jd ms\n", out_on(1, OUT_TITLE), name, out_off(1),
            out_on(1, OUT_DIM), like, out_off(1), us / 1000, us % 1000 / 100);
    if (ok)
        out_fmt("  %s✓%s ", out_on(1, OUT_GOOD), out_off(1));
    else
        out_fmt("  %s✗%s ", out_on(1, OUT_BAD), out_off(1));
    out_safe("%s\n", text);
}

static void run_steps(tour *t)
{
    CAY_EACH(step, steps) {
        cay_err err = CAY_ERR_INIT;
        int64_t from = cay__now_us();
        int rc = step->fn(t, &err);
        int64_t us = cay__now_us() - from;
        print_step(step->name, step->like, rc < 0 ? err.msg : t->said, us, rc >= 0);
        t->failed += rc < 0;
        if (!t->info && step->fn == step_create)
            return; /* without a sandbox there is nothing more to show */
    }
}

static int run_tour(cli_call *c, cay_err *err)
{
    tour t = { .client = c->client };
    out_fmt("%sA tour of cay:%s one real sandbox from birth to death; each step is a command you "
            "can type.\n\n",
            out_on(1, OUT_BOLD), out_off(1));
    run_steps(&t);
    if (t.sb) {
        cay_sandbox_remove(t.sb, NULL, NULL);
        cay_sandbox_unref(t.sb);
    }
    if (t.info)
        cay_info_free(t.info);
    if (t.failed)
        out_fmt("\n%u of %zu steps failed; `cay doctor` may tell why.\n", t.failed, CAY_LEN(steps));
    else
        out_str("\nNothing is left behind. Next: `cay run -it -- bash`, `cay help`.\n");
    if (t.failed)
        return CLI_FAIL;
    return CLI_OK;
}

const cli_verb cli_tour = {
    "tour",
    "",
    "see a real sandbox live and die, with timings",
    .text = "It makes a sandbox, works in it, limits, freezes it, lets an agent work in it, "
            "removes it, and cleans up after itself.",
    .needs = CLI_CLIENT,
    .fn = run_tour,
};
