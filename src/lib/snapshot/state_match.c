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
    if (!cay__str_join(one, sizeof one, a, b, c, d, NULL))
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
    for (size_t i = 0; i < s->ngrants; i++) {
        bool found = m && (cay__state_has(m->targets, s->grants[i].target) ||
                           cay__state_has(m->grant_paths, s->grants[i].target));
        for (size_t k = 0; k < w->files.ngrants; k++)
            found |= w->files.grants[k].target &&
                     !strcmp(w->files.grants[k].target, s->grants[i].target) &&
                     (w->files.grants[k].rw || !s->grants[i].rw);
        if (!found)
            add_missing(l, "--mount DIR:", s->grants[i].target, CAY_TEXT_IF(s->grants[i].rw, ":rw"),
                        "");
    }
    for (size_t i = 0; i < s->nvolumes; i++) {
        const cay__state_thing *v = &s->volumes[i];
        bool found = false;
        for (size_t k = 0; k < w->files.nvolumes; k++)
            found |= w->files.volumes[k].name && w->files.volumes[k].target &&
                     !strcmp(w->files.volumes[k].name, v->name) &&
                     !strcmp(w->files.volumes[k].target, v->target) &&
                     (w->files.volumes[k].rw || !v->rw);
        if (!found)
            add_missing(l, "--volume ", v->name, ":", v->target);
    }
}

static void match_names(const cay__state *s, const cay_create *w, list *l)
{
    for (const char *const *p = s->secrets; *p; p++) {
        bool found = false;
        for (size_t k = 0; k < w->net.nsecrets; k++)
            found |= w->net.secrets[k].name && !strcmp(w->net.secrets[k].name, *p);
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
    for (size_t i = 0; i < CAY__LIMITS; i++) {
        const cay__limit *t = &cay__limit_table[i];
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
        cay__str_copy(err->detail, sizeof err->detail, detail.data);
    return CAY_EINVAL;
}
