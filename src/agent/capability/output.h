/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/capability/output.h - what a command printed, as a model is told: kept within bounds, cut
 * to a budget of tokens.
 */
#pragma once
#include <base/buf.h>

enum { CAY__KEEP_BYTES = 1 << 20 }; /* of one answer; the middle goes first */

typedef struct cay__printed {
    cay__buf b;
    uint64_t dropped;
} cay__printed;
#define CAY__PRINTED                                                                               \
    {                                                                                              \
        .b = CAY__BUF(4 * CAY__KEEP_BYTES)                                                         \
    }

/* Text for a model: whole stretches, and U+FFFD for broken UTF-8 and NUL bytes. */
void cay__buf_sound(cay__buf *out, const char *s, size_t n);
void cay__printed_add(cay__printed *p, const char *bytes, size_t n);
/* As UTF-8, with what is none replaced, and a note where bytes were dropped. */
void cay__printed_text(cay__printed *p, cay__buf *out);

/* Four bytes are a token. max_tokens 0: as it is, and *count 0; otherwise, when it was cut, *count
 * tells its tokens before. */
void cay__truncate(const char *text, size_t len, uint64_t max_tokens, cay__buf *out,
                   uint64_t *count);

typedef struct cay__command_output {
    double seconds;
    bool ended;
    int code;    /* when it ended */
    int session; /* when it runs on */
    const char *text;
    size_t len;
    uint64_t max_tokens; /* 0: no limit */
} cay__command_output;
void cay__print_command_output(const cay__command_output *t, cay__buf *out);
