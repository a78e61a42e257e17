/* SPDX-License-Identifier: Apache-2.0 */
#include "mountinfo.h"
#include "job.h"
#include <base/base.h>
#include <base/mutant.h>

static int parse_number(char **s)
{
    int v = 0;
    for (; **s >= '0' && **s <= '9' && v < 100000000; ++*s)
        v = v * 10 + (**s - '0');
    return v;
}

/* The next field of a line; NULL: there is none. */
static char *next_field(char **s)
{
    char *at = *s, *end = strchr(at, ' ');
    if (!end)
        return NULL;
    *end = 0;
    *s = end + 1;
    return at;
}

/* Blanks, ends of line and backslashes are written as three octal digits. */
static void unescape_path(char *s)
{
    char *to = s;
    for (; *s; s++) {
        bool octal = s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' &&
                     s[3] >= '0' && s[3] <= '7';
        *to++ = octal ? (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0')) : *s;
        if (octal)
            s += 3;
    }
    *to = 0;
}

/* "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 …": proc_pid_mountinfo(5). */
static bool parse_line(mountinfo *m, char *s)
{
    __typeof__(m->line[0]) *l = &m->line[m->n];
    char *path, *opts;
    l->id = parse_number(&s);
    if (*s++ != ' ')
        return false;
    l->parent = parse_number(&s);
    if (*s++ != ' ' || !next_field(&s) || !next_field(&s) || !(path = next_field(&s)) ||
        !(opts = next_field(&s)) || (path[0] != '/' && !CAY__MUTANT("fuzz-mountinfo")))
        return false;
    unescape_path(path);
    l->path = path;
    l->ro = cay__str_starts(opts, "ro,") || !strcmp(opts, "ro");
    m->n++;
    return true;
}

static int find_mount(const mountinfo *m, int id)
{
    for (size_t i = 0; i < m->n; i++)
        if (m->line[i].id == id)
            return (int)i;
    return -1;
}

bool mountinfo_parse(mountinfo *m)
{
    m->n = 0;
    m->root = m->cover = -1;
    errno = E2BIG;
    for (char *s = m->text, *end; *s; s = end + 1) {
        if (m->n == MOUNTS_MAX || !(end = strchr(s, '\n')))
            return false;
        *end = 0;
        if (!parse_line(m, s))
            return false;
    }
    for (size_t i = 0; i < m->n; i++) {
        int up = find_mount(m, m->line[i].parent);
        bool top = !m->line[i].path[1];
        if (up < 0 && top && m->root < 0)
            m->root = (int)i;
        else if (up >= 0 && top && m->cover < 0)
            m->cover = (int)i;
        else if (up < 0 || (up >= 0 && !strcmp(m->line[up].path, m->line[i].path))) {
            errno = ENOTSUP;
            return false;
        }
    }
    errno = EINVAL;
    return m->root >= 0 && (m->cover < 0 || m->line[m->cover].parent == m->line[m->root].id);
}

bool mountinfo_read(mountinfo *m, int pid)
{
    char path[48];
    proc_path(path, sizeof path, pid, "mountinfo");
    return cay__fd_read_file(AT_FDCWD, path, m->text, sizeof m->text) > 0 && mountinfo_parse(m);
}
