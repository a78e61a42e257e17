/* SPDX-License-Identifier: Apache-2.0 */
#include "tar.h"
#include "base.h"
#include "mutant.h"
#include <inttypes.h>

enum { BLOCK = CAY__TAR_BLOCK, RECORDS_MAX = 64 << 10, MEMBERS_OF_ONE = 16 };

static int fail_archive(cay_err *err, const char *what)
{
    return cay_fail_why(err, CAY_EINVAL, "archive_corrupt", "the archive is not sound: %s", what);
}

/* Exactly n bytes; *got 0 when the stream ends before the first. */
static int read_exact(cay__tar *t, void *buf, size_t n, size_t *got, cay_err *err)
{
    size_t have = 0, k;
    while (have < n) {
        CAY_TRY(t->read(t->arg, (char *)buf + have, n - have, &k, err));
        if (!k)
            break;
        have += k;
    }
    if (have && have < n)
        return fail_archive(err, "it ends inside a block");
    *got = have;
    return 0;
}

int cay__tar_bytes(cay__tar *t, void *buf, size_t cap, size_t *n, cay_err *err)
{
    char block[BLOCK];
    size_t got;
    *n = 0;
    if (t->left) {
        CAY_TRY(t->read(t->arg, buf, (size_t)CAY_MIN((uint64_t)cap, t->left), n, err));
        t->left -= *n;
        if (*n)
            return 0;
        return fail_archive(err, "it ends inside a member");
    }
    if (t->pad) {
        CAY_TRY(read_exact(t, block, (size_t)t->pad, &got, err));
        if (!got)
            return fail_archive(err, "it ends inside a member");
        t->pad = 0;
    }
    return 0;
}

static int skip_member(cay__tar *t, cay_err *err)
{
    char buf[4096];
    size_t n = 1;
    while (n)
        CAY_TRY(cay__tar_bytes(t, buf, sizeof buf, &n, err));
    return 0;
}

bool cay__tar_number(const char *s, size_t n, uint64_t *out)
{
    uint64_t v = 0;
    size_t i = 0;
    if ((unsigned char)s[0] == 0x80) {
        for (i = 1; i < n; i++) {
            if (v >> 55)
                return false;
            v = v << 8 | (unsigned char)s[i];
        }
        *out = v;
        return true;
    }
    while (i < n && s[i] == ' ')
        i++;
    for (; i < n && s[i] >= '0' && s[i] <= '7'; i++)
        v = v << 3 | (uint64_t)(s[i] - '0');
    for (; i < n; i++)
        if (s[i] && s[i] != ' ')
            return false;
    *out = v;
    return true;
}

/* Of all bytes but the sum's own, which count as blanks; *odd: the same with signed bytes. */
static uint64_t sum_block(const cay__tar_block *b, int64_t *odd)
{
    cay__tar_block copy = *b;
    const unsigned char *p = (const unsigned char *)&copy;
    uint64_t sum = 0;
    *odd = 0;
    memset(copy.sum, ' ', sizeof copy.sum);
    CAY_EACH_OF(it, p, sizeof copy) {
        sum += *it;
        *odd += (int8_t)*it;
    }
    return sum;
}

bool cay__tar_sum_agrees(const cay__tar_block *b)
{
    uint64_t want;
    int64_t odd; /* some old programs add signed bytes */
    uint64_t sum = sum_block(b, &odd);
    return cay__tar_number(b->sum, sizeof b->sum, &want) && (want == sum || (int64_t)want == odd);
}

bool cay__tar_is_end(const cay__tar_block *b)
{
    static const cay__tar_block none;
    return !memcmp(b, &none, sizeof none);
}

void cay__tar_block_name(const cay__tar_block *b, char out[257])
{
    size_t p = 0, n = strnlen(b->name, sizeof b->name);
    if (!memcmp(b->magic, "ustar\0", 6))
        p = strnlen(b->prefix, sizeof b->prefix);
    memcpy(out, b->prefix, p);
    if (p)
        out[p++] = '/';
    memcpy(out + p, b->name, n);
    out[p + n] = 0;
}

uint64_t cay__tar_padded(uint64_t size)
{
    return (size + BLOCK - 1) / BLOCK * BLOCK;
}

