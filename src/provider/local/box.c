/* SPDX-License-Identifier: Apache-2.0 */
#include "box.h"
#include <base/base.h>
#include <base/fd.h>
#include <base/str.h>
#include <fcntl.h>
#include <stdio.h>

static const char magic[8] = "caylocal";
enum { VERSION = 2 };

static void boot_id(char *buf, size_t cap)
{
    ssize_t n = cay__fd_read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", buf, cap);
    buf[n > 0 ? strcspn(buf, "\n") : 0] = 0;
}

static uint32_t sum(const local_meta *m)
{
    local_meta c = *m;
    c.crc = 0;
    return cay__crc32c(0, &c, sizeof c);
}

int cay__local_meta_read(int dir, local_meta *out, cay_err *err)
{
    local_meta m;
    char boot[40];
    CAY_AUTOFD fd = openat(dir, "meta", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return cay_fail_sys(err, CAY_ESYS, "record of the sandbox");
    if (cay__fd_read_all(fd, &m, sizeof m) != sizeof m || memcmp(m.magic, magic, sizeof magic) != 0 ||
        sum(&m) != m.crc)
        return cay_fail_why(err, CAY_ESTATE, "sandbox_damaged", "the record of the sandbox is damaged; its files are kept");
    if (m.version != VERSION)
        return cay_fail_why(err, CAY_ESTATE, "sandbox_newer", "the sandbox was made by a newer cay; update this one");
    m.reason[sizeof m.reason - 1] = 0;
    boot_id(boot, sizeof boot);
    if (m.state != CAY_STOPPED && strncmp(boot, m.boot, sizeof m.boot) != 0) {
        m.state = CAY_STOPPED;
        cay__str_copy(m.reason, sizeof m.reason, "reboot");
    }
    *out = m;
    return 0;
}

int64_t cay__local_deadline_ms(const local_meta *m)
{
    return m->deadline_boot ? cay__wall_ms() + m->deadline_boot - cay__boot_ms() : 0;
}

int cay__local_meta_write(int dir, local_meta *m, cay_err *err)
{
    char tmp[40];
    memcpy(m->magic, magic, sizeof magic);
    m->version = VERSION;
    memset(m->boot, 0, sizeof m->boot);
    boot_id(m->boot, sizeof m->boot);
    m->crc = sum(m);
    snprintf(tmp, sizeof tmp, "meta.%d", (int)getpid());
    CAY_AUTOFD fd = openat(dir, tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || !cay__fd_write_all(fd, m, sizeof *m) || renameat(dir, tmp, dir, "meta") < 0) {
        int rc = cay_fail_sys(err, CAY_ESYS, "write the record of the sandbox");
        unlinkat(dir, tmp, 0);
        return rc;
    }
    return 0;
}
