/* SPDX-License-Identifier: Apache-2.0 */
#include "seal.h"
#include "tool.h"

typedef struct attr {
    const char *name, *value;
    size_t len;
} attr;

void seal_open(seal *s)
{
    s->ctx = EVP_MD_CTX_new();
    if (!s->ctx || EVP_DigestInit_ex(s->ctx, EVP_sha256(), NULL) != 1)
        abort();
    seal_data(s, "cay-archive 1\n", 14);
}

void seal_data(seal *s, const void *p, size_t n)
{
    if (n && EVP_DigestUpdate(s->ctx, p, n) != 1)
        abort();
}

static void hash_text(seal *s, const char *p, size_t n)
{
    uint8_t len[4] = { (uint8_t)n, (uint8_t)(n >> 8), (uint8_t)(n >> 16), (uint8_t)(n >> 24) };
    seal_data(s, len, sizeof len);
    seal_data(s, p, n);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const attr *)a)->name, ((const attr *)b)->name);
}

/* libarchive gives them back in another order. */
static void hash_attrs(seal *s, const cay__item *it)
{
    attr one;
    size_t n = 0, at = 0;
    while (cay__item_attr(it, &at, &one.name, &one.value, &one.len))
        n++;
    if (!n)
        return;
    CAY_AUTOFREE attr *v = cay__alloc((n + 1) * sizeof *v); /* one is begun that is not there */
    at = n = 0;
    while (cay__item_attr(it, &at, &v[n].name, &v[n].value, &v[n].len))
        n++;
    qsort(v, n, sizeof *v, by_name);
    CAY_EACH_OF(item, v, n) {
        hash_text(s, item->name, strlen(item->name));
        hash_text(s, item->value, item->len);
    }
}

void seal_item(seal *s, const cay__item *it)
{
    bool plain = it->type == CAY__ITEM_HARD || it->type == CAY__ITEM_GONE,
         link = it->type == CAY__ITEM_LINK;
    const char *target = CAY_OR(it->target, "");
    char head[64];
    uint32_t mode = 0, uid = 0, gid = 0;
    if (!plain && !link)
        mode = it->mode;
    if (!plain) {
        uid = it->uid;
        gid = it->gid;
    }
    int n = CAY_FORMAT(head, "%c %x %o %u %u\n", it->type, it->flags & CAY__ITEM_OPAQUE, mode, uid,
                       gid);
    seal_data(s, head, (size_t)n);
    hash_text(s, it->path, strlen(it->path));
    hash_text(s, target, strlen(target));
    if (!plain)
        hash_attrs(s, it);
}

void seal_hex(seal *s, char hex[65])
{
    unsigned char sum[32];
    if (EVP_DigestFinal_ex(s->ctx, sum, NULL) != 1)
        abort();
    cay__hex_put(hex, sum, sizeof sum);
}

void seal_close(seal *s)
{
    EVP_MD_CTX_free(s->ctx);
    s->ctx = NULL;
}
