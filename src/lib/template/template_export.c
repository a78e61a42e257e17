/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A template as an OCI layout in a tar: image-spec 1.1 image-layout.md, layer.md. A layer of ours
 * is a layer of the image, told by cay-pack as it is, or by what it changes where a directory was
 * renamed. Layers are not compressed, so the digest of one is also its diff_id.
 */
#include <base/tar.h>
#include <lib/snapshot/archive.h>
#include <lib/client/remote.h>
#include "image.h"
#include <base/sha256.h>
#include <base/fault.h>
#include <base/json.h>
#include <proto/record.h>

typedef struct work {
    cay_client *client;
    const cay_call *call;
    const cay_template_out *spec;
    const cay_template *t;
    cay__blob layers[CAY__IMAGE_LAYERS];
    size_t at; /* the layer under way */
    int fd;
} work;

static int write_bytes(work *k, const void *p, size_t n, cay_err *err)
{
    if (cay__fd_write_all(k->fd, p, n))
        return 0;
    return cay_fail_sys(err, "write the archive");
}

static int put_buf(work *k, cay__buf *b, cay_err *err)
{
    int rc = write_bytes(k, b->data, b->len, err);
    cay__buf_clear(b);
    return rc;
}

static int put_head(work *k, const char *name, char type, uint64_t size, cay_err *err)
{
    cay__buf head = CAY__BUF(65536);
    cay__member m = { .type = type, .mode = type == '5' ? 0755 : 0644, .size = size };
    CAY_COPY(m.name, name);
    cay__tar_head(&head, &m);
    return put_buf(k, &head, err);
}

static int put_pad(work *k, uint64_t size, cay_err *err)
{
    cay__buf pad = CAY__BUF(CAY__TAR_BLOCK);
    cay__tar_pad(&pad, size);
    return put_buf(k, &pad, err);
}

static int put_text(work *k, const char *name, const char *text, cay_err *err)
{
    size_t n = strlen(text);
    CAY_TRY(put_head(k, name, '0', n, err));
    CAY_TRY(write_bytes(k, text, n, err));
    return put_pad(k, n, err);
}

static int put_document(work *k, const json_t *j, cay__blob *out, cay_err *err)
{
    char name[100], hex[CAY__SHA256_HEX];
    CAY_AUTOFREE char *text = cay__json_text(j, CAY__IMAGE_DOC_MAX);
    if (!text)
        return cay_fail_why(err, CAY_ETOOBIG, "image_invalid",
                            "what the template says is too long for an image");
    cay__sha256_hex(text, strlen(text), hex);
    CAY_JOIN(out->digest, "sha256:", hex);
    out->size = strlen(text);
    cay__blob_path(out->digest, name);
    return put_text(k, name, text, err);
}

static int on_record(cay__rec *r, void *arg, cay_err *err)
{
    work *k = arg;
    cay__rec_get_num(r);
    uint64_t bytes = cay__rec_get_num(r);
    cay_template_progress p = {
        .size = sizeof p, .what = "pack", .layer = k->at + 1, .layers = k->t->nlayers, .done = bytes
    };
    if (r->type != CAY__REC_PROGRESS || r->bad)
        return cay_fail_why(err, CAY_EUPSTREAM, "protocol", "cay-pack: a record has a wrong form");
    if (k->spec->progress && k->spec->progress(&p, k->spec->arg))
        return cay_fail(err, CAY_ECANCELED, "it was stopped");
    return 0;
}

static int pack_layer(work *k, bool raw, int fd, cay_err *err)
{
    char base[CAY_LAYER_NAME];
    CAY__AUTOWORDS w = { 0 };
    cay__layer_word(&w, "format=oci", "");
    CAY_TRY(cay__layer_template(k->client->home_fd, CAY__BASE_IMAGE, base, sizeof base, err));
    cay__layer_word_stack(&w, "a=", base, k->t->layers, k->at);
    cay__layer_word(&w, "top=", k->t->layers[k->at]);
    if (raw)
        cay__layer_word(&w, "raw=1", "");
    cay__layer_ask ask = { .program = "cay-pack",
                           .verb = "pack",
                           .args = w.v,
                           .nargs = w.n,
                           .fds = &fd,
                           .nfds = 1,
                           .fn = on_record,
                           .arg = k };
    return cay__layer_run(&k->client->layers, k->call, &ask, NULL, err);
}

