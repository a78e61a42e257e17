/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon/init/units.h - services that init keeps running (units.c); `at` is 1 + the place of one,
 * as in gproc.unit.
 */
#pragma once
#include "init.h"

uint32_t units_config(const char *at,
                      size_t len); /* what follows CAY_UNITS_MARK; once. Its CAY_GUF_… */
void units_ask(const cay_g_proc *m, int *fds, int nfds);
void units_turn(void); /* the root is about to change: nothing is started until … */
void units_release(void);
bool units_held(void); /* nothing may be started now */
void units_tell(void); /* a new keeper, that there are some */
void units_step(void); /* what is due */
int units_wait(void);  /* ms until something is, -1: nothing */
void unit_died(unsigned at, int status);
void unit_main_ended(unsigned at, int status);
bool unit_reaped(int pid, int status); /* it was a health command */
