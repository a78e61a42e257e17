/* SPDX-License-Identifier: Apache-2.0 */
/* @file: completed while it is typed, put behind the message when it is sent. Files are the
 * sandbox's. */
#include "chat.h"
#include <base/base.h>
#include <base/base64.h>
#include <cay/sandbox.h>

enum { FILE_MOST = 256 << 10, IMAGE_MOST = 10 << 20, FILES = 20 };

static bool is_text(const char *s, size_t n)
{
    for (size_t k; n; s += k, n -= k)
        if (!(k = cay__utf8_len(s, n)) || !*s)
            return false;
    return true;
}

/* Code that has fences of its own gets a longer one around it. */
static void add_file(cay__buf *b, const char *path, const char *data, size_t n)
{
    char fence[16] = "```";
    for (size_t k = 3; strstr(data, fence) && k + 1 < sizeof fence; k++)
        fence[k] = '`';
    cay__buf_fmt(b, "\n\n%s:\n%s\n", path, fence);
    cay__buf_add(b, data, n);
    cay__buf_fmt(b, "%s%s", n && data[n - 1] == '\n' ? "" : "\n", fence);
}

/* By content, as its name may say anything. */
static const char *image_type(const char *s, size_t n)
{
    static const struct {
        const char *head;
        size_t len;
        const char *type;
    } known[] = { { "\x89PNG\r\n\x1a\n", 8, "image/png" },
                  { "\xff\xd8\xff", 3, "image/jpeg" },
                  { "GIF8", 4, "image/gif" } };
    CAY_EACH(it, known)
        if (n > it->len && !memcmp(s, it->head, it->len))
            return it->type;
    if (n > 12 && !memcmp(s, "RIFF", 4) && !memcmp(s + 8, "WEBP", 4))
        return "image/webp";
    return NULL;
}

static json_t *image_part(const char *type, const char *s, size_t n)
{
    CAY_AUTOBUF b = CAY__BUF(2 * n + 64);
    cay__buf_fmt(&b, "data:%s;base64,", type);
    cay__base64_put(&b, s, n);
    return json_pack("{s:s, s:s}", "type", "input_image", "image_url", b.data);
}

/* The name after an @ that begins a word. What ends a sentence is not part of it, unless there is
 * such a file. */
static bool find_file(chat *c, char *path, char **data, size_t *n, cay_err *err)
{
    for (;;) {
        size_t len = strlen(path);
        int rc = CAY_ENOENT;
        if (len)
            rc = cay_file_get(c->sb, NULL, path, IMAGE_MOST, data, n, err);
        if (rc == 0)
            return true;
        if (rc != CAY_ENOENT || !len || !strchr(".,;:!?)", path[len - 1]))
            return false;
        path[len - 1] = 0;
    }
}

char *chat_insert(chat *c, const char *text)
{
    CAY_AUTOBUF b = CAY__BUF(16 << 20);
    CAY_AUTOJSON *images = json_array();
    size_t files = 0;
    if (c->note)
        cay__buf_fmt(&b, "%s\n\n", c->note);
    free(c->note);
    c->note = NULL;
    cay__buf_str(&b, text);
    for (const char *at = strchr(text, '@'); at && files < FILES; at = strchr(at + 1, '@')) {
        size_t len = strcspn(at + 1, " \t\n"), n = 0;
        if ((at != text && !strchr(" \t\n(", at[-1])) || !len)
            continue;
        CAY_AUTOFREE char *path = strndup(at + 1, len), *data = NULL;
        cay_err err = CAY_ERR_INIT;
        bool found = path && find_file(c, path, &data, &n, &err);
        const char *type = NULL;
        if (found)
            type = image_type(data, n);
        files += found;
        if (type)
            json_array_append_new(images, image_part(type, data, n));
        else if ((found && n > FILE_MOST) || err.code == CAY_ETOOBIG)
            chat_text(c, OUT_WARN, "@%s is larger than 256 KiB: only its name is sent", path);
        else if (found && is_text(data, n))
            add_file(&b, path, data, n);
        else if (found)
            chat_text(c, OUT_WARN, "@%s is neither text nor an image: only its name is sent", path);
    }
    CAY_AUTOJSON *items = NULL;
    if (!b.full)
        items =
            json_pack("[{s:s, s:s, s:s}]", "type", "message", "role", "user", "content", b.data);
    if (items && json_array_size(images)) {
        json_array_insert_new(images, 0,
                              json_pack("{s:s, s:s}", "type", "input_text", "text", b.data));
        json_object_set(json_array_get(items, 0), "content", images);
    }
    if (!items)
        chat_text(c, OUT_BAD,
                  b.full ? "cay: the message is larger than 16 MiB"
                         : "cay: the message is no UTF-8 text");
    if (items)
        return cay__json_text(items, 256 << 20);
    return NULL;
}

typedef struct looking {
    const char *dir, *begin;
    void (*add)(void *to, const char *word);
    void *to;
} looking;

static int on_entry(const cay_dirent *ent, void *arg)
{
    looking *l = arg;
    char word[4400];
    if (strncmp(ent->path, l->begin, strlen(l->begin)) || (*ent->path == '.' && *l->begin != '.') ||
        strpbrk(ent->path, " \t\n"))
        return 0;
    if (is_text(ent->path, strlen(ent->path)) &&
        (size_t)CAY_FORMAT(word, "@%s%s%s", l->dir, ent->path, ent->st.type == CAY_DIR ? "/" : "") <
            sizeof word)
        l->add(l->to, word);
    return 0;
}

void chat_complete(void *arg, const char *line, size_t at, const char *word,
                   void (*add)(void *to, const char *word), void *to)
{
    chat *c = arg;
    if (*word == '@') {
        const char *slash = strrchr(word, '/');
        CAY_AUTOFREE char *dir =
            slash ? strndup(word + 1, (size_t)(slash - word)) : cay__strdup("");
        looking l = {
            .dir = CAY_OR(dir, ""), .begin = slash ? slash + 1 : word + 1, .add = add, .to = to
        };
        cay_dir_list(c->sb, NULL, cay__text_or(l.dir, "."), 1, on_entry, &l, NULL);
    } else if (at == 0 && *word == '/') {
        chat_command_names(word, add, to);
    } else if (*line == '/') {
        chat_complete_argument(c, line, word, add, to);
    }
}
