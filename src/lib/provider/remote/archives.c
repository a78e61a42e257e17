/* SPDX-License-Identifier: Apache-2.0 */
/* Of a client of a server: snapshots and templates as files. */
#include "remote.h"
#include <lib/snapshot/archive.h>
#include <lib/template/template.h>

/* progress gets the bytes so far, and of how many when that is known; not 0: stop. */
typedef struct copying {
    int (*progress)(uint64_t done, uint64_t total, void *arg);
    void *arg;
} copying;

static int copy_body(cay__answer *a, const cay_call *call, int fd, const copying *c, cay_err *err)
{
    CAY_AUTOFREE char *buf = cay__alloc(65536);
    uint64_t all = 0, total = cay__answer_head(a)->length;
    for (size_t n;; all += n) {
        CAY_TRY(cay__answer_bytes(a, call, buf, 65536, &n, err));
        if (!n)
            return 0;
        if (!cay__fd_write_all(fd, buf, n))
            return cay_fail_sys(err, "write the archive");
        if (c->progress(all + n, total, c->arg))
            return cay_fail_why(err, CAY_ECANCELED, "canceled", "export: stopped");
    }
}

static int on_snapshot_bytes(uint64_t done, uint64_t total, void *arg)
{
    const cay_export *s = arg;
    if (s->progress)
        return s->progress(0, done, s->arg);
    return 0;
}

static int export_snapshot(const cay__remote *r, const cay_call *call, cay_export *spec,
                           const char *id, int fd, cay_archived *done, cay_err *err)
{
    CAY_AUTOPTR(cay__answer) a = NULL;
    CAY_TRY(cay__remote_stream(
        r, call, &CAY__REQUEST(snapshot_export, .path = { id }, .query = spec), &a, err));
    const cay__head *h = cay__answer_head(a);
    const char *digest = cay__head_field(h, "x-cay-digest"),
               *files = cay__head_field(h, "x-cay-files"),
               *bytes = cay__head_field(h, "x-cay-bytes");
    CAY_COPY(done->digest, CAY_OR(digest, ""));
    if (files)
        cay__str_to_u64(files, &done->files);
    if (bytes)
        cay__str_to_u64(bytes, &done->bytes);
    return copy_body(a, call, fd, &(copying){ on_snapshot_bytes, spec }, err);
}

/* Of a sandbox one is taken for it, and removed again. */
int cay__remote_export(cay_client *client, const cay_call *call, const cay_export *given, int fd,
                       cay_archived *out, cay_err *err)
{
    cay_export spec;
    cay_archived done = { .size = sizeof done };
    cay_snapshot *s = NULL;
    cay_sandbox *sb = NULL;
    bool taken = false;
    CAY_TRY(cay__spec_take(&spec, sizeof spec, given, "cay_export", err));
    int rc = cay_client_snapshot(client, call, CAY_OR(spec.ref, ""), &s, err);
    if (rc == CAY_ENOENT && cay_client_find(client, call, spec.ref, &sb, NULL) == 0) {
        rc = cay_sandbox_snapshot(sb, call, NULL, &s, err);
        taken = rc == 0;
    }
    if (rc == 0)
        rc = export_snapshot(client->remote, call, &spec, s->id, fd, &done, err);
    if (taken)
        cay_snapshot_remove(client, NULL, s->id, NULL, NULL);
    cay_sandbox_unref(sb);
    cay_snapshot_free(s);
    if (rc == 0 && out)
        cay__answer_give(out, &done, sizeof done);
    return rc;
}

int cay__remote_tmpfile(int *fd, cay_err *err)
{
    const char *tmp = getenv("TMPDIR");
    *fd = open(cay__text_or(tmp, "/tmp"), O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
    CAY_TRY_SYS(*fd, err, "a file for the archive");
    return 0;
}

/* The length has to be known: what is no file becomes one first. */
static int whole_file(int fd, int *out, uint64_t *len, cay_err *err)
{
    struct stat st;
    off_t at = lseek(fd, 0, SEEK_CUR);
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && at >= 0) {
        *out = dup(fd);
        *len = (uint64_t)CAY_MAX(st.st_size - at, (off_t)0);
        CAY_TRY_SYS(*out, err, "archive");
        return 0;
    }
    CAY_AUTOFREE char *buf = cay__alloc(65536);
    CAY_AUTOFD to = -1;
    CAY_TRY(cay__remote_tmpfile(&to, err));
    for (ssize_t n; (n = read(fd, buf, 65536)) != 0;) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 || !cay__fd_write_all(to, buf, (size_t)n))
            return cay_fail_sys(err, "read the archive");
        *len += (uint64_t)n;
    }
    lseek(to, 0, SEEK_SET);
    *out = CAY_STEAL_FD(to);
    return 0;
}

