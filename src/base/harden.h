/* SPDX-License-Identifier: Apache-2.0 */
/* base/harden.h - what a program of root's gives up for itself and for all that it starts, before
 * it reads anything; before any thread. */
#pragma once
#include <cay/error.h>

int cay__harden(cay_err *err);
void cay__harden_before_reexec(
    void); /* before the program begins anew: what was given up stays so */
