/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tools PROVIDER: the set of file_read … process_list, by hand and by an agent.
 */
#include "box.h"
#include <base/fd.h>

static cay_toolset *ts;

static int open_set(void **state)
{
    cay_err err = CAY_ERR_INIT;
    box_open(state);
    cay_toolset_spec spec = { .size = sizeof spec, .sandbox = sb };
    if (cay_toolset_open(&spec, NULL, &ts, &err) < 0)
        fail_msg("%s", err.msg);
    return 0;
}

static int proc_count(const cay_proc_info *i, void *arg)
{
    *(int *)arg += i->state != 'X' && *i->id;
    return 0;
}

static int close_set(void **state)
{
    int left = -1;
    cay_toolset_close(ts);
    for (int i = 0; i < 200 && left; i++) { /* killed ones are reaped within moments */
        left = 0;
        assert_int_equal(cay_sandbox_procs(sb, NULL, proc_count, &left, NULL), 0);
        if (left)
            usleep(20000);
    }
    assert_int_equal(left, 0);
    return box_close(state);
}

static char *call(const char *name, const char *args, bool *failed)
{
    char *text = NULL;
    cay_err err = CAY_ERR_INIT;
    if (cay_toolset_call(ts, NULL, name, args, &text, failed, &err) < 0)
        fail_msg("%s: %s", name, err.msg);
    return text;
}

static void good(const char *name, const char *args, const char *want)
{
    bool failed = true;
    CAY_AUTOFREE char *t = call(name, args, &failed);
    has(t, want);
    if (failed)
        fail_msg("%s failed: %s", name, t);
}

static void bad(const char *name, const char *args, const char *want)
{
    bool failed = false;
    CAY_AUTOFREE char *t = call(name, args, &failed);
    assert_true(failed);
    assert_int_equal(strncmp(t, "ERROR: ", 7), 0);
    has(t, want);
}

/* What a terminal shows arrives in pieces: they are put together until the text is there. */
static void soon(const char *args, const char *want)
{
    CAY_AUTOBUF all = CAY__BUF(1 << 20);
    const int64_t end = cay__now_ms() + 30000;
    for (bool more = false; !(all.data && strstr(all.data, want)) && cay__now_ms() < end;
         more = true) {
        bool failed = false;
        CAY_AUTOFREE char *t = call("shell_interactive", more ? "{\"wait\":0}" : args, &failed);
        assert_false(failed);
        cay__buf_str(&all, t);
        usleep(1000);
    }
    has(all.data, want);
}

static const char *const wanted[] = {
    "file_read",         "file_write",   "file_delete", "file_list", "file_search",  "shell_exec",
    "shell_interactive", "git_clone",    "git_commit",  "git_push",  "git_status",   "python_exec",
    "pip_install",       "http_request", "env_get",     "env_set",   "process_list",
};

static void definitions_have_name_description_and_schema(void **state)
{
    (void)state;
    for (int form = CAY_TOOLS_PLAIN; form <= CAY_TOOLS_MCP; form++) {
        CAY_AUTOFREE char *text = NULL;
        assert_int_equal(cay_toolset_json(NULL, (cay_tools_form)form, &text, NULL), 0);
        CAY_AUTOJSON *list = json_loads(text, 0, NULL);
        assert_true(json_array_size(list) >= CAY_LEN(wanted));
        size_t i, found = 0;
        json_t *t;
        json_array_foreach(list, i, t) {
            const json_t *def = form == CAY_TOOLS_CHAT ? json_object_get(t, "function") : t;
            const json_t *schema =
                json_object_get(def, form == CAY_TOOLS_MCP ? "inputSchema" : "parameters");
            assert_true(json_string_length(json_object_get(def, "description")) > 10);
            assert_string_equal(json_string_value(json_object_get(schema, "type")), "object");
            assert_true(json_is_object(json_object_get(schema, "properties")));
            for (size_t k = 0; k < CAY_LEN(wanted); k++)
                found += !strcmp(json_string_value(json_object_get(def, "name")), wanted[k]);
        }
        assert_int_equal(found, CAY_LEN(wanted));
    }
}

