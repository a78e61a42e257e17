/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench-agent SCRIPT PACKAGES [quick]: what the harness itself costs. The same dialogues go through
 * the published SDK on node, in turns with ours, where PACKAGES (tests/support/npm) is not empty.
 *
 *   agent-turn         a turn with one tool call, model and tool in the process     agent-turn-cpu
 *   agent-tool         one tool call of 20 in a turn
 *   agent-http-cpu     a turn asked over HTTP: CPU time of the asking process       agent-http
 *   agent-first-token  from the server's first piece to the caller's hands
 *   agent-memory  most memory of the process that did all this
 *   agent-1000    runs at once in one process, each of which waits 20 ms for each of 10 answers;
 *                 floor: the waiting
 *   agent-1000-memory  what one of them takes
 *   agent-patch  apply_patch on a file of 10 MB; floor: reading and writing it through the same
 *                sandbox
 */
#include "modelserver.h"
#include <cay/cay.h>
#include <pthread.h>
#include <sys/resource.h>

enum { TURNS = 20, WIDE = 20, CROWD = 1000, CROWD_TURNS = 10, WAIT_MS = 20 };

static int port;
static const char *script, *packages;

typedef struct played {
    size_t at, turns, wide;
    unsigned wait_ms;
} played;

static const char word[] = "[{\"type\":\"message\",\"role\":\"assistant\",\"content\":[{\"type\":"
                           "\"output_text\",\"text\":\"done\"}]}]";

static int play(void *self, const cay_call *call, const cay_model_request *q, cay_model_reply *out,
                cay_err *err)
{
    played *p = self;
    size_t k = p->at++, n = p->wide ? (k ? 0 : p->wide) : k < p->turns;
    size_t cap = n * 160 + sizeof word, len = 0;
    char *text = malloc(cap);
    (void)call;
    (void)q;
    (void)err;
    if (!text)
        abort();
    if (p->wait_ms)
        sleep_ms(p->wait_ms);
    for (size_t i = 0; i < n; i++)
        len += (size_t)snprintf(text + len, cap - len,
                                "%c{\"type\":\"function_call\",\"call_id\":\"call_%zu_%zu\","
                                "\"name\":\"add\",\"arguments\":\"{\\\"a\\\":1}\"}",
                                i ? ',' : '[', k, i);
    snprintf(text + len, cap - len, "%s", n ? "]" : word);
    out->output = text;
    out->usage = (cay_tokens){ .requests = 1, .input = 10, .output = 1, .total = 11 };
    return 0;
}
static const cay_model_ops ops = {
    .size = sizeof ops, .name = "played", .custom_tools = true, .compaction = true, .ask = play
};

static int add_numbers(void *arg, const cay_tool_call *call, cay_tool_output *out, cay_err *err)
{
    (void)arg;
    (void)call;
    (void)err;
    cay_output_text(out, "sum 42", 6);
    return 0;
}
static const cay_tool tool = {
    .size = sizeof tool,
    .name = "add",
    .description = "adds",
    .call = add_numbers,
    .parameters = "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"number\"}},\"required\":["
                  "\"a\"],\"additionalProperties\":false}"
};
static const cay_tool *const tools[] = { &tool };

static int (*on_event)(void *, const cay_run_event *);
static void run(cay_model *m)
{
    cay_agent a = {
        .size = sizeof a, .name = "A", .instructions = "Add.", .tools = tools, .ntools = 1
    };
    cay_run_config conf = {
        .size = sizeof conf, .model = m, .max_turns = TURNS + 2, .on_event = on_event
    };
    cay_run_result *r = NULL;
    cay_err err = CAY_ERR_INIT;
    if (cay_agent_run(&a, NULL, "go", &conf, &r, &err) < 0)
        give_up("a run: %s", err.msg);
    cay_run_result_free(r);
}

static void run_played(size_t turns, size_t wide, unsigned wait_ms)
{
    played p = { .turns = turns, .wide = wide, .wait_ms = wait_ms };
    cay_model *m = cay_model_new(&ops, &p, "played");
    run(m);
    cay_model_free(m);
}

static cay_model *model_at(const char *path, bool stream)
{
    char url[100];
    cay_model *m = NULL;
    cay_err err = CAY_ERR_INIT;
    snprintf(url, sizeof url, "http://127.0.0.1:%d%s", port, path);
    cay_model_open_spec s = { .size = sizeof s,
                              .model = "m",
                              .base_url = url,
                              .api = "responses",
                              .key = "none",
                              .no_stream = !stream };
    if (cay_model_open(&s, &m, &err) < 0)
        give_up("a model: %s", err.msg);
    return m;
}

