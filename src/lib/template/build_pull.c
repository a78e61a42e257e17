/* SPDX-License-Identifier: Apache-2.0 */
/* An image from its registry instead of steps: what comes is told in the log, and everything else
 * is as with a build. */
#include "build.h"

#define SAY_MS 1000

typedef struct getting {
    cay__builder *b;
    int64_t said_ms;
    size_t layer;
    char what[16];
} getting;

/* A line for each layer and each kind of work, and one a second in between. */
static int on_progress(const cay_template_progress *p, void *arg)
{
    getting *g = arg;
    int64_t now = cay__clock_ms();
    bool other = strcmp(g->what, p->what) != 0 || (!p->total && g->layer != p->layer);
    if (!other && now - g->said_ms < SAY_MS)
        return 0;
    g->said_ms = now;
    g->layer = p->layer;
    CAY_COPY(g->what, p->what);
    if (p->total)
        cay__report_say(&g->b->report, CAY_BUILD_OUT, false, "%s %.1f of %.1f MB", p->what,
                        (double)p->done / 1e6, (double)p->total / 1e6);
    else
        cay__report_say(&g->b->report, CAY_BUILD_OUT, false, "%s layer %zu of %zu, %.1f MB",
                        p->what, p->layer, p->layers, (double)p->done / 1e6);
    return 0;
}

int cay__build_get(cay__builder *b, char id[CAY_ID_LEN + 1], cay_err *err)
{
    const cay_build *s = b->spec;
    CAY_AUTOPTR(cay_template) t = NULL;
    getting g = { .b = b };
    b->steps = b->done = b->at = b->report.step = b->report.steps = 1;
    cay__report_set(&b->report, "steps", json_integer(1));
    cay__report_say(&b->report, CAY_BUILD_STEP, false, "pull %s", s->pull);
    cay_template_remote r = { .size = sizeof r,
                              .ref = s->pull,
                              .names = CAY_IF(s->names && s->names[0], s->names),
                              .tenant = s->tenant,
                              .hidden = s->hidden,
                              .platform = s->platform,
                              .progress = on_progress,
                              .arg = &g };
    CAY_TRY(cay_template_pull(b->client, &b->call, &r, &t, err));
    cay__report_say(&b->report, CAY_BUILD_NOTE, false, "%s, %zu layers, %.1f MB", t->digest,
                    t->nlayers, (double)t->bytes / 1e6);
    cay__str_copy(id, CAY_ID_LEN + 1, t->id);
    return 0;
}

/* What a stage or --from stands on: a template, or an image that is not here yet. The registry's
 * rules are those of every pull; the template is the tenant's. */
int cay__build_need(cay__builder *b, const char *name, cay_template **out, cay_err *err)
{
    cay_err e = CAY_ERR_INIT;
    getting g = { .b = b };
    int rc = cay_template_find(b->client, &b->call, b->spec->tenant, name, out, err);
    if (rc != CAY_ENOENT || b->spec->no_pull)
        return rc;
    cay_template_remote r = { .size = sizeof r,
                              .ref = name,
                              .tenant = b->spec->tenant,
                              .hidden = b->spec->hidden,
                              .trusted = b->spec->trusted,
                              .implied = true,
                              .progress = on_progress,
                              .arg = &g };
    cay__report_say(&b->report, CAY_BUILD_NOTE, false, "%.200s is not here: it is pulled", name);
    rc = cay_template_pull(b->client, &b->call, &r, out, &e);
    if (rc == 0) {
        cay__report_say(&b->report, CAY_BUILD_NOTE, false, "%s, %zu layers, %.1f MB",
                        (*out)->digest, (*out)->nlayers, (double)(*out)->bytes / 1e6);
        return 0;
    }
    /* That it is nowhere, or that nobody could be asked, is one answer: there is no such template.
     */
    if (rc == CAY_ENOENT || rc == CAY_EAUTH || rc == CAY_EINVAL ||
        cay_err_is(&e, CAY_REASON_NET_UNREACHABLE))
        return cay_fail_why(err, CAY_ENOENT, "template_not_found",
                            "there is no template %.64s here, and none came: %.150s", name, e.msg);
    return cay__err_pass(rc, &e, err);
}
