/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/provider/native/root_helper.h - what somebody who is not root asks of cay-hand
 * (proto/root_helper.h), which is.
 *
 *   cay__hand_there()  is this a state directory whose keeper and trees are root's, while we are
 * not cay__hand_ask()    one question and its answer cay__hand_let_go() what was started for us
 * ends
 */
#pragma once
#include <cay/client.h>
#include <proto/root_helper.h>

bool cay__hand_there(int home_fd);
/* It is one, and nobody answers there: the store can be read and written, and nothing be done with
 * sandboxes. */
bool cay__hand_gone(int home_fd);
/* fds: what goes along. *fd: where a descriptor of the answer goes, or NULL. *leash: what was
 * started lives as long as that is open, or NULL. */
int cay__hand_ask(int home_fd, const cay_call *call, const hand_ask *ask, const int *fds, int nfds,
                  hand_answer *out, int *fd, int *leash, cay_err *err);
/* Closes it, and waits until what it held has ended. */
void cay__hand_let_go(int *leash);
