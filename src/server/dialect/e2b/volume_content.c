/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is in a volume, without a sandbox of the user's: whoever has its token reads and writes
 * there. The work is done inside a sandbox that lives for the one request and has nothing but the
 * volume, so that links in it lead nowhere else.
 */
#include "e2b.h"

#define ROOT      "/volume"
#define DEPTH_MAX 64

typedef struct content {
    cay_sandbox *sb;
    const char *path;  /* inside */
    const char *given; /* in the volume, "/…" */
} content;

static void give_back(void *sb)
{
    cay_sandbox_remove(sb, NULL, NULL);
    cay_sandbox_unref(sb);
}

int e2b_volume_admit(cay__req *r, cay_err *err)
{
    const char *a = cay__head_field(&r->head, "authorization");
    char token[E2B_TOKEN_LEN + 1];
    CAY_TRY(e2b_token(r, "volume", r->param[0], token, err));
    if (!a || strncasecmp(a, "bearer ", 7) || !e2b_same(a + 7, token))
        return cay_fail(err, CAY_EAUTH, "show the volume's token: Authorization: Bearer");
    return 0;
}

static bool has_dotdot(const char *p)
{
    for (; *p; p += strcspn(p, "/"), p += *p == '/') {
        size_t n = strcspn(p, "/");
        if (n == 2 && !strncmp(p, "..", 2))
            return true;
    }
    return false;
}

static int open_content(cay__req *r, content *out, cay_err *err)
{
    const char *name = r->param[0], *path = cay__req_query(r, "path");
    cay_volume *v;
    if (strlen(name) > CAY_VOLUME_NAME)
        return cay_fail(err, CAY_ENOENT, "volume %.60s not found", name);
    CAY_TRY(cay_volume_find(r->client, &r->call, name, &v, err));
    cay_volume_free(v);
    if (!path || !*path || has_dotdot(path))
        return cay_fail(err, CAY_EINVAL, "path is missing, or has \"..\" in it");
    path += strspn(path, "/");
    const cay_volume_use use = { .name = name, .target = ROOT, .rw = true };
    const cay_create c = { .size = sizeof c,
                           .life.ephemeral = true,
                           .files.volumes = &use,
                           .files.nvolumes = 1,
                           .process.workdir = ROOT };
    CAY_TRY(cay_client_create(r->client, &r->call, &c, &out->sb, err));
    cay__req_defer(r, give_back, out->sb);
    char *full = cay__req_text(r, ROOT "/%s", path);
    for (size_t n = strlen(full); full[n - 1] == '/'; n--) /* it begins with the root's name */
        full[n - 1] = 0;
    out->path = full;
    out->given = cay__text_or(full + sizeof ROOT - 1, "/");
    return 0;
}

static json_t *describe_entry(const char *path, const cay_stat *st)
{
    const char *type = "unknown";
    if (st->type == CAY_FILE)
        type = "file";
    else if (st->type == CAY_DIR)
        type = "directory";
    else if (st->type == CAY_LINK)
        type = "symlink";
    char when[32];
    e2b_when(st->mtime_ns / 1000000, when);
    return json_pack("{s:o,s:s,s:o,s:I,s:i,s:I,s:I,s:s,s:s,s:s,s:o*}", "name",
                     cay__json_bytes(e2b_leaf(path)), "type", type, "path", cay__json_bytes(path),
                     "size", (json_int_t)st->size, "mode", (int)(st->mode & 07777), "uid",
                     (json_int_t)st->uid, "gid", (json_int_t)st->gid, "atime", when, "mtime", when,
                     "ctime", when, "target",
                     CAY_IF(st->type == CAY_LINK, cay__json_bytes(st->target)));
}

static int reply_entry(cay__req *r, const content *c, int status, cay_err *err)
{
    cay_stat st = { .size_of = sizeof st };
    CAY_TRY(cay_file_stat(c->sb, &r->call, c->path, false, &st, err));
    return cay__reply_json(r, status, describe_entry(c->given, &st));
}

typedef struct owner {
    uint64_t uid, gid, mode; /* UINT32_MAX: as it is */
} owner;

static int from_query(cay__req *r, owner *o, cay_err *err)
{
    CAY_TRY(cay__req_number(r, "uid", UINT32_MAX, UINT32_MAX, &o->uid, err));
    CAY_TRY(cay__req_number(r, "gid", UINT32_MAX, UINT32_MAX, &o->gid, err));
    return cay__req_number(r, "mode", UINT32_MAX, 07777, &o->mode, err);
}

static int read_number(const json_t *in, const char *key, int64_t max, uint64_t *out, cay_err *err)
{
    const json_t *v = e2b_member(in, key);
    *out = UINT32_MAX;
    if (!v)
        return 0;
    if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > max)
        return cay_fail(err, CAY_EINVAL, "%s is a number from 0 to %lld", key, (long long)max);
    *out = (uint64_t)json_integer_value(v);
    return 0;
}

