/* SPDX-License-Identifier: Apache-2.0 */
#include "native.h"
#include "quota.h"
#include <base/base.h>
#include <base/buf.h>
#include <base/fault.h>
#include <base/fd.h>
#include <base/mutant.h>
#include <base/str.h>
#include <fcntl.h>
#include <sandbox/limits.h>
#include <sandbox/sandbox.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define LAYER_NAMES_MAX 4000 /* bytes of all their names */

/* ---- the create request ---- */

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
        return cay_fail_why(err, CAY_EINVAL, "grant_target", "grant target %s: give an absolute path below /, at most 255 bytes, without ..", t ? t : "(none)");
    cay__buf_add(b, t, strlen(t) + 1);
    return 0;
}

/* Targets of the grants and volumes, the stack, then user, workdir, hostname, shell and the environment. */
static int fill_tail(cay__buf *b, const cay_create *spec, const char *user, cay_err *err)
{
    size_t names = 0;
    if (spec->on) /* before what may be shown below it */
        CAY_TRY(add_target(b, "/workspace", err));
    for (size_t i = 0; i < spec->ngrants; i++)
        CAY_TRY(add_target(b, spec->grants[i].target, err));
    for (size_t i = 0; i < spec->nvolumes; i++)
        CAY_TRY(add_target(b, spec->volumes[i].target, err));
    for (size_t i = 0; i < spec->nlayers; i++) {
        if (!cay__layer_valid(spec->layers[i]))
            return cay_fail_why(err, CAY_EINVAL, "layer_name", "layer %.63s: a name is 1 to 63 of a-z, 0-9 and -", spec->layers[i]);
        names += strlen(spec->layers[i]) + 1;
        cay__buf_add(b, spec->layers[i], strlen(spec->layers[i]) + 1);
    }
    if (spec->nlayers >= CAY_STACK_MAX || names > LAYER_NAMES_MAX)
        return cay_fail_why(err, CAY_ETOOBIG, "stack_full", "%zu layers: a sandbox stands on at most %d; let them be merged", spec->nlayers, CAY_STACK_MAX - 1);
    char who[2 * 64 + 2];
    if (spec->group && !cay__str_join(who, sizeof who, user, ":", spec->group, NULL)) /* as guest/user.c reads it */
        return cay_fail_why(err, CAY_EINVAL, "user_invalid", "user %.64s with group %.64s: too long", user, spec->group);
    const char *fields[] = { spec->group ? who : user, spec->workdir ? spec->workdir : "/workspace", spec->hostname ? spec->hostname : "", "" };
    for (size_t i = 0; i < CAY_LEN(fields); i++)
        cay__buf_add(b, fields[i], strlen(fields[i]) + 1);
    for (const cay_pair *e = spec->env; e && e->key; e++) {
        if (!*e->key || strchr(e->key, '='))
            return cay_fail_why(err, CAY_EINVAL, "env_key", "environment variable %s: a name is not empty and has no =", e->key);
        cay__buf_str(b, e->key);
        cay__buf_str(b, "=");
        cay__buf_add(b, e->value ? e->value : "", strlen(e->value ? e->value : "") + 1);
    }
    cay__units_wire(b, spec, spec->units_wait || spec->net); /* what they may reach is settled before they start */
    if (b->full)
        return cay_fail_why(err, CAY_ETOOBIG, "environment_too_long", "environment, services and grants of a sandbox are longer than %u bytes", CAY_TAIL_MAX);
    return 0;
}

