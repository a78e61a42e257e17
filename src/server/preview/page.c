/* SPDX-License-Identifier: Apache-2.0 */
/* What is shown instead of an answer: a page for people, a problem document for programs. */
#include "preview.h"
#include <base/base.h>

typedef struct page {
    cay_reason reason;
    int code; /* when the reason is not in the table */
    int status;
    const char *title, *text;
} page;

static const page pages[] = {
    { CAY_REASON_PREVIEW_TOKEN_MISSING, CAY_EAUTH, 401, "This preview is private",
      "Whoever made the sandbox can give you a link that opens it." },
    { CAY_REASON_PREVIEW_FOREIGN_PAGE, 0, 403, "Not from here",
      "Another site asked for this page on your behalf, and that is not allowed." },
    { CAY_REASON_TOKEN_REFUSED, CAY_EPERM, 403, "This link does not open the preview",
      "It may have expired, or have been taken back. Ask for a new one." },
    { CAY_REASON_PORT_NOT_FOUND, 0, 502, "Nothing is listening here yet",
      "The sandbox runs, but no program in it listens on this port. Start it, or wait until it has "
      "started, then reload." },
    { CAY_REASON_PREVIEW_UNKNOWN, CAY_ENOENT, 404, "There is no such preview",
      "The address has a mistake in it, or the sandbox is gone." },
    { CAY_REASON_SANDBOX_STOPPED, 0, 503, "The sandbox is stopped",
      "Its files are kept. Resume it, start the program again, and reload." },
    { CAY_REASON_SANDBOX_PAUSED, CAY_ESTATE, 503, "The sandbox is not running",
      "It is paused. Resume it and reload; everything goes on where it stood." },
    { CAY_REASON_PREVIEW_UPSTREAM, CAY_EUPSTREAM, 502,
      "The program's answer could not be understood",
      "What runs in the sandbox broke the connection, or does not speak HTTP." },
    { CAY_REASON_PREVIEW_TIMEOUT, CAY_ETIMEOUT, 504, "No answer",
      "The program in the sandbox took the request and did not answer in time." },
    { CAY_REASON_OTHER, CAY_EINVAL, 400, "That request cannot be passed on", "" },
    { CAY_REASON_OTHER, CAY_ETOOBIG, 413, "Too large", "" },
    { CAY_REASON_OTHER, CAY_EBUSY, 503, "Busy", "Try again in a moment." },
    { CAY_REASON_OTHER, CAY_ERATE, 429, "Too many requests", "Try again in a moment." },
    { CAY_REASON_OTHER, CAY_ENOTSUP, 501, "Not supported", "" },
    { CAY_REASON_OTHER, CAY_EGONE, 404, "The sandbox is gone", "" },
};

static const page *page_of(const cay_err *err)
{
    static const page other = { CAY_REASON_OTHER, 0, 500, "Something went wrong",
                                "The server's log tells more." };
    CAY_EACH(item, pages)
        if (cay_err_is(err, item->reason))
            return item;
    CAY_EACH(it, pages)
        if (it->code == err->code)
            return it;
    return &other;
}

static void write_escaped(cay__buf *b, const char *s)
{
    for (; *s; s++) {
        switch (*s) {
        case '<': cay__buf_str(b, "&lt;"); break;
        case '>': cay__buf_str(b, "&gt;"); break;
        case '&': cay__buf_str(b, "&amp;"); break;
        case '"': cay__buf_str(b, "&quot;"); break;
        case '\'': cay__buf_str(b, "&#39;"); break;
        default: cay__buf_add(b, s, 1);
        }
    }
}

#define POLICY "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
static const char style[] =
    "<style>body{font:16px/1.5 system-ui,sans-serif;max-width:36em;margin:15vh auto;padding:0 "
    "1.5em;color:#222;background:#faf7f0}"
    "h1{font-size:1.4em;font-weight:600}p{margin:.6em 0}code,small{color:#776}"
    "@media(prefers-color-scheme:dark){body{color:#ddd;background:#1c1b19}code,small{color:#998}}</"
    "style>";

static void open_page(cay__buf *b, const char *title)
{
    cay__buf_str(b, "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport "
                    "content=\"width=device-width\"><title>");
    write_escaped(b, title);
    cay__buf_str(b, "</title>");
    cay__buf_str(b, style);
}

