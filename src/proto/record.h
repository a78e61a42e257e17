/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proto/record.h - what the library and cay-layer say to each other: length-prefixed records over a
 * socket.
 *
 * A record is a type, a length and so many bytes. Its bytes are numbers and strings in an order
 * that the verb tells: names that a sandbox chose never have to be quoted or parsed. Both ends are
 * programs of one build on one machine, so numbers are in host order; the reader still believes
 * nothing, because the writer reads what sandboxes left behind.
 */
#pragma once
#include <base/buf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CAY__REC_MAX (1u << 20) /* bytes of one record */

enum cay__rec_type {
    CAY__REC_ARG = 1, /* to the program: one string of the request */
    CAY__REC_GO,      /* to the program: the request is whole */
    CAY__REC_DONE,    /* from it, last: the verb's result */
    CAY__REC_FAIL,    /* from it, last: number code, number errno, string reason, string message */
    CAY__REC_VERB = 16,              /* from here on each verb has its own, in both directions */
    CAY__REC_CHANGE = CAY__REC_VERB, /* diff: helper/layer/diff.c tells their fields */
    CAY__REC_TEXT,
    CAY__REC_READY,
    CAY__REC_ITEM,   /* apply: number kind, number flags (1: named, 2: a directory is there now, 4:
                        only the mode differs), string path */
    CAY__REC_RESULT, /* apply: string path, number status (CAY__APPLY_…), string why */
    CAY__REC_ENTRY,  /* look: helper/layer/look.c tells its fields */
};

enum { CAY__APPLY_DONE, CAY__APPLY_CONFLICT, CAY__APPLY_REFUSED, CAY__APPLY_GONE, CAY__APPLY_SAME };

void cay__rec_num(cay__buf *b, uint64_t v);
void cay__rec_bytes(cay__buf *b, const void *p, size_t n);
void cay__rec_str(cay__buf *b, const char *s);
/* false and errno when the peer is gone (EPIPE) or the record is too long (EMSGSIZE). */
bool cay__rec_send(int fd, uint32_t type, const void *data, size_t len);
bool cay__rec_send_buf(int fd, uint32_t type, cay__buf *b); /* and empties it for the next */

/* What is left of one record. Once something did not fit, `bad` stays and every later answer is 0
 * or "". */
typedef struct cay__rec {
    uint32_t type;
    const uint8_t *p;
    size_t left;
    bool bad;
} cay__rec;

uint64_t cay__rec_get_num(cay__rec *r);
/* Bytes of the record itself, valid until the next one is read; they are followed by a NUL that
 * *len does not count. */
const char *cay__rec_get_bytes(cay__rec *r, size_t *len);
/* The same, bad when there is a NUL inside. */
const char *cay__rec_get_str(cay__rec *r);

/* Takes one record off the front of `in`: how many bytes it had, 0 when it is not whole yet, -1
 * when it cannot be one. */
ssize_t cay__rec_take(const void *in, size_t len, cay__rec *out);
/* Reads one from a socket into `room`, which it owns and grows. 1, 0 at the end, -1 and errno. */
int cay__rec_read(int fd, cay__buf *room, cay__rec *out);

/* Records of cay-pack. */
enum {
    CAY__REC_PROGRESS = CAY__REC_VERB + 32, /* numbers: items, bytes */
    CAY__REC_META, /* string: cay.json of a snapshot's archive, "" for a foreign one. Answered by
                      META: go on */
};
