/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guest/session.h - a worker inside the sandbox that serves files, watches, ports and the process list.
 *
 * init forks one for each session socket it is given; the worker drops to the asked user's rights,
 * serves one request after another and leaves when the socket ends. The client (provider/native/files.c)
 * speaks to it directly; the keeper is not in the path. Both sides treat the other's packets as hostile.
 */
#pragma once
#include <stdint.h>

/* Runs in the forked worker, already under the user's ids, root directory "/", workdir given.
 * Never returns. */
_Noreturn void cay__session_main(int sock, const char *workdir, const char *home);
