/* SPDX-License-Identifier: Apache-2.0 */
/* A signed address: path, user, expiry and signature as lines. Only the signature that is made of
 * the others fits, and of nothing else. */
#include <base/buf.h>
#include <server/dialect/e2b/envelope.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char *copy = malloc(len + 1), *part[4] = { NULL }, *at = copy, a[64], b[64];
    memcpy(copy, data, len);
    copy[len] = 0;
    for (int i = 0; i < 4; i++) {
        part[i] = at;
        at += strcspn(at, "\n");
        if (*at)
            *at++ = 0;
    }
    e2b_signature(part[0], "read", part[1], "token", *part[2] ? part[2] : NULL, a);
    e2b_signature(part[0], "write", part[1], "token", *part[2] ? part[2] : NULL, b);
    if (strncmp(a, "v1_", 3) || strlen(a) != 46 || strchr(a, '=') || e2b_same(a, b) ||
        !e2b_same(a, a))
        abort();
    if (e2b_same(a, part[3]) != !strcmp(a, part[3]))
        abort();
    if (*part[2] && !e2b_expired(part[2], 0) && strspn(part[2], "0123456789") != strlen(part[2]))
        abort(); /* a time is digits, all of it */
    free(copy);
    return 0;
}
