/* SPDX-License-Identifier: Apache-2.0 */
/* What the interpreter reads: members are found within the bytes there are, all texts of what is
 * sound can be read, and one that was written again reads the same. */
#include <base/json_scan.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void same_again(const char *at, const char *stop, bool sound)
{
    CAY_AUTOBUF one = CAY__BUF(1u << 24);
    CAY_AUTOBUF again = CAY__BUF(1u << 24);
    CAY_AUTOBUF two = CAY__BUF(1u << 24);
    bool is = cay__scan_text(at, stop, &one);
    if (sound && *at == '"' && !is)
        abort();
    if (is) {
        if (strlen(one.data) != one.len)
            abort();
        cay__buf_json(&again, one.data, one.len);
        if (!cay__scan_sound(again.data, again.data + again.len) ||
            !cay__scan_text(again.data, again.data + again.len, &two))
            abort();
        cay__buf_json(&one, two.data, two.len); /* what was no UTF-8 is U+FFFD now, and stays it */
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char *s = malloc(len + 1); /* its end is the end of what may be read */
    const char *names[] = { "id", "code", "env", "interrupt", "type" }, *at, *stop, *name;
    size_t n;
    memcpy(s, data, len);
    bool sound = cay__scan_sound(s, s + len);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (cay__scan_member(s, s + len, names[i], &at, &stop)) {
            if (at < s || stop <= at || stop > s + len)
                abort();
            same_again(at, stop, sound);
            if (*at != '{')
                continue;
            for (const char *p = at + 1, *end = stop, *before = p;
                 cay__scan_next(&p, end, &name, &n, &at, &stop); before = p)
                if (p <= before || p > end || stop != p)
                    abort();
        }
    CAY_AUTOBUF out = CAY__BUF(1u << 24);
    cay__buf_json(&out, s, len);
    free(s);
    return 0;
}
