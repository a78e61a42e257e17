/* SPDX-License-Identifier: Apache-2.0 */
#include "patch.h"
#include "lines.h"

typedef struct side {
    bool there;
    char *data;
    size_t len;
    unsigned mode;     /* as git has it, 0: it cannot have that */
    const char *unfit; /* why there is no text */
} side;

static bool is_plain_path(const char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < 0x20 || (unsigned char)*s >= 0x7f || *s == '"' || *s == '\\')
            return false;
    return true;
}

void patch_quote(const char *prefix, const char *path, cay__buf *out)
{
    if (is_plain_path(path)) {
        cay__buf_fmt(out, "%s%s", prefix, path);
        return;
    }
    cay__buf_fmt(out, "\"%s", prefix);
    for (const unsigned char *s = (const unsigned char *)path; *s; s++) {
        if (*s == '"' || *s == '\\')
            cay__buf_fmt(out, "\\%c", *s);
        else if (*s == '\n' || *s == '\t')
            cay__buf_fmt(out, "\\%c", *s == '\n' ? 'n' : 't');
        else if (*s < 0x20 || *s >= 0x7f)
            cay__buf_fmt(out, "\\%03o", *s);
        else
            cay__buf_add(out, s, 1);
    }
    cay__buf_str(out, "\"");
}

static void load_link(const entry *e, const char *name, side *s)
{
    s->data = cay__alloc(4096);
    ssize_t n = readlinkat(e->dir, name, s->data, 4096);
    s->len = (size_t)CAY_MAX(n, 0);
    s->mode = 0120000;
}

static void load_file(const entry *e, const char *name, side *s)
{
    struct stat st;
    s->mode = 0100644 | CAY_FLAG_IF(e->st.st_mode & 0100, 0111);
    CAY_AUTOFD fd = cay__file_at(e->dir, name);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || meta_foreign(&st)) {
        s->unfit = "cannot be read";
        return;
    }
    if (st.st_size > (off_t)PATCH_FILE_MAX) {
        s->unfit = "too long for a patch";
        return;
    }
    s->data = cay__alloc((size_t)st.st_size + 1);
    ssize_t n = pread(fd, s->data, (size_t)st.st_size, 0);
    s->len = (size_t)CAY_MAX(n, 0);
    if (lines_binary(s->data, s->len))
        s->unfit = "binary";
}

static side load_side(const entry *e, const char *name)
{
    side s = { .there = e->there && !S_ISDIR(e->st.st_mode) };
    if (!s.there)
        return s;
    if (S_ISLNK(e->st.st_mode))
        load_link(e, name, &s);
    else if (S_ISREG(e->st.st_mode))
        load_file(e, name, &s);
    else
        s.unfit = "no regular file";
    return s;
}

static void name_line(const char *mark, const char *prefix, const char *path, bool there,
                      cay__buf *out)
{
    cay__buf_str(out, mark);
    if (there)
        patch_quote(prefix, path, out);
    else
        cay__buf_str(out, "/dev/null");
    cay__buf_str(out, there && strchr(path, ' ') && is_plain_path(path) ? "\t\n" : "\n");
}

/* One file from a to b, either of which may be missing. */
static void write_file(const side *a, const side *b, const char *from, const char *path,
                       bool renamed, unsigned context, cay__buf *out)
{
    size_t start = out->len;
    cay__buf_str(out, "diff --git ");
    patch_quote("a/", from, out);
    cay__buf_str(out, " ");
    patch_quote("b/", path, out);
    cay__buf_str(out, "\n");
    if (!a->there)
        cay__buf_fmt(out, "new file mode %06o\n", b->mode);
    else if (!b->there)
        cay__buf_fmt(out, "deleted file mode %06o\n", a->mode);
    else if (a->mode != b->mode)
        cay__buf_fmt(out, "old mode %06o\nnew mode %06o\n", a->mode, b->mode);
    if (renamed) {
        cay__buf_str(out, "rename from ");
        patch_quote("", from, out);
        cay__buf_str(out, "\nrename to ");
        patch_quote("", path, out);
        cay__buf_str(out, "\n");
    }
    size_t head = out->len;
    name_line("--- ", "a/", from, a->there, out);
    name_line("+++ ", "b/", path, b->there, out);
    size_t body = out->len;
    lines_diff(CAY_OR(a->data, ""), a->len, CAY_OR(b->data, ""), b->len, context, out);
    if (out->len == body && !out->full)
        out->len = head; /* empty files, modes, renames */
    if (out->len == head && a->there && b->there && a->mode == b->mode && !renamed)
        out->len = start; /* what changed is nothing that git knows */
}

static void write_note(const char *path, const char *why, cay__buf *out)
{
    cay__buf_str(out, "# ");
    patch_quote("", path, out);
    cay__buf_fmt(out, ": %s, left out\n", why);
}

void patch_add(const change *ch, unsigned context, cay__buf *out)
{
    side a = load_side(&ch->a, ch->from_name), b = load_side(&ch->b, ch->name), none = { 0 };
    const char *from;
    if (ch->from && a.there)
        from = ch->from;
    else
        from = ch->path;
    const char *unfit = CAY_OR(a.unfit, b.unfit);
    bool renamed = ch->from && a.there && b.there;
    if (unfit && renamed && a.mode && !(ch->what & CHANGE_CONTENT)) {
        a.len = b.len = 0; /* a name needs no text */
        write_file(&a, &b, from, ch->path, true, context, out);
    } else if (unfit) {
        write_note(ch->path, unfit, out);
    } else if (a.there && b.there &&
               (a.mode & 0170000) != (b.mode & 0170000)) { /* git tells another type as two steps */
        write_file(&a, &none, from, from, false, context, out);
        write_file(&none, &b, ch->path, ch->path, false, context, out);
    } else if (a.there || b.there) {
        write_file(&a, &b, from, ch->path, renamed, context, out);
    }
    free(a.data);
    free(b.data);
}
