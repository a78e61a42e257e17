/* SPDX-License-Identifier: Apache-2.0 */
/* apply_patch and view_image. */
#include "memory.h"
#include <agent/trace.h>
#include <base/json.h>
#include <agent/patch.h>
#include <ctype.h>
#include <strings.h>

enum { IMAGE_MAX = 10 << 20 };

typedef struct filesystem {
    cay_filesystem_options o;
    char below[256]; /* patches stay in this directory of the workspace, and there are no images;
                        "": all of it */
} filesystem;

typedef struct bound {
    cay__kit k;
    const filesystem *fs;
    cay_tool patch, image;
} bound;

static const char grammar[] = "start: begin op+ end\n"
                              "begin: \"*** Begin Patch\" LF\n"
                              "end: \"*** End Patch\" LF?\n"
                              "op: add | delete | update\n"
                              "add: \"*** Add File: \" path LF added+\n"
                              "delete: \"*** Delete File: \" path LF\n"
                              "update: \"*** Update File: \" path LF move? change\n"
                              "move: \"*** Move to: \" path LF\n"
                              "change: (anchor | line)+ eof?\n"
                              "anchor: (\"@@\" | \"@@ \" /(.+)/) LF\n"
                              "line: (\"+\" | \"-\" | \" \") /(.*)/ LF\n"
                              "added: \"+\" /(.*)/ LF\n"
                              "eof: \"*** End of File\" LF\n"
                              "path: /(.+)/\n"
                              "%import common.LF\n";
static const char patch_parameters[] =
    "{\"type\":\"object\",\"required\":[],\"additionalProperties\":true,\"properties\":{"
    "\"patch\":{\"type\":\"string\",\"description\":\"The whole patch, from *** Begin Patch to *** "
    "End Patch.\"},"
    "\"operation\":{\"type\":\"object\"},\"operations\":{\"type\":\"array\",\"items\":{\"type\":"
    "\"object\"}},\"command\":{\"type\":\"array\"},"
    "\"type\":{\"type\":\"string\",\"enum\":[\"create_file\",\"update_file\",\"delete_file\"]},"
    "\"path\":{\"type\":\"string\"},"
    "\"diff\":{\"type\":\"string\"},\"moveTo\":{\"type\":\"string\"}}}";
static const char image_parameters[] =
    "{\"type\":\"object\",\"required\":[\"path\"],\"properties\":{\"path\":{\"type\":\"string\","
    "\"minLength\":1,"
    "\"description\":\"An image file; relative to your working directory.\"}}}";

static const char about[] = "## Files\n"
                            "- Change files with apply_patch. Paths are relative to your working "
                            "directory and stay inside the workspace:\n"
                            "      *** Begin Patch\n"
                            "      *** Update File: src/a.py\n"
                            "      @@ def f():\n"
                            "       a line of context\n"
                            "      -an old line\n"
                            "      +a new line\n"
                            "      *** Add File: b.txt\n"
                            "      +every line of a new file begins with a plus\n"
                            "      *** Delete File: c.txt\n"
                            "      *** End Patch\n"
                            "  Give about three lines of context before and after a change, and @@ "
                            "lines that name the function or class when that is not enough.\n"
                            "  \"*** Move to: PATH\" behind an Update File line renames; \"*** End "
                            "of File\" behind a change binds it to the end.";
static const char about_images[] = "\n- Look at images with view_image.";

static int add_line(const char *line, void *arg)
{
    cay__buf *b = arg;
    cay__buf_fmt(b, "%s%s", CAY_TEXT_IF(b->len, "\n"), line);
    return 0;
}

static int apply_patch(void *arg, const cay_tool_call *call, cay_tool_output *out, cay_err *err)
{
    bound *b = arg;
    CAY_AUTOBUF done = CAY__BUF(1 << 20);
    cay_patch *p = NULL;
    cay_patch_spec spec = { .size = sizeof spec,
                            .root = b->k.root,
                            .cwd = b->k.cwd,
                            .user = b->k.user,
                            .exclusive = b->fs->o.exclusive };
    int rc = cay_patch_parse(call->arguments, &p, err);
    if (rc == 0)
        rc = cay_patch_apply(b->k.sb, cay_run_call(call->run), p, &spec, add_line, &done, err);
    cay_patch_free(p);
    if (cay__ends_run(rc))
        return rc;
    if (rc < 0) /* the model can mend it: told as it is, after what was done before */
        cay__buf_fmt(&done, "%sapply_patch failed: %s", CAY_TEXT_IF(done.len, "\n"), err->msg);
    cay_output_text(out, CAY_OR(done.data, ""), done.len);
    return 0;
}

