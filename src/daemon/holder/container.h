/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/holder/container.h - services and sudo of a container, in its pid 1. */
#pragma once
#include <stddef.h>

struct host;
/* units: what follows CAY_UNITS_MARK in the config. Before cay__host_run(), which drives them. */
void cay__inside_open(struct host *h, const char *units, size_t len);
