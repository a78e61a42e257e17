/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding by name and by content. Matching is by bytes and free of backtracking explosions: a star,
 * and a double star, only ever go back to the last one.
 */
#include "base.h"
#include "fsop.h"
#include <linux/openat2.h>
#include <regex.h>
#include <strings.h>

enum { GREP_BUF = 65536, LINE_CUT = 4096, GREP_MAX = 10000, PATTERN_MAX = 4096 };

static size_t rune_length(const char *s)
{
    size_t n = 1;
    while (((unsigned char)s[n] & 0xc0) == 0x80 && n < 4 && (unsigned char)s[0] >= 0xc0)
        n++;
    return n;
}

/* [set] at p against the byte c. Gives where the pattern goes on, NULL when it is no whole set. */
static const char *in_set(const char *p, const char *pend, unsigned char c, bool *yes)
{
    bool not = p[1] == '!' || p[1] == '^', hit = false;
    const char *q = p + 1 + not ;
    for (bool first = true; q < pend && (first || *q != ']'); first = false) {
        q += *q == '\\' && q + 1 < pend;
        unsigned char a = (unsigned char)*q++, b = a;
        if (q + 1 < pend && *q == '-' && q[1] != ']') {
            q += 1 + (q[1] == '\\' && q + 2 < pend);
            b = (unsigned char)*q++;
        }
        hit |= a <= c && c <= b;
    }
    if (q >= pend)
        return NULL;
    *yes = hit != not ;
    return q + 1;
}

/* One element of the pattern (not a star) against the text. Both advance when it fits. */
static bool match_element(const char **p, const char *pend, const char **s, const char *send)
{
    const char *q = *p;
    if (*s >= send)
        return false;
    if (*q == '?') {
        *p = q + 1;
        *s = CAY_MIN(*s + rune_length(*s), send);
        return true;
    }
    if (*q == '[') {
        bool yes = false;
        const char *next = in_set(q, pend, (unsigned char)**s, &yes);
        if (next) {
            *p = next;
            *s += 1;
            return yes;
        }
    }
    q += *q == '\\' && q + 1 < pend;
    if (*q != **s)
        return false;
    *p = q + 1;
    *s += 1;
    return true;
}

static bool match_part(const char *p, const char *pend, const char *s, const char *send)
{
    const char *star = NULL, *back = NULL;
    if (s < send && *s == '.' && p < pend && *p != '.' &&
        !(*p == '\\' && p + 1 < pend && p[1] == '.'))
        return false;
    while (s < send || p < pend) {
        if (p < pend && *p == '*') {
            star = ++p;
            back = s;
            continue;
        }
        if (p < pend && match_element(&p, pend, &s, send))
            continue;
        if (!star || back >= send)
            return false;
        back += rune_length(back);
        s = back = CAY_MIN(back, send);
        p = star;
    }
    return true;
}

bool cay__fs_match(const char *pat, const char *s)
{
    return match_part(pat, pat + strlen(pat), s, s + strlen(s));
}

static const char *part_end(const char *s)
{
    return s + strcspn(s, "/");
}

bool cay__fs_match_path(const char *pat, const char *path, bool partial)
{
    const char *star = NULL, *back = NULL;
    for (;;) {
        const char *pe = part_end(pat), *se = part_end(path);
        if (pe - pat == 2 && !memcmp(pat, "**", 2)) {
            if (!*pe) /* at the end: all that is not hidden */
                return *path && *path != '.' && !strstr(path, "/.");
            if (partial)
                return *path != '.' && !strstr(path, "/.");
            star = pat = pe + 1;
            back = path;
            continue;
        }
        if (!*path && (partial || !*pat))
            return true;
        if (*path && *pat && match_part(pat, pe, path, se)) {
            pat = pe + (*pe == '/');
            path = se + (*se == '/');
            continue;
        }
        if (!star || !*back || *back == '.')
            return false;
        back = part_end(back);
        back += *back == '/';
        path = back;
        pat = star;
    }
}

