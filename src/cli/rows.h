/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli/rows.h - a list of things: a table for people, with --json one array, with --quiet a name a
 * line.
 *
 *     rows r;
 *     rows_open(&r, titles);
 *     return rows_done(&r, cay_port_list(sb, NULL, on_port, &r, &err), &err);
 */
#pragma once
#include "out.h"

typedef struct rows {
    out_table table; /* what a callback adds to, unless --json or --quiet */
    out_json json;
    int64_t now; /* wall clock, for ages */
} rows;

void rows_open(rows *r, const char *const *titles); /* ends with NULL */
/* Prints what was gathered, or the error when rc is negative; the exit code of this program. */
int rows_done(rows *r, int rc, cay_err *err);
/* "a=1 b=2", or "-" */
void rows_labels(rows *r, const cay_pair *labels);
