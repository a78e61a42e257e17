/* SPDX-License-Identifier: Apache-2.0 */
/* Other words for a sandbox that is there. */
#include "client.h"
#include "spec.h"
#include <base/call.h>
#include <lib/sandbox/limits.h>

int cay_sandbox_update(cay_sandbox *sb, const cay_call *call, const cay_update *given, cay_err *err)
{
    cay_client *client = sb->owner;
    cay_update u;
    CAY_AUTOFREE char *labels = NULL;
    CAY_TRY(cay__spec_take(&u, sizeof u, given, "cay_update", err));
    CAY_TRY(cay__call_check(call, "update", err));
    if (!client)
        return cay_fail_why(err, CAY_ENOTSUP, "not_supported",
                            "sandbox %s has no record that could be changed", sb->id);
    /* As strict as when it is made. */
    cay_create c = { .size = sizeof c,
                     .name = cay__text_or(u.name, NULL),
                     .labels = u.labels,
                     .metadata = u.metadata };
    CAY_TRY(cay__create_check(&c, client->home_fd, client->run, err));
    CAY_TRY(cay__metadata_check(u.metadata, err));
    if (u.labels && !(labels = cay__pairs_text(u.labels)))
        return cay_fail_why(err, CAY_ETOOBIG, "labels_too_big", "the labels are too long together");
    return client->store->rename(client->db, sb->id, u.name, labels, u.metadata, err);
}
