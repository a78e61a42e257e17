/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon/holder/stream.h - one output stream: a bounded ring, and any number of readers.
 *
 * The source is drained as it comes. Bytes are kept by offset; the oldest go first. A reader is the
 * write end of somebody's pipe. A stream that was ended keeps draining its source, because a
 * process left in the background must not die of SIGPIPE, but its readers see no more than came
 * before.
 */
#pragma once
#include <base/loop.h>
#include <base/marks.h>
#include <stddef.h>

typedef struct reader reader;
typedef struct stream {
    cay__watch w; /* the source; fd -1: none any more */
    cay__loop *loop;
    char *ring;
    uint32_t cap;
    bool block; /* a reader that lags holds the writer, for 30 s at most */
    bool held;  /* … and does so now */
    bool over;  /* ended at `final` */
    uint64_t start, end, final;
    uint64_t taken;    /* the furthest offset anybody was given */
    uint64_t lost;     /* bytes that went before anybody was */
    cay__marks *marks; /* when they came, in milliseconds since `began` */
    int64_t began;     /* wall clock */
    reader *readers;
    cay__timer stall;
    void (*closed)(struct stream *s); /* the source ended */
    void *owner;
} stream;

/* Takes fd. */
bool cay__stream_open(stream *s, cay__loop *loop, int fd, uint32_t cap, bool block);
void cay__stream_close(stream *s);
/* Takes fd. */
void cay__stream_attach(stream *s, int fd, uint64_t offset, uint64_t *from, uint64_t *lost);
/* ms: only those that came at one time; it tells when, and one, 0: not known. NULL: as many as
 * there are. */
size_t cay__stream_read(stream *s, uint64_t offset, char *buf, size_t cap, uint64_t *from,
                        uint64_t *lost, bool *eof, uint32_t *ms);
/* Takes what is in the source now, then lets the readers run out. */
void cay__stream_end(stream *s);
