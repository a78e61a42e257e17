/* SPDX-License-Identifier: Apache-2.0 */
/* cli/serve_user.h - a server that root starts and that is not root. */
#pragma once
#include "opt.h"
#include <cay/error.h>

/* From now on this process is that user for ever (with root_keeper it stays root, and cay-hand,
 * which it has to execute, starts the server as that user), with a state directory and a runtime
 * directory of that user's, in "/", with few of root's variables, and what it executes has of what
 * is open only 0, 1, 2 and the sockets fd:N of `listen`. */
int serve_as(const char *name, bool root_keeper, const opt_list *listen, cay_err *err);
