/* SPDX-License-Identifier: Apache-2.0 */
/* The quick reader of JSON beside jansson: what it takes jansson takes, too, and both have read the
 * same. */
#include <base/json.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    json_t *quick = cay__json_quick((const char *)data, len);
    if (!quick)
        return 0;
    json_t *slow = json_loadb((const char *)data, len,
                              JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL);
    if (!slow)
        abort();
    char *a = json_dumps(quick, JSON_ENCODE_ANY),
         *b = json_dumps(slow, JSON_ENCODE_ANY); /* members in their order */
    if (!a || !b || strcmp(a, b) != 0)
        abort();
    free(a);
    free(b);
    json_decref(quick);
    json_decref(slow);
    return 0;
}