static int write_blob(work *k, int fd, const cay__blob *b, cay_err *err)
{
    char buf[65536], name[100];
    cay__blob_path(b->digest, name);
    CAY_TRY(put_head(k, name, '0', b->size, err));
    for (uint64_t at = 0; at < b->size;) {
        ssize_t n = pread(fd, buf, sizeof buf, (off_t)at);
        if (n <= 0)
            return cay_fail_sys(err, "read the layer");
        CAY_TRY(write_bytes(k, buf, (size_t)n, err));
        at += (uint64_t)n;
    }
    return put_pad(k, b->size, err);
}

static int export_layer(work *k, cay_err *err)
{
    cay__blob *b = &k->layers[k->at];
    CAY_AUTOFD fd = -1;
    CAY_TRY(cay__temp_file(k->client, "the layer", &fd, err));
    CAY_TRY(cay__call_check(k->call, "export", err));
    int rc = pack_layer(k, true, fd, err);
    if (rc == CAY_ENOTSUP) {
        if (ftruncate(fd, 0) < 0 || lseek(fd, 0, SEEK_SET) != 0)
            return cay_fail_sys(err, "begin the layer anew");
        rc = pack_layer(k, false, fd, err);
    }
    CAY_TRY(rc);
    /* Its bytes are known whole before any of them leaves. */
    CAY_TRY(cay__blob_digest(fd, 0, UINT64_MAX, b, "the layer", err));
    CAY_EACH_OF(layer, k->layers, k->at)
        if (!strcmp(layer->digest, b->digest))
            return 0; /* it is there already */
    return write_blob(k, fd, b, err);
}

static json_t *describe_blob(const cay__blob *b, const char *type)
{
    return json_pack("{s:s,s:s,s:I}", "mediaType", type, "digest", b->digest, "size",
                     (json_int_t)b->size);
}

/* ["80/tcp"] → {"80/tcp":{}} */
static json_t *keys_of(const json_t *list)
{
    json_t *o = json_object();
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_is_string(json_array_get(list, i)))
            json_object_set_new(o, json_string_value(json_array_get(list, i)), json_object());
    return o;
}

static json_t *env_of(const json_t *env)
{
    const char *key;
    json_t *v, *list = json_array();
    json_object_foreach((json_t *)env, key, v)
        json_array_append_new(
            list,
            json_sprintf("%s=%s", key, CAY_TEXT_IF(json_string_value(v), json_string_value(v))));
    return list;
}

static json_t *config_of(const work *k, const json_t *c)
{
    static const struct {
        const char *ours, *theirs;
        json_t *(*how)(const json_t *);
    } rows[] = { { "env", "Env", env_of },
                 { "cmd", "Cmd", NULL },
                 { "entrypoint", "Entrypoint", NULL },
                 { "shell", "Shell", NULL },
                 { "ports", "ExposedPorts", keys_of },
                 { "volumes", "Volumes", keys_of },
                 { "labels", "Labels", NULL },
                 { "user", "User", NULL },
                 { "stop_signal", "StopSignal", NULL },
                 { "workdir", "WorkingDir", NULL } };
    char mine[64];
    json_t *in = json_object(), *ids = json_array(), *o = json_object();
    const json_t *platform = json_object_get(c, "platform");
    cay__image_platform(mine, sizeof mine);
    CAY_EACH(row, rows) {
        json_t *v = json_object_get(c, row->ours);
        if (v)
            json_object_set_new(in, row->theirs, row->how ? row->how(v) : json_incref(v));
    }
    CAY_EACH_OF(layer, k->layers, k->t->nlayers)
        json_array_append_new(ids, json_string(layer->digest));
    if (json_is_object(platform))
        json_object_update(o, (json_t *)(uintptr_t)platform);
    if (!json_object_get(o, "os"))
        json_object_set_new(o, "os", json_string("linux"));
    if (!json_object_get(o, "architecture"))
        json_object_set_new(o, "architecture", json_string(strchr(mine, '/') + 1));
    json_object_set(o, "created", json_object_get(c, "created")); /* NULL: left out */
    json_object_set(o, "author", json_object_get(c, "author"));
    json_object_set_new(o, "config", in);
    json_object_set_new(o, "rootfs", json_pack("{s:s,s:o}", "type", "layers", "diff_ids", ids));
    return o;
}

/* The name that it was asked for by, else its first. */
static const char *name_of(const work *k)
{
    char clean[CAY_TEMPLATE_NAME + 1];
    if (cay__tname_clean(k->spec->ref, clean, NULL) == 0)
        for (const char *const *p = k->t->names; *p; p++)
            if (!strcmp(*p, clean))
                return *p;
    return k->t->names[0];
}

