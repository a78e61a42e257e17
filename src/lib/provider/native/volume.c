/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Named volumes: cay-layer makes, measures and removes their directories, in the namespace that
 * their owners belong to. One whose limit has to hold where there is no project quota is a disk
 * image instead (disk.h), and has no directory.
 */
#include "disk.h"
#include "native.h"
#include "box.h"
#include <base/base.h>
#include <lib/snapshot/layer.h>
#include <sys/vfs.h>

#define OWNER                                                                                      \
    (0x70000000u +                                                                                 \
     1000) /* the sandboxes' user 1000 as layers have it: STORE_BASE of daemon/keeper/keeper.h */
enum { RESERVED = 9 }; /* inodes that ext4 keeps for itself, its root not counted */

static int ask_tool(const cay__native *n, const cay_call *call, cay_volume_request *ask,
                    cay_err *err)
{
    static const char *const verbs[] = { "make", "look", "remove", "sweep" };
    const char *args[] = { verbs[ask->op - CAY_VOLUME_MAKE], ask->name };
    cay__layer_at at = { n->home, CAY_IF(n->libexec[0], n->libexec) };
    cay__layer_ask q = { .verb = "volume", .args = args, .nargs = 2 };
    cay__layer_done done = { 0 };
    CAY_TRY(cay__layer_run(&at, call, &q, &done, err));
    if (ask->op == CAY_VOLUME_LOOK) {
        ask->used = cay__rec_get_num(&done.rec);
        ask->inodes = cay__rec_get_num(&done.rec);
    }
    bool bad = done.rec.bad;
    cay__layer_done_clear(&done);
    if (bad)
        return cay_fail_why(err, CAY_EUPSTREAM, "protocol",
                            "cay-layer volume answered in a wrong form");
    return 0;
}

/* *there: it has an image of its own; then what that holds is the answer, and no walk is made. */
static int look_disk(const cay__native *n, cay_volume_request *ask, bool *there, cay_err *err)
{
    struct statfs st;
    CAY_AUTOFD mnt = -1;
    int rc = cay__disk_volume_mount(n->home_fd, ask->name, &mnt, err);
    *there = rc == 0;
    if (rc < 0) {
        if (rc == CAY_ENOENT)
            return 0;
        return rc;
    }
    CAY_TRY_SYS(fstatfs(mnt, &st), err, "look at the disk image");
    ask->used = (uint64_t)(st.f_blocks - st.f_bfree) * (uint64_t)st.f_bsize;
    ask->inodes = CAY_MAX((uint64_t)(st.f_files - st.f_ffree), RESERVED) - RESERVED;
    ask->hard = true;
    return 0;
}

static int make_disk(const cay__native *n, cay_volume_request *ask, cay_err *err)
{
    if (!(n->hello.features & CAY_FEAT_IMAGE))
        return cay_fail_why(
            err, CAY_EISOLATION, "feature_missing",
            "a limit that the kernel holds wants a state directory with project quota, or root "
            "with loop devices and mkfs.ext4; `cay doctor` tells more");
    CAY_TRY(cay__disk_volume_make(n->home_fd, ask->name, ask->limit, OWNER, err));
    ask->hard = true;
    return 0;
}

int cay__native_volume(void *self, const cay_call *call, cay_volume_request *ask, cay_err *err)
{
    cay__native *n = self;
    bool there = false;
    if (ask->op < CAY_VOLUME_MAKE || ask->op > CAY_VOLUME_HELD)
        return cay_fail(err, CAY_EINVAL, "volume: unknown request %d", (int)ask->op);
    CAY_TRY(cay__native_meet(n, call, err));
    ask->hard = n->hello.features & CAY_FEAT_QUOTA;
    if (ask->op == CAY_VOLUME_MAKE && ask->must && !ask->hard)
        return make_disk(n, ask, err);
    if (ask->op == CAY_VOLUME_HELD) {
        ask->hard = cay__disk_volume_there(n->home_fd, ask->name) || ask->hard;
        return 0;
    }
    if (ask->op == CAY_VOLUME_LOOK)
        CAY_TRY(look_disk(n, ask, &there, err));
    if (there)
        return 0;
    if (ask->op == CAY_VOLUME_REMOVE) {
        if (ask->hard)
            cay__quota_drop(n->home_fd, ask->name);
        cay__disk_volume_remove(n->home_fd, ask->name);
    }
    CAY_TRY(ask_tool(n, call, ask, err));
    if (ask->op == CAY_VOLUME_MAKE && ask->limit && ask->hard)
        return cay__quota_volume(n->home_fd, ask->name, ask->limit, err);
    return 0;
}
