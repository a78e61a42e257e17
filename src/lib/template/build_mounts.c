/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What RUN --mount shows to one command. Directories are volumes: a cache is one that stays, tmpfs
 * and bind have one for this step, bind filled before. Files are put in place and taken away again
 * before anything is saved; a secret's bytes are only ever below /run, which is memory and in no
 * layer.
 */
#include "build.h"
#include <base/base.h>
#include <poll.h>

#define FILL    "/mnt" /* where a volume is filled */
#define SECRETS "/run/secrets"

/* sharing=locked: one step at a time. A byte of a file for each cache, so that nothing stays.
 * Waited for as long as a step may take. */
static int lock_cache(cay__builder *b, cay__bmount *m, cay_err *err)
{
    char path[4200];
    bool told = false;
    uint64_t at = 0, most = CAY_OR(b->spec->step_ms, CAY__STEP_MS);
    int64_t began = cay__now_ms();
    for (const char *s = m->volume; *s; s++)
        at = at * 131 + (unsigned char)*s;
    if (!CAY_JOIN(path, cay_client_home(b->client), "/builds/mounts.lock"))
        return cay_fail(err, CAY_ETOOBIG, "the path of the state directory is too long");
    CAY_AUTOFD fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    struct flock l = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)(at & 0x7fffffffffff), .l_len = 1
    };
    if (fd < 0)
        return cay_fail_sys(err, "open mounts.lock");
    while (fcntl(fd, F_OFD_SETLK, &l) < 0) {
        if (errno != EAGAIN && errno != EACCES && errno != EINTR)
            return cay_fail_sys(err, "lock mounts.lock");
        CAY_TRY(cay__call_check(&b->call, "build", err));
        if (cay__report_canceled(&b->report))
            return cay_fail_why(err, CAY_ECANCELED, "build_canceled", "build %s was canceled",
                                b->report.id);
        if (!told)
            cay__report_say(&b->report, CAY_BUILD_NOTE, false,
                            "another build has the cache %.100s: it is waited for", m->id);
        told = true;
        if ((uint64_t)(cay__now_ms() - began) >= most)
            return cay_fail_why(err, CAY_ETIMEOUT, "build_cache_busy",
                                "another build has had the cache %.100s all the time that a step "
                                "may take; end it, or give this one a cache of its own (id=)",
                                m->id);
        poll(NULL, 0, 100);
    }
    m->lock = CAY_STEAL_FD(fd);
    return 0;
}

/* In the order of their names and each once, so that no two steps wait for each other, nor one for
 * itself. */
static int lock_caches(cay__builder *b, const cay__task *t, cay_err *err)
{
    for (const char *last = "";;) {
        cay__bmount *next = NULL;
        CAY_EACH_OF(m, t->mounts, t->nmounts) {
            if (m->locked && strcmp(m->volume, last) > 0 &&
                (!next || strcmp(m->volume, next->volume) < 0))
                next = m;
        }
        if (!next)
            return 0;
        CAY_TRY(lock_cache(b, next, err));
        last = next->volume;
    }
}

/* What is bound from another stage or template may be a file. */
static int stat_source(cay__builder *b, cay__bmount *m, cay_err *err)
{
    const cay__task *c = m->copy;
    cay_sandbox *sb = NULL;
    cay_stat st = { .size_of = sizeof st };
    char path[4200];
    if (c->origin != CAY__FROM_STAGE && c->origin != CAY__FROM_TEMPLATE)
        return 0;
    if (!CAY_JOIN(path, *c->words[0] == '/' ? "" : "/", c->words[0]))
        return cay_fail_why(err, CAY_EINVAL, "build_copy", "%.60s…: the path is too long",
                            c->words[0]);
    CAY_TRY(cay__bstage_box(b, &(cay__bstage){ .ref = c->from, .base = -1 },
                            CAY_IF(c->origin == CAY__FROM_STAGE, b->stages[c->stage].done), false,
                            &sb, err));
    int rc = cay_file_stat(sb, &b->call, path, true, &st, err);
    cay__builder_throw(b, sb);
    m->dir = st.type == CAY_DIR;
    if (rc == CAY_ENOENT)
        return cay_fail_why(err, rc, "build_copy", "%.100s is not there", c->words[0]);
    return rc;
}

static const char *strip_dir(const char *path, const char *dir)
{
    size_t n = strlen(dir);
    if (path && !strncmp(path, dir, n) && path[n] == '/')
        return path + n;
    return NULL;
}

