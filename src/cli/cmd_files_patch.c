/* SPDX-License-Identifier: Apache-2.0 */
/* cay files patch: what an agent's apply_patch does, by hand. */
#include "files.h"
#include "main.h"
#include <base/base.h>
#include <cay/patch.h>

typedef struct patch_args {
    bool dry, exclusive;
} patch_args;

static const opt_def defs[] = {
    OPT_FLAG("-n, --dry-run", "only tell whether it would apply", patch_args, dry),
    OPT_FLAG("--exclusive", "an added file may not be there already", patch_args, exclusive),
    OPT_END
};

static int read_patch(const char *path, char **out, cay_err *err)
{
    CAY_AUTOFD own = -1;
    if (strcmp(path, "-"))
        own = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    int fd = 0;
    if (strcmp(path, "-"))
        fd = own;
    cay__buf b = CAY__BUF(CAY_PATCH_MAX);
    if (fd < 0)
        return cay_fail_sys(err, "%s", path);
    for (ssize_t n = 1; n > 0;) {
        char *room = cay__buf_room(&b, 65536);
        if (room)
            n = read(fd, room, 65536);
        else
            n = -1;
        if (n > 0)
            cay__buf_used(&b, (size_t)n);
        else if (n < 0) {
            int rc;
            if (room)
                rc = cay_fail_sys(err, "%s", path);
            else
                rc = cay_fail(err, CAY_ETOOBIG, "%s is larger than 64 MiB", path);
            cay__buf_clear(&b);
            return rc;
        }
    }
    cay__buf_str(&b, "");
    *out = b.data;
    return 0;
}

static int on_patch_line(const char *line, void *arg)
{
    out_json *j = arg;
    if (cli.json)
        js_str(j, line);
    else
        out_safe("%s\n", line);
    return 0;
}

static int files_patch(cli_call *c, cay_err *err)
{
    const patch_args *a = c->opts;
    CAY_AUTOFREE char *text = NULL;
    cay_patch *p = NULL;
    out_json j = OUT_JSON(true);
    cay_patch_spec spec = { .size = sizeof spec, .dry = a->dry, .exclusive = a->exclusive };
    CAY_TRY(read_patch(c->argv[1], &text, err));
    CAY_TRY(cay_patch_parse(text, &p, err));
    js_open(&j, '[');
    int rc = cay_patch_apply(c->sb, NULL, p, &spec, on_patch_line, &j, err);
    js_close(&j, ']');
    if (cli.json && rc >= 0)
        js_flush(&j);
    cay__buf_clear(&j.b);
    cay_patch_free(p);
    return rc;
}

const cli_verb cli_files_patch = {
    "files patch",
    "[-n] ID FILE",
    "apply a patch as agents write them (*** Begin Patch …)",
    .text = "FILE is on your side, - is standard input. Files are added, changed, moved and "
            "deleted by context, without line\n"
            "numbers; paths stay below the working directory. Every path is checked before the "
            "first change.",
    .examples = "  cay files patch c7f fix.patch\n"
                "  cay files patch -n c7f - < fix.patch     # would it apply?",
    CLI_OPTS(defs, patch_args),
    .min = 2,
    .needs = CLI_PATHS,
    .fn = files_patch,
};
