/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/model/socket.h - one question over a WebSocket that stays open between questions
 * (endpoint.h: e->socket).
 */
#pragma once
#include "endpoint.h"

typedef struct cay__socket_ask {
    const char *path; /* "/responses" */
    const char *body; /* a JSON text */
    size_t len;
    int (*on_message)(const char *data, size_t len, bool *over, void *arg,
                      cay_err *err); /* *over: that was the last one */
    int (*refused)(int status, const cay__buf *said, void *arg,
                   cay_err *err); /* the handshake: an error, always */
    void *arg;
} cay__socket_ask;

int cay__socket_try(cay__endpoint *e, const cay_call *call, const cay__socket_ask *ask,
                    cay_err *err);
void cay__socket_close(cay__endpoint *e);
