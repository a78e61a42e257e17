/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What two clients may send to a keeper that has a sandbox with two commands, and one made ahead.
 * The input is a few packets, each [client and time of day] [descriptors] [length, 2 bytes]
 * [bytes].
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
    int p[2];
    switch (kind) {
    case 0: return pipe2(p, O_CLOEXEC) < 0 ? -1 : (close(p[0]), p[1]); /* nobody reads it */
    case 1: return open("/dev/null", O_RDWR | O_CLOEXEC);              /* cannot be watched */
    case 2: return open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
    default: return memfd_create("blob", MFD_CLOEXEC);
    }
}

static void packet(fake *f, const uint8_t *data, size_t n, uint8_t who, uint8_t with)
{
    int fds[CAY__FDS_MAX], nfds = 0;
    client *c = f->c[who & 1];
    if (who & 2) { /* a client goes, another comes */
        client_close(c);
        close(f->peer[who & 1]);
        c = f->c[who & 1] = fake_client(&f->peer[who & 1]);
    }
    for (unsigned i = 0; i < (with & 15u) && nfds < CAY__FDS_MAX; i++)
        if ((fds[nfds] = companion((with >> 4) + i)) >= 0)
            nfds++;
    char *copy = malloc(n ? n : 1); /* of the exact size */
    if (!copy)
        abort();
    if (n)
        memcpy(copy, data, n);
    const cay_msg *h = (const cay_msg *)copy;
    if (n < sizeof *h || h->type != CAY_MSG_FAULT) /* which may say "die" in a test build */
        client_packet(c, copy, n, fds, nfds);
    free(copy);
    for (int i = 0; i < nfds; i++)
        cay__close_fd(&fds[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    fake f;
    fake_open(&f);
    for (int i = 0; i < PACKETS && len >= 4; i++) {
        uint8_t who = data[0], with = data[1];
        size_t n = CAY_MIN((size_t)(data[2] | data[3] << 8), len - 4);
        packet(&f, data + 4, n, who, with);
        if (!(who & 4))
            fake_turn(&f);
        data += 4 + n;
        len -= 4 + n;
    }
    fake_turn(&f);
    fake_close(&f);
    return 0;
}
