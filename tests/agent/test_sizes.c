/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_sizes: programs that were compiled against an older header. Each struct is given as so many
 * bytes and not one more, in memory of its own, so that a sanitizer tells of every field that is
 * read beyond them.
 */
#include "play.h"
#include <cay/sys/capability.h>
#include <cay/trace.h>
#include <unistd.h>

static play p;
static void *kept[64];
static size_t nkept;

static void *cut(const void *full, size_t n)
{
    void *v = malloc(n);
    assert_non_null(v);
    memcpy(v, full, n);
    memcpy(v, &n, sizeof n);
    assert_true(nkept < CAY_LEN(kept));
    return kept[nkept++] = v;
}
/* As it was when `last` was its last field. */
#define OLD(v, last) cut(&(v), (size_t)((const char *)(&(v).last + 1) - (const char *)&(v)))

static int set_up(void **state)
{
    (void)state;
    nkept = 0;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    play_clear(&p);
    while (nkept)
        free(kept[--nkept]);
    return 0;
}

static int answer(void *arg, const cay_tool_call *call, cay_tool_output *out, cay_err *err)
{
    (void)arg, (void)call, (void)err;
    cay_output_text(out, "told", 4);
    return 0;
}

static int cap_start(void *self, const cay_scope_info *scope, void **bound, cay_err *err)
{
    (void)scope, (void)err;
    *bound = self;
    return 0;
}

static int load(void *self, char **items, cay_err *err)
{
    (void)self, (void)err;
    *items = cay__strdup("[]");
    return 0;
}

static int append(void *self, const char *items, cay_err *err)
{
    (void)err;
    *(int *)self += strstr(items, "fine") != NULL;
    return 0;
}

static int sink(void *self, const char *const *objects, size_t n, cay_err *err)
{
    (void)objects, (void)err;
    *(size_t *)self += n;
    return 0;
}

/* A model, a tool, a conversation, a tracer and a run, all of them older than this library. */
static void a_run_of_an_older_program(void **state)
{
    (void)state;
    cay_model_ops ops = { .name = "play", .ask = play_ask };
    cay_tool tool = { .name = "ask", .call = answer };
    cay_conversation_ops talk = { .load = load, .append = append };
    cay_trace_sink to = { .write = sink };
    int said = 0;
    size_t spans = 0;
    cay_err err = CAY_ERR_INIT;
    cay_model *m = cay_model_new(OLD(ops, ask), &p, "old");
    cay_conversation *c = cay_conversation_new(OLD(talk, append), &said, "c");
    cay_tracer *t = cay_tracer_new(OLD(to, write), &spans);
    assert_true(m && c && t);
    const cay_tool *const tools[] = { OLD(tool, call) };
    cay_agent a = { .size = sizeof a, .name = "Old", .tools = tools, .ntools = 1 };
    cay_run_config conf = { .model = m, .conversation = c, .tracer = t };
    cay_run_result *r = NULL;
    p.say[0] = CALL("c1", "ask", "{}");
    p.say[1] = TEXT("fine");
    if (cay_agent_run(&a, NULL, "go", OLD(conf, tracer), &r, &err) < 0)
        fail_msg("%s", err.msg);
    assert_string_equal(r->output, "fine");
    has(p.input[1], "told");
    assert_int_equal(said, 1);
    assert_true(spans > 4);
    cay_run_result_free(r);
    cay_tracer_free(t);
    cay_conversation_free(c);
    cay_model_free(m);
}

static void options_of_an_older_program(void **state)
{
    (void)state;
    cay_err err = CAY_ERR_INIT;
    cay_shell_options shell = { .max_output_tokens = 7 };
    cay_filesystem_options files = { .approval = true };
    cay_compaction_options compaction = { .threshold = 9 };
    cay_browser_options browser = { .approval = true };
    cay_capability_ops ops = { .name = "mine", .start = cap_start };
    cay_capability *caps[] = { cay_cap_shell(OLD(shell, max_output_tokens)),
                               cay_cap_filesystem(OLD(files, approval)),
                               cay_cap_compaction(OLD(compaction, threshold)),
                               cay_cap_browser(OLD(browser, approval)),
                               cay_capability_new(OLD(ops, start), NULL) };
    for (size_t i = 0; i < CAY_LEN(caps); i++) {
        assert_non_null(caps[i]);
        cay_cap_free(caps[i]);
    }
    const char *const list[] = { "ls", NULL }, *const names[] = { "file_read", NULL };
    cay_list_options allow = { .list = list };
    cay_tools_options tools = { .names = names };
    cay_ptc_options ptc = { .dir = ".p" };
    cay_memory_options memory = { .read = true };
    const cay_skill one = { .name = "s", .description = "d", .content = "c" };
    cay_skills_options skills = { .skills = &one, .nskills = 1 };
    cay_capability *c = NULL;
#define MADE(call)                                                                                 \
    do {                                                                                           \
        if ((call) < 0)                                                                            \
            fail_msg("%s", err.msg);                                                               \
        cay_cap_free(c);                                                                           \
    } while (0)
    MADE(cay_cap_exec(OLD(allow, list), &c, &err));
    MADE(cay_cap_network(OLD(allow, size), &c, &err));
    MADE(cay_cap_tools(OLD(tools, names), &c, &err));
    MADE(cay_cap_ptc(OLD(ptc, dir), &c, &err));
    MADE(cay_cap_memory(OLD(memory, read), &c, &err));
    MADE(cay_cap_skills(OLD(skills, nskills), &c, &err));
}