static void unknown_names_are_refused(void **state)
{
    static const char *const names[] = { "file_read", "rm_rf", NULL };
    char *text = NULL;
    cay_capability *c = NULL;
    cay_err err = CAY_ERR_INIT;
    cay_tools_options o = { .size = sizeof o, .names = names };
    (void)state;
    assert_int_equal(cay_toolset_json(names, CAY_TOOLS_PLAIN, &text, &err), CAY_EINVAL);
    assert_string_equal(err.reason, "tool_unknown");
    has(err.msg, "rm_rf");
    assert_int_equal(cay_cap_tools(&o, &c, &err), CAY_EINVAL);
    assert_int_equal(cay_toolset_call(ts, NULL, "rm_rf", "{}", &text, NULL, &err), CAY_ENOENT);
}

static void files_are_written_read_and_edited(void **state)
{
    (void)state;
    good("file_write", "{\"file\":\"d/a.txt\",\"content\":\"one\\ntwo\\nthree\\n\"}",
         "Successfully wrote 14 bytes to d/a.txt");
    good("file_write",
         "{\"file\":\"d/a.txt\",\"content\":\"Zm91cgo=\",\"encoding\":\"base64\",\"append\":true}",
         "wrote 5 bytes");
    CAY_AUTOFREE char *all = call("file_read", "{\"file\":\"d/a.txt\"}", NULL);
    assert_string_equal(all, "one\ntwo\nthree\nfour\n");
    CAY_AUTOFREE char *some =
        call("file_read", "{\"file\":\"d/a.txt\",\"start_line\":2,\"end_line\":3}", NULL);
    assert_string_equal(some, "two\nthree\n");
    bad("file_read", "{\"file\":\"d/a.txt\",\"start_line\":9}", "only 4 lines");
    good("file_edit", "{\"file\":\"d/a.txt\",\"old_str\":\"two\",\"new_str\":\"2\"}", "edited");
    bad("file_edit", "{\"file\":\"d/a.txt\",\"old_str\":\"e\\n\",\"new_str\":\"\"}",
        "occurs 2 times");
    bad("file_edit", "{\"file\":\"d/a.txt\",\"old_str\":\"nosuch\",\"new_str\":\"\"}", "is not in");
    good("file_search", "{\"file\":\"d/a.txt\",\"regex\":\"^(2|three)$\"}", "2: 2\n3: three\n");
    bad("file_search", "{\"file\":\"d/a.txt\",\"regex\":\"(\"}", "regex");
    good("grep", "{\"pattern\":\"THREE\",\"case_insensitive\":true}", "d/a.txt:3: three");
    good("file_find", "{\"glob\":\"*.txt\"}", "d/a.txt");
    good("glob", "{\"pattern\":\"d/*\"}", "d/a.txt");
    good("file_list", "{\"path\":\"d\"}", "f         17 a.txt\n");
    bad("file_delete", "{\"file\":\"d\"}", "recursive");
    good("file_delete", "{\"file\":\"d\",\"recursive\":true}", "deleted d");
    bad("file_read", "{\"file\":\"d/a.txt\"}", "d/a.txt");
}

static void paths_stay_inside(void **state)
{
    (void)state;
    static const char *const out[] = { "../x", "/etc/passwd", "a/../../x", "link", "link/passwd" };
    char args[200];
    assert_int_equal(cay_file_symlink(sb, NULL, "/etc", "link", NULL), 0);
    for (size_t i = 0; i < CAY_LEN(out); i++) {
        snprintf(args, sizeof args, "{\"file\":\"%s\"}", out[i]);
        bad("file_read", args, "outside the workspace");
        bad("file_delete", args, "outside the workspace");
        snprintf(args, sizeof args, "{\"file\":\"%s\",\"content\":\"x\"}", out[i]);
        bad("file_write", args, "outside the workspace");
    }
    bad("file_delete", "{\"file\":\".\",\"recursive\":true}", "working directory");
    bad("file_find", "{\"glob\":\"../*\"}", "pattern");
    assert_int_equal(cay_file_remove(sb, NULL, "link", false, NULL), 0);
}

