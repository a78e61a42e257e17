/* SPDX-License-Identifier: Apache-2.0 */
#include "init.h"
#include <base/mutant.h>
#include <sys/mman.h>

init_state init; /* here, because every program with users inside has this file */

#define PASSWD_MAX 65536

const char *config_get(unsigned field)
{
    const char *p = init.config, *end = init.config + init.config_len;
    for (; field && p < end; field--)
        p += strlen(p) + 1;
    if (p < end)
        return p;
    return "";
}

/* The file belongs to the tenant: it may be a FIFO, huge, or nonsense. */
ssize_t user_read(const char *path, char *buf, size_t cap)
{
    CAY_AUTOFD fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return -1;
    return cay__fd_read_all(fd, buf, cap);
}

static bool parse_number(const char *s, const char *end, uint32_t *out)
{
    uint64_t v = 0;
    if (s == end || end - s > 10)
        return false;
    for (; s < end; s++) {
        if (*s < '0' || *s > '9')
            return false;
        v = v * 10 + (uint64_t)(*s - '0');
    }
    *out = (uint32_t)v;
    return v < UINT32_MAX;
}

/* A name cut short would be somebody else's, a path cut short another place. */
static bool copy_field(char *dst, size_t cap, const char *s, const char *end)
{
    size_t n = (size_t)(end - s);
    if (n >= cap + CAY__MUTANT("fuzz-passwd") || memchr(s, 0, n))
        return false;
    memcpy(dst, s, n);
    dst[n] = 0;
    return true;
}

/* name:x:uid:gid:gecos:home:shell */
static bool parse_line(const char *s, const char *end, ident *out)
{
    const char *f[8];
    unsigned n = 0;
    f[n++] = s;
    for (const char *p = s; p < end && n < 7; p++)
        if (*p == ':')
            f[n++] = p + 1;
    if (n < 7 || !parse_number(f[2], f[3] - 1, &out->uid) ||
        !parse_number(f[3], f[4] - 1, &out->gid))
        return false;
    return copy_field(out->name, sizeof out->name, f[0], f[1] - 1) &&
           copy_field(out->home, sizeof out->home, f[5], f[6] - 1) &&
           copy_field(out->shell, sizeof out->shell, f[6], end);
}

static bool search_passwd(const char *buf, size_t len, const char *name, uint32_t uid, bool by_uid,
                          ident *out)
{
    const char *end = buf + len;
    for (const char *s = buf; s < end;) {
        const char *e = memchr(s, '\n', (size_t)(end - s));
        e = CAY_OR(e, end);
        if (parse_line(s, e, out) && (by_uid ? out->uid == uid : !strcmp(out->name, name)))
            return true;
        s = e + 1;
    }
    return false;
}

/* Names that must work whatever the template holds. */
static bool built_in(const char *name, bool by_uid, uint32_t uid, ident *out)
{
    memset(out, 0, sizeof *out);
    if (by_uid ? uid == 0 : !strcmp(name, "root")) {
        CAY_COPY(out->name, "root");
        CAY_COPY(out->home, "/root");
    } else if (by_uid || !strcmp(name, "user")) {
        if (by_uid)
            out->uid = out->gid = uid;
        else
            out->uid = out->gid = 1000;
        CAY_COPY(out->name, by_uid ? name : "user");
        CAY_COPY(out->home, by_uid ? "/" : "/home/user");
    } else {
        return false;
    }
    CAY_COPY(out->shell, "/bin/sh");
    return true;
}

int user_search(const char *file, size_t len, const char *name, ident *out)
{
    uint32_t uid = 0;
    bool by_uid = parse_number(name, name + strlen(name), &uid);
    if (!search_passwd(file, len, name, uid, by_uid, out) && !built_in(name, by_uid, uid, out))
        return ENOENT;
    /* A one-id map has nobody else to become. */
    if (init.mode == CAY_MODE_SINGLE && out->uid != (init.uid0 ? 0u : 1000u))
        return EPERM;
    if (!out->shell[0])
        CAY_COPY(out->shell, "/bin/sh");
    if (out->uid > 65535 || out->gid > 65535)
        return ERANGE;
    return 0;
}

