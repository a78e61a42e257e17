/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON form of a workspace. */
#include "fuzz_unpack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    unpack_bytes("hydrate", "js", data, len);
    return 0;
}
