/* SPDX-License-Identifier: Apache-2.0 */
/* The process list as proc(5) shows it inside. */
#include "procfs.h"
#include "session_ops.h"
#include <base/base.h>

enum { COMMAND_MAX = 512, USER_MAX = 32 };

typedef struct lister {
    cay__ses *s;
    int64_t boot_wall_ms; /* wall clock at boot */
    long ticks, page;
    /* the last name that was looked up; lists are mostly of one user */
    bool known;
    uint32_t uid;
    char user[USER_MAX + 1];
} lister;

typedef struct lookup {
    uint32_t uid;
    char *name;
} lookup;

static int passwd_line(const char *line, void *arg)
{
    lookup *l = arg;
    const char *colon = strchr(line, ':'), *id = colon ? strchr(colon + 1, ':') : NULL;
    size_t n = 0;
    if (colon)
        n = (size_t)(colon - line);
    char num[12] = "";
    uint64_t uid;
    if (!id || !n || n > USER_MAX)
        return 0;
    size_t len = strcspn(id + 1, ":");
    if (len >= sizeof num)
        return 0;
    memcpy(num, id + 1, len);
    if (!cay__str_to_u64(num, &uid) || uid != l->uid)
        return 0;
    memcpy(l->name, line, n);
    l->name[n] = 0;
    return 1;
}

static const char *user_name(lister *l, uint32_t uid)
{
    if (l->known && l->uid == uid)
        return l->user;
    l->known = true;
    l->uid = uid;
    char num[21];
    CAY_COPY(l->user, cay__str_u64(num, uid));
    struct stat st;
    CAY_AUTOFD fd = cay__fs_open_read(&l->s->fs, "/etc/passwd", &st);
    if (fd >= 0)
        cay__lines_of(fd, passwd_line, &(lookup){ uid, l->user });
    return l->user;
}

/* "PID (name with ) and blanks) S PPID …": fields counted from the last parenthesis. */
static bool parse_stat(lister *l, char *text, cay_ses_ps *out, char **comm)
{
    char *open = strchr(text, '('), *close = strrchr(text, ')'), *f[22];
    uint64_t v[22] = { 0 };
    if (!open || !close || close < open)
        return false;
    *close = 0;
    *comm = open + 1;
    if (cay__split(close + 1, f, CAY_LEN(f)) < CAY_LEN(f))
        return false;
    for (size_t i = 1; i < CAY_LEN(f); i++)
        if (!cay__str_to_u64(f[i], &v[i]))
            v[i] = 0; /* tty and priority may be negative */
    if (v[20])
        out->state = (uint8_t)f[0][0];
    else
        out->state =
            'Z'; /* without memory it has ended, even where it is not called a zombie yet */
    out->ppid = (int32_t)v[1];
    out->tty = v[4] != 0;
    out->cpu_us = (v[11] + v[12]) * 1000000 / (uint64_t)l->ticks;
    out->started_ms = l->boot_wall_ms + (int64_t)(v[19] * 1000 / (uint64_t)l->ticks);
    out->rss = v[21] * (uint64_t)l->page;
    return true;
}

/* argv joined by blanks; a kernel thread or zombie has none and shows its name in brackets. */
static size_t command_of(ssize_t n, const char *comm, char *buf)
{
    while (n > 0 && !buf[n - 1])
        n--;
    for (ssize_t i = 0; i < n; i++)
        if (!buf[i])
            buf[i] = ' ';
    if (n > 0)
        return (size_t)n;
    cay__str_join(buf, COMMAND_MAX + 1, "[", comm, "]", NULL);
    return strlen(buf);
}

static bool uid_of(int dir, uint32_t *uid)
{
    char buf[2048];
    uint64_t v;
    ssize_t n = cay__fd_read_file(dir, "status", buf, sizeof buf);
    char *p = n > 0 ? strstr(buf, "\nUid:") : NULL, *f[2];
    if (!p || cay__split(p + 5, f, 2) < 1 || !cay__str_to_u64(f[0], &v))
        return false;
    *uid = (uint32_t)v;
    return true;
}

static int send_process(int pid, int dir, void *arg)
{
    lister *l = arg;
    char text[1024], command[COMMAND_MAX + 1], *comm;
    cay_ses_ps w = { .pid = pid };
    ssize_t n = cay__fd_read_file(
        dir, "cmdline", command,
        sizeof command); /* before its state: who has no arguments any more is told as ended */
    if (pid == getpid() || cay__fd_read_file(dir, "stat", text, sizeof text) <= 0 ||
        !parse_stat(l, text, &w, &comm) || !uid_of(dir, &w.uid))
        return 0;
    const char *user = user_name(l, w.uid);
    w.user = (uint16_t)strlen(user);
    w.command = (uint16_t)command_of(n, comm, command);
    return cay__ses_record(
        l->s, (cay__ses_part[]){ { &w, sizeof w }, { user, w.user }, { command, w.command } }, 3);
}

int cay__ses_ps(cay__ses *s)
{
    lister l = { .s = s,
                 .boot_wall_ms = cay__clock_ms() - cay__boot_ms(),
                 .ticks = sysconf(_SC_CLK_TCK),
                 .page = sysconf(_SC_PAGESIZE) };
    return cay__proc_each(send_process, &l);
}
