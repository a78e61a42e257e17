/* SPDX-License-Identifier: Apache-2.0 */
#include "fetch.h"
#include <base/base.h>

int cay__fetch_entry(cay_service *svc, const cay_call *call, const cay__fetch_ask *ask, cay__fetched *out, cay_err *err)
{
    (void)svc, (void)call, (void)out;
    return cay_fail_why(err, CAY_ENOTSUP, "fetch_unsupported", "entry %.80s: this build cannot fetch a %s; copy it to the host and use local_dir or local_file", ask->entry,
                        ask->type);
}

void cay__fetched_clear(cay__fetched *f)
{
    if (f->drop)
        f->drop(f);
    cay__close_fd(&f->fd);
    *f = (cay__fetched){ .fd = -1 };
}