/* A patch that cannot be read, or leaves the workspace, asks nobody: it only fails. */
static bool patch_asks(void *arg, const cay_tool_call *call)
{
    const bound *b = arg;
    cay_patch *p = NULL;
    char path[4096];
    size_t n = 0, root = strlen(b->k.root);
    bool sound = true, yes = b->fs->o.approval;
    if (cay_patch_parse(call->arguments, &p, NULL) < 0)
        return false;
    CAY_AUTOFREE char **paths = cay__alloc((2 * p->n + 1) * sizeof *paths);
    for (size_t i = 0; i < p->n && sound; i++) {
        const char *both[] = { p->ops[i].path, p->ops[i].move_to };
        for (size_t k = 0; k < 2 && both[k] && sound; k++) {
            sound = cay_patch_path(both[k], b->k.root, b->k.cwd, path, sizeof path, NULL) == 0;
            if (sound)
                paths[n++] = cay__strdup(path + (strcmp(b->k.root, "/") ? root + 1 : 1));
        }
    }
    if (sound && b->fs->o.needs_approval)
        yes = b->fs->o.needs_approval(b->fs->o.arg, (const char *const *)paths, n);
    while (n)
        free(paths[--n]);
    cay_patch_free(p);
    return sound && yes;
}

static bool is_svg(const char *data, size_t len, const char *path)
{
    char head[2049];
    size_t n = 0;
    const char *dot = strrchr(path, '.');
    while (len && isspace((unsigned char)*data))
        data++, len--;
    for (; n < CAY_MIN(len, sizeof head - 1); n++)
        head[n] = (char)tolower((unsigned char)data[n]);
    head[n] = 0;
    if (!strncmp(head, "<svg", 4) || (!strncmp(head, "<?xml", 5) && strstr(head, "<svg")))
        return true;
    return dot && (!strcasecmp(dot, ".svg") || !strcasecmp(dot, ".svgz"));
}

static const char *media_type(const char *d, size_t n, const char *path)
{
    static const struct {
        const char *magic;
        size_t len;
        const char *type;
    } kinds[] = {
        { "\x89PNG\r\n\x1a\n", 8, "image/png" },
        { "\xff\xd8\xff", 3, "image/jpeg" },
        { "GIF87a", 6, "image/gif" },
        { "GIF89a", 6, "image/gif" },
        { "BM", 2, "image/bmp" },
        { "II*\0", 4, "image/tiff" },
        { "MM\0*", 4, "image/tiff" },
    };
    CAY_EACH(kind, kinds)
        if (n >= kind->len && !memcmp(d, kind->magic, kind->len))
            return kind->type;
    if (n >= 12 && !memcmp(d, "RIFF", 4) && !memcmp(d + 8, "WEBP", 4))
        return "image/webp";
    if (is_svg(d, n, path))
        return "image/svg+xml";
    return NULL;
}

/* As one operation of the sandbox, with what it does below it. */
static int read_traced(const bound *b, cay_run *run, const char *path, cay__buf *data, cay_err *err)
{
    cay_call call = cay__call_copy(cay_run_call(run));
    cay__span *span = cay__span_sandbox(run, "view_image");
    cay__span_content(span, "path", path);
    if (b->k.user)
        cay__span_data(span, "run_as", json_string(b->k.user));
    cay__span_call(span, &call);
    const cay_read spec = { .size = sizeof spec, .length = IMAGE_MAX + 1, .user = b->k.user };
    int rc = cay__slurp(b->k.sb, &call, path, &spec, path, data, err);
    return cay__span_close(span, rc, err);
}