static int read_head(const cay__tar_block *h, cay__member *m, cay_err *err)
{
    uint64_t mode, uid, gid, mtime;
    if (!cay__tar_sum_agrees(h))
        return fail_archive(err, "a head's sum is wrong");
    if (!cay__tar_number(h->mode, sizeof h->mode, &mode) ||
        !cay__tar_number(h->uid, sizeof h->uid, &uid) ||
        !cay__tar_number(h->gid, sizeof h->gid, &gid) ||
        !cay__tar_number(h->size, sizeof h->size, &m->size) || m->size > INT64_MAX / 2)
        return fail_archive(err, "a head has a number that is none");
    if (!cay__tar_number(h->mtime, sizeof h->mtime, &mtime))
        mtime = 0; /* before 1970 */
    if (h->type && h->type != '7')
        m->type = h->type;
    else
        m->type = '0';
    m->mode = (uint32_t)mode & 07777;
    m->uid = (uint32_t)uid;
    m->gid = (uint32_t)gid;
    m->mtime = (int64_t)(mtime & INT64_MAX);
    if (!*m->name)
        cay__tar_block_name(h, m->name);
    if (!*m->target) {
        size_t n = strnlen(h->link, sizeof h->link);
        memcpy(m->target, h->link, n);
        m->target[n] = 0;
    }
    return 0;
}

/* The whole of a member that tells of the next one. */
static int take_records(cay__tar *t, uint64_t size, char *buf, cay_err *err)
{
    size_t have = 0, n = 1;
    if (size > RECORDS_MAX)
        return fail_archive(err, "records of a member are longer than 64 KiB");
    while (n) {
        CAY_TRY(cay__tar_bytes(t, buf + have, RECORDS_MAX - have + 1, &n, err));
        have += n;
    }
    buf[have] = 0;
    return 0;
}

static bool set_name(char *dst, const char *src, size_t n)
{
    if ((n >= CAY__TAR_NAME && !CAY__MUTANT("fuzz-server_tar")) || memchr(src, 0, n))
        return false;
    memcpy(dst, src, n);
    dst[n] = 0;
    return true;
}

int cay__pax_next(const char **at, const char *end, cay__pax_record *out)
{
    const char *s = *at;
    size_t len = 0, digits = 0, left = (size_t)(end - s);
    if (!left)
        return 0;
    if (*s == '0') /* a length has one spelling */
        return -1;
    for (; digits < left && digits < 8 && s[digits] >= '0' && s[digits] <= '9'; digits++)
        len = 10 * len + (size_t)(s[digits] - '0');
    if (!digits || digits == left || s[digits] != ' ' || len > left || len < digits + 2 ||
        s[len - 1] != '\n')
        return -1;
    out->key = s + digits + 1;
    const char *stop = s + len - 1, *eq = memchr(out->key, '=', (size_t)(stop - out->key));
    out->key_len = 0;
    if (eq)
        out->key_len = (size_t)(eq - out->key);
    out->value = stop;
    if (eq)
        out->value = eq + 1;
    out->value_len = (size_t)(stop - out->value);
    *at = s + len;
    return 1;
}

bool cay__pax_is(const cay__pax_record *r, const char *key)
{
    return r->key_len == strlen(key) && !memcmp(r->key, key, r->key_len);
}

static bool parse_size(const cay__pax_record *r, uint64_t *size)
{
    char digits[24];
    if (r->value_len >= sizeof digits)
        return false;
    memcpy(digits, r->value, r->value_len);
    digits[r->value_len] = 0;
    return cay__str_to_u64(digits, size) && *size <= INT64_MAX / 2;
}

static int parse_pax(const char *s, size_t n, cay__member *m, uint64_t *size, bool *sized,
                     cay_err *err)
{
    cay__pax_record r;
    int rc;
    for (const char *end = s + n; (rc = cay__pax_next(&s, end, &r)) > 0;) {
        bool fine = true;
        if (!r.key_len)
            return fail_archive(err, "a pax record without =");
        if (cay__pax_is(&r, "path")) {
            fine = set_name(m->name, r.value, r.value_len);
        } else if (cay__pax_is(&r, "linkpath")) {
            fine = set_name(m->target, r.value, r.value_len);
        } else if (cay__pax_is(&r, "size")) {
            fine = parse_size(&r, size);
            *sized = true;
        }
        if (!fine)
            return fail_archive(err, "a pax record has a value that cannot be");
    }
    if (rc < 0)
        return fail_archive(err, "a pax record has another length than it says");
    return 0;
}

static int read_extra(cay__tar *t, cay__member *m, char kind, uint64_t size, uint64_t *pax_size,
                      bool *sized, cay_err *err)
{
    CAY_AUTOFREE char *buf = cay__alloc(RECORDS_MAX + 2);
    CAY_TRY(take_records(t, size, buf, err));
    if (kind == 'x')
        return parse_pax(buf, size, m, pax_size, sized, err);
    if (kind != 'g' && !set_name(kind == 'L' ? m->name : m->target, buf, strnlen(buf, size)))
        return fail_archive(err, "a name is longer than 4095 bytes");
    return 0;
}

