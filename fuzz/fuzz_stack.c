/* SPDX-License-Identifier: Apache-2.0 */
/* The layers a sandbox stands on, as they may lie in its directory after somebody wrote there. */
#include <base/str.h>
#include <daemon/keeper/stack.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static stack s;
    char text[CAY_STACK_TEXT + 64];
    if (len >= sizeof text)
        return 0;
    memcpy(text, data, len);
    text[len] = 0;
    if (!stack_parse(&s, text))
        return 0;
    if (s.n > CAY_STACK_MAX || (!s.n && !s.foreign))
        abort();
    for (size_t i = 0; i < s.n; i++)
        if (!*s.name[i] || strlen(s.name[i]) > 63 || strpbrk(s.name[i], "/.\n "))
            abort();
    return 0;
}
