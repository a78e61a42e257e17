/* SPDX-License-Identifier: Apache-2.0 */
/* The create request: what the keeper is told, and what has to be settled before anybody has the
 * sandbox. */
#include "box.h"
#include "disk.h"
#include "root_helper.h"
#include <base/base.h>
#include <base/fault.h>
#include <base/mutant.h>
#include <lib/sandbox/limits.h>
#include <lib/sandbox/sandbox.h>

#define LAYER_NAMES_MAX 4000 /* bytes of all their names */

static void fill_limits(cay_m_create *m, cay_limits l)
{
    cay__limits_fill(&l);
    m->memory = l.memory;
    m->swap = l.swap;
    m->cpu_milli = l.cpu_milli;
    m->pids = l.pids;
    m->disk = l.disk;
    m->inodes = l.inodes;
    m->nofile = l.nofile;
    m->io_read = l.io_read;
    m->io_write = l.io_write;
}

static int add_target(cay__buf *b, const char *t, cay_err *err)
{
    if (!t || t[0] != '/' || !t[1] || strlen(t) > 255 || strstr(t, "/../") || strchr(t, '\n'))
        return cay_fail_why(
            err, CAY_EINVAL, "grant_target",
            "grant target %s: give an absolute path below /, at most 255 bytes, without ..",
            CAY_OR(t, "(none)"));
    cay__buf_cstr(b, t);
    return 0;
}

/* Targets of the grants and volumes, the stack, then user, workdir, hostname, shell and the
 * environment. */
static int fill_tail(cay__buf *b, const cay_box_spec *spec, const char *user, cay_err *err)
{
    const cay_create *c = spec->create;
    size_t names = 0;
    if (c->from.directory) /* before what may be shown below it */
        CAY_TRY(add_target(b, "/workspace", err));
    CAY_EACH_OF(grant, c->files.grants, c->files.ngrants)
        CAY_TRY(add_target(b, grant->target, err));
    CAY_EACH_OF(volume, c->files.volumes, c->files.nvolumes)
        CAY_TRY(add_target(b, volume->target, err));
    CAY_EACH_OF(layer, spec->layers, spec->nlayers) {
        if (!cay__layer_valid(*layer))
            return cay_fail_why(err, CAY_EINVAL, "layer_name",
                                "layer %.63s: a name is 1 to 63 of a-z, 0-9 and -", *layer);
        names += strlen(*layer) + 1;
        cay__buf_cstr(b, *layer);
    }
    if (spec->nlayers >= CAY_STACK_MAX || names > LAYER_NAMES_MAX)
        return cay_fail_why(err, CAY_ETOOBIG, "stack_full",
                            "%zu layers: a sandbox stands on at most %d; let them be merged",
                            spec->nlayers, CAY_STACK_MAX - 1);
    char who[2 * 64 + 2];
    if (c->process.group &&
        !CAY_JOIN(who, user, ":", c->process.group)) /* as daemon/init/user.c reads it */
        return cay_fail_why(err, CAY_EINVAL, "user_invalid",
                            "user %.64s with group %.64s: too long", user, c->process.group);
    const char *fields[] = { c->process.group ? who : user,
                             CAY_OR(c->process.workdir, "/workspace"), CAY_OR(c->hostname, ""),
                             "" };
    CAY_EACH(field, fields)
        cay__buf_cstr(b, *field);
    for (const cay_pair *e = c->process.env; e && e->key; e++)
        if (!*e->key || strchr(e->key, '='))
            return cay_fail_why(
                err, CAY_EINVAL, "env_key",
                "environment variable %s: a name is not empty and has no =", e->key);
    cay__env_add(b, c->process.env);
    cay__services_wire(b, spec, spec->services_wait || c->net.policy,
                       false); /* what they may reach is settled before they start */
    if (b->full)
        return cay_fail_why(
            err, CAY_ETOOBIG, "environment_too_long",
            "environment, services and grants of a sandbox are longer than %u bytes", CAY_TAIL_MAX);
    return 0;
}

/* What is shown is what was looked at: below a directory that another sandbox may write, names
 * change. */
static int open_dir(const cay__native *n, const char *path, const char *what, int *out,
                    cay_err *err)
{
    if (CAY__MUTANT("grant-race")) {
        CAY_TRY_SYS(*out = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC), err, "%s %s", what, path);
        return 0;
    }
    return cay__source_check(what, path, n->home_fd, n->run, out, err);
}

typedef struct fdset {
    int fds[3 + CAY_GRANTS_MAX], n; /* a root, grants, a disk, a policy */
} fdset;

static void fdset_close(fdset *s)
{
    CAY_EACH_OF(it, s->fds, s->n)
        close(*it);
}