static void write_page(cay__buf *b, const page *p, const cay_err *err, const char *request)
{
    open_page(b, p->title);
    cay__buf_str(b, "<h1>");
    write_escaped(b, p->title);
    cay__buf_str(b, "</h1><p>");
    write_escaped(b, p->text);
    cay__buf_str(b, "<p><code>");
    write_escaped(b, err->msg);
    cay__buf_str(b, "</code><p><small>");
    write_escaped(b, request);
    cay__buf_str(b, "</small>\n");
}

static const char *retry_word(const page *p, const cay_err *err)
{
    if (err->retry == CAY_RETRY_YES || p->status == 503)
        return "yes";
    if (err->retry == CAY_RETRY_NO)
        return "no";
    return "unknown";
}

static void write_problem(cay__buf *b, const page *p, const cay_err *err, const char *request)
{
    const char *code = cay_code_name(err->code);
    cay__buf_str(b, "{\"type\":\"about:blank\",\"title\":");
    cay__buf_json(b, p->title, strlen(p->title));
    cay__buf_fmt(b, ",\"status\":%d,\"code\":", p->status);
    cay__buf_json(b, code, strlen(code));
    cay__buf_str(b, ",\"reason\":");
    cay__buf_json(b, err->reason, strlen(err->reason));
    cay__buf_str(b, ",\"detail\":");
    cay__buf_json(b, err->msg, strlen(err->msg));
    cay__buf_fmt(b, ",\"retry\":\"%s\",\"request\":", retry_word(p, err));
    cay__buf_json(b, request, strlen(request));
    cay__buf_str(b, "}\n");
}

#define HTML    "text/html; charset=utf-8"
#define PROBLEM "application/problem+json"

bool cay__preview_html(const cay__head *h)
{
    const char *accept = cay__head_field(h, "accept");
    return accept && strstr(accept, "text/html");
}

static void safe_fields(cay__req *r)
{
    cay__reply_field(r, "content-security-policy", POLICY);
    cay__reply_field(r, "cache-control", "no-store");
    cay__reply_field(r, "referrer-policy", "no-referrer");
}

int cay__preview_page(cay__req *r, const cay_err *err)
{
    CAY_AUTOBUF b = CAY__BUF(16384);
    const page *p = page_of(err);
    bool html = cay__preview_html(&r->head);
    html ? write_page(&b, p, err, r->id) : write_problem(&b, p, err, r->id);
    safe_fields(r);
    if (p->status == 503 || p->status == 429)
        cay__reply_field(r, "retry-after", "1");
    return cay__reply(r, p->status, html ? HTML : PROBLEM, b.data, b.len);
}

void cay__preview_page_raw(const cay__preview_back *back, bool html, const char *request_id,
                           const cay_err *err, int *status, cay__buf *out)
{
    CAY_AUTOBUF b = CAY__BUF(16384);
    const page *p = page_of(err);
    html ? write_page(&b, p, err, request_id) : write_problem(&b, p, err, request_id);
    *status = p->status;
    cay__buf_fmt(out,
                 "HTTP/1.1 %d %s\r\ncontent-type: %s\r\ncontent-length: %zu\r\nconnection: "
                 "close\r\ncache-control: no-store\r\nx-request-id: %s\r\n"
                 "content-security-policy: " POLICY
                 "\r\nx-content-type-options: nosniff\r\nreferrer-policy: no-referrer\r\n\r\n",
                 p->status, cay__status_text(p->status), html ? HTML : PROBLEM, b.len, request_id);
    if (!back->head_only)
        cay__buf_add(out, b.data, b.len);
}

int cay__preview_forward(cay__req *r, const char *where)
{
    CAY_AUTOBUF b = CAY__BUF(CAY__HEAD_MAX * 8);
    open_page(&b, "One moment");
    cay__buf_str(&b, "<meta http-equiv=refresh content=\"0;url=");
    write_escaped(&b, where);
    cay__buf_str(&b, "\"><p><a href=\"");
    write_escaped(&b, where);
    cay__buf_str(&b, "\">On to the preview</a>\n");
    safe_fields(r);
    return cay__reply(r, 200, HTML, b.data, b.len);
}
