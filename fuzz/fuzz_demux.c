/* SPDX-License-Identifier: Apache-2.0 */
/* What an engine sends of an exec ('d'), and what comes over a tunnel: to the library ('n') and to
 * the relay in a container ('f'). By the first byte. */
#include <base/base.h>
#include <base/buf.h>
#include <base/fd.h>
#include <fcntl.h>
#include <lib/provider/docker/demux.h>
#include <proto/tunnel.h>
#include <sys/socket.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

typedef struct told {
    cay__buf of[2];
} told;

static bool keep(void *arg, int which, const char *data, size_t n)
{
    told *t = arg;
    if ((which != 1 && which != 2) || !n)
        abort();
    cay__buf_add(&t->of[which - 1], data, n);
    return true;
}

/* However the bytes are cut, the same comes out. */
static void demux(const char *data, size_t len)
{
    told whole = { { CAY__BUF(1u << 20), CAY__BUF(1u << 20) } },
         cut = { { CAY__BUF(1u << 20), CAY__BUF(1u << 20) } };
    cay__demux a = { 0 }, b = { 0 };
    bool ok = cay__demux_feed(&a, data, len, keep, &whole), same = true;
    for (size_t i = 0; i < len && same; i++)
        same = cay__demux_feed(&b, data + i, 1, keep, &cut);
    if (ok != same)
        abort();
    for (int i = 0; i < 2; i++) {
        if (whole.of[i].len != cut.of[i].len ||
            (whole.of[i].len && memcmp(whole.of[i].data, cut.of[i].data, whole.of[i].len)))
            abort();
        cay__buf_clear(&whole.of[i]);
        cay__buf_clear(&cut.of[i]);
    }
}

static void tunnel(const char *data, size_t len, bool near)
{
    int pair[2], null = open("/dev/null", O_RDWR | O_CLOEXEC);
    char buf[256];
    if (null < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        abort();
    cay__tunnel *t = cay__tunnel_new(null, null, pair[1], true, near);
    size_t half = len / 2;
    if (cay__tunnel_feed(t, data, half))
        cay__tunnel_feed(t, data + half, len - half);
    int fds[4], nfds = 4;
    while (cay__fd_recv(pair[0], buf, sizeof buf, fds, &nfds, MSG_DONTWAIT) > 0) {
        for (int i = 0; i < nfds; i++)
            close(fds[i]);
        nfds = 4;
    }
    cay__tunnel_free(t);
    close(pair[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (!len)
        return 0;
    const char *rest = (const char *)data + 1;
    if (*data == 'd')
        demux(rest, len - 1);
    else if (*data == 'n' || *data == 'f')
        tunnel(rest, len - 1, *data == 'n');
    return 0;
}