static int write_documents(work *k, cay_err *err)
{
    CAY_AUTOJSON *c = NULL;
    cay__blob config, manifest;
    CAY_TRY(cay__json_object("record: config", k->t->config, &c, err));
    CAY_AUTOJSON *image = config_of(k, c);
    CAY_TRY(put_document(k, image, &config, err));
    CAY_AUTOJSON *m = json_pack("{s:i,s:s}", "schemaVersion", 2, "mediaType",
                                "application/vnd.oci.image.manifest.v1+json");
    json_t *list = json_array();
    CAY_EACH_OF(layer, k->layers, k->t->nlayers)
        json_array_append_new(list, describe_blob(layer, "application/vnd.oci.image.layer.v1.tar"));
    json_object_set_new(m, "config",
                        describe_blob(&config, "application/vnd.oci.image.config.v1+json"));
    json_object_set_new(m, "layers", list);
    CAY_TRY(put_document(k, m, &manifest, err));
    json_t *d = describe_blob(&manifest, "application/vnd.oci.image.manifest.v1+json");
    if (name_of(k))
        json_object_set_new(d, "annotations",
                            json_pack("{s:s}", "org.opencontainers.image.ref.name", name_of(k)));
    CAY_AUTOJSON *index = json_pack("{s:i,s:s,s:[o]}", "schemaVersion", 2, "mediaType",
                                    "application/vnd.oci.image.index.v1+json", "manifests", d);
    CAY_AUTOFREE char *text = cay__json_text(index, 65536);
    CAY_TRY(put_text(k, "index.json", CAY_OR(text, "{}"), err));
    return put_text(k, "oci-layout", "{\"imageLayoutVersion\":\"1.0.0\"}", err);
}

static int write_image(work *k, cay_err *err)
{
    static const char end[2 * CAY__TAR_BLOCK];
    CAY_AUTOFD lock = -1;
    if (strcmp(k->t->base, CAY__BASE_IMAGE))
        return cay_fail_why(err, CAY_ENOTSUP, "template_host",
                            "it stands on the programs of this machine, so it is no image; `cay "
                            "snapshot export` writes what is above them");
    if (k->t->nlayers > CAY__IMAGE_LAYERS)
        return cay_fail_why(err, CAY_ETOOBIG, "stack_too_deep",
                            "it has %zu layers, and an image at most %d", k->t->nlayers,
                            CAY__IMAGE_LAYERS);
    CAY_TRY(cay__layers_lock(k->client, false, &lock, err));
    CAY_TRY(put_head(k, "blobs/", '5', 0, err));
    CAY_TRY(put_head(k, "blobs/sha256/", '5', 0, err));
    for (k->at = 0; k->at < k->t->nlayers; k->at++) {
        CAY_TRY(cay_wrap(err, export_layer(k, err), "layer %zu of %zu", k->at + 1, k->t->nlayers));
    }
    CAY_TRY(write_documents(k, err));
    return write_bytes(k, end, sizeof end, err);
}

/* The file appears when it is whole. */
static int to_path(work *k, cay_err *err)
{
    const char *path = k->spec->path, *slash = strrchr(path, '/'), *name = path;
    CAY_AUTOFREE char *top = CAY_IF(!slash, cay__strdup("."));
    if (slash) {
        name = slash + 1;
        top = strndup(path, CAY_MAX((size_t)(slash - path), (size_t)1)); /* or "/" */
    }
    if (!*name || !strcmp(name, ".") || !strcmp(name, ".."))
        return cay_fail_why(err, CAY_EINVAL, "spec_invalid", "%.200s: name a file", path);
    CAY_AUTOFD dir = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CAY_AUTOFD file = -1;
    if (dir >= 0)
        file = openat(dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0644);
    if (file < 0)
        return cay_fail_sys(err, "a file in the directory of %.150s", path);
    k->fd = file;
    CAY_TRY(write_image(k, err));
    CAY_FAULT("template.exported");
    return cay__path_put(dir, name, file, err);
}

int cay_template_export(cay_client *client, const cay_call *call, const cay_template_out *given,
                        cay_err *err)
{
    cay_template_out spec;
    CAY_AUTOPTR(cay_template) t = NULL;
    CAY_TRY(cay__spec_take(&spec, sizeof spec, given, "cay_template_out", err));
    if (client->remote)
        return cay__remote_template_export(client->remote, call, &spec, err);
    CAY_TRY(cay_template_find(client, call, spec.tenant, spec.ref, &t, err));
    CAY_AUTOFREE work *k = cay__alloc(sizeof *k);
    *k = (work){ .client = client, .call = call, .spec = &spec, .t = t, .fd = spec.fd };
    return cay_wrap(err, spec.path ? to_path(k, err) : write_image(k, err), "export %.100s",
                    spec.ref);
}
