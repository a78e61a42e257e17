/* SPDX-License-Identifier: Apache-2.0 */
/* Users and groups of a manifest as lines of /etc/passwd and /etc/group, on top of those of the
 * stack below. */
#include "account.h"
#include "build.h"
#include <linux/openat2.h>

enum { FIRST_ID = 1001, LAST_ID = 59999, FILE_BYTES = 1 << 20 };

int build_below(build *b, const char *path, int flags)
{
    errno = ENOENT;
    for (size_t i = b->nbelow; i-- > 0;) {
        int dir;
        if (b->below[i][0] == '/')
            dir = open(b->below[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        else
            dir = cay__dir_at(b->t->layers, b->below[i]);
        if (dir < 0)
            return -1;
        int fd = cay__fd_openat2(
            dir, path,
            (uint64_t)(flags | O_CLOEXEC | O_NOFOLLOW | (flags & O_PATH ? 0 : O_NONBLOCK)), 0,
            RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
        int e = errno;
        close(dir);
        errno = e;
        if (fd >= 0 || errno != ENOENT)
            return fd;
    }
    return -1;
}

/* Its text, NUL-terminated; "" where there is none. */
static int read_below(build *b, const char *path, char *text, cay_err *err)
{
    CAY_AUTOFD fd = build_below(b, path, O_RDONLY);
    struct stat st;
    text[0] = 0;
    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size >= FILE_BYTES)
        return cay_fail_why(err, CAY_ETYPE, "accounts_unreadable",
                            "accounts: /%s of the template is no file that can be read", path);
    ssize_t n = cay__fd_read_all(fd, text, FILE_BYTES - 1);
    if (n < 0)
        return cay_fail_sys(err, "accounts: read /%s", path);
    text[n] = 0;
    return 0;
}

typedef struct texts {
    char *passwd, *group;
    cay__buf new_passwd, new_group;
    uint32_t next;
} texts;

static int next_id(texts *x, uint32_t *id, cay_err *err)
{
    for (; x->next <= LAST_ID; x->next++)
        if (!account_used(x->passwd, x->next) && !account_used(x->group, x->next)) {
            *id = x->next++;
            return 0;
        }
    return cay_fail_why(err, CAY_ENOSPACE, "accounts_full", "accounts: no id is free from %d to %d",
                        FIRST_ID, LAST_ID);
}

static int id_of(const char *line, unsigned field, const char *name, uint32_t *id, cay_err *err)
{
    if (!account_id(line, field, id))
        return cay_fail_why(err, CAY_ETYPE, "accounts_unreadable",
                            "accounts: the template's line of %.32s has no id below %u", name,
                            ACCOUNT_IDS);
    return 0;
}

static void end_line(cay__buf *b)
{
    if (b->len && b->data[b->len - 1] != '\n')
        cay__buf_str(b, "\n");
}

/* A group that is there gets the members at the end of its line. */
static void write_groups(build *b, texts *x)
{
    for (const char *s = x->group, *e; *s; s = e + (*e == '\n')) {
        e = strchrnul(s, '\n');
        cay__buf_add(&x->new_group, s, (size_t)(e - s));
        CAY_EACH_OF(it, b->groups, b->ngroups) {
            size_t n = strlen(it->name);
            if (strncmp(s, it->name, n) || s[n] != ':')
                continue;
            for (size_t k = 0; k < it->n; k++)
                cay__buf_fmt(&x->new_group, "%s%s", k || e[-1] != ':' ? "," : "", it->users[k]);
        }
        cay__buf_str(&x->new_group, "\n");
    }
}

static int add_groups(build *b, texts *x, cay_err *err)
{
    write_groups(b, x);
    CAY_EACH_OF(g, b->groups, b->ngroups) {
        const char *line = account_find(x->group, g->name);
        if (line) {
            CAY_TRY(id_of(line, 2, g->name, &g->gid, err));
            continue;
        }
        CAY_TRY(next_id(x, &g->gid, err));
        cay__buf_fmt(&x->new_group, "%s:x:%u:", g->name, g->gid);
        for (size_t k = 0; k < g->n; k++)
            cay__buf_fmt(&x->new_group, "%s%s", k ? "," : "", g->users[k]);
        cay__buf_str(&x->new_group, "\n");
    }
    return 0;
}

static int add_users(build *b, texts *x, cay_err *err)
{
    cay__buf_str(&x->new_passwd, x->passwd);
    end_line(&x->new_passwd);
    for (size_t i = 0; i < b->nusers; i++) {
        uint32_t gid = 0;
        if (account_find(x->passwd, b->users[i])) {
            b->uids[i] = 0; /* the template's own, with a home or without */
            continue;
        }
        CAY_EACH_OF(it, b->groups, b->ngroups)
            if (!strcmp(it->name, b->users[i]))
                gid = it->gid;
        const char *line = NULL;
        if (!gid)
            line = account_find(x->group, b->users[i]);
        if (line)
            CAY_TRY(id_of(line, 2, b->users[i], &gid, err));
        if (!gid && !line) {
            CAY_TRY(next_id(x, &gid, err));
            cay__buf_fmt(&x->new_group, "%s:x:%u:\n", b->users[i], gid);
            b->uids[i] = gid; /* one number for both, as everywhere */
        } else
            CAY_TRY(next_id(x, &b->uids[i], err));
        cay__buf_fmt(&x->new_passwd, "%s:x:%u:%u::/home/%s:/usr/sbin/nologin\n", b->users[i],
                     b->uids[i], gid, b->users[i]);
    }
    return 0;
}

/* Numbers for the names that nodes have. */
static int resolve_owners(build *b, const texts *x, cay_err *err)
{
    uint32_t uid = 1000, gid = 1000;
    if (*b->owner) {
        const char *line = account_find(CAY_OR(x->new_passwd.data, ""), b->owner);
        if (!line)
            return cay_fail_why(err, CAY_ENOENT, "account_missing",
                                "accounts: the template has no user %.32s", b->owner);
        CAY_TRY(id_of(line, 2, b->owner, &uid, err));
        CAY_TRY(id_of(line, 3, b->owner, &gid, err));
    }
    CAY_EACH_OF(n, b->nodes, b->nnodes) {
        n->uid = CAY_FLAG_IF(n->entry, uid);
        n->gid = CAY_FLAG_IF(n->entry, gid);
        const char *line = NULL;
        if (*n->group)
            line = account_find(CAY_OR(x->new_group.data, ""), n->group);
        if (line)
            CAY_TRY(id_of(line, 2, n->group, &n->gid, err));
        else if (*n->group)
            return cay_fail_why(err, CAY_ENOENT, "account_missing",
                                "entry %.80s: the template has no group %.32s", n->path, n->group);
    }
    return 0;
}

static int write_file(build *b, const char *name, const cay__buf *text, cay_err *err)
{
    uid_t root = tool_base(b->t);
    CAY_AUTOFD fd =
        openat(b->stage, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0 || !cay__fd_write_all(fd, text->data, text->len) || fchown(fd, root, root) < 0)
        return cay_fail_sys(err, "accounts: write /%s", name);
    return 0;
}

static int write_accounts(build *b, const texts *x, cay_err *err)
{
    uid_t base = tool_base(b->t);
    if (mkdirat(b->stage, "etc", 0755) < 0 ||
        fchownat(b->stage, "etc", base, base, AT_SYMLINK_NOFOLLOW) < 0 ||
        mkdirat(b->stage, "home", 0755) < 0 ||
        fchownat(b->stage, "home", base, base, AT_SYMLINK_NOFOLLOW) < 0)
        return cay_fail_sys(err, "accounts");
    for (size_t i = 0; i < b->nusers; i++) {
        char home[64];
        CAY_AUTOFD there = -1;
        if (!b->uids[i])
            continue;
        CAY_JOIN(home, "home/", b->users[i]);
        there = build_below(b, home, O_PATH);
        if (there < 0 && (mkdirat(b->stage, home, 0755) < 0 ||
                          fchownat(b->stage, home, base + b->uids[i], base + b->uids[i],
                                   AT_SYMLINK_NOFOLLOW) < 0))
            return cay_fail_sys(err, "accounts: make /%s", home);
    }
    CAY_TRY(write_file(b, "etc/passwd", &x->new_passwd, err));
    return write_file(b, "etc/group", &x->new_group, err);
}

/* A user's becomes a directory, and both become lines of files: whoever wrote the plan. */
static bool is_name(const char *s)
{
    return *s && *s != '.' && !strpbrk(s, "/:,\n") && strlen(s) <= 32;
}

static bool are_names(const build *b)
{
    CAY_EACH_OF(it, b->users, b->nusers)
        if (!is_name(*it))
            return false;
    CAY_EACH_OF(group, b->groups, b->ngroups) {
        if (!is_name(group->name))
            return false;
        CAY_EACH_OF(user, group->users, group->n)
            if (!is_name(*user))
                return false;
    }
    return true;
}

static int update_accounts(build *b, texts *x, cay_err *err)
{
    if (!are_names(b))
        return cay_fail_why(
            err, CAY_EINVAL, "protocol",
            "the plan has a wrong form: a user or group has no name that can be one");
    CAY_TRY(read_below(b, "etc/passwd", x->passwd, err));
    CAY_TRY(read_below(b, "etc/group", x->group, err));
    CAY_TRY(add_groups(b, x, err));
    CAY_TRY(add_users(b, x, err));
    CAY_TRY(resolve_owners(b, x, err));
    if (!b->nusers && !b->ngroups)
        return 0;
    if (b->single)
        return cay_fail_why(err, CAY_ENOTSUP, "single_id",
                            "users and groups need a range of ids; let the administrator add you "
                            "to /etc/subuid and /etc/subgid");
    return write_accounts(b, x, err);
}

int build_accounts(build *b, cay_err *err)
{
    CAY_AUTOFREE char *passwd = cay__alloc(FILE_BYTES), *group = cay__alloc(FILE_BYTES);
    texts x = { .passwd = passwd,
                .group = group,
                .new_passwd = CAY__BUF(4 << 20),
                .new_group = CAY__BUF(4 << 20),
                .next = FIRST_ID };
    int rc = update_accounts(b, &x, err);
    cay__buf_clear(&x.new_passwd);
    cay__buf_clear(&x.new_group);
    return rc;
}
