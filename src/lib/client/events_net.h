/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/client/events_net.h - the audit records of egress as events.
 *
 * Egress appends lines to files; here inotify(7) tells of them. What was written before the stream
 * was opened is history, for cay_net_log(). Records that nobody takes are dropped beyond a ceiling,
 * and counted.
 */
#pragma once
#include "client.h"
#include <base/buf.h>

typedef struct cay__net_events cay__net_events;

/* sandbox "": all of them. Adds its descriptors to `ep`, each with the new object as its data.
 * NULL: this host gives no inotify. */
cay__net_events *cay__net_events_open(cay_client *client, const char *sandbox, int ep);
void cay__net_events_close(cay__net_events *n);
/* Takes in what egress wrote since. */
void cay__net_events_read(cay__net_events *n);
/* The oldest record not yet given; NULL: none. It lives until the next call. *lost: records dropped
 * before it. */
const char *cay__net_events_take(cay__net_events *n, int *lost);
