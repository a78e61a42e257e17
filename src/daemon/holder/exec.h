/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/holder/exec.h - what happens to a process (exec.c), for where it is started (start.c). */
#pragma once
#include "child.h"
#include "host.h"

void cay__exec_on_ctl(cay__watch *w, uint32_t events);
void cay__exec_on_exit_status(holder_proc *p, const child_msg *m);
void cay__exec_on_in(cay__watch *w, uint32_t events);
void cay__exec_on_kill(cay__timer *t);
void cay__exec_on_linger(cay__timer *t);
extern const holder_stream_ops cay__exec_stream_ops;
void cay__exec_on_timeout(cay__timer *t);
