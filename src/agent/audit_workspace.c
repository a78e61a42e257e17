/* SPDX-License-Identifier: Apache-2.0 */
/* Events as lines of a file in the sandbox that they are about. */
#include "audit.h"

enum { EARLY_MAX = 1 << 20 };

typedef struct inside {
    cay__buf early; /* lines of a run that has no sandbox yet */
} inside;

static int append_text(cay_sandbox *sb, const char *path, const char *text, size_t len,
                       cay_err *err)
{
    cay_write w = { .size = sizeof w, .parents = true, .append = true };
    int rc = cay_file_put(sb, NULL, path, text, len, &w,
                          err); /* not by the run's call: that would be an event again */
    if (rc != CAY_ENOENT)
        return rc;
    w.append = false;
    return cay_file_put(sb, NULL, path, text, len, &w, err);
}

static int write_inside(void *self, cay_run *r, const char *json, cay_err *err)
{
    inside *i = self;
    char path[1200];
    cay__buf_fmt(&i->early, "%s\n", json);
    if (i->early.full) {
        cay__buf_clear(&i->early);
        i->early = (cay__buf)CAY__BUF(EARLY_MAX);
        return cay_fail(err, CAY_ETOOBIG, "more than 1 MiB of events wait for a sandbox");
    }
    if (!r->seat || !r->seat->sb || !*r->seat->workdir)
        return 0;
    CAY_FORMAT(path, "%s/logs/events-%s.jsonl", r->seat->workdir, cay_sandbox_id(r->seat->sb));
    CAY_TRY(append_text(r->seat->sb, path, i->early.data, i->early.len, err));
    i->early.len = 0;
    return 0;
}

static int write_nowhere(void *self, const char *json, cay_err *err)
{
    return 0;
}

static void close_inside(void *self)
{
    inside *i = self;
    cay__buf_clear(&i->early);
    free(i);
}

static const cay_audit_sink_ops sink = { .size = sizeof sink,
                                         .write = write_nowhere,
                                         .close = close_inside };

cay_audit_sink *cay_audit_sink_workspace(bool strict)
{
    inside *i = cay__alloc(sizeof *i);
    i->early = (cay__buf)CAY__BUF(EARLY_MAX);
    cay_audit_sink *a = cay_audit_sink_new(&sink, i, strict);
    a->inside = write_inside;
    return a;
}
