/* SPDX-License-Identifier: Apache-2.0 */
#include "spec.h"
#include "base.h"

int cay__spec_take(void *dst, size_t dst_size, const void *src, const char *name, cay_err *err)
{
    size_t n;
    memset(dst, 0, dst_size);
    memcpy(dst, &dst_size, sizeof dst_size);
    if (!src)
        return 0;
    memcpy(&n, src, sizeof n);
    if (n < sizeof n || n > 65536)
        return cay_fail_why(err, CAY_EINVAL, "spec_size", "%s.size is %zu; set it to sizeof(%s)",
                            name, n, name);
    for (size_t i = dst_size; i < n; i++)
        if (((const char *)src)[i])
            return cay_fail_why(err, CAY_ENOTSUP, "spec_newer",
                                "%s has a field that this library is too old to know", name);
    memcpy((char *)dst + sizeof n, (const char *)src + sizeof n, CAY_MIN(n, dst_size) - sizeof n);
    return 0;
}

void cay__answer_give(void *dst, const void *src, size_t src_size)
{
    size_t n;
    memcpy(&n, dst, sizeof n);
    size_t room = src_size;
    if (n >= sizeof n)
        room = CAY_MIN(n, src_size);
    memcpy((char *)dst + sizeof n, (const char *)src + sizeof n, room - sizeof n);
    if (n == 0)
        memcpy(dst, &src_size, sizeof src_size);
}
