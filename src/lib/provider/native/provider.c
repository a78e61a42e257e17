/* SPDX-License-Identifier: Apache-2.0 */
/* The native provider as the client sees it. */
#include "disk.h"
#include "native.h"
#include <base/base.h>
#include <lib/provider/provider.h>
#include <lib/sandbox/limits.h>
#include <dirent.h>
#include <limits.h>
#include <pwd.h>

/* A sandbox that had one goes on with it; a new one gets one when it requires a limit that holds,
 * and nothing else holds it. */
static int disk_for(cay__native *n, const char *id, const cay_create *spec, bool kept, int *mnt,
                    int *spare, cay_err *err)
{
    if (kept && cay__disk_kept(n->home_fd, id))
        return cay__disk_again(n->home_fd, id, mnt, spare, err);
    if (!(n->hello.features & CAY_FEAT_IMAGE) || !cay__requires(spec, "disk-quota"))
        return 0;
    if (kept)
        return cay_fail_why(err, CAY_EISOLATION, "feature_missing",
                            "sandbox %s requires disk-quota, and has neither a disk image nor, any "
                            "more, a project quota: mount the state directory with prjquota",
                            id);
    if (spec->from.directory)
        return cay_fail_why(err, CAY_ENOTSUP, "disk_image_on",
                            "disk-quota with --on wants project quota: what is written above a "
                            "directory of the host does not go into a disk image");
    cay_limits l = spec->limits;
    cay__limits_fill(&l);
    if (l.disk == CAY_UNLIMITED)
        return cay_fail_why(
            err, CAY_EINVAL, "limit_out_of_range",
            "disk-quota is required and the disk unlimited: give a limit (--disk SIZE)");
    return cay__disk_make(n->home_fd, id, &l, spec->life.ephemeral, mnt, err);
}

static int op_open(const cay_provider_conf *conf, void **self, cay_err *err)
{
    CAY_TRY(cay__native_open(conf->home, conf->libexec, (cay__native **)self, err));
    cay__native *n = *self;
    n->image = cay__disk_there();
    n->disk = disk_for;
    n->volume_disk = cay__disk_volume_mount;
    return 0;
}

static void op_close(void *self)
{
    cay__native_look_end(self);
    cay__native_close(self);
}

static int op_create(void *self, const cay_call *call, const char *id, const cay_box_spec *spec,
                     void **box, cay_err *err)
{
    return cay__nbox_create(self, call, id, spec, false, (cay__nbox **)box, err);
}

static int op_start(void *self, const cay_call *call, const char *id, const cay_box_spec *spec,
                    void **box, cay_err *err)
{
    return cay__nbox_create(self, call, id, spec, true, (cay__nbox **)box, err);
}

