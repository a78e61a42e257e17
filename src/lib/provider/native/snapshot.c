/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots of a box, and the layers they are. */
#include "native.h"
#include <base/base.h>
#include <base/fault.h>

static int check_name(const char *layer, cay_err *err)
{
    if (layer && cay__layer_valid(layer))
        return 0;
    return cay_fail_why(err, CAY_EINVAL, "layer_name",
                        "layer %.63s: a name is 1 to 63 of a-z, 0-9 and -",
                        CAY_OR(layer, "(none)"));
}

static int add_names(cay__buf *tail, const char *const *layers, size_t n, cay_err *err)
{
    if (n >= CAY_STACK_MAX)
        return cay_fail_why(err, CAY_ETOOBIG, "stack_full",
                            "%zu layers: a sandbox stands on at most %d; let them be merged", n,
                            CAY_STACK_MAX - 1);
    CAY_EACH_OF(layer, layers, n) {
        CAY_TRY(check_name(*layer, err));
        cay__buf_cstr(tail, *layer);
    }
    return 0;
}

/* Nothing runs: the upper itself becomes the layer. */
static int swap_upper(cay__nbox *b, const cay_call *call, const cay_snap *spec, cay_snapped *out,
                      cay_err *err)
{
    cay_m_layer m = { .a = spec->nlayers };
    cay__reply r = { 0 };
    CAY_AUTOBUF tail = CAY__BUF(CAY_TAIL_MAX);
    CAY_TRY(add_names(&tail, spec->layers, spec->nlayers, err));
    CAY_COPY(m.id, b->base.id);
    CAY_COPY(m.layer, spec->layer);
    CAY_FAULT("client.snapshot.send");
    CAY_TRY(cay__link_call(
        b->base.link, call,
        CAY__LINK_ASK(CAY_MSG_SNAPSHOT, m, .tail = tail.data, .tail_len = tail.len), &r, err));
    CAY_FAULT("client.snapshot.answered");
    out->method = "swap";
    out->stacked = true;
    out->frozen_us = r.snapped.frozen_us;
    return 0;
}

static int count_live(const cay__kept *k, void *arg)
{
    *(int *)arg += !k->p.ended;
    free((void *)k->labels); /* the callback's */
    return 0;
}

/* What is written above a directory of the host has an overlay of its own, so both are copied. When
 * no command runs, only init is left to be stopped, and nobody sees that. */
static int copy_both(cay__nbox *b, const cay_call *call, const cay_snap *spec, cay_snapped *out,
                     cay_err *err)
{
    cay_snap how = *spec;
    cay_err why = CAY_ERR_INIT;
    int live = 0;
    if (spec->how != CAY_SNAP_STOP)
        CAY_TRY(cay__procs_kept(b->base.link, b->base.id, call, count_live, &live, err));
    if (spec->how == CAY_SNAP_QUIET && live)
        return cay_fail_why(err, CAY_EBUSY, "processes_running", "%d commands run in the sandbox",
                            live);
    int rc = cay__nbox_clone(b, call, &how, out, &why);
    if (rc < 0 && !live && cay_err_is(&why, CAY_REASON_NO_FREEZER)) {
        how.how = CAY_SNAP_STOP;
        return cay__nbox_clone(b, call, &how, out, err);
    }
    return cay__err_pass(rc, &why, err);
}

int cay__nbox_snapshot(void *box, const cay_call *call, const cay_snap *spec, cay_snapped *out,
                       cay_err *err)
{
    int64_t start = cay__now_us();
    cay_err why = CAY_ERR_INIT;
    *out = (cay_snapped){ .size = sizeof *out };
    CAY_TRY(check_name(spec->layer, err));
    int rc = swap_upper(box, call, spec, out, &why);
    bool image = cay_err_is(&why, CAY_REASON_SNAPSHOT_IMAGE);
    if (rc < 0 && (image || cay_err_is(&why, CAY_REASON_SNAPSHOT_ON))) {
        CAY_TRY(copy_both(box, call, spec, out, err));
        if (image)
            out->method = "image";
        return 0;
    }
    bool runs = cay_err_is(&why, CAY_REASON_PROCESSES_RUNNING) ||
                cay_err_is(&why, CAY_REASON_SNAPSHOT_UNSUPPORTED);
    if (rc < 0 && runs && spec->how != CAY_SNAP_QUIET)
        return cay__nbox_clone(box, call, spec, out, err);
    CAY_TRY(cay__err_pass(rc, &why, err));
    out->total_us = (uint64_t)(cay__now_us() - start);
    return 0;
}

int cay__nbox_restack(void *box, const cay_call *call, const char *const *layers, size_t n,
                      cay_err *err)
{
    cay__nbox *b = box;
    cay_m_layer m = { .a = n };
    CAY_AUTOBUF tail = CAY__BUF(CAY_TAIL_MAX);
    CAY_COPY(m.id, b->base.id);
    CAY_TRY(add_names(&tail, layers, n, err));
    CAY_FAULT("client.restack.send");
    return cay__link_call(
        b->base.link, call,
        CAY__LINK_ASK(CAY_MSG_RESTACK, m, .tail = tail.data, .tail_len = tail.len), NULL, err);
}

int cay__native_layer_remove(void *self, const cay_call *call, const char *layer, cay_err *err)
{
    cay__native *n = self;
    cay_m_layer m = { .a = 0 };
    CAY_TRY(check_name(layer, err));
    CAY_TRY(cay__native_meet(n, call, err));
    CAY_COPY(m.layer, layer);
    return cay__link_call(&n->link, call, CAY__LINK_ASK(CAY_MSG_UNLAYER, m), NULL, err);
}
