/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/provider/docker/demux.h - the two streams of an engine's exec without a terminal, out of the
 * one that it sends.
 *
 * Each piece has a head of eight bytes: 1 or 2 (0 is told for standard input, which is never sent),
 * three zeros, its length in the net's order.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct cay__demux {
    uint8_t head[8];
    unsigned got;  /* bytes of the head */
    uint32_t left; /* of the piece under way */
} cay__demux;

/* fn: which is 1 or 2; false stops. false: fn did, or this is no such stream. Any cut of the bytes
 * gives the same pieces' bytes. */
bool cay__demux_feed(cay__demux *d, const char *data, size_t n,
                     bool (*fn)(void *arg, int which, const char *data, size_t n), void *arg);
