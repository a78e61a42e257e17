/* SPDX-License-Identifier: Apache-2.0 */
/* A client's side of an HTTP/1 connection to good.test:80, service by service as flow.c walks it;
 * the first byte begins the server's answer. */
#include <base/base.h>
#include <daemon/egress/httphead.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    http_state s = { 0 };
    char host[256];
    const char *why, *p = (const char *)data;
    while (len) {
        if (s.left) {
            size_t n = (size_t)CAY_MIN(s.left, len);
            s.left -= n;
            p += n;
            len -= n;
            continue;
        }
        if (s.next == HTTP_TUNNEL)
            return 0;
        if (s.next == HTTP_ASKED) {
            if (http_answer(&s, p, len) == HTTP_MORE)
                return 0;
            continue;
        }
        int rc = http_unit(&s, p, len, "good.test", 80, host, &why);
        if (strlen(host) > 255 || !why)
            abort();
        if (rc != HTTP_OK)
            return 0;
        if (!s.left)
            abort(); /* no progress */
    }
    return 0;
}
