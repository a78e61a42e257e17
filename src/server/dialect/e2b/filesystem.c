/* SPDX-License-Identifier: Apache-2.0 */
/* filesystem.Filesystem: what is there, and what changes. */
#include "e2b.h"
#include <base/path.h>
#include <time.h>

#define DEPTH_MAX 64

static void mode_text(const cay_stat *st, char out[11])
{
    static const char bits[] = "rwxrwxrwx";
    memcpy(out, "----------", 11);
    if (st->type == CAY_DIR)
        out[0] = 'd';
    else if (st->type == CAY_LINK)
        out[0] = 'L';
    for (int i = 0; i < 9; i++)
        if (st->mode >> (8 - i) & 1)
            out[i + 1] = bits[i];
}

static void time_text(int64_t ns, char out[40])
{
    time_t s = (time_t)(ns / 1000000000);
    struct tm tm;
    gmtime_r(&s, &tm);
    size_t n = strftime(out, 40, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out + n, 40 - n, ".%09lldZ", (long long)(ns % 1000000000));
}

void e2b_names_clear(e2b_names *n)
{
    free(n->passwd);
    free(n->group);
}

/* As the sandbox's own accounts have it: the two that every template has, who is in the file, else
 * the number. */
static json_t *describe_owner(e2b_names *n, const char *file, char **text, size_t *len, uint32_t id)
{
    char number[16], name[64];
    if (id == 0 || id == 1000)
        return json_string(id ? "user" : "root");
    CAY_FORMAT(number, "%u", id);
    if (!*text && cay_file_get(n->sb, n->call, file, E2B_ACCOUNTS_MAX, text, len, NULL) < 0) {
        *text = cay__strdup(""); /* once is enough */
        *len = 0;
    }
    json_t *found = NULL;
    if (e2b_account(*text, *len, 2, number, 0, name, sizeof name))
        found = json_string(name);
    return CAY_OR(found, json_string(number));
}

typedef struct metadata {
    const cay_call *call;
    cay_sandbox *sb;
    const char *path;
    json_t *o;
} metadata;

static int add_metadata(const char *name, void *arg)
{
    metadata *m = arg;
    char value[4097];
    size_t len = sizeof value - 1;
    if (!cay__str_starts(name, "user.e2b.") ||
        cay_file_getxattr(m->sb, m->call, m->path, name, value, &len, NULL) < 0)
        return 0;
    value[len] = 0;
    json_object_set_new(m->o, name + 9, json_string(value));
    return 0;
}

