/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/store/row.h - a record as it comes from disk: judged before anybody believes it, and kept.
 */
#pragma once
#include <cay/sys/store.h>

#define CAY__WARM_TENANT                                                                           \
    ".warm" /* of sandboxes that are nobody's yet (warm.h): no tenant's name begins with a dot */

/* The columns as read; lengths tell a NUL inside. */
typedef struct cay__cols {
    const char *text[10]; /* in this order */
    size_t len[10];
    int64_t created_ms, changed_ms, version;
} cay__cols;
enum {
    CAY__COL_ID,
    CAY__COL_NAME,
    CAY__COL_PROVIDER,
    CAY__COL_REASON,
    CAY__COL_STATE,
    CAY__COL_SPEC,
    CAY__COL_BOX,
    CAY__COL_LABELS,
    CAY__COL_METADATA,
    CAY__COL_TENANT
};

/* A row that owns its strings. What cannot be believed makes it CAY_DAMAGED with the cause as
 * reason; then labels are "{}", metadata and box "", and spec is what was there. */
typedef struct cay__row {
    cay_row row;
    char text[];
} cay__row;
cay__row *cay__row_new(const cay__cols *cols); /* free() it */
cay__row *cay__row_copy(const cay_row *row);   /* the same, believed already */

/* A name that a tenant may have. */
bool cay__tenant_valid(const char *name);
/* All of the filter but limit and after. */
bool cay__row_matches(const cay_row *row, const cay_filter *filter);
