/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of the SDK's template builder: those that are read become as many, each an object with one
 * member; others are named. */
#include <base/json.h>
#include <server/dialect/e2b/envelope.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    json_error_t je;
    json_t *steps =
               json_loadb((const char *)data, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &je),
           *v;
    size_t i;
    for (int image = 0; steps && image < 2; image++) {
        cay_err err = CAY_ERR_INIT;
        json_t *out = json_array();
        int rc = e2b_read_steps(steps, image, out, &err);
        if (rc < 0 ? !*err.msg : json_array_size(out) != json_array_size(steps) + (image ? 2 : 0))
            abort();
        json_array_foreach(out, i, v)
            if (json_object_size(v) != 1)
                abort();
        json_decref(out);
    }
    json_decref(steps);
    return 0;
}
