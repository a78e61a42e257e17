/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/base64.h - bytes as text and back (RFC 4648, section 4: with padding, no line breaks).
 */
#pragma once
#include "buf.h"

void cay__base64_put(cay__buf *b, const void *data, size_t n);
/* The value of one digit, or -1. */
int cay__base64_digit(char c);
/* Adds the bytes behind the text; false when it is not base64, and then what was added means
 * nothing. */
bool cay__base64_get(cay__buf *b, const char *text, size_t n);
