/* SPDX-License-Identifier: Apache-2.0 */
/* Named volumes: cay-layer makes, measures and removes their directories, in the namespace that their owners belong to. */
#include "native.h"
#include "quota.h"
#include <base/base.h>
#include <layer/layer.h>

static int ask_tool(const cay__native *n, const cay_call *call, cay_volume_ask *ask, cay_err *err)
{
    static const char *const verbs[] = { "make", "look", "remove", "sweep" };
    const char *args[] = { verbs[ask->op - CAY_VOLUME_MAKE], ask->name };
    cay__layer_at at = { n->home, n->libexec[0] ? n->libexec : NULL };
    cay__layer_ask q = { .verb = "volume", .args = args, .nargs = 2 };
    cay__layer_done done = { 0 };
    CAY_TRY(cay__layer_run(&at, call, &q, &done, err));
    if (ask->op == CAY_VOLUME_LOOK) {
        ask->used = cay__rec_get_num(&done.rec);
        ask->inodes = cay__rec_get_num(&done.rec);
    }
    bool bad = done.rec.bad;
    cay__layer_done_clear(&done);
    return bad ? cay_fail_why(err, CAY_EUPSTREAM, "protocol", "cay-layer volume answered in a wrong form") : 0;
}

int cay__native_volume(void *self, const cay_call *call, cay_volume_ask *ask, cay_err *err)
{
    cay__native *n = self;
    if (ask->op < CAY_VOLUME_MAKE || ask->op > CAY_VOLUME_SWEEP)
        return cay_fail(err, CAY_EINVAL, "volume: unknown request %d", (int)ask->op);
    CAY_TRY(cay__native_meet(n, call, err));
    ask->hard = n->hello.features & CAY_FEAT_QUOTA;
    if (ask->op == CAY_VOLUME_REMOVE && ask->hard)
        cay__quota_drop(n->home_fd, ask->name);
    CAY_TRY(ask_tool(n, call, ask, err));
    return ask->op == CAY_VOLUME_MAKE && ask->limit && ask->hard ? cay__quota_volume(n->home_fd, ask->name, ask->limit, err) : 0;
}
