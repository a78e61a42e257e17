/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A snapshot is an image that the engine commits, and undo a container in the place of another. On
 * disk, for a layer NAME of the client: docker/.layers/NAME  JSON: the image's id, the reference
 * it came from, and the user and environment that this one had layers/NAME/image    the image's id
 * again: that the layer is there, for who decides what a crash left The image is called
 * localhost/cay-WORD:NAME, WORD from docker/owner, and carries our labels: gc finds one whose layer
 * is gone.
 */
#include "box.h"
#include <base/fault.h>
#include <base/path.h>

#define RECORDS ".layers"
#define LAYERS  "/layers"
#define YOUNG_S 60
enum { RECORD_MAX = 8 << 20 };

static bool name_ok(const char *s)
{
    size_t n = strlen(s);
    return n >= 1 && n < CAY_LAYER_NAME && *s != '-' &&
           strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == n;
}

static int bad_name(const char *layer, cay_err *err)
{
    return cay_fail_why(err, CAY_EINVAL, "layer_invalid", "%.60s is no name of a layer", layer);
}

static int read_json(int dir, const char *name, json_t **out, cay_err *err)
{
    struct stat st;
    CAY_AUTOFD fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &st) < 0 || st.st_size > RECORD_MAX)
        return cay_fail_sys_as(err, CAY_ENOENT, "read %s", name);
    CAY_AUTOFREE char *text = cay__alloc((size_t)st.st_size + 1);
    if (cay__fd_read_all(fd, text, (size_t)st.st_size) != st.st_size)
        return cay_fail_sys(err, "read %s", name);
    return cay__json_object(name, text, out, err);
}

static int write_json(int dir, const char *name, const json_t *o, cay_err *err)
{
    char tmp[CAY_LAYER_NAME + 8];
    CAY_AUTOFREE char *text = cay__json_text(o, RECORD_MAX);
    CAY_JOIN(tmp, ".", name);
    CAY_AUTOFD fd = -1;
    if (text)
        fd = openat(dir, tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || !cay__fd_write_all(fd, text, strlen(text)) || renameat(dir, tmp, dir, name) < 0)
        return cay_fail_sys(err, "write %s", name);
    return 0;
}

/* docker/ID/request: what the container was made by, and what its image said, for one like it. */
int cay__docker_request_write(int dir, const cay__docker_image *image, json_t *body, cay_err *err)
{
    CAY_AUTOJSON *r =
        json_pack("{s:s,s:O,s:O}", "of", image->of, "config", image->config, "body", body);
    if (r)
        return write_json(dir, "request", r, err);
    return cay_fail_why(err, CAY_EINVAL, "not_utf8", "an engine takes UTF-8 alone");
}

