/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net/sse.h - a stream of server-sent events, piece by piece, as the HTML standard reads it.
 *
 *     cay__sse s = CAY__SSE(1 << 20, on_event, arg);
 *     … cay__sse_feed(&s, bytes, n, err) as they come …
 *     cay__sse_end(&s);
 *
 * Lines end with LF, CR or CRLF, wherever the pieces were cut. Comments, ids and retry times are
 * read over. An event that the stream does not finish with an empty line is dropped, as the
 * standard says.
 */
#pragma once
#include <base/buf.h>

/* name: "message" when the stream named none. data ends with NUL, and may hold more of them. What
 * is not 0 ends the feeding. */
typedef int (*cay__sse_fn)(const char *name, const char *data, size_t len, void *arg, cay_err *err);

typedef struct cay__sse {
    cay__buf line, data; /* both up to max */
    char name[64];       /* longer ones are cut */
    bool any, cr,
        begun; /* data seen; a CR was the last byte; the first bytes were looked at for a mark */
    size_t max;
    cay__sse_fn fn;
    void *arg;
} cay__sse;

#define CAY__SSE(most, fun, a)                                                                     \
    {                                                                                              \
        .line = CAY__BUF(most), .data = CAY__BUF(most), .max = (most), .fn = (fun), .arg = (a)     \
    }
/* CAY_ETOOBIG when one event is larger than max; else what fn returned. */
int cay__sse_feed(cay__sse *s, const char *bytes, size_t n, cay_err *err);
void cay__sse_end(cay__sse *s); /* frees */
