/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_browser PROVIDER: a page that is served inside the sandbox, in a browser there. Skips where
 * this machine has no Chromium.
 */
#include "box.h"

static const char server[] =
    "import http.server\n"
    "class H(http.server.BaseHTTPRequestHandler):\n"
    "  def do_GET(s):\n"
    "    b = (b'<title>Second</title><p>You came as ' + s.path.encode() + b'</p>') if s.path != "
    "'/' else (\n"
    "      b'<title>First</title><h1>Welcome</h1><form action=/found><input name=q "
    "value=old></form>'\n"
    "      b'<button id=b onclick=\"this.innerText=confirm(1)?\\'agreed\\':\\'no\\'\">Press "
    "me</button> <a href=/next target=_blank>Onwards</a>')\n"
    "    s.send_response(200); s.send_header('Content-Type', 'text/html'); "
    "s.send_header('Content-Length', str(len(b))); s.end_headers(); s.wfile.write(b)\n"
    "  def log_message(*a): pass\n"
    "h = http.server.ThreadingHTTPServer(('127.0.0.1', 0), H)\n"
    "open('port.new', 'w').write(str(h.server_port))\n"
    "import os; os.rename('port.new', 'port')\n"
    "h.serve_forever()\n";

static char *port_of(cay_proc **proc)
{
    static const char *const argv[] = { "python3", "srv.py", NULL };
    cay_spawn spec = { .size = sizeof spec, .argv = argv };
    cay_err err = CAY_ERR_INIT;
    char *data = NULL;
    size_t n = 0;
    assert_int_equal(cay_file_put(sb, NULL, "srv.py", server, sizeof server - 1, NULL, NULL), 0);
    if (cay_sandbox_spawn(sb, NULL, &spec, proc, &err) < 0)
        fail_msg("%s", err.msg);
    for (int i = 0; i < 500 && cay_file_get(sb, NULL, "port", 16, &data, &n, NULL) < 0; i++)
        usleep(20000);
    assert_non_null(data);
    return data;
}

static void a_page_is_opened_read_clicked_and_typed_into(void **state)
{
    cay_proc *proc = NULL;
    CAY_AUTOFREE char *port = port_of(&proc);
    char first[256], again[256];
    cay_capability *c = cay_cap_browser(NULL);
    (void)state;
    cay_agent a = {
        .size = sizeof a, .name = "Surfer", .sandbox = true, .capabilities = &c, .ncapabilities = 1
    };
    snprintf(first, sizeof first,
             CALL("o1", "browser_open", "{\\\"url\\\":\\\"http://127.0.0.1:%s/\\\"}"), port);
    snprintf(again, sizeof again,
             CALL("o2", "browser_open", "{\\\"url\\\":\\\"http://127.0.0.1:%s/\\\"}"), port);
    p.say[0] = first;
    p.say[1] = CALL("c1", "browser_screenshot", "{}");
    p.say[2] = CALL("c2", "browser_click", "{\\\"selector\\\":\\\"#b\\\"}");
    p.say[3] = CALL("c3", "browser_type",
                    "{\\\"selector\\\":\\\"input[name=q]\\\",\\\"text\\\":\\\"what is "
                    "new\\\",\\\"submit\\\":true}");
    p.say[4] = again;
    p.say[5] = CALL("c5", "browser_click", "{\\\"text\\\":\\\"Onwards\\\"}");
    p.say[6] = CALL("c6", "browser_read", "{\\\"selector\\\":\\\"p\\\"}");
    p.say[7] = CALL("c7", "browser_click", "{\\\"text\\\":\\\"nothing like that\\\"}");
    p.say[8] = CALL("c8", "browser_open", "{\\\"url\\\":\\\"http://127.0.0.1:1/\\\"}");
    p.say[9] = CALL("c9", "browser_open", "{\\\"url\\\":\\\"javascript:alert(1)\\\"}");
    p.say[10] = TEXT("done");
    cay_run_result_free(box_run(&a, "go", (cay_run_config){ 0 }));
    has(p.instructions[0], "## Browser");
    box_told_has(1, "Title: First");
    box_told_has(1, "Welcome");
    box_told_has(1, "button/submit \"Press me\" #b");
    box_told_has(2, "data:image/png;base64,iVBOR");
    box_told_has(3, "agreed");
    box_told_has(4, "You came as /found?q=what+is+new");
    box_told_has(5, "Title: First");
    box_told_has(6, "Title: Second");
    box_told_has(7, "You came as /next");
    box_told_has(8, "ERROR: ");
    box_told_has(8, "nothing on the page says nothing like that");
    box_told_has(9, "cannot be opened: net::ERR");
    box_told_has(10, "want http://");
    cay_cap_free(c);
    cay_proc_signal(proc, NULL, 9, CAY_SCOPE_TREE, NULL);
    cay_proc_unref(proc);
}

int main(int argc, char **argv)
{
    static const char *const programs[] = { "/usr/lib/chromium/chromium", "/usr/bin/chromium",
                                            "/opt/google/chrome/chrome" };
    bool there = false;
    provider = argc > 1 ? argv[1] : "local";
    for (size_t i = 0; i < CAY_LEN(programs); i++)
        there = there || access(programs[i], X_OK) == 0;
    if (!there) {
        fprintf(
            stderr,
            "skipped: there is no Chromium on this machine (Debian: apt-get install chromium)\n");
        return 77;
    }
    const struct CMUnitTest tests[] = { cmocka_unit_test_setup_teardown(
        a_page_is_opened_read_clicked_and_typed_into, box_set_up, box_tear_down) };
    return cmocka_run_group_tests_name("browser", tests, box_open, box_close);
}
