/* SPDX-License-Identifier: Apache-2.0 */
/* browser_open, browser_read, browser_click, browser_type, browser_screenshot: one page, as a
 * person would see it. */
#include "toolset.h"
#include <poll.h>

enum { LOAD_MS = 20000, TEXT_MAX = 40000, SHOT_MAX = 14 << 20 };

static int open_browser(cay_toolset *ts, const cay_call *call, cay_err *err)
{
    if (ts->browser)
        return 0;
    CAY_AUTOFREE cay_pair *env = cay__tool_env(ts, NULL);
    return cay__cdp_open(ts->sb, ts->user, ts->cwd, env, call, &ts->browser, err);
}

/* One that has ended is forgotten: the next call begins anew. */
static int drop_ended_browser(cay_toolset *ts, int rc)
{
    if (rc == CAY_ESTATE)
        cay__cdp_close(CAY_STEAL(ts->browser));
    return rc;
}

/* Until the page is there, or for a while: what has come is told then. */
static int wait_for_load(cay_toolset *ts, const cay_call *call, cay_err *err)
{
    int64_t stop = cay__now_ms() + LOAD_MS;
    for (;;) {
        CAY_AUTOJSON *v = NULL;
        cay_err own = CAY_ERR_INIT;
        int rc = cay__cdp_eval(ts->browser, call, "document.readyState", &v, &own);
        if (rc < 0 && rc != CAY_EUPSTREAM) { /* between two pages there is nobody to ask */
            return cay__err_pass(rc, &own, err);
        }
        if ((rc == 0 && json_is_string(v) && !strcmp(json_string_value(v), "complete")) ||
            cay__now_ms() >= stop)
            return 0;
        poll(NULL, 0, 30);
        CAY_TRY(cay__call_check(call, "the page", err));
    }
}

/* As a word of JavaScript. */
static void write_selector(cay__buf *b, const char *selector)
{
    if (*selector)
        cay__buf_json(b, selector, strlen(selector));
    else
        cay__buf_str(b, "null");
}

static const char *bool_word(bool yes)
{
    if (yes)
        return "true";
    return "false";
}

static int tell_page(cay_toolset *ts, const cay_call *call, const char *selector, bool elements,
                     cay_tool_output *out, cay_err *err)
{
    static const char script[] =
        "(() => { const root = SELECTOR ? document.querySelector(SELECTOR) : document.body; if "
        "(SELECTOR && !root) throw new Error('nothing fits the selector ' + SELECTOR);\n"
        "const name = e => { if (e.id && /^[A-Za-z][\\w-]*$/.test(e.id)) return '#' + e.id; const "
        "n = e.getAttribute('name'); const t = e.tagName.toLowerCase();\n"
        "  if (n && !/[\"\\\\]/.test(n)) return t + '[name=\"' + n + '\"]'; const all = "
        "[...document.querySelectorAll(t)]; const p = [];\n"
        "  for (let x = e; x && x !== document.body && p.length < 8; x = x.parentElement) "
        "p.unshift(x.tagName.toLowerCase() + ':nth-child(' + "
        "([...x.parentElement.children].indexOf(x) + 1) + ')');\n"
        "  return p.join(' > '); };\n"
        "const seen = e => { const r = e.getBoundingClientRect(); return r.width > 0 && r.height > "
        "0; };\n"
        "const list = ELEMENTS && root ? "
        "[...root.querySelectorAll('a[href],button,input,select,textarea,[onclick],[role=button]')]"
        ".filter(seen).slice(0, 60).map(e =>\n"
        "  e.tagName.toLowerCase() + (e.type ? '/' + e.type : '') + ' \"' + (e.innerText || "
        "e.value || e.placeholder || e.getAttribute('aria-label') || '').trim().slice(0, 60) + '\" "
        "' + name(e)) : [];\n"
        "return { title: document.title, url: location.href, text: (root ? root.innerText || "
        "root.textContent || '' : '').slice(0, 200000), list: list }; })()";
    CAY_AUTOBUF s = CAY__BUF(1 << 20);
    CAY_AUTOBUF word = CAY__BUF(65536);
    CAY_AUTOJSON *v = NULL;
    write_selector(&word, selector);
    cay__buf_fmt(&s, "(() => { const SELECTOR = %s, ELEMENTS = %s; return %s; })()", word.data,
                 bool_word(elements), script);
    if (s.full)
        return cay_fail(err, CAY_ETOOBIG, "the selector is too long");
    CAY_TRY(cay__cdp_eval(ts->browser, call, s.data, &v, err));
    const json_t *text = json_object_get(v, "text");
    cay__tool_say(out, "Title: %s\nURL: %s\n\n", cay__json_str(v, "title", ""),
                  cay__json_str(v, "url", ""));
    cay_output_text(out, CAY_OR(json_string_value(text), ""),
                    CAY_MIN(json_string_length(text), (size_t)TEXT_MAX));
    if (json_string_length(text) > TEXT_MAX)
        cay__tool_say(out, "\n[the page has more text: give a selector]");
    if (json_array_size(json_object_get(v, "list")))
        cay__tool_say(out, "\n\nElements:\n");
    CAY_EACH_ITEM(e, json_object_get(v, "list"))
        cay__tool_say(out, "- %s\n", CAY_OR(json_string_value(e), ""));
    return 0;
}