int cay__remote_import(cay_client *client, const cay_call *call, const cay_import *given, int fd,
                       cay_snapshot **out, cay_err *err)
{
    cay_import spec;
    CAY_AUTOFD body = -1;
    char key[CAY_ID_LEN + 1];
    uint64_t len = 0;
    CAY_TRY(cay__spec_take(&spec, sizeof spec, given, "cay_import", err));
    if (spec.metadata || spec.root)
        return cay_fail_why(err, CAY_ENOTSUP, "remote_unsupported",
                            "import: a server takes neither metadata nor a root of this host");
    CAY_TRY(whole_file(fd, &body, &len, err));
    cay__id_make(key, 'j');
    return cay__remote_snapshot(client->remote, call,
                                &CAY__REQUEST(snapshot_import, .query = &spec, .fd = body,
                                              .from_fd = true, .len = (size_t)len, .key = key),
                                out, err);
}

static void clean_template(cay_template *t)
{
    t->size = sizeof *t;
    t->id = cay__remote_id(t->id, 't');
    t->config = cay__text_or(t->config, "{}");
    for (t->nlayers = 0; t->layers[t->nlayers];)
        t->nlayers++;
}

static int get_template(const cay__remote *r, const cay_call *call, const cay__request *q,
                        cay_template **out, cay_err *err)
{
    cay__arena *mem;
    cay__template_view v = { 0 };
    if (!out)
        return cay__remote_do(r, call, q, err);
    CAY_AUTOPTR(cay_template) t = cay__template_blank(&mem);
    CAY_TRY(cay__remote_get(r, call, q, mem, &v, err));
    clean_template(&v.t);
    *t = v.t;
    *out = CAY_STEAL(t);
    return 0;
}

typedef struct lister {
    cay_template_fn *fn;
    void *arg;
} lister;

static int on_template(const cay__template_view *v, void *arg)
{
    const lister *l = arg;
    cay_template t = v->t;
    if (!*t.id) /* host, which is no template of anybody's */
        return 0;
    clean_template(&t);
    return l->fn(&t, l->arg);
}

int cay__remote_template_list(const cay__remote *r, const cay_call *call,
                              const cay_template_filter *f, cay_template_fn *fn, void *arg,
                              cay_err *err)
{
    lister l = { fn, arg };
    return CAY__REMOTE_EACH(cay__template_view, r, call, CAY__REQUEST(template_list, .query = f),
                            on_template, &l, err);
}

typedef struct search {
    const char *name;
    char *id; /* room for CAY_TEMPLATE_NAME + 1 */
} search;

static int has_name(const cay_template *t, void *arg)
{
    search *s = arg;
    for (const char *const *p = t->names; *p; p++)
        if (!strcmp(*p, s->name))
            return cay__str_copy(s->id, CAY_TEMPLATE_NAME + 1, t->id);
    return 0;
}

/* In a path a name has no slashes: such a one is looked for among all. */
static int path_name(const cay__remote *r, const cay_call *call, const char *ref,
                     char id[CAY_TEMPLATE_NAME + 1], cay_err *err)
{
    char name[CAY_TEMPLATE_NAME + 1];
    if (!ref || !*ref)
        return cay_fail_why(err, CAY_EINVAL, "template_name",
                            "no template is named; give a name or an id");
    if (!strchr(ref, '/')) {
        if (cay__str_copy(id, CAY_TEMPLATE_NAME + 1, ref))
            return 0;
        return cay_fail_why(err, CAY_EINVAL, "template_name", "the name is too long");
    }
    CAY_TRY(cay__tname_clean(ref, name, err));
    cay__str_copy(id, CAY_TEMPLATE_NAME + 1, name);
    if (!strchr(name, '/')) /* docker.io/library/ is left out of names */
        return 0;
    cay_template_filter f = { .size = sizeof f, .name = name };
    int rc = cay__remote_template_list(r, call, &f, has_name, &(search){ name, id }, err);
    if (rc)
        return CAY_MIN(rc, 0);
    return cay_fail_why(err, CAY_ENOENT, "template_not_found",
                        "the server has no template %.150s; cay template ls shows those it has",
                        ref);
}

int cay__remote_template_find(const cay__remote *r, const cay_call *call, const char *ref,
                              cay_template **out, cay_err *err)
{
    char id[CAY_TEMPLATE_NAME + 1];
    CAY_TRY(path_name(r, call, ref, id, err));
    return get_template(r, call, &CAY__REQUEST(template_get, .path = { id }), out, err);
}

