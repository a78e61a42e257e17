/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/provider/remote/address.h - which server is meant, and the key for it.
 *
 * A URL that is given; else CAY_HOST; else SANDBOX_HOST with SANDBOX_PORT. A name without a scheme
 * is http://NAME:8090. The key is CAY_API_KEY; else the line "URL KEY" of ~/.config/cay/hosts,
 * which nobody else may read; else there is none.
 */
#pragma once
#include <cay/error.h>

typedef struct cay__where {
    char *url, *key; /* key NULL: none */
} cay__where;

/* CAY_EINVAL, "host_missing": nobody named one. */
int cay__where_find(const char *given, cay__where *out, cay_err *err);
void cay__where_clear(cay__where *w);
