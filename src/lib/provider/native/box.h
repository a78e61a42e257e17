/* SPDX-License-Identifier: Apache-2.0 */
/* lib/provider/native/box.h - what the files of a box share: handles (box.c), create requests
 * (create.c), owners (own.c), handles without a service (alone.c). */
#pragma once
#include "native.h"
#include <cay/client.h>
#include <cay/error.h>

/* A create that goes out with the first command: one round trip for both. */
struct wish {
    cay_m_create m;
    size_t len;
    char tail[];
};

typedef struct cay__look {
    cay_m_boxinfo info; /* of the last */
    int n;
} cay__look;

cay__nbox *cay__nbox_new(cay__native *n, const char *id);
/* How many boxes have an id that begins so, and what the keeper says of one. */
int cay__nbox_look_up(cay__native *n, const cay_call *call, const char *id, cay__look *l,
                      cay_err *err);
/* A handle on the one that was found. CAY_EGONE: there is none, or it is stopped. */
int cay__nbox_seen(cay__native *n, const cay__look *l, const char *id, cay__nbox **out,
                   cay_err *err);

/* The connection keeps it alive from now on; and no longer. */
void cay__nbox_own(cay__nbox *b, int sock);
void cay__nbox_disown(cay__nbox *b);

/* A limit on a sandbox's disk that the kernel holds: project quota of
 * ext4 and xfs.
 *
 * The client sets it, after the keeper has made the sandbox and before anybody has a handle on it:
 * no command can have run. That needs no more rights than root's client has, and keeps it out of
 * the privileged program. The keeper's helper reads the use and forgets the limit when it removes
 * the files. */

/* Root, and the state directory is on a filesystem mounted with project quota that enforces. */
bool cay__quota_there(int home_fd);
/* Gives the sandbox's directory a project of its own, if it has none yet, and that project its
 * limits. */
int cay__quota_set(int home_fd, const char *id, uint64_t disk, uint64_t inodes, cay_err *err);
/* The same for a named volume; and no limit any more, before its directory goes. */
int cay__quota_volume(int home_fd, const char *name, uint64_t bytes, cay_err *err);
void cay__quota_drop(int home_fd, const char *name);

/* Which disk a limit of I/O holds on. */

/* The whole disk below the state directory, as dev_t: the kernel throttles no partition. home is
 * for the message. */
int cay__throttle_disk(int home_fd, const char *home, uint64_t *dev, cay_err *err);
