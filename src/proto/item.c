/* SPDX-License-Identifier: Apache-2.0 */
#include "item.h"
#include <base/base.h>
#include <base/mutant.h>

enum { OUT_BYTES = 256 << 10, IN_BYTES = 256 << 10, MAGIC = 0x31796163 };
#define ABORT UINT32_MAX /* instead of a length: the file is not whole, FAIL follows */

/* As it is on the wire, in host order. */
typedef struct head {
    uint32_t magic;
    uint8_t type, flags;
    uint16_t path_len, target_len, unused;
    uint32_t extra_len, mode, uid, gid, nsec;
    int64_t mtime;
    uint64_t size;
} head;

void cay__items_start(cay__items_out *o, int fd)
{
    *o = (cay__items_out){ .fd = fd, .buf = cay__alloc(OUT_BYTES) };
}

void cay__items_stop(cay__items_out *o)
{
    free(o->buf);
    o->buf = NULL;
}

bool cay__items_flush(cay__items_out *o)
{
    if (!o->failed && o->len && !cay__fd_write_all(o->fd, o->buf, o->len))
        o->failed = true;
    o->len = 0;
    return !o->failed;
}

static void write_bytes(cay__items_out *o, const void *p, size_t n)
{
    if (o->len + n > OUT_BYTES)
        cay__items_flush(o);
    memcpy(o->buf + o->len, p, n); /* n is at most CAY__ITEM_PIECE */
    o->len += n;
}

void cay__item_put(cay__items_out *o, const cay__item *it)
{
    const char *path = CAY_OR(it->path, ""), *target = CAY_OR(it->target, "");
    head h = { .magic = MAGIC,
               .type = (uint8_t)it->type,
               .flags = (uint8_t)it->flags,
               .path_len = (uint16_t)strnlen(path, CAY__ITEM_PATH - 1),
               .target_len = (uint16_t)strnlen(target, CAY__ITEM_PATH - 1),
               .extra_len = (uint32_t)CAY_MIN(it->extra_len, CAY__ITEM_EXTRA),
               .mode = it->mode,
               .uid = it->uid,
               .gid = it->gid,
               .nsec = it->nsec,
               .mtime = it->mtime,
               .size = it->size };
    if (o->in_file) /* only FAIL comes before a file's last bytes */
        write_bytes(o, &(uint32_t){ ABORT }, sizeof(uint32_t));
    o->in_file = it->type == CAY__ITEM_FILE;
    write_bytes(o, &h, sizeof h);
    write_bytes(o, path, h.path_len);
    write_bytes(o, target, h.target_len);
    if (h.extra_len)
        write_bytes(o, it->extra, h.extra_len);
}

void cay__item_data(cay__items_out *o, const void *p, size_t n)
{
    for (size_t at = 0; at < n;) {
        uint32_t k = (uint32_t)CAY_MIN(n - at, CAY__ITEM_PIECE);
        write_bytes(o, &k, sizeof k);
        write_bytes(o, (const char *)p + at, k);
        at += k;
    }
}

void cay__item_done(cay__items_out *o)
{
    write_bytes(o, &(uint32_t){ 0 }, sizeof(uint32_t));
    o->in_file = false;
}

void cay__items_open(cay__items_in *in, int fd)
{
    *in = (cay__items_in){ .fd = fd,
                           .buf = cay__alloc(IN_BYTES),
                           .cap = IN_BYTES,
                           .extra = cay__alloc(CAY__ITEM_EXTRA + 1) };
}

void cay__items_close(cay__items_in *in)
{
    free(in->buf);
    free(in->extra);
    in->buf = NULL;
    in->extra = NULL;
}

static int cut_short(cay_err *err)
{
    return cay_fail_why(err, CAY_EUPSTREAM, "archive_truncated",
                        "the archive's reader stopped before its end");
}

static int fail_reader(cay_err *err, const char *what)
{
    return cay_fail_why(err, CAY_EUPSTREAM, "archive_reader",
                        "the archive's reader answered nonsense: %s", what);
}

/* At least n bytes are in buf from `at` on; n is at most CAY__ITEM_EXTRA. */
static int ensure_bytes(cay__items_in *in, size_t n, cay_err *err)
{
    if (in->len - in->at + CAY__MUTANT("fuzz-items") >= n)
        return 0;
    memmove(in->buf, in->buf + in->at, in->len - in->at);
    in->len -= in->at;
    in->at = 0;
    while (in->len < n) {
        ssize_t k = 0;
        if (in->fd >= 0)
            k = read(in->fd, in->buf + in->len, in->cap - in->len);
        if (k < 0 && errno == EINTR)
            continue;
        CAY_TRY_SYS(k, err, "read what cay-unpack says");
        if (k == 0)
            return cut_short(err);
        in->len += (size_t)k;
    }
    return 0;
}

static int take_text(cay__items_in *in, char *dst, size_t n, size_t cap, cay_err *err)
{
    if (n >= cap)
        return fail_reader(err, "a name too long");
    CAY_TRY(ensure_bytes(in, n, err));
    memcpy(dst, in->buf + in->at, n);
    dst[n] = 0;
    in->at += n;
    if (memchr(dst, 0, n))
        return fail_reader(err, "a NUL in a name");
    return 0;
}

