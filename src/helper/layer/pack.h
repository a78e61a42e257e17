/* SPDX-License-Identifier: Apache-2.0 */
/*
 * helper/layer/pack.h - verbs of cay-pack, which is cay-layer with archives.
 *
 *   verb    arguments          answer (DONE)
 *   pack    words, see pack.c  hex digest, items, bytes and, raw, the layer's digest;
 *                              PROGRESS before; the archive goes to TOOL_FD
 *   unpack  layer              hex digest, items, bytes; items come from TOOL_FD, META first,
 *                              which has to be answered
 *   image   layer below…       items, bytes, 1 when its root hides all below, digest of the tar;
 *                              items come from TOOL_FD
 */
#pragma once
#include <proto/record.h>
#include "seal.h"
#include "tool.h"

/* How one kind of archive is written. Items come in the order of their paths, directories before
 * what is in them. */
typedef struct writer writer;
typedef struct writer_ops {
    const char *name;
    int (*open)(writer *w, const char *meta, cay_err *err);
    int (*item)(writer *w, const cay__item *it,
                cay_err *err); /* attributes in extra; GONE only when wants_gone */
    int (*data)(writer *w, const void *p, size_t n, cay_err *err); /* of the FILE just told */
    int (*hole)(writer *w, uint64_t n, cay_err *err);
    int (*done)(writer *w, cay_err *err); /* its last byte was told */
    int (*close)(writer *w, const char *digest, cay_err *err);
    void (*drop)(writer *w); /* whether it was closed or not; may be NULL */
    bool wants_gone, hard_links;
    bool image; /* set-uid bits and capabilities, too */
} writer_ops;
extern const writer_ops write_snapshot, write_tar, write_oci, write_js;

struct writer {
    const writer_ops *ops;
    int fd;
    unsigned threads;
    struct tarring *t; /* pack_tar.c's own */
    cay__buf out;      /* what waits to be written */
    cay__buf dirs;
    uint8_t rest[3]; /* bytes that wait for a whole group of base64 */
    size_t nrest;
    bool any, any_dir;
};

int pack_run(tool *t, cay_err *err);
int unpack_run(tool *t, cay_err *err);
int image_run(tool *t, cay_err *err);
