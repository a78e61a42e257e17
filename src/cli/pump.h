/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli/pump.h - the bytes between a command inside and our own descriptors, the signals, and our
 * terminal.
 *
 * Into a pipe or file output goes untouched, by splice(2). On a terminal it is escaped, unless the
 * command has a terminal of its own (tty): then ours is raw and everything passes.
 */
#pragma once
#include <cay/sandbox.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct pump_spec {
    bool input;       /* forward our standard input */
    bool tty;         /* the command has a terminal */
    bool detach_keys; /* Ctrl-P Ctrl-Q leaves it running */
    bool no_out, no_err;
    bool watch_only; /* logs: signals end us, not the command */
    bool newline;    /* a last line without an end gets one */
    uint64_t offset; /* where in its output to begin */
} pump_spec;

/* Blocks the signals that the pump forwards; before the command is started. */
void pump_block_signals(void);
/* Until the command ended or the user detached (*left). *ex tells how it ended; a reader of ours
 * that went away ends the command with SIGPIPE. Returns 0 or a cay_code. */
int pump_run(cay_proc *p, const pump_spec *spec, cay_exit *ex, bool *left, cay_err *err);
/* One line on standard error when a limit or time-out ended it. */
void pump_tell(const cay_exit *ex);

/*
 * term.c: our own terminal: raw mode that is always undone, its size.
 *
 * term_raw() and term_hide() remember the settings; they come back by term_restore(), at exit, and
 * when a signal that ends the program arrives.
 */

bool term_raw(int fd);  /* false: not a terminal */
bool term_hide(int fd); /* what is typed is not shown */
void term_restore(void);
bool term_is_raw(void);
/* 80 × 24 when fd is no terminal or has no size. */
void term_size(int fd, uint16_t *cols, uint16_t *rows);