static int apply_owner(cay__req *r, const content *c, const owner *o, cay_err *err)
{
    if (o->mode != UINT32_MAX)
        CAY_TRY(cay_file_chmod(c->sb, &r->call, c->path, (uint32_t)o->mode, err));
    if (o->uid != UINT32_MAX || o->gid != UINT32_MAX)
        CAY_TRY(cay_file_chown(c->sb, &r->call, c->path, (uint32_t)o->uid, (uint32_t)o->gid, err));
    return 0;
}

typedef struct listing {
    cay__req *r;
    const content *c;
    json_t *list;
} listing;

static int add_entry(const cay_dirent *e, void *arg)
{
    listing *l = arg;
    json_array_append_new(l->list, describe_entry(e2b_below(l->r, l->c->given, e->path), &e->st));
    return 0;
}

int e2b_on_volume_dir(cay__req *r, cay_err *err)
{
    content c;
    uint64_t depth;
    CAY_AUTOJSON *list = json_array();
    CAY_TRY(cay__req_number(r, "depth", 1, DEPTH_MAX, &depth, err));
    CAY_TRY(open_content(r, &c, err));
    listing l = { r, &c, list };
    CAY_TRY(cay_dir_list(c.sb, &r->call, c.path, (unsigned)CAY_OR(depth, 1), add_entry, &l, err));
    return cay__reply_json(r, 200, json_incref(list));
}

int e2b_on_volume_mkdir(cay__req *r, cay_err *err)
{
    content c;
    owner o;
    bool there, force = cay__req_flag(r, "force");
    CAY_TRY(from_query(r, &o, err));
    CAY_TRY(open_content(r, &c, err));
    CAY_TRY(cay_file_exists(c.sb, &r->call, c.path, &there, err));
    if (there && !force)
        return cay_fail(err, CAY_EEXIST, "path %.150s already exists", c.given);
    CAY_TRY(cay_file_mkdir(c.sb, &r->call, c.path, o.mode == UINT32_MAX ? 0755 : (uint32_t)o.mode,
                           force, err));
    CAY_TRY(apply_owner(r, &c, &o, err));
    return reply_entry(r, &c, 201, err);
}

int e2b_on_volume_stat(cay__req *r, cay_err *err)
{
    content c;
    CAY_TRY(open_content(r, &c, err));
    return reply_entry(r, &c, 200, err);
}

int e2b_on_volume_patch(cay__req *r, cay_err *err)
{
    content c;
    owner o;
    json_t *in;
    CAY_TRY(cay__req_json(r, 0, &in, err));
    CAY_TRY(read_number(in, "uid", UINT32_MAX - 1, &o.uid, err));
    CAY_TRY(read_number(in, "gid", UINT32_MAX - 1, &o.gid, err));
    CAY_TRY(read_number(in, "mode", 07777, &o.mode, err));
    CAY_TRY(open_content(r, &c, err));
    CAY_TRY(apply_owner(r, &c, &o, err));
    return reply_entry(r, &c, 200, err);
}

int e2b_on_volume_remove(cay__req *r, cay_err *err)
{
    content c;
    CAY_TRY(open_content(r, &c, err));
    if (!strcmp(c.given, "/"))
        return cay_fail(err, CAY_EINVAL, "the root of a volume stays; remove the volume itself");
    CAY_TRY(cay_file_remove(c.sb, &r->call, c.path, true, err));
    return cay__reply_empty(r, 204);
}

int e2b_on_volume_get(cay__req *r, cay_err *err)
{
    content c;
    cay_stat st = { .size_of = sizeof st };
    int fd;
    CAY_TRY(open_content(r, &c, err));
    CAY_TRY(cay_file_stat(c.sb, &r->call, c.path, true, &st, err));
    if (st.type != CAY_FILE)
        return cay_fail(err, CAY_EINVAL, "path %.150s is not a file", c.given);
    CAY_TRY(cay__file_open(r, c.sb, c.path, NULL, &st, &fd, err));
    return cay__reply_fd(r, 200, "application/octet-stream", fd, (int64_t)st.size);
}

int e2b_on_volume_put(cay__req *r, cay_err *err)
{
    content c;
    owner o;
    CAY_AUTOPTR(cay_upload) up = NULL;
    uint64_t n;
    CAY_TRY(from_query(r, &o, err));
    CAY_TRY(open_content(r, &c, err));
    const cay_write spec = { .size = sizeof spec,
                             .parents = cay__req_flag(r, "force"),
                             .mode = o.mode == UINT32_MAX ? 0 : (uint32_t)o.mode };
    CAY_TRY(cay_file_open_write(c.sb, &r->call, c.path, &spec, &up, err));
    CAY_TRY(cay__req_to_fd(r, cay_upload_fd(up), UINT64_MAX, &n, err));
    CAY_TRY(cay_upload_commit(CAY_STEAL(up), &r->call, err));
    CAY_TRY(apply_owner(r, &c, &o, err));
    return reply_entry(r, &c, 201, err);
}