static void arguments_are_checked(void **state)
{
    (void)state;
    bad("file_read", "{\"file\":1}", "file: want string");
    bad("file_read", "{}", "lacks file");
    bad("file_read", "{\"file\":\"a\",\"why\":1}", "why");
    bad("file_read", "[", "arguments");
    bad("env_set", "{\"name\":\"A;rm\",\"value\":\"x\"}", "letters");
    bad("git_clone", "{\"url\":\"--upload-pack=x\"}", "dash");
    bad("pip_install", "{\"packages\":[\"--index-url=x\"]}", "no package");
    bad("http_request", "{\"url\":\"file:///etc/passwd\"}", "want http");
    bad("http_request", "{\"url\":\"http://x/\",\"headers\":{\"A\":\"b\\r\\nC: d\"}}", "header");
}

static int shells_failed, shell_code;
static void note_shell(void *arg, const cay_op *op)
{
    (void)arg;
    shells_failed += op->fault && !strcmp(op->name, "shell.open");
    if (op->exit_code && !strcmp(op->name, "shell.run"))
        shell_code = *op->exit_code;
}

static void the_shell_keeps_its_state(void **state)
{
    (void)state;
    const cay_call told = { .size = sizeof told, .on_op = note_shell };
    char *text = NULL;
    cay_err err = CAY_ERR_INIT;
    assert_int_equal(cay_toolset_call(ts, &told, "shell_exec",
                                      "{\"command\":\"exit_with() { return $1; }; exit_with 3\"}",
                                      &text, NULL, &err),
                     0);
    free(text);
    assert_int_equal(shells_failed, 0); /* one that has to be started first is no failure */
    assert_int_equal(shell_code, 3);
    good("shell_exec", "{\"command\":\"mkdir -p sub && cd sub && echo here\"}",
         "[SUCCESS]\nhere\n");
    good("shell_exec", "{\"command\":\"pwd\"}", "/sub\n");
    good("shell_exec", "{\"command\":\"echo out; echo err >&2; (exit 3)\"}",
         "[FAILED] exit code 3\n");
    good("env_set", "{\"name\":\"COLOUR\",\"value\":\"it's blue\"}", "Set COLOUR");
    good("env_get", "{\"name\":\"COLOUR\"}", "it's blue");
    good("shell_exec", "{\"command\":\"echo $COLOUR\"}", "it's blue\n");
    good("shell_exec", "{\"command\":\"exit 4\"}", "the shell ended");
    good("shell_exec", "{\"command\":\"echo $COLOUR\"}",
         "it's blue\n"); /* a new one knows it too */
    bad("env_get", "{\"name\":\"NOSUCH_VARIABLE\"}", "not set");
    good("shell_exec", "{\"command\":\"sleep 60\",\"timeout\":1}", "[FAILED]");
}

static void terminals_are_typed_into(void **state)
{
    (void)state;
    soon("{\"command\":\"read -p 'name? ' n; echo \\\"hello $n\\\"; cat\",\"wait\":0}", "name?");
    soon("{\"input\":\"ann\",\"wait\":0}", "hello ann");
    good("process_list", "{\"filter\":\"cat\"}", "PID");
    good("shell_kill", "{}", "was ended");
    bad("shell_interactive", "{}", "nothing runs");
    good("shell_exec", "{\"command\":\"echo begun; sleep 60\",\"background\":true}", "session ");
    soon("{\"wait\":0}", "begun");
    good("shell_kill", "{}", "was ended");
}