/* In a sandbox of its own, so that the step's may have it read-only. */
static int fill_volume(cay__builder *b, const cay__task *t, const cay__bmount *m, cay_err *err)
{
    const cay_pair labels[] = { { CAY__BUILD_LABEL, b->who }, { NULL, NULL } };
    const cay_volume_use use = { m->volume, FILL, true };
    const char *words[] = { m->copy->words[0], FILL "/", NULL };
    cay__step step = *m->copy->step;
    cay__task copy = *m->copy;
    cay_sandbox *sb = NULL;
    cay_create c = { .size = sizeof c,
                     .from.template_ = CAY__BUILD_HOST,
                     .process.user = "root",
                     .labels = labels,
                     .tenant = b->spec->tenant,
                     .limits = b->spec->limits,
                     .files.volumes = &use,
                     .files.nvolumes = 1 };
    copy.step = &step;
    copy.words = step.words = words;
    CAY_TRY(cay_client_create(b->client, &b->call, &c, &sb, err));
    int rc = cay_file_chown(sb, &b->call, FILL, 0, 0, err);
    if (rc == 0)
        rc = cay__task_put(b, sb, &copy, err);
    for (size_t i = 0; rc == 0 && i < t->nmounts; i++) { /* what is mounted below needs a place */
        const char *rest = strip_dir(t->mounts[i].target, m->target);
        char path[4300];
        if (!rest || !*t->mounts[i].volume)
            continue;
        CAY_FORMAT(path, FILL "%s", rest);
        rc = cay_file_mkdir(sb, &b->call, path, 0755, true, err);
    }
    cay__builder_throw(b, sb);
    return rc;
}

int cay__lent_open(cay__builder *b, const cay__task *t, cay_err *err)
{
    CAY_EACH_OF(m, t->mounts, t->nmounts) {
        if (m->type == 'b')
            CAY_TRY(stat_source(b, m, err));
        if (m->type == 's' || (m->type == 'b' && !m->dir))
            continue;
        CAY_TRY(cay__mount_volume(b, m, m->volume, err));
    }
    CAY_TRY(lock_caches(b, t, err));
    CAY_EACH_OF(mount, t->mounts, t->nmounts)
        if (mount->type == 'b' && mount->dir) {
            CAY_TRY(cay_wrap(err, fill_volume(b, t, mount, err), "--mount %.60s", mount->target));
        }
    return 0;
}

size_t cay__lent_volumes(const cay__task *t, cay_volume_use *out)
{
    size_t n = 0;
    for (size_t i = 0; i < t->nmounts; i++)
        if (*t->mounts[i].volume)
            out[n++] =
                (cay_volume_use){ t->mounts[i].volume, t->mounts[i].target, t->mounts[i].rw };
    return n;
}

void cay__lent_close(cay__builder *b, const cay__task *t)
{
    CAY_EACH_OF(m, t->mounts, t->nmounts) {
        if (*m->volume && m->type != 'c')
            cay__mount_forget(b->client, m->volume);
        else if (*m->volume)
            cay__cache_used(b, m);
        m->volume[0] = 0;
        cay__close_fd(&m->lock);
    }
}

/* The uppermost directory on the way that is not there yet. */
static const char *find_missing_dir(cay__builder *b, cay_sandbox *sb, const char *path)
{
    char up[4200];
    bool there = true;
    for (const char *s = strchr(path + 1, '/'); s; s = strchr(s + 1, '/')) {
        CAY_FORMAT(up, "%.*s", (int)(s - path), path);
        if (cay_file_exists(sb, &b->call, up, &there, NULL) == 0 && !there)
            return cay__arena_str(&b->mem, up);
    }
    return NULL;
}

/* A file that is there already stands aside until the step is over. */
static int make_room(cay__builder *b, cay_sandbox *sb, cay__bmount *m, cay_err *err)
{
    cay_stat st = { .size_of = sizeof st };
    char path[4300], id[CAY_ID_LEN + 1];
    m->made = find_missing_dir(b, sb, m->target);
    int rc = cay_file_stat(sb, &b->call, m->target, false, &st, err);
    if (rc == CAY_ENOENT)
        return 0;
    CAY_TRY(rc);
    if (st.type == CAY_DIR)
        return cay_fail_why(err, CAY_ETYPE, "build_copy",
                            "%.100s is a directory, and the source is a file", m->target);
    cay__id_make(id, 'x');
    CAY_FORMAT(m->aside, ".%s", id);
    CAY_FORMAT(path, "%.*s%s", (int)(strrchr(m->target, '/') + 1 - m->target), m->target, m->aside);
    rc = cay_file_rename(sb, &b->call, m->target, path, err);
    if (rc < 0)
        m->aside[0] = 0;
    return rc;
}

