/* SPDX-License-Identifier: Apache-2.0 */
/* server/http/range.h - the Range of a request (RFC 9110, 14.2). */
#pragma once
#include <stdint.h>

/* 1: *len bytes (at least one) from *from on; 0: the whole, also for several ranges and for what is
 * no range, as may be; -1: it begins behind the end. s may be NULL. */
int cay__range_parse(const char *s, uint64_t size, uint64_t *from, uint64_t *len);
