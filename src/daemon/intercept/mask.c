/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept.h"
#include <base/mutant.h>

void mask_add(mask *m, const char *bytes, size_t len)
{
    if (!len || CAY__MUTANT("secret-mask"))
        return;
    for (const needle *n = m->needles; n; n = n->next)
        if (n->len == len && !memcmp(n->bytes, bytes, len))
            return;
    needle *n = cay__alloc(sizeof *n + len);
    n->len = len;
    memcpy(n->bytes, bytes, len);
    n->next = m->needles;
    m->needles = n;
}

void mask_clear(mask *m)
{
    for (needle *n; (n = m->needles);) {
        m->needles = n->next;
        explicit_bzero(n->bytes, n->len);
        free(n);
    }
}

size_t mask_apply(const mask *m, char *p, size_t len, bool end)
{
    size_t safe = len;
    for (const needle *n = m->needles; n; n = n->next) {
        for (char *at = p, *hit; (size_t)(p + len - at) >= n->len &&
                                 (hit = memmem(at, (size_t)(p + len - at), n->bytes, n->len));) {
            memset(hit, '*', n->len);
            at = hit + n->len;
        }
        /* The longest end of the text that begins this value. */
        size_t most = CAY_MIN(n->len - 1, len);
        for (size_t k = most; !end && k > 0; k--)
            if (!memcmp(p + len - k, n->bytes, k)) {
                safe = CAY_MIN(safe, len - k);
                break;
            }
    }
    return safe;
}
