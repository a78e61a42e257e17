/* SPDX-License-Identifier: Apache-2.0 */
/* cli/serve_user.h - a server that root starts and that is not root. */
#pragma once
#include <cay/error.h>

/* From now on this process is that user for ever, with a state directory and a runtime directory of that user's. */
int serve_as(const char *name, cay_err *err);