static int open_records(const cay__docker *d, bool make)
{
    if (make)
        mkdirat(d->boxes, RECORDS, 0700);
    return openat(d->boxes, RECORDS, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

/* layers/ of the state directory. */
static int open_layers(const cay__docker *d, bool make)
{
    char path[4200];
    CAY_JOIN(path, d->home, LAYERS);
    if (make)
        mkdir(path, 0711);
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

static bool layer_there(const cay__docker *d, const char *layer)
{
    CAY_AUTOFD at = open_layers(d, false);
    return at >= 0 && faccessat(at, layer, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Whole or not there. */
static int put_layer(const cay__docker *d, const char *layer, const char *image, cay_err *err)
{
    char tmp[CAY_LAYER_NAME + 8];
    cay__fs boxes = { .root = d->boxes };
    CAY_JOIN(tmp, ".new-", layer);
    CAY_AUTOFD to = open_layers(d, true);
    cay__fs_remove(&boxes, tmp, true);
    CAY_AUTOFD at = -1;
    if (mkdirat(d->boxes, tmp, 0700) >= 0)
        at = openat(d->boxes, tmp, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    CAY_AUTOFD fd = -1;
    if (at >= 0)
        fd = openat(at, "image", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool ok = to >= 0 && fd >= 0 && cay__fd_write_all(fd, image, strlen(image));
    if (ok && renameat2(d->boxes, tmp, to, layer, RENAME_NOREPLACE) == 0)
        return 0;
    int rc = cay_fail_sys(err, "make layer %s", layer);
    cay__fs_remove(&boxes, tmp, true);
    return rc;
}

int cay__docker_layer_image(cay__docker *d, const cay_call *call, const char *layer,
                            const char *asked, cay__docker_image *out, cay_err *err)
{
    CAY_AUTOJSON *r = NULL, *seen = NULL;
    CAY_AUTOBUF path = CAY__BUF(256);
    CAY_AUTOFD at = open_records(d, false);
    cay__engine *e;
    if (!name_ok(layer))
        return bad_name(layer, err);
    if (at < 0 || read_json(at, layer, &r, NULL) < 0)
        return cay_fail_why(err, CAY_ENOTSUP, "snapshot_provider",
                            "layer %.60s is no image of this engine; use the provider that made it",
                            layer);
    const char *id = cay__json_str(r, "image", ""), *of = cay__json_str(r, "of", "");
    if (asked && strcmp(asked, of) != 0)
        return cay_fail_why(err, CAY_EINVAL, "snapshot_image",
                            "the snapshot was made on image %.80s, not on %.80s; leave --image out",
                            of, asked);
    CAY_TRY(cay__docker_engine(d, &e, err));
    cay__buf_fmt(&path, "/images/%s/json", id);
    int rc = cay__engine_ask(e, call, "GET", path.data, NULL, &seen, err);
    if (rc == CAY_ENOENT)
        return cay_fail_why(
            err, CAY_EGONE, "snapshot_gone",
            "the image of layer %s was removed from the engine; remove the snapshot, too", layer);
    CAY_TRY(rc);
    if (!CAY_COPY(out->id, id))
        return cay_fail_why(err, CAY_ESTATE, "snapshot_damaged",
                            "the record of layer %s is damaged", layer);
    out->config = json_incref(json_object_get(r, "config"));
    out->of = cay__strdup(of);
    return 0;
}

static void tag_of(const cay__docker *d, const char *layer, char *out, size_t cap)
{
    snprintf(out, cap, "localhost/cay-%.12s:%s", d->owner, layer);
}

/* Workers of ours, for files and watches, are nobody's processes. */
static int one_runs(const cay_proc_info *p, void *arg)
{
    *(bool *)arg |= p->state != 'X' && p->state != 'Z' && p->pid > 1 &&
                    (*p->id || !cay__str_starts(p->command, "/.cay/pid1 "));
    return 0;
}

/* Where pid 1 was put into the container it would be in the image, with its directory. */
static int not_far(const cay__docker_box *b, cay_err *err)
{
    if (b->walls.far)
        return cay_fail_why(err, CAY_ENOTSUP, "engine_remote",
                            "no snapshots of %s: the engine does not see this machine's files",
                            b->base.id);
    return 0;
}

static int check_snapshot(cay__docker_box *b, const cay_call *call, const cay_snap *spec,
                          char container[72], cay_err *err)
{
    cay__docker_view v;
    CAY_AUTOJSON *all = NULL;
    bool busy = false;
    CAY_TRY(cay__docker_look(b, call, &v, &all, err));
    bool read_only = cay__json_bool(json_object_get(all, "HostConfig"), "ReadonlyRootfs", false);
    memcpy(container, v.container, sizeof v.container);
    if (read_only)
        return cay_fail_why(err, CAY_ENOTSUP, "snapshot_unsupported",
                            "the root of %s is read-only and what it writes is memory, which an "
                            "engine does not keep",
                            b->base.id);
    if (spec->how == CAY_SNAP_QUIET)
        CAY_TRY(cay__served_procs(b, call, one_runs, &busy, err));
    if (busy)
        return cay_fail_why(err, CAY_EBUSY, "processes_running", "processes of %s are running",
                            b->base.id);
    return 0;
}

/* Held still for the moment, pid 1 included; the image gets what was written, and none of the
 * mounts. */
static int commit_container(cay__docker_box *b, const cay_call *call, const char *container,
                            const char *layer, char *id, size_t cap, cay_err *err)
{
    CAY_AUTOBUF path = CAY__BUF(1024);
    CAY_AUTOJSON *j = NULL;
    char label[128];
    cay__buf_fmt(&path, "/commit?container=%s&repo=localhost%%2Fcay-%.12s&tag=%s&pause=true",
                 container, b->d->owner, layer);
    CAY_FORMAT(label, "LABEL " CAY__DOCKER_LAYER "=%s", layer);
    cay__buf_str(&path, "&changes=");
    cay__engine_encode(&path, label);
    cay__buf_str(&path, "&changes=");
    cay__engine_encode(&path, "LABEL " CAY__DOCKER_SANDBOX
                              "=none"); /* what somebody runs from it is no sandbox of ours */
    CAY_TRY(cay__engine_ask(b->d->engine, call, "POST", path.data, json_object(), &j, err));
    const char *got = cay__json_str(j, "Id", "");
    const char *hex = got;
    if (cay__str_starts(got, "sha256:"))
        hex = got + 7;
    if (!cay__hex_is(hex, 64) || !cay__str_join(id, cap, "sha256:", hex, NULL))
        return cay_fail_why(err, CAY_EUPSTREAM, "engine_answer",
                            "the engine tells no id of the image");
    return 0;
}

int cay__docker_snapshot(void *box, const cay_call *call, const cay_snap *spec, cay_snapped *out,
                         cay_err *err)
{
    cay__docker_box *b = box;
    CAY_AUTOJSON *r = NULL;
    CAY_AUTOFD at = open_records(b->d, true);
    int64_t began = cay__now_us();
    char id[80], container[72];
    if (!name_ok(spec->layer))
        return bad_name(spec->layer, err);
    *out = (cay_snapped){ .size = sizeof *out, .method = "commit" };
    if (layer_there(b->d, spec->layer)) /* its answer was lost */
        return 0;
    CAY_TRY_SYS(at, err, "make %s/" RECORDS, b->d->dir);
    CAY_TRY(not_far(b, err));
    CAY_TRY(check_snapshot(b, call, spec, container, err));
    if (read_json(b->dir, "request", &r, NULL) < 0)
        return cay_fail_why(err, CAY_ENOTSUP, "snapshot_unsupported",
                            "sandbox %s was made by a cay that kept no request; make a new one",
                            b->base.id);
    CAY_TRY(commit_container(b, call, container, spec->layer, id, sizeof id, err));
    CAY_FAULT("docker.committed");
    json_object_del(r, "body");
    json_object_set_new(r, "image", json_string(id));
    int rc = write_json(at, spec->layer, r, err);
    CAY_FAULT("docker.layered");
    if (rc == 0)
        rc = put_layer(b->d, spec->layer, id, err);
    if (rc < 0)
        cay__docker_layer_remove(b->d, NULL, spec->layer, NULL);
    out->total_us = out->frozen_us = (uint64_t)(cay__now_us() - began);
    return rc;
}

static int remove_image(cay__docker *d, const cay_call *call, const char *layer, cay_err *err)
{
    CAY_AUTOBUF path = CAY__BUF(256);
    char tag[120];
    cay__engine *e;
    CAY_TRY(cay__docker_engine(d, &e, err));
    tag_of(d, layer, tag, sizeof tag);
    /* By its name, which is ours: what others tagged or stand on stays. */
    cay__buf_fmt(&path, "/images/%s", tag);
    int rc = cay__engine_ask(e, call, "DELETE", path.data, NULL, NULL, err);
    if (rc == CAY_ESTATE) { /* a container of it is left, and the engine wants to be sure */
        cay__buf_str(&path, "?force=true");
        rc = cay__engine_ask(e, call, "DELETE", path.data, NULL, NULL, err);
    }
    if (rc == CAY_ENOENT)
        return 0;
    return rc;
}

int cay__docker_layer_remove(void *self, const cay_call *call, const char *layer, cay_err *err)
{
    cay__docker *d = self;
    cay__fs top = { .root = -1 };
    CAY_AUTOFD at = d->boxes < 0 ? -1 : open_records(d, false), layers = open_layers(d, false);
    if (!name_ok(layer))
        return bad_name(layer, err);
    bool ours = at >= 0 && faccessat(at, layer, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    if (!ours && layer_there(d, layer))
        return cay_fail_why(
            err, CAY_ENOTSUP, "snapshot_unsupported",
            "layer %.60s is no image of an engine; the provider that made it removes it", layer);
    if (!ours && !*d->owner)
        return 0;
    CAY_TRY(remove_image(d, call, layer, err));
    CAY_FAULT("docker.unimaged");
    top.root = layers;
    if (layers >= 0 && cay__fs_remove(&top, layer, true) < 0 && errno != ENOENT)
        return cay_fail_sys(err, "remove layer %s", layer);
    if (at >= 0)
        unlinkat(at, layer, 0);
    return 0;
}

/* Images that carry our word and whose layer is gone, or never came to be. */
size_t cay__docker_layers_reap(cay__docker *d, const cay_call *call)
{
    CAY_AUTOJSON *list = NULL;
    CAY_AUTOFD at = open_records(d, false);
    size_t i, n = 0;
    json_t *c;
    if (at < 0)
        return 0;
    if (cay__docker_labelled(d, call, "/images/json?", NULL, &list, NULL) < 0)
        return 0;
    json_array_foreach(list, i, c) {
        const char *layer = cay__json_str(json_object_get(c, "Labels"), CAY__DOCKER_LAYER, "");
        bool old = cay__json_int(c, "Created", INT64_MAX) < cay__clock_ms() / 1000 - YOUNG_S;
        if (old && name_ok(layer) && !layer_there(d, layer))
            n += cay__docker_layer_remove(d, call, layer, NULL) == 0;
    }
    return n;
}

static int post_action(cay__docker_box *b, const cay_call *call, const char *container,
                       const char *what, cay_err *err)
{
    CAY_AUTOBUF path = CAY__BUF(256);
    cay__buf_fmt(&path, "/containers/%s%s", container, what);
    return cay__engine_ask(b->d->engine, call, *what == '?' ? "DELETE" : "POST", path.data, NULL,
                           NULL, err);
}

static int make_other(cay__docker_box *b, const cay_call *call, json_t *body, char *id, size_t cap,
                      cay_err *err)
{
    CAY_AUTOBUF path = CAY__BUF(256);
    CAY_AUTOJSON *j = NULL;
    uint64_t r;
    cay__random(&r, sizeof r);
    cay__buf_fmt(&path, "/containers/create?name=cay-%s-%08x", b->base.id, (unsigned)r);
    CAY_TRY(cay__engine_ask(b->d->engine, call, "POST", path.data, json_incref(body), &j, err));
    const char *got = cay__json_str(j, "Id", "");
    if (strlen(got) < 12 || cay__hex_len(got) != strlen(got) || !cay__str_copy(id, cap, got))
        return cay_fail_why(err, CAY_EUPSTREAM, "engine_answer",
                            "the engine tells no id of the container");
    return 0;
}

/* Its record of time goes on, whichever container it is. */
static int run_it(cay__docker_box *b, const cay_call *call, const char *container, local_meta *m,
                  cay_err *err)
{
    cay_create nothing = { .size = sizeof nothing };
    atomic_store(&b->pid, 0);
    CAY_TRY(cay__docker_note(b, container, err));
    CAY_FAULT("docker.noted");
    CAY_TRY(cay__local_meta_write(b->ctl, m, err));
    return cay__docker_bring_up(b, call, &nothing, false, err);
}

static int replace_container(cay__docker_box *b, const cay_call *call, json_t *body, cay_err *err)
{
    char old[72], other[72];
    local_meta m = { 0 };
    cay__docker_view v;
    CAY_TRY(cay__docker_look(b, call, &v, NULL, err));
    CAY_COPY(old, v.container);
    CAY_TRY(cay__local_meta_read(b->ctl, &m, err));
    m.state = CAY_RUNNING;
    m.reason[0] = 0;
    /* From now on there may be two: who removes the sandbox looks for both. */
    CAY_AUTOFD mark =
        openat(b->dir, "exchanged", O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    CAY_TRY_SYS(mark, err, "note the containers of %s", b->base.id);
    CAY_TRY(make_other(b, call, body, other, sizeof other, err));
    CAY_FAULT("docker.other");
    int rc = cay__docker_stop(b, call, err);
    if (rc == 0)
        rc = run_it(b, call, other, &m, err);
    CAY_FAULT("docker.exchanged");
    cay_call undo = { .size = sizeof undo, .deadline_ms = cay__now_ms() + 20000 };
    if (rc < 0) {
        post_action(b, &undo, other, "?force=true&v=true", NULL);
        run_it(b, &undo, old, &m, NULL);
        return rc;
    }
    post_action(b, &undo, old, "?force=true&v=true",
                NULL); /* one that stays is found by its label */
    return 0;
}

int cay__docker_restack(void *box, const cay_call *call, const char *const *layers, size_t n,
                        cay_err *err)
{
    cay__docker_box *b = box;
    CAY_AUTOJSON *r = NULL;
    cay__docker_image image = { 0 };
    CAY_TRY(not_far(b, err));
    if (read_json(b->dir, "request", &r, NULL) < 0)
        return cay_fail_why(err, CAY_ENOTSUP, "snapshot_unsupported",
                            "sandbox %s was made by a cay that kept no request; make a new one",
                            b->base.id);
    json_t *body = json_object_get(r, "body");
    if (n) {
        CAY_TRY(cay__docker_layer_image(b->d, call, layers[n - 1], NULL, &image, err));
        json_object_set_new(body, "Image", json_string(image.id));
        cay__docker_image_clear(&image);
    }
    return replace_container(b, call, body, err);
}

static bool remove_listed(cay__docker *d, const cay_call *call, const char *container)
{
    CAY_AUTOBUF path = CAY__BUF(256);
    if (strlen(container) < 12 || cay__hex_len(container) != strlen(container))
        return false;
    cay__buf_fmt(&path, "/containers/%s?force=true&v=true", container);
    return cay__engine_ask(d->engine, call, "DELETE", path.data, NULL, NULL, NULL) == 0;
}

bool cay__docker_remove_other(cay__docker *d, const cay_call *call, const char *id,
                              const json_t *listed)
{
    CAY_AUTOPTR(cay__docker_box) b = NULL;
    char noted[72] = "";
    const char *container = cay__json_str(listed, "Id", "");
    bool young = cay__json_int(listed, "Created", INT64_MAX) >= cay__clock_ms() / 1000 - YOUNG_S;
    if (young || cay__docker_box_open(d, id, &b, NULL) < 0)
        return false;
    cay__docker_noted(b, noted, sizeof noted);
    return *noted && strcmp(noted, container) != 0 && remove_listed(d, call, container);
}

void cay__docker_remove_others(cay__docker *d, const cay_call *call, const char *id)
{
    CAY_AUTOJSON *list = NULL;
    char mark[64];
    size_t i;
    json_t *c;
    CAY_JOIN(mark, id, "/exchanged");
    if (faccessat(d->boxes, mark, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    if (cay__docker_labelled(d, call, "/containers/json?all=true&", id, &list, NULL) < 0)
        return;
    json_array_foreach(list, i, c) {
        remove_listed(d, call, cay__json_str(c, "Id", ""));
    }
}
