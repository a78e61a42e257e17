/* SPDX-License-Identifier: Apache-2.0 */
/* What follows the question mark, where one name may come again. */
#include "native.h"
#include <base/base.h>
#include <string.h>

int cay__native_query(cay__req *r, const char *name, const char **out, cay_err *err)
{
    const char *s = cay__req_query(r, name);
    if (!s || !*s)
        return cay_fail_why(err, CAY_EINVAL, "bad_query", "?%s= is needed", name);
    *out = s;
    return 0;
}

const char *cay__native_query_nth(cay__req *r, const char *name, size_t nth)
{
    size_t len = strlen(name);
    for (const char *q = r->head.query; q && *q;
         q += q[strcspn(q, "&")] ? strcspn(q, "&") + 1 : strlen(q)) {
        size_t n = strcspn(q, "&");
        if (n > len && !strncmp(q, name, len) && q[len] == '=' && nth-- == 0) {
            char *word = cay__arena_take(&r->arena, n - len);
            if (cay__url_decode(q + len + 1, n - len - 1, true, word))
                return word;
            return NULL;
        }
    }
    return NULL;
}
