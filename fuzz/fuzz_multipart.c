/* SPDX-License-Identifier: Apache-2.0 */
/* A multipart body with boundary "xx". The first byte cuts it in pieces; however it is cut, the
 * same parts come out. */
#include <base/base.h>
#include <base/buf.h>
#include <net/multipart.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

typedef struct src {
    const uint8_t *data;
    size_t len, step;
} src;

static int give(void *arg, void *buf, size_t cap, size_t *n, cay_err *err)
{
    src *s = arg;
    (void)err;
    *n = CAY_MIN(CAY_MIN(s->len, s->step), cap);
    memcpy(buf, s->data, *n);
    s->data += *n;
    s->len -= *n;
    return 0;
}

static int flat(const uint8_t *data, size_t len, size_t step, cay__buf *out)
{
    cay__multipart *m;
    cay__form_part part;
    src s = { data, len, step };
    int rc;
    if (cay__multipart_open("multipart/form-data; boundary=xx", give, &s, &m, NULL) < 0)
        abort();
    while ((rc = cay__multipart_next(m, &part, NULL)) == 1) {
        char piece[64];
        size_t n;
        cay__buf_fmt(out, "%s %s %s %d=", part.name, part.filename, part.type, part.file);
        while ((rc = cay__multipart_bytes(m, piece, sizeof piece, &n, NULL)) == 0 && n)
            cay__buf_add(out, piece, n);
        cay__buf_add(out, ";", 1);
        if (rc < 0)
            break;
    }
    cay__multipart_close(m);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (!len)
        return 0;
    cay__buf whole = CAY__BUF(4 << 20), pieces = CAY__BUF(4 << 20);
    size_t step = 1 + data[0] % 31;
    int a = flat(data + 1, len - 1, len, &whole), b = flat(data + 1, len - 1, step, &pieces);
    if (a != b || whole.len != pieces.len ||
        (whole.len && memcmp(whole.data, pieces.data, whole.len)))
        abort();
    cay__buf_clear(&whole);
    cay__buf_clear(&pieces);
    return 0;
}
