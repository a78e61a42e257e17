/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ring that init held: a sealed memfd whose header anybody may have written. The input is [size
 * of the file in 256-byte steps, 2 bytes] [the file's first bytes, 64] then what is done with it:
 * reads, readers, more output.
 */
#include "../tests/support/keeper.h"
#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

enum { HEAD = 64, STEPS = 64 };

static int make_ring(const uint8_t *data, size_t n, size_t size)
{
    int fd = memfd_create("ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, (off_t)size) < 0 || pwrite(fd, data, n, 0) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0)
        abort();
    return fd;
}

static void step(fake *f, holder_stream *s, const uint8_t *op)
{
    static char buf[CAY_CHUNK];
    cay_m_data d;
    uint64_t at = s->head + op[1] - 128u * (uint64_t)op[2];
    int p[2];
    size_t n;
    switch (op[0] % 4) {
    case 0:
        n = cay__stream_read(s, at, buf, 1 + op[3] * 128u, false, &d);
        if (n > sizeof buf || (n && (d.offset > s->head || n > s->head - d.offset)))
            abort();
        break;
    case 1:
        if (pipe2(p, O_CLOEXEC | O_NONBLOCK) < 0)
            return;
        cay__stream_attach(s, at, p[1], &d);
        (void)!read(p[0], buf, 1 + op[3]);
        close(p[0]);
        break;
    case 2: (void)!write(f->out, buf, op[3] * 16u); break;
    default: cay__stream_read(s, (uint64_t)op[1] << (op[2] & 63), buf, op[3], true, &d);
    }
    cay__loop_step(&keeper.loop, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    fake f;
    if (len < 2 + HEAD)
        return 0;
    fake_open(&f);
    keeper_proc *p = proc_find(f.b, FAKE_PROC);
    holder_stream *s = &p->out[0];
    size_t size = 256u * (size_t)(data[0] | data[1] << 8);
    int fd = make_ring(data + 2, CAY_MIN((size_t)HEAD, size), size);
    if (!cay__ring_adopt(s, fd))
        close(fd);
    data += 2 + HEAD;
    len -= 2 + HEAD;
    for (int i = 0; i < STEPS && len >= 4; i++, data += 4, len -= 4)
        step(&f, s, data);
    fake_close(&f);
    return 0;
}
