/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli/remove_many.h - verbs that forget things by name: each is tried, an error is told for each
 * that stays, and with -f one that is not there is none.
 */
#pragma once
#include "opt.h"
#include <cay/client.h>

typedef struct forget_args {
    bool force;
} forget_args;
extern const opt_def forget_defs[];

/* The exit code of this program. fn says what is to be said of one that went. */
int forget_all(const forget_args *a, int argc, char **argv,
               int (*fn)(cay_client *client, const char *ref, cay_err *err));
