/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox that is a container: made, found again, taken away. */
#include "box.h"
#include <base/fault.h>
#include <base/path.h>

void cay__docker_release(void *box)
{
    cay__docker_box *b = box;
    cay__sessions_close(&b->base.sessions);
    cay__link_close(&b->link);
    cay__close_fd(&b->ctl);
    cay__close_fd(&b->dir);
    free(b);
}

/* "CONTAINER PID" */
int cay__docker_noted(const cay__docker_box *b, char *container, size_t cap)
{
    char text[128];
    uint64_t pid = 0;
    ssize_t n = -1;
    if (b->dir >= 0)
        n = cay__fd_read_file(b->dir, "container", text, sizeof text);
    char *blank = NULL;
    if (n > 0)
        blank = strchr(text, ' ');
    if (!blank || cay__hex_len(text) != (size_t)(blank - text))
        return 0;
    *blank++ = 0;
    blank[strcspn(blank, "\n")] = 0;
    cay__str_copy(container, cap, text);
    if (cay__str_to_u64(blank, &pid) && pid < INT32_MAX)
        return (int)pid;
    return 0;
}

int cay__docker_note(cay__docker_box *b, const char *container, cay_err *err)
{
    char text[128];
    int n = CAY_FORMAT(text, "%s %d\n", container, atomic_load(&b->pid));
    CAY_AUTOFD fd =
        openat(b->dir, ".container", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || !cay__fd_write_all(fd, text, (size_t)n) ||
        renameat(b->dir, ".container", b->dir, "container") < 0)
        return cay_fail_sys(err, "note the container of %s", b->base.id);
    return 0;
}

