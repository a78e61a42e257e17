/* SPDX-License-Identifier: Apache-2.0 */
/* What the preview proxy reads from outside, by the first byte: a Host, a path, a query, cookies,
 * or a whole head, which is written anew for the other side and has to be read there as the same
 * message. */
#include <base/base.h>
#include <server/preview/preview.h>
#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void names(const char *text)
{
    cay__preview_at at = { 0 };
    if (cay__preview_host(text, "localhost", &at) && (!at.port || strlen(at.id) != CAY_ID_LEN))
        abort();
    if (cay__preview_path(text, &at) > 0 &&
        (at.prefix > strlen(text) || (text[at.prefix] && text[at.prefix] != '/')))
        abort();
}

static void cookies(const char *text)
{
    char value[64], mine[] = "cay_00ff00ff";
    CAY_AUTOBUF kept = CAY__BUF(1 << 20), set = CAY__BUF(1 << 20);
    cay__cookie_strip(text, &kept);
    if (kept.data && cay__cookie_get(kept.data, mine, value, sizeof value))
        abort();
    if (cay__set_cookie(text, &set) &&
        (!set.data || strcasestr(set.data, "; domain=") || set.data[0] == '='))
        abort();
}

static void query(const char *text)
{
    char value[64], again[64];
    CAY_AUTOBUF rest = CAY__BUF(1 << 20), same = CAY__BUF(1 << 20);
    cay__query_strip(text, CAY__PREVIEW_TOKEN, &rest, value, sizeof value);
    cay__query_strip(rest.data ? rest.data : "", CAY__PREVIEW_TOKEN, &same, again, sizeof again);
    if (*again || rest.len != same.len)
        abort();
}

static void request(const char *text, size_t len)
{
    static cay__head h, again;
    size_t scanned = 0;
    cay__preview_at at = { .id = "cabcdefghij234567abc", .port = 8000 };
    CAY_AUTOBUF out = CAY__BUF(1 << 20);
    if (cay__request_read(text, len, &scanned, &h, NULL) <= 0)
        return;
    cay__preview_path(h.path, &at);
    cay__preview_request(&(cay__preview_ask){ .at = &at,
                                              .head = &h,
                                              .query = h.query,
                                              .peer = "::1",
                                              .websocket = h.upgrade != NULL },
                         &out);
    scanned = 0;
    char host[24];
    snprintf(host, sizeof host, "localhost:%u", at.port);
    int n = cay__request_read(out.data, out.len, &scanned, &again, NULL);
    /* More fields than it had, and longer: the only ways in which it may be refused. */
    if (n > 0 ? (size_t)n != out.len || again.body != h.body || again.length != h.length ||
                    strcmp(again.method, h.method) || strcmp(again.host, host)
              : out.len < CAY__HEAD_MAX && h.nfields < CAY__HEAD_FIELDS - 8)
        abort();
    if (n > 0)
        cay__head_clear(&again);
    cay__head_clear(&h);
}

static void answer(const char *text, size_t len)
{
    static cay__head h, again;
    size_t scanned = 0;
    cay__preview_back back = {
        .at = { .id = "cabcdefghij234567abc", .port = 8000, .by_path = len & 1 },
        .keep = true,
        .host = "me.test"
    };
    CAY_AUTOBUF out = CAY__BUF(1 << 20);
    if (cay__answer_read(text, len, &scanned, false, &h, NULL) <= 0)
        return;
    cay__preview_frame frame = cay__preview_framing(&back, &h);
    cay__preview_answer(&back, &h, frame, &out);
    scanned = 0;
    int n = cay__answer_read(out.data, out.len, &scanned, false, &again, NULL);
    if (n > 0 ? (size_t)n != out.len || again.status != h.status ||
                    (frame == CAY__FRAME_LENGTH && again.length != h.length)
              : out.len < CAY__HEAD_MAX && h.nfields < CAY__HEAD_FIELDS - 8)
        abort();
    if (n > 0)
        cay__head_clear(&again);
    cay__head_clear(&h);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (!len)
        return 0;
    char *text = cay__alloc(len);
    memcpy(text, data + 1, len - 1);
    switch (data[0]) {
    case 'n': names(text); break;
    case 'c': cookies(text); break;
    case 'q': query(text); break;
    case 'r': request(text, len - 1); break;
    case 'a': answer(text, len - 1); break;
    default: break;
    }
    free(text);
    return 0;
}
