/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups. On v2: cay-INSTANCE/BOX/tenant; only tenant is limited and frozen, commands with a
 * time-out get a child of it. init is in BOX itself, or, where v2 has controllers and a group with
 * children may have no processes, in BOX/init; its cgroup namespace begins at BOX either way. On
 * v1: cay-INSTANCE/BOX per controller, joined at park and never left. Everything is reached through
 * descriptors opened before the keeper left the host's tree.
 */
#include "keeper.h"
#include <base/kernel.h>
#include <base/cgfind.h>
#include <dirent.h>
#include <sys/file.h>
#include <sys/sysmacros.h>

static const char *const v2_on = "+memory +pids +cpu +io";
static const char down[] = "cgroup.subtree_control";

static int open_dir(int at, const char *path)
{
    return openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static bool has_controller(int dir, const char *file, const char *name)
{
    char buf[256];
    if (cay__fd_read_file(dir, file, buf, sizeof buf) <= 0)
        return false;
    for (char *w = buf, *save; (w = strtok_r(w, " \n", &save)); w = NULL)
        if (!strcmp(w, name))
            return true;
    return false;
}

/* Controllers one at a time: a missing one must not cost the others. */
static void enable_controllers(int dir)
{
    char list[64], *save;
    CAY_COPY(list, v2_on);
    for (char *w = list; (w = strtok_r(w, " ", &save)); w = NULL)
        cay__fd_write_file(dir, down, w);
}

/* Only the root of the hierarchy, which has no type, may have processes and hand controllers down.
 * Elsewhere memory and io are refused then, but cpu and pids are not: they turn the group into a
 * threaded domain, and clone3(2) starts no process in any group below one (EOPNOTSUPP). */
static void hand_down(int dir)
{
    char one;
    CAY_AUTOFD procs = openat(dir, "cgroup.procs", O_RDONLY | O_CLOEXEC);
    bool top = faccessat(dir, "cgroup.type", F_OK, 0) < 0;
    if (top || (procs >= 0 && read(procs, &one, 1) == 0))
        enable_controllers(dir);
}

/* A group below a threaded domain is none of processes. */
static bool is_domain(int dir)
{
    char type[32];
    return cay__fd_read_file(dir, "cgroup.type", type, sizeof type) <= 0 ||
           !strcmp(type, "domain\n");
}

static void name_of(char *out, size_t cap)
{
    char eight[9];
    memcpy(eight, keeper.instance + 1, 8);
    eight[8] = 0;
    cay__str_join(out, cap, "cay-", eight, NULL);
}

static int our_dir(const char *base)
{
    char name[32];
    name_of(name, sizeof name);
    CAY_AUTOFD at = open_dir(AT_FDCWD, base);
    CAY_AUTOFD fd = -1;
    struct stat st, own;
    /* The lock says that we live (lib/provider/native/strays.c); anybody may hold it, so it is not
     * waited for. */
    for (int i = 0; i < 5 && at >= 0; i++) {
        cay__close_fd(&fd);
        if (mkdirat(at, name, 0755) < 0 && errno != EEXIST)
            return -1;
        fd = open_dir(at, name);
        if (fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) == 0 && fstat(fd, &own) == 0 &&
            fstatat(at, name, &st, 0) == 0 && st.st_ino == own.st_ino)
            break;
        usleep(1000);
    }
    return CAY_STEAL_FD(fd);
}

/* Into a leaf of our own: a group with processes cannot hand controllers down. Processes of others
 * are not ours to move. False: nobody can be put into groups there, as below another's manager. */
static bool step_aside(const char *base)
{
    CAY_AUTOFD at = open_dir(AT_FDCWD, base);
    if (!has_controller(at, "cgroup.controllers", "memory"))
        return true;
    if ((mkdirat(at, "cay-keeper", 0755) < 0 && errno != EEXIST) ||
        !cay__fd_write_file(at, "cay-keeper/cgroup.procs", "0"))
        return false;
    hand_down(at);
    return true;
}

/* Root works from the top, where controllers can always be handed down: a login session's own group
 * has other processes and cannot. An ordinary user has only what was delegated. */
