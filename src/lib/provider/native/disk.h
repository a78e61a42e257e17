/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/provider/native/disk.h - a disk limit that holds where the state directory has no project
 * quota: what the sandbox writes lives in a filesystem of its own, an image of that size mounted by
 * a loop device. For requests that require `disk-quota`, as root.
 *
 * The client makes and mounts it and hands the keeper the mount, so that the privileged program
 * runs no mkfs. A sandbox that is kept has its image as sandboxes/ID/image; that of a throw-away
 * one has no name and goes with its last mount. The overlay holds the mount, the mount the device.
 * That of a volume is volumes/.image-NAME, and its root is the volume.
 */
#pragma once
#include <cay/client.h>

/* Root, loop devices and mkfs.ext4 are there. */
bool cay__disk_there(void);
/* Whether sandboxes/ID has one from an earlier life. */
bool cay__disk_kept(int home_fd, const char *id);
/* The mount for a sandbox that is to be made; or, kept: of one that is started again. */
int cay__disk_make(int home_fd, const char *id, const cay_limits *limits, bool ephemeral, int *mnt,
                   cay_err *err);
/* *spare: a file in it that gave its room for the directories of the next overlay: a full disk has
 * no other. It gets it back by fallocate(2) of CAY__DISK_SPARE bytes once they are made. */
#define CAY__DISK_SPARE 65536
int cay__disk_again(int home_fd, const char *id, int *mnt, int *spare, cay_err *err);

/* A volume's, its root owned by that id; one that is there is success. One that was cut short is
 * made anew. */
int cay__disk_volume_make(int home_fd, const char *name, uint64_t bytes, uint32_t owner,
                          cay_err *err);
bool cay__disk_volume_there(int home_fd, const char *name);
/* A mount of it, any number at once. CAY_ENOENT, nothing said: this volume has none. */
int cay__disk_volume_mount(int home_fd, const char *name, int *mnt, cay_err *err);
void cay__disk_volume_remove(int home_fd, const char *name);
