/* SPDX-License-Identifier: Apache-2.0 */
/* A Range field; the first byte is the file's size. A part lies inside the file. */
#include <server/http/range.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    uint64_t from = 0, n = 0, size = len ? data[0] : 0;
    char *text = malloc(len + 1);
    if (!text)
        abort();
    memcpy(text, len ? data + 1 : data, len ? len - 1 : 0);
    text[len ? len - 1 : 0] = 0;
    int rc = cay__range_parse(text, size, &from, &n);
    if (rc == 1 && (!n || from >= size || n > size - from))
        abort();
    if (cay__range_parse(NULL, size, &from, &n))
        abort();
    free(text);
    return 0;
}
