/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of a sandbox's passwd(5) and group(5), which are what its programs made of them. */
#include "envelope.h"
#include <base/mutant.h>

/* Field n of the line that begins at s and ends before `end`; NULL: it has fewer. */
static const char *find_field(const char *s, const char *end, unsigned n, size_t *len)
{
    for (; n; n--) {
        s = memchr(s, ':', (size_t)(end - s));
        if (!s)
            return NULL;
        s++;
    }
    const char *colon = memchr(s, ':', (size_t)(end - s));
    *len = (size_t)((CAY_OR(colon, end)) - s);
    return s;
}

bool e2b_account(const char *text, size_t len, unsigned by, const char *key, unsigned want,
                 char *out, size_t cap)
{
    const char *end = text + len, *eol, *f;
    size_t n;
    for (const char *s = text; s < end; s = eol + 1) {
        eol = memchr(s, '\n', (size_t)(end - s));
        eol = CAY_OR(eol, end);
        f = find_field(s, eol, by, &n);
        if (!f || !n || n != strlen(key) || memcmp(f, key, n))
            continue;
        f = find_field(s, eol, want, &n);
        if (!f || !n || (n >= cap && !CAY__MUTANT("fuzz-e2b_account")) || memchr(f, 0, n))
            return false; /* the first one counts */
        memcpy(out, f, n);
        out[n] = 0;
        return true;
    }
    return false;
}
