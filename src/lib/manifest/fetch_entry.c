/* SPDX-License-Identifier: Apache-2.0 */
/* An entry's fields as a source; what it brings as a descriptor. */
#include "fetch.h"
#include "fetch_source.h"
#include <base/fault.h>
#include <base/json.h>
#include <base/sha256.h>

typedef struct own {
    cay__fetch_stage stage;
} own;

static void free_fetched(cay__fetched *f)
{
    own *o = f->own;
    cay__close_fd(&f->fd);
    cay__stage_remove(&o->stage);
    free(o);
    f->own = NULL;
}

void cay__fetched_clear(cay__fetched *f)
{
    if (f->drop)
        f->drop(f);
    *f = (cay__fetched){ .fd = -1 };
}

static const char **read_strings(cay__arena *mem, const json_t *list)
{
    size_t n = json_array_size(list);
    const char **v = cay__arena_take(mem, (n + 1) * sizeof *v);
    for (size_t i = 0; i < n; i++)
        v[i] = json_string_value(json_array_get(list, i));
    if (n)
        return v;
    return NULL;
}

static const cay_pair *read_headers(cay__arena *mem, json_t *map)
{
    size_t n = 0;
    const char *name;
    json_t *value;
    cay_pair *v = cay__arena_take(mem, (json_object_size(map) + 1) * sizeof *v);
    json_object_foreach(map, name, value)
        v[n++] = (cay_pair){ name, json_is_object(value) ? cay__json_str(value, "source", "")
                                                         : json_string_value(value) };
    return v;
}

static void read_git(const json_t *j, cay__arena *mem, cay__fetch_source *s)
{
    char url[1024];
    CAY_FORMAT(url, "https://%s/%s.git", cay__json_str(j, "host", "github.com"),
               cay__json_str(j, "repo", ""));
    int64_t depth = cay__json_int(j, "depth", 1);
    s->url = cay__arena_str(mem, url);
    s->ref = cay__json_str(j, "ref", NULL);
    s->whole = depth == 0;
    s->depth = (unsigned)depth;
    s->sparse = read_strings(mem, json_object_get(j, "sparse_checkout"));
    s->credentials = cay__json_str(j, "credentials", NULL);
}

static int read_fields(const cay__fetch_ask *ask, cay__arena *mem, cay__fetch_source *s,
                       cay_err *err)
{
    static const struct {
        const char *type;
        cay__source_kind kind;
    } kinds[] = { { "git_repo", CAY__SOURCE_GIT },
                  { "remote_file", CAY__SOURCE_FILE },
                  { "remote_dir", CAY__SOURCE_DIR } };
    const json_t *j = ask->fields;
    size_t i = 0;
    while (i < CAY_LEN(kinds) && strcmp(ask->type, kinds[i].type))
        i++;
    if (i == CAY_LEN(kinds))
        return cay_fail_why(err, CAY_ENOTSUP, "fetch_unsupported",
                            "entry %.100s: nothing is known of kind %.40s", ask->entry, ask->type);
    *s = (cay__fetch_source){ .kind = kinds[i].kind,
                              .entry = ask->entry,
                              .net = ask->net,
                              .subpath = cay__json_str(j, "subpath", NULL) };
    if (s->kind == CAY__SOURCE_GIT) {
        read_git(j, mem, s);
        return 0;
    }
    s->url = cay__json_str(j, "url", "");
    s->headers = read_headers(mem, json_object_get(j, "headers"));
    s->sha256 = cay__json_str(j, "sha256", NULL);
    s->max_bytes = (uint64_t)cay__json_int(j, "max_bytes", 0);
    s->format = cay__json_str(j, "format", NULL);
    return 0;
}

/* Not only what came but all that was asked for: whoever may read one place gets nothing that was
 * brought from another. */
static int entry_hash(const cay__fetch_ask *ask, char hex[CAY__SHA256_HEX], cay_err *err)
{
    CAY_AUTOBUF b = CAY__BUF(16u << 20);
    CAY_AUTOFREE char *text = json_dumps(ask->fields, JSON_COMPACT | JSON_SORT_KEYS);
    cay__buf_fmt(&b, "%s %s", ask->type, CAY_OR(text, ""));
    if (!text || b.full)
        return cay_fail_why(err, CAY_ETOOBIG, "manifest_too_big",
                            "entry %.100s: its text is too long", ask->entry);
    cay__sha256_hex(b.data, b.len, hex);
    return 0;
}

/* "IDENTITY HASH" without its second half. */
static void without_hash(const char *known, char identity[CAY__IDENTITY])
{
    size_t n = CAY_MIN(strcspn(known, " "), (size_t)CAY__IDENTITY - 1);
    memcpy(identity, known, n);
    identity[n] = 0;
}

static int fetch_content(cay_client *client, const cay_call *call, const cay__fetch_source *s,
                         const char *known, cay__fetched *out, cay_err *err)
{
    cay__brought got = { 0 };
    own *o = cay__alloc(sizeof *o);
    int rc = cay__stage_make(client, &o->stage, err);
    if (rc < 0) {
        free(o);
        return rc;
    }
    cay__fetched f = { .fd = -1, .own = o, .drop = free_fetched };
    rc = cay__source_bring(client, call, s, cay__text_or(known, NULL), o->stage.fd, &got, err);
    CAY_FAULT("fetch.brought");
    if (rc == 0) {
        f.fd = openat(o->stage.fd, s->kind == CAY__SOURCE_FILE ? "file" : ".",
                      O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        if (f.fd < 0)
            rc = cay_fail_sys(err, "entry %.100s: open what came", s->entry);
    }
    if (rc < 0) {
        free_fetched(&f);
        return rc;
    }
    CAY_COPY(f.identity, got.identity);
    *out = f;
    return 0;
}

int cay__fetch_entry(cay_client *client, const cay_call *call, const cay__fetch_ask *ask,
                     cay__fetched *out, cay_err *err)
{
    CAY__AUTOARENA mem = { 0 };
    char identity[CAY__IDENTITY] = "", hex[CAY__SHA256_HEX];
    cay__fetched f = { .fd = -1 };
    cay__fetch_source s;
    CAY_TRY(read_fields(ask, &mem, &s, err));
    CAY_TRY(entry_hash(ask, hex, err));
    if (ask->known)
        without_hash(ask->known, identity);
    else
        CAY_TRY(cay__source_identity(client, call, &s, identity, err));
    if (ask->known || !identity[0]) {
        CAY_TRY(fetch_content(client, call, &s, identity, &f, err));
        CAY_COPY(identity, f.identity);
    }
    *out = f;
    CAY_JOIN(out->identity, identity, " ", hex);
    return 0;
}
