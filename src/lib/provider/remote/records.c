/* SPDX-License-Identifier: Apache-2.0 */
/* Of a client of a server: what it keeps besides sandboxes, and what it tells of them.
 * remote.c has the rest. */
#include "remote_box.h"
#include "client.h"
#include <base/base64.h>
#include <base/fd.h>
#include <cay/volume.h>
#include <cay/workspace.h>
#include <fcntl.h>
#include <lib/client/net.h>
#include <sys/stat.h>

static uint32_t mode_of(const json_t *side)
{
    static const struct {
        const char *name;
        uint32_t type;
    } types[] = {
        { "file", S_IFREG }, { "directory", S_IFDIR }, { "link", S_IFLNK }, { "other", S_IFIFO }
    };
    uint32_t mode = (uint32_t)strtoul(cay__far_word(side, "mode"), NULL, 8) & 07777;
    for (size_t i = 0; json_is_object(side) && i < CAY_LEN(types); i++)
        if (!strcmp(types[i].name, cay__far_word(side, "type")))
            return mode | types[i].type;
    return 0;
}

typedef struct differ {
    int (*fn)(const cay_file_change *, void *);
    void *arg;
} differ;

static int on_change(const json_t *o, void *arg)
{
    const differ *d = arg;
    const json_t *old = json_object_get(o, "old"), *new = json_object_get(o, "new"),
                 *patch = json_object_get(o, "patch");
    const char *packed = cay__json_str(o, "patch_base64", NULL);
    CAY_AUTOFREE char *path = cay__far_path(o, "path"), *from = cay__far_path(o, "from");
    CAY_AUTOBUF bytes = CAY__BUF(128u << 20);
    cay_file_change c = { .size = sizeof c,
                          .kind = *cay__far_word(o, "kind"),
                          .path = CAY_OR(path, ""),
                          .from = CAY_OR(from, ""),
                          .old_mode = mode_of(old),
                          .new_mode = mode_of(new),
                          .old_size = (uint64_t)cay__json_int(old, "size", 0),
                          .new_size = (uint64_t)cay__json_int(new, "size", 0),
                          .content = cay__json_bool(o, "content", false),
                          .mode = cay__json_bool(o, "mode", false),
                          .owner = cay__json_bool(o, "owner", false),
                          .old_digest = cay__far_word(o, "old_digest") };
    if (json_is_string(patch)) {
        c.text = json_string_value(patch);
        c.text_len = json_string_length(patch);
    } else if (packed && cay__base64_get(&bytes, packed, strlen(packed))) {
        c.text = CAY_OR(bytes.data, "");
        c.text_len = bytes.len;
    }
    return d->fn(&c, d->arg);
}

/* The server takes whole ids of sandboxes; people write names. */
static void add_point(cay_client *client, const cay_call *call, cay__buf *target, const char *name,
                      const char *ref)
{
    cay_sandbox *sb = NULL;
    if (ref && !cay__id_valid(ref, 'c') && !cay__id_valid(ref, 's') &&
        cay_client_find(client, call, ref, &sb, NULL) == 0)
        cay__far_query(target, name, cay_sandbox_id(sb));
    else if (ref)
        cay__far_query(target, name, ref);
    cay_sandbox_unref(sb);
}

int cay__remote_diff(cay_client *client, const cay_call *call, const cay_diff *given,
                     int (*fn)(const cay_file_change *, void *), void *arg, uint64_t *left_out,
                     cay_err *err)
{
    cay_diff d;
    CAY__FAR_TARGET(target);
    CAY_TRY(cay__spec_take(&d, sizeof d, given, "cay_diff", err));
    cay__buf_str(&target, CAY__FAR_API "/diff");
    add_point(client, call, &target, "a", CAY_OR(d.a, ""));
    add_point(client, call, &target, "b", d.b);
    const struct {
        const char *name;
        bool on;
    } flags[] = {
        { "all", d.all }, { "every", d.every }, { "patch", d.patch }, { "digest", d.digest }
    };
    for (size_t i = 0; i < CAY_LEN(flags); i++)
        if (flags[i].on)
            cay__far_query(&target, flags[i].name, "1");
    if (d.context)
        cay__far_query_u64(&target, "context", d.context);
    if (left_out)
        *left_out = 0;
    return cay__remote_each(client, call, &target, on_change, &(differ){ fn, arg }, err);
}

