/* SPDX-License-Identifier: Apache-2.0 */
#include "local.h"
#include <base/proctree.h>
#include <arpa/inet.h>
#include <dirent.h>
#include <pwd.h>
#include <sys/socket.h>

enum { SOCKETS_MAX = 16384, TCP_LISTENS = 0x0a };

/* cay-local, below which everything of the box is; 0 when it does not run. */
static pid_t find_holder_pid(local_box *b, const cay_call *call)
{
    cay_box_status st = { .size = sizeof st };
    if (cay__local_status(b, call, &st, NULL) == 0)
        return st.pid;
    return 0;
}

typedef struct owned {
    uint64_t inode;
    pid_t pid;
} owned;

typedef struct sockets {
    owned *at;
    size_t len;
} sockets;

static int add_sockets(const tree_proc *p, void *arg)
{
    sockets *s = arg;
    char path[64], link[64];
    CAY_FORMAT(path, "/proc/%d/fd", (int)p->pid);
    CAY_AUTODIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));) {
        unsigned long long inode;
        ssize_t n = readlinkat(dirfd(d), e->d_name, link, sizeof link - 1);
        link[n > 0 ? n : 0] = 0;
        if (sscanf(link, "socket:[%llu]", &inode) == 1 && s->len < SOCKETS_MAX)
            s->at[s->len++] = (owned){ inode, p->pid };
    }
    return 0;
}

static pid_t find_owner_pid(const sockets *s, uint64_t inode)
{
    CAY_EACH_OF(it, s->at, s->len)
        if (it->inode == inode)
            return it->pid;
    return 0;
}

/* Addresses in /proc/net/tcp are hexadecimal words in host order. */
static void show_address(const char *hex, cay_port *out)
{
    uint32_t w[4] = { 0 };
    size_t n = strlen(hex) / 8;
    for (size_t i = 0; i < n && i < 4; i++) {
        char word[9] = { 0 };
        memcpy(word, hex + i * 8, 8);
        w[i] = (uint32_t)strtoul(word, NULL, 16);
    }
    inet_ntop(n == 1 ? AF_INET : AF_INET6, w, out->address, sizeof out->address);
}

static int scan_table(const char *path, const sockets *s, cay_port_fn *fn, void *arg)
{
    char line[512], hex[40];
    int rc = 0;
    FILE *f = fopen(path, "re");
    while (f && rc == 0 && fgets(line, sizeof line, f)) {
        unsigned port, state;
        unsigned long long inode;
        if (sscanf(line, " %*u: %32[0-9A-F]:%x %*s %x %*s %*s %*s %*u %*u %llu", hex, &port, &state,
                   &inode) != 4 ||
            state != TCP_LISTENS)
            continue;
        cay_port p = { .port = (uint16_t)port, .pid = find_owner_pid(s, inode) };
        show_address(hex, &p);
        if (p.pid)
            rc = fn(&p, arg);
    }
    if (f)
        fclose(f);
    return rc;
}

int cay__local_ports(void *box, const cay_call *call, cay_port_fn *fn, void *arg, cay_err *err)
{
    local_box *b = box;
    pid_t root = find_holder_pid(b, call);
    if (!root)
        return 0;
    sockets s = { .at = cay__alloc(SOCKETS_MAX * sizeof(owned)) };
    cay__tree_walk(root, add_sockets, &s);
    int rc = scan_table("/proc/net/tcp", &s, fn, arg);
    if (rc == 0)
        rc = scan_table("/proc/net/tcp6", &s, fn, arg);
    free(s.at);
    return rc;
}

typedef struct look {
    uint16_t port;
    bool v4, v6;
} look;

static int is_it(const cay_port *p, void *arg)
{
    look *l = arg;
    if (p->port == l->port)
        *(strchr(p->address, ':') ? &l->v6 : &l->v4) = true;
    return 0;
}

/* Only to sockets of its own processes: the host's other services are not the sandbox's. */
int cay__local_connect(void *box, const cay_call *call, uint16_t port, int *out, cay_err *err)
{
    look l = { .port = port };
    CAY_TRY(cay__local_ports(box, call, is_it, &l, err));
    if (!l.v4 && !l.v6)
        return cay_fail_why(err, CAY_ENOENT, "port_not_found",
                            "port %u: nobody in the sandbox listens there", port);
    int family = l.v4 ? AF_INET : AF_INET6;
    CAY_AUTOFD fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CAY_TRY_SYS(fd, err, "socket");
    CAY_TRY(cay__connect_loopback(call, fd, family, port, err));
    *out = CAY_STEAL_FD(fd);
    return 0;
}

typedef struct kept {
    cay__kept k;
    char text[320];
    bool seen;
} kept;

typedef struct roll {
    local_box *b;
    kept *at;
    size_t len;
    cay_proc_info_fn *fn;
    void *arg;
    int64_t boot_wall;
} roll;