static void python_keeps_its_state(void **state)
{
    (void)state;
    good("python_exec", "{\"code\":\"x = 20\\nimport os\\nos.system('echo child')\\nx + 1\"}",
         "child\n21\n");
    good("env_set", "{\"name\":\"LATE\",\"value\":\"yes\"}", "Set LATE");
    good("python_exec", "{\"code\":\"print(x * 2, os.environ['LATE'])\"}", "[SUCCESS]\n40 yes\n");
    good("python_exec", "{\"code\":\"1/0\"}", "[FAILED]\nTraceback");
    good("python_exec", "{\"code\":\"while True: pass\",\"timeout\":1}",
         "interrupted after 1 seconds");
    good("python_exec", "{\"code\":\"x\"}", "20");
    bad("python_exec", "{\"code\":\"os._exit(1)\"}", "interpreter ended");
    good("python_exec", "{\"code\":\"'x' in globals()\"}", "False");
}

static void git_commits_and_clones(void **state)
{
    (void)state;
    good("file_write", "{\"file\":\"repo/a\",\"content\":\"1\"}", "wrote");
    good("shell_exec", "{\"command\":\"git init -q -b main repo\"}", "[SUCCESS]");
    good("git_status", "{\"path\":\"repo\"}", "untracked:\n  a\n");
    good("git_commit",
         "{\"path\":\"repo\",\"message\":\"first\",\"all\":true,\"author\":\"Ann "
         "<ann@example.org>\"}",
         "[SUCCESS]\nCommitted ");
    good("git_status", "{\"path\":\"repo\"}", "branch: main\nnothing to commit");
    good("git_commit", "{\"path\":\"repo\",\"message\":\"again\"}", "[FAILED]");
    good("git_clone", "{\"url\":\"repo\",\"path\":\"copy\",\"branch\":\"main\"}",
         "Cloned into copy at ");
    good("git_push", "{\"path\":\"copy\",\"branch\":\"HEAD:refs/heads/other\"}", "[SUCCESS]");
    bool failed;
    CAY_AUTOFREE char *t =
        call("git_clone", "{\"url\":\"https://ann:s3cret@127.0.0.1:1/x.git\"}", &failed);
    has(t, "[FAILED]");
    has_not(t, "s3cret");
}

static void requests_reach_servers_inside(void **state)
{
    (void)state;
    good("shell_exec",
         "{\"command\":\"cat > srv.py <<'E'\\nimport http.server\\nclass "
         "H(http.server.BaseHTTPRequestHandler):\\n  def do_POST(s):\\n    "
         "b=s.rfile.read(int(s.headers['Content-Length']))\\n"
         "    s.send_response(201); s.send_header('X-Got', s.headers['X-Sent']); s.end_headers(); "
         "s.wfile.write(b[::-1])\\n  def log_message(*a): pass\\n"
         "h=http.server.HTTPServer(('127.0.0.1',0),H)\\nopen('port','w').write(str(h.server_port))"
         "\\nh.serve_forever()\\nE\"}",
         "[SUCCESS]");
    good("shell_exec", "{\"command\":\"rm -f port; python3 srv.py\",\"background\":true}",
         "session ");
    CAY_AUTOFREE char *port = NULL;
    for (int i = 0; i < 500; i++) {
        bool failed;
        free(port);
        port = call("shell_exec", "{\"command\":\"cat port\"}", &failed);
        if (strstr(port, "[SUCCESS]\n") && strlen(port) > 12)
            break;
        usleep(20000);
    }
    char args[300];
    snprintf(args, sizeof args,
             "{\"url\":\"http://127.0.0.1:%s/"
             "\",\"method\":\"POST\",\"headers\":{\"X-Sent\":\"abc\"},\"body\":\"olleh\"}",
             port + 10);
    good("http_request", args, "201");
    CAY_AUTOFREE char *t = call("http_request", args, NULL);
    has(t, "X-Got: abc");
    has(t, "\r\n\r\nhello");
    good("shell_kill", "{}", "ended");
    bad("http_request", "{\"url\":\"http://127.0.0.1:1/\",\"timeout\":5}", "ERROR: ");
}

