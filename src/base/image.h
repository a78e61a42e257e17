/* SPDX-License-Identifier: Apache-2.0 */
/* base/image.h - a filesystem that lives in a file, shown by a loop device. Root only. */
#pragma once
#include <stdbool.h>

/* The filesystem of an ext4 image (opened for reading and writing) as a detached mount, nosuid and
 * nodev; -1 with errno and *step. One that is mounted already is shown once more, never by a second
 * device. The device goes by itself with the last mount, whoever is killed. */
int cay__image_mount(int image, const char **step);
/* Whether it is mounted now, anywhere. */
bool cay__image_mounted(int image);
