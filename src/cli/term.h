/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli/term.h - our own terminal: raw mode that is always undone, its size.
 *
 * term_raw() and term_hide() remember the settings; they come back by term_restore(), at exit, and
 * when a signal that ends the program arrives.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

bool term_raw(int fd);  /* false: not a terminal */
bool term_hide(int fd); /* what is typed is not shown */
void term_restore(void);
bool term_is_raw(void);
/* 80 × 24 when fd is no terminal or has no size. */
void term_size(int fd, uint16_t *cols, uint16_t *rows);