typedef struct recorder {
    int (*fn)(const cay_net_record *, void *);
    void *arg;
} recorder;

static int on_record(const json_t *o, void *arg)
{
    const recorder *r = arg;
    CAY_AUTOFREE char *line = cay__json_text(o, 65536);
    cay_net_record rec = cay__net_record_of(o, CAY_OR(line, "{}"));
    return r->fn(&rec, r->arg);
}

int cay__remote_net_log(cay_sandbox *sb, int (*fn)(const cay_net_record *r, void *arg), void *arg,
                        cay_err *err)
{
    CAY__FAR_TARGET(target);
    cay__far_ref(&target, "sandboxes", sb->id);
    cay__buf_str(&target, "/net/log");
    return cay__remote_each(sb->owner, NULL, &target, on_record, &(recorder){ fn, arg }, err);
}

int cay__remote_secret_put(cay_client *client, const char *name, const void *value, size_t len,
                           cay_err *err)
{
    CAY_AUTOBUF packed = CAY__BUF(256u << 10);
    cay__base64_put(&packed, value, len);
    if (packed.full)
        return cay_fail_why(err, CAY_ETOOBIG, "secret_invalid", "secret %.60s: too long to be sent",
                            name);
    int rc =
        cay__remote_order(client, "PUT", "secrets", name, "",
                          json_pack("{s:s}", "value_base64", CAY_OR(packed.data, "")), NULL, err);
    if (packed.data)
        explicit_bzero(packed.data, packed.len);
    return rc;
}

int cay__remote_secret_remove(cay_client *client, const char *name, cay_err *err)
{
    return cay__remote_order(client, "DELETE", "secrets", name, "", NULL, NULL, err);
}

typedef struct secrets {
    int (*fn)(const char *name, int64_t changed_ms, void *arg);
    void *arg;
} secrets;

static int on_secret(const json_t *o, void *arg)
{
    const secrets *s = arg;
    return s->fn(cay__far_word(o, "name"), cay__json_int(o, "changed_ms", 0), s->arg);
}

int cay__remote_secret_list(cay_client *client,
                            int (*fn)(const char *name, int64_t changed_ms, void *arg), void *arg,
                            cay_err *err)
{
    CAY__FAR_TARGET(target);
    cay__buf_str(&target, CAY__FAR_API "/secrets");
    return cay__remote_each(client, NULL, &target, on_secret, &(secrets){ fn, arg }, err);
}

int cay__remote_renew_secrets(cay_sandbox *sb, cay_err *err)
{
    return cay__remote_order(sb->owner, "POST", "sandboxes", sb->id, "/secrets/renew", NULL, NULL,
                             err);
}

int cay__remote_set_secrets(cay_sandbox *sb, const cay_call *call, const char *net,
                            const cay_secret *list, size_t n, cay_err *err)
{
    CAY_AUTOFREE char *policy = NULL;
    CAY_AUTOJSON *body = json_pack("{s:o}", "secrets", cay__far_secrets(list, n));
    CAY__FAR_TARGET(target);
    json_t *rules = NULL;
    if (net) {
        CAY_TRY(cay_policy_to_json(net, &policy, err));
        CAY_TRY(cay__json_object("policy", policy, &rules, err));
        json_object_set_new(body, "net", rules);
    }
    cay__far_ref(&target, "sandboxes", sb->id);
    cay__buf_str(&target, "/secrets");
    return cay__far_json(cay__remote_far(sb->owner), call, "PUT", &target, CAY_STEAL(body), NULL,
                         err);
}

/* What it points to is in o. */
static cay_volume volume_of(const json_t *o, const char **users)
{
    cay_volume v = { .size = sizeof v,
                     .name = cay__far_word(o, "name"),
                     .provider = cay__far_word(o, "provider"),
                     .limit = (uint64_t)cay__json_int(o, "limit", 0),
                     .quota = cay__far_word(o, "quota"),
                     .used = (uint64_t)cay__json_int(o, "used", 0),
                     .inodes = (uint64_t)cay__json_int(o, "inodes", 0),
                     .created_ms = cay__json_int(o, "created_ms", 0),
                     .users = users };
    size_t i;
    json_t *id;
    json_array_foreach(json_object_get(o, "users"), i, id) users[v.nusers++] =
        json_is_string(id) ? json_string_value(id) : "";
    users[v.nusers] = NULL;
    return v;
}