/* `mode` and `type` of a link are those of what it leads to. */
const char *e2b_leaf(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

const char *e2b_below(cay__req *r, const char *dir, const char *name)
{
    return cay__req_text(r, "%s/%s", strcmp(dir, "/") ? dir : "", name);
}

json_t *e2b_entry(e2b_names *n, const char *path, const cay_stat *st)
{
    cay_sandbox *sb = n->sb;
    const cay_call *call = n->call;
    char perms[11], when[40];
    cay_stat to = { 0 };
    memcpy(&to, st, offsetof(cay_stat, target)); /* which may be cut short behind its end */
    to.size_of = sizeof to;
    bool link = st->type == CAY_LINK,
         broken = link && cay_file_stat(sb, call, path, true, &to, NULL) < 0;
    const char *type = "FILE_TYPE_UNSPECIFIED";
    if (!broken && to.type == CAY_DIR)
        type = "FILE_TYPE_DIRECTORY";
    else if (!broken && to.type == CAY_FILE)
        type = "FILE_TYPE_FILE";
    mode_text(st, perms);
    time_text(to.mtime_ns, when);
    char size[21];
    json_t *o = json_pack(
        "{s:o,s:s,s:o,s:s,s:i,s:s,s:o,s:o,s:s}", "name", cay__json_bytes(e2b_leaf(path)), "type",
        type, "path", cay__json_bytes(path), "size", cay__str_u64(size, to.size), "mode",
        (int)(to.mode & 07777), "permissions", perms, "owner",
        describe_owner(n, "/etc/passwd", &n->passwd, &n->npasswd, to.uid), "group",
        describe_owner(n, "/etc/group", &n->group, &n->ngroup, to.gid), "modifiedTime", when);
    if (link) {
        char target[2 * PATH_MAX];
        CAY_FORMAT(target, "%.*s%s", (int)(e2b_leaf(path) - path), path, st->target);
        json_object_set_new(o, "symlinkTarget",
                            cay__json_bytes(*st->target == '/' ? st->target : target));
    }
    if (to.type == CAY_FILE) {
        metadata m = { call, sb, path, json_object() };
        cay_file_listxattr(sb, call, path, add_metadata, &m, NULL);
        if (json_object_size(m.o))
            json_object_set(o, "metadata", m.o);
        json_decref(m.o);
    }
    return o;
}

static int answer_entry(cay__req *r, const e2b_rpc *q, const char *path, cay_err *err)
{
    cay_stat st = { .size_of = sizeof st };
    E2B_AUTONAMES names = { .sb = q->d.sb, .call = &r->call };
    CAY_TRY(cay_file_stat(q->d.sb, &r->call, path, false, &st, err));
    return cay__reply_pack(r, 200, "{s:o}", "entry", e2b_entry(&names, path, &st));
}

int e2b_named(cay__req *r, const e2b_rpc *q, const char *key, const char **out, cay_err *err)
{
    const char *s = cay__json_str(q->in, key, "");
    if (!*s && strcmp(key, "path"))
        return cay_fail(err, CAY_EINVAL, "%s is missing", key);
    const char *path = e2b_path(r, &q->d, cay__text_or(s, "~"));
    size_t n = strlen(path) + 2;
    char *clean = cay__arena_take(&r->arena, n); /* as their daemon tells it: without . and .. */
    if (*path == '/' && cay__path_clean("/", path, clean, n))
        *out = clean;
    else
        *out = path;
    return 0;
}

int e2b_fs_stat(cay__req *r, cay_err *err)
{
    e2b_rpc q;
    const char *path;
    CAY_TRY(e2b_rpc_open(r, &q, err));
    CAY_TRY(e2b_named(r, &q, "path", &path, err));
    return answer_entry(r, &q, path, err);
}

int e2b_fs_mkdir(cay__req *r, cay_err *err)
{
    e2b_rpc q;
    const char *path;
    cay_stat st = { .size_of = sizeof st };
    CAY_TRY(e2b_rpc_open(r, &q, err));
    CAY_TRY(e2b_named(r, &q, "path", &path, err));
    if (cay_file_stat(q.d.sb, &r->call, path, true, &st, NULL) == 0) {
        if (st.type == CAY_DIR)
            return cay_fail(err, CAY_EEXIST, "directory already exists: %.150s", path);
        return cay_fail(err, CAY_EINVAL, "path already exists but it is not a directory: %.150s",
                        path);
    }
    CAY_TRY(cay_file_mkdir(q.d.sb, &r->call, path, 0755, true, err));
    return answer_entry(r, &q, path, err);
}

int e2b_fs_move(cay__req *r, cay_err *err)
{
    e2b_rpc q;
    const char *from, *to;
    cay_stat st = { .size_of = sizeof st };
    CAY_TRY(e2b_rpc_open(r, &q, err));
    CAY_TRY(e2b_named(r, &q, "source", &from, err));
    CAY_TRY(e2b_named(r, &q, "destination", &to, err));
    CAY_TRY(cay_file_stat(q.d.sb, &r->call, from, false, &st, err));
    char *parent = cay__arena_str(&r->arena, to), *slash = strrchr(parent, '/');
    if (slash && slash != parent) {
        *slash = 0;
        CAY_TRY(cay_file_mkdir(q.d.sb, &r->call, parent, 0755, true, err));
    }
    CAY_TRY(cay_file_rename(q.d.sb, &r->call, from, to, err));
    return answer_entry(r, &q, to, err);
}

int e2b_fs_remove(cay__req *r, cay_err *err)
{
    e2b_rpc q;
    const char *path;
    CAY_TRY(e2b_rpc_open(r, &q, err));
    CAY_TRY(e2b_named(r, &q, "path", &path, err));
    int rc = cay_file_remove(q.d.sb, &r->call, path, true, err);
    if (rc < 0 && (rc != CAY_ENOENT || e2b_nobody(err)))
        return rc;
    return cay__reply_pack(r, 200, "{}");
}

/* What a walk found is described after it: while it lasts the sandbox answers nothing else on the
 * same connection. */
typedef struct found {
    cay__arena *mem;
    cay_dirent **v; /* each as long as its target */
    size_t n, cap;
} found;

static int keep_entry(const cay_dirent *e, void *arg)
{
    found *f = arg;
    f->v = e2b_grow(f->v, f->n, &f->cap, sizeof *f->v);
    size_t len = offsetof(cay_dirent, st.target) + strlen(e->st.target) + 1;
    cay_dirent *own = cay__arena_take(f->mem, len);
    memcpy(own, e, len);
    own->path = cay__arena_str(f->mem, e->path);
    f->v[f->n++] = own;
    return 0;
}

int e2b_fs_list(cay__req *r, cay_err *err)
{
    e2b_rpc q;
    const char *path;
    cay_stat st = { .size_of = sizeof st };
    CAY_TRY(e2b_rpc_open(r, &q, err));
    CAY_AUTOJSON *list = json_array();
    CAY_TRY(e2b_named(r, &q, "path", &path, err));
    int64_t depth = cay__json_int(q.in, "depth", 1);
    if (depth < 0 || depth > DEPTH_MAX)
        return cay_fail(err, CAY_EINVAL, "depth is 1 to %d", DEPTH_MAX);
    CAY_TRY(cay_file_stat(q.d.sb, &r->call, path, true, &st, err));
    if (st.type != CAY_DIR)
        return cay_fail(err, CAY_EINVAL, "path is not a directory: %.150s", path);
    found f = { .mem = &r->arena };
    int rc = cay_dir_list(q.d.sb, &r->call, path, (unsigned)CAY_OR(depth, 1), keep_entry, &f, err);
    E2B_AUTONAMES names = { .sb = q.d.sb, .call = &r->call };
    CAY_EACH_OF(it, f.v, rc < 0 ? 0 : f.n) {
        const char *full = e2b_below(r, path, (*it)->path);
        json_array_append_new(list, e2b_entry(&names, full, &(*it)->st));
    }
    free(f.v);
    CAY_TRY(rc);
    return cay__reply_pack(r, 200, "{s:O}", "entries", list);
}
