/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tar as it is uploaded. The first byte cuts it in pieces; however it is cut, the same members
 * come out. Sums are set right first where a head says "sum" in their place, so that the fuzzer
 * gets behind them. What was read is written again, and reads the same.
 */
#include <base/base.h>
#include <base/tar.h>
#include <stdio.h>

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

static void mend(uint8_t *data, size_t len)
{
    for (size_t at = 0; at + 512 <= len; at += 512) {
        unsigned sum = 0;
        if (memcmp(data + at + 148, "sum", 3))
            continue;
        memset(data + at + 148, ' ', 8);
        for (size_t i = 0; i < 512; i++)
            sum += data[at + i];
        char text[8];
        snprintf(text, sizeof text, "%06o", sum & 0777777);
        memcpy(data + at + 148, text, 7);
    }
}

static void write_again(const cay__member *m)
{
    CAY_AUTOBUF b = CAY__BUF(1 << 20);
    cay__member *back = cay__alloc(sizeof *back);
    cay__tar_head(&b, m);
    src s = { (const uint8_t *)b.data, b.len, b.len };
    cay__tar t = { .read = give, .arg = &s };
    if (b.len % 512 || cay__tar_next(&t, back, NULL) != 1 || strcmp(back->name, m->name) ||
        (m->type == '2' && strcmp(back->target, m->target)) || back->mode != m->mode ||
        (m->type == '0' && back->size != m->size))
        abort();
    free(back);
}

static int flat(const uint8_t *data, size_t len, size_t step, cay__buf *out)
{
    src s = { data, len, step };
    cay__tar t = { .read = give, .arg = &s };
    cay__member *m = cay__alloc(sizeof *m);
    int rc;
    while ((rc = cay__tar_next(&t, m, NULL)) == 1) {
        char piece[100];
        size_t n;
        cay__buf_fmt(out, "%c %s %s %o %u %u=", m->type, m->name, m->target, m->mode, m->uid,
                     m->gid);
        while ((rc = cay__tar_bytes(&t, piece, sizeof piece, &n, NULL)) == 0 && n)
            cay__buf_add(out, piece, n);
        cay__buf_add(out, ";", 1);
        if (rc < 0)
            break;
        if (*m->name && strchr("025", m->type))
            write_again(m);
    }
    free(m);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (!len)
        return 0;
    cay__buf whole = CAY__BUF(4 << 20), pieces = CAY__BUF(4 << 20);
    uint8_t *copy = cay__alloc(len);
    memcpy(copy, data + 1, len - 1);
    mend(copy, len - 1);
    int a = flat(copy, len - 1, len, &whole), b = flat(copy, len - 1, 1 + data[0] % 200, &pieces);
    if (a != b || whole.len != pieces.len ||
        (whole.len && memcmp(whole.data, pieces.data, whole.len)))
        abort();
    cay__buf_clear(&whole);
    cay__buf_clear(&pieces);
    free(copy);
    return 0;
}