typedef struct glob_state {
    const char *pattern; /* without the plain parts in front */
    const char *prefix;  /* those, or "" */
    int (*fn)(const cay__fs_entry *, void *);
    void *arg;
} glob_state;

static int glob_entry(const cay__fs_entry *e, void *arg)
{
    const glob_state *g = arg;
    int rc = 0;
    if (cay__fs_match_path(g->pattern, e->path, false)) {
        if (!*g->prefix) {
            rc = g->fn(e, g->arg);
        } else {
            size_t n = strlen(g->prefix) + strlen(e->path) + 2;
            CAY_AUTOFREE char *path = malloc(n);
            if (!path)
                return -1;
            cay__str_join(path, n, g->prefix, "/", e->path, NULL);
            cay__fs_entry full = *e;
            full.path = path;
            rc = g->fn(&full, g->arg);
        }
    }
    if (rc == 0 && S_ISDIR(e->st->st_mode) && !cay__fs_match_path(g->pattern, e->path, true))
        return CAY__FS_SKIP;
    return rc;
}

static bool pattern_ok(const char *p)
{
    if (!*p || *p == '/' || strlen(p) >= PATTERN_MAX)
        return false;
    for (const char *s = p; *s; s = part_end(s), s += *s == '/')
        if (s[0] == '.' && s[1] == '.' && (!s[2] || s[2] == '/'))
            return false;
    return true;
}

