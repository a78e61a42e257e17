/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli/chat/spin.h - a line that moves while the talk waits: what for, and how long already.
 */
#pragma once

void spin_begin(
    const char *what); /* plain ASCII; draws it where the cursor is, at the begin of a line */
void spin_end(void);   /* the line is empty again, and nobody draws */