static const char *find_base(const cgfind *f)
{
    if (geteuid() == 0) {
        CAY_AUTOFD at = open_dir(AT_FDCWD, f->v2_top);
        hand_down(at);
        if (f->v2_root || has_controller(at, down, "memory"))
            return f->v2_top;
    }
    if (step_aside(f->v2))
        return f->v2;
    return "";
}

static void find_v2(const cgfind *f)
{
    keeper.cg.v2_fd = our_dir(find_base(f));
    if (keeper.cg.v2_fd >= 0 && !is_domain(keeper.cg.v2_fd))
        cay__close_fd(&keeper.cg.v2_fd);
    if (keeper.cg.v2_fd < 0)
        return;
    enable_controllers(keeper.cg.v2_fd);
    keeper.cg.v2 = true;
    keeper.cg.v2_memory = has_controller(keeper.cg.v2_fd, down, "memory");
    keeper.cg.v2_pids = has_controller(keeper.cg.v2_fd, down, "pids");
    keeper.cg.v2_cpu = has_controller(keeper.cg.v2_fd, down, "cpu");
    keeper.cg.v2_io = has_controller(keeper.cg.v2_fd, down, "io");
    keeper.cg.leaf =
        keeper.cg.v2_memory || keeper.cg.v2_pids || keeper.cg.v2_cpu || keeper.cg.v2_io;
}

size_t cgroup_places(char *text, char *out, size_t cap)
{
    char name[32], ours[40], *save, *cut;
    size_t n = 0;
    name_of(name, sizeof name);
    CAY_JOIN(ours, "/", name, "/");
    for (char *line = text; (line = strtok_r(line, "\n", &save)); line = NULL) {
        if (!(cut = strstr(line, ours)))
            continue;
        *cut = 0;
        if (cay__str_join(out + n, cap - n, line, "\n", NULL))
            n += strlen(out + n);
    }
    return n;
}

void cgroup_discover(int heir)
{
    static char mi[65536], cg[16384], text[8192];
    char path[48];
    size_t n = 0;
    proc_path(path, sizeof path, heir, "cgroup");
    if (heir && cay__fd_read_file(AT_FDCWD, path, text, sizeof text) > 0)
        n = cgroup_places(text, cg, sizeof cg / 2);
    if (cay__fd_read_file(AT_FDCWD, "/proc/self/mountinfo", mi, sizeof mi) <= 0 ||
        cay__fd_read_file(AT_FDCWD, "/proc/self/cgroup", cg + n, sizeof cg - n) <= 0)
        mi[0] = cg[0] = 0;
    cgroup_use(mi, cg);
}

void cgroup_use(char *mountinfo, char *own)
{
    static cgfind f;
    cgroups *g = &keeper.cg;
    g->v2_fd = -1;
    CAY_EACH_OF(it, g->v1_fd, CG_V1_COUNT)
        *it = -1;
    cgfind_parse(mountinfo, own, &f);
    if (f.v2[0])
        find_v2(&f);
    for (int i = 0; i < CG_V1_COUNT; i++)
        if (f.v1[i][0])
            g->v1_fd[i] = our_dir(f.v1[i]);
    keeper.features |= (g->v2 ? CAY_FEAT_CG2 : 0) |
                       (g->v2_memory || g->v1_fd[CG_MEMORY] >= 0 ? CAY_FEAT_MEMORY : 0) |
                       (g->v2_pids || g->v1_fd[CG_PIDS] >= 0 ? CAY_FEAT_PIDS : 0) |
                       (g->v2_cpu || g->v1_fd[CG_CPU] >= 0 ? CAY_FEAT_CPU : 0) |
                       (g->v2_io || g->v1_fd[CG_IO] >= 0 ? CAY_FEAT_IO : 0);
}

static char *join_path(char *buf, size_t cap, const char *a, const char *b)
{
    cay__str_join(buf, cap, a, b, NULL);
    return buf;
}

/* As root, init may start commands in these groups: clone3(2) asks whether it could write to this
 * file. */
static void let_in(const keeper_box *b, int at, const char *group)
{
    char p[64];
    if (keeper.mode == CAY_MODE_ROOT)
        (void)!fchownat(at, join_path(p, sizeof p, group, "/cgroup.procs"), b->block, b->block, 0);
}