/* Grants come first, so the bits go on behind theirs. */
static int fill_volumes(const cay__native *n, fdset *s, cay_m_create *m, const cay_create *spec,
                        cay_err *err)
{
    char path[80];
    for (size_t i = 0; i < spec->files.nvolumes; i++) {
        const cay_volume_use *v = &spec->files.volumes[i];
        uint32_t bit = 1u << ((spec->from.directory != NULL) + spec->files.ngrants + i);
        if (!cay__volume_name(v->name) || !CAY_JOIN(path, "volumes/", v->name))
            return cay_fail_why(err, CAY_EINVAL, "volume_name", "\"%.60s\" is no volume's name",
                                v->name);
        int fd = openat(n->home_fd, path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 && errno == ENOENT && n->volume_disk) {
            int rc = n->volume_disk(n->home_fd, v->name, &fd, err);
            if (rc < 0 && rc != CAY_ENOENT)
                return rc;
            if (rc == 0)
                m->grants_mount |= bit;
            errno = ENOENT;
        }
        if (fd < 0) {
            if (errno == ENOENT)
                return cay_fail_why(err, CAY_ENOENT, "volume_not_found",
                                    "volume %s has no files here", v->name);
            return cay_fail_sys(err, "volume %s", v->name);
        }
        s->fds[s->n++] = fd;
        m->grants_store |= bit;
        if (v->rw)
            m->grants_rw |= bit;
    }
    m->ngrants += (uint32_t)spec->files.nvolumes;
    return 0;
}

static int fill_fds(const cay__native *n, fdset *s, cay_m_create *m, const cay_box_spec *spec,
                    cay_err *err)
{
    const cay_create *c = spec->create;
    size_t on = c->from.directory != NULL;
    if (cay__hand_there(n->home_fd) &&
        (c->from.root || on || c->files.ngrants)) /* the keeper would refuse it, too */
        return cay_fail_why(
            err, CAY_ENOTSUP, "grant_refused",
            "%s: a server that is not root grants no directory of the host; root's "
            "own cay does, or a server without --root-keeper",
            CAY_OR(c->from.root, on ? c->from.directory : c->files.grants[0].source));
    if (on + c->files.ngrants + c->files.nvolumes > CAY_GRANTS_MAX)
        return cay_fail_why(err, CAY_EINVAL, "too_many_grants",
                            "%zu directories and volumes: at most %d",
                            on + c->files.ngrants + c->files.nvolumes, CAY_GRANTS_MAX);
    if (c->from.root) {
        CAY_TRY(open_dir(n, c->from.root, "root", &s->fds[s->n], err));
        s->n++;
        m->flags |= CAY_CREATE_ROOT_FD;
    }
    if (on) {
        CAY_TRY(open_dir(n, c->from.directory, CAY__SOURCE_ON, &s->fds[s->n], err));
        s->n++;
        m->flags |= CAY_CREATE_ON;
    }
    for (size_t i = 0; i < c->files.ngrants; i++) {
        const char *source = c->files.grants[i].source;
        uint64_t fd;
        if (cay__str_starts(source, CAY__GRANT_MOUNT) &&
            cay__str_to_u64(source + strlen(CAY__GRANT_MOUNT), &fd)) {
            CAY_TRY_SYS(s->fds[s->n] = fcntl((int)fd, F_DUPFD_CLOEXEC, 3), err, "mount at %s",
                        c->files.grants[i].target);
            m->grants_mount |= 1u << (on + i);
        } else {
            CAY_TRY(open_dir(n, source, "mount", &s->fds[s->n], err));
        }
        s->n++;
        if (c->files.grants[i].rw)
            m->grants_rw |= 1u << (on + i);
    }
    m->ngrants = (uint32_t)(on + c->files.ngrants);
    m->nlayers = (uint32_t)spec->nlayers;
    return fill_volumes(n, s, m, c, err);
}

static int add_disk(cay__native *n, fdset *s, cay_m_create *m, const cay_create *spec, bool kept,
                    int *spare, cay_err *err)
{
    int mnt = -1;
    CAY_TRY(n->disk(n, m->id, spec, kept, &mnt, spare, err));
    if (mnt >= 0) {
        s->fds[s->n++] = mnt;
        m->flags |= CAY_CREATE_DISK;
    }
    return 0;
}

/* Who commands run as when nobody is named. A foreign root has no `user`; what an ordinary user
 * granted for writing belongs to uid 0 inside, because sub-ids show it so. */
