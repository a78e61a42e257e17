/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an init that the tenant owns may say to the keeper. The input is a few packets, each
 * [descriptors] [length, 2 bytes] [bytes]; between them a client looks at what the keeper now
 * believes. Bit 6 of the first byte: to a keeper that adopts the sandbox.
 */
#include "../tests/support/keeper.h"
#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/socket.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

enum { PACKETS = 12 };

static int companion(unsigned kind)
{
    int p[2], fd;
    switch (kind % 4) {
    case 0: return pipe2(p, O_CLOEXEC) < 0 ? -1 : (close(p[1]), p[0]);
    case 1: return open("/dev/null", O_RDWR | O_CLOEXEC); /* cannot be watched */
    case 2: return open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    default: /* a ring that is none */
        fd = memfd_create("ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (fd >= 0 && ftruncate(fd, 8192) == 0)
            fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
        return fd;
    }
}

static void ask(fake *f, uint16_t type, const void *body, size_t n)
{
    struct {
        cay_msg h;
        char body[256];
    } m = { .h = { CAY_MSG_MAGIC, CAY_MSG_VERSION, type, 0, 0 } };
    memcpy(m.body, body, n);
    client_packet(f->c[0], (char *)&m, sizeof m.h + n, NULL, 0);
}

static void look(fake *f)
{
    cay_m_box all = { .id = FAKE_BOX };
    cay_m_stream s = { .id = FAKE_BOX, .which = CAY_STDOUT, .a = 4096 };
    ask(f, CAY_MSG_PROCS, &all, sizeof all);
    ask(f, CAY_MSG_LIST, &all, sizeof all);
    keeper_box *b = box_find(FAKE_BOX);
    for (keeper_proc *p = b ? b->procs : NULL; p; p = p->next) {
        memcpy(s.proc, p->id, sizeof s.proc);
        ask(f, CAY_MSG_READ, &s, sizeof s);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    fake f;
    fake_open(&f);
    /* One command whose start is still awaited, as after SPAWN. */
    keeper_proc *p = proc_new(f.b, "pbbbbbbbbbbbbbbbbbbb");
    p->starter = f.c[0];
    p->flags = CAY_SPAWN_TTY | CAY_SPAWN_WAIT;
    p->ring_bytes = 4096;
    cay__waiter_add(&f.b->sessions, f.c[1]->w.fd, false);
    f.b->adopting = len && data[0] & 64;
    for (int i = 0; i < PACKETS && len >= 3; i++) {
        int fds[CAY__FDS_MAX], nfds = 0;
        uint8_t with = data[0];
        size_t n = CAY_MIN((size_t)(data[1] | data[2] << 8), len - 3);
        for (unsigned k = 0; k < (with & 7u); k++)
            if ((fds[nfds] = companion((with >> 3) + k)) >= 0)
                nfds++;
        if (n)
            cay__fd_send(f.init, data + 3, n, fds, nfds, MSG_DONTWAIT);
        for (int k = 0; k < nfds; k++)
            close(fds[k]);
        fake_turn(&f);
        look(&f);
        data += 3 + n;
        len -= 3 + n;
    }
    fake_close(&f);
    return 0;
}
