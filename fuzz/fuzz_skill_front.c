/* SPDX-License-Identifier: Apache-2.0 */
/* The front matter of a skill, which a sandbox may have written. What comes out is one line of
 * sound text. */
#include <agent/capability/skill.h>
#include <base/buf.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void sound(const char *s, size_t cap)
{
    size_t n = strnlen(s, cap);
    if (n == cap)
        abort();
    for (size_t i = 0, k; i < n; i += k)
        if ((unsigned char)s[i] < 0x20 || !(k = cay__utf8_len(s + i, n - i)))
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char *text = malloc(len ? len : 1);
    cay__front f;
    if (!text)
        abort();
    memcpy(text, data, len);
    cay__skill_front(text, len, &f);
    sound(f.name, sizeof f.name);
    sound(f.description, sizeof f.description);
    free(text);
    return 0;
}
