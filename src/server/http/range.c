/* SPDX-License-Identifier: Apache-2.0 */
#include "range.h"
#include <base/base.h>
#include <base/mutant.h>

int cay__range_parse(const char *s, uint64_t size, uint64_t *from, uint64_t *len)
{
    char a[24], b[24];
    uint64_t first, last;
    const char *dash = NULL;
    if (s && !strncmp(s, "bytes=", 6))
        dash = strchr(s + 6, '-');
    if (!dash || strchr(s, ',') || (size_t)(dash - s - 6) >= sizeof a ||
        strlen(dash + 1) >= sizeof b)
        return 0;
    memcpy(a, s + 6, (size_t)(dash - s - 6));
    a[dash - s - 6] = 0;
    CAY_COPY(b, dash + 1);
    if (!*a) { /* the last so many */
        if (!cay__str_to_u64(b, &last))
            return 0;
        if (!last || !size)
            return -1;
        *len = CAY_MIN(last, size);
        *from = size - *len;
        return 1;
    }
    last = UINT64_MAX - 1;
    if (!cay__str_to_u64(a, &first) || (*b && !cay__str_to_u64(b, &last)) || last < first)
        return 0;
    if (first >= size)
        return -1;
    *from = first;
    *len = (CAY__MUTANT("fuzz-range") ? last : CAY_MIN(last, size - 1)) - first + 1;
    return 1;
}
