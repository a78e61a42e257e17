/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net/traceparent.h - the field that ties the work of several programs together (W3C Trace
 * Context): "00-TRACE-SPAN-FLAGS".
 */
#pragma once
#include <stdbool.h>

enum { CAY__TRACEPARENT = 55 };

typedef struct cay__traceparent {
    char trace[33], span[17]; /* lower-case hexadecimal digits */
    bool sampled;
} cay__traceparent;

/* False: it is none, and counts as missing. Of a later version what this one knows is taken. */
bool cay__traceparent_read(const char *text, cay__traceparent *out);
void cay__traceparent_write(const cay__traceparent *t, char buf[CAY__TRACEPARENT + 1]);
/* Random digits that are not all zero; n bytes, so 2 n digits. */
void cay__trace_id_make(char *dst, unsigned n);
