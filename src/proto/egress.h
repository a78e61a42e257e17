/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proto/egress.h - what the keeper says to cay-egress, and what it answers.
 *
 * SOCK_SEQPACKET, one packet a message: a cay_msg head (proto/keeper.h) with these types, a fixed
 * body, then `tail` bytes. The keeper is the only peer: egress listens on a socket that the keeper
 * made in the runtime directory and handed over as descriptor 3; a keeper that starts anew dials it
 * and lends everything again, which changes nothing for what egress already holds (the same id and
 * cookie). Requests carry a number of the sender's choice that comes back in the answer; answers
 * may come in any order.
 *
 * A sandbox's listeners, DNS sockets and name map are lent, never owned: egress may die at any
 * time, and the next one goes on. Its policy is a file that only the keeper writes; a descriptor of
 * it comes along, read at once.
 *
 * Started as: cay-egress, descriptor 3 the listening socket, 4 the directory for audit records
 * ($CAY_HOME/net, egress may write there), 5 the operator's file (absent: /dev/null), environment
 * empty, own session. In root mode it runs under EGRESS_ID without any capability.
 */
#pragma once
#include "keeper.h"

#define CAY_N_VERSION    1
#define CAY_N_PORTS_MOST 8 /* sockets that come instead of the one listener, CAY_N_PORTS */
#define CAY_N_BACKLOG    512

enum cay_n_type {
    CAY_N_LEND =
        1, /* cay_n_box; fds: [tcp listener] [dns tcp] [dns udp] [name map] [policy] → ACK */
    CAY_N_POLICY, /* cay_n_box; fds: [policy] → ACK when it holds: later flows obey, forbidden ones
                     are cut within 2 s */
    CAY_N_DROP,   /* cay_n_box: the sandbox is gone → ACK */
    CAY_N_DIAL, /* cay_n_dial, tail: name: connect for the control plane under the sandbox's policy
                   → DIALED */
    CAY_N_OPERATOR,  /* cay_n_box (seq alone counts); fds: [operator's file] → ACK */
    CAY_N_WHY,       /* cay_n_dial, tail: name → WHAT */
    CAY_N_INTERCEPT, /* cay_n_box (seq); fds: [socket] → ACK: flows to destinations with a binding
                        go there (cay_n_flow); without one they are refused */

    CAY_N_ACK = 50, /* cay_n_ack */
    CAY_N_DIALED,   /* cay_n_ack; fds: [connected socket] when sys and reason are 0 */
    CAY_N_WHAT,     /* cay_n_ack: verdict in reason, rule in msg; code EPERM when it is no */
    CAY_N_FLOW, /* to the interceptor: cay_n_flow, tail: name; fds: [the sandbox's side] [connected
                   upstream] */
    CAY_N_PAIR = 60, /* cay_n_ack, unasked: a flow needs the interceptor, and there is none:
                        INTERCEPT anew */
    CAY_N_NOTE = 54, /* from the interceptor: cay_n_note, for the record */
    CAY_N_END = 55, /* from the interceptor: cay_n_end, for the record; an egress of before does not
                       heed it */
    CAY_N_LIVE = 56,  /* from the interceptor, first on a new pair: cay_n_end for each flow that it
                         has; without a body: those were all */
    CAY_N_SPENT = 57, /* to and from the interceptor: cay_n_spent, of the sandbox's one bandwidth */
};

enum {
    CAY_N_FALLBACK = 1u << 0, /* no TPROXY: nat redirect; the destination is SO_ORIGINAL_DST */
    CAY_N_PORTS = 1u << 2,    /* no nftables: a bag of sockets instead of the listener
                                 (daemon/keeper/netns.h), one for each port of the policy */
    CAY_N_IMPLICIT =
        1u
        << 1, /* DIAL: this one fetch is allowed unless the operator or a blocked range says no */
};

typedef struct cay_n_box {
    uint64_t seq;
    char id[CAY_WIRE_ID];
    uint64_t cookie;   /* SO_NETNS_COOKIE of the listeners */
    uint64_t revision; /* of the policy; grows */
    uint32_t flags, spare;
} cay_n_box;

typedef struct cay_n_dial {
    uint64_t seq;
    char id[CAY_WIRE_ID];
    uint16_t port, proto; /* cay__net_proto */
    uint32_t flags;
} cay_n_dial;

typedef struct cay_n_ack {
    uint64_t seq;
    char id[CAY_WIRE_ID];
    uint64_t revision;
    int32_t code; /* cay_code, 0: done */
    int32_t sys;
    char reason[40];
    char msg[216];
} cay_n_ack;

/* A connection for the interceptor. Both sockets are non-blocking and reset when they are closed
 * without more (SO_LINGER); nothing of the sandbox's first flight has been taken out. The
 * interceptor owns both, and every byte from there on. */
typedef struct cay_n_flow {
    char id[CAY_WIRE_ID];
    uint64_t flow; /* its number in the records */
    uint8_t addr[16];
    uint16_t port, proto;
    uint32_t age; /* milliseconds since it was accepted */
} cay_n_flow;

/* What became of a request in a flow that was handed over. */
typedef struct cay_n_note {
    char id[CAY_WIRE_ID];
    uint64_t flow;
    char name[256];
    char secret[64]; /* its name; "": none was concerned */
    uint16_t port, allowed;
    char reason[36];
} cay_n_note;

/* How a flow that was handed over ended (END), or that it goes on (LIVE: without bytes and reason).
 * No longer than a note: what is read into the room of one must not look cut off. */
typedef struct cay_n_end {
    char id[CAY_WIRE_ID];
    uint64_t flow; /* no two egresses give the same number */
    uint64_t up, down, ms;
    uint8_t addr[16];
    uint16_t port, proto;
    uint32_t closed; /* in order; 0: cut */
    char name[256];
    char reason[36];
    uint32_t lost; /* notes that egress did not take since the last one */
} cay_n_end;
_Static_assert(sizeof(cay_n_end) <= sizeof(cay_n_note),
               "an egress of before takes it for a note of another length");

/* Bytes that the sender let through in each direction since it last said so: the other takes them
 * from its bucket, too. */
typedef struct cay_n_spent {
    char id[CAY_WIRE_ID];
    uint64_t bytes[2]; /* up, down */
} cay_n_spent;

/* The name map: a memfd of this size, lent read-write. Entry n (from 1) is 198.18.0.0 + 256 + n and
 * fd63:6179:0:1::n. Written by egress alone, an entry before the count; the sandbox's init holds a
 * copy for adoption, so every byte is checked when it is read back: a forged name is still judged
 * by the policy. */
#define CAY_N_NAMES     8192u
#define CAY_N_MAP_MAGIC 0x706d6e63u /* written with the first name; an empty map is all zeros */
typedef struct cay_n_map {
    uint32_t magic, count;
    uint64_t spare[7];
    char name[CAY_N_NAMES][256];
} cay_n_map;
