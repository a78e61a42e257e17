/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/holder/container.h - services and sudo of a container, in its pid 1. */
#pragma once
#include <stddef.h>

struct host;
/* services: what follows CAY_SERVICES_MARK in the config. Before cay__host_run(), which drives
 * them. */
void cay__inside_open(struct host *h, const char *services, size_t len);