static const char *default_user(const cay__native *n, const cay_create *spec)
{
    if (spec->process.user)
        return spec->process.user;
    if (spec->from.root) {
        if (n->hello.mode == CAY_MODE_SINGLE)
            return "user";
        return "root";
    }
    if (spec->from.directory && n->hello.mode == CAY_MODE_RANGE)
        return "root";
    CAY_EACH_OF(grant, spec->files.grants, spec->files.ngrants)
        if (grant->rw && n->hello.mode == CAY_MODE_RANGE)
            return "root";
    return "user";
}

static int check_user(const cay__native *n, const char *user, cay_m_create *m, cay_err *err)
{
    if (n->hello.mode != CAY_MODE_SINGLE || !strcmp(user, "user") || !strcmp(user, "1000"))
        return 0;
    if (!strcmp(user, "root") || !strcmp(user, "0")) {
        m->flags |= CAY_CREATE_UID0;
        return 0;
    }
    return cay_fail_why(err, CAY_EINVAL, "user_not_mapped",
                        "user %s: without a range in /etc/subuid a sandbox has one user; ask for "
                        "user or root, or add a range",
                        user);
}

static struct wish *wish_new(const cay_m_create *m, const cay__buf *tail)
{
    struct wish *w = cay__alloc(sizeof *w + tail->len);
    w->m = *m;
    w->len = tail->len;
    memcpy(w->tail, tail->data, tail->len);
    return w;
}

/* Only where there is nothing to do between the two, and nothing to hand over. */
static bool can_wait(const cay__native *n, const cay_box_spec *spec, const fdset *fds)
{
    const cay_create *c = spec->create;
    return n->lazy && c->life.ephemeral && !fds->n && !c->net.policy && !spec->nservices &&
           !(n->hello.features & CAY_FEAT_QUOTA);
}

static int check_request(const cay__native *n, const cay_box_spec *spec, bool image, cay_err *err)
{
    const cay_create *c = spec->create;
    bool single = n->hello.mode == CAY_MODE_SINGLE;
    CAY_TRY(cay__native_require(&n->hello, c->isolation.min_level, c->isolation.require, err));
    if (c->from.template_ && strcmp(c->from.template_, "host") && !image)
        return cay_fail_why(err, CAY_ENOENT, "template_unknown",
                            "no template %s here; use host, or --root DIR", c->from.template_);
    if (image && single)
        return cay_fail_why(err, CAY_ENOTSUP, "template_needs_range",
                            "template %.60s has files of several users: add a range for you in "
                            "/etc/subuid and /etc/subgid, or run as root",
                            CAY_OR(spec->template_name, "image"));
    if (c->isolation.sudo && single)
        return cay_fail_why(err, CAY_EINVAL, "user_not_mapped",
                            "sudo: without a range in /etc/subuid a sandbox has one user and "
                            "nobody to become; add a range");
    return 0;
}

static int fill_request(cay__native *n, const char *id, const cay_box_spec *spec, bool kept,
                        cay_m_create *m, fdset *fds, cay__buf *tail, cay_err *err)
{
    const cay_create *c = spec->create;
    bool image = c->from.template_ && !strcmp(c->from.template_, "image");
    CAY_TRY(check_request(n, spec, image, err));
    CAY_COPY(m->id, id);
    m->flags = CAY_FLAG_IF(c->life.ephemeral, CAY_CREATE_EPHEMERAL) |
               CAY_FLAG_IF(c->isolation.no_pin, CAY_CREATE_NO_PIN) |
               CAY_FLAG_IF(c->life.durable, CAY_CREATE_DURABLE) |
               CAY_FLAG_IF(kept, CAY_CREATE_KEPT) |
               CAY_FLAG_IF(cay__requires(c, "own-ids"), CAY_CREATE_OWN_IDS) |
               CAY_FLAG_IF(image, CAY_CREATE_IMAGE) |
               CAY_FLAG_IF(c->life.on_expiry == CAY_EXPIRE_PAUSE, CAY_CREATE_PAUSE);
    fill_limits(m, c->limits);
    if ((m->io_read != CAY_UNLIMITED || m->io_write != CAY_UNLIMITED) &&
        (n->hello.features & CAY_FEAT_IO))
        CAY_TRY(cay__throttle_disk(n->home_fd, n->home, &m->io_disk, err));
    if ((n->hello.features & CAY_FEAT_QUOTA) && m->disk != CAY_UNLIMITED)
        m->flags |= CAY_CREATE_QUOTA;
    m->ttl_ms = c->life.ttl_ms;
    m->idle_ms = c->life.idle_ms;
    CAY_TRY(fill_fds(n, fds, m, spec, err));
    const char *user = default_user(n, c);
    CAY_TRY(check_user(n, user, m, err));
    CAY_TRY(fill_tail(tail, spec, user, err));
    if (c->from.root)
        return 0;
    if (image)
        return cay__image_layer(n->home_fd, m->layer, sizeof m->layer, err);
    return cay__host_layer(n->home_fd, m->layer, sizeof m->layer, err);
}

