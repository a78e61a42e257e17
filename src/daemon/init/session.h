/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon/init/session.h - a worker inside the sandbox that serves files, watches, ports and the
 * process list.
 *
 * init forks one for each session socket it is given; the worker drops to the asked user's rights,
 * serves one request after another and leaves when the socket ends. The client
 * (lib/provider/native/files.c) speaks to it directly; the keeper is not in the path. Both sides
 * treat the other's packets as hostile.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* Runs in the forked worker, already under the user's ids, root directory "/", workdir given. The
 * root may become another one between two requests: lock is held shared, flock(2), while one is
 * served. Never returns. Closes every descriptor but these two. */
_Noreturn void cay__session_main(int sock, int lock, const char *workdir, const char *home);

/* The same below any directory, until the socket ends; takes neither descriptor. Uses no global
 * state, so a test or the local provider can run it in a forked child. SIGPIPE must be ignored. */
void cay__session_serve(int sock, int root, const char *workdir, const char *home);
