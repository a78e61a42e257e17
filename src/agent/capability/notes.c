/* SPDX-License-Identifier: Apache-2.0 */
/* The files of one directory to look at: what an agent needs that keeps notes, and nothing that
 * runs. */
#include "memory.h"
#include <agent/patch.h>
#include <agent/run.h>

enum { NAMES = 2000, LINES = 500, SHOWN_BYTES = 128 << 10 };

typedef struct bound {
    cay__kit k;
    const char *dir; /* below the workspace; of the capability */
    cay_tool list, read;
} bound;

static const char list_parameters[] = "{\"type\":\"object\",\"properties\":{}}";
static const char read_parameters[] =
    "{\"type\":\"object\",\"required\":[\"path\"],\"properties\":{"
    "\"path\":{\"type\":\"string\",\"minLength\":1,\"description\":\"As list_files tells it.\"},"
    "\"first\":{\"type\":\"integer\",\"minimum\":1,\"default\":1,\"description\":\"The first line "
    "you want.\"},"
    "\"lines\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":500,\"default\":500}}}";

typedef struct listing {
    const char *dir;
    cay__buf *b;
    size_t n;
} listing;

static int add_name(const cay_dirent *e, void *arg)
{
    listing *l = arg;
    if (e->st.type == CAY_FILE && l->n++ < NAMES)
        cay__buf_fmt(l->b, "%s/%s (%llu bytes)\n", l->dir, e->path, (unsigned long long)e->st.size);
    return 0;
}

static int list_files(void *arg, const cay_tool_call *call, cay_tool_output *out, cay_err *err)
{
    const bound *b = arg;
    CAY_AUTOBUF text = CAY__BUF(4 << 20);
    listing l = { .dir = b->dir, .b = &text };
    CAY_TRY(cay_dir_list(b->k.sb, cay_run_call(call->run), b->k.root, 4, add_name, &l, err));
    if (l.n > NAMES)
        cay__buf_fmt(&text, "and %zu more\n", l.n - NAMES);
    cay_output_text(out, CAY_OR(text.data, ""), text.len);
    return 0;
}

/* Lines first to first + n - 1, and a line that tells where to go on. */
static void put_lines(const char *s, size_t len, int64_t first, int64_t n, cay__buf *b)
{
    int64_t line = 1;
    for (const char *p = s, *end = s + len; p < end; line++) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        size_t k = (size_t)((nl ? nl + 1 : end) - p);
        if (line >= first + n || (line >= first && b->len && b->len + k > SHOWN_BYTES)) {
            cay__buf_fmt(b, "%s(there is more: go on with first %lld)\n",
                         CAY_TEXT_IF(b->len && b->data[b->len - 1] != '\n', "\n"), (long long)line);
            return;
        }
        if (line >= first)
            cay__buf_add(b, p, CAY_MIN(k, (size_t)SHOWN_BYTES));
        if (line >= first && k > SHOWN_BYTES)
            cay__buf_fmt(b, "\n(%zu bytes of this line are left out)\n", k - SHOWN_BYTES);
        p += k;
    }
}

static int read_file(void *arg, const cay_tool_call *call, cay_tool_output *out, cay_err *err)
{
    const bound *b = arg;
    CAY_AUTOJSON *a = NULL;
    CAY_AUTOFREE char *data = NULL;
    CAY_AUTOBUF text = CAY__BUF(4 * SHOWN_BYTES);
    char path[4096];
    size_t len = 0;
    cay_err why = CAY_ERR_INIT;
    const cay_call *c = cay_run_call(call->run);
    CAY_TRY(cay__json_object("its arguments", call->arguments, &a, err));
    int rc = cay__patch_resolve(b->k.sb, c, b->k.root, b->k.cwd, cay__json_str(a, "path", ""), path,
                                &why);
    if (rc == 0)
        rc = cay_file_get(b->k.sb, c, path, 4 * (size_t)CAY__MEMORY_FILE, &data, &len, &why);
    if (rc < 0 && !cay__ends_run(rc)) {
        cay__buf_fmt(&text, "it cannot be read: %s", why.msg);
    } else if (rc < 0) {
        *err = why;
        return rc;
    } else {
        put_lines(data, len, cay__json_int(a, "first", 1), cay__json_int(a, "lines", LINES), &text);
    }
    cay_output_text(out, CAY_OR(text.data, ""), text.len);
    return 0;
}

static int start_capability(void *self, const cay_scope_info *scope, void **out, cay_err *err)
{
    CAY_AUTOBUF root = CAY__BUF(4096);
    cay__buf_fmt(&root, "%s/%s", CAY_TEXT_IF(strcmp(scope->workdir, "/"), scope->workdir),
                 (char *)self);
    if (root.full)
        return cay_fail(err, CAY_ETOOBIG, "the path of the notes is too long");
    bound *b = cay__kit_begin(sizeof *b, scope);
    b->dir = self;
    free(b->k.root);
    b->k.root = CAY_STEAL(root.data);
    b->list = (cay_tool){ .size = sizeof b->list,
                          .name = "list_files",
                          .parameters = list_parameters,
                          .call = list_files,
                          .arg = b,
                          .description = "Names all files of the notes, with their sizes." };
    b->read = (cay_tool){ .size = sizeof b->read,
                          .name = "read_file",
                          .parameters = read_parameters,
                          .call = read_file,
                          .arg = b,
                          .description = "Lines of a file of the notes." };
    b->k.tools[0] = &b->list;
    b->k.tools[1] = &b->read;
    b->k.ntools = 2;
    *out = b;
    return 0;
}

static int write_instructions(void *arg, char **text, cay_err *err)
{
    *text = cay__strdup("## Notes\n- There is no shell. list_files names the notes, read_file "
                        "shows lines of one, apply_patch changes them.");
    return 0;
}

static const cay_capability_ops ops = { .size = sizeof ops,
                                        .name = "notes",
                                        .start = start_capability,
                                        .stop = cay__kit_stop,
                                        .tools = cay__kit_tools,
                                        .instructions = write_instructions,
                                        .close = free };

cay_capability *cay__cap_notes(const char *dir)
{
    return cay_capability_new(&ops, cay__strdup(dir));
}
