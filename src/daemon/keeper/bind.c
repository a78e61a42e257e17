/* SPDX-License-Identifier: Apache-2.0 */
/* A root for a parked sandbox: the one that it has already, or what the request names. */
#include "keeper.h"
#include <proto/mnt.h>

const char *pending_field(const pending *p, unsigned field)
{
    const char *s = p->config, *end = p->config + p->config_len;
    for (; field && s < end; field--)
        s += strlen(s) + 1;
    if (s < end)
        return s;
    return "";
}

/* Not the one that every sandbox is parked with. */
bool special_root(const pending *p)
{
    return p->m.grants_store ||
           (p->m.flags & (CAY_CREATE_ROOT_FD | CAY_CREATE_KEPT | CAY_CREATE_DURABLE |
                          CAY_CREATE_ON | CAY_CREATE_DISK)) ||
           p->m.nlayers || strcmp(p->m.layer, keeper.layer) != 0;
}

/* Sends BIND with all descriptors; returns the step that failed. root: another than it was parked
 * with, or -1. */
static const char *send_bind(keeper_box *b, pending *p, int root)
{
    cay_g_bind m = { .flags = CAY_GB_USR };
    char targets[CAY_GRANTS_MAX * 256];
    int fds[CAY__FDS_MAX], n = 0, grants = p && (p->m.flags & CAY_CREATE_ROOT_FD);
    bool image = keeper.roots[b->root].image;
    if (p)
        image = p->m.flags & CAY_CREATE_IMAGE;
    if (grants || image)
        m.flags = CAY_GB_FOREIGN;
    if (p) {
        if (p->m.flags & CAY_CREATE_DURABLE)
            m.flags |= CAY_GB_DURABLE;
        m.grants_rw = p->m.grants_rw &
                      ~(p->m.grants_store |
                        p->m.grants_mount); /* the host's own tools obey nothing in a volume */
        CAY_COPY(m.hostname, pending_field(p, 2));
    }
    if (root >= 0) {
        m.flags |= CAY_GB_OVERLAY;
        fds[n++] = root;
    } else if (keeper.mode == CAY_MODE_ROOT) {
        m.flags |= CAY_GB_HERE;
    } else {
        CAY_COPY(m.layer, p ? p->m.layer : keeper.layer);
        if (p && special_root(p))
            CAY_COPY(m.dir, b->id);
        else
            pool_dir(b, m.dir, sizeof m.dir);
        if (grants) {
            m.flags |= CAY_GB_LOWER;
            fds[n++] = p->mounts[0];
        }
    }
    size_t at = 0;
    for (int i = grants; p && i < p->nmounts; i++) {
        bool own = ((p->m.grants_store | p->m.grants_mount) >> (i - grants) & 1) ||
                   ((p->m.flags & CAY_CREATE_ON) && i == grants);
        if (keeper.mode == CAY_MODE_ROOT && !own &&
            mnt_setattr(p->mounts[i], "", AT_EMPTY_PATH, MOUNT_ATTR_IDMAP, 0, b->userns_fd) < 0)
            return "a granted directory's filesystem cannot show other owners";
        fds[n++] = p->mounts[i];
        size_t len = strlen(p->targets[i - grants]) + 1;
        memcpy(targets + at, p->targets[i - grants], len);
        at += len;
        m.ngrants++;
    }
    if (!box_send(b, CAY_G_BIND, &m, sizeof m, targets, at, fds, n))
        return "init";
    return NULL;
}

static void bind_failed(keeper_box *b, int sys, const char *step)
{
    pending *p = b->pending;
    if (p) {
        dprintf(2, "bind: %s: %s\n", step, strerror(sys));
        reply_error(p->c, cay_code_of_errno(sys), sys, "bind_failed",
                    "the root could not be mounted", step);
        b->pending = NULL;
        b->forget_files = !(p->m.flags & CAY_CREATE_KEPT);
        pending_free(p);
    } else {
        pool_failed(b, sys, step);
    }
    box_stop(b, "bind-failed", b->forget_files);
}

