/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/manifest/oneshot.h - a sandbox for one piece of work on hostile bytes.
 *
 *   cay__oneshot_open()    make it
 *   cay__oneshot_run()     a program in it, its output as text
 *   cay__oneshot_close()   it is gone
 *   cay__oneshot_unpack()  cay-unpack in it, from a descriptor to a stream of items
 *
 * Template host, no grants, limits of its own, and no network unless asked. It has no record:
 * should this program die, it goes too.
 */
#pragma once
#include <base/base.h>
#include <proto/item.h>
#include <cay/sandbox.h>

typedef struct cay__oneshot cay__oneshot;

typedef struct cay__oneshot_spec {
    const char *net; /* policy text, NULL: none */
    const cay_secret *secrets;
    size_t nsecrets;
    uint64_t memory; /* 0: 256 MiB */
} cay__oneshot_spec;

int cay__oneshot_open(cay_client *client, const cay_call *call, const cay__oneshot_spec *spec,
                      cay__oneshot **out, cay_err *err);
void cay__oneshot_close(cay__oneshot *o); /* NULL is fine */
CAY_DEFINE_AUTO(cay__oneshot, cay__oneshot_close)
cay_sandbox *cay__oneshot_sandbox(cay__oneshot *o);
/* Puts one of our programs into its working directory. */
int cay__oneshot_bring(cay__oneshot *o, const cay_call *call, const char *program, cay_err *err);

/* A started program whose standard output is read as it comes and whose input, if any, is fed from
 * a descriptor. */
typedef struct cay__feed cay__feed;
int cay__feed_start(cay__oneshot *o, const cay_call *call, const cay_spawn *spec, int in,
                    cay__feed **out, cay_err *err);
int cay__feed_fd(const cay__feed *f); /* its output; the feed's own */
/* Waits for its end. `said`: the last of its standard error, at most cap bytes; may be NULL. Frees
 * f. */
int cay__feed_end(cay__feed *f, const cay_call *call, cay_exit *exit, char *said, size_t cap,
                  cay_err *err);

/* cay-unpack on `in`, or on a tree of the sandbox when args say walk; what it finds goes through
 * `sink`. args: NULL-terminated, without the program's name. */
int cay__oneshot_unpack(cay__oneshot *o, const cay_call *call, const char *const *args, int in,
                        cay__sink *sink, cay_err *err);
