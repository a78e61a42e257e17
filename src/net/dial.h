/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net/dial.h - a connected stream to whom a URL names.
 *
 * http://HOST[:PORT], https://HOST[:PORT], unix:/PATH. Of https the caller, too, sees plain bytes:
 * libcay-net.so speaks TLS on the other side of a socket pair, and has checked the certificate.
 */
#pragma once
#include <cay/error.h>

typedef struct cay__origin {
    char scheme[8]; /* "http", "https", "unix" */
    char host[256]; /* without brackets; of unix the path */
    uint16_t port;
    char authority[270]; /* for the Host line */
    char prefix[256];    /* the URL's path without a last slash: "" or "/base" */
    char certs[512];     /* of https: directory with ca.pem, the only roots then, and cert.pem and
                            key.pem, who we are; "": the system's roots */
} cay__origin;

/* CAY_EINVAL, "url_invalid": no such URL, or one with a user part, query or fragment. */
int cay__origin_parse(const char *url, cay__origin *out, cay_err *err);
/* CAY_EUPSTREAM "net_unreachable", "net_tls"; CAY_ETIMEOUT; CAY_ECANCELED. */
int cay__dial(const cay__origin *to, const cay_call *call, int *fd, cay_err *err);