static int place_secret(cay__builder *b, cay_sandbox *sb, cay__bmount *m, cay_err *err)
{
    const cay_build_secret *s = cay__mount_secret(b, m);
    char path[300];
    if (!s || !m->target) {
        if (!s)
            cay__report_say(
                &b->report, CAY_BUILD_WARN, false,
                "the secret %.60s was not given (--secret id=%.60s,src=FILE), and is not there",
                m->id, m->id);
        return 0;
    }
    CAY_FORMAT(path, SECRETS "/%s", m->id);
    m->bytes = true;
    CAY_TRY(cay_file_mkdir(sb, &b->call, SECRETS, 0755, true, err));
    CAY_TRY(cay_file_put(sb, &b->call, path, s->value, s->len,
                         &(cay_write){ .size = sizeof(cay_write), .mode = m->mode }, err));
    if (m->uid || m->gid)
        CAY_TRY(cay_file_chown(sb, &b->call, path, m->uid, m->gid, err));
    if (!strcmp(path, m->target))
        return 0;
    CAY_TRY(make_room(b, sb, m, err));
    m->placed = true;
    if (m->made) {
        char up[4200];
        CAY_FORMAT(up, "%.*s", (int)(strrchr(m->target, '/') - m->target), m->target);
        CAY_TRY(cay_file_mkdir(sb, &b->call, up, 0755, true, err));
    }
    return cay_file_symlink(sb, &b->call, path, m->target, err);
}

static int own_cache(cay__builder *b, cay_sandbox *sb, const cay__bmount *m, cay_err *err)
{
    cay_stat st = { .size_of = sizeof st };
    if (!m->rw)
        return 0;
    CAY_TRY(cay_file_stat(sb, &b->call, m->target, true, &st, err));
    if (st.uid != m->uid || st.gid != m->gid)
        CAY_TRY(cay_file_chown(sb, &b->call, m->target, m->uid, m->gid, err));
    if ((st.mode & 07777) != m->mode)
        return cay_file_chmod(sb, &b->call, m->target, m->mode, err);
    return 0;
}

int cay__lent_place(cay__builder *b, cay_sandbox *sb, const cay__task *t, cay_err *err)
{
    CAY_EACH_OF(m, t->mounts, t->nmounts) {
        int rc = 0;
        if (m->type == 's')
            rc = place_secret(b, sb, m, err);
        else if (m->type != 'b')
            rc = own_cache(b, sb, m, err);
        else if (!m->dir && (rc = make_room(b, sb, m, err)) == 0) {
            m->placed = true;
            rc = cay__task_put(b, sb, m->copy, err);
        }
        if (rc < 0)
            return cay_wrap(err, rc, "--mount %.60s", m->target);
    }
    return 0;
}

static int ignore_missing(int rc)
{
    if (rc == CAY_ENOENT)
        return 0;
    return rc;
}

int cay__lent_clear(cay_sandbox *sb, const cay__task *t, cay_err *err)
{
    /* Whatever became of the call: what was lent is taken back. */
    int rc = 0;
    char path[4300];
    for (size_t i = t->nmounts; i-- > 0;) {
        cay__bmount *m = &t->mounts[i];
        int own = 0;
        if (m->bytes) {
            CAY_FORMAT(path, SECRETS "/%s", m->id);
            own = ignore_missing(cay_file_remove(sb, NULL, path, false, err));
            if (rc >= 0)
                rc = own;
        }
        m->bytes = false;
        if (!m->placed)
            continue;
        m->placed = false;
        own = ignore_missing(cay_file_remove(sb, NULL, m->target, false, err));
        if (own == 0 && *m->aside) {
            CAY_FORMAT(path, "%.*s%s", (int)(strrchr(m->target, '/') + 1 - m->target), m->target,
                       m->aside);
            own = cay_file_rename(sb, NULL, path, m->target, err);
        }
        CAY_COPY(path, m->target);
        while (own == 0 && m->made &&
               strlen(path) > strlen(m->made)) { /* directories that only it needed */
            *strrchr(path, '/') = 0;
            if (cay_file_remove(sb, NULL, path, false, NULL) < 0)
                break;
        }
        m->aside[0] = 0;
        if (rc >= 0)
            rc = own;
    }
    return rc;
}
