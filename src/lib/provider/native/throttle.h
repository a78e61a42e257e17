/* SPDX-License-Identifier: Apache-2.0 */
/* lib/provider/native/throttle.h - which disk a limit of I/O holds on. */
#pragma once
#include <cay/error.h>

/* The whole disk below the state directory, as dev_t: the kernel throttles no partition. home is
 * for the message. */
int cay__throttle_disk(int home_fd, const char *home, uint64_t *dev, cay_err *err);
