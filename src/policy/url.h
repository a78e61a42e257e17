/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy/url.h - a URL that the control plane fetches, in one reading only.
 *
 * What two parsers could read differently is refused: user parts, backslashes, control characters,
 * blanks, names that are spelled addresses (2130706433, 0x7f.1), addresses in any form but the
 * plain one.
 */
#pragma once
#include "policy.h"

#define CAY__URL_MAX 4096

typedef struct cay__url {
    bool tls;
    char host[CAY__NAME_MAX + 1]; /* folded name, or address without brackets */
    uint16_t port;
    char target[CAY__URL_MAX]; /* "/…", without fragment */
} cay__url;

int cay__url_parse(const char *text, cay__url *out, cay_err *err);
/* A Location beside where we are: absolute, //host/…, /path, or relative to the path. */
int cay__url_join(const cay__url *at, const char *location, cay__url *out, cay_err *err);
bool cay__url_same_place(const cay__url *a, const cay__url *b); /* scheme, host and port */
