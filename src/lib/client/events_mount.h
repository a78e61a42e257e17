/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/client/events_mount.h - storage that died, as events.
 *
 * cay-mount marks it in a file of mounts/ (proto/mount.h), and is a writer of that file for as
 * long as it lives: inotify(7) tells of both.
 */
#pragma once
#include "client.h"

typedef struct cay__mount_events cay__mount_events;

/* sandbox "": all of them. Adds its descriptor to `ep`, with the new object as its data. NULL:
 * nothing is ever mounted here. */
cay__mount_events *cay__mount_events_open(cay_client *client, const char *sandbox, int ep);
void cay__mount_events_close(cay__mount_events *m);
/* The sandbox of a mount that died and was not told yet; NULL: none. */
const char *cay__mount_events_take(cay__mount_events *m);
