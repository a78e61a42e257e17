/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proto/tunnel.h - packets that carry descriptors, over a plain stream of bytes.
 *
 * On the near side (the library) is a socket as it would lead to pid 1 of a container; on the far
 * side (cay-pid1 relay, started in the container by the engine's exec) is pid 1. What a packet of
 * the near side carries, pipes, sockets and small files, is made anew on the far side and its bytes
 * are moved; descriptors the other way are not carried. Each channel has a window, so that one that
 * is not read holds up no other.
 *
 * A frame: length of its payload, channel, type, each a uint32_t of the machine's order: both sides
 * are one program's build for one architecture. Both sides treat the other as hostile.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct cay__tunnel cay__tunnel;

/* in, out: the stream, may be one; root: this side's end of channel 0, of packets or of bytes. All
 * are taken. near: this side opens channels. */
cay__tunnel *cay__tunnel_new(int in, int out, int root, bool packets, bool near);
/* Until either end is gone; frees. take NULL: what comes over the stream are frames; else it
 * unpacks them and gives them to cay__tunnel_feed(). */
void cay__tunnel_run(cay__tunnel *t,
                     bool (*take)(void *arg, cay__tunnel *t, const char *data, size_t n),
                     void *arg);
/* false: against the protocol. */
bool cay__tunnel_feed(cay__tunnel *t, const char *data, size_t n);
void cay__tunnel_free(cay__tunnel *t);