static cay__nbox *new_box(cay__native *n, const char *id, const cay_create *c)
{
    cay__nbox *b = cay__nbox_new(n, id);
    CAY_COPY(b->user, CAY_OR(c->process.user, ""));
    return b;
}

/* One that ran before still has its former policy: what the request says takes its place, nothing
 * means off. */
static int set_policy(cay__nbox *b, const cay_call *call, const char *net, bool kept, cay_err *err)
{
    uint64_t revision = 0;
    if (kept && !net) {
        CAY_TRY(cay__nbox_policy_get(b, call, NULL, NULL, &revision, err));
        if (revision)
            net = "cay-net 1\nmode off\n";
    }
    if (!net)
        return 0;
    return cay__nbox_policy(b, call, net, strlen(net), &revision, err);
}

static int finish_create(cay__nbox *b, const cay_call *call, const cay_box_spec *spec,
                         const cay_m_create *m, bool kept, cay_err *err)
{
    const cay_create *c = spec->create;
    cay__native *n = b->n;
    const char *net = NULL; /* that did not go along with the request */
    if (!(m->flags & CAY_CREATE_NET))
        net = c->net.policy;
    if (n->hello.features & CAY_FEAT_QUOTA)
        CAY_TRY(cay__quota_set(n->home_fd, b->base.id, m->disk, m->inodes, err));
    CAY_TRY(set_policy(b, call, net, kept, err));
    if (spec->nservices && c->net.policy && !spec->services_wait)
        return cay__served_service_act(b, call, NULL, CAY_SERVICE_START, err);
    return 0;
}

static void undo_create(cay__nbox *b, bool kept)
{
    if (kept)
        cay__nbox_stop(b, NULL, NULL);
    if (kept || cay__nbox_destroy(b, NULL, NULL) < 0)
        cay__nbox_release(b);
}

int cay__nbox_create(cay__native *n, const cay_call *call, const char *id, const cay_box_spec *spec,
                     bool kept, cay__nbox **out, cay_err *err)
{
    const cay_create *c = spec->create;
    cay_m_create m = { 0 };
    __attribute__((cleanup(fdset_close))) fdset fds = { .n = 0 };
    CAY_AUTOBUF tail = CAY__BUF(CAY_TAIL_MAX);
    CAY_TRY(cay__native_meet(n, call, err));
    CAY_TRY(fill_request(n, id, spec, kept, &m, &fds, &tail, err));
    if (can_wait(n, spec, &fds)) {
        *out = new_box(n, id, c);
        (*out)->wish = wish_new(&m, &tail);
        return 0;
    }
    CAY_AUTOFD spare = -1;
    if (n->disk)
        CAY_TRY(add_disk(n, &fds, &m, c, kept, &spare, err));
    CAY_FAULT("client.create.send");
    bool together = c->net.policy && !kept;
    if (together) {
        CAY_TRY(cay__nbox_policy_fd(c->net.policy, strlen(c->net.policy), &fds.fds[fds.n], err));
        fds.n++;
        m.flags |= CAY_CREATE_NET;
    }
    cay__link_ask *ask =
        CAY__LINK_ASK(CAY_MSG_CREATE, m, .tail = tail.data, .tail_len = tail.len, .fds = fds.fds,
                      .nfds = fds.n, .answer = CAY_FLAG_IF(together, CAY_MSG_NET));
    cay__reply r = { 0 };
    CAY_AUTOFD sock = -1;
    int rc;
    if (c->life.ephemeral)
        rc = cay__link_begin(&n->link, call, ask, &r, &sock, err);
    else
        rc = cay__link_call(&n->link, call, ask, &r, err);
    rc = cay__native_explain(n, rc, err);
    if (!together || rc == CAY_EEXIST)
        CAY_TRY(rc);
    cay__nbox *b = new_box(n, id, c); /* it may be there, and its policy refused */
    CAY_FAULT("client.create.answered");
    if (spare >= 0 && fallocate(spare, 0, 0, CAY__DISK_SPARE) < 0)
        cay__close_fd(&spare); /* then the next start has to do with what its directories leave */
    if (sock >= 0 && c->life.ephemeral)
        cay__nbox_own(b, CAY_STEAL_FD(sock));
    if (rc == 0)
        rc = finish_create(b, call, spec, &m, kept, err);
    if (rc < 0) { /* nobody has it yet */
        undo_create(b, kept);
        return rc;
    }
    *out = b;
    return 0;
}
