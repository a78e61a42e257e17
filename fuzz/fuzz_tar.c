/* SPDX-License-Identifier: Apache-2.0 */
/* A tar, of a snapshot or anybody's, and as the layer of an image. */
#include "fuzz_unpack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    unpack_bytes("auto", "tar", data, len);
    unpack_bytes("oci", "tar", data, len);
    return 0;
}
