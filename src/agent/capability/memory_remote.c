/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of memory in a snapshot store far away, as one archive: a workspace in the JSON form of the
 * JavaScript SDK, which `cay snapshot pull` reads, too. It is fetched whole when a run begins; what
 * a run leaves is put over what is there by then. Of two that write at the same moment the last one
 * stays. A store that has it no more, or says so once, takes nothing away: what was fetched before
 * is put back with the rest.
 */
#include "memory.h"
#include <base/base64.h>
#include <cay/snapshot.h>

enum { ARCHIVE_MAX = 384 << 20 };

typedef struct remote {
    cay_client *client;
    char *url, *auth;
    json_t *files, *fresh; /* by name, base64: what was fetched last; what is to be put */
} remote;

static int fetch_archive(remote *r, cay_err *err)
{
    cay_transfer from = { .size = sizeof from, .url = r->url, .auth = r->auth };
    CAY_AUTOFREE char *text = NULL;
    CAY_AUTOJSON *j = NULL;
    cay_err own = CAY_ERR_INIT;
    size_t len = 0;
    int rc = cay_store_get(r->client, NULL, &from, ARCHIVE_MAX, &text, &len, &own);
    if (rc == CAY_ENOENT) /* nobody has learnt anything yet; or it is gone, and then what we know of
                             it must not go, too */
        return 0;
    CAY_TRY(cay__err_pass(rc, &own, err));
    if (strlen(text) != len || cay__json_object("it", text, &j, NULL) < 0 ||
        cay__json_int(j, "version", 0) != 1 || !json_is_array(json_object_get(j, "files")))
        return cay_fail_why(err, CAY_EINVAL, "memory_store", "%.120s is no archive of memories",
                            r->url);
    json_object_clear(r->files);
    CAY_EACH_ITEM(f, json_object_get(j, "files")) {
        const char *path = cay__json_str(f, "path", NULL);
        json_t *data = json_object_get(f, "data");
        if (path && json_is_string(data))
            json_object_set(r->files, path, data);
    }
    return 0;
}

static int list_files(void *self, int (*fn)(const char *name, void *arg), void *arg, cay_err *err)
{
    remote *r = self;
    CAY_TRY(fetch_archive(r, err));
    CAY_EACH_MEMBER(name, v, r->files) {
        CAY_TRY(fn(name, arg));
    }
    return 0;
}

static int get_file(void *self, const char *name, char **data, size_t *len, cay_err *err)
{
    const json_t *v = json_object_get(((remote *)self)->files, name);
    CAY_AUTOBUF b = CAY__BUF(ARCHIVE_MAX);
    if (!v || !cay__base64_get(&b, json_string_value(v), json_string_length(v)) || b.full)
        return cay_fail_why(err, CAY_EINVAL, "memory_store",
                            "%.100s of the store of memories is not what it should be", name);
    *len = b.len;
    if (b.len)
        *data = CAY_STEAL(b.data);
    else
        *data = cay__strdup("");
    return 0;
}

static int put_file(void *self, const char *name, const void *data, size_t len, cay_err *err)
{
    remote *r = self;
    CAY_AUTOBUF b = CAY__BUF(ARCHIVE_MAX);
    cay__base64_put(&b, data, len);
    if (json_object_set_new(r->fresh, name, json_stringn(CAY_OR(b.data, ""), b.len)) == 0)
        return 0;
    return cay_fail(err, CAY_EINVAL, "a name of memory is no text");
}

static int commit_archive(void *self, cay_err *err)
{
    remote *r = self;
    cay_transfer to = { .size = sizeof to, .url = r->url, .auth = r->auth };
    CAY_AUTOJSON *list = json_array(), *dirs = json_array();
    CAY_TRY(fetch_archive(r, err));
    json_object_update(r->files, r->fresh);
    json_array_append_new(dirs, json_string("memories"));
    json_array_append_new(dirs, json_string("sessions"));
    CAY_EACH_MEMBER(name, v, r->files)
        json_array_append_new(list, json_pack("{s:s, s:O}", "path", name, "data", v));
    CAY_AUTOJSON *all =
        json_pack("{s:i, s:O, s:O}", "version", 1, "directories", dirs, "files", list);
    CAY_AUTOFREE char *text = cay__json_text(all, ARCHIVE_MAX);
    if (!text)
        return cay_fail(err, CAY_ETOOBIG, "the memories are too large for one archive");
    CAY_TRY(cay_store_put(r->client, NULL, &to, text, strlen(text), err));
    json_object_clear(r->fresh);
    return 0;
}

static void close_remote(void *self)
{
    remote *r = self;
    json_decref(r->files);
    json_decref(r->fresh);
    free(r->url);
    free(r->auth);
    free(r);
}

const cay_memory_store cay__memory_remote_store = { .size = sizeof cay__memory_remote_store,
                                                    .list = list_files,
                                                    .get = get_file,
                                                    .put = put_file,
                                                    .close = close_remote,
                                                    .commit = commit_archive };

void *cay__memory_remote(cay_client *client, const char *url, const char *auth)
{
    remote *r = cay__alloc(sizeof *r);
    *r = (remote){ .client = client,
                   .url = cay__strdup(url),
                   .auth = cay__strdup_if(auth),
                   .files = json_object(),
                   .fresh = json_object() };
    return r;
}
