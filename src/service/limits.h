/* SPDX-License-Identifier: Apache-2.0 */
/*
 * service/limits.h - every limit with its range and default, once.
 */
#pragma once
#include <cay/service.h>

typedef struct cay__limit {
    const char *name;
    size_t      at; /* in cay_limits */
    uint64_t    least, most, normal;
} cay__limit;

#define CAY__LIMITS 9
extern const cay__limit cay__limit_table[CAY__LIMITS];