static const char **room_for_users(const json_t *o)
{
    return cay__alloc((json_array_size(json_object_get(o, "users")) + 1) * sizeof(char *));
}

typedef struct volumes {
    int (*fn)(const cay_volume *v, void *arg);
    void *arg;
} volumes;

static int on_volume(const json_t *o, void *arg)
{
    const volumes *w = arg;
    CAY_AUTOFREE const char **users = room_for_users(o);
    cay_volume v = volume_of(o, users);
    return w->fn(&v, w->arg);
}

int cay__remote_volume_list(cay_client *client, const cay_call *call,
                            int (*fn)(const cay_volume *v, void *arg), void *arg, cay_err *err)
{
    CAY__FAR_TARGET(target);
    cay__buf_str(&target, CAY__FAR_API "/volumes");
    return cay__remote_each(client, call, &target, on_volume, &(volumes){ fn, arg }, err);
}

int cay__remote_volume_create(cay_client *client, const cay_volume_spec *spec, cay_err *err)
{
    cay_volume_spec s;
    CAY__FAR_TARGET(target);
    CAY_TRY(cay__spec_take(&s, sizeof s, spec, "cay_volume_spec", err));
    json_t *body = json_pack("{s:s, s:s*}", "name", CAY_OR(s.name, ""), "provider", s.provider);
    if (body && s.limit && s.limit != CAY_UNLIMITED)
        json_object_set_new(body, "limit", json_integer((json_int_t)s.limit));
    if (body && s.hard)
        json_object_set_new(body, "hard", json_true());
    cay__buf_str(&target, CAY__FAR_API "/volumes");
    return cay__far_json(cay__remote_far(client), NULL, "POST", &target, body, NULL, err);
}

/* In one block, as cay_volume_free() wants it. */
int cay__remote_volume_find(cay_client *client, const char *name, cay_volume **out, cay_err *err)
{
    CAY_AUTOJSON *o = NULL;
    CAY_TRY(cay__remote_order(client, "GET", "volumes", name, "", NULL, &o, err));
    CAY_AUTOFREE const char **users = room_for_users(o);
    cay_volume v = volume_of(o, users);
    size_t text = strlen(v.name) + strlen(v.provider) + strlen(v.quota) + 3,
           list = (v.nusers + 1) * sizeof(char *);
    for (size_t i = 0; i < v.nusers; i++)
        text += strlen(users[i]) + 1;
    cay_volume *to = cay__alloc(sizeof *to + list + text);
    const char **ids = (const char **)(to + 1);
    char *at = (char *)ids + list;
    *to = v;
    const char **strings[] = { &to->name, &to->provider, &to->quota };
    for (size_t i = 0; i < CAY_LEN(strings); i++) {
        size_t n = strlen(*strings[i]) + 1;
        *strings[i] = memcpy(at, *strings[i], n);
        at += n;
    }
    for (size_t i = 0; i < v.nusers; i++) {
        size_t n = strlen(users[i]) + 1;
        ids[i] = memcpy(at, users[i], n);
        at += n;
    }
    to->users = ids;
    *out = to;
    return 0;
}

int cay__remote_volume_remove(cay_client *client, const char *name, cay_err *err)
{
    return cay__remote_order(client, "DELETE", "volumes", name, "", NULL, NULL, err);
}

static int copy_body(cay__answer *a, const cay_call *call, int fd, const cay_export *spec,
                     cay_err *err)
{
    CAY_AUTOFREE char *buf = cay__alloc(65536);
    uint64_t all = 0;
    for (size_t n;; all += n) {
        CAY_TRY(cay__answer_bytes(a, call, buf, 65536, &n, err));
        if (!n)
            return 0;
        if (!cay__fd_write_all(fd, buf, n))
            return cay_fail_sys(err, CAY_ESYS, "write the archive");
        if (spec->progress && spec->progress(0, all + n, spec->arg))
            return cay_fail_why(err, CAY_ECANCELED, "canceled", "export: stopped");
    }
}

