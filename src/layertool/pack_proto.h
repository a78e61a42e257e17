/* SPDX-License-Identifier: Apache-2.0 */
/* layertool/pack_proto.h - records of cay-pack, for both ends. */
#pragma once
#include <layer/record.h>

enum {
    CAY__REC_PROGRESS = CAY__REC_VERB + 32, /* numbers: items, bytes */
    CAY__REC_META, /* string: cay.json of a snapshot's archive, "" for a foreign one. Answered by
                      META: go on */
};
