/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of a manifest, kept for as long as a record or snapshot names it by its key. Space
 * "manifest" has
 *
 *     {"trusted":true,"base":"/x","manifest":{…}}
 *       the canonical form, without what is secret
 *     {"trusted":true,"base":"/x","manifest":{…},"bytes":10485760}
 *       the same without its files; they are in manifests/KEY, as they were given
 *
 * The second is for texts of megabytes that hold nothing secret or passing: a start or snapshot,
 * which asks only for what is passing, does not read them, and who asks for all of it still gets
 * it. Whoever keeps a text holds the directory's lock, shared, until the note is there and no
 * sweep's mark on it; whoever sweeps has it alone.
 */
#include <lib/snapshot/archive.h>
#include "client_manifest.h"
#include <base/fault.h>
#include <sys/file.h>

#define DIR_NAME "manifests"

static int on_ignored_note(const char *value, void *arg)
{
    return 0;
}

static bool has_manifest(cay_client *client, const char *key)
{
    return CAY__STORE(client, note_get, CAY__NOTE_MANIFEST, key, on_ignored_note, NULL, NULL) == 0;
}

/* 95 bits of what tells it apart. */
static const char *key_of(const char *hex, cay__arena *mem)
{
    char *id = cay__arena_take(mem, CAY_ID_LEN + 1);
    id[0] = 't';
    for (int i = 1; i < CAY_ID_LEN; i++)
        id[i] = "abcdefghijklmnopqrstuvwxyz234567"
            [strtoul((char[]){ hex[2 * i], hex[2 * i + 1], 0 }, NULL, 16) & 31];
    return id;
}

static json_t *note_of(const cay__mani *f, json_t *manifest)
{
    json_t *o = json_pack("{s:b,s:o}", "trusted", f->trusted, "manifest", manifest);
    if (f->base)
        json_object_set_new(o, "base", cay__json_bytes(f->base));
    return o;
}

static int open_dir(const cay_client *client, int how, int *out, cay_err *err)
{
    CAY_AUTOFD dir =
        openat(client->home_fd, DIR_NAME, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0 || flock(dir, how) < 0)
        return cay_fail_sys(err, "open %s/ in the state directory", DIR_NAME);
    *out = CAY_STEAL_FD(dir);
    return 0;
}

/* A sweep's mark was about its former life: whoever is about to be recorded with it has all the
 * time of a new one. */
static int take_up(cay_client *client, const char *key, int *dir, cay_err *err)
{
    if (mkdirat(client->home_fd, DIR_NAME, 0700) < 0 && errno != EEXIST)
        return cay_fail_sys(err, "make %s/ in the state directory", DIR_NAME);
    CAY_TRY(open_dir(client, LOCK_SH, dir, err));
    if (CAY__STORE(client, note_get, CAY__NOTE_UNUSED, key, on_ignored_note, NULL, NULL) ==
        CAY_ENOENT)
        return 0;
    return CAY__STORE(client, note_put, CAY__NOTE_UNUSED, key, NULL, err);
}

