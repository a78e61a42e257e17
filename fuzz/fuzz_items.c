/* SPDX-License-Identifier: Apache-2.0 */
/* What a reader of archives that was taken over may say. */
#include <proto/item.h>
#include <base/base.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    cay__items_in in;
    cay__item it = { 0 };
    const char *name, *value;
    size_t n;
    cay__items_open(&in, -1);
    in.len = CAY_MIN(len, in.cap);
    memcpy(in.buf, data, in.len);
    while (it.type != CAY__ITEM_END && cay__item_next(&in, &it, NULL) == 0) {
        if (strlen(it.path) >= CAY__ITEM_PATH || strlen(it.target) >= CAY__ITEM_PATH ||
            it.extra_len > CAY__ITEM_EXTRA)
            abort();
        for (size_t at = 0; cay__item_attr(&it, &at, &name, &value, &n);)
            if (value + n > it.extra + it.extra_len)
                abort();
        const char *p;
        while (it.type == CAY__ITEM_FILE && cay__item_bytes(&in, &p, &n, NULL) == 0 && n)
            if (n > CAY__ITEM_PIECE)
                abort();
    }
    cay__items_close(&in);
    return 0;
}
