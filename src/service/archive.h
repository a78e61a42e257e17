/* SPDX-License-Identifier: Apache-2.0 */
/* service/archive.h - what export, import and transfer share. */
#pragma once
#include "snapshot.h"

CAY_DEFINE_AUTO(cay_snapshot, cay_snapshot_free)

#define CAY__NOTE_IMPORT "import" /* id of a snapshot elsewhere → id of the one that its archive became here */
