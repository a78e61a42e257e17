/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay/fetch.h - a file over HTTP, at somebody else's word.
 *
 *   cay_url_get()   bring what a URL names      cay_url_put()   send a file there
 *
 * A URL from outside may lead to the host itself, its neighbours or a cloud's metadata. So the
 * request is made in a sandbox of its own, which reaches the place that the URL names and no other,
 * by the rules of cay/policy.h: http and https, never an address that is always blocked unless the
 * operator lifts it; another host after a redirect needs a rule of `net`. TLS is checked.
 */
#pragma once
#include <cay/client.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cay_url {
    size_t size;
    const char *url;
    const char
        *net; /* a policy whose rules redirects may follow and whose denies hold; NULL: none */
    uint64_t max_bytes; /* 0: 256 MiB */
} cay_url;

/* A descriptor of a file without a name, at its start; *bytes (may be NULL): how many it holds.
 * CAY_EPERM "fetch_refused": the place may not be reached; CAY_ETOOBIG "fetch_too_big"; CAY_ENOENT
 * or CAY_EUPSTREAM "fetch_status"; CAY_EUPSTREAM "fetch_failed", "redirect_refused". */
CAY_API int cay_url_get(cay_client *client, const cay_call *call, const cay_url *spec, int *fd,
                        uint64_t *bytes, cay_err *err);
/* PUTs len bytes of fd from where it stands. Redirects are not followed. What the server answers
 * outside of 2xx is CAY_EUPSTREAM "fetch_status". */
CAY_API int cay_url_put(cay_client *client, const cay_call *call, const cay_url *spec, int fd,
                        uint64_t len, cay_err *err);

#ifdef __cplusplus
}
#endif
