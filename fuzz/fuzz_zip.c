/* SPDX-License-Identifier: Apache-2.0 */
/* A zip. */
#include "fuzz_unpack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    unpack_bytes("tree", "zip", data, len);
    return 0;
}
