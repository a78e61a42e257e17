/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon/holder/stream.h - one output stream of a command: a bounded ring, and any number of
 * readers. The keeper, cay-local and cay-pid1 hold output by this code.
 *
 * The source, a pipe or a terminal, is drained as it comes. Bytes are kept by offset; the oldest go
 * first. A reader is the write end of somebody's pipe. A stream whose command ended keeps draining
 * its source, because a process left in the background must not die of SIGPIPE.
 *
 *   cay__stream_set()     once           cay__stream_attach()  one more reader
 *   cay__stream_open()    its source     cay__stream_read()    what is kept
 *   cay__stream_resume()  look again     cay__stream_end()     the command ended
 */
#pragma once
#include <base/loop.h>
#include <base/marks.h>
#include <proto/keeper.h>

#define CAY__RING_DEFAULT (1u << 20)
#define CAY__RING_MAX     (16u << 20)

typedef struct holder_stream holder_stream;

/* What differs between those who hold streams. */
typedef struct holder_stream_ops {
    /* Hands the ring, a sealed memfd, to whoever holds it for the next keeper. NULL: rings are
     * plain memory, and nobody outlives us. */
    void (*keep_ring)(holder_stream *s);
    void (*source_ended)(holder_stream *s);
} holder_stream_ops;

typedef struct holder_reader {
    cay__watch w; /* the client's write end; first, so that a watch is its reader */
    holder_stream *s;
    uint64_t at; /* next offset it gets */
    int64_t stalled_ms;
    bool watched;
    struct holder_reader *next;
} holder_reader;

typedef struct holder_ring {
    int fd;    /* memfd, or -1 */
    char *map; /* NULL until the first byte */
    uint32_t size;
} holder_ring;

struct holder_stream {
    cay__watch w; /* the source: read end or pty master; fd -1: not yet, or over. First */
    const holder_stream_ops *ops;
    cay__loop *loop;
    uint64_t *kept; /* bytes in rings of the sandbox, these included */
    void *owner;
    int which;          /* 0 stdout, 1 stderr */
    uint32_t flags;     /* CAY_SPAWN_TTY, CAY_SPAWN_BLOCK */
    uint32_t ring_size; /* as it will be */
    int64_t began_ms;   /* wall clock */
    bool started;       /* its command did */
    bool ended;         /* its command did: readers come to an end */
    bool paused; /* not looked at: its command has not started, or it waits for a blocking reader */
    holder_ring ring;
    uint64_t head; /* bytes ever seen */
    uint64_t last; /* where readers of an ended command may stop before their source does */
    uint64_t seen; /* what some reader has had */
    uint64_t lost; /* bytes that left the ring before */
    holder_reader *readers;
};

/* As its command asked; before anything else. */
void cay__stream_set(holder_stream *s, uint32_t flags, uint32_t ring, int64_t began_ms);
uint32_t cay__ring_size(uint32_t asked);         /* whole pages; 0: the default */
void cay__stream_open(holder_stream *s, int fd); /* takes fd */
bool cay__stream_drain(holder_stream *s);        /* true when it is over */
void cay__stream_end(holder_stream *s);          /* readers get what is there, and their end */
void cay__stream_close(holder_stream *s);
/* Its command started; or look again whether a reader made room, or waited too long. */
void cay__stream_resume(holder_stream *s);
/* Takes fd. False: it cannot be watched. */
bool cay__stream_attach(holder_stream *s, uint64_t offset, int fd, cay_m_data *out);
/* one_time: only those that came at one time, which out->ms tells. */
size_t cay__stream_read(holder_stream *s, uint64_t offset, char *buf, size_t cap, bool one_time,
                        cay_m_data *out);
/* A ring that was handed to keep_ring() of another process. Its header is untrusted. */
bool cay__ring_adopt(holder_stream *s, int fd);
