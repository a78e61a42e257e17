/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli/debian.h - a root filesystem of Debian packages, for cay template import --debian.
 */
#pragma once
#include "opt.h"
#include <cay/error.h>

typedef struct cli_debian_ask {
    const char *suite, *mirror; /* mirror: or NULL */
    const opt_list *packages;   /* each may name several, between commas */
    bool quiet;
} cli_debian_ask;

/* *out: a tar of it, in a file without a name. CAY_ENOTSUP, "debian_tool": mmdebstrap is missing.
 */
int cli_debian(const cli_debian_ask *ask, int *out, cay_err *err);
