/* SPDX-License-Identifier: Apache-2.0 */
#include "layer.h"
#include <string.h>
#include <lib/provider/native/native.h>

int cay__layer_template(int home_fd, const char *template_, char *name, size_t cap, cay_err *err)
{
    if (*template_ == '/')
        return cay_fail_why(err, CAY_ENOTSUP, "snapshot_template",
                            "%.200s is a directory of the host and no layer", template_);
    if (strcmp(template_, "image"))
        return cay__host_layer(home_fd, name, cap, err);
    return cay__image_layer(home_fd, name, cap, err);
}