static double cpu_us(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e6 +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static series first;
static int note_first(void *arg, const cay_run_event *ev)
{
    (void)arg;
    const char *d = ev->kind == CAY_RUN_RAW && !strcmp(ev->name, "response.output_text.delta")
                        ? strstr(ev->json, "\"delta\":\"")
                        : NULL;
    if (d)
        add(&first, now_us() - strtod(d + 9, NULL) / 1e3);
    return 0;
}

typedef struct cost {
    double turn, turn_cpu, tool, http, http_cpu, first, rss;
} cost;

static cost ours(size_t runs)
{
    cost c;
    struct rusage u;
    char path[64];
    double t = now_us(), p = cpu_us();
    for (size_t i = 0; i < runs; i++)
        run_played(TURNS, 0, 0);
    c.turn = (now_us() - t) / (double)runs / (TURNS + 1);
    c.turn_cpu = (cpu_us() - p) / (double)runs / (TURNS + 1);
    t = now_us();
    for (size_t i = 0; i < runs; i++)
        run_played(0, WIDE, 0);
    c.tool = (now_us() - t) / (double)runs / WIDE;
    snprintf(path, sizeof path, "/turns/%d/v1", TURNS);
    cay_model *m = model_at(path, false);
    t = now_us();
    p = cpu_us();
    for (size_t i = 0; i < runs; i++)
        run(m);
    c.http = (now_us() - t) / (double)runs / (TURNS + 1);
    c.http_cpu = (cpu_us() - p) / (double)runs / (TURNS + 1);
    cay_model_free(m);
    m = model_at("/first/0/v1", true);
    on_event = note_first;
    first.n = 0;
    for (size_t i = 0; i < (runs > 10 ? runs : 10); i++)
        run(m);
    on_event = NULL;
    cay_model_free(m);
    c.first = percentile(&first, 50);
    getrusage(RUSAGE_SELF, &u);
    c.rss = (double)u.ru_maxrss;
    return c;
}

static cost theirs(size_t runs)
{
    cost c = { 0 };
    char url[40], turns[16], times[24];
    const char *const argv[] = { "node", script, packages, url, turns, times, NULL };
    int p[2], status = 0;
    if (!*packages)
        return c;
    snprintf(url, sizeof url, "http://127.0.0.1:%d", port);
    snprintf(turns, sizeof turns, "%d", TURNS);
    snprintf(times, sizeof times, "%zu", runs);
    pid_t pid = pipe2(p, O_CLOEXEC) < 0 ? -1 : fork();
    if (pid < 0)
        give_up("fork: %s", strerror(errno));
    if (!pid) {
        dup2(p[1], 1);
        execvp("node", (char *const *)argv);
        _exit(127);
    }
    close(p[1]);
    FILE *f = fdopen(p[0], "r");
    if (!f || fscanf(f, "%lf %lf %lf %lf %lf %lf %lf", &c.turn, &c.turn_cpu, &c.tool, &c.http,
                     &c.http_cpu, &c.first, &c.rss) != 7)
        give_up("the SDK's side did not answer");
    fclose(f);
    if (waitpid(pid, &status, 0) != pid || status)
        give_up("the SDK's side ended with %x", status);
    return c;
}

static void tell(const char *name, const char *service, double value, double peer_value,
                 const char *goal, size_t n)
{
    const peer peers[] = { { "openai-agents", peer_value }, { NULL, 0 } };
    figure((fig){ .name = name,
                  .service = service,
                  .value = value,
                  .ratio = peer_value > 0 ? value / peer_value : 0,
                  .goal = peer_value > 0 ? goal : NULL,
                  .n = n,
                  .peers = peers });
}

static double middle(const cost *v, size_t n, size_t at)
{
    series s = { 0 };
    for (size_t i = 0; i < n; i++)
        add(&s, *(const double *)((const char *)&v[i] + at));
    double m = percentile(&s, 50);
    free(s.v);
    return m;
}

static void *one_of_many(void *arg)
{
    pthread_barrier_wait(arg);
    run_played(CROWD_TURNS - 1, 0, WAIT_MS);
    return NULL;
}

static double resident_kb(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%*s %ld", &pages) != 1)
        give_up("/proc/self/statm");
    fclose(f);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1024;
}

static void crowd(size_t n)
{
    pthread_t *t = calloc(n, sizeof *t);
    pthread_attr_t attr;
    pthread_barrier_t gate;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 256 << 10);
    pthread_barrier_init(&gate, NULL, (unsigned)n + 1);
    double before = resident_kb(), most = 0;
    for (size_t i = 0; i < n; i++)
        if (pthread_create(&t[i], &attr, one_of_many, &gate))
            give_up("thread %zu: %s", i, strerror(errno));
    pthread_barrier_wait(&gate);
    double began = now_us();
    for (int i = 0; i < CROWD_TURNS - 2; i++) {
        sleep_ms(WAIT_MS);
        double now = resident_kb();
        most = now > most ? now : most;
    }
    for (size_t i = 0; i < n; i++)
        pthread_join(t[i], NULL);
    double took = (now_us() - began) / 1e3, floor = CROWD_TURNS * WAIT_MS;
    figure((fig){ .name = "agent-1000",
                  .service = "ms",
                  .value = took,
                  .floor = floor,
                  .ratio = took / floor,
                  .goal = "<=3.0",
                  .n = n });
    figure((fig){ .name = "agent-1000-memory",
                  .service = "kB",
                  .value = (most - before) / (double)n,
                  .n = n });
    free(t);
}