static int put_file(int dir, const char *key, const char *text, size_t len, cay_err *err)
{
    CAY_AUTOFD file = openat(dir, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    if (file < 0 || !cay__fd_write_all(file, text, len))
        return cay_fail_sys(err, "keep the manifest's text");
    return cay__path_put(dir, key, file, err);
}

static int put_large(cay_client *client, const cay__mani *f, const char *given, cay__arena *mem,
                     const char **key, cay_err *err)
{
    CAY_AUTOBUF what = CAY__BUF(8192);
    CAY_AUTOFD dir = -1;
    char hex[CAY__SEEN_KEY];
    size_t len = strlen(given);
    cay__buf_fmt(&what, "%s %d %s", f->print, f->trusted, CAY_OR(f->base, ""));
    cay__sha256_hex(what.data, what.len, hex);
    *key = key_of(hex, mem);
    CAY_TRY(take_up(client, *key, &dir, err));
    if (has_manifest(client, *key))
        return 0;
    CAY_AUTOJSON *o = note_of(f, cay__manifest_brief(f->m));
    json_object_set_new(o, "bytes", json_integer((json_int_t)len));
    CAY_AUTOFREE char *note = cay__json_text(o, 4 * (size_t)CAY_MANIFEST_BYTES);
    if (!note)
        return cay_fail_why(err, CAY_ETOOBIG, "manifest_too_big", "manifest: its text is too long");
    CAY_TRY(put_file(dir, *key, given, len, err));
    CAY_FAULT("manifest.text");
    return CAY__STORE(client, note_put, CAY__NOTE_MANIFEST, *key, note, err);
}

int cay__kept_put(cay_client *client, const cay__mani *f, const char *given, cay__arena *mem,
                  const char **key, cay_err *err)
{
    CAY_AUTOFD dir = -1;
    char hex[CAY__SEEN_KEY];
    if (given && f->print[0] && cay__mani_text_alone(f->m))
        return put_large(client, f, given, mem, key, err);
    CAY_AUTOJSON *o = note_of(f, cay__manifest_kept(f->m));
    CAY_AUTOFREE char *text = cay__json_text(o, 4 * (size_t)CAY_MANIFEST_BYTES);
    if (!text)
        return cay_fail_why(err, CAY_ETOOBIG, "manifest_too_big", "manifest: its text is too long");
    cay__sha256_hex(text, strlen(text), hex);
    *key = key_of(hex, mem);
    CAY_TRY(take_up(client, *key, &dir, err));
    if (has_manifest(client, *key))
        return 0;
    return CAY__STORE(client, note_put, CAY__NOTE_MANIFEST, *key, text, err);
}

static int fail_missing(const char *key, cay_err *err)
{
    return cay_fail_why(err, CAY_ENOENT, "manifest_missing",
                        "the manifest %s of this sandbox is not kept any more", key);
}

static int read_file(cay_client *client, const char *key, size_t bytes, char **out, cay_err *err)
{
    char path[64];
    struct stat st;
    CAY_JOIN(path, DIR_NAME "/", key);
    CAY_AUTOFD file = openat(client->home_fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0 || fstat(file, &st) < 0 || (size_t)st.st_size != bytes ||
        bytes > CAY_MANIFEST_BYTES)
        return fail_missing(key, err);
    CAY_AUTOFREE char *text = cay__alloc(bytes + 1);
    if (cay__fd_read_all(file, text, bytes) != (ssize_t)bytes)
        return fail_missing(key, err);
    *out = CAY_STEAL(text);
    return 0;
}

int cay__kept_get(cay_client *client, const char *key, bool brief, cay__arena *mem, cay__mani *f,
                  cay_err *err)
{
    CAY_AUTOFREE char *note = NULL, *text = NULL;
    CAY_AUTOJSON *o = NULL;
    int rc = cay__note_text(client, CAY__NOTE_MANIFEST, key, &note, err);
    if (rc < 0) {
        if (rc == CAY_ENOENT)
            return fail_missing(key, err);
        return rc;
    }
    CAY_TRY(cay__json_object("record: manifest", note, &o, err));
    char *base = cay__json_to_bytes(json_object_get(o, "base"));
    f->base = CAY_IF(base, cay__arena_adopt(mem, base));
    f->trusted = cay__json_bool(o, "trusted", false);
    int64_t bytes = cay__json_int(o, "bytes", 0);
    if (bytes > 0 && !brief)
        CAY_TRY(read_file(client, key, (size_t)bytes, &text, err));
    else
        text = cay__json_text(json_object_get(o, "manifest"), 4 * (size_t)CAY_MANIFEST_BYTES);
    return cay_manifest_parse(CAY_OR(text, ""), strlen(CAY_OR(text, "")),
                              CAY_FLAG_IF(f->trusted, CAY_MANIFEST_TRUSTED), &f->m, err);
}

int cay__kept_alone(cay_client *client, int *dir)
{
    cay_err why = CAY_ERR_INIT;
    int rc = open_dir(client, LOCK_EX | LOCK_NB, dir, &why);
    if (why.sys == ENOENT)
        return 0;
    return rc; /* no such text was ever kept */
}

void cay__kept_drop(cay_client *client, int dir, const char *key)
{
    CAY__STORE(client, note_put, CAY__NOTE_MANIFEST, key, NULL, NULL);
    if (dir >= 0)
        unlinkat(dir, key, 0);
}

/* Files whose writer died before the note. Nobody writes one now. */
void cay__kept_strays(cay_client *client, int dir)
{
    CAY_AUTODIR *d = NULL;
    if (dir >= 0)
        d = cay__dir_open(dir, NULL);
    for (struct dirent *e; d && (e = cay__dir_next(d));)
        if (!(cay__id_valid(e->d_name, 't') && has_manifest(client, e->d_name)))
            unlinkat(dir, e->d_name, 0);
}
