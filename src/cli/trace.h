/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli/trace.h - a file of spans, a JSON object a line, as cay_tracer_file() writes it. Lines that
 * are something else, or cut, are passed over.
 */
#pragma once
#include <cay/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct trace_one {
    char id[33];            /* hexadecimal digits */
    char *name;             /* of the run, else of its first span */
    bool named;             /* the former */
    int64_t from_us, to_us; /* since 1970 */
    size_t spans, failed;
} trace_one;
typedef struct traces {
    trace_one *v; /* as they begin in the file */
    size_t n;
} traces;
int traces_read(const char *path, traces *out, cay_err *err); /* CAY_EINVAL: there is none in it */
void traces_free(traces *t);
/* By the beginning of its id, which has to be the only such one; NULL: the newest. */
const trace_one *traces_find(const traces *t, const char *id, cay_err *err);

typedef struct trace_span {
    char id[17], parent[17];
    char sandbox[24], process[24]; /* of a command, or "" */
    char *name, *type, *error;     /* error NULL: it went well */
    int64_t from_us, to_us;
    unsigned depth;
    size_t seq; /* its place in the file */
} trace_span;
typedef struct trace_tree {
    char id[33];
    trace_span *v; /* a span, then those below it, each by the time it began */
    size_t n, left_out;
    int64_t from_us, to_us;
} trace_tree;
int trace_tree_read(const char *path, const char *id, trace_tree *out, cay_err *err);
void trace_tree_free(trace_tree *t);