static void an_agent_uses_them(void **state)
{
    static const char *const names[] = { "file_write", "shell_exec", "file_read", NULL };
    cay_tools_options o = { .size = sizeof o, .names = names, .max_output_tokens = 100 };
    cay_capability *c = NULL;
    (void)state;
    assert_int_equal(cay_cap_tools(&o, &c, NULL), 0);
    cay_agent a = {
        .size = sizeof a, .name = "Tooled", .sandbox = true, .capabilities = &c, .ncapabilities = 1
    };
    p.say[0] = CALL("c0", "file_write",
                    "{\\\"file\\\":\\\"app.py\\\",\\\"content\\\":\\\"print('Hello!')\\\"}");
    p.say[1] = CALL("c1", "shell_exec", "{\\\"command\\\":\\\"python3 app.py\\\"}");
    p.say[2] = CALL("c2", "shell_exec", "{\\\"command\\\":\\\"seq 1000\\\"}");
    p.say[3] = CALL("c3", "file_read", "{\\\"file\\\":\\\"nosuch\\\"}");
    p.say[4] = TEXT("done");
    cay_run_result_free(box_run(&a, "go", (cay_run_config){ 0 }));
    has(p.tools[0], "\"name\":\"shell_exec\"");
    has_not(p.tools[0], "git_push");
    box_told_has(1, "Successfully wrote 15 bytes");
    box_told_has(2, "[SUCCESS]\nHello!\n");
    box_told_has(3, "tokens truncated");
    box_told_has(4, "ERROR: ");
    cay_cap_free(c);
}

static cay_verdict refuse(void *arg, const cay_tool_call *c, char **message)
{
    (void)message;
    ++*(int *)arg;
    assert_string_equal(c->tool, "file_write");
    return CAY_REJECT;
}

static void what_changes_something_asks(void **state)
{
    cay_tools_options o = { .size = sizeof o, .approval = true };
    cay_capability *c = NULL;
    int asked = 0;
    (void)state;
    assert_int_equal(cay_cap_tools(&o, &c, NULL), 0);
    cay_agent a = {
        .size = sizeof a, .name = "Tooled", .sandbox = true, .capabilities = &c, .ncapabilities = 1
    };
    p.say[0] = CALL("c0", "file_write", "{\\\"file\\\":\\\"no.txt\\\",\\\"content\\\":\\\"x\\\"}");
    p.say[1] = CALL("c1", "file_list", "{}");
    p.say[2] = TEXT("done");
    cay_run_result_free(
        box_run(&a, "go", (cay_run_config){ .approve = refuse, .approve_arg = &asked }));
    assert_int_equal(asked, 1);
    box_told_has(1, "not approved");
    CAY_AUTOFREE char *t = box_told(2);
    has_not(t, "no.txt");
    cay_cap_free(c);
}

int main(int argc, char **argv)
{
    provider = argc > 1 ? argv[1] : "local";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(definitions_have_name_description_and_schema),
        cmocka_unit_test(unknown_names_are_refused),
        cmocka_unit_test(files_are_written_read_and_edited),
        cmocka_unit_test(paths_stay_inside),
        cmocka_unit_test(arguments_are_checked),
        cmocka_unit_test(the_shell_keeps_its_state),
        cmocka_unit_test(terminals_are_typed_into),
        cmocka_unit_test(python_keeps_its_state),
        cmocka_unit_test(git_commits_and_clones),
        cmocka_unit_test(requests_reach_servers_inside),
        cmocka_unit_test_setup_teardown(an_agent_uses_them, box_set_up, box_tear_down),
        cmocka_unit_test_setup_teardown(what_changes_something_asks, box_set_up, box_tear_down),
    };
    return cmocka_run_group_tests_name("tools", tests, open_set, close_set);
}
