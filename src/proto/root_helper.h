/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proto/root_helper.h - cay-hand: the one process of root's beside a server that is not root (cay
 * serve
 * --user NAME --root-keeper).
 *
 *   cay-hand NAME HOME SERVER [ARG…]  starts SERVER as user NAME, starts it again when it crashes,
 *                                     and serves it until it ends
 *
 * HOME is that user's state directory. HOME.root is root's: what the keeper holds, where nobody
 * else writes; HOME has links to what is in there. The server, and whatever else that user runs on
 * HOME, asks over HOME.root/hand.sock: one packet, a hand_ask with descriptors, answered by one
 * hand_answer. A verb takes no path, only names below HOME.root; what one could do with any of them
 * one could do to sandboxes of one's own.
 *
 *   main.c     starts the server, reads requests     trees.c   HOME.root, and the links to it
 *   work.c     the verbs                             jail.c    where root's programs work for them
 */
#pragma once
#include <stdint.h>

#define HAND_SOCK "hand.sock" /* in HOME.root */
#define HAND_TREE ".root"     /* behind HOME */

enum hand_verb {
    HAND_DIAL = 1, /* → a connection to the keeper, on which nothing of the host can be granted;
                      code CAY_EBUSY, "again": it was started, ask again */
    HAND_TOOL, /* name: verb, op: HAND_LAYER or HAND_PACK; fds: its socket, then the verb's own → 0
                  once it runs. It ends when the connection does */
    HAND_CLONE, /* name: sandbox, more: layer, op: with --stop; fds: for its answer → likewise */
    HAND_BASE, /* op: HAND_HOST or HAND_IMAGE → name of the layer that the template is, made if need
                  be */
    HAND_QUOTA, /* op: HAND_QUOTA_…; name; a: bytes, b: inodes → value: are they there */
};
enum { HAND_LAYER, HAND_PACK };
enum { HAND_HOST, HAND_IMAGE };
enum { HAND_QUOTA_THERE, HAND_QUOTA_BOX, HAND_QUOTA_VOLUME, HAND_QUOTA_DROP };

typedef struct hand_ask {
    uint32_t verb, op;
    uint64_t a, b;
    char name[64], more[64];
} hand_ask;

typedef struct hand_answer {
    int32_t code, sys; /* as of a cay_err */
    uint64_t value;
    char name[64], reason[40], msg[256];
} hand_answer;
