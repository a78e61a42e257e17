/* SPDX-License-Identifier: Apache-2.0 */
/* Markdown that a model wrote. Lines of plain text come out, which fit the width and hold nothing
 * that drives a terminal: not one control character without colours, and with them only those of
 * ours. */
#include <base/buf.h>
#include <cli/chat/md.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* Length of a colour of ours at s, or 0. */
static size_t colour(const char *s)
{
    size_t n = 2;
    if (s[0] != '\033' || s[1] != '[')
        return 0;
    n += strspn(s + n, "0123456789;");
    return s[n] == 'm' ? n + 1 : 0;
}

static void sound(const md_doc *d, size_t width, int colours)
{
    for (size_t i = 0; i < d->n; i++) {
        const char *s = d->line[i];
        size_t n = strlen(s), cols = 0;
        for (size_t at = 0, k; at < n; at += k) {
            if (colours && (k = colour(s + at)))
                continue;
            k = cay__utf8_len(s + at, n - at);
            if (!k || (unsigned char)s[at] < 0x20 || s[at] == 0x7f ||
                (k == 2 && (unsigned char)s[at] == 0xc2 && (unsigned char)s[at + 1] < 0xa0))
                abort();
            cols += md_columns(s + at, k);
        }
        if (cols > width + 40) /* deep nesting keeps eight columns for words */
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static int ready;
    if (!ready++)
        setlocale(LC_CTYPE, "C.UTF-8");
    for (int colours = 0; colours < 2; colours++) {
        md_doc d = { 0 };
        char *text = malloc(len + 1);
        if (!text)
            abort();
        memcpy(text, data, len);
        md_lines(text, len, 40, colours, &d);
        sound(&d, 40, colours);
        md_clear(&d);
        free(text);
    }
    return 0;
}