static void patch(size_t runs)
{
    enum { LINES = 269000, LINE = 39 };
    cay_open open = { .size = sizeof open, .provider = "local" };
    cay_create spec = { .size = sizeof spec };
    cay_err err = CAY_ERR_INIT;
    cay_client *client = NULL;
    cay_sandbox *sb = NULL;
    char *text = malloc((size_t)LINES * LINE + 1);
    series took = { 0 }, floor = { 0 };
    if (!text || cay_client_open(&open, &client, &err) < 0 ||
        cay_client_create(client, NULL, &spec, &sb, &err) < 0)
        give_up("a sandbox: %s", err.msg);
    for (size_t i = 0; i < LINES; i++)
        snprintf(text + i * LINE, LINE + 1, "line %08zu is one of very many, so.\n", i);
    size_t len = strlen(text);
    for (size_t i = 0; i < runs; i++) {
        char doc[400], *data = NULL;
        size_t n = 0;
        cay_patch *p = NULL;
        double t = now_us();
        if (cay_file_put(sb, NULL, "large.txt", text, len, NULL, &err) < 0 ||
            cay_file_get(sb, NULL, "large.txt", 64 << 20, &data, &n, &err) < 0)
            give_up("large.txt: %s", err.msg);
        add(&floor, (now_us() - t) / 1e3);
        free(data);
        snprintf(doc, sizeof doc,
                 "*** Begin Patch\n*** Update File: large.txt\n@@\n line %08d is one of very many, "
                 "so.\n-line %08d is one of very many, so.\n+changed %zu\n line %08d is one of "
                 "very many, so.\n*** End Patch\n",
                 LINES - 100, LINES - 99, i, LINES - 98);
        cay_patch_spec how = { .size = sizeof how };
        t = now_us();
        if (cay_patch_parse(doc, &p, &err) < 0 ||
            cay_patch_apply(sb, NULL, p, &how, NULL, NULL, &err) < 0)
            give_up("the patch: %s", err.msg);
        add(&took, (now_us() - t) / 1e3);
        cay_patch_free(p);
    }
    double v = percentile(&took, 50), f = percentile(&floor, 50);
    figure((fig){ .name = "agent-patch",
                  .service = "ms",
                  .value = v,
                  .floor = f,
                  .ratio = v / f,
                  .goal = "<=6.0",
                  .n = runs });
    cay_sandbox_remove(sb, NULL, NULL);
    cay_sandbox_unref(sb);
    cay_client_close(client);
    free(text);
    free(took.v);
    free(floor.v);
}

int main(int argc, char **argv)
{
    bool quick = argc > 3;
    size_t rounds = quick ? 1 : 3, runs = quick ? 5 : 50;
    cost a[3], b[3];
    if (argc < 3)
        give_up("usage: bench-agent SCRIPT PACKAGES [quick]");
    script = argv[1];
    packages = argv[2];
    port = serve_model();
    for (size_t i = 0; i < rounds; i++) {
        a[i] = ours(runs);
        b[i] = theirs(runs);
    }
#define MIDDLE(v, field) middle(v, rounds, offsetof(cost, field))
    tell("agent-turn", "us", MIDDLE(a, turn), MIDDLE(b, turn), "<=0.5", runs);
    tell("agent-turn-cpu", "us", MIDDLE(a, turn_cpu), MIDDLE(b, turn_cpu), "<=0.5", runs);
    tell("agent-tool", "us", MIDDLE(a, tool), MIDDLE(b, tool), "<=0.5", runs);
    tell("agent-http", "us", MIDDLE(a, http), MIDDLE(b, http), "<=1.0", runs);
    tell("agent-http-cpu", "us", MIDDLE(a, http_cpu), MIDDLE(b, http_cpu), "<=0.5", runs);
    tell("agent-first-token", "us", MIDDLE(a, first), MIDDLE(b, first), "<=1.0", runs);
    tell("agent-memory", "kB", MIDDLE(a, rss), MIDDLE(b, rss), "<=0.25", rounds);
    crowd(quick ? 100 : CROWD);
    patch(quick ? 2 : 15);
    free(first.v);
    return 0;
}
