/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon/init/services.h - services that init keeps running (services.c); `at` is 1 + the place of
 * one, as in gproc.service.
 */
#pragma once
#include "init.h"

uint32_t services_config(const char *at,
                         size_t len); /* what follows CAY_SERVICES_MARK; once. Its CAY_GUF_… */
void services_ask(const cay_g_proc *m, int *fds, int nfds);
void services_turn(void); /* the root is about to change: nothing is started until … */
void services_release(void);
void services_end(void);       /* nothing is started any more */
bool services_held(void);      /* nothing may be started now */
void services_tell(void);      /* a new keeper, that there are some */
void services_step(void);      /* what is due */
int services_wait(void);       /* ms until something is, -1: nothing */
int wait_until(int64_t at);    /* for poll(2): ms from now, a minute at most; of INT64_MAX -1 */
int min_timeout(int a, int b); /* the earlier of two such waits */
void service_died(unsigned at, int status);
void service_main_ended(unsigned at, int status);
bool service_reaped(int pid, int status); /* it was a health command */