/* name:x:gid:member,member: the end of the name and that of the gid. */
static bool group_line(const char *s, const char *e, const char **name_end, const char **gid_end,
                       uint32_t *gid)
{
    const char *a = memchr(s, ':', (size_t)(e - s)),
               *b = a ? memchr(a + 1, ':', (size_t)(e - a - 1)) : NULL;
    const char *c = NULL;
    if (b)
        c = memchr(b + 1, ':', (size_t)(e - b - 1));
    *name_end = a;
    *gid_end = c;
    return c && parse_number(b + 1, c, gid) && *gid <= 65535;
}

int user_group(const char *file, size_t len, const char *name, ident *id)
{
    const char *end = file + len, *a, *c;
    size_t n = strlen(name);
    uint32_t gid = 0;
    bool found = parse_number(name, name + n, &gid);
    if (found && gid > 65535)
        return ERANGE;
    for (const char *s = file, *e; !found && s < end; s = e + 1) {
        e = memchr(s, '\n', (size_t)(end - s));
        e = CAY_OR(e, end);
        found = group_line(s, e, &a, &c, &gid) && n && (size_t)(a - s) == n && !memcmp(s, name, n);
    }
    if (!found)
        return ENOENT;
    id->gid = gid;
    id->ngroups = 0;
    return 0;
}

/* As many as there is room for. */
void user_groups(const char *file, size_t len, ident *id)
{
    const char *end = file + len, *a, *c;
    size_t n = strlen(id->name);
    id->ngroups = 0;
    for (const char *s = file, *e; s < end && id->ngroups < sizeof id->groups / sizeof *id->groups;
         s = e + 1) {
        uint32_t gid = 0;
        e = memchr(s, '\n', (size_t)(end - s));
        e = CAY_OR(e, end);
        if (!group_line(s, e, &a, &c, &gid) || gid == id->gid)
            continue;
        for (const char *m = c + 1, *x; m <= e; m = x + 1) {
            x = memchr(m, ',', (size_t)(e - m));
            x = CAY_OR(x, e);
            if ((size_t)(x - m) == n && n && !memcmp(m, id->name, n)) {
                id->groups[id->ngroups++] = gid;
                break;
            }
        }
    }
}

/* Who was asked for last, and the file it was found in. A file that changed within the last second
 * may change again without a sign. */
static struct {
    char name[128];
    struct stat st, gst;
    ident id;
} last;

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static int lookup_user(const char *name, ident *out)
{
    struct stat st, gst = { 0 };
    char who[sizeof out->name];
    size_t len = strcspn(name, ":");
    if (!copy_field(who, sizeof who, name, name + len))
        return ENOENT;
    bool there =
        stat("/etc/passwd", &st) == 0 && (stat("/etc/group", &gst) == 0 || errno == ENOENT);
    if (there && last.st.st_ino && !strcmp(last.name, name) && same_file(&st, &last.st) &&
        same_file(&gst, &last.gst)) {
        *out = last.id;
        return 0;
    }
    last.st.st_ino = 0;
    char *buf = mmap(NULL, PASSWD_MAX, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (buf == MAP_FAILED)
        return ENOMEM;
    ssize_t n = user_read("/etc/passwd", buf, PASSWD_MAX);
    int rc = user_search(buf, n > 0 ? (size_t)n : 0, who, out);
    if (rc == 0)
        n = user_read("/etc/group", buf, PASSWD_MAX);
    else
        n = 0;
    n = CAY_MAX(n, 0);
    if (rc == 0 && name[len])
        rc = user_group(buf, (size_t)n, name + len + 1, out);
    else
        user_groups(buf, (size_t)n, out);
    munmap(buf, PASSWD_MAX);
    int64_t now = cay__clock_ms() / 1000;
    if (rc == 0 && there && now > st.st_ctim.tv_sec + 1 && now > gst.st_ctim.tv_sec + 1 &&
        CAY_COPY(last.name, name)) {
        last.st = st;
        last.gst = gst;
        last.id = *out;
    }
    return rc;
}

int user_find(const char *name, ident *out)
{
    if (strchr(name, ':'))
        return ENOENT;
    return lookup_user(name, out);
}

int user_default(ident *out)
{
    return lookup_user(config_get(0), out);
}