static void addresses_of_an_older_program(void **state)
{
    (void)state;
    cay_err err = CAY_ERR_INIT;
    cay_mcp *server = NULL;
    cay_model *m = NULL;
    cay_tracer *t = NULL;
    char path[] = "/tmp/cay-sizes-XXXXXX", name[64];
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, "{\"turns\":[]}", 12) == 12 && close(fd) == 0);
    snprintf(name, sizeof name, "scripted:%s", path);
    cay_model_open_spec open = { .model = name };
    assert_int_equal(cay_model_open(OLD(open, model), &m, &err), 0);
    cay_model_free(m);
    unlink(path);
    cay_mcp_spec mcp = { .name = "old" };
    assert_int_equal(cay_mcp_open(OLD(mcp, name), NULL, &server, &err), CAY_EINVAL);
    has(err.msg, "give one of them"); /* it had neither, and nothing behind it was taken for one */
    cay_tracer_http_spec http = { .url = "http://127.0.0.1:9/x" };
    assert_int_equal(cay_tracer_http(OLD(http, url), &t, &err), 0);
    cay_tracer_free(t);
    cay_manifest *man = cay_manifest_new();
    cay_entry e = { .description = "d" };
    cay_local_dir dir = { .src = "/x" };
    cay_git_repo repo = { .repo = "a/b" };
    cay_remote remote = { .url = "https://example.org/x" };
    if (cay_manifest_file(man, "f", "x", 1, OLD(e, description), &err) < 0 ||
        cay_manifest_local_dir(man, "d", OLD(dir, src), NULL, &err) < 0 ||
        cay_manifest_git_repo(man, "r", OLD(repo, repo), NULL, &err) < 0 ||
        cay_manifest_remote_file(man, "u", OLD(remote, url), NULL, &err) < 0)
        fail_msg("%s", err.msg);
    cay_manifest_free(man);
}

/* Newer programs are served as long as they want nothing new; a size that nobody set is told. */
static void newer_and_forgotten_sizes(void **state)
{
    (void)state;
    struct {
        cay_list_options known;
        uint64_t more;
    } newer = { .known = { .size = sizeof newer } };
    cay_err err = CAY_ERR_INIT;
    cay_capability *c = NULL;
    cay_mcp *server = NULL;
    assert_int_equal(cay_cap_exec(&newer.known, &c, &err), 0);
    cay_cap_free(c);
    newer.more = 1;
    assert_int_equal(cay_cap_exec(&newer.known, &c, &err), CAY_ENOTSUP);
    assert_string_equal(err.reason, "spec_newer");
    assert_int_equal(cay_mcp_open(&(cay_mcp_spec){ .url = "http://x/" }, NULL, &server, &err),
                     CAY_EINVAL);
    assert_string_equal(err.reason, "spec_size");
    assert_int_equal(cay_cap_memory(&(cay_memory_options){ .read = true }, &c, &err), CAY_EINVAL);
    assert_string_equal(err.reason, "spec_size");
    assert_null(cay_cap_shell(
        &(cay_shell_options){ .approval = true })); /* better none than one that does not ask */
    assert_null(cay_model_new(&(cay_model_ops){ .ask = play_ask }, &p, "none"));
    assert_null(cay_audit_sink_new(&(cay_audit_sink_ops){ 0 }, NULL, false));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_run_of_an_older_program, set_up, tear_down),
        cmocka_unit_test_setup_teardown(options_of_an_older_program, set_up, tear_down),
        cmocka_unit_test_setup_teardown(addresses_of_an_older_program, set_up, tear_down),
        cmocka_unit_test_setup_teardown(newer_and_forgotten_sizes, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
