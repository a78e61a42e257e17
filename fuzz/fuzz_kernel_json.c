/* SPDX-License-Identifier: Apache-2.0 */
/* What the interpreter reads: members are found within the bytes there are, all texts of what is
 * sound can be read, and one that was written again reads the same. */
#include <helper/interpreter/json.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void same_again(const char *at, const char *stop, bool sound)
{
    text one = { 0 }, again = { 0 }, two = { 0 };
    bool is = json_text(at, stop, &one);
    if (sound && *at == '"' && !is)
        abort();
    if (is) {
        if (strlen(one.p) != one.len)
            abort();
        text_json(&again, one.p, one.len);
        if (!json_sound(again.p, again.p + again.len) ||
            !json_text(again.p, again.p + again.len, &two))
            abort();
        text_json(&one, two.p, two.len); /* what was no UTF-8 is U+FFFD now, and stays it */
    }
    free(one.p);
    free(again.p);
    free(two.p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char *s = malloc(len + 1); /* its end is the end of what may be read */
    const char *names[] = { "id", "code", "env", "interrupt", "type" }, *at, *stop, *name;
    size_t n;
    memcpy(s, data, len);
    bool sound = json_sound(s, s + len);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (json_member(s, s + len, names[i], &at, &stop)) {
            if (at < s || stop <= at || stop > s + len)
                abort();
            same_again(at, stop, sound);
            if (*at != '{')
                continue;
            for (const char *p = at + 1, *end = stop, *before = p;
                 json_next(&p, end, &name, &n, &at, &stop); before = p)
                if (p <= before || p > end || stop != p)
                    abort();
        }
    text out = { 0 };
    text_json(&out, s, len);
    free(out.p);
    free(s);
    return 0;
}
