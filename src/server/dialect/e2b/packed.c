/* SPDX-License-Identifier: Apache-2.0 */
/* A file as gzip, for who asks for nothing else: the SDK's `gzip: true`. The list that every HTTP
 * client sends by itself gets the plain bytes, which cost nothing. */
#include "e2b.h"
#include <sys/mman.h>
#include <zlib.h>

enum {
    PACKED_MAX = 16 << 20,
    PIECE = 16384
}; /* it is packed whole, in memory, before the first byte goes */

bool e2b_packs(const cay__head *h, uint64_t size)
{
    const char *v = cay__head_field(h, "accept-encoding");
    return v && !strcasecmp(v, "gzip") && size && size <= PACKED_MAX;
}

/* What z has for us, into fd. */
static int deflate_some(z_stream *z, int fd, int flush, cay_err *err)
{
    char out[PIECE];
    do {
        z->next_out = (Bytef *)out;
        z->avail_out = sizeof out;
        deflate(z, flush);
        if (!cay__fd_write_all(fd, out, sizeof out - z->avail_out))
            return cay_fail_sys(err, "pack");
    } while (!z->avail_out);
    return 0;
}

/* At most size bytes: it may grow meanwhile. */
static int deflate_file(z_stream *z, int from, uint64_t size, int to, cay_err *err)
{
    char in[PIECE];
    while (size) {
        ssize_t n = read(from, in, CAY_MIN(size, sizeof in));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return cay_fail_sys(err, "read");
        if (n == 0)
            break;
        z->next_in = (Bytef *)in;
        z->avail_in = (uInt)n;
        CAY_TRY(deflate_some(z, to, Z_NO_FLUSH, err));
        size -= (uint64_t)n;
    }
    return deflate_some(z, to, Z_FINISH, err);
}

int e2b_reply_packed(cay__req *r, int from, uint64_t size, cay_err *err)
{
    z_stream z = { 0 };
    CAY_AUTOFD in = from;
    CAY_AUTOFD to = memfd_create("cay-packed", MFD_CLOEXEC);
    if (to < 0)
        return cay_fail_sys(err, "pack");
    if (deflateInit2(&z, 1, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return cay_fail(err, CAY_ENOSPACE, "out of memory");
    int rc = deflate_file(&z, in, size, to, err);
    int64_t len = (int64_t)z.total_out;
    deflateEnd(&z);
    if (rc < 0)
        return rc;
    CAY_TRY_SYS(lseek(to, 0, SEEK_SET), err, "pack");
    cay__reply_field(r, "Content-Encoding", "gzip");
    return cay__reply_fd(r, 200, "application/octet-stream", CAY_STEAL_FD(to), len);
}
