/* SPDX-License-Identifier: Apache-2.0 */
/* What a state leaves out, against what whoever resumes gives. All that is missing is told at once.
 */
#include "state.h"
#include <base/base.h>
#include <cay/volume.h>
#include <lib/sandbox/limits.h>

typedef struct list {
    cay__buf text, detail;
} list;

static void add_missing(list *l, const char *a, const char *b, const char *c, const char *d)
{
    char one[400];
    if (!CAY_JOIN(one, a, b, c, d))
        return;
    size_t n = strlen(one);
    if (l->text.len + n + 4 < l->text.max)
        cay__buf_fmt(&l->text, "%s%s", CAY_TEXT_IF(l->text.len, ", "), one);
    CAY_AUTOBUF quoted = CAY__BUF(800);
    cay__buf_json(&quoted, one, n);
    if (!quoted.full && l->detail.len + quoted.len + 4 < l->detail.max)
        cay__buf_fmt(&l->detail, "%s%s", l->detail.len ? "," : "{\"missing\":[", quoted.data);
}

static void match_grants(const cay__state *s, const cay_create *w, const cay__state_manifest *m,
                         list *l)
{
    CAY_EACH_OF(it, s->grants, s->ngrants) {
        bool found = m && (cay__state_has(m->targets, it->target) ||
                           cay__state_has(m->grant_paths, it->target));
        CAY_EACH_OF(grant, w->files.grants, w->files.ngrants)
            found |= grant->target && !strcmp(grant->target, it->target) && (grant->rw || !it->rw);
        if (!found)
            add_missing(l, "--mount DIR:", it->target, CAY_TEXT_IF(it->rw, ":rw"), "");
    }
    CAY_EACH_OF(v, s->volumes, s->nvolumes) {
        bool found = false;
        CAY_EACH_OF(volume, w->files.volumes, w->files.nvolumes)
            found |= volume->name && volume->target && !strcmp(volume->name, v->name) &&
                     !strcmp(volume->target, v->target) && (volume->rw || !v->rw);
        if (!found)
            add_missing(l, "--volume ", v->name, ":", v->target);
    }
}

static void match_names(const cay__state *s, const cay_create *w, list *l)
{
    for (const char *const *p = s->secrets; *p; p++) {
        bool found = false;
        CAY_EACH_OF(secret, w->net.secrets, w->net.nsecrets)
            found |= secret->name && !strcmp(secret->name, *p);
        if (!found)
            add_missing(l, "--secret ", *p, "=SOURCE@DESTINATION", "");
    }
    for (const char *const *p = s->variables; *p && !w->manifest.text; p++) {
        bool found = false;
        for (const cay_pair *e = w->process.env; e && e->key; e++)
            found |= !strcmp(e->key, *p);
        if (!found)
            add_missing(l, "--env ", *p, "=VALUE", "");
    }
    for (const char *const *p = s->entries; *p && !w->manifest.text; p++)
        add_missing(l, "--manifest FILE with the ephemeral entry ", *p, "", "");
}

/* A state asks for no more than anybody gets unasked. */
static void match_limits(const cay__state *s, const cay_create *w, list *l)
{
    CAY_EACH_OF(t, cay__limit_table, CAY__LIMITS) {
        uint64_t asked =
            *(const uint64_t *)(const void *)((const char *)&s->spec->create.limits + t->at);
        uint64_t given = *(const uint64_t *)(const void *)((const char *)&w->limits + t->at);
        char n[24];
        if (asked > t->normal && given < asked)
            add_missing(l, "the limit ", t->name, " beyond its default: ",
                        asked == CAY_UNLIMITED ? "unlimited" : cay__str_u64(n, asked));
    }
}

/* As daemon/init/user.c reads it: a name or a number. */
static bool is_root(const char *user)
{
    return user && (!strcmp(user, "root") || (*user && !user[strspn(user, "0")]));
}

int cay__state_match(const cay__state *s, const cay_create *with, const cay__state_manifest *given,
                     cay_err *err)
{
    static const cay_create nothing = { .size = sizeof nothing };
    const cay_create *w = CAY_OR(with, &nothing);
    CAY_AUTOBUF text = CAY__BUF(200), detail = CAY__BUF(sizeof err->detail - 4);
    list l = { .text = text, .detail = detail };
    if (s->root && !w->from.root)
        add_missing(&l, "--root DIR", "", "", "");
    if (s->network && !w->net.policy && !(given && given->policy))
        add_missing(&l, "--net RULES", "", "", "");
    if (is_root(s->spec->create.process.user) && !w->process.user)
        add_missing(&l, "--user root", "", "", "");
    if (s->mounts && !w->manifest.text)
        add_missing(&l, "--manifest FILE with its mounts", "", "", "");
    match_grants(s, w, given, &l);
    match_names(s, w, &l);
    match_limits(s, w, &l);
    text = l.text;
    detail = l.detail;
    if (!text.len && !detail.len)
        return 0;
    cay_fail_why(err, CAY_EINVAL, "state_incomplete",
                 "the state leaves out what gives rights; give again: %s",
                 CAY_OR(text.data, "see the details"));
    cay__buf_str(&detail, "]}");
    if (err && !detail.full)
        CAY_COPY(err->detail, detail.data);
    return CAY_EINVAL;
}
