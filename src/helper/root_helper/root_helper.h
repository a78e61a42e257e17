/* SPDX-License-Identifier: Apache-2.0 */
/* helper/root_helper/root_helper.h - the parts of cay-hand. */
#pragma once
#include <proto/root_helper.h>
#include <lib/provider/native/native.h>
#include <sys/types.h>

enum { HAND_FDS = 12 }; /* that a request may bring */

typedef struct hand {
    cay__native *n; /* of HOME.root */
    const char *home;
    dev_t dev; /* of HOME */
    uid_t uid;
    gid_t gid;
} hand;

/* One request: what came with it, and where the answer goes, which stays open as long as the asker
 * wants the work done. */
typedef struct hand_job {
    hand_ask ask;
    int conn, fds[HAND_FDS], nfds;
} hand_job;

/* Makes HOME.root, root's own, in which the server's group may look and nothing else. */
int trees_open(const char *home, gid_t gid, char *path, size_t cap, int *fd, cay_err *err);
/* Where it is asked; CAY_EBUSY when another serves this tree. */
int trees_listen(int tree, gid_t gid, int *sock, cay_err *err);
/* As the server's user: the links by which its library finds what is in there. */
int trees_link(const char *home, const char *tree, cay_err *err);

/* In a process that is about to execute a program: from now on there is nothing of the host in its
 * sight. The directory that stands for HOME.root; -1 and errno. looks_at_processes: it keeps the
 * host's, and its rights. */
int jail_enter(const hand *h, bool looks_at_processes);

void hand_answer_send(int sock, int code, const cay_err *err, hand_answer *a, int fd);
/* A connection to the keeper that cannot grant anything of the host; -1: there is no keeper, or it
 * leaves. */
int hand_dial(const hand *h);
/* In a process of its own: does it, answers, and waits for what it started. */
void hand_work(const hand *h, hand_job *j);
