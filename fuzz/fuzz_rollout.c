/* SPDX-License-Identifier: Apache-2.0 */
/* The record of a run as a sandbox left it: what is told of it holds words of ours only, on one
 * line. */
#include <agent/capability/memory.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    CAY_AUTOBUF told = CAY__BUF(65536);
    const char *last = NULL;
    char *text = malloc(len + 1);
    if (!text)
        abort();
    memcpy(text, data, len);
    text[len] = 0;
    cay__memory_states(text, &told, &last);
    if (!last || !*last || strspn(last, "abcdefghijklmnopqrstuvwxyz_") != strlen(last))
        abort();
    for (size_t i = 0; i < told.len; i++)
        if ((unsigned char)told.data[i] < ' ' || (unsigned char)told.data[i] > '~')
            abort();
    free(text);
    return 0;
}
