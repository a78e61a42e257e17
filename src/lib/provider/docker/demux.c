/* SPDX-License-Identifier: Apache-2.0 */
#include "demux.h"
#include <base/base.h>
#include <base/mutant.h>

bool cay__demux_feed(cay__demux *d, const char *data, size_t n,
                     bool (*fn)(void *arg, int which, const char *data, size_t n), void *arg)
{
    while (n) {
        if (d->got < sizeof d->head) {
            d->head[d->got++] = (uint8_t)*data++;
            n--;
            if (d->got < sizeof d->head)
                continue;
            if ((d->head[0] != 1 && d->head[0] != 2 && !CAY__MUTANT("fuzz-demux")) || d->head[1] ||
                d->head[2] || d->head[3])
                return false;
            d->left = (uint32_t)d->head[4] << 24 | (uint32_t)d->head[5] << 16 |
                      (uint32_t)d->head[6] << 8 | d->head[7];
        }
        size_t k = CAY_MIN(n, (size_t)d->left);
        if (k && !fn(arg, d->head[0], data, k))
            return false;
        data += k;
        n -= k;
        d->left -= (uint32_t)k;
        if (!d->left)
            d->got = 0;
    }
    return true;
}