int cgroup_box_open(keeper_box *b)
{
    char p[64];
    if (!keeper.cg.v2)
        return 0;
    b->cg_fd = open_dir(keeper.cg.v2_fd, b->name);
    b->tenant_fd = open_dir(keeper.cg.v2_fd, join_path(p, sizeof p, b->name, "/tenant"));
    if (b->tenant_fd < 0)
        return -1;
    return 0;
}

bool cgroup_box_make(keeper_box *b)
{
    char p[64];
    CAY_EACH_OF(it, keeper.cg.v1_fd, CG_IO) /* that one only for who asks for its limits */
        if (*it >= 0 && mkdirat(*it, b->name, 0755) < 0)
            return false;
    CAY_FAULT("keeper.groups.v1");
    if (!keeper.cg.v2)
        return true;
    if (mkdirat(keeper.cg.v2_fd, b->name, 0755) < 0 ||
        mkdirat(keeper.cg.v2_fd, join_path(p, sizeof p, b->name, "/tenant"), 0755) < 0 ||
        (keeper.cg.leaf &&
         mkdirat(keeper.cg.v2_fd, join_path(p, sizeof p, b->name, "/init"), 0755) < 0))
        return false;
    let_in(b, keeper.cg.v2_fd, b->name);
    let_in(b, keeper.cg.v2_fd, join_path(p, sizeof p, b->name, "/tenant"));
    return cgroup_box_open(b) == 0;
}

/* Not before init has left for its leaf. */
void cgroup_box_enable(keeper_box *b)
{
    if (keeper.cg.leaf)
        enable_controllers(b->cg_fd);
}

/* For the zygote: [v2 group] [v2 leaf] [v1 task files…]. How many, -1: one is missing. */
int cgroup_join_files(keeper_box *b, int *fds, keeper_job *j)
{
    char p[64];
    int n = 0;
    j->cg2 = keeper.cg.v2 + keeper.cg.leaf;
    if (keeper.cg.v2)
        fds[n++] = open_dir(keeper.cg.v2_fd, b->name);
    if (keeper.cg.leaf)
        fds[n++] = open_dir(b->cg_fd, "init");
    CAY_EACH_OF(item, keeper.cg.v1_fd, CG_IO)
        if (*item >= 0)
            fds[n++] =
                openat(*item, join_path(p, sizeof p, b->name, "/tasks"), O_WRONLY | O_CLOEXEC);
    j->nv1 = (uint32_t)n - j->cg2;
    CAY_EACH_OF(it, fds, n)
        if (*it < 0)
            return -1;
    return n;
}

/* rmdir is refused for a moment after the last process went; the caller's timer comes back. */
static bool remove_dir(int at, const char *path)
{
    for (int i = 0; i < 20; i++) {
        if (unlinkat(at, path, AT_REMOVEDIR) == 0 || errno == ENOENT)
            return true;
        if (errno != EBUSY)
            return false;
        usleep(100);
    }
    return false;
}

static void remove_children(int at, const char *path)
{
    CAY_AUTODIR *d = cay__dir_open(at, path);
    for (struct dirent *e; d && (e = cay__dir_next(d));)
        if (e->d_type == DT_DIR && e->d_name[0] != '.')
            remove_dir(dirfd(d), e->d_name);
}

static bool remove_name(const char *name)
{
    char p[64];
    bool ok = true;
    if (keeper.cg.v2) {
        remove_children(keeper.cg.v2_fd, join_path(p, sizeof p, name, "/tenant"));
        remove_dir(keeper.cg.v2_fd, join_path(p, sizeof p, name, "/tenant"));
        if (keeper.cg.leaf)
            remove_dir(keeper.cg.v2_fd, join_path(p, sizeof p, name, "/init"));
        ok &= remove_dir(keeper.cg.v2_fd, name);
    }
    CAY_EACH_OF(it, keeper.cg.v1_fd, CG_V1_COUNT)
        if (*it >= 0)
            ok &= remove_dir(*it, name);
    return ok;
}