static int view_image(void *arg, const cay_tool_call *call, cay_tool_output *out, cay_err *err)
{
    bound *b = arg;
    CAY_AUTOJSON *a = NULL;
    CAY_AUTOBUF data = CAY__BUF(IMAGE_MAX + 131072);
    char whole[4096];
    cay_err why = CAY_ERR_INIT;
    CAY_TRY(cay__json_object("its arguments", call->arguments, &a, err));
    const char *path = cay__json_str(a, "path", "");
    if (cay_patch_path(path, b->k.root, b->k.cwd, whole, sizeof whole, &why) < 0)
        return cay__tool_say(out, "image path `%.200s` is outside the workspace", path);
    int rc = read_traced(b, call->run, whole, &data, &why);
    if (cay__ends_run(rc)) {
        *err = why;
        return rc;
    }
    if (rc == CAY_ENOENT)
        return cay__tool_say(out, "image path `%.200s` was not found", path);
    if (rc < 0)
        return cay__tool_say(out, "image path `%.200s` cannot be read (%s): %s", path,
                             cay_code_name(rc), why.msg);
    if (data.len > IMAGE_MAX)
        return cay__tool_say(out, "image path `%.200s` is larger than 10MB", path);
    const char *type = CAY_IF(data.len, media_type(data.data, data.len, path));
    if (!type)
        return cay__tool_say(out, "image path `%.200s` is not a supported image file", path);
    cay_output_image(out, type, data.data, data.len);
    return 0;
}

static int start_capability(void *self, const cay_scope_info *scope, void **out, cay_err *err)
{
    bound *b = cay__kit_begin(sizeof *b, scope);
    b->fs = self;
    if (*b->fs->below) {
        CAY_AUTOFREE char *whole = CAY_STEAL(b->k.root);
        cay__buf root = CAY__BUF(8192);
        cay__buf_fmt(&root, "%s/%s", CAY_TEXT_IF(strcmp(whole, "/"), whole), b->fs->below);
        b->k.root = root.data;
    }
    b->patch = (cay_tool){ .size = sizeof b->patch,
                           .name = "apply_patch",
                           .grammar = grammar,
                           .parameters = patch_parameters,
                           .call = apply_patch,
                           .arg = b,
                           .needs_approval = patch_asks,
                           .description = "Adds, changes, moves and deletes files by a patch. It "
                                          "is a free-form tool: do not wrap the patch in JSON." };
    if (!cay_model_kind(scope->model)->custom_tools)
        b->patch.description =
            "Adds, changes, moves and deletes files: give the whole patch as text in \"patch\".";
    b->image = (cay_tool){ .size = sizeof b->image,
                           .name = "view_image",
                           .parameters = image_parameters,
                           .call = view_image,
                           .arg = b,
                           .beside = true,
                           .description = "Shows you an image of the sandbox: PNG, JPEG, GIF, "
                                          "WebP, BMP, TIFF or SVG, at most 10 MiB." };
    if (!*b->fs->below)
        b->k.tools[b->k.ntools++] = &b->image;
    b->k.tools[b->k.ntools++] = &b->patch;
    *out = b;
    return 0;
}

static int write_instructions(void *arg, char **text, cay_err *err)
{
    const bound *b = arg;
    cay__buf all = CAY__BUF(8192);
    cay__buf_fmt(&all, "%s%s", about, *b->fs->below ? "" : about_images);
    *text = all.data;
    return 0;
}

static const cay_capability_ops ops = { .size = sizeof ops,
                                        .name = "filesystem",
                                        .start = start_capability,
                                        .stop = cay__kit_stop,
                                        .tools = cay__kit_tools,
                                        .instructions = write_instructions,
                                        .close = free };

cay_capability *cay_cap_filesystem(const cay_filesystem_options *o)
{
    filesystem *f = cay__alloc(sizeof *f);
    if (cay__spec_take(&f->o, sizeof f->o, o, "cay_filesystem_options", NULL) == 0)
        return cay_capability_new(&ops, f);
    free(f);
    return NULL;
}

cay_capability *cay__cap_patch_below(const char *dir)
{
    filesystem *f = cay__alloc(sizeof *f);
    CAY_COPY(f->below, dir);
    return cay_capability_new(&ops, f);
}