int cay__fs_glob(const cay__fs *fs, const char *base, const char *pattern,
                 int (*fn)(const cay__fs_entry *, void *), void *arg)
{
    char prefix[PATTERN_MAX];
    while (pattern[0] == '.' && pattern[1] == '/')
        pattern += 2;
    if (!pattern_ok(pattern))
        return cay__fs_fail(EINVAL);
    /* Plain parts in front are a path, where links are followed as in a shell. */
    size_t cut = 0, meta = strcspn(pattern, "*?[\\");
    for (size_t i = 0; i < meta && pattern[i]; i++)
        if (pattern[i] == '/' && pattern[i + 1])
            cut = i + 1;
    memcpy(prefix, pattern, cut);
    prefix[cut ? cut - 1 : 0] = 0;
    CAY_AUTOFD dir = cay__fs_open(fs, base, O_PATH | O_DIRECTORY);
    CAY_TRY(dir);
    int fd;
    if (cut) {
        char whole[CAY__FS_PATH_MAX];
        if (!CAY_JOIN(whole, base, "/", prefix))
            return cay__fs_fail(ENAMETOOLONG);
        fd = cay__fs_open(fs, whole, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
        if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
            return 0;
    } else {
        fd = cay__fs_open(fs, base, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
    }
    CAY_TRY(fd);
    glob_state g = { pattern + cut, prefix, fn, arg };
    return cay__fs_walk_fd(
        fd,
        &(cay__fs_walk){ .fn = glob_entry, .arg = &g, .stop = fs->stop, .stop_arg = fs->stop_arg });
}

typedef struct grep_state {
    const cay__fs *fs;
    const cay__fs_grep_spec *spec;
    regex_t re;
    size_t plain_len;
    uint64_t left;
    char *buf;
    int (*fn)(const cay__fs_line *, void *);
    void *arg;
} grep_state;

/* Where in the NUL-terminated line it matches, or -1. */
static long find_in(const grep_state *g, const char *line, size_t len)
{
    if (!g->spec->plain) {
        regmatch_t m;
        if (regexec(&g->re, line, 1, &m, 0) == 0)
            return (long)m.rm_so;
        return -1;
    }
    if (!g->spec->ignore_case) {
        const char *p = memmem(line, len, g->spec->pattern, g->plain_len);
        if (p)
            return p - line;
        return -1;
    }
    for (size_t i = 0; i + g->plain_len <= len; i++)
        if (!strncasecmp(line + i, g->spec->pattern, g->plain_len))
            return (long)i;
    return -1;
}

/* col0: how much of the line came before, when it is longer than the buffer. */
static int grep_line(grep_state *g, const char *path, uint64_t no, uint64_t col0, char *line,
                     size_t len)
{
    line[len] = 0;
    long at = find_in(g, line, len);
    if (at < 0)
        return 0;
    if (g->left == 0)
        return 1;
    g->left--;
    cay__fs_line l = { path, no, col0 + (uint64_t)at + 1, line, CAY_MIN(len, (size_t)LINE_CUT) };
    int rc = g->fn(&l, g->arg);
    return CAY_OR(rc, g->left == 0);
}

static int grep_fd(grep_state *g, int fd, const char *path)
{
    size_t have = 0;
    uint64_t no = 1, col0 = 0;
    bool hit = false; /* a piece of this overlong line matched already */
    for (bool eof = false; !eof;) {
        if (g->fs->stop && g->fs->stop(g->fs->stop_arg))
            return cay__fs_fail(ECANCELED);
        ssize_t n = read(fd, g->buf + have, GREP_BUF - have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0 || memchr(g->buf + have, 0, (size_t)n))
            eof = true; /* the end, unreadable, or binary from here on */
        if (n > 0 && !eof)
            have += (size_t)n;
        char *p = g->buf, *end = g->buf + have, *nl;
        for (; p < end && (nl = memchr(p, '\n', (size_t)(end - p)));
             p = nl + 1, no++, col0 = 0, hit = false) {
            int rc = 0;
            if (!hit)
                rc = grep_line(g, path, no, col0, p, (size_t)(nl - p));
            if (rc)
                return rc;
        }
        have = (size_t)(end - p);
        if (have && ((eof && n == 0) || have == GREP_BUF)) {
            uint64_t before = g->left;
            int rc = 0;
            if (!hit)
                rc = grep_line(g, path, no, col0, p, have);
            if (rc)
                return rc;
            hit |= g->left != before;
            col0 += have;
            have = 0;
        }
        memmove(g->buf, p, have);
    }
    return 0;
}

static int grep_entry(const cay__fs_entry *e, void *arg)
{
    grep_state *g = arg;
    const char *inc = g->spec->include;
    struct stat st;
    if (!S_ISREG(e->st->st_mode))
        return 0;
    if (inc &&
        !(strchr(inc, '/') ? cay__fs_match_path(inc, e->path, false) : cay__fs_match(inc, e->name)))
        return 0;
    CAY_AUTOFD fd = cay__fd_openat2(e->dir, e->name, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0,
                                    RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return 0;
    return grep_fd(g, fd, e->path);
}

static int grep_base(grep_state *g, const cay__fs *fs, const char *base)
{
    struct stat st;
    char name[256];
    CAY_TRY(cay__fs_stat(fs, base, true, &st, NULL, 0));
    if (S_ISDIR(st.st_mode))
        return cay__fs_walk_path(fs, base, &(cay__fs_walk){ .fn = grep_entry, .arg = g });
    CAY_AUTOFD fd = cay__fs_open_read(fs, base, NULL);
    CAY_AUTOFD dir = -1;
    if (fd >= 0)
        dir = cay__fs_parent(fs, base, name);
    CAY_TRY(dir);
    return grep_fd(g, fd, name);
}

int cay__fs_grep(const cay__fs *fs, const char *base, const cay__fs_grep_spec *spec,
                 int (*fn)(const cay__fs_line *, void *), void *arg)
{
    grep_state g = {
        .fs = fs, .spec = spec, .left = CAY_OR(spec->max, GREP_MAX), .fn = fn, .arg = arg
    };
    g.plain_len = strlen(spec->pattern);
    if (!g.plain_len || g.plain_len > PATTERN_MAX ||
        (!spec->plain &&
         regcomp(&g.re, spec->pattern, REG_EXTENDED | (spec->ignore_case ? REG_ICASE : 0))))
        return cay__fs_fail(EINVAL);
    g.buf = malloc(GREP_BUF + 1);
    int rc = -1;
    if (g.buf)
        rc = grep_base(&g, fs, base);
    int e = errno;
    free(g.buf);
    if (!spec->plain)
        regfree(&g.re);
    errno = e;
    /* our own stop at the limit is not the caller's */
    if (rc == 1 && g.left == 0)
        return 0;
    return rc;
}
