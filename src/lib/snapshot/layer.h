/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/snapshot/layer.h - the library's side of cay-layer, the program that reads and writes layer
 * trees.
 *
 *   cay__layer_run()     one request, its records, its result
 *   cay__layer_open() … next() … send() … close()   the same, when the program is to be answered in
 * between
 *
 * As root the program is plain root in a mount namespace of its own; for a server that is not root
 * cay-hand starts it. As an ordinary user it is root of the keeper's user namespace, whose ids the
 * layers belong to; a keeper is started when none runs. Verbs, their arguments and records are told
 * in helper/layer/tool.h.
 *
 *     cay__layer_ask ask = { .verb = "digest", .args = (const char *[]){ "s2abc…" }, .nargs = 1 };
 *     CAY_TRY(cay__layer_run(&at, call, &ask, &done, err));
 *     const char *hex = cay__rec_get_str(&done.rec);
 *     …
 *     cay__layer_done_clear(&done);
 */
#pragma once
#include <proto/record.h>
#include <cay/error.h>
#include <sys/types.h>

#define CAY__LAYER_FDS 8  /* descriptors a verb may be given */
#define CAY__LAYER_ID  32 /* room for a layer's name that this library makes */

/* Where: the state directory, and where our programs are (NULL: found). */
typedef struct cay__layer_at {
    const char *home, *libexec;
} cay__layer_at;

typedef struct cay__layer_conn {
    int sock, pid, leash; /* leash: of one that root runs for us, else -1 */
    cay__buf room;
    char verb[24];
} cay__layer_conn;

typedef struct cay__layer_done {
    cay__buf room;
    cay__rec rec; /* points into room */
} cay__layer_done;

typedef struct cay__layer_ask {
    const char *program; /* NULL: cay-layer; or cay-pack, which is the same with archives */
    const char *verb;
    const char *const *args;
    size_t nargs;
    const int
        *fds; /* the program finds them at TOOL_FD, TOOL_FD + 1, …; the caller keeps its own */
    size_t nfds;
    int (*fn)(
        cay__rec *rec, void *arg,
        cay_err *err); /* each record before the last; NULL: there are none. Negative stops. */
    void *arg;
} cay__layer_ask;

/* Starts the program and sends the request. */
int cay__layer_open(const cay__layer_at *at, const cay_call *call, const cay__layer_ask *ask,
                    cay__layer_conn *out, cay_err *err);
/* The next record; CAY__REC_DONE is the last. A failure of the verb, or the program's death, is
 * this call's error. */
int cay__layer_next(cay__layer_conn *c, const cay_call *call, cay__rec *out, cay_err *err);
int cay__layer_send(cay__layer_conn *c, uint32_t type, cay__buf *b, cay_err *err);
/* Ends it: a program that is not done stops and takes back what it began. */
void cay__layer_close(cay__layer_conn *c);

/* Arguments, as many as it takes: KEY and VALUE in one word. */
typedef struct cay__layer_words {
    const char **v;
    size_t n;
    cay__arena mem;
} cay__layer_words;
#define CAY__AUTOWORDS __attribute__((cleanup(cay__layer_words_clear))) cay__layer_words
void cay__layer_word(cay__layer_words *w, const char *key, const char *value);
/* Unless the value is "". */
void cay__layer_word_if(cay__layer_words *w, const char *key, const char *value);
/* A stack: the template's layer, or "", and those above it. */
void cay__layer_word_stack(cay__layer_words *w, const char *key, const char *template_,
                           const char *const *layers, size_t n);
void cay__layer_words_clear(cay__layer_words *w);

/* `done` may be NULL. */
int cay__layer_run(const cay__layer_at *at, const cay_call *call, const cay__layer_ask *ask,
                   cay__layer_done *done, cay_err *err);
void cay__layer_done_clear(cay__layer_done *d);

/* SHA-256 of a layer's tree as 64 hex digits and NUL; what it has in bytes and files, where wanted.
 */
int cay__layer_digest(const cay__layer_at *at, const cay_call *call, const char *layer,
                      char hex[65], uint64_t *bytes, uint64_t *files, cay_err *err);
/* Removes layers/<name>; that there is none is success. It is out of sight at once, even if we are
 * killed. */
int cay__layer_remove(const cay__layer_at *at, const cay_call *call, const char *layer,
                      cay_err *err);
/* A stack, bottom first, as one new layer `name`, which must not be there yet. `below` is what the
 * stack stands on: the template's layer, and others when only the upper part of a stack is merged;
 * or one path, a directory of the host, which may change. On top of them it does what the stack
 * did. */
int cay__layer_merge(const cay__layer_at *at, const cay_call *call, const char *const *below,
                     size_t nbelow, const char *const *stack, size_t n, const char *name,
                     cay_err *err);
/* The layer below layers/ that a template is; made when it is missing. CAY_ENOTSUP for a directory
 * of the host. */
int cay__layer_template(int home_fd, const char *template_, char *name, size_t cap, cay_err *err);
