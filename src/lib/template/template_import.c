/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A template from a directory or file of this host: a root filesystem, an OCI layout, or an archive
 * of images. What is used of it is copied to a file without a name first and digested on the way,
 * so that what was checked is what is unpacked.
 */
#include <lib/client/remote.h>
#include "image.h"
#include <base/sha256.h>
#include <base/fault.h>
#include <base/json.h>
#include <linux/openat2.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#define NAMES_MOST 16

typedef struct origin {
    cay_client *client;
    const cay_call *call;
    const cay_template_file *spec;
    int dir, file; /* one of them, or both -1 */
    cay__members members;
    cay__image im;
    char names[NAMES_MOST][CAY_TEMPLATE_NAME + 1]; /* that the archive says */
    const char *list[NAMES_MOST + 1];
    size_t nnames;
    char layer[CAY__IMAGE_LAYERS][256]; /* docker: names of members */
    char source[300];
    int whole; /* tree: the one layer */
} origin;

static int fail_missing(const char *name, cay_err *err)
{
    return cay_fail_why(err, CAY_EINVAL, "image_invalid",
                        "%.100s is not in it: it is cut, or no image", name);
}

/* A descriptor to read from `at` on; the caller closes. */
static int part_open(origin *o, const char *name, int *fd, uint64_t *at, uint64_t *size,
                     cay_err *err)
{
    struct stat st;
    if (o->dir >= 0) {
        *fd =
            cay__fd_openat2(o->dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY,
                            0, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
        if (*fd < 0 || fstat(*fd, &st) < 0 || !S_ISREG(st.st_mode))
            return fail_missing(name, err);
        *at = 0;
        *size = (uint64_t)st.st_size;
        return 0;
    }
    const cay__image_member *m = cay__members_find(&o->members, name);
    if (!m)
        return fail_missing(name, err);
    *fd = fcntl(o->file, F_DUPFD_CLOEXEC, 3);
    *at = m->at;
    *size = m->size;
    if (*fd < 0)
        return cay_fail_sys(err, "open %.100s", name);
    return 0;
}

static int check_digest(const char *name, const char *hex, const char *want, cay_err *err)
{
    if (!strcmp(hex, want + 7))
        return 0;
    return cay_fail_why(err, CAY_EINVAL, "image_digest",
                        "%.100s has digest sha256:%.12s…, and it should be %.19s…", name, hex,
                        want);
}

/* A small one as text; checked when its digest is known. */
static int part_text(origin *o, const char *name, const char *digest, cay__buf *out, cay_err *err)
{
    CAY_AUTOFD fd = -1;
    uint64_t at, size;
    char hex[CAY__SHA256_HEX];
    CAY_TRY(part_open(o, name, &fd, &at, &size, err));
    char *p = NULL;
    if (size <= CAY__IMAGE_DOC_MAX)
        p = cay__buf_room(out, (size_t)size + 1);
    if (!p)
        return cay_fail_why(err, CAY_ETOOBIG, "image_invalid", "%.100s is longer than %u bytes",
                            name, CAY__IMAGE_DOC_MAX);
    for (uint64_t done = 0; done < size;) {
        ssize_t n = pread(fd, p + done, (size_t)(size - done), (off_t)(at + done));
        if (n <= 0)
            return cay_fail_sys(err, "read %.100s", name);
        done += (uint64_t)n;
    }
    cay__buf_used(out, (size_t)size);
    cay__sha256_hex(out->data, out->len, hex);
    if (digest)
        return check_digest(name, hex, digest, err);
    return 0;
}

/* Copies it; digest "" is filled, else compared. */
static int part_copy(origin *o, const char *name, cay__blob *b, int *out, cay_err *err)
{
    CAY_AUTOFD from = -1, to = -1;
    CAY_AUTOFREE char *buf = cay__alloc(256 << 10);
    char hex[CAY__SHA256_HEX];
    uint64_t at, size;
    cay__sha256 sum;
    CAY_TRY(cay__temp_file(o->client, "a layer", &to, err));
    CAY_TRY(part_open(o, name, &from, &at, &size, err));
    if (*b->digest && size != b->size)
        return cay_fail_why(err, CAY_EINVAL, "image_digest",
                            "%.100s has %llu bytes, and it should have %llu", name,
                            (unsigned long long)size, (unsigned long long)b->size);
    cay__sha256_begin(&sum);
    for (uint64_t done = 0; done < size;) {
        ssize_t n =
            pread(from, buf, (size_t)CAY_MIN(size - done, (uint64_t)256 << 10), (off_t)(at + done));
        if (n <= 0 || !cay__fd_write_all(to, buf, (size_t)n))
            return cay_fail_sys(err, "copy %.100s", name);
        cay__sha256_add(&sum, buf, (size_t)n);
        done += (uint64_t)n;
        CAY_TRY(cay__call_check(o->call, "import", err));
    }
    cay__sha256_end(&sum, hex);
    if (*b->digest)
        CAY_TRY(check_digest(name, hex, b->digest, err));
    CAY_JOIN(b->digest, "sha256:", hex);
    b->size = size;
    if (lseek(to, 0, SEEK_SET) != 0)
        return cay_fail_sys(err, "rewind");
    *out = CAY_STEAL_FD(to);
    return 0;
}

int cay__blob_digest(int fd, uint64_t at, uint64_t size, cay__blob *out, const char *what,
                     cay_err *err)
{
    char hex[CAY__SHA256_HEX];
    int64_t n = cay__sha256_fd(fd, (int64_t)at, size, hex);
    CAY_TRY_SYS(n, err, "read %s", what);
    CAY_JOIN(out->digest, "sha256:", hex);
    out->size = (uint64_t)n;
    return 0;
}

void cay__blob_path(const char *digest, char out[100])
{
    snprintf(out, 100, "blobs/sha256/%.64s", digest + 7);
}

static void say_name(origin *o, const char *name)
{
    if (o->nnames < NAMES_MOST && cay__tname_clean(name, o->names[o->nnames], NULL) == 0)
        o->nnames++;
}

static const char *ref_of(const json_t *d)
{
    const json_t *a = json_object_get(d, "annotations");
    const char *whole = cay__json_str(a, "io.containerd.image.name", NULL);
    return CAY_OR(whole, cay__json_str(a, "org.opencontainers.image.ref.name", NULL));
}

/* Which of an index: the one that is asked for, else the only one; several for different platforms
 * are left to the platform. */
static int choose_image(origin *o, json_t *index, cay_err *err)
{
    json_t *list = json_object_get(index, "manifests");
    const char *want = o->spec->image;
    size_t n = json_array_size(list), refs = 0;
    for (size_t i = n; i-- > 0;) {
        const char *ref = ref_of(json_array_get(list, i));
        refs += ref != NULL;
        if (want && (!ref || strcmp(ref, want)))
            json_array_remove(list, i);
    }
    if (want && !json_array_size(list))
        return cay_fail_why(err, CAY_ENOENT, "image_unknown", "there is no image %.80s in it",
                            want);
    if (!want && n > 1 && refs > 1)
        return cay_fail_why(err, CAY_EINVAL, "image_ambiguous",
                            "it has %zu images; say which (--image), by the name that it gives it",
                            refs);
    if (json_array_size(list) == 1) {
        const char *ref = ref_of(json_array_get(list, 0));
        if (ref && strpbrk(ref, "/:")) /* a bare word is a tag of nothing */
            say_name(o, ref);
        if (json_object_get(json_array_get(list, 0), "platform") && !o->spec->platform)
            json_object_del(json_array_get(list, 0), "platform"); /* it was chosen already */
    }
    return 0;
}

static int read_layout(origin *o, cay_err *err)
{
    CAY_AUTOBUF text = CAY__BUF(CAY__IMAGE_DOC_MAX + 2);
    CAY_AUTOJSON *index = NULL;
    char name[100];
    CAY_TRY(part_text(o, "index.json", NULL, &text, err));
    CAY_TRY(cay__json_object("index.json", text.data, &index, err));
    CAY_TRY(choose_image(o, index, err));
    CAY_AUTOFREE char *chosen = cay__json_text(index, CAY__IMAGE_DOC_MAX);
    if (!chosen)
        return cay_fail(err, CAY_ETOOBIG, "index.json is too long");
    CAY_TRY(cay__image_read(chosen, strlen(chosen), o->spec->platform, &o->im, err));
    char digest[72] = "";
    for (int depth = 0; o->im.index; depth++) {
        CAY_AUTOBUF doc = CAY__BUF(CAY__IMAGE_DOC_MAX + 2);
        if (depth == 4)
            return cay_fail_why(err, CAY_EINVAL, "image_invalid",
                                "the image's index leads to another, and that to another");
        CAY_COPY(digest, o->im.next.digest);
        cay__blob_path(digest, name);
        CAY_TRY(part_text(o, name, digest, &doc, err));
        CAY_TRY(cay__image_read(doc.data, doc.len, o->spec->platform, &o->im, err));
    }
    CAY_COPY(o->im.digest, digest);
    CAY_AUTOBUF config = CAY__BUF(CAY__IMAGE_DOC_MAX + 2);
    cay__blob_path(o->im.config.digest, name);
    CAY_TRY(part_text(o, name, o->im.config.digest, &config, err));
    return cay__image_config(config.data, config.len, &o->im, err);
}

static int layout_blob(void *arg, size_t i, int *fd, cay_err *err)
{
    origin *o = arg;
    char name[100];
    cay__blob_path(o->im.layers[i].digest, name);
    return part_copy(o, name, &o->im.layers[i], fd, err);
}

static const json_t *docker_pick(origin *o, const json_t *list, cay_err *err)
{
    const char *want = o->spec->image;
    if (!want && json_array_size(list) > 1) {
        cay_fail_why(err, CAY_EINVAL, "image_ambiguous",
                     "it has %zu images; say which (--image), by the name that it gives it",
                     json_array_size(list));
        return NULL;
    }
    size_t i, k;
    const json_t *one, *tag;
    json_array_foreach(list, i, one) {
        bool is = !want;
        json_array_foreach(json_object_get(one, "RepoTags"), k, tag)
            is |= want && json_is_string(tag) && !strcmp(json_string_value(tag), want);
        if (is)
            return one;
    }
    cay_fail_why(err, CAY_ENOENT, "image_unknown", "there is no image %.80s in it",
                 CAY_OR(want, ""));
    return NULL;
}

static bool is_compressed(const uint8_t *p, size_t n)
{
    static const struct {
        size_t n;
        uint8_t is[6];
    } marks[] = { { 2, { 0x1f, 0x8b } },
                  { 3, { 'B', 'Z', 'h' } },
                  { 6, { 0xfd, '7', 'z', 'X', 'Z', 0 } },
                  { 4, { 0x28, 0xb5, 0x2f, 0xfd } },
                  { 3, { 0x5d, 0, 0 } } };
    CAY_EACH(mark, marks)
        if (n >= mark->n && !memcmp(p, mark->is, mark->n))
            return true;
    return false;
}

/* Such an archive names no digests of its layers' files. One that is not compressed has to be what
 * the config says; of another the digest is taken, since what unpacks it is believed nothing: its
 * name is shared, and must hang on bytes that were seen. */
static int docker_digest(origin *o, size_t i, cay_err *err)
{
    cay__blob *b = &o->im.layers[i];
    CAY_AUTOFD fd = -1;
    uint64_t at;
    uint8_t head[6];
    CAY_TRY(part_open(o, o->layer[i], &fd, &at, &b->size, err));
    ssize_t n = pread(fd, head, (size_t)CAY_MIN(b->size, (uint64_t)sizeof head), (off_t)at);
    if (n >= 0 && !is_compressed(head, (size_t)n)) {
        CAY_COPY(b->digest, o->im.diff_id[i]);
        return 0;
    }
    return cay__blob_digest(fd, at, b->size, b, "the archive", err);
}

static int read_docker(origin *o, cay_err *err)
{
    CAY_AUTOBUF text = CAY__BUF(CAY__IMAGE_DOC_MAX + 2), config = CAY__BUF(CAY__IMAGE_DOC_MAX + 2);
    CAY_AUTOJSON *list = NULL;
    CAY_TRY(part_text(o, "manifest.json", NULL, &text, err));
    CAY_TRY(cay__json_any("manifest.json", text.data, &list, err));
    const json_t *one = docker_pick(o, list, err);
    if (!one) {
        if (err)
            return err->code;
        return CAY_EINVAL;
    }
    const json_t *layers = json_object_get(one, "Layers"), *tags = json_object_get(one, "RepoTags");
    const char *conf = cay__json_str(one, "Config", "");
    if (!json_is_array(layers) || json_array_size(layers) > CAY__IMAGE_LAYERS || !*conf)
        return cay_fail_why(err, CAY_EINVAL, "image_invalid",
                            "manifest.json names no config, no layers, or more than %d",
                            CAY__IMAGE_LAYERS);
    o->im.n = json_array_size(layers);
    size_t n;
    const json_t *name;
    json_array_foreach(layers, n, name)
        if (!json_is_string(name) || !CAY_COPY(o->layer[n], json_string_value(name)))
            return cay_fail_why(err, CAY_EINVAL, "image_invalid",
                                "manifest.json names a layer that is no name");
    json_array_foreach(tags, n, name)
        if (json_is_string(name))
            say_name(o, json_string_value(name));
    CAY_TRY(part_text(o, conf, NULL, &config, err));
    CAY_TRY(cay__image_config(config.data, config.len, &o->im, err));
    for (size_t i = 0; i < o->im.n; i++)
        CAY_TRY(docker_digest(o, i, err));
    return 0;
}

static int docker_blob(void *arg, size_t i, int *fd, cay_err *err)
{
    origin *o = arg;
    return part_copy(o, o->layer[i], &o->im.layers[i], fd, err);
}

static int tree_blob(void *arg, size_t i, int *fd, cay_err *err)
{
    origin *o = arg;
    *fd = fcntl(o->whole, F_DUPFD_CLOEXEC, 3);
    if (*fd < 0 || lseek(*fd, 0, SEEK_SET) != 0)
        return cay_fail_sys(err, "read the archive");
    return 0;
}

/* tar(1) reads the directory, with our rights. Without root every file is shown as root's, as in
 * other rootless engines. */
static int pack_dir(origin *o, const char *path, cay_err *err)
{
    const char *argv[20] = { "tar",
                             "--create",
                             "--file=-",
                             "--numeric-owner",
                             "--one-file-system",
                             "--sort=name",
                             "--xattrs",
                             "--xattrs-include=user.*",
                             "--xattrs-include=security.capability",
                             "--format=pax",
                             "--warning=no-file-ignored" };
    size_t n = 11;
    int pid, st = 0;
    posix_spawn_file_actions_t acts;
    posix_spawnattr_t attr;
    sigset_t none;
    if (geteuid() != 0) {
        argv[n++] = "--owner=0";
        argv[n++] = "--group=0";
    }
    argv[n++] = "--directory";
    argv[n++] = path;
    argv[n++] = ".";
    CAY_AUTOFD nul = open("/dev/null", O_RDONLY | O_CLOEXEC);
    sigemptyset(&none);
    posix_spawn_file_actions_init(&acts);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
    posix_spawn_file_actions_adddup2(&acts, nul, 0);
    posix_spawn_file_actions_adddup2(&acts, o->whole, 1);
    errno = posix_spawnp(&pid, "tar", &acts, &attr, (char *const *)(uintptr_t)argv, environ);
    int e = errno;
    posix_spawn_file_actions_destroy(&acts);
    posix_spawnattr_destroy(&attr);
    errno = e;
    if (e) {
        if (e == ENOENT)
            return cay_fail_why(err, CAY_ENOENT, "program_missing", "tar is not installed");
        return cay_fail_sys(err, "start tar");
    }
    while (waitpid(pid, &st, 0) < 0 && errno == EINTR)
        ;
    if (st)
        return cay_fail_why(err, CAY_EINVAL, "import_read",
                            "%.150s: tar could not read all of it; see its words above", path);
    return 0;
}

static int copy_file(origin *o, cay_err *err)
{
    CAY_AUTOFREE char *buf = cay__alloc(256 << 10);
    if (lseek(o->file, 0, SEEK_SET) != 0 && errno != ESPIPE)
        return cay_fail_sys(err, "read the archive");
    for (ssize_t n; (n = read(o->file, buf, 256 << 10)) != 0;) {
        if ((n < 0 && errno != EINTR) || (n > 0 && !cay__fd_write_all(o->whole, buf, (size_t)n)))
            return cay_fail_sys(err, "copy the archive");
        CAY_TRY(cay__call_check(o->call, "import", err));
    }
    return 0;
}

static int read_tree(origin *o, cay_err *err)
{
    CAY_TRY(cay__temp_file(o->client, "the archive", &o->whole, err));
    if (o->dir >= 0)
        CAY_TRY(pack_dir(o, o->spec->path, err));
    else
        CAY_TRY(copy_file(o, err));
    o->im.n = 1;
    CAY_TRY(cay__blob_digest(o->whole, 0, UINT64_MAX, &o->im.layers[0], "the archive", err));
    if (!o->im.layers[0].size)
        return cay_fail_why(err, CAY_EINVAL, "archive_corrupt", "it is empty");
    o->im.text = cay__strdup(CAY_OR(o->spec->config, "{}"));
    return cay_template_config_check(o->im.text, err);
}

static const struct kind {
    const char *name, *has, *also; /* the parts that tell it */
    int (*read)(origin *, cay_err *);
    int (*blob)(void *, size_t, int *, cay_err *);
} kinds[] = {
    { "oci", "oci-layout", "index.json", read_layout, layout_blob },
    { "docker", "manifest.json", "manifest.json", read_docker, docker_blob },
    { "tar", NULL, NULL, read_tree, tree_blob },
};

static bool has_member(origin *o, const char *name)
{
    struct stat st;
    if (o->dir >= 0)
        return fstatat(o->dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
    return cay__members_find(&o->members, name) != NULL;
}

static const struct kind *kind_of(origin *o)
{
    const struct kind *k = kinds;
    while (k->has && !(has_member(o, k->has) && has_member(o, k->also)))
        k++;
    return k;
}

static int open_path(origin *o, cay_err *err)
{
    const char *path = o->spec->path;
    struct stat st;
    if (!path || !*path)
        return cay_fail_why(err, CAY_EINVAL, "spec_invalid", "path: name a directory or a file");
    CAY_AUTOFD fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0)
        return cay_fail_sys(err, "open %.200s", path);
    if (S_ISDIR(st.st_mode)) {
        o->dir = CAY_STEAL_FD(fd);
        return 0;
    }
    if (!S_ISREG(st.st_mode))
        return cay_fail_why(err, CAY_ETYPE, "import_read",
                            "%.200s is neither a directory nor a file", path);
    o->file = CAY_STEAL_FD(fd);
    return cay__members_read(o->file, &o->members, err);
}

static int import_template(origin *o, cay_template **out, cay_err *err)
{
    CAY_TRY(open_path(o, err));
    const struct kind *k = kind_of(o);
    const char *kind = "tar";
    if (k->has)
        kind = k->name;
    else if (o->dir >= 0)
        kind = "dir";
    CAY_FORMAT(o->source, "%s:%.200s", kind, CAY_OR(o->spec->source, o->spec->path));
    for (char *p = o->source; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = '?';
    if (k->has && o->spec->config)
        return cay_fail_why(err, CAY_EINVAL, "spec_invalid",
                            "config: an image has its own; `cay template save` changes it");
    CAY_TRY(k->read(o, err));
    CAY_FAULT("import.read");
    for (size_t i = 0; i < o->nnames; i++)
        o->list[i] = o->names[i];
    cay__image_spec spec = { .tenant = o->spec->tenant,
                             .names = CAY_OR(o->spec->names, o->list),
                             .hidden = o->spec->hidden,
                             .source = o->source,
                             .blob = k->blob,
                             .arg = o,
                             .progress = o->spec->progress,
                             .progress_arg = o->spec->arg };
    return cay__image_make(o->client, o->call, &spec, &o->im, out, err);
}

int cay_template_import(cay_client *client, const cay_call *call, const cay_template_file *given,
                        cay_template **out, cay_err *err)
{
    cay_template_file spec;
    CAY_TRY(cay__spec_take(&spec, sizeof spec, given, "cay_template_file", err));
    if (client->remote)
        return cay__remote_template_import(client->remote, call, &spec, out, err);
    CAY_TRY(cay__call_check(call, "import", err));
    origin *o = cay__alloc(sizeof *o);
    *o = (origin){
        .client = client, .call = call, .spec = &spec, .dir = -1, .file = -1, .whole = -1
    };
    int rc = import_template(o, out, err);
    cay__close_fd(&o->dir);
    cay__close_fd(&o->file);
    cay__close_fd(&o->whole);
    cay__members_clear(&o->members);
    free(o->im.text);
    free(o);
    return cay_wrap(err, rc, "import %.100s", CAY_OR(spec.source, CAY_OR(spec.path, "")));
}