static int copy_process(const cay__kept *k, void *arg)
{
    roll *r = arg;
    kept *at = realloc(r->at, (r->len + 1) * sizeof *at);
    if (!at)
        abort();
    r->at = at;
    kept *n = &at[r->len++];
    *n = (kept){ .k = *k };
    size_t tag = strlen(k->tag) + 1;
    memcpy(n->text, k->tag, CAY_MIN(tag, (size_t)48));
    cay__str_copy(n->text + 48, sizeof n->text - 48, k->command);
    return 0;
}

static void command_of(pid_t pid, char *buf, size_t cap)
{
    char path[64];
    CAY_FORMAT(path, "/proc/%d/cmdline", (int)pid);
    ssize_t n = cay__fd_read_file(AT_FDCWD, path, buf, cap);
    for (ssize_t i = 0; i + 1 < n; i++)
        if (!buf[i])
            buf[i] = ' ';
    if (n <= 0)
        buf[0] = 0;
}

static const char *user_of(pid_t pid, char *buf, size_t cap)
{
    char path[64];
    struct stat st;
    struct passwd pw, *found = NULL;
    char room[1024];
    CAY_FORMAT(path, "/proc/%d", (int)pid);
    if (stat(path, &st) < 0)
        return "";
    if (getpwuid_r(st.st_uid, &pw, room, sizeof room, &found) == 0 && found)
        cay__str_copy(buf, cap, found->pw_name);
    else
        snprintf(buf, cap, "%u", st.st_uid);
    return buf;
}

static int show_live(const tree_proc *p, void *arg)
{
    roll *r = arg;
    char command[256], user[64], comm[32], path[64];
    cay_proc_info i = { .size = sizeof i,
                        .id = "",
                        .tag = "",
                        .pid = p->pid,
                        .ppid = p->ppid,
                        .state = p->state,
                        .cpu_us = p->cpu_us,
                        .rss = p->rss };
    CAY_FORMAT(path, "/proc/%d/comm", (int)p->pid);
    if (cay__fd_read_file(AT_FDCWD, path, comm, sizeof comm) > 0 &&
        (strcmp(comm, "cay-reaper\n") == 0 || strcmp(comm, "cay-session\n") == 0))
        return 0; /* ours, not the sandbox's */
    command_of(p->pid, command, sizeof command);
    i.command = command;
    i.user = user_of(p->pid, user, sizeof user);
    i.started_ms = r->boot_wall + (int64_t)(p->start * 1000 / (uint64_t)sysconf(_SC_CLK_TCK));
    for (size_t k = 0; k < r->len; k++) {
        kept *e = &r->at[k];
        if (e->k.p.ended || e->k.p.pid != p->pid)
            continue;
        e->seen = true;
        i.id = e->k.p.proc;
        i.tag = e->text;
        i.command = e->text + 48;
        i.tty = e->k.p.flags & CAY_SPAWN_TTY;
        i.started_ms = e->k.p.started_ms;
        i.labels = e->k.labels;
    }
    return r->fn(&i, r->arg);
}

static int show_ended(roll *r, kept *e, const cay_call *call)
{
    void *proc = NULL;
    cay_proc_info i = { .size = sizeof i,
                        .id = e->k.p.proc,
                        .tag = e->text,
                        .command = e->text + 48,
                        .user = "",
                        .pid = e->k.p.pid,
                        .state = 'X',
                        .tty = e->k.p.flags & CAY_SPAWN_TTY,
                        .started_ms = e->k.p.started_ms,
                        .labels = e->k.labels,
                        .exit.size = sizeof i.exit };
    if (cay__proc_attach(&r->b->link, r->b->base.id, call, e->k.p.proc, &proc, NULL) < 0)
        return 0; /* forgotten meanwhile */
    int rc = cay__proc_wait(proc, call, &i.exit, NULL);
    cay__proc_release(proc);
    if (rc < 0)
        return 0;
    return r->fn(&i, r->arg);
}

int cay__local_procs(void *box, const cay_call *call, cay_proc_info_fn *fn, void *arg, cay_err *err)
{
    local_box *b = box;
    roll r = { .b = b, .fn = fn, .arg = arg, .boot_wall = cay__clock_ms() - cay__boot_ms() };
    int rc = cay__procs_kept(&b->link, b->base.id, call, copy_process, &r, err);
    pid_t root = 0;
    if (rc == 0)
        root = find_holder_pid(b, call);
    if (root)
        rc = cay__tree_walk(root, show_live, &r);
    for (size_t i = 0; rc == 0 && i < r.len; i++)
        if (r.at[i].k.p.ended)
            rc = show_ended(&r, &r.at[i], call);
    CAY_EACH_OF(it, r.at, r.len)
        free(it->k.labels);
    free(r.at);
    return rc;
}
