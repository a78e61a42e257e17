/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Volumes of the engine that are one sandbox's storage: made before its container by a driver, with
 * our labels, and gone with it. What the driver is told, keys among it, is in the engine's record
 * of the volume alone: neither the container's nor our own files have it. docker/ID/volumes says
 * that there are some.
 */
#include "box.h"
#include <base/fault.h>

#define MARK "volumes"
enum { SHORTEST = 4 };

static void name_of(const char *id, size_t n, char *out, size_t cap)
{
    snprintf(out, cap, "cay-%s-%zu", id, n);
}

void cay__docker_volumes_show(json_t *mounts, const char *storage, const char *id)
{
    CAY_AUTOJSON *list = NULL;
    char name[64];
    size_t i;
    json_t *v;
    if (!storage || cay__json_any("storage", storage, &list, NULL) < 0)
        return;
    json_array_foreach(list, i, v) {
        name_of(id, i, name, sizeof name);
        json_array_append_new(mounts, json_pack("{s:s,s:s,s:s,s:b}", "Type", "volume", "Source",
                                                name, "Target", cay__json_str(v, "target", ""),
                                                "ReadOnly", cay__json_bool(v, "read_only", true)));
    }
}

int cay__docker_volumes_mark(int dir, cay_err *err)
{
    CAY_AUTOFD fd = openat(dir, MARK, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    CAY_TRY_SYS(fd, err, "note the volumes of the sandbox");
    return 0;
}

/* Where a text holds a value, or as much of its beginning as was left when it was cut. */
static void redact_value(char *text, const char *value)
{
    for (char *at = text; *at; at++) {
        size_t n = 0;
        while (value[n] && at[n] == value[n])
            n++;
        if (n < SHORTEST)
            continue;
        memcpy(at, "***", 3);
        memmove(at + 3, at + n, strlen(at + n) + 1);
        at += 2;
    }
}

/* An engine may say what it was told: keys are taken out of that. */
void cay__docker_volumes_redact(const char *storage, cay_err *err)
{
    static const char *const secret[] = { "key", "secret", "token", "credentials" };
    CAY_AUTOJSON *list = NULL;
    size_t i;
    json_t *v, *o;
    const char *key;
    if (!storage || !err || cay__json_any("storage", storage, &list, NULL) < 0)
        return;
    json_array_foreach(list, i, v) {
        json_object_foreach(json_object_get(v, "options"), key, o) {
            for (size_t k = 0; json_string_value(o) && k < CAY_LEN(secret); k++)
                if (strstr(key, secret[k]))
                    redact_value(err->msg, json_string_value(o));
        }
    }
}

int cay__docker_volumes_make(cay__docker_box *b, const cay_call *call, const char *storage,
                             cay_err *err)
{
    CAY_AUTOJSON *list = NULL;
    char name[64];
    size_t i;
    json_t *v;
    if (!storage)
        return 0;
    CAY_TRY(cay__json_any("storage", storage, &list, err));
    json_array_foreach(list, i, v) {
        CAY_AUTOJSON *j = NULL;
        name_of(b->base.id, i, name, sizeof name);
        json_t *body =
            json_pack("{s:s,s:s,s:O,s:{s:s,s:s}}", "Name", name, "Driver",
                      cay__json_str(v, "driver", ""), "DriverOpts", json_object_get(v, "options"),
                      "Labels", CAY__DOCKER_OWNER, b->d->owner, CAY__DOCKER_SANDBOX, b->base.id);
        CAY_TRY(cay__engine_ask(b->d->engine, call, "POST", "/volumes/create", body, &j, err));
        CAY_FAULT("docker.volume");
        if (strcmp(cay__json_str(json_object_get(j, "Labels"), CAY__DOCKER_OWNER, ""),
                   b->d->owner) != 0) /* it was there: somebody else's */
            return cay_fail_why(err, CAY_EEXIST, "volume_exists",
                                "the engine has a volume %s already, and it is not ours; remove it",
                                name);
    }
    return 0;
}

int cay__docker_labelled(cay__docker *d, const cay_call *call, const char *what, const char *id,
                         json_t **out, cay_err *err)
{
    CAY_AUTOBUF path = CAY__BUF(512);
    char filter[200];
    int n = CAY_FORMAT(filter, "{\"label\":[\"" CAY__DOCKER_OWNER "=%s\"", d->owner);
    snprintf(filter + n, sizeof filter - (size_t)n, "%s%s%s]}",
             CAY_TEXT_IF(id, ",\"" CAY__DOCKER_SANDBOX "="), CAY_OR(id, ""), CAY_TEXT_IF(id, "\""));
    cay__buf_fmt(&path, "%sfilters=", what);
    cay__engine_encode(&path, filter);
    return cay__engine_ask(d->engine, call, "GET", path.data, NULL, out, err);
}

/* By its name, and only what carries our word. */
static bool remove_volume(cay__docker *d, const cay_call *call, const json_t *v)
{
    CAY_AUTOBUF path = CAY__BUF(256);
    const char *name = cay__json_str(v, "Name", "");
    if (!cay__str_starts(name, "cay-") ||
        strcmp(cay__json_str(json_object_get(v, "Labels"), CAY__DOCKER_OWNER, ""), d->owner) != 0)
        return false;
    cay__buf_str(&path, "/volumes/");
    cay__engine_encode(&path, name);
    return cay__engine_ask(d->engine, call, "DELETE", path.data, NULL, NULL, NULL) == 0;
}

void cay__docker_volumes_remove(cay__docker *d, const cay_call *call, const char *id)
{
    CAY_AUTOJSON *j = NULL;
    char mark[64];
    size_t i;
    json_t *v;
    CAY_JOIN(mark, id, "/" MARK);
    if (!d->engine || faccessat(d->boxes, mark, F_OK, AT_SYMLINK_NOFOLLOW) < 0 ||
        cay__docker_labelled(d, call, "/volumes?", id, &j, NULL) < 0)
        return;
    json_array_foreach(json_object_get(j, "Volumes"), i, v) {
        remove_volume(d, call, v);
    }
}

/* Those of sandboxes that are no more: their directory went without them, or the engine was away.
 */
size_t cay__docker_volumes_reap(cay__docker *d, const cay_call *call)
{
    CAY_AUTOJSON *j = NULL;
    size_t i, n = 0;
    json_t *v;
    if (cay__docker_labelled(d, call, "/volumes?", NULL, &j, NULL) < 0)
        return 0;
    json_array_foreach(json_object_get(j, "Volumes"), i, v) {
        const char *id = cay__json_str(json_object_get(v, "Labels"), CAY__DOCKER_SANDBOX, "");
        if (cay__id_valid(id, 'c') && faccessat(d->boxes, id, F_OK, AT_SYMLINK_NOFOLLOW) < 0 &&
            errno == ENOENT)
            n += remove_volume(d, call, v);
    }
    return n;
}
