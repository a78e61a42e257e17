/* SPDX-License-Identifier: Apache-2.0 */
#include "local_record.h"
#include <base/base.h>

static const char magic[8] = "caylocal";
enum { VERSION = 2 };

static void boot_id(char *buf, size_t cap)
{
    ssize_t n = cay__fd_read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", buf, cap);
    buf[n > 0 ? strcspn(buf, "\n") : 0] = 0;
}

static uint32_t compute_crc(const local_meta *m)
{
    local_meta c = *m;
    c.crc = 0;
    return cay__crc32c(0, &c, sizeof c);
}

int cay__local_meta_read(int dir, local_meta *out, cay_err *err)
{
    local_meta m;
    char boot[40];
    struct stat st;
    /* A tenant who is root in a container could put a pipe there, which nobody ever opens for
     * writing, or a device that does something when it is opened: it is looked at first. */
    char path[40];
    CAY_AUTOFD at = openat(dir, "meta", O_PATH | O_CLOEXEC | O_NOFOLLOW), fd = -1;
    CAY_FORMAT(path, "/proc/self/fd/%d", at);
    if (at >= 0 && fstat(at, &st) == 0 && S_ISREG(st.st_mode))
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (at < 0 || (fd < 0 && S_ISREG(st.st_mode)))
        return cay_fail_sys(err, "record of the sandbox");
    bool whole = false;
    for (int i = 0; fd >= 0 && !whole && i < 20;
         i++) { /* it may be written in its place just now */
        if (i)
            usleep(500);
        whole = pread(fd, &m, sizeof m, 0) == sizeof m &&
                memcmp(m.magic, magic, sizeof magic) == 0 && compute_crc(&m) == m.crc;
    }
    if (!whole)
        return cay_fail_why(err, CAY_ESTATE, "sandbox_damaged",
                            "the record of the sandbox is damaged; its files are kept");
    if (m.version != VERSION)
        return cay_fail_why(err, CAY_ESTATE, "sandbox_newer",
                            "the sandbox was made by a newer cay; update this one");
    m.reason[sizeof m.reason - 1] = 0;
    boot_id(boot, sizeof boot);
    if (m.state != CAY_STOPPED && strncmp(boot, m.boot, sizeof m.boot) != 0) {
        m.state = CAY_STOPPED;
        CAY_COPY(m.reason, "reboot");
    }
    *out = m;
    return 0;
}

int64_t cay__local_deadline_ms(const local_meta *m)
{
    /* What it says may be a tenant's word: in the far future at most. */
    int64_t left = CAY_MAX(CAY_MIN(m->deadline_boot, INT64_MAX / 4), 0) - cay__boot_ms();
    if (m->deadline_boot)
        return cay__clock_ms() + left;
    return 0;
}

static uint64_t choose_limit(uint64_t asked, uint64_t usual)
{
    if (asked == CAY_UNLIMITED)
        return 0;
    if (asked)
        return asked;
    return usual;
}

local_meta cay__local_meta_first(cay_level level, const cay_create *s)
{
    local_meta m = { .state = CAY_RUNNING, .created_ms = cay__clock_ms() };
    m.flags = (s->life.on_expiry == CAY_EXPIRE_PAUSE ? LOCAL_EXPIRE_PAUSE : 0) |
              (s->life.ephemeral ? LOCAL_EPHEMERAL : 0);
    if (s->life.idle_ms == CAY_UNLIMITED)
        m.idle_ms = 0;
    else
        m.idle_ms = s->life.idle_ms;
    if (s->life.ttl_ms && s->life.ttl_ms != CAY_UNLIMITED)
        m.deadline_boot =
            cay__boot_ms() + (int64_t)CAY_MIN(s->life.ttl_ms, (uint64_t)INT64_MAX / 4);
    m.level = level;
    if (s->limits.nofile == CAY_UNLIMITED)
        m.nofile = 0;
    else
        m.nofile = s->limits.nofile;
    if (level == CAY_LEVEL_NONE)
        return m;
    m.nofile = choose_limit(s->limits.nofile, 4096);
    m.memory = choose_limit(s->limits.memory, 2ull << 30);
    m.pids = choose_limit(s->limits.pids, 512);
    m.disk = choose_limit(s->limits.disk, 10ull << 30);
    return m;
}

static void seal_record(local_meta *m)
{
    memcpy(m->magic, magic, sizeof magic);
    m->version = VERSION;
    memset(m->boot, 0, sizeof m->boot);
    boot_id(m->boot, sizeof m->boot);
    m->crc = compute_crc(m);
}

void cay__local_meta_put(int fd, local_meta *m)
{
    seal_record(m);
    (void)!pwrite(fd, m, sizeof *m, 0);
}

int cay__local_meta_write(int dir, local_meta *m, cay_err *err)
{
    char tmp[40];
    seal_record(m);
    CAY_FORMAT(tmp, "meta.%d", (int)getpid());
    /* In a container the tenant may be root and have put something there: a link is not followed,
     * for a pipe nobody waits. */
    struct stat st;
    CAY_AUTOFD fd =
        openat(dir, tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd >= 0 && fstat(fd, &st) == 0 && !S_ISREG(st.st_mode)) {
        cay__close_fd(&fd);
        errno = EINVAL;
    }
    if (fd < 0 || !cay__fd_write_all(fd, m, sizeof *m) || renameat(dir, tmp, dir, "meta") < 0) {
        int rc = cay_fail_sys(err, "write the record of the sandbox");
        unlinkat(dir, tmp, 0);
        return rc;
    }
    return 0;
}

int cay__local_root(int dir, int level, char *path, size_t cap)
{
    char link[64];
    bool outside = level == CAY_LEVEL_NONE &&
                   faccessat(dir, CAY__LOCAL_OUTSIDE, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    CAY_AUTOFD root =
        outside ? open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)
                : openat(dir, CAY__LOCAL_ROOT, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    CAY_FORMAT(link, "/proc/self/fd/%d", root);
    ssize_t n = -1;
    if (root >= 0)
        n = readlink(link, path, cap - 1);
    if (n < 0)
        return -1;
    path[outside ? 0 : n] = 0;
    return cay__steal_fd(&root);
}
