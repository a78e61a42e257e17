/* SPDX-License-Identifier: Apache-2.0 */
/*
 * helper/layer/lines.h - two texts as a unified difference.
 *
 * Myers' algorithm in linear space ("An O(ND) Difference Algorithm and Its Variations", 1986).
 * Texts that are too different for it are told as replaced as a whole from a given effort on, so
 * that no input takes long.
 */
#pragma once
#include <base/buf.h>
#include <stdbool.h>
#include <stddef.h>

/* A NUL among the first bytes: not a text, as git judges. */
bool lines_binary(const char *p, size_t n);
/* Adds "@@ …" hunks to out; nothing when both are the same. */
void lines_diff(const char *a, size_t an, const char *b, size_t bn, unsigned context,
                cay__buf *out);
