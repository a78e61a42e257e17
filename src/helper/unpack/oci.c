/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whiteouts of an image's layer: ".wh.NAME" removes NAME of the layers below, ".wh..wh..opq" hides
 * all that they have in its directory. They may come before or after what the layer itself has
 * under that name, which stays; so they are told when all is known.
 */
#include "unpack.h"

#define MARK   ".wh."
#define OPAQUE ".wh..wh..opq"

static void record_whiteout(unpack *u, char how, const char *dir, size_t dir_len, const char *name)
{
    size_t n = strlen(name), need = dir_len + 1 + n + 2;
    if (u->gone_len + need > u->gone_cap) {
        u->gone_cap = CAY_MAX(2 * u->gone_cap, u->gone_len + need + 4096);
        u->gone = realloc(u->gone, u->gone_cap);
        if (!u->gone)
            abort();
    }
    char *p = u->gone + u->gone_len;
    *p++ = how;
    memcpy(p, dir, dir_len);
    p += dir_len;
    if (dir_len && n)
        *p++ = '/';
    memcpy(p, name, n + 1);
    u->gone_len = (size_t)(p + n + 1 - u->gone);
}

int whiteout(unpack *u, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t dir = 0;
    if (slash)
        dir = (size_t)(slash - path);
    if (strncmp(name, MARK, strlen(MARK)))
        return 0;
    CAY_TRY(count_member(u, path));
    if (!strcmp(name, OPAQUE)) {
        record_whiteout(u, 'o', path, dir, "");
        return 1;
    }
    if (!strncmp(name, MARK MARK, 2 * strlen(MARK)))
        return 1; /* aufs's own notes */
    name += strlen(MARK);
    if (!*name || !strcmp(name, ".") || !strcmp(name, ".."))
        return fail(u, path, "archive_path", "a whiteout of nothing");
    record_whiteout(u, 'w', path, dir, name);
    return 1;
}

static int emit_opaque(unpack *u, const char *path)
{
    char kind = CAY__ITEM_DIR;
    if (*path)
        kind = name_kind(u, path);
    if (!*path) {
        put_note(u, "opaque-root", "y", 1);
        return 0;
    }
    if (kind && kind != CAY__ITEM_DIR)
        return fail(u, path, "archive_link",
                    "is marked as a directory that hides others, and is none");
    if (!kind) {
        CAY_TRY(name_add(u, path, CAY__ITEM_DIR));
        cay__item_put(&u->out, &(cay__item){ .type = CAY__ITEM_DIR,
                                             .flags = CAY__ITEM_IMPLIED,
                                             .mode = 0755,
                                             .path = path });
    }
    u->items++;
    cay__item_put(&u->out,
                  &(cay__item){ .type = CAY__ITEM_GONE, .flags = CAY__ITEM_OPAQUE, .path = path });
    return 0;
}

static int emit_removal(unpack *u, const char *path)
{
    char kind = name_kind(u, path);
    if (kind == CAY__ITEM_DIR) /* removed and made again: nothing of the old one shows */
        return emit_opaque(u, path);
    if (kind)
        return 0;
    CAY_TRY(name_add(u, path, CAY__ITEM_GONE));
    cay__item_put(&u->out, &(cay__item){ .type = CAY__ITEM_GONE, .path = path });
    return 0;
}

/* Directories that hide all below first: where they do, a single removal says nothing more. */
int whiteouts_tell(unpack *u)
{
    for (const char *kind = "ow"; *kind; kind++)
        for (size_t at = 0; at < u->gone_len; at += strlen(u->gone + at) + 1)
            if (u->gone[at] == *kind &&
                (*kind == 'o' ? emit_opaque : emit_removal)(u, u->gone + at + 1) < 0)
                return -1;
    return 0;
}