CAY__TOOL_FN(browser_open)
{
    static const char *const schemes[] = { "http://", "https://", "file://",
                                           "data:", "about:blank" };
    const char *url = cay__json_str(args, "url", "");
    bool known = false;
    CAY_AUTOJSON *r = NULL;
    CAY_EACH(scheme, schemes)
        known = known || !strncmp(url, *scheme, strlen(*scheme));
    if (!known)
        return cay_fail(err, CAY_EINVAL, "url \"%.100s\": want http://, https:// or file://", url);
    CAY_TRY(open_browser(ts, call, err));
    int rc =
        cay__cdp_call(ts->browser, call, "Page.navigate", json_pack("{s:s}", "url", url), &r, err);
    const char *fault = cay__json_str(r, "errorText", "");
    if (rc == 0 && *fault)
        rc = cay_fail_why(err, CAY_EUPSTREAM, "browser_failed", "%.150s cannot be opened: %s", url,
                          fault);
    if (rc == 0)
        rc = wait_for_load(ts, call, err);
    if (rc == 0)
        rc = tell_page(ts, call, "", true, out, err);
    return drop_ended_browser(ts, rc);
}

CAY__TOOL_FN(browser_read)
{
    CAY_TRY(open_browser(ts, call, err));
    return drop_ended_browser(ts, tell_page(ts, call, cay__json_str(args, "selector", ""),
                                            cay__json_bool(args, "elements", true), out, err));
}

/* Where to point: the middle of what the selector or the text names, scrolled into view. A link
 * opens here, not in a page that nobody looks at. */
static int point_at(cay_toolset *ts, const cay_call *call, const json_t *args, bool focus,
                    double *x, double *y, cay_err *err)
{
    static const char script[] =
        "(() => { const s = %s, t = %s, focus = %s; let e = null;\n"
        "if (s) e = document.querySelector(s);\n"
        "else { const fits = x => (x.innerText || x.value || x.getAttribute('aria-label') || "
        "'').trim(); const all = "
        "[...document.querySelectorAll('a,button,input,select,textarea,label,[onclick],[role="
        "button],summary')];\n"
        "  e = all.find(x => fits(x) === t) || all.find(x => fits(x).includes(t)) || "
        "[...document.querySelectorAll('body *')].reverse().find(x => (x.innerText || '').trim() "
        "=== t); }\n"
        "if (!e) throw new Error(s ? 'nothing fits the selector ' + s : 'nothing on the page says "
        "' + t);\n"
        "const a = e.closest('a[target]'); if (a) a.removeAttribute('target');\n"
        "e.scrollIntoView({ block: 'center', inline: 'center', behavior: 'instant' }); if (focus) "
        "{ e.focus(); if (e.select) e.select(); }\n"
        "const r = e.getBoundingClientRect(); return [r.left + r.width / 2, r.top + r.height / 2]; "
        "})()";
    CAY_AUTOBUF s = CAY__BUF(1 << 20);
    CAY_AUTOBUF a = CAY__BUF(65536);
    CAY_AUTOBUF b = CAY__BUF(65536);
    CAY_AUTOJSON *v = NULL;
    const char *selector = cay__json_str(args, "selector", ""),
               *text = focus ? "" : cay__json_str(args, "text", "");
    if (!*selector && !*text)
        return cay_fail(err, CAY_EINVAL,
                        focus ? "give a selector" : "give a selector or the text that is clicked");
    write_selector(&a, selector);
    cay__buf_json(&b, text, strlen(text));
    cay__buf_fmt(&s, script, a.data, b.data, bool_word(focus));
    if (s.full || a.full || b.full)
        return cay_fail(err, CAY_ETOOBIG, "the selector is too long");
    CAY_TRY(cay__cdp_eval(ts->browser, call, s.data, &v, err));
    *x = json_number_value(json_array_get(v, 0));
    *y = json_number_value(json_array_get(v, 1));
    return 0;
}