static int export_snapshot(cay_client *client, const cay_call *call, const cay_export *spec,
                           const char *id, int fd, cay_archived *done, cay_err *err)
{
    cay__answer *a = NULL;
    CAY__FAR_TARGET(target);
    cay__far_ref(&target, "snapshots", id);
    cay__buf_str(&target, "/export");
    if (spec->since)
        cay__far_query(&target, "since", spec->since);
    if (spec->format)
        cay__far_query(&target, "format", spec->format);
    CAY_TRY(cay__far_ask(cay__remote_far(client), call,
                         &(cay__ask){ .method = "GET", .target = target.data }, &a, err));
    const cay__head *h = cay__answer_head(a);
    const char *digest = cay__head_field(h, "x-cay-digest"),
               *files = cay__head_field(h, "x-cay-files"),
               *bytes = cay__head_field(h, "x-cay-bytes");
    cay__str_copy(done->digest, sizeof done->digest, CAY_OR(digest, ""));
    if (files)
        cay__str_to_u64(files, &done->files);
    if (bytes)
        cay__str_to_u64(bytes, &done->bytes);
    int rc = copy_body(a, call, fd, spec, err);
    cay__answer_end(a);
    return rc;
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
        rc = export_snapshot(client, call, &spec, s->id, fd, &done, err);
    if (taken)
        cay_snapshot_remove(client, NULL, s->id, NULL, NULL);
    cay_sandbox_unref(sb);
    cay_snapshot_free(s);
    if (rc == 0 && out)
        cay__answer_give(out, &done, sizeof done);
    return rc;
}

/* The length has to be known: what is no file becomes one first. */
static int whole_file(int fd, int *out, uint64_t *len, cay_err *err)
{
    struct stat st;
    off_t at = lseek(fd, 0, SEEK_CUR);
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && at >= 0) {
        *out = dup(fd);
        *len = (uint64_t)CAY_MAX(st.st_size - at, (off_t)0);
        if (*out < 0)
            return cay_fail_sys(err, CAY_ESYS, "archive");
        return 0;
    }
    CAY_AUTOFREE char *buf = cay__alloc(65536);
    const char *tmp = getenv("TMPDIR");
    CAY_AUTOFD to = open(cay__text_or(tmp, "/tmp"), O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
    if (to < 0)
        return cay_fail_sys(err, CAY_ESYS, "a file for the archive");
    for (ssize_t n; (n = read(fd, buf, 65536)) != 0;) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 || !cay__fd_write_all(to, buf, (size_t)n))
            return cay_fail_sys(err, CAY_ESYS, "read the archive");
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
    CAY_AUTOBUF text = CAY__BUF(1u << 20);
    CAY_AUTOJSON *o = NULL;
    cay__answer *a = NULL;
    uint64_t len = 0;
    CAY__FAR_TARGET(target);
    CAY_TRY(cay__spec_take(&spec, sizeof spec, given, "cay_import", err));
    if (spec.metadata || spec.root)
        return cay_fail_why(err, CAY_ENOTSUP, "remote_unsupported",
                            "import: a server takes neither metadata nor a root of this host");
    CAY_TRY(whole_file(fd, &body, &len, err));
    cay__buf_str(&target, CAY__FAR_API "/snapshots/import");
    if (spec.label)
        cay__far_query(&target, "label", spec.label);
    cay__ask ask = { .method = "POST",
                     .target = target.data,
                     .type = "application/octet-stream",
                     .fd = body,
                     .from_fd = true,
                     .len = (size_t)len };
    CAY_TRY(cay__far_ask(cay__remote_far(client), call, &ask, &a, err));
    char buf[4096];
    size_t n = 1;
    int rc = 0;
    while (rc == 0 && n && (rc = cay__answer_bytes(a, call, buf, sizeof buf, &n, err)) == 0)
        cay__buf_add(&text, buf, n);
    cay__answer_end(a);
    if (rc == 0)
        rc = cay__json_object("answer", CAY_OR(text.data, ""), &o, err);
    if (rc < 0)
        return rc;
    if (out)
        return cay_client_snapshot(client, call, cay__far_word(o, "id"), out, err);
    return 0;
}
