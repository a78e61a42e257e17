/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/call.h - waiting within the bounds of a cay_call: its deadline and its cancel descriptor.
 */
#pragma once
#include <cay/error.h>

/* 0 while the call may go on; CAY_ETIMEOUT or CAY_ECANCELED, naming `what`, once it may not. */
int cay__call_check(const cay_call *call, const char *what, cay_err *err);
/* Waits until fd has one of `events` (or has failed or hung up). */
int cay__call_wait(const cay_call *call, int fd, short events, const char *what, cay_err *err);
/* Milliseconds that poll(2) may wait; -1 without a deadline. */
int cay__call_left(const cay_call *call);
/* Its cancel descriptor, or -1: poll(2) skips it then. */
int cay__call_cancel(const cay_call *call);
