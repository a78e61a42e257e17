/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon/egress/hello.h - the server name in a TLS ClientHello (RFC 8446, 4.1.2; RFC 6066, 3).
 *
 * Works on the bytes that are there, however they were cut into segments and records, and says how
 * many it wants. Pure.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of records together. Hellos with post-quantum shares are below 2 kB, those with a session ticket
 * below 4 kB. */
#define HELLO_MAX 16384u

enum { HELLO_OK, HELLO_MORE, HELLO_BAD };

typedef struct hello {
    size_t need;   /* HELLO_MORE: no use in asking again with fewer bytes */
    bool named;    /* a server name was there */
    bool ech;      /* and may not be the one that counts: encrypted_client_hello is there too */
    char sni[256]; /* as sent, NUL-terminated; bytes that no name has stay in: fold it before use */
    size_t sni_len;
} hello;

int hello_read(const uint8_t *p, size_t len, hello *h);
