/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/support/support.h - what several test programs need.
 *
 *   support_home()     a state directory that is gone at the end
 *   support_until()    wait for a condition
 *   support_libexec()  where the programs of this build are
 *   cay__memory        a provider in memory
 */
#pragma once
#include <cay/sys/provider.h>
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

/* Makes a directory below $TMPDIR or /tmp, mode 0700; the caller gives it to support_home_remove().
 */
char *support_home(void);
void support_home_remove(char *home);
/* $CAY_LIBEXEC, else the directory of the build. */
const char *support_libexec(void);
/* Calls fn every few milliseconds until it is true or the time is over. */
bool support_until(bool (*fn)(void *arg), void *arg, int ms);

/* Boxes, files and fake processes in memory: true, false, echo WORDS, cat, sleep SECONDS, exit N.
 */
extern const cay_provider_ops cay__memory;
