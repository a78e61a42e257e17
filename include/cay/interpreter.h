/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay/interpreter.h - the code interpreter inside a sandbox: E2B's, on port 49999 of its loopback
 * (docs/wire/e2b.md tells what it is asked).
 *
 *   cay_interpreter_connect()   a connection to it, started where it does not run
 *
 * It is one small static program. A template whose config says `interpreter` has it as a service of
 * that name, which comes up with each sandbox; into any other it is put when it is wanted first, as
 * a process with that tag. What answers on the port is the sandbox's own: believe it no more than
 * any program inside.
 */
#pragma once
#include <cay/error.h>
#include <cay/sandbox.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CAY_INTERPRETER_PORT 49999

/* CAY_ESTATE, "interpreter_stopped": it is a service here, and somebody stopped it. CAY_ETIMEOUT:
 * its port takes no connection within ten seconds. */
CAY_API int cay_interpreter_connect(cay_sandbox *sb, const cay_call *call, int *fd, cay_err *err);

#ifdef __cplusplus
}
#endif