static void on_root_made(job_wait *j, const cay_job_done *d, int *fds, int nfds)
{
    keeper_box *b = j->b;
    keeper.trash |= d->trash;
    if (!b && j->dir[0] && !box_find(j->dir))
        box_remove_files(j->dir, -1);
    if (!b || b->phase != BOX_BINDING)
        return;
    pending *p = b->pending;
    if (p && (p->m.flags & CAY_CREATE_ON) && nfds > 0) { /* instead of the directory itself */
        int *shown = &p->mounts[(p->m.flags & CAY_CREATE_ROOT_FD) != 0];
        close(*shown);
        *shown = CAY_STEAL_FD(fds[--nfds]);
    }
    const char *step;
    if (d->sys)
        step = d->step;
    else
        step = send_bind(b, p, nfds ? fds[0] : -1);
    if (step)
        bind_failed(b, CAY_OR(d->sys, errno), step);
}

/* One that is kept ready, where init cannot be born with it. */
static const char *ask_ahead(keeper_box *b)
{
    keeper_job j = { .type = KEEPER_JOB_ROOT, .mode = (uint32_t)keeper.mode, .block = b->block };
    pool_dir(b, j.name, sizeof j.name);
    CAY_COPY(j.path, keeper.roots[b->root].stack);
    if (job_send(job_zygote(), &j, NULL, 0, &(job_wait){ .b = b, .fn = on_root_made }))
        return NULL;
    return "zygote";
}

/* A root of its own wants directories and, as root, an overlay: a zygote's work. */
static const char *ask_root(keeper_box *b, pending *p)
{
    int *lower = p->m.flags & CAY_CREATE_ROOT_FD ? &p->mounts[0] : NULL, fds[2 + CAY_GRANTS_MAX],
        n = 0, first = lower != NULL;
    keeper_job j = { .type = KEEPER_JOB_ROOT,
                     .mode = (uint32_t)keeper.mode,
                     .block = b->block,
                     .durable = p->m.flags & CAY_CREATE_DURABLE,
                     .lower = lower != NULL,
                     .inside = keeper.mode != CAY_MODE_ROOT && !p->m.nlayers && !lower,
                     .on = p->m.flags & CAY_CREATE_ON,
                     .disk = p->disk >= 0 };
    errno = EOPNOTSUPP;
    if ((lower || j.on) && b->block == STORE_BASE)
        return "it wants own-ids (Linux 5.19)";
    if (lower && keeper.mode == CAY_MODE_ROOT &&
        mnt_setattr(*lower, "", AT_EMPTY_PATH, MOUNT_ATTR_IDMAP, 0, b->userns_fd) < 0)
        return "the root directory's filesystem cannot show other owners";
    if (!lower && !(p->m.flags & CAY_CREATE_IMAGE) && strcmp(p->m.layer, keeper.layer) &&
        rootfs_seal(p->m.layer) < 0)
        return "layer";
    CAY_COPY(j.name, b->id);
    CAY_COPY(j.path, p->stack);
    /* Volumes keep their owners as layers do, and are shown through the same map. */
    for (int i = 0; i < p->nmounts; i++)
        if (i < first || (j.on && i == first) || p->m.grants_store >> (i - first) & 1)
            fds[n++] = p->mounts[i];
    if (p->disk >= 0)
        fds[n++] = p->disk;
    job_wait w = { .b = b, .fn = on_root_made };
    if (!(p->m.flags & CAY_CREATE_KEPT))
        memcpy(w.dir, b->id, sizeof w.dir);
    if (job_send(job_zygote(), &j, fds, n, &w))
        return NULL;
    return "zygote";
}

void box_bind(keeper_box *b, pending *p)
{
    b->phase = BOX_BINDING;
    b->pending = p;
    if (p) {
        p->b = b;
        /* From here on the box is the sandbox's: a crash finds it by this record. */
        box_take(b, &p->m);
        journal_box(J_TAKEN, b);
    }
    CAY_FAULT("keeper.bind.intent");
    const char *step;
    if (p && special_root(p))
        step = ask_root(b, p);
    else if (!p && b->root)
        step = ask_ahead(b);
    else
        step = send_bind(b, p, -1);
    CAY_FAULT("keeper.bind.sent");
    if (step)
        bind_failed(b, errno, step);
}

void box_bound(keeper_box *b, const cay_g_result *r)
{
    char step[sizeof r->step];
    CAY_COPY(step, r->step);
    pending *p = b->pending;
    if (r->sys || b->phase != BOX_BINDING) {
        bind_failed(b, r->sys, step);
        return;
    }
    b->phase = BOX_BOUND;
    keeper.pool_fails = 0;
    CAY_FAULT("keeper.bind.bound");
    if (p) {
        b->pending = NULL;
        box_hand_out(b, p);
    } else {
        pool_serve();
    }
}
