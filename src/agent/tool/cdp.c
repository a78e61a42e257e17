/* SPDX-License-Identifier: Apache-2.0 */
#include "toolset.h"
#include <poll.h>

enum { MESSAGE_MAX = 64 << 20, TIMEOUT_MS = 30000, END_MS = 3000 };

/* The programs themselves before their wrappers, which want files of /etc that a sandbox may lack.
 * The sandbox is the wall, so Chromium's own, which needs namespaces again, is left off. Its
 * profile goes with it; in /tmp where that can be, because a socket in it has to have a short name.
 */
static const char start_line[] =
    "for b in /usr/lib/chromium/chromium /usr/lib/chromium-browser/chromium-browser "
    "/opt/google/chrome/chrome chromium chromium-browser google-chrome chrome "
    "chromium-headless-shell; do\n"
    "  command -v \"$b\" >/dev/null 2>&1 || continue\n"
    "  d=$(TMPDIR=/tmp mktemp -d 2>/dev/null || mktemp -d) || exit 1\n"
    "  HOME=$d TMPDIR=$d \"$b\" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage "
    "--no-first-run --no-default-browser-check --disable-background-networking \\\n"
    "    --disable-component-update --disable-sync --disable-extensions --disable-default-apps "
    "--mute-audio --hide-scrollbars --window-size=1280,800 \\\n"
    "    --remote-debugging-pipe --user-data-dir=\"$d\" about:blank 3<&0 4>&1 >/dev/null 2>&1 "
    "</dev/null\n"
    "  rm -rf \"$d\"; exit 0\n"
    "done\n"
    "exit 127";

void cay__cdp_close(cay__cdp *c)
{
    if (!c)
        return;
    /* Told to close it leaves by itself, and what started it takes the profile away. */
    static const char bye[] = "{\"id\":2147483647,\"method\":\"Browser.close\"}";
    cay_call soon = { .size = sizeof soon, .deadline_ms = cay__now_ms() + END_MS };
    if (c->peer.p)
        cay_proc_write(c->peer.p, &soon, bye, sizeof bye, NULL); /* with its NUL */
    cay__peer_close(&c->peer, END_MS);
    free(c);
}

/* Messages are JSON, each ended by a NUL. */
static int send_message(cay__cdp *c, const cay_call *call, const char *method, json_t *params,
                        bool page, cay_err *err)
{
    CAY_AUTOJSON *m = json_pack("{s:I, s:s}", "id", (json_int_t)++c->id, "method", method);
    if (params)
        json_object_set_new(m, "params", params);
    if (page)
        cay__json_put(m, "sessionId", c->session);
    CAY_AUTOFREE char *text = cay__json_text(m, MESSAGE_MAX);
    if (!text)
        return cay_fail(err, CAY_ETOOBIG, "the message for the browser is too large");
    return cay_proc_write(c->peer.p, call, text, strlen(text) + 1, err);
}

static int fail_ended(cay_err *err)
{
    return cay_fail(err, CAY_ESTATE, "the browser ended; the next call starts another");
}

/* A dialog holds its page until somebody answers. */
static int look_at_event(cay__cdp *c, const cay_call *call, const json_t *m, cay_err *err)
{
    int64_t id = c->id;
    if (strcmp(cay__json_str(m, "method", ""), "Page.javascriptDialogOpening"))
        return 0;
    c->id += 1000000000; /* its answer is nobody's */
    int rc = send_message(c, call, "Page.handleJavaScriptDialog", json_pack("{s:b}", "accept", 1),
                          true, err);
    c->id = id;
    return rc;
}

static int wait_for(cay__cdp *c, const cay_call *call, int64_t id, json_t **answer, cay_err *err)
{
    for (;;) {
        CAY_AUTOFREE char *text = cay__peer_take(&c->peer, 0);
        CAY_AUTOJSON *m = CAY_IF(text, json_loads(text, 0, NULL));
        if (m && json_object_get(m, "id") && cay__json_int(m, "id", -1) == id) {
            *answer = CAY_STEAL(m);
            return 0;
        }
        if (m)
            CAY_TRY(look_at_event(c, call, m, err));
        if (text)
            continue;
        CAY_TRY(cay__call_wait(call, c->peer.fd, POLLIN, "the browser", err));
        if (!cay__peer_read(&c->peer))
            return fail_ended(err);
    }
}

