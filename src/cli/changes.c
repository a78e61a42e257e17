/* SPDX-License-Identifier: Apache-2.0 */
#include "show.h"
#include <base/base.h>

static out_style style_of(char kind)
{
    if (kind == 'A')
        return OUT_GOOD;
    if (kind == 'D')
        return OUT_BAD;
    if (kind == 'M')
        return OUT_WARN;
    return OUT_BOLD;
}

void change_print(const cay_file_change *c, const char *prefix)
{
    const char *slash = "";
    if (S_ISDIR(CAY_OR(c->new_mode, c->old_mode)))
        slash = "/";
    out_fmt("%s%c%s ", out_on(1, style_of(c->kind)), c->kind, out_off(1));
    if (c->kind == 'R')
        out_safe("%s%s%s -> ", prefix, c->from, slash);
    out_safe("%s%s%s", prefix, c->path, slash);
    if (c->kind == 'M' && !c->content && c->mode)
        out_fmt("  (mode %04o -> %04o)", c->old_mode & 07777, c->new_mode & 07777);
    else if (c->kind == 'M' && !c->content && c->owner)
        out_str("  (owner)");
    out_str("\n");
}

static const char *type_of(uint32_t mode)
{
    if (S_ISDIR(mode))
        return "dir";
    if (S_ISREG(mode))
        return "file";
    if (S_ISLNK(mode))
        return "symlink";
    return "other";
}

static bool is_utf8(const char *s)
{
    for (size_t n = strlen(s), k; n; s += k, n -= k)
        if (!(k = cay__utf8_len(s, n)))
            return false;
    return true;
}

/* A name that is no text is told a second time, so that it can be found. */
static void path_json(out_json *j, const char *key, const char *path)
{
    js_member(j, key, path);
    if (is_utf8(path))
        return;
    CAY_AUTOBUF hex = CAY__BUF(2u << 20);
    cay__buf_hex(&hex, path, strlen(path));
    CAY_AUTOBUF name = CAY__BUF(64);
    cay__buf_fmt(&name, "%s_hex", key);
    js_member(j, name.data, hex.data);
}

static void side_json(out_json *j, const char *key, uint32_t mode, uint64_t size)
{
    char text[16];
    js_key(j, key);
    CAY_FORMAT(text, "%04o", mode & 07777);
    if (mode)
        js_object(j, "type:%s, mode:%s, size:%ju", type_of(mode), text, size);
    else
        js_raw(j, "null");
}

void change_json(out_json *j, const cay_file_change *c, bool patch, const char *result)
{
    char kind[2] = { c->kind, 0 };
    js_open(j, '{');
    js_put(j, "kind:%s", kind);
    path_json(j, "path", c->path);
    if (*c->from)
        path_json(j, "from", c->from);
    side_json(j, "old", c->old_mode, c->old_size);
    side_json(j, "new", c->new_mode, c->new_size);
    if (c->kind == 'M') {
        js_put(j, "content?%d, mode?%d, owner?%d", c->content, c->mode, c->owner);
    }
    if (patch && c->text) {
        js_key(j, "patch");
        js_bytes(j, c->text, c->text_len);
    }
    js_put(j, "+result:%s", result);
    js_close(j, '}');
}
