/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/spec.h - public structs that begin with their size, and so may grow.
 */
#pragma once
#include <cay/error.h>

/* Copies a caller's spec, which begins with its size, into our possibly longer or shorter struct:
 * what the caller does not know is zero; a field that we do not know must be zero. src may be NULL.
 */
int cay__spec_take(void *dst, size_t dst_size, const void *src, const char *name, cay_err *err);
/* The other way round for an answer; a size of 0 in *dst means all of it. Keeps the caller's size.
 */
void cay__answer_give(void *dst, const void *src, size_t src_size);