/* What is shown is what was looked at: below a directory that another sandbox may write, names change. */
static int open_dir(const cay__native *n, const char *path, const char *what, int *out, cay_err *err)
{
    if (CAY__MUTANT("grant-race"))
        return (*out = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0 ? cay_fail_sys(err, CAY_ESYS, "%s %s", what, path) : 0;
    return cay__source_check(what, path, n->home_fd, n->run, out, err);
}

typedef struct fdset {
    int fds[2 + CAY_GRANTS_MAX], n;
} fdset;

static void fdset_close(fdset *s)
{
    for (int i = 0; i < s->n; i++)
        close(s->fds[i]);
}

/* Grants come first, so the bits go on behind theirs. */
static int fill_volumes(const cay__native *n, fdset *s, cay_m_create *m, const cay_create *spec, cay_err *err)
{
    char path[80];
    for (size_t i = 0; i < spec->nvolumes; i++) {
        const cay_volume_use *v = &spec->volumes[i];
        uint32_t bit = 1u << ((spec->on != NULL) + spec->ngrants + i);
        if (!cay__volume_name(v->name) || !cay__str_join(path, sizeof path, "volumes/", v->name, NULL))
            return cay_fail_why(err, CAY_EINVAL, "volume_name", "\"%.60s\" is no volume's name", v->name);
        int fd = openat(n->home_fd, path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
            return errno == ENOENT ? cay_fail_why(err, CAY_ENOENT, "volume_not_found", "volume %s has no files here", v->name)
                                   : cay_fail_sys(err, CAY_ESYS, "volume %s", v->name);
        s->fds[s->n++] = fd;
        m->grants_store |= bit;
        m->grants_rw |= v->rw ? bit : 0;
    }
    m->ngrants += (uint32_t)spec->nvolumes;
    return 0;
}

static int fill_fds(const cay__native *n, fdset *s, cay_m_create *m, const cay_create *spec, cay_err *err)
{
    size_t on = spec->on != NULL;
    if (on + spec->ngrants + spec->nvolumes > CAY_GRANTS_MAX)
        return cay_fail_why(err, CAY_EINVAL, "too_many_grants", "%zu directories and volumes: at most %d", on + spec->ngrants + spec->nvolumes, CAY_GRANTS_MAX);
    if (spec->root) {
        CAY_TRY(open_dir(n, spec->root, "root", &s->fds[s->n], err));
        s->n++;
        m->flags |= CAY_CREATE_ROOT_FD;
    }
    if (on) {
        CAY_TRY(open_dir(n, spec->on, "on", &s->fds[s->n], err));
        s->n++;
        m->flags |= CAY_CREATE_ON;
    }
    for (size_t i = 0; i < spec->ngrants; i++) {
        const char *source = spec->grants[i].source;
        uint64_t fd;
        if (cay__str_starts(source, CAY__GRANT_MOUNT) && cay__str_to_u64(source + strlen(CAY__GRANT_MOUNT), &fd)) {
            if ((s->fds[s->n] = fcntl((int)fd, F_DUPFD_CLOEXEC, 3)) < 0)
                return cay_fail_sys(err, CAY_ESYS, "mount at %s", spec->grants[i].target);
            m->grants_mount |= 1u << (on + i);
        } else {
            CAY_TRY(open_dir(n, source, "mount", &s->fds[s->n], err));
        }
        s->n++;
        if (spec->grants[i].rw)
            m->grants_rw |= 1u << (on + i);
    }
    m->ngrants = (uint32_t)(on + spec->ngrants);
    m->nlayers = (uint32_t)spec->nlayers;
    return fill_volumes(n, s, m, spec, err);
}

static int add_disk(cay__native *n, fdset *s, cay_m_create *m, const cay_create *spec, bool kept, cay_err *err)
{
    int mnt = -1;
    CAY_TRY(n->disk(n, m->id, spec, kept, &mnt, err));
    if (mnt >= 0) {
        s->fds[s->n++] = mnt;
        m->flags |= CAY_CREATE_DISK;
    }
    return 0;
}

/* Who commands run as when nobody is named. A foreign root has no `user`; what an ordinary user granted for writing
 * belongs to uid 0 inside, because sub-ids show it so. */
static const char *default_user(const cay__native *n, const cay_create *spec)
{
    if (spec->user)
        return spec->user;
    if (spec->root)
        return n->hello.mode == CAY_MODE_SINGLE ? "user" : "root";
    if (spec->on && n->hello.mode == CAY_MODE_RANGE)
        return "root";
    for (size_t i = 0; i < spec->ngrants; i++)
        if (spec->grants[i].rw && n->hello.mode == CAY_MODE_RANGE)
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
    return cay_fail_why(err, CAY_EINVAL, "user_not_mapped", "user %s: without a range in /etc/subuid a sandbox has one user; ask for user or root, or add a range", user);
}

static cay__nbox *box_new(cay__native *n, const char *id);
static void own(cay__nbox *b, int sock);

/* A create that goes out with the first command: one round trip for both. */
typedef struct wish {
    cay_m_create m;
    size_t       len;
    char         tail[];
} wish;

static wish *wish_new(const cay_m_create *m, const cay__buf *tail)
{
    wish *w = cay__alloc(sizeof *w + tail->len);
    w->m = *m;
    w->len = tail->len;
    memcpy(w->tail, tail->data, tail->len);
    return w;
}

/* Only where there is nothing to do between the two, and nothing to hand over. */
static bool can_wait(const cay__native *n, const cay_create *spec, const fdset *fds)
{
    return n->lazy && spec->ephemeral && !fds->n && !spec->net && !spec->nunits && !(n->hello.features & CAY_FEAT_QUOTA);
}

int cay__nbox_create(cay__native *n, const cay_call *call, const char *id, const cay_create *spec, bool kept,
                     cay__nbox **out, cay_err *err)
{
    cay_m_create m = { 0 };
    __attribute__((cleanup(fdset_close))) fdset fds = { .n = 0 };
    CAY_AUTOBUF tail = CAY__BUF(CAY_TAIL_MAX);
    CAY_TRY(cay__native_meet(n, call, err));
    CAY_TRY(cay__native_require(&n->hello, spec->min_level, spec->require, err));
    bool image = spec->template_ && !strcmp(spec->template_, "image");
    if (spec->template_ && strcmp(spec->template_, "host") && !image)
        return cay_fail_why(err, CAY_ENOENT, "template_unknown", "no template %s here; use host, or --root DIR", spec->template_);
    if (image && n->hello.mode == CAY_MODE_SINGLE)
        return cay_fail_why(err, CAY_ENOTSUP, "template_needs_range", "template %.60s has files of several users: add a range for you in /etc/subuid and /etc/subgid, or run as root",
                            spec->template_name ? spec->template_name : "image");
    cay__str_copy(m.id, sizeof m.id, id);
    m.flags = (spec->ephemeral ? CAY_CREATE_EPHEMERAL : 0) | (spec->no_pin ? CAY_CREATE_NO_PIN : 0) |
              (spec->durable ? CAY_CREATE_DURABLE : 0) | (kept ? CAY_CREATE_KEPT : 0) | (image ? CAY_CREATE_IMAGE : 0) |
              (spec->on_expiry == CAY_EXPIRE_PAUSE ? CAY_CREATE_PAUSE : 0);
    fill_limits(&m, spec->limits);
    m.ttl_ms = spec->ttl_ms;
    m.idle_ms = spec->idle_ms;
    CAY_TRY(fill_fds(n, &fds, &m, spec, err));
    if (spec->sudo && n->hello.mode == CAY_MODE_SINGLE)
        return cay_fail_why(err, CAY_EINVAL, "user_not_mapped", "sudo: without a range in /etc/subuid a sandbox has one user and nobody to become; add a range");
    const char *user = default_user(n, spec);
    CAY_TRY(check_user(n, user, &m, err));
    CAY_TRY(fill_tail(&tail, spec, user, err));
    if (!spec->root)
        CAY_TRY(image ? cay__image_layer(n->home_fd, m.layer, sizeof m.layer, err) : cay__host_layer(n->home_fd, m.layer, sizeof m.layer, err));
    if (can_wait(n, spec, &fds)) {
        *out = box_new(n, id);
        cay__str_copy((*out)->user, sizeof (*out)->user, spec->user ? spec->user : "");
        (*out)->wish = wish_new(&m, &tail);
        return 0;
    }
    if (n->disk)
        CAY_TRY(add_disk(n, &fds, &m, spec, kept, err));
    CAY_FAULT("client.create.send");
    cay__ask ask = { CAY_MSG_CREATE, &m, sizeof m, tail.data, tail.len, fds.fds, fds.n };
    cay__reply r = { 0 };
    CAY_AUTOFD sock = -1;
    bool together = spec->net && !kept;
    if (spec->ephemeral && !together)
        CAY_TRY(cay__link_begin(&n->link, call, &ask, &r, &sock, err));
    else if (!together)
        CAY_TRY(cay__link_call(&n->link, call, &ask, &r, err));
    cay__nbox *b = box_new(n, id);
    cay__str_copy(b->user, sizeof b->user, spec->user ? spec->user : "");
    int rc = together ? cay__nbox_policy_ahead(b, call, &ask, spec->net, &sock, err) : 0;
    CAY_FAULT("client.create.answered");
    if (sock >= 0 && spec->ephemeral)
        own(b, CAY_STEAL_FD(sock));
    if (rc == 0 && (n->hello.features & CAY_FEAT_QUOTA))
        rc = cay__quota_set(n->home_fd, id, m.disk, m.inodes, err);
    /* One that ran before still has its former policy: what the request says takes its place, nothing means off. */
    uint64_t revision = 0;
    const char *net = together ? NULL : spec->net;
    if (rc == 0 && kept && !net && (rc = cay__nbox_policy_get(b, call, NULL, NULL, &revision, err)) == 0 && revision)
        net = "cay-net 1\nmode off\n";
    if (rc == 0 && net)
        rc = cay__nbox_policy(b, call, net, strlen(net), &revision, err);
    if (rc == 0 && spec->nunits && spec->net && !spec->units_wait)
        rc = cay__nbox_unit_act(b, call, NULL, CAY_UNIT_START, err);
    if (rc < 0) { /* nobody has it yet */
        if ((kept ? cay__nbox_stop(b, NULL, NULL) : cay__nbox_destroy(b, NULL, NULL)) < 0 || kept)
            cay__nbox_release(b);
        return rc;
    }
    *out = b;
    return 0;
}

/* ---- ephemeral boxes: whoever holds the connection is their owner ---- */

static void own(cay__nbox *b, int sock)
{
    pthread_mutex_lock(&b->n->own_lock);
    b->owner = sock;
    b->next_owned = b->n->owned;
    b->n->owned = b;
    pthread_mutex_unlock(&b->n->own_lock);
}

/* A create of a box that is there is answered with it, and makes the asker its owner. */
static void claim(cay__nbox *b)
{
    char probe;
    cay_m_create m = { .flags = CAY_CREATE_EPHEMERAL };
    cay__ask ask = { .type = CAY_MSG_CREATE, .body = &m, .len = sizeof m };
    cay__reply r = { 0 };
    int sock = -1;
    if (recv(b->owner, &probe, 1, MSG_PEEK | MSG_DONTWAIT) != 0)
        return; /* its keeper is alive */
    memcpy(m.id, b->id, sizeof m.id);
    CAY_FAULT("client.claim.send");
    cay__link fresh = { .dial = b->n->link.dial, .arg = b->n, .peer = "keeper", .lock = PTHREAD_MUTEX_INITIALIZER };
    if (cay__link_begin(&fresh, NULL, &ask, &r, &sock, NULL) == 0) {
        close(b->owner);
        b->owner = sock;
    }
    cay__link_close(&fresh);
}

void cay__nbox_claim_all(void *native)
{
    cay__native *n = native;
    pthread_mutex_lock(&n->own_lock);
    for (cay__nbox *b = n->owned; b; b = b->next_owned)
        claim(b);
    pthread_mutex_unlock(&n->own_lock);
}

static void disown(cay__nbox *b)
{
    if (b->owner < 0)
        return;
    pthread_mutex_lock(&b->n->own_lock);
    for (cay__nbox **p = &b->n->owned; *p; p = &(*p)->next_owned)
        if (*p == b) {
            *p = b->next_owned;
            break;
        }
    claim(b); /* a keeper that does not know us would never hear that we are done */
    pthread_mutex_unlock(&b->n->own_lock);
    cay__close_fd(&b->owner);
}

/* ---- handles ---- */

static int open_session(void *arg, const cay_call *call, const char *user, int *sock, cay_err *err)
{
    cay__nbox *b = arg;
    return cay__link_session(&b->n->link, b->id, call, user, sock, err);
}

static cay__nbox *box_new(cay__native *n, const char *id)
{
    cay__nbox *b = cay__alloc(sizeof *b);
    b->n = n;
    b->owner = -1;
    cay__str_copy(b->id, sizeof b->id, id);
    cay__sessions_open(&b->sessions, open_session, b);
    return b;
}

void cay__nbox_release(void *box)
{
    cay__nbox *b = box;
    cay__sessions_close(&b->sessions);
    disown(b);
    free(b->wish);
    free(b->layers);
    free(b);
}

static int ask_box(cay__native *n, const cay_call *call, uint16_t type, const char *id, uint64_t a, uint64_t c, cay__reply *r, cay_err *err)
{
    return cay__link_box(&n->link, id, call, type, a, c, r, err);
}

/* LIST answers with any number of boxes and END. fn's non-zero return ends it. */
static int list_boxes(cay__native *n, const cay_call *call, const char *prefix, int (*fn)(const cay_m_boxinfo *, void *), void *arg, cay_err *err)
{
    cay_m_box m = { 0 };
    cay__str_copy(m.id, sizeof m.id, prefix);
    cay__ask ask = { .type = CAY_MSG_LIST, .body = &m, .len = sizeof m };
    cay__reply r = { 0 };
    CAY_AUTOFD sock = -1;
    int got = -1;
    CAY_TRY(cay__link_begin(&n->link, call, &ask, &r, &got, err));
    sock = got;
    while (r.type == CAY_MSG_BOX) {
        r.box.id[sizeof r.box.id - 1] = r.box.reason[sizeof r.box.reason - 1] = 0;
        int rc = fn(&r.box, arg);
        if (rc)
            return rc < 0 ? rc : 0;
        CAY_TRY(cay__link_died(&n->link, cay__link_next(sock, call, CAY_MSG_BOX, &r, err), err));
    }
    cay__link_give(&n->link, CAY_STEAL_FD(sock));
    return 0;
}

typedef struct look {
    cay_m_boxinfo info;
    int           n;
} look;

static int on_look(const cay_m_boxinfo *info, void *arg)
{
    look *l = arg;
    l->info = *info;
    l->n++;
    return 0;
}

/* A keeper that dies in the middle of its answer has said nothing. */
static int look_up(cay__native *n, const cay_call *call, const char *id, look *l, cay_err *err)
{
    int rc = 0;
    for (int i = 0; i < 4; i++) {
        cay_err e = CAY_ERR_INIT;
        l->n = 0;
        rc = list_boxes(n, call, id, on_look, l, &e);
        if (rc < 0 && err)
            *err = e;
        if (rc == 0 || strcmp(e.reason, "peer_died"))
            break;
    }
    return rc;
}

int cay__nbox_attach(cay__native *n, const cay_call *call, const char *id, cay__nbox **out, cay_err *err)
{
    look l = { .n = 0 };
    CAY_TRY(cay__native_meet(n, call, err));
    CAY_TRY(look_up(n, call, id, &l, err));
    if (l.n == 0 || l.info.state == CAY_STOPPED)
        return cay_fail_why(err, CAY_EGONE, l.n && l.info.reason[0] ? l.info.reason : "not_running", "sandbox %s does not run", id);
    cay__nbox *b = box_new(n, id);
    b->info = l.info;
    *out = b;
    return 0;
}

/* ---- operations ---- */

/* Its default user is looked up with the first command: who made it is told which one is missing. */
static int name_user(const cay__nbox *b, const cay_spawn *spec, int rc, cay_err *err)
{
    return rc < 0 && err && !spec->user && b->user[0] && !strncmp(err->reason, "user_", 5) ? cay_wrap(err, rc, "user %.60s", b->user) : rc;
}

int cay__nbox_spawn(void *box, const cay_call *call, const cay_spawn *spec, void **proc, cay_err *err)
{
    cay__nbox *b = box;
    if (!b->wish)
        return name_user(b, spec, cay__proc_spawn(&b->n->link, b->id, call, spec, proc, err), err);
    cay__ask ask = { .type = CAY_MSG_CREATE, .body = &b->wish->m, .len = sizeof b->wish->m, .tail = b->wish->tail, .tail_len = b->wish->len };
    CAY_FAULT("client.run.send");
    b->n->link.ahead = &ask;
    int rc = cay__proc_spawn(&b->n->link, b->id, call, spec, proc, err);
    b->n->link.ahead = NULL;
    CAY_FAULT("client.run.answered");
    CAY_TRY(name_user(b, spec, rc, err)); /* one that was made nevertheless ends with our connection */
    own(b, fcntl(cay__proc_conn(*proc), F_DUPFD_CLOEXEC, 3));
    free(CAY_STEAL(b->wish));
    return 0;
}

int cay__nbox_proc_attach(void *box, const cay_call *call, const char *ref, void **proc, cay_err *err)
{
    cay__nbox *b = box;
    return cay__proc_attach(&b->n->link, b->id, call, ref, proc, err);
}

int cay__nbox_destroy(void *box, const cay_call *call, cay_err *err)
{
    cay__nbox *b = box;
    cay__reply r = { 0 };
    cay__sessions_drop(&b->sessions);
    CAY_FAULT("client.destroy.send");
    cay_err e = CAY_ERR_INIT;
    int rc = ask_box(b->n, call, CAY_MSG_DESTROY, b->id, 0, 0, &r, &e);
    if (rc == 0 || rc == CAY_ENOENT) {
        cay__nbox_release(b);
        return 0;
    }
    if (err)
        *err = e;
    return rc;
}

int cay__nbox_stop(void *box, const cay_call *call, cay_err *err)
{
    cay__nbox *b = box;
    cay__reply r = { 0 };
    cay__sessions_drop(&b->sessions);
    CAY_FAULT("client.stop.send");
    cay_err e = CAY_ERR_INIT;
    int rc = ask_box(b->n, call, CAY_MSG_STOP, b->id, 0, 0, &r, &e);
    if (rc == CAY_ENOENT) /* asked twice because the first answer was lost, or it ended by itself */
        return 0;
    if (rc < 0 && err)
        *err = e;
    return rc;
}

int cay__nbox_pause(void *box, const cay_call *call, cay_err *err)
{
    cay__nbox *b = box;
    cay__reply r = { 0 };
    return ask_box(b->n, call, CAY_MSG_PAUSE, b->id, 0, 0, &r, err);
}

int cay__nbox_resume(void *box, const cay_call *call, cay_err *err)
{
    cay__nbox *b = box;
    cay__reply r = { 0 };
    return ask_box(b->n, call, CAY_MSG_RESUME, b->id, 0, 0, &r, err);
}

int cay__nbox_extend(void *box, const cay_call *call, uint64_t ttl_ms, uint64_t idle_ms, cay_err *err)
{
    cay__nbox *b = box;
    cay__reply r = { 0 };
    return ask_box(b->n, call, CAY_MSG_EXTEND, b->id, ttl_ms, idle_ms, &r, err);
}

static int add_usage(const cay_proc_info *i, void *arg)
{
    cay_usage *u = arg;
    u->cpu_us += i->cpu_us;
    u->memory += i->rss;
    u->pids++;
    return 0;
}

int cay__nbox_usage(void *box, const cay_call *call, cay_usage *out, cay_err *err)
{
    cay__nbox *b = box;
    cay__reply r = { 0 };
    CAY_TRY(ask_box(b->n, call, CAY_MSG_USAGE, b->id, 0, 0, &r, err));
    *out = (cay_usage){ .size = sizeof *out, .cpu_us = r.usage.cpu_us, .memory = r.usage.memory, .memory_peak = r.usage.memory_peak,
                        .pids = r.usage.pids, .disk = r.usage.disk, .inodes = r.usage.inodes,
                        .oom_kills = r.usage.oom_kills, .pids_hits = r.usage.pids_hits };
    /* No group counts: the processes that are there now, and what those that ended used. */
    if (!(b->n->hello.features & CAY_FEAT_MEMORY))
        return cay__nf_ps(&b->sessions, call, add_usage, out, err);
    return 0;
}

int cay__nbox_wait(void *box, const cay_call *call, cay_state *state, cay_err *err)
{
    cay__nbox *b = box;
    cay__reply r = { 0 };
    cay_err e = CAY_ERR_INIT;
    int rc = ask_box(b->n, call, CAY_MSG_BOX_WAIT, b->id, 0, 0, &r, &e);
    if (rc == CAY_ENOENT) {
        *state = CAY_STOPPED;
        return 0;
    }
    if (rc < 0) {
        if (err)
            *err = e;
        return rc;
    }
    *state = (cay_state)r.box.state;
    return 0;
}

int cay__nbox_status(void *box, const cay_call *call, cay_box_status *out, cay_err *err)
{
    cay__nbox *b = box;
    look l = { .n = 0 };
    CAY_TRY(look_up(b->n, call, b->id, &l, err));
    if (l.n == 0 || l.info.state == CAY_STOPPED)
        return cay_fail_why(err, CAY_EGONE, l.n && l.info.reason[0] ? l.info.reason : "not_running", "sandbox %s does not run", b->id);
    CAY_TRY(cay__native_meet(b->n, call, err));
    b->info = l.info;
    cay_layer *layers = __atomic_load_n(&b->layers, __ATOMIC_ACQUIRE);
    if (!layers) { /* several threads may ask at once: the first one's stay, and all of them are the same */
        cay_layer *fresh = cay__alloc(sizeof *fresh * CAY__LAYERS_MAX);
        __atomic_store_n(&b->nlayers, cay__native_box_layers(&b->n->hello, l.info.flags, fresh, CAY__LAYERS_MAX), __ATOMIC_RELAXED);
        if (!__atomic_compare_exchange_n(&b->layers, &layers, fresh, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            free(fresh);
    }
    *out = (cay_box_status){ .size = sizeof *out, .state = (cay_state)l.info.state, .reason = b->info.reason,
                             .level = (cay_level)b->n->hello.level, .layers = b->layers, .nlayers = b->nlayers,
                             .deadline_ms = l.info.deadline_ms, .idle_ms = l.info.idle_ms, .pid = l.info.pid, .path = "" };
    return 0;
}

/* Live processes come from inside, with what the keeper knows of those it started; then those that ended. */
typedef struct kept_list {
    cay_proc_info *v;
    char         (*text)[2][104];
    size_t         n, cap;
} kept_list;

static int on_kept(const cay__kept *k, void *arg)
{
    kept_list *l = arg;
    if (l->n == l->cap) {
        l->cap = l->cap ? l->cap * 2 : 32;
        l->v = realloc(l->v, l->cap * sizeof *l->v);
        l->text = realloc(l->text, l->cap * sizeof *l->text);
        if (!l->v || !l->text)
            abort();
    }
    cay_proc_info *i = &l->v[l->n];
    memset(i, 0, sizeof *i);
    cay__str_join(l->text[l->n][0], sizeof l->text[0][0], k->p.proc, NULL);
    l->text[l->n][0][CAY_WIRE_ID] = 0;
    cay__str_copy(l->text[l->n][0] + CAY_WIRE_ID + 1, sizeof l->text[0][0] - CAY_WIRE_ID - 1, k->tag);
    cay__str_copy(l->text[l->n][1], sizeof l->text[0][1], k->command);
    i->size = sizeof *i;
    i->pid = k->p.pid;
    i->state = k->p.ended ? 'X' : 'S';
    i->tty = k->p.flags & CAY_SPAWN_TTY;
    i->started_ms = k->p.started_ms;
    i->ended_ms = k->p.ended ? k->p.started_ms + k->p.ended - 1 : 0;
    i->labels = k->labels;
    i->exit = (cay_exit){ .size = sizeof i->exit, .code = k->p.exit.code, .signal = k->p.exit.signal };
    cay__str_copy(i->exit.reason, sizeof i->exit.reason, k->p.exit.reason);
    l->n++;
    return 0;
}

typedef struct merge {
    kept_list *l;
    int      (*fn)(const cay_proc_info *, void *);
    void      *arg;
} merge;

static void name_kept(const kept_list *l, size_t i, cay_proc_info *p)
{
    p->id = l->text[i][0];
    p->tag = l->text[i][0] + CAY_WIRE_ID + 1;
    p->tty = l->v[i].tty;
    p->labels = l->v[i].labels;
}

static int on_live(const cay_proc_info *info, void *arg)
{
    merge *m = arg;
    cay_proc_info p = *info;
    for (size_t i = 0; i < m->l->n; i++)
        if (m->l->v[i].pid == p.pid && m->l->v[i].state != 'X') {
            name_kept(m->l, i, &p);
            if (!p.command[0] || p.command[0] == '[') /* between fork and exec, or a zombie: no arguments of its own */
                p.command = m->l->text[i][1];
        }
    return m->fn(&p, m->arg);
}

int cay__procs_all(cay__link *link, cay__sessions *sessions, const char *id, const cay_call *call, int (*fn)(const cay_proc_info *, void *), void *arg, cay_err *err)
{
    kept_list l = { .n = 0 };
    merge m = { &l, fn, arg };
    int rc = cay__procs_kept(link, id, call, on_kept, &l, err);
    if (rc == 0)
        rc = cay__nf_ps(sessions, call, on_live, &m, err);
    for (size_t i = 0; rc == 0 && i < l.n; i++) {
        if (l.v[i].state != 'X')
            continue;
        name_kept(&l, i, &l.v[i]);
        l.v[i].command = l.text[i][1];
        l.v[i].user = "";
        rc = fn(&l.v[i], arg);
    }
    for (size_t i = 0; i < l.n; i++)
        free((void *)l.v[i].labels);
    free(l.v);
    free(l.text);
    return rc;
}

int cay__nbox_procs(void *box, const cay_call *call, int (*fn)(const cay_proc_info *, void *), void *arg, cay_err *err)
{
    cay__nbox *b = box;
    return cay__procs_all(&b->n->link, &b->sessions, b->id, call, fn, arg, err);
}

#define SESSIONS(box) (&((cay__nbox *)(box))->sessions)
CAY__SESSION_OPS(, cay__nbox, SESSIONS)

/* The keeper, not the sandbox, says which network the socket has to be of. */
int cay__nbox_connect(void *box, const cay_call *call, uint16_t port, int *fd, cay_err *err)
{
    cay__nbox *b = box;
    look l = { .n = 0 };
    CAY_TRY(look_up(b->n, call, b->id, &l, err));
    b->sessions.netns = l.n ? l.info.cookie : 0;
    return cay__nf_connect(&b->sessions, call, port, fd, err);
}

const cay_provider_ops cay__native_hot = { CAY__NATIVE_HOT };

/* ---- without a service ---- */

static void drop_native(cay_sandbox *sb)
{
    void *box = atomic_exchange(&sb->box, NULL);
    if (box)
        cay__nbox_release(box); /* while there is still a keeper to be told */
    cay__native_close(sb->owner);
}

static cay_sandbox *handle(cay__native *n, cay__nbox *b)
{
    cay_sandbox *sb = cay__sandbox_new(&cay__native_hot, b->id, b);
    sb->state = b->info.state ? (int)b->info.state : CAY_RUNNING;
    sb->owner = n;
    sb->drop = drop_native;
    return sb;
}

int cay__native_find(const char *home, const char *id_prefix, cay_sandbox **out, cay_err *err)
{
    cay__native *n;
    cay__nbox *b = NULL;
    look l = { .n = 0 };
    CAY_TRY(cay__native_open(home, NULL, &n, err));
    int rc = strlen(id_prefix) > CAY_ID_LEN ? cay_fail(err, CAY_ENOENT, "no sandbox %s", id_prefix) : list_boxes(n, NULL, id_prefix, on_look, &l, err);
    if (rc == 0 && l.n != 1)
        rc = cay_fail_why(err, l.n ? CAY_EINVAL : CAY_ENOENT, l.n ? "id_ambiguous" : "sandbox_not_found",
                          l.n ? "%s could be any of %d sandboxes: give more of the id" : "no running sandbox %s", id_prefix, l.n);
    if (rc == 0)
        rc = cay__nbox_attach(n, NULL, l.info.id, &b, err);
    if (rc < 0) {
        cay__native_close(n);
        return rc;
    }
    *out = handle(n, b);
    return 0;
}

int cay__native_create_ephemeral(const char *home, const cay_create *spec, cay_sandbox **out, cay_err *err)
{
    cay__native *n;
    cay__nbox *b;
    char id[CAY_ID_LEN + 1];
    cay_create s = *spec;
    s.ephemeral = true;
    cay__id_make(id, 'c');
    CAY_TRY(cay__native_open(home, NULL, &n, err));
    n->lazy = true;
    int rc = cay__create_check(&s, n->home_fd, n->run, err);
    if (rc == 0)
        rc = cay__nbox_create(n, NULL, id, &s, false, &b, err);
    if (rc < 0) {
        cay__native_close(n);
        return rc;
    }
    *out = handle(n, b);
    return 0;
}