int cay__tar_next(cay__tar *t, cay__member *out, cay_err *err)
{
    uint64_t pax_size = 0;
    bool sized = false;
    out->name[0] = out->target[0] = 0;
    CAY_TRY(skip_member(t, err));
    for (int i = 0; i < MEMBERS_OF_ONE; i++) {
        cay__tar_block h;
        size_t got;
        CAY_TRY(read_exact(t, &h, sizeof h, &got, err));
        if (!got || cay__tar_is_end(&h)) {
            if (i)
                return fail_archive(err, "a long name without its member");
            return 0;
        }
        bool before = strchr("xgLK", h.type) && h.type;
        cay__member tells; /* of others: its own name means nothing */
        if (before)
            tells.name[0] = tells.target[0] = 0;
        cay__member *m = out;
        if (before)
            m = &tells;
        CAY_TRY(read_head(&h, m, err));
        if (!before && sized)
            m->size = pax_size;
        bool bytes = before || m->type == '0';
        if (bytes || !strchr("123456", m->type))
            t->left = m->size;
        else
            t->left = 0;
        t->pad = cay__tar_padded(t->left) - t->left;
        if (!before)
            return 1;
        CAY_TRY(read_extra(t, out, h.type, m->size, &pax_size, &sized, err));
    }
    return fail_archive(err, "too many heads before one member");
}

static void put_octal(char *dst, size_t n, uint64_t v)
{
    char text[32];
    CAY_FORMAT(text, "%0*" PRIo64, (int)n - 1, v);
    memcpy(dst, text, n - 1);
}

static void put_head(cay__buf *b, const cay__member *m, const char *name, uint64_t size, char type)
{
    cay__tar_block h = { .magic = "ustar", .version = { '0', '0' }, .type = type };
    memcpy(h.name, name, CAY_MIN(strlen(name), sizeof h.name));
    memcpy(h.link, m->target,
           type == '2' || type == '1' ? CAY_MIN(strlen(m->target), sizeof h.link) : 0);
    put_octal(h.mode, sizeof h.mode, m->mode & 07777);
    put_octal(h.uid, sizeof h.uid, m->uid < 1u << 21 ? m->uid : 0);
    put_octal(h.gid, sizeof h.gid, m->gid < 1u << 21 ? m->gid : 0);
    put_octal(h.size, sizeof h.size, size >> 33 ? 0 : size);
    put_octal(h.mtime, sizeof h.mtime, m->mtime < 0 || m->mtime >> 33 ? 0 : (uint64_t)m->mtime);
    int64_t odd;
    put_octal(h.sum, 7, sum_block(&h, &odd));
    h.sum[7] = ' ';
    cay__buf_add(b, &h, sizeof h);
}

/* The length counts its own digits. */
void cay__tar_record(cay__buf *b, const char *key, const void *value, size_t len)
{
    size_t body = strlen(key) + len + 3, all = body + 1;
    for (size_t digits = 1; digits < 8; digits++) {
        char text[24];
        all = body + digits;
        CAY_FORMAT(text, "%zu", all);
        if (strlen(text) == digits)
            break;
    }
    cay__buf_fmt(b, "%zu %s=", all, key);
    cay__buf_add(b, value, len);
    cay__buf_add(b, "\n", 1);
}

static bool is_utf8(const char *s)
{
    size_t n;
    for (size_t left = strlen(s); left; s += n, left -= n)
        if (!(n = cay__utf8_len(s, left)))
            return false;
    return true;
}

void cay__tar_pad(cay__buf *b, uint64_t size)
{
    static const char zeros[BLOCK];
    cay__buf_add(b, zeros, (size_t)(cay__tar_padded(size) - size));
}

void cay__tar_head_with(cay__buf *b, const cay__member *m, const cay__buf *records)
{
    char digits[24];
    CAY_AUTOBUF more = CAY__BUF(1u << 20);
    bool name = strlen(m->name) > 100,
         link = (m->type == '2' || m->type == '1') && strlen(m->target) > 100;
    if ((name && !is_utf8(m->name)) || (link && !is_utf8(m->target)))
        cay__tar_record(&more, "hdrcharset", "BINARY", 6);
    if (name)
        cay__tar_record(&more, "path", m->name, strlen(m->name));
    if (link)
        cay__tar_record(&more, "linkpath", m->target, strlen(m->target));
    const char *size = cay__str_u64(digits, m->size);
    if (m->size >> 33)
        cay__tar_record(&more, "size", size, strlen(size));
    if (records)
        cay__buf_add(&more, records->data, records->len);
    if (more.len) {
        put_head(b, m, "@pax", more.len, 'x');
        cay__buf_add(b, more.data, more.len);
        cay__tar_pad(b, more.len);
    }
    put_head(b, m, m->name, m->size, m->type);
}

void cay__tar_head(cay__buf *b, const cay__member *m)
{
    cay__tar_head_with(b, m, NULL);
}