int cay__docker_box_open(cay__docker *d, const char *id, cay__docker_box **out, cay_err *err)
{
    CAY_AUTOPTR(cay__docker_box) b = cay__alloc(sizeof *b);
    b->d = d;
    b->ctl = -1;
    cay__link_open(&b->link, cay__docker_dial, b, "container");
    cay__served_open(&b->base, id, &b->link);
    b->base.sessions.ready = cay__docker_ready;
    b->dir = -1;
    if (cay__id_valid(id, 'c') && d->boxes >= 0)
        b->dir = openat(d->boxes, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (b->dir >= 0)
        b->ctl = openat(b->dir, "ctl", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (b->ctl < 0)
        return cay_fail_why(err, CAY_EGONE, "sandbox_gone", "sandbox %.24s: its directory is gone",
                            id);
    char container[72];
    atomic_store(&b->pid, cay__docker_noted(b, container, sizeof container));
    cay__docker_walls_load(b->dir, &b->walls);
    *out = CAY_STEAL(b);
    return 0;
}

void cay__docker_at(const cay__docker_box *b, cay__buf *path, const char *rest)
{
    char container[72] = "";
    cay__docker_noted(b, container,
                      sizeof container); /* each time: undo puts another one in its place */
    cay__buf_fmt(path, "/containers/%s%s%s", CAY_TEXT_IF(!*container, "cay-"),
                 cay__text_or(container, b->base.id), rest);
}

/* One that was made without a network has none for ever: a container of our name that has got one
 * since was made or changed by somebody else. */
static bool shut_off(const cay__docker_box *b, const json_t *j)
{
    const char *name,
        *mode = cay__json_str(json_object_get(j, "HostConfig"), "NetworkMode", "none");
    json_t *v;
    if (strcmp(b->walls.network, "none")) /* it had one, or nothing is known of that */
        return true;
    json_object_foreach(json_object_get(json_object_get(j, "NetworkSettings"), "Networks"), name, v)
        if (strcmp(name, "none"))
            return false;
    return !strcmp(mode, "none");
}

int cay__docker_find(cay__docker_box *b, const cay_call *call, cay__docker_view *out, json_t **all,
                     cay_err *err)
{
    CAY_AUTOBUF path = CAY__BUF(256);
    CAY_AUTOJSON *j = NULL;
    cay__engine *e;
    CAY_TRY(cay__docker_engine(b->d, &e, err));
    cay__docker_at(b, &path, "/json");
    int rc = cay__engine_ask(e, call, "GET", path.data, NULL, &j, err);
    if (rc == CAY_ENOENT)
        return cay_fail_why(err, CAY_EGONE, "sandbox_gone", "the container of %s is gone",
                            b->base.id);
    CAY_TRY(rc);
    json_t *labels = json_object_get(json_object_get(j, "Config"), "Labels"),
           *st = json_object_get(j, "State");
    /* One that somebody else gave our name is not ours: the word in the label says so. */
    if (strcmp(cay__json_str(labels, CAY__DOCKER_OWNER, ""), b->d->owner) != 0 ||
        strcmp(cay__json_str(labels, CAY__DOCKER_SANDBOX, ""), b->base.id) != 0)
        return cay_fail_why(err, CAY_EGONE, "sandbox_gone",
                            "the container of %s is gone; one of that name is not ours",
                            b->base.id);
    *out = (cay__docker_view){ .pid = (int)cay__json_int(st, "Pid", 0),
                               .oom = cay__json_bool(st, "OOMKilled", false) };
    if (cay__json_bool(st, "Paused", false))
        out->state = CAY_PAUSED;
    else if (cay__json_bool(st, "Running", false))
        out->state = CAY_RUNNING;
    else
        out->state = CAY_STOPPED;
    CAY_COPY(out->container, cay__json_str(j, "Id", ""));
    if (all)
        *all = CAY_STEAL(j);
    return 0;
}

int cay__docker_look(cay__docker_box *b, const cay_call *call, cay__docker_view *out, json_t **all,
                     cay_err *err)
{
    CAY_AUTOJSON *j = NULL;
    CAY_TRY(cay__docker_find(b, call, out, &j, err));
    if (shut_off(b, j)) {
        if (all)
            *all = CAY_STEAL(j);
        return 0;
    }
    return cay_fail_why(
        err, CAY_EGONE, "sandbox_gone",
        "the container of %s is gone; the one of that name has a network, and it had none",
        b->base.id);
}

static int write_file(int dir, const char *name, const void *data, size_t len, cay_err *err)
{
    CAY_AUTOFD fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || !cay__fd_write_all(fd, data, len))
        return cay_fail_sys(err, "write the sandbox's %s", name);
    return 0;
}

/* Its time begins when it is up: an engine may need longer for that than the sandbox is to live. */
static local_meta first_meta(const cay_create *spec)
{
    local_meta m = cay__local_meta_first(CAY_LEVEL_NONE, spec);
    m.deadline_boot = 0;
    return m;
}

/* Under a name of its own first, so that a box is whole or not there. */
static int make_dir(cay__docker *d, const char *id, const cay_box_spec *spec,
                    const cay__docker_walls *walls, const cay__docker_image *image, json_t *body,
                    bool volumes, cay_err *err)
{
    char tmp[40], ctl[48];
    cay__fs boxes = { .root = d->boxes };
    CAY_AUTOBUF config = CAY__BUF(8u << 20);
    local_meta m = first_meta(spec->create);
    CAY_TRY(cay__docker_config(spec, image, &config, err));
    CAY_JOIN(tmp, ".new-", id);
    CAY_JOIN(ctl, tmp, "/ctl");
    cay__fs_remove(&boxes, tmp, true);
    if (mkdirat(d->boxes, tmp, 0700) < 0 || mkdirat(d->boxes, ctl, 0700) < 0)
        return cay_fail_sys(err, "make sandbox %s", id);
    CAY_AUTOFD dir = openat(d->boxes, ctl, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc;
    if (dir < 0)
        rc = cay_fail_sys(err, "make sandbox %s", id);
    else
        rc = write_file(dir, "config", config.data, config.len, err);
    if (rc == 0)
        rc = cay__local_meta_write(dir, &m, err);
    CAY_AUTOFD top = openat(d->boxes, tmp, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (rc == 0)
        rc = cay__docker_walls_save(top, walls, err);
    if (rc == 0)
        rc = cay__docker_request_write(top, image, body, err);
    if (rc == 0 && volumes)
        rc = cay__docker_volumes_mark(top, err);
    if (rc == 0 && renameat2(d->boxes, tmp, d->boxes, id, RENAME_NOREPLACE) < 0 && errno != EEXIST)
        rc = cay_fail_sys(err, "make sandbox %s", id);
    cay__fs_remove(&boxes, tmp, true);
    return rc;
}

/* Events look there for what began to run. */
static void mark_up(cay__docker *d, const char *id)
{
    char path[64];
    CAY_JOIN(path, CAY__DOCKER_UP "/", id);
    unlinkat(d->boxes, path, 0);
    CAY_AUTOFD fd __attribute__((unused)) =
        openat(d->boxes, path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
}

static int make_container(cay__docker_box *b, const cay_call *call, json_t *body, bool *runs,
                          cay_err *err)
{
    cay__docker_view v;
    CAY_AUTOBUF path = CAY__BUF(256);
    CAY_AUTOJSON *j = NULL;
    cay__buf_fmt(&path, "/containers/create?name=cay-%s", b->base.id);
    CAY_FAULT("docker.intent");
    int rc = cay__engine_ask(b->d->engine, call, "POST", path.data, body, &j, err);
    if (rc ==
        CAY_ESTATE) { /* made before, by a call whose answer was lost; or it is somebody else's */
        CAY_TRY(cay__docker_look(b, call, &v, NULL, err));
        *runs = v.state == CAY_RUNNING;
        return 0;
    }
    CAY_TRY(rc);
    CAY_FAULT("docker.made");
    const char *id = cay__json_str(j, "Id", "");
    if (cay__hex_len(id) != strlen(id) || strlen(id) < 12 || strlen(id) >= sizeof v.container)
        return cay_fail_why(err, CAY_EUPSTREAM, "engine_answer",
                            "the engine tells no id of the container");
    return cay__docker_note(b, id, err);
}

/* Runs it, and comes back when its pid 1 answers. */
int cay__docker_bring_up(cay__docker_box *b, const cay_call *call, const cay_create *spec,
                         bool runs, cay_err *err)
{
    CAY_AUTOBUF path = CAY__BUF(256);
    cay__docker_view v;
    cay_m_hello m = { .version = CAY_MSG_VERSION };
    if (!runs) {
        CAY_TRY(cay__docker_look(b, call, &v, NULL, err)); /* is it still the one that was made? */
        atomic_store(&b->pid, 0);
        unlinkat(b->ctl, "sock", 0); /* of a former life */
        if (b->walls.far)
            CAY_TRY(cay__docker_far_put(b, call, err));
        cay__docker_at(b, &path, "/start");
        CAY_TRY(cay__engine_ask(b->d->engine, call, "POST", path.data, NULL, NULL, err));
        CAY_FAULT("docker.started");
    }
    CAY_TRY(cay__docker_look(b, call, &v, NULL, err));
    atomic_store(&b->pid, b->walls.far ? 0 : v.pid); /* one of another machine means nothing here */
    CAY_TRY(cay__docker_note(b, v.container, err));
    CAY_TRY(cay__link_call(&b->link, call, CAY__LINK_ASK(CAY_MSG_HELLO, m), NULL, err));
    if (!runs && spec->life.ttl_ms && spec->life.ttl_ms != CAY_UNLIMITED)
        CAY_TRY(cay__served_extend(b, call, spec->life.ttl_ms, 0, err));
    mark_up(b->d, b->base.id);
    return 0;
}

static int prepare_create(cay__docker *d, const cay_call *call, const char *id,
                          const cay_box_spec *spec, json_t **body, cay__docker_image *image,
                          cay__docker_walls *walls, cay_err *err)
{
    bool far = walls->far;
    cay__docker_options o;
    const cay__engine_info *info;
    cay__engine *e;
    char pid1[4096], ctl[4200];
    CAY_TRY(cay__docker_options_read(spec, &o, err));
    CAY_TRY(cay__docker_engine(d, &e, err));
    CAY_TRY(cay__engine_meet(e, call, &info, err));
    CAY_TRY(cay__docker_check(spec->create, &o, info, err));
    if (o.fuse && !far && access("/dev/fuse", F_OK) < 0)
        return cay_fail_why(err, CAY_ENOTSUP, "mount_unsupported",
                            "storage inside of a container needs /dev/fuse, which this machine "
                            "does not have: modprobe fuse");
    if (far)
        CAY_TRY(cay__docker_far_check(&o, info, err));
    if (far && spec->nservices)
        return cay_fail_why(err, CAY_ENOTSUP, "engine_remote",
                            "service %.40s: the engine does not see this machine's files, and what "
                            "it keeps running could not be asked for; start it by cay exec -d",
                            spec->services[0].name);
    cay__docker_walls_of(&o, walls);
    walls->far = far;
    CAY_TRY(cay__libexec_find(d->libexec, "cay-pid1", pid1, sizeof pid1, err));
    CAY_TRY(cay__docker_home(d, err));
    if (spec->nlayers)
        CAY_TRY(
            cay__docker_layer_image(d, call, spec->layers[spec->nlayers - 1], o.image, image, err));
    else {
        if (o.dockerfile)
            CAY_TRY(cay__docker_build(d, call, &o, spec->create, image, err));
        else
            CAY_TRY(cay__docker_image_find(e, call, &o, spec->create, image, err));
    }
    if (!image->of)
        image->of = cay__strdup(o.image);
    cay__docker_know(d, info);
    CAY_JOIN(ctl, d->dir, "/", id, "/ctl");
    cay__docker_place at = { .id = id, .owner = d->owner, .ctl = ctl, .pid1 = pid1, .far = far };
    return cay__docker_spec(spec->create, &o, image, info, &at, body, err);
}

static int create_container(cay__docker *d, const cay_call *call, const char *id,
                            const cay_box_spec *spec, bool far, void **box, cay_err *err)
{
    cay__docker_box *b = NULL;
    CAY_AUTOJSON *body = NULL;
    cay__docker_image image = { 0 };
    cay__docker_walls walls = { .far = far };
    cay__docker_options o;
    CAY_TRY(cay__docker_options_read(spec, &o, err));
    if (!cay__id_valid(id, 'c'))
        return cay_fail_why(err, CAY_EINVAL, "bad_id", "sandbox id %.24s is not one", id);
    int rc = prepare_create(d, call, id, spec, &body, &image, &walls, err);
    if (rc == 0 && faccessat(d->boxes, id, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        rc = make_dir(d, id, spec, &walls, &image, body, o.storage != NULL, err);
    cay__docker_image_clear(&image);
    if (rc == 0)
        rc = cay__docker_box_open(d, id, &b, err);
    CAY_TRY(rc);
    bool runs = false;
    rc = cay__docker_volumes_make(b, call, o.storage, err);
    if (rc == 0)
        rc = make_container(b, call, CAY_STEAL(body), &runs, err);
    if (rc == 0)
        rc = cay__docker_bring_up(b, call, spec->create, runs, err);
    if (rc < 0) { /* nothing half-made stays, whatever became of the caller's time */
        cay__docker_volumes_redact(o.storage, err);
        cay_call undo = { .size = sizeof undo, .deadline_ms = cay__now_ms() + 20000 };
        cay__docker_release(b);
        cay__docker_remove(d, &undo, id, NULL);
        return rc;
    }
    *box = b;
    return 0;
}

/* By a socket in a directory that both see; where the engine does not see it, through the engine.
 */
int cay__docker_create(void *self, const cay_call *call, const char *id, const cay_box_spec *spec,
                       void **box, cay_err *err)
{
    const cay_create *c = spec->create;
    cay__docker *d = self;
    cay__docker_options o;
    cay__engine *e;
    const cay__engine_info *info;
    cay_err why = CAY_ERR_INIT;
    CAY_TRY(cay__docker_options_read(spec, &o, err));
    CAY_TRY(cay__docker_engine(d, &e, err));
    CAY_TRY(cay__engine_meet(e, call, &info, err));
    bool choose = !strcmp(o.transport, "auto"),
         far = choose ? cay__engine_far(e) || (info->userns && !info->rootless)
                      : !strcmp(o.transport, "engine");
    int rc = create_container(d, call, id, spec, far, box, &why);
    if (rc == CAY_ENOTSUP && choose && !far && !c->files.ngrants &&
        cay_err_is(&why, CAY_REASON_ENGINE_REMOTE))
        rc = create_container(d, call, id, spec, true, box, &why);
    return cay__err_pass(rc, &why, err);
}

/* A stopped one begins a new life on its files, with new deadlines. */
int cay__docker_start(void *self, const cay_call *call, const char *id, const cay_box_spec *spec,
                      void **box, cay_err *err)
{
    cay__docker *d = self;
    CAY_AUTOPTR(cay__docker_box) b = NULL;
    cay__docker_view v;
    local_meta m = first_meta(spec->create);
    CAY_TRY(cay__docker_box_open(d, id, &b, err));
    CAY_TRY(cay__docker_look(b, call, &v, NULL, err));
    /* Storage is mounted before anybody works in it: one that others started begins anew. */
    if (v.state != CAY_STOPPED && cay__docker_storage(spec->create)) {
        CAY_TRY(cay__docker_stop(b, call, err));
        v.state = CAY_STOPPED;
    }
    if (v.state == CAY_STOPPED) {
        CAY_TRY(cay__local_meta_write(b->ctl, &m, err));
        CAY_TRY(cay__docker_bring_up(b, call, spec->create, false, err));
    }
    *box = CAY_STEAL(b);
    return 0;
}

static int remove_container(cay__docker *d, const cay_call *call, const char *id, cay_err *err)
{
    CAY_AUTOBUF path = CAY__BUF(256);
    CAY_AUTOPTR(cay__docker_box) b = NULL;
    cay__docker_view v;
    /* Without its directory it is known by its name. */
    cay__docker_box named = { .d = d, .dir = -1, .ctl = -1 };
    CAY_COPY(named.base.id, id);
    int rc = CAY_EGONE;
    if (cay__docker_box_open(d, id, &b, NULL) == 0)
        rc = cay__docker_find(b, call, &v, NULL, err);
    if (rc == CAY_EGONE) /* one of its name and labels is its own as well, whoever made it */
        rc = cay__docker_find(&named, call, &v, NULL, err);
    if (rc == CAY_EGONE)
        return 0;
    CAY_TRY(rc);
    cay__buf_fmt(&path, "/containers/%s?force=true&v=true", v.container);
    rc = cay__engine_ask(d->engine, call, "DELETE", path.data, NULL, NULL, err);
    for (int i = 0; rc == CAY_ESTATE && i < 500; i++) { /* somebody else, or AutoRemove, is at it */
        CAY_TRY(cay__call_check(call, "remove the container", err));
        usleep(10000);
        rc = cay__engine_ask(d->engine, call, "DELETE", path.data, NULL, NULL, err);
    }
    if (rc == CAY_ENOENT)
        return 0;
    return rc;
}

int cay__docker_remove(cay__docker *d, const cay_call *call, const char *id, cay_err *err)
{
    char up[64];
    CAY_TRY(remove_container(d, call, id, err));
    if (d->engine)
        cay__docker_remove_others(d, call, id);
    cay__docker_volumes_remove(d, call, id);
    CAY_FAULT("docker.removed");
    CAY_JOIN(up, CAY__DOCKER_UP "/", id);
    CAY_TRY(cay__boxes_remove(d->boxes, id, err));
    unlinkat(d->boxes, up, 0); /* last: while the directory is there, its events are looked for */
    return 0;
}
