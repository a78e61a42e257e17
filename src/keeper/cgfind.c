/* SPDX-License-Identifier: Apache-2.0 */
#include "cgfind.h"
#include <base/base.h>
#include <base/str.h>

static const char *const v1_names[CG_V1_COUNT] = { "memory", "pids", "cpu", "blkio" };

static bool has_word(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = list; (p = strstr(p, word)); p += n)
        if ((p == list || p[-1] == ',') && (p[n] == ',' || !p[n]))
            return true;
    return false;
}

/* The path that /proc/self/cgroup gives for a v1 controller, or for v2 when name is "". */
static bool own_path(const char *text, const char *name, char *out, size_t cap)
{
    for (const char *line = text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        const char *a = strchr(line, ':'), *b = a ? strchr(a + 1, ':') : NULL, *e = b ? strchr(b, '\n') : NULL;
        char list[128];
        if (!b)
            continue;
        size_t n = (size_t)(b - a - 1), m = e ? (size_t)(e - b - 1) : strlen(b + 1);
        if (n >= sizeof list || m >= cap)
            continue;
        memcpy(list, a + 1, n);
        list[n] = 0;
        if (*name ? !has_word(list, name) : n != 0)
            continue;
        memcpy(out, b + 1, m);
        out[m] = 0;
        return true;
    }
    return false;
}

/* The kernel writes space, tab, newline and backslash as three octal digits. */
static void plain(char *s)
{
    char *to = s;
    for (; *s; s++) {
        bool escape = *s == '\\' && strspn(s + 1, "01234567") >= 3;
        *to++ = escape ? (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0')) : *s;
        s += escape ? 3 : 0;
    }
    *to = 0;
}

/* Mount point + our path, less the part of the hierarchy that the mount does not show. A path that leads out of our cgroup
 * namespace, or a mount from elsewhere: the top of what we see is all there is. "" when it is too long to be named. */
static void join(char *dst, size_t cap, const char *point, const char *root, const char *path)
{
    size_t n = strcmp(root, "/") ? strlen(root) : 0;
    bool below = !strncmp(path, root, n) && (!path[n] || path[n] == '/') && !cay__str_starts(path, "/..");
    if (!cay__str_join(dst, cap, point, below && strcmp(path + n, "/") ? path + n : "", NULL))
        dst[0] = 0;
}

static void one_mount(char *line, const char *cgroup, cgfind *out)
{
    /* id parent maj:min root point opts [optional…] - type source superopts */
    char *f[6], *save, *dash = strstr(line, " - ");
    char path[512];
    if (!dash)
        return;
    *dash = 0;
    char *p = line;
    for (int i = 0; i < 6; i++, p = NULL)
        if (!(f[i] = strtok_r(p, " ", &save)))
            return;
    plain(f[3]), plain(f[4]);
    char *type = strtok_r(dash + 3, " ", &save), *source = strtok_r(NULL, " ", &save), *opts = strtok_r(NULL, " ", &save);
    if (!type || !source || !opts)
        return;
    if (!strcmp(type, "cgroup2") && !out->v2[0] && own_path(cgroup, "", path, sizeof path)) {
        join(out->v2, sizeof out->v2, f[4], f[3], path);
        cay__str_copy(out->v2_top, sizeof out->v2_top, f[4]);
        out->v2_root = !strcmp(path, "/") && !strcmp(f[3], "/");
    }
    if (strcmp(type, "cgroup"))
        return;
    for (int i = 0; i < CG_V1_COUNT; i++)
        if (!out->v1[i][0] && has_word(opts, v1_names[i]) && own_path(cgroup, v1_names[i], path, sizeof path))
            join(out->v1[i], sizeof out->v1[i], f[4], f[3], path);
}

void cgfind_parse(char *mountinfo, char *cgroup, cgfind *out)
{
    char *save;
    memset(out, 0, sizeof *out);
    for (char *line = mountinfo; (line = strtok_r(line, "\n", &save)); line = NULL)
        one_mount(line, cgroup, out);
}
