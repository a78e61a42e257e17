/* SPDX-License-Identifier: Apache-2.0 */
#include "client.h"
#include <base/json.h>
#include <cay/note.h>

#define SPACE_MAX 32
#define KEY_MAX   200
#define VALUE_MAX (64u << 10)

/* The client has notes of its own: these stand apart by a prefix that none of its spaces has. */
static int space_of(const char *space, char out[SPACE_MAX + 8], cay_err *err)
{
    size_t n = 0;
    if (space)
        n = strspn(space, "abcdefghijklmnopqrstuvwxyz0123456789-");
    if (!n || space[n] || n > SPACE_MAX)
        return cay_fail_why(err, CAY_EINVAL, "note_invalid",
                            "a note's space is 1 to %d of a-z, 0-9 and '-'", SPACE_MAX);
    snprintf(out, SPACE_MAX + 8, "note:%s", space);
    return 0;
}

static int key_check(const char *key, cay_err *err)
{
    size_t n = 0;
    if (key)
        n = strlen(key);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)key[i] < 0x20)
            n = 0;
    if (n && n <= KEY_MAX)
        return 0;
    return cay_fail_why(err, CAY_EINVAL, "note_invalid",
                        "a note's key is 1 to %d bytes of text on one line", KEY_MAX);
}

int cay_note_put(cay_client *client, const char *space, const char *key, const char *json,
                 cay_err *err)
{
    char full[SPACE_MAX + 8];
    CAY_AUTOJSON *o = NULL;
    CAY_TRY(space_of(space, full, err));
    CAY_TRY(key_check(key, err));
    if (json && strlen(json) > VALUE_MAX)
        return cay_fail_why(err, CAY_ETOOBIG, "note_invalid", "a note has at most %u bytes",
                            VALUE_MAX);
    if (json)
        CAY_TRY(cay__json_object("note", json, &o, err));
    return CAY__STORE(client, note_put, full, key, json, err);
}

static int copy_note_value(const char *value, void *arg)
{
    *(char **)arg = cay__strdup(value);
    return 0;
}

int cay__note_text(cay_client *client, const char *space, const char *key, char **out, cay_err *err)
{
    return CAY__STORE(client, note_get, space, key, copy_note_value, out, err);
}

int cay_note_get(cay_client *client, const char *space, const char *key, char **json, cay_err *err)
{
    char full[SPACE_MAX + 8];
    CAY_TRY(space_of(space, full, err));
    CAY_TRY(key_check(key, err));
    return cay__note_text(client, full, key, json, err);
}

int cay_note_list(cay_client *client, const char *space, const char *prefix,
                  int (*fn)(const char *key, const char *json, void *arg), void *arg, cay_err *err)
{
    char full[SPACE_MAX + 8];
    CAY_TRY(space_of(space, full, err));
    return CAY__STORE(client, note_list, full, CAY_OR(prefix, ""), fn, arg, err);
}
