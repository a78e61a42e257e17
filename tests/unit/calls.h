/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of one service that have to work, or to fail in a certain way; the file that uses them
 * opens `client`. */
#pragma once
#include "home.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static cay_client *client;
static cay_err err;

#define OK(call)                                                                                   \
    do {                                                                                           \
        err = (cay_err)CAY_ERR_INIT;                                                               \
        if ((call) < 0)                                                                            \
            fail_msg("%s: %s", #call, err.msg);                                                    \
    } while (0)
#define FAILS(call, want, why)                                                                     \
    do {                                                                                           \
        err = (cay_err)CAY_ERR_INIT;                                                               \
        assert_int_equal((call), want);                                                            \
        assert_string_equal(err.reason, why);                                                      \
    } while (0)

static inline int calls_end(void **s)
{
    cay_client_close(client);
    return home_down(s);
}

static inline cay_sandbox *make(cay_create c)
{
    cay_sandbox *sb = NULL;
    c.size = sizeof c;
    OK(cay_client_create(client, NULL, &c, &sb, &err));
    return sb;
}

static inline void put(cay_sandbox *sb, const char *path, const char *text)
{
    OK(cay_file_put(sb, NULL, path, text, strlen(text), NULL, &err));
}

/* A file's text, or "-" when it is not there. */
static inline const char *text_of(cay_sandbox *sb, const char *path)
{
    static char text[256];
    char *data = NULL;
    size_t n = 0;
    if (cay_file_get(sb, NULL, path, sizeof text - 1, &data, &n, NULL) < 0)
        return "-";
    snprintf(text, sizeof text, "%.*s", (int)n, data);
    free(data);
    return text;
}
