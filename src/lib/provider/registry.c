/* SPDX-License-Identifier: Apache-2.0 */
#include "provider.h"

/* One row each; the order is that of `cay doctor`. */
const cay_provider_ops *const cay__providers[] = {
    &cay__provider_native, &cay__process,    &cay__local, &cay__provider_docker,
    &cay__provider_podman, &cay__remote_ops, NULL,
};
