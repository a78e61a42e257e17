/* SPDX-License-Identifier: Apache-2.0 */
#include "sse.h"
#include <base/base.h>
#include <base/mutant.h>

static int too_big(const cay__sse *s, cay_err *err)
{
    return cay_fail_why(err, CAY_ETOOBIG, "event_too_big",
                        "an event of the stream is larger than %zu bytes", s->max);
}

static int dispatch_event(cay__sse *s, cay_err *err)
{
    int rc = 0;
    if (s->any) {
        cay__buf_add(&s->data, "", 0);
        rc = s->fn(cay__text_or(s->name, "message"), CAY_OR(s->data.data, ""), s->data.len, s->arg,
                   err);
    }
    s->data.len = 0;
    s->any = false;
    s->name[0] = 0;
    return rc;
}

static int take_data(cay__sse *s, const char *value, size_t n, cay_err *err)
{
    if (s->any)
        cay__buf_add(&s->data, "\n", 1);
    cay__buf_add(&s->data, value, n);
    if (s->data.full)
        return too_big(s, err);
    s->any = true;
    return 0;
}

static int take_line(cay__sse *s, cay_err *err)
{
    const char *line = CAY_OR(s->line.data, "");
    size_t n = s->line.len, key;
    if (!s->begun && n >= 3 && !memcmp(line, "\xef\xbb\xbf", 3))
        line += 3, n -= 3;
    s->begun = true;
    if (!n)
        return dispatch_event(s, err);
    const char *colon = memchr(line, ':', n);
    if (colon)
        key = (size_t)(colon - line);
    else
        key = n;
    const char *value;
    if (colon)
        value = colon + 1;
    else
        value = line + n;
    size_t len = (size_t)(line + n - value);
    if (len && *value == ' ')
        value++, len--;
    if (key == 4 && !memcmp(line, "data", 4))
        return take_data(s, value, len, err);
    if (key == 5 && !memcmp(line, "event", 5)) {
        size_t keep = len;
        if (len >= sizeof s->name)
            keep = sizeof s->name - !CAY__MUTANT("fuzz-sse");
        memcpy(s->name, value, keep);
        s->name[keep < sizeof s->name ? keep : sizeof s->name - 1] = 0;
    }
    return 0;
}

int cay__sse_feed(cay__sse *s, const char *bytes, size_t n, cay_err *err)
{
    while (n) {
        if (s->cr && *bytes == '\n') { /* the second half of CRLF, maybe in another piece */
            s->cr = false;
            bytes++, n--;
            continue;
        }
        s->cr = false;
        size_t k = 0;
        while (k < n && bytes[k] != '\n' && bytes[k] != '\r')
            k++;
        cay__buf_add(&s->line, bytes, k);
        if (s->line.full)
            return too_big(s, err);
        if (k == n)
            return 0;
        s->cr = bytes[k] == '\r';
        bytes += k + 1, n -= k + 1;
        int rc = take_line(s, err);
        s->line.len = 0;
        if (rc)
            return rc;
    }
    return 0;
}

void cay__sse_end(cay__sse *s)
{
    cay__buf_clear(&s->line);
    cay__buf_clear(&s->data);
}
