/* SPDX-License-Identifier: Apache-2.0 */
/* gzip of whole text answers, for peers that take it. */
#include "connection.h"
#include <base/base.h>
#include <strings.h>
#include <zlib.h>

enum { LEAST = 1024, WINDOW = 15 + 16 /* with gzip's frame */ };

/* "gzip" in Accept-Encoding, and not with q=0. */
bool cay__gzip_wanted(const cay__head *h)
{
    const char *v = cay__head_field(h, "accept-encoding");
    while (v && *v) {
        v += strspn(v, " \t,");
        size_t n = strcspn(v, ",");
        if (n >= 4 && !strncasecmp(v, "gzip", 4) && (n == 4 || strchr(" \t;", v[4]))) {
            const char *q = memmem(v, n, "q=", 2);
            return !q || strtod(q + 2, NULL) > 0;
        }
        v += n;
    }
    return false;
}

static bool is_text(const char *type)
{
    size_t n = strcspn(type, ";");
    return !strncasecmp(type, "text/", 5) || !strncasecmp(type, "application/json", 16) ||
           (n > 5 && !strncasecmp(type + n - 5, "+json", 5)) ||
           !strncasecmp(type, "application/javascript", 22) || !strncasecmp(type, "image/svg", 9);
}

bool cay__gzip(const cay__req *r, const char *type, const void *data, size_t len, cay__buf *out)
{
    z_stream z = { .next_in = (Bytef *)(uintptr_t)data, .avail_in = (uInt)len };
    if (len < LEAST || len > 64u << 20 || !type || !is_text(type) || !cay__gzip_wanted(&r->head) ||
        deflateInit2(&z, 1, Z_DEFLATED, WINDOW, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return false;
    size_t room = deflateBound(&z, (uLong)len);
    out->max = room + 1;
    z.next_out = (Bytef *)cay__buf_room(out, room);
    z.avail_out = (uInt)room;
    bool ok = z.next_out && deflate(&z, Z_FINISH) == Z_STREAM_END;
    if (ok)
        cay__buf_used(out, z.total_out);
    deflateEnd(&z);
    return ok && out->len < len;
}
