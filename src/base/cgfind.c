/* SPDX-License-Identifier: Apache-2.0 */
#include "cgfind.h"
#include "base.h"

static const char *const v1_names[CG_V1_COUNT] = { "memory", "pids", "cpu", "blkio" };

static bool has_word(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = list; (p = strstr(p, word)); p += n)
        if ((p == list || p[-1] == ',') && (p[n] == ',' || !p[n]))
            return true;
    return false;
}

typedef struct own {
    const char *list, *path; /* controllers, "" for v2; our group there */
} own;

/* Of a v1 controller, or of v2 when name is "". */
static const char *own_path(const own *o, const char *name)
{
    while (o->list && (*name ? !has_word(o->list, name) : *o->list))
        o++;
    return o->path;
}

/* The kernel writes space, tab, newline and backslash as three octal digits. */
static void unescape_octal(char *s)
{
    char *to = s;
    for (; *s; s++) {
        bool escape = *s == '\\' && strspn(s + 1, "01234567") >= 3;
        *to++ = escape ? (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0')) : *s;
        if (escape)
            s += 3;
    }
    *to = 0;
}

/* Mount point + our path, less the part of the hierarchy that the mount does not show. A path that
 * leads out of our cgroup namespace, or a mount from elsewhere: the top of what we see is all there
 * is. "" when it is too long to be named. */
static void join_cgroup_path(char *dst, size_t cap, const char *point, const char *root,
                             const char *path)
{
    size_t n = 0;
    if (strcmp(root, "/"))
        n = strlen(root);
    bool below =
        !strncmp(path, root, n) && (!path[n] || path[n] == '/') && !cay__str_starts(path, "/..");
    if (!cay__str_join(dst, cap, point, below && strcmp(path + n, "/") ? path + n : "", NULL))
        dst[0] = 0;
}

static void one_mount(char *line, const own *groups, cgfind *out)
{
    /* id parent maj:min root point opts [optional…] - type source superopts */
    char *f[6], *save, *dash = strstr(line, " - ");
    const char *path;
    if (!dash)
        return;
    *dash = 0;
    char *p = line;
    for (int i = 0; i < 6; i++, p = NULL)
        if (!(f[i] = strtok_r(p, " ", &save)))
            return;
    unescape_octal(f[3]), unescape_octal(f[4]);
    char *type = strtok_r(dash + 3, " ", &save), *source = strtok_r(NULL, " ", &save),
         *opts = strtok_r(NULL, " ", &save);
    if (!type || !source || !opts)
        return;
    if (!strcmp(type, "cgroup2") && !out->v2[0] && (path = own_path(groups, ""))) {
        join_cgroup_path(out->v2, sizeof out->v2, f[4], f[3], path);
        CAY_COPY(out->v2_top, f[4]);
        out->v2_root = !strcmp(path, "/") && !strcmp(f[3], "/");
    }
    if (strcmp(type, "cgroup"))
        return;
    for (int i = 0; i < CG_V1_COUNT; i++)
        if (!out->v1[i][0] && has_word(opts, v1_names[i]) && (path = own_path(groups, v1_names[i])))
            join_cgroup_path(out->v1[i], sizeof out->v1[i], f[4], f[3], path);
}

void cgfind_parse(char *mountinfo, char *cgroup, cgfind *out)
{
    own groups[32] = { 0 };
    char *save, *list, *path;
    size_t n = 0;
    memset(out, 0, sizeof *out);
    for (char *line = cgroup; n < CAY_LEN(groups) - 1 && (line = strtok_r(line, "\n", &save));
         line = NULL)
        if ((list = strchr(line, ':')) && (path = strchr(list + 1, ':'))) {
            *path = 0;
            groups[n++] = (own){ list + 1, path + 1 };
        }
    for (char *line = mountinfo; (line = strtok_r(line, "\n", &save)); line = NULL)
        one_mount(line, groups, out);
}