int cay__remote_template_patch(const cay__remote *r, const cay_call *call, const char *ref,
                               const char *body, cay_err *err)
{
    char id[CAY_TEMPLATE_NAME + 1];
    CAY_TRY(path_name(r, call, ref, id, err));
    return cay__remote_do(r, call, &CAY__REQUEST(template_patch, .path = { id }, .text = body),
                          err);
}

int cay__remote_template_publish(cay_client *client, const cay_call *call,
                                 const cay_template_spec *s, cay_template **out, cay_err *err)
{
    cay_sandbox *sb = NULL;
    CAY_AUTOJSON *config = NULL;
    if (s->source || s->digest)
        return cay_fail_why(err, CAY_ENOTSUP, "remote_unsupported",
                            "where a template came from is what its server says");
    if (s->config)
        CAY_TRY(cay__json_object("config", s->config, &config, err));
    cay__publish_body body = {
        .from = CAY_OR(s->from, ""), .config = s->config, .names = s->names, .hidden = s->hidden
    };
    /* The server takes whole ids of sandboxes; people write names. */
    if (!cay__id_valid(body.from, 'c') && !cay__id_valid(body.from, 's') &&
        cay__remote_find(client, call, body.from, &sb, NULL) == 0)
        body.from = cay_sandbox_id(sb);
    int rc =
        get_template(client->remote, call, &CAY__REQUEST(template_create, .body = &body), out, err);
    cay_sandbox_unref(sb);
    return rc;
}

int cay__remote_template_import(const cay__remote *r, const cay_call *call,
                                const cay_template_file *s, cay_template **out, cay_err *err)
{
    struct stat st;
    char key[CAY_ID_LEN + 1];
    uint64_t len = 0;
    CAY_AUTOFD fd = open(s->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return cay_fail_sys_as(err, errno == ENOENT ? CAY_ENOENT : CAY_ESYS, "open %.150s",
                               s->path);
    if (S_ISDIR(st.st_mode)) {
        CAY_AUTOFD dir = CAY_STEAL_FD(fd);
        CAY_TRY(cay__remote_tar(dir, s->path, NULL, call, &fd, &len, err));
    } else if (S_ISREG(st.st_mode)) {
        len = (uint64_t)st.st_size;
    } else {
        return cay_fail_why(err, CAY_ETYPE, "image_invalid",
                            "%.150s is neither a file nor a directory", s->path);
    }
    cay__id_make(key, 'j');
    return get_template(r, call,
                        &CAY__REQUEST(template_import, .query = s, .fd = fd, .from_fd = true,
                                      .len = (size_t)len, .key = key),
                        out, err);
}

static int on_template_bytes(uint64_t done, uint64_t total, void *arg)
{
    const cay_template_out *s = arg;
    cay_template_progress p = { .size = sizeof p, .what = "fetch", .done = done, .total = total };
    if (s->progress)
        return s->progress(&p, s->arg);
    return 0;
}

/* A file without a name in the directory of path, which `name` is to be in. */
static int open_target(const char *path, const char **name, int *at, int *file, cay_err *err)
{
    char dir[4096] = ".";
    const char *slash = strrchr(path, '/');
    *name = path;
    if (slash) {
        *name = slash + 1;
        CAY_COPY(dir, path);
        dir[CAY_MIN((size_t)CAY_MAX(slash - path, 1), sizeof dir - 1)] = 0;
    }
    *at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*at >= 0)
        *file = openat(*at, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0644);
    if (*file < 0 || !**name)
        return cay_fail_sys(err, "make a file in %.150s", dir);
    return 0;
}

/* A file appears when it is whole. */
int cay__remote_template_export(const cay__remote *r, const cay_call *call,
                                const cay_template_out *s, cay_err *err)
{
    char id[CAY_TEMPLATE_NAME + 1];
    CAY_AUTOPTR(cay__answer) a = NULL;
    CAY_AUTOFD at = -1, file = -1;
    const char *name = NULL;
    int to = s->fd;
    if (s->path) {
        CAY_TRY(open_target(s->path, &name, &at, &file, err));
        to = file;
    }
    CAY_TRY(path_name(r, call, s->ref, id, err));
    CAY_TRY(cay__remote_stream(r, call, &CAY__REQUEST(template_export, .path = { id }), &a, err));
    CAY_TRY(copy_body(a, call, to, &(copying){ on_template_bytes, (void *)s }, err));
    if (s->path)
        return cay__path_put(at, name, file, err);
    return 0;
}
