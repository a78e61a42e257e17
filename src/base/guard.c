/* SPDX-License-Identifier: Apache-2.0 */
#include "guard.h"
#include "base.h"
#include "guarded.h"
#include <strings.h>

/* Filesystems that ignore case exist, and the tools that obey these files look there, too. */
static bool has_prefix(const char *path, const char *what)
{
    size_t n = strlen(what);
    return !strncasecmp(path, what, n) && (!path[n] || path[n] == '/');
}

bool cay__path_guarded(const char *path)
{
    for (const char *p = path; p; p = strchr(p, '/')) {
        p += *p == '/';
        for (size_t i = 0; i < CAY_LEN(cay__guarded); i++)
            if (has_prefix(p, cay__guarded[i].path))
                return true;
    }
    return false;
}

bool cay__link_leaves(const char *path, const char *target)
{
    long depth = 0;
    bool named = false;
    if (*target == '/')
        return true;
    for (const char *p = path; (p = strchr(p, '/')); p++)
        depth++;
    while (*target) {
        size_t n = strcspn(target, "/");
        /* Up from where the link is leads where the path says; up from a name, which may be a link
         * itself, leads anywhere. */
        if (n == 2 && target[0] == '.' && target[1] == '.') {
            if (named || --depth < 0)
                return true;
        } else if (n && !(n == 1 && *target == '.')) {
            named = true;
        }
        target += n + (target[n] == '/');
    }
    return false;
}

bool cay__path_within(const char *path, const char *top)
{
    size_t n = strlen(top);
    while (n && top[n - 1] == '/')
        n--;
    if (!n || (n == 1 && *top == '.'))
        return true;
    return !strncmp(path, top, n) && (!path[n] || path[n] == '/');
}
