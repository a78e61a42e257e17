/* SPDX-License-Identifier: Apache-2.0 */
/* Host names as bytes: one spelling for each, and nothing that some resolver reads as an address.
 */
#include "policy.h"
#include <base/mutant.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f');
}

/* inet_aton(3) and browsers take 2130706433, 0x7f.1 and 0177.0.0.1 for 127.0.0.1. They all end in a
 * label that is a number, which no top-level domain is (RFC 3696, 2): so the last label decides. */
bool cay__name_is_number(const char *name)
{
    const char *last = strrchr(name, '.');
    if (last)
        last = last + 1;
    else
        last = name;
    bool hex = last[0] == '0' && last[1] == 'x';
    if (hex)
        last += 2;
    else if (!*last)
        return false;
    for (; *last; last++)
        if (hex ? !is_hex(*last) : !is_digit(*last))
            return false;
    return true;
}

bool cay__name_fold(const char *in, size_t len, char out[CAY__NAME_MAX + 1])
{
    size_t label = 0;
    if (len && in[len - 1] == '.')
        len--;
    if (!len || (len > CAY__NAME_MAX && !CAY__MUTANT("fuzz-policy")))
        return false;
    for (size_t i = 0; i < len; i++) {
        char c = in[i];
        if (c >= 'A' && c <= 'Z')
            c = (char)(c - 'A' + 'a');
        if (c == '.') {
            if (!label || in[i - 1] == '-')
                return false;
            label = 0;
        } else {
            if (!(c >= 'a' && c <= 'z') && !is_digit(c) && c != '_' && !(c == '-' && label))
                return false;
            if (++label > 63)
                return false;
        }
        out[i] = c;
    }
    out[len] = '\0';
    return label && out[len - 1] != '-' && !cay__name_is_number(out);
}

bool cay__name_below(const char *name, const char *of)
{
    size_t n = strlen(name), m = strlen(of);
    return n > m + 1 && name[n - m - 1] == '.' && !memcmp(name + n - m, of, m);
}

/* RFC 6761, 6.3: never a question for a resolver. */
bool cay__name_is_local(const char *name)
{
    return !strcmp(name, "localhost") || cay__name_below(name, "localhost");
}
