/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/fault.h - named places where a test may make this program die, fail or wait.
 *
 *     CAY_FAULT("keeper.create.bound");
 *     if (CAY_FAULT_FAILS("store.commit")) …
 *
 * Nothing is left of them outside test builds (-Dfaults=true). The environment variable CAY_FAULT,
 * or cay__fault_set(), holds "point=kill", "point=fail" or "point=delay:MS", with "@N" for the Nth
 * time only. cay__fault_list() walks all points that this program has, whether reached or not;
 * `cay-keeper --faults` prints those of keeper, helpers and init. CAY_FAULT_HITS names a file whose
 * first word counts how often the armed point was reached; its second is added to every reading of
 * the wall clock, in milliseconds, so that a test may set the clock of our programs and of nobody
 * else.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#ifdef CAY_FAULTS
bool cay__fault(const char *name); /* true: pretend to fail; sets errno to EIO */
void cay__fault_set(const char *spec);
int cay__fault_load(void); /* reads the environment now; the descriptor of the counter, or -1 */
void cay__fault_list(void (*fn)(const char *name));
int64_t cay__fault_clock(void);
#define CAY__FAULT_NAME(name)                                                                      \
    ({                                                                                             \
        static const char *const fp_ __attribute__((used, section("cay_faults"))) = name;          \
        fp_;                                                                                       \
    })
#define CAY_FAULT(name)       ((void)cay__fault(CAY__FAULT_NAME(name)))
#define CAY_FAULT_FAILS(name) cay__fault(CAY__FAULT_NAME(name))
#define CAY_FAULT_CLOCK()     cay__fault_clock()
#else
#define CAY_FAULT(name)       ((void)0)
#define CAY_FAULT_FAILS(name) false
#define CAY_FAULT_CLOCK()     0
#endif
