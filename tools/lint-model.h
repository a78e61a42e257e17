/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lint-model.h - what analysers cannot see in one file: a failure is negative.
 *
 * tools/lint includes it before every file. Without it an analyser takes `return cay_fail(…)` for a
 * possible 0, and follows callers to where they use what only a success fills.
 */
#pragma once
#include <cay/error.h>

#define cay_fail(...)        ((void)(cay_fail)(__VA_ARGS__), -1)
#define cay_fail_sys(...)    ((void)(cay_fail_sys)(__VA_ARGS__), -1)
#define cay_fail_sys_as(...) ((void)(cay_fail_sys_as)(__VA_ARGS__), -1)
#define cay_fail_why(...)    ((void)(cay_fail_why)(__VA_ARGS__), -1)
#define cay_wrap(...)        ((void)(cay_wrap)(__VA_ARGS__), -1)
