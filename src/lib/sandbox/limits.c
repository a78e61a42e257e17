/* SPDX-License-Identifier: Apache-2.0 */
#include "limits.h"
#include <base/base.h>

#define KIB      ((uint64_t)1 << 10)
#define MIB      ((uint64_t)1 << 20)
#define GIB      ((uint64_t)1 << 30)
#define L(field) #field, offsetof(cay_limits, field)

/* The least values still let a shell start; the most are what the kernel or sense allows. */
const cay__limit cay__limit_table[CAY__LIMITS] = {
    { L(memory), 4 * MIB, GIB << 20, 2 * GIB },
    { L(swap), 1, GIB << 20, 0 },
    { L(cpu_milli), 10, 1024000, 2000 },
    { L(pids), 2, 4194304, 512 },
    { L(disk), MIB, GIB << 20, 10 * GIB },
    { L(inodes), 64, (uint64_t)1 << 32, 1000000 },
    { L(nofile), 16, 1048576, 4096 },
    { L(io_read), 4 * KIB, GIB << 10, CAY_UNLIMITED },
    { L(io_write), 4 * KIB, GIB << 10, CAY_UNLIMITED },
};

void cay__limits_fill(cay_limits *l)
{
    for (size_t i = 0; i < CAY__LIMITS; i++) {
        uint64_t *v = (uint64_t *)(void *)((char *)l + cay__limit_table[i].at);
        if (*v == 0)
            *v = cay__limit_table[i].normal;
    }
}
