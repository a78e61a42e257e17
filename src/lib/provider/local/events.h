/* SPDX-License-Identifier: Apache-2.0 */
/* lib/provider/local/events.h - the events of boxes that each have a process which tells them. */
#pragma once
#include <cay/error.h>

typedef struct cay__events_from {
    const char *run; /* directory where a name appears when a box begins to run: its id */
    int boxes;       /* directory that a box's own, by its id, leaves when it is removed */
    int (*reach)(void *arg, const char *id,
                 int *sock); /* a connection to who tells; negative: none yet */
    void (*done)(void *arg);
    void *arg;
} cay__events_from;

/* As `events` of cay_provider_ops. Takes arg, also when it fails; done() is called at the end, from
 * another thread. */
int cay__events_listen(const cay__events_from *from, const char *id, int *fd, cay_err *err);
