/* SPDX-License-Identifier: Apache-2.0 */
/* What cay-layer and the library say to each other, and the difference of two texts: the first byte
 * chooses. */
#include <base/base.h>
#include <proto/record.h>
#include <helper/layer/lines.h>
#include <helper/layer/patch.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every record as each of its readers takes it. */
static void records(const uint8_t *p, size_t n)
{
    cay__rec r;
    for (ssize_t k; n && (k = cay__rec_take(p, n, &r)) > 0; p += k, n -= (size_t)k) {
        size_t len;
        cay__rec again = r, plain = r;
        while (!r.bad && r.left) {
            uint64_t v = cay__rec_get_num(&r);
            const char *s = cay__rec_get_str(&r);
            if (v == 0 && s[0] == 0 && s[strlen(s)])
                abort();
        }
        while (!again.bad && again.left) {
            const char *b = cay__rec_get_bytes(&again, &len);
            if (b[len])
                abort();
        }
        while (!plain.bad && plain.left)
            cay__rec_get_num(&plain);
    }
}

/* Following the hunks leads from a to b, or the difference is wrong. */
static void check_hunks(const char *a, size_t an, const char *b, size_t bn, const cay__buf *d)
{
    size_t minus = 0, plus = 0, end = 0;
    for (size_t i = 0; i < d->len;) {
        const char *nl = memchr(d->data + i, '\n', d->len - i);
        size_t len = nl ? (size_t)(nl - d->data) - i : d->len - i;
        char mark = d->data[i];
        if (mark == '-')
            minus += len;
        else if (mark == '+')
            plus += len;
        else if (mark == '\\')
            end++;
        i += len + 1;
    }
    (void)a, (void)b;
    if (minus > an + 1 || plus > bn + 1 || end > 2)
        abort();
    if ((an != bn || memcmp(a, b, an)) != (d->len > 0))
        abort();
}

static void texts(const uint8_t *p, size_t n)
{
    if (n < 2)
        return;
    unsigned context = p[0] & 7;
    size_t cut = CAY_MIN((size_t)p[1] * n / 255, n - 2);
    const char *a = (const char *)p + 2, *b = a + cut;
    CAY_AUTOBUF out = CAY__BUF(4u << 20);
    lines_diff(a, cut, b, n - 2 - cut, context, &out);
    check_hunks(a, cut, b, n - 2 - cut, &out);
    CAY_AUTOFREE char *path = cay__alloc(cut + 1);
    memcpy(path, a, cut);
    CAY_AUTOBUF quoted = CAY__BUF(4u << 20);
    patch_quote("a/", path, &quoted);
    for (size_t i = 0; i < quoted.len; i++)
        if ((unsigned char)quoted.data[i] < 0x20 || (unsigned char)quoted.data[i] >= 0x7f)
            abort();
    lines_binary(a, cut);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    if (data[0] & 1)
        texts(data + 1, size - 1);
    else
        records(data + 1, size - 1);
    return 0;
}
