/* SPDX-License-Identifier: Apache-2.0 */
#include "account.h"
#include <base/base.h>

static const char *next_line(const char *s)
{
    s = strchrnul(s, '\n');
    return s + (*s == '\n');
}

const char *account_find(const char *text, const char *name)
{
    size_t n = strlen(name);
    for (const char *s = text; *s; s = next_line(s))
        if (!strncmp(s, name, n) && s[n] == ':')
            return s;
    return NULL;
}

bool account_id(const char *line, unsigned field, uint32_t *id)
{
    uint32_t v = 0;
    for (; field; field--) {
        line += strcspn(line, ":\n");
        if (*line++ != ':')
            return false;
    }
    const char *s = line;
    for (; *s >= '0' && *s <= '9'; s++)
        if ((v = 10 * v + (uint32_t)(*s - '0')) >= ACCOUNT_IDS)
            return false;
    if (s == line || !strchr(":\n", *s)) /* the end of the text is one, too */
        return false;
    *id = v;
    return true;
}

bool account_used(const char *text, uint32_t id)
{
    uint32_t v;
    for (const char *s = text; *s; s = next_line(s))
        if (account_id(s, 2, &v) && v == id)
            return true;
    return false;
}
