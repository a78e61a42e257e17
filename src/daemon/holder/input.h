/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon/holder/input.h - the standard input of one command: it keeps what clients write until the
 * command reads it.
 *
 * A write is tried at once; bytes that do not fit wait in order. Its client, a descriptor as in
 * answer.h, gets OK when all of them are taken, and stdin_closed when the command reads no more.
 *
 *   cay__input_open()   its write end     cay__input_end()     no more comes
 *   cay__input_write()  more bytes        cay__input_forget()  a client left
 */
#pragma once
#include <base/loop.h>
#include <stddef.h>

typedef struct holder_input {
    cay__watch w; /* the write end of a pipe, or the terminal; fd -1: closed. Watched while a write
                     waits. First */
    cay__loop *loop;
    struct holder_write *writes; /* those that wait, the oldest first */
} holder_input;

void cay__input_open(holder_input *in, cay__loop *loop, int fd); /* takes fd */
/* Copies data. `to` may be -1. */
void cay__input_write(holder_input *in, int to, const void *data, size_t len);
/* A pipe is closed; a terminal gets its end character, because it has no other end. */
void cay__input_end(holder_input *in, bool terminal);
/* Of a terminal, too. Writes that wait get stdin_closed. Nothing happens when it is closed already.
 */
void cay__input_close(holder_input *in);
/* Drops the writes of a client that left. */
void cay__input_forget(holder_input *in, int to);
