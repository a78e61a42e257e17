/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/client/events.h - what others write into files, as events: inotify(7) tells of it.
 *
 * Egress appends its audit records to files. What was written before the stream was opened is
 * history, for cay_net_log(). Records that nobody takes are dropped beyond a ceiling, and counted.
 *
 * cay-mount marks storage that died in a file of mounts/ (proto/mount.h), and is a writer of that
 * file for as long as it lives.
 */
#pragma once
#include "client.h"

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

typedef struct cay__mount_events cay__mount_events;

/* sandbox "": all of them. Adds its descriptor to `ep`, with the new object as its data. NULL:
 * nothing is ever mounted here. */
cay__mount_events *cay__mount_events_open(cay_client *client, const char *sandbox, int ep);
void cay__mount_events_close(cay__mount_events *m);
/* The sandbox of a mount that died and was not told yet; NULL: none. */
const char *cay__mount_events_take(cay__mount_events *m);