static int exchange_message(cay__cdp *c, const cay_call *call, const char *method, json_t *params,
                            bool page, json_t **result, cay_err *err)
{
    CAY_AUTOJSON *answer = NULL;
    cay_call own = cay__call_copy(call);
    int64_t end = cay__now_ms() + TIMEOUT_MS;
    if (!own.deadline_ms || own.deadline_ms > end)
        own.deadline_ms = end;
    int rc = send_message(c, &own, method, params, page, err);
    if (rc < 0) {
        if (rc == CAY_ESTATE || rc == CAY_EGONE)
            return fail_ended(err);
        return rc;
    }
    CAY_TRY(wait_for(c, &own, c->id, &answer, err));
    const json_t *fault = json_object_get(answer, "error");
    if (fault)
        return cay_fail_why(err, CAY_EUPSTREAM, "browser_failed", "%s: %.200s", method,
                            cay__json_str(fault, "message", "the browser refuses"));
    if (result)
        *result = json_incref(json_object_get(answer, "result"));
    return 0;
}

int cay__cdp_call(cay__cdp *c, const cay_call *call, const char *method, json_t *params,
                  json_t **result, cay_err *err)
{
    return exchange_message(c, call, method, params, true, result, err);
}

int cay__cdp_eval(cay__cdp *c, const cay_call *call, const char *script, json_t **value,
                  cay_err *err)
{
    CAY_AUTOJSON *r = NULL;
    CAY_TRY(cay__cdp_call(c, call, "Runtime.evaluate",
                          json_pack("{s:s, s:b, s:b, s:b}", "expression", script, "returnByValue",
                                    1, "awaitPromise", 1, "userGesture", 1),
                          &r, err));
    const json_t *thrown = json_object_get(r, "exceptionDetails");
    if (thrown)
        return cay_fail_why(
            err, CAY_EUPSTREAM, "browser_failed", "%.*s",
            (int)strcspn(cay__json_str(json_object_get(thrown, "exception"), "description",
                                       cay__json_str(thrown, "text", "")),
                         "\n"),
            cay__json_str(json_object_get(thrown, "exception"), "description",
                          cay__json_str(thrown, "text", "the script failed")));
    json_t *v = json_object_get(json_object_get(r, "result"), "value");
    *value = json_incref(CAY_OR(v, json_null()));
    return 0;
}

static int open_page(cay__cdp *c, const cay_call *call, cay_err *err)
{
    CAY_AUTOJSON *target = NULL, *session = NULL;
    CAY_TRY(exchange_message(c, call, "Target.createTarget",
                             json_pack("{s:s}", "url", "about:blank"), false, &target, err));
    CAY_TRY(exchange_message(
        c, call, "Target.attachToTarget",
        json_pack("{s:s, s:b}", "targetId", cay__json_str(target, "targetId", ""), "flatten", 1),
        false, &session, err));
    CAY_COPY(c->session, cay__json_str(session, "sessionId", ""));
    return cay__cdp_call(c, call, "Page.enable", NULL, NULL, err);
}

int cay__cdp_open(cay_sandbox *sb, const char *user, const char *cwd, const cay_pair *env,
                  const cay_call *call, cay__cdp **out, cay_err *err)
{
    const char *argv[] = { "sh", "-c", start_line, NULL };
    const cay_spawn spec = {
        .size = sizeof spec, .argv = argv, .user = user, .cwd = cwd, .env = env
    };
    cay__cdp *c = cay__alloc(sizeof *c);
    int rc = cay__peer_open(&c->peer, sb, call, &spec, MESSAGE_MAX, err);
    if (rc == 0)
        rc = open_page(c, call, err);
    if (rc == CAY_ESTATE) {
        cay_exit gone = { .size = sizeof gone };
        cay_call soon = { .size = sizeof soon, .deadline_ms = cay__now_ms() + END_MS };
        if (cay_proc_wait(c->peer.p, &soon, &gone, NULL) == 0 && gone.code == 127)
            rc = cay_fail_why(err, CAY_ENOENT, "browser_missing",
                              "there is no Chromium in this sandbox; install it (Debian: "
                              "chromium), or use a template that has it");
        else
            rc = cay_fail_why(err, CAY_EUPSTREAM, "browser_failed",
                              "the browser ended as it began (status %d)", gone.code);
    }
    if (rc < 0)
        cay__cdp_close(c);
    else
        *out = c;
    return rc;
}