/* What cay-unpack may say. The words are a reader's that may have been taken over: one that is not
 * listed is not repeated. */
static const struct {
    const char *word;
    int code;
} reasons[] = {
    { "archive_path", CAY_EINVAL },    { "archive_link", CAY_EINVAL },
    { "archive_special", CAY_EINVAL }, { "archive_duplicate", CAY_EINVAL },
    { "archive_corrupt", CAY_EINVAL }, { "archive_limit", CAY_ETOOBIG },
    { "archive_format", CAY_EINVAL },  { "fetch_failed", CAY_EUPSTREAM },
};

static int fail_item(const cay__item *it, cay_err *err)
{
    CAY_EACH(reason, reasons) {
        if (strcmp(reason->word, it->target))
            continue;
        if (it->path[0])
            return cay_fail_why(err, reason->code, reason->word, "%.120s: %.120s", it->path,
                                it->extra);
        return cay_fail_why(err, reason->code, reason->word, "%.200s", it->extra);
    }
    return cay_fail_why(err, CAY_EUPSTREAM, "archive_reader",
                        "the archive could not be read: %.200s", it->extra);
}

int cay__item_next(cay__items_in *in, cay__item *out, cay_err *err)
{
    head h;
    while (in->open_file) { /* what the caller did not want */
        const char *p;
        size_t n;
        CAY_TRY(cay__item_bytes(in, &p, &n, err));
    }
    CAY_TRY(ensure_bytes(in, sizeof h, err));
    memcpy(&h, in->buf + in->at, sizeof h);
    in->at += sizeof h;
    if (h.magic != MAGIC || !h.type || !strchr("fdlhwne!", h.type) ||
        h.extra_len > CAY__ITEM_EXTRA || h.nsec > 999999999)
        return fail_reader(err, "no item");
    CAY_TRY(take_text(in, in->path, h.path_len, sizeof in->path, err));
    CAY_TRY(take_text(in, in->target, h.target_len, sizeof in->target, err));
    CAY_TRY(ensure_bytes(in, h.extra_len, err));
    memcpy(in->extra, in->buf + in->at, h.extra_len);
    in->extra[h.extra_len] = 0;
    in->at += h.extra_len;
    *out = (cay__item){ .type = (char)h.type,
                        .flags = h.flags,
                        .mode = h.mode,
                        .uid = h.uid,
                        .gid = h.gid,
                        .mtime = h.mtime,
                        .nsec = h.nsec,
                        .size = h.size,
                        .path = in->path,
                        .target = in->target,
                        .extra = in->extra,
                        .extra_len = h.extra_len };
    in->open_file = h.type == CAY__ITEM_FILE;
    if (h.type == CAY__ITEM_FAIL)
        return fail_item(out, err);
    return 0;
}

int cay__item_bytes(cay__items_in *in, const char **p, size_t *n, cay_err *err)
{
    uint32_t k;
    *n = 0;
    if (!in->open_file)
        return 0;
    CAY_TRY(ensure_bytes(in, sizeof k, err));
    memcpy(&k, in->buf + in->at, sizeof k);
    if (k > CAY__ITEM_PIECE && k != ABORT)
        return fail_reader(err, "a piece too long");
    in->at += sizeof k;
    if (k == ABORT) {
        cay__item it;
        in->open_file = false;
        CAY_TRY(cay__item_next(in, &it, err));
        return fail_reader(err, "a file that is not whole");
    }
    if (k == 0) {
        in->open_file = false;
        return 0;
    }
    CAY_TRY(ensure_bytes(in, k, err));
    *p = (const char *)in->buf + in->at;
    *n = k;
    in->at += k;
    return 0;
}

bool cay__item_attr(const cay__item *it, size_t *at, const char **name, const char **value,
                    size_t *len)
{
    uint16_t a;
    uint32_t b;
    if (*at + sizeof a + sizeof b > it->extra_len) {
        if (*at != it->extra_len)
            *at = it->extra_len + 1;
        return false;
    }
    memcpy(&a, it->extra + *at, sizeof a);
    memcpy(&b, it->extra + *at + sizeof a, sizeof b);
    size_t from = *at + sizeof a + sizeof b;
    /* the name has its NUL with it */
    if (a < 2 || a > it->extra_len - from || b > it->extra_len - from - a ||
        it->extra[from + a - 1] || strlen(it->extra + from) + 1 != a) {
        *at = it->extra_len + 1;
        return false;
    }
    *name = it->extra + from;
    *value = it->extra + from + a;
    *len = b;
    *at = from + a + b;
    return true;
}

bool cay__item_path_ok(const char *path, bool dot)
{
    if (dot && !strcmp(path, "."))
        return true;
    if (!*path || strlen(path) >= CAY__ITEM_PATH)
        return false;
    for (const char *p = path;; p++) {
        size_t n = strcspn(p, "/");
        if (n == 0 || n > 255 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
            return false;
        p += n;
        if (!*p)
            return true;
    }
}