static bool has_dir(const cay__native *n, const char *id)
{
    char path[48];
    struct stat st;
    CAY_JOIN(path, "sandboxes/", id);
    return fstatat(n->home_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static int op_attach(void *self, const cay_call *call, const char *id, const cay_json *state,
                     void **box, cay_err *err)
{
    int rc = cay__nbox_attach(self, call, id, (cay__nbox **)box, err);
    if (rc == CAY_EISOLATION && !has_dir(self, id)) /* where no keeper can be, none has made it */
        return cay_fail_why(err, CAY_EGONE, "not_running", "sandbox %s does not run", id);
    return rc;
}

static bool is_ours(int sandboxes, const char *id)
{
    static const char *const has[] = {
        "/upper", "/stack", "/image"
    }; /* while it is put onto another root it has no upper for a moment */
    char path[40];
    struct stat st;
    CAY_EACH(name, has)
        if (CAY_JOIN(path, id, *name) && fstatat(sandboxes, path, &st, AT_SYMLINK_NOFOLLOW) == 0)
            return true;
    return false;
}

/* Directories are the list: a sandbox that runs has one, and so has one that only has files left.
 * Other providers have theirs beside ours; only ours have these. */
static int op_list(void *self, const cay_call *call, cay__on_id *fn, void *arg, cay_err *err)
{
    cay__native *n = self;
    /* With --root-keeper it is a link to where root keeps them. */
    CAY_AUTODIR *d = cay__dir_open(n->home_fd, "sandboxes/.");
    if (!d && errno == ENOENT)
        return 0;
    if (!d)
        return cay_fail_sys(err, "list sandboxes");
    int rc = 0;
    for (struct dirent *e; rc == 0 && (e = cay__dir_next(d));)
        if (cay__id_valid(e->d_name, 'c') && is_ours(dirfd(d), e->d_name))
            rc = fn(e->d_name, arg);
    return rc;
}

static int op_remove_files(void *self, const cay_call *call, const char *id, cay_err *err)
{
    cay__native *n = self;
    cay_err e = CAY_ERR_INIT;
    int rc = cay__link_box(&n->link, id, call, CAY_MSG_DESTROY, NULL, &e);
    if (rc == CAY_ENOENT || (rc == CAY_EISOLATION && !has_dir(n, id)))
        return 0;
    return cay__err_pass(rc, &e, err);
}

static int op_events(void *self, const char *id, int *fd, cay_err *err)
{
    cay__native *n = self;
    cay_m_box m = cay__link_of(CAY_OR(id, ""));
    cay__reply r = { 0 };
    return cay__link_begin(&n->link, NULL, CAY__LINK_ASK(CAY_MSG_EVENTS, m), &r, fd, err);
}

typedef struct orphan {
    cay__native *n;
    const cay_call *call;
    cay__on_id *known;
    void *arg;
    size_t removed;
} orphan;

static int on_dir(const char *id, void *arg)
{
    orphan *o = arg;
    cay__nbox *b;
    if (o->known(id, o->arg))
        return 0;
    /* An ephemeral one has no row but an owner: it is left alone while it runs. */
    if (cay__nbox_attach(o->n, o->call, id, &b, NULL) == 0) {
        bool ephemeral = b->info.flags & CAY_CREATE_EPHEMERAL;
        cay__nbox_release(b);
        if (ephemeral)
            return 0;
    }
    if (op_remove_files(o->n, o->call, id, NULL) == 0)
        o->removed++;
    return 0;
}

static int op_gc(void *self, const cay_call *call, cay__on_id *known, void *arg, size_t *removed,
                 cay_err *err)
{
    orphan o = { self, call, known, arg, 0 };
    CAY_TRY(op_list(self, call, on_dir, &o, err));
    *removed = o.removed;
    cay__native_strays(self); /* of others: done, not told */
    return 0;
}

/* Without namespaces there may still be level 1. Its rows, with what forbids more. */
static int probe_below(const cay__native *n, const cay_err *why, cay_probe **out, cay_err *err)
{
    cay_provider_conf conf = { .size = sizeof conf, .home = n->home, .libexec = n->libexec };
    cay_wall layers[CAY__WALLS_MAX];
    const char *remedy, *text = cay__native_why_not(why, &remedy);
    cay_probe *p = NULL;
    void *self;
    CAY_TRY(cay__process.open(&conf, &self, err));
    int rc = cay__process.probe(self, &p, err);
    cay__process.close(self);
    CAY_TRY(rc);
    size_t k = 0;
    if (p->level == CAY_LEVEL_NONE)
        layers[k++] = (cay_wall){ "user-namespace", "off", text, remedy };
    for (size_t i = 0; i < p->nwalls && k < CAY__WALLS_MAX; i++) {
        const cay_wall *l = &p->walls[i];
        layers[k++] =
            strstr(l->name, "-namespace") ? (cay_wall){ l->name, l->state, text, remedy } : *l;
    }
    *out = cay__probe_new(p->level, p->mode, layers, k);
    cay_probe_free(p);
    return 0;
}

/* A manager that ends with the last session takes its scopes along. */
static void note_linger(const cay_m_hello *h, cay_wall *list, size_t n)
{
    char manager[PATH_MAX], path[PATH_MAX];
    const struct passwd *pw = getpwuid(geteuid());
    if (h->mode == CAY_MODE_ROOT || !pw || !cay__native_manager(manager, sizeof manager) ||
        (CAY_JOIN(path, "/var/lib/systemd/linger/", pw->pw_name) && access(path, F_OK) == 0))
        return;
    CAY_EACH_OF(it, list, n)
        if (!strcmp(it->name, "memory-limit") && !strcmp(it->state, "on"))
            *it = (cay_wall){ it->name, it->state,
                              "until your last session ends, which stops all sandboxes; "
                              "loginctl enable-linger keeps them",
                              "loginctl enable-linger" };
}

static int op_probe(void *self, cay_probe **out, cay_err *err)
{
    cay__native *n = self;
    cay_wall layers[CAY__WALLS_MAX];
    cay_err why = CAY_ERR_INIT;
    static const char *const modes[] = { "root", "range", "single" };
    if (cay__native_meet(n, NULL, &why) < 0) {
        if (cay_err_is(&why, CAY_REASON_NAMESPACES_REFUSED))
            return probe_below(n, &why, out, err);
        const char *remedy, *text = cay__native_why_not(&why, &remedy);
        layers[0] = (cay_wall){ "keeper", "off", text, remedy };
        *out = cay__probe_new(CAY_LEVEL_NONE, "none", layers, 1);
        return 0;
    }
    size_t k = cay__native_walls(&n->hello, layers, CAY__WALLS_MAX);
    note_linger(&n->hello, layers, k);
    *out =
        cay__probe_new((cay_level)n->hello.level,
                       n->hello.mode < CAY_LEN(modes) ? modes[n->hello.mode] : "single", layers, k);
    return 0;
}

const cay_provider_ops cay__provider_native = {
    CAY__NATIVE_HOT,
    .instead = "process",
    .open = op_open,
    .close = op_close,
    .create = op_create,
    .start = op_start,
    .attach = op_attach,
    .list = op_list,
    .remove_files = op_remove_files,
    .events = op_events,
    .gc = op_gc,
    .volume = cay__native_volume,
    .look = cay__native_look,
    .version = cay__native_version,
    .fences = true,
    .probe = op_probe,
    .snapshot = cay__nbox_snapshot,
    .restack = cay__nbox_restack,
    .layer_remove = cay__native_layer_remove,
    .purge = cay__native_purge,
};