static int send_mouse(cay_toolset *ts, const cay_call *call, const char *type, double x, double y,
                      cay_err *err)
{
    return cay__cdp_call(ts->browser, call, "Input.dispatchMouseEvent",
                         json_pack("{s:s, s:f, s:f, s:s, s:i}", "type", type, "x", x, "y", y,
                                   "button", strcmp(type, "mouseMoved") ? "left" : "none",
                                   "clickCount", strcmp(type, "mouseMoved") ? 1 : 0),
                         NULL, err);
}

static int send_key(cay_toolset *ts, const cay_call *call, const char *type, cay_err *err)
{
    return cay__cdp_call(ts->browser, call, "Input.dispatchKeyEvent",
                         json_pack("{s:s, s:s, s:s, s:s, s:i}", "type", type, "key", "Enter",
                                   "code", "Enter", "text", strcmp(type, "keyDown") ? "" : "\r",
                                   "windowsVirtualKeyCode", 13),
                         NULL, err);
}

/* What an action leads to begins a moment later. */
static int report_action(cay_toolset *ts, const cay_call *call, cay_tool_output *out, cay_err *err)
{
    poll(NULL, 0, 150);
    CAY_TRY(wait_for_load(ts, call, err));
    return tell_page(ts, call, "", true, out, err);
}

CAY__TOOL_FN(browser_click)
{
    static const char *const steps[] = { "mouseMoved", "mousePressed", "mouseReleased" };
    double x, y;
    CAY_TRY(open_browser(ts, call, err));
    int rc = point_at(ts, call, args, false, &x, &y, err);
    for (size_t i = 0; rc == 0 && i < CAY_LEN(steps); i++)
        rc = send_mouse(ts, call, steps[i], x, y, err);
    if (rc == 0)
        rc = report_action(ts, call, out, err);
    return drop_ended_browser(ts, rc);
}

CAY__TOOL_FN(browser_type)
{
    double x, y;
    CAY_TRY(open_browser(ts, call, err));
    int rc = point_at(ts, call, args, true, &x, &y, err);
    if (rc == 0)
        rc = cay__cdp_call(ts->browser, call, "Input.insertText",
                           json_pack("{s:O}", "text", json_object_get(args, "text")), NULL, err);
    if (rc == 0 && cay__json_bool(args, "submit", false)) {
        rc = send_key(ts, call, "keyDown", err);
        if (rc == 0)
            rc = send_key(ts, call, "keyUp", err);
    }
    if (rc == 0)
        rc = report_action(ts, call, out, err);
    return drop_ended_browser(ts, rc);
}

CAY__TOOL_FN(browser_screenshot)
{
    CAY_AUTOJSON *r = NULL;
    CAY_TRY(open_browser(ts, call, err));
    int rc = cay__cdp_call(ts->browser, call, "Page.captureScreenshot",
                           json_pack("{s:s, s:b}", "format", "png", "captureBeyondViewport",
                                     cay__json_bool(args, "full_page", false)),
                           &r, err);
    const char *data = cay__json_str(r, "data", "");
    if (rc == 0 && (!*data || strlen(data) > SHOT_MAX))
        rc = cay_fail(err, CAY_ETOOBIG, "the picture is larger than 10 MiB; leave full_page off");
    if (rc == 0)
        cay__output_encoded(out, "image/png", data);
    return drop_ended_browser(ts, rc);
}