void cgroup_box_remove(keeper_box *b)
{
    cay__close_fd(&b->idle.dir);
    cay__close_fd(&b->idle.procs);
    cay__close_fd(&b->cg_fd);
    cay__close_fd(&b->tenant_fd);
    remove_name(b->name);
}

/* Groups of ours that no box owns, left by a keeper that was killed. Only names below our own
 * instance's group. */
static bool reap_dir(int at)
{
    bool all = true;
    CAY_AUTODIR *d = cay__dir_open(at, NULL);
    for (struct dirent *e; d && (e = cay__dir_next(d));) {
        bool known = !cay__id_valid(e->d_name, 'b');
        for (keeper_box *b = keeper.boxes; b && !known; b = b->next)
            known = !strcmp(b->name, e->d_name);
        if (!known)
            all &= remove_name(e->d_name);
    }
    return all;
}

bool cgroup_reap_strays(void)
{
    bool all = !keeper.cg.v2 || reap_dir(keeper.cg.v2_fd);
    CAY_EACH_OF(it, keeper.cg.v1_fd, CG_V1_COUNT)
        all &= *it < 0 || reap_dir(*it);
    return all;
}

/* Our own groups, when nothing is left in them. Each is named from its parent's side. */
void cgroup_leave(void)
{
    char name[32];
    const int dirs[] = { keeper.cg.v2_fd, keeper.cg.v1_fd[0], keeper.cg.v1_fd[1],
                         keeper.cg.v1_fd[2], keeper.cg.v1_fd[3] };
    name_of(name, sizeof name);
    cgroup_reap_strays();
    CAY_EACH(dir, dirs) {
        CAY_AUTOFD up = -1;
        if (*dir >= 0)
            up = openat(*dir, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (up >= 0)
            unlinkat(up, name, AT_REMOVEDIR);
    }
}

/* Where v1 has that controller. */
static bool put_v1(const keeper_box *b, int controller, const char *file, const char *value)
{
    char p[96];
    int dir = keeper.cg.v1_fd[controller];
    return dir < 0 || cay__fd_write_file(dir, join_path(p, sizeof p, b->name, file), value);
}

static const char *format_limit(char *buf, uint64_t v, const char *none)
{
    if (v == UINT64_MAX)
        return none;
    return cay__str_u64(buf, v);
}

static bool memory_limit(const keeper_box *b)
{
    char n[21], s[21];
    const cay_limits *l = &b->limits;
    uint64_t both;
    if (__builtin_add_overflow(l->memory, l->swap, &both))
        both = UINT64_MAX;
    if (keeper.cg.v2_memory) {
        cay__fd_write_file(b->tenant_fd, "memory.oom.group", "0");
        cay__fd_write_file(b->tenant_fd, "memory.swap.max", format_limit(s, l->swap, "max"));
        return cay__fd_write_file(b->tenant_fd, "memory.max", format_limit(n, l->memory, "max"));
    }
    if (!put_v1(b, CG_MEMORY, "/memory.limit_in_bytes", format_limit(n, l->memory, "-1")))
        return false;
    put_v1(b, CG_MEMORY, "/memory.memsw.limit_in_bytes",
           format_limit(s, both, "-1")); /* where swap is counted */
    return true;
}

static bool cpu_limit(const keeper_box *b)
{
    char n[21], line[48];
    uint64_t quota = UINT64_MAX;
    if (b->limits.cpu_milli != UINT64_MAX)
        quota = b->limits.cpu_milli * 100; /* of 100,000 us */
    if (!b->limited && b->limits.cpu_milli / 1000 >= (uint64_t)sysconf(_SC_NPROCESSORS_CONF))
        return true; /* more than there is: the group is new and has no limit */
    if (keeper.cg.v2_cpu) {
        CAY_JOIN(line, format_limit(n, quota, "max"), " 100000");
        return cay__fd_write_file(b->tenant_fd, "cpu.max", line);
    }
    return put_v1(b, CG_CPU, "/cpu.cfs_quota_us", format_limit(n, quota, "-1"));
}

static bool pids_limit(const keeper_box *b)
{
    char n[21];
    if (keeper.cg.v2_pids)
        return cay__fd_write_file(b->tenant_fd, "pids.max", format_limit(n, b->limits.pids, "max"));
    /* On v1 init and its file worker share the group: room for them on top. */
    uint64_t v = UINT64_MAX;
    if (b->limits.pids <= UINT64_MAX - 4)
        v = b->limits.pids + 4;
    return put_v1(b, CG_PIDS, "/pids.max", format_limit(n, v, "max"));
}

static bool io_limit(const keeper_box *b)
{
    char dev[32], line[128], r[21], w[21];
    const cay_limits *l = &b->limits;
    if ((l->io_read == UINT64_MAX && l->io_write == UINT64_MAX) || !(keeper.features & CAY_FEAT_IO))
        return true;
    CAY_JOIN(dev, cay__str_u64(r, major(b->io_disk)), ":", cay__str_u64(w, minor(b->io_disk)));
    if (keeper.cg.v2_io) {
        CAY_JOIN(line, dev, " rbps=", format_limit(r, l->io_read, "max"),
                 " wbps=", format_limit(w, l->io_write, "max"));
        return cay__fd_write_file(b->tenant_fd, "io.max", line);
    }
    /* Only init is there yet. */
    if ((mkdirat(keeper.cg.v1_fd[CG_IO], b->name, 0755) < 0 && errno != EEXIST) ||
        !put_v1(b, CG_IO, "/cgroup.procs", cay__str_u64(r, (uint64_t)b->pid)))
        return false;
    CAY_JOIN(line, dev, " ", format_limit(r, l->io_read, "0"));
    bool ok = put_v1(b, CG_IO, "/blkio.throttle.read_bps_device", line);
    CAY_JOIN(line, dev, " ", format_limit(w, l->io_write, "0"));
    return put_v1(b, CG_IO, "/blkio.throttle.write_bps_device", line) && ok;
}

/* Only those that can be taken back by writing others. */
static bool plain_limits(const cay_limits *l)
{
    return l->memory && l->io_read == UINT64_MAX && l->io_write == UINT64_MAX;
}

static bool set_limits(keeper_box *b)
{
    return (CAY__MUTANT("memory-limit") || memory_limit(b)) &&
           (CAY__MUTANT("cpu-limit") || cpu_limit(b)) &&
           (CAY__MUTANT("pids-limit") || pids_limit(b)) && io_limit(b);
}

bool cgroup_limits(keeper_box *b, const cay_limits *l)
{
    bool same = b->limited && !memcmp(&b->limits, l, sizeof *l);
    if (b->limited && !same) /* never below the one without swap */
        put_v1(b, CG_MEMORY, "/memory.memsw.limit_in_bytes", "-1");
    b->limits = *l;
    keeper.usual = *l;
    return same || set_limits(b);
}

void cgroup_limits_ahead(keeper_box *b)
{
    b->limits = keeper.usual;
    b->limited = plain_limits(&keeper.usual) && set_limits(b);
}

bool cgroup_freeze(keeper_box *b, bool on)
{
    char buf[256];
    if (b->tenant_fd < 0 || !cay__fd_write_file(b->tenant_fd, "cgroup.freeze", on ? "1" : "0"))
        return false;
    /* cgroup.events notifies up to 10 ms late: read it again instead. */
    for (int i = 0; i < 1000; i++) {
        if (cay__fd_read_file(b->tenant_fd, "cgroup.events", buf, sizeof buf) <= 0)
            return false;
        if (strstr(buf, on ? "frozen 1" : "frozen 0"))
            return true;
        usleep(50);
    }
    return true;
}

static char *exec_name(char *out, size_t cap, uint32_t number)
{
    char n[21];
    return join_path(out, cap, "x", cay__str_u64(n, number - 1));
}

void cgroup_exec_adopt(keeper_proc *p, uint32_t number)
{
    char name[24], path[40];
    if (!number || p->b->tenant_fd < 0)
        return;
    exec_name(name, sizeof name, number);
    p->group =
        (own_group){ open_dir(p->b->tenant_fd, name),
                     openat(p->b->tenant_fd, join_path(path, sizeof path, name, "/cgroup.procs"),
                            O_RDWR | O_CLOEXEC),
                     number, true };
    p->b->last_group = CAY_MAX(p->b->last_group, number);
}

void cgroup_exec_make(keeper_proc *p)
{
    char name[24];
    keeper_box *b = p->b;
    p->group = b->idle;
    b->idle.dir = b->idle.procs = -1;
    if (p->group.dir >= 0 || b->tenant_fd < 0)
        return;
    do /* one that outlived its command may still have the name after an adoption */
        exec_name(name, sizeof name, ++b->last_group);
    while (mkdirat(b->tenant_fd, name, 0755) < 0 && errno == EEXIST);
    let_in(b, b->tenant_fd, name);
    cgroup_exec_adopt(p, b->last_group);
    p->group.killed = false; /* of one that was adopted nobody knows */
    CAY_FAULT("keeper.spawn.group");
}

/* An empty one serves the next command, unless it was killed: the mark of a kill stays (seen on
 * Linux 6.18), and whoever is born into such a group is taken for one that raced with it, and
 * killed too. Processes that outlive their command stay in its group; it goes with the sandbox
 * then. */
void cgroup_exec_remove(keeper_proc *p)
{
    char one, name[24];
    keeper_box *b = p->b;
    if (p->group.dir < 0)
        return;
    if (b->idle.dir < 0 && !p->group.killed && pread(p->group.procs, &one, 1, 0) == 0) {
        b->idle = p->group;
        p->group.dir = p->group.procs = -1;
    } else if (unlinkat(b->tenant_fd, exec_name(name, sizeof name, p->group.number),
                        AT_REMOVEDIR) == 0) {
        cay__close_fd(&p->group.dir);
        cay__close_fd(&p->group.procs);
    }
}

bool cgroup_exec_kill(keeper_proc *p)
{
    p->group.killed = true;
    return p->group.dir >= 0 && !cay__kernel_lacks(CAY_KERNEL_CGROUP_KILL) &&
           cay__fd_write_file(p->group.dir, "cgroup.kill", "1");
}

static uint64_t parse_counter(const char *text, const char *key)
{
    const char *p = text;
    size_t n = strlen(key);
    uint64_t v = 0;
    for (; p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL)
        if (!strncmp(p, key, n) && (p[n] == ' ' || !n)) {
            for (p += n + (n > 0); *p >= '0' && *p <= '9'; p++)
                v = v * 10 + (uint64_t)(*p - '0');
            return v;
        }
    return 0;
}

static uint64_t read_counter(int dir, const char *name, const char *file, const char *key)
{
    char p[96], buf[4096];
    if (dir >= 0 && cay__fd_read_file(dir, join_path(p, sizeof p, name, file), buf, sizeof buf) > 0)
        return parse_counter(buf, key);
    return 0;
}

void cgroup_usage(keeper_box *b, cay_m_usage *u)
{
    const cgroups *g = &keeper.cg;
    u->cpu_us = read_counter(g->v2 ? g->v2_fd : -1, b->name, "/cpu.stat", "usage_usec");
    if (g->v2_memory) {
        u->memory = read_counter(g->v2_fd, b->name, "/tenant/memory.current", "");
        u->memory_peak = read_counter(g->v2_fd, b->name, "/tenant/memory.peak", "");
        u->oom_kills = read_counter(g->v2_fd, b->name, "/tenant/memory.events", "oom_kill");
    } else {
        u->memory = read_counter(g->v1_fd[CG_MEMORY], b->name, "/memory.usage_in_bytes", "");
        u->memory_peak =
            read_counter(g->v1_fd[CG_MEMORY], b->name, "/memory.max_usage_in_bytes", "");
        u->oom_kills =
            read_counter(g->v1_fd[CG_MEMORY], b->name, "/memory.oom_control", "oom_kill");
    }
    int pids;
    if (g->v2_pids)
        pids = g->v2_fd;
    else
        pids = g->v1_fd[CG_PIDS];
    u->pids =
        read_counter(pids, b->name, g->v2_pids ? "/tenant/pids.current" : "/pids.current", "");
    u->pids_hits =
        read_counter(pids, b->name, g->v2_pids ? "/tenant/pids.events" : "/pids.events", "max");
}
