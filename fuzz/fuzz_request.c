/* SPDX-License-Identifier: Apache-2.0 */
/* The head of a request or an answer. The first byte says which, and where it is cut: however it
 * comes, the same is read, and what is read can be written and read again. */
#include <net/head.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static int parse(bool answer, const char *text, size_t n, size_t *scanned, cay__head *h)
{
    return answer ? cay__answer_read(text, n, scanned, false, h, NULL)
                  : cay__request_read(text, n, scanned, h, NULL);
}

/* In pieces, and as one: the code has to be the same, but for an error that is seen before the end
 * of the head. */
static int read_whole(bool answer, const char *text, size_t len, size_t step, cay__head *h)
{
    size_t scanned = 0;
    int rc = 0;
    for (size_t n = step; rc == 0 && n < len; n += step)
        rc = parse(answer, text, n, &scanned, h);
    return rc ? rc : parse(answer, text, len, &scanned, h);
}

static void write_again(bool answer, const cay__head *h, cay__buf *out)
{
    if (answer)
        cay__buf_fmt(out, "HTTP/1.%d %d X\r\n", h->minor, h->status);
    else
        cay__buf_fmt(out, "%s %s HTTP/1.%d\r\n", h->method, h->target, h->minor);
    for (size_t i = 0; i < h->nfields; i++) {
        if (strpbrk(h->fields[i].name, " \t\r\n:") || strpbrk(h->fields[i].value, "\r\n") ||
            strlen(h->fields[i].value) != h->fields[i].value_len)
            abort();
        cay__buf_fmt(out, "%s: %s\r\n", h->fields[i].name, h->fields[i].value);
    }
    cay__buf_str(out, "\r\n");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (!len)
        return 0;
    bool answer = data[0] & 1;
    size_t step = 1 + (data[0] >> 1), scanned = 0;
    char *text = malloc(len); /* of the exact size */
    if (!text)
        abort();
    memcpy(text, data + 1, len - 1);
    cay__head whole = { 0 }, cut = { 0 }, again = { 0 };
    int a = parse(answer, text, len - 1, &scanned, &whole),
        b = read_whole(answer, text, len - 1, step, &cut);
    if ((a > 0) != (b > 0) || (a < 0) != (b < 0) ||
        (a > 0 && (a != b || whole.nfields != cut.nfields || whole.body != cut.body ||
                   whole.length != cut.length)))
        abort();
    if (a > 0) {
        cay__buf out = CAY__BUF(1 << 20);
        write_again(answer, &whole, &out);
        scanned = 0;
        int c = parse(answer, out.data, out.len, &scanned, &again);
        if (out.len < CAY__HEAD_MAX &&
            (c != (int)out.len || again.nfields != whole.nfields || again.body != whole.body ||
             again.keep_alive != whole.keep_alive))
            abort();
        if (c > 0)
            cay__head_clear(&again);
        cay__buf_clear(&out);
        cay__head_clear(&whole);
    }
    if (b > 0)
        cay__head_clear(&cut);
    free(text);
    return 0;
}
