/* SPDX-License-Identifier: Apache-2.0 */
/* RUN --mount: what each of them means here, and what of it decides the step's key: never what is
 * in a cache, nor a secret's value. */
#include "build.h"

typedef struct words {
    cay__mount_word fn;
    void *arg;
} words;

static int fail_invalid(cay_err *err, const char *what, const char *value)
{
    return cay_fail_why(err, CAY_EINVAL, "build_step", "--mount: %s %.60s", what, value);
}

static int expand_word(const words *w, const char *raw, const char **out, cay_err *err)
{
    *out = NULL;
    if (raw)
        return w->fn(w->arg, raw, out, err);
    return 0;
}

static int expand_flag(const words *w, const char *raw, bool *out, cay_err *err)
{
    const char *v;
    CAY_TRY(expand_word(w, raw, &v, err));
    if (v && !cay__recipe_flag(v, out))
        return fail_invalid(err, "true or false, and not", v);
    return 0;
}

static int expand_number(const words *w, const char *raw, uint32_t *out, cay_err *err)
{
    const char *v;
    uint64_t n = *out;
    CAY_TRY(expand_word(w, raw, &v, err));
    if (v && (!cay__str_to_u64(v, &n) || n > 65535))
        return fail_invalid(err, "uid and gid are numbers up to 65535, and not", v);
    *out = (uint32_t)n;
    return 0;
}

static int target_of(cay__builder *b, const cay__task *t, const words *w, const cay__run_mount *m,
                     const char **out, cay_err *err)
{
    const char *v;
    char path[4200];
    CAY_TRY(expand_word(w, m->target, &v, err));
    if (!v)
        return 0;
    bool here = !strcmp(v, ".") || !strcmp(v, "./");
    if (!*v || strchr(v, '\n') ||
        !CAY_JOIN(path, *v == '/' ? "" : t->cwd,
                  *v == '/' || here || t->cwd[strlen(t->cwd) - 1] == '/' ? "" : "/",
                  CAY_TEXT_IF(!here, v)))
        return fail_invalid(err, "this is no target:", v);
    char *to = path;
    for (const char *s = path; *s; s++)
        if (*s != '/' || s[1] != '/')
            *to++ = *s;
    *to = 0;
    for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
        path[n - 1] = 0;
    *out = cay__arena_str(&b->mem, path);
    return 0;
}

/* bind: as COPY takes it. */
static int plan_bind(cay__builder *b, cay__bstage *st, const words *w, const cay__run_mount *m,
                     cay__bmount *out, cay__sha256 *sum, cay_err *err)
{
    const char *source, **list = cay__arena_take(&b->mem, 3 * sizeof *list);
    cay__step *s = cay__arena_take(&b->mem, sizeof *s);
    out->copy = cay__arena_take(&b->mem, sizeof *out->copy);
    CAY_TRY(expand_word(w, m->source, &source, err));
    if (m->from && (!source || !strcmp(source, "/")))
        return fail_invalid(err, "name a source: nobody wants all files of", m->from);
    list[0] = CAY_OR(source, ".");
    list[1] = out->target;
    *s = (cay__step){ .kind = CAY__STEP_COPY,
                      .words = list,
                      .nwords = 2,
                      .literal = true,
                      .from = m->from,
                      .text = "" };
    *out->copy = (cay__task){ .step = s, .words = list, .user = "root", .cwd = "/", .fetched = -1 };
    out->copy->pick.mem = &b->mem;
    CAY_TRY(cay__plan_copy(b, st, out->copy, sum, err));
    if (out->copy->origin == CAY__FROM_CONTEXT)
        out->dir = out->copy->pick.n != 1 || !out->copy->pick.leaves[0].file;
    return 0;
}

static int plan_mount(cay__builder *b, cay__bstage *st, const cay__task *t, const words *w,
                      const cay__run_mount *m, cay__bmount *out, cay__sha256 *sum, cay_err *err)
{
    const char *mode, *sharing;
    bool ro = m->type == 'b';
    *out = (cay__bmount){ .type = m->type, .lock = -1, .mode = m->type == 's' ? 0400 : 0755 };
    CAY_TRY(target_of(b, t, w, m, &out->target, err));
    CAY_TRY(expand_word(w, m->id, &out->id, err));
    CAY_TRY(expand_word(w, m->env, &out->env, err));
    CAY_TRY(expand_word(w, m->mode, &mode, err));
    CAY_TRY(expand_word(w, m->sharing, &sharing, err));
    CAY_TRY(expand_number(w, m->uid, &out->uid, err));
    CAY_TRY(expand_number(w, m->gid, &out->gid, err));
    CAY_TRY(expand_flag(w, m->required, &out->required, err));
    CAY_TRY(expand_flag(w, m->ro, &ro, err));
    out->rw = !ro;
    CAY_TRY(expand_flag(w, m->rw, &out->rw, err));
    if (mode && !cay__recipe_mode(mode, &out->mode))
        return fail_invalid(err, "a mode is octal digits, and not", mode);
    if (sharing && strcmp(sharing, "shared") && strcmp(sharing, "locked") &&
        strcmp(sharing, "private"))
        return fail_invalid(err, "sharing is shared, locked or private, and not", sharing);
    out->locked = sharing && *sharing != 's';
    if (!out->id && out->target) /* of a cache the whole path, of a secret the last name */
        out->id = m->type == 's' ? strrchr(out->target, '/') + 1 : out->target;
    if (m->type == 's' &&
        (!*out->id || strlen(out->id) > 200 || strchr(out->id, '/') || out->id[0] == '.'))
        return fail_invalid(err, "this is no id of a secret:", out->id);
    if (m->type == 's' && !out->target && !out->env) {
        char path[240];
        CAY_FORMAT(path, "/run/secrets/%.200s", out->id);
        out->target = cay__arena_str(&b->mem, path);
    }
    if (m->type == 's' && out->required && !cay__mount_secret(b, out))
        return cay_fail_why(
            err, CAY_EINVAL, "build_secret",
            "--mount: the secret %.60s is needed: cay template build --secret id=%.60s,src=FILE",
            out->id, out->id);
    char head[64];
    CAY_FORMAT(head, "mount %c %o %u %u %d", out->type, out->mode, out->uid, out->gid, out->rw);
    cay__plan_sum(sum, head);
    cay__plan_sum(sum, out->target);
    cay__plan_sum(sum, out->id);
    cay__plan_sum(sum, out->env);
    if (m->type == 'b')
        return plan_bind(b, st, w, m, out, sum, err);
    return 0;
}

/* One that is below another comes after it. */
static void by_depth(cay__bmount *v, size_t n)
{
    for (size_t i = 1; i < n; i++)
        for (size_t k = i; k && strlen(CAY_TEXT_IF(v[k - 1].target, v[k - 1].target)) >
                                    strlen(CAY_OR(v[k].target, ""));
             k--) {
            cay__bmount x = v[k];
            v[k] = v[k - 1];
            v[k - 1] = x;
        }
}

/* A secret's bytes are below /run/secrets, which is memory; a volume there would keep them. */
static bool holds_secrets(const char *target)
{
    const char *s = target + (cay__str_starts(target, "/var/run") ? 4 : 0);
    return !strcmp(s, "/run") || !strcmp(s, "/run/secrets") || cay__str_starts(s, "/run/secrets/");
}

int cay__lent_plan(cay__builder *b, cay__bstage *st, cay__task *t, cay__mount_word fn, void *arg,
                   cay__sha256 *sum, cay_err *err)
{
    const cay__step *s = t->step;
    const words w = { fn, arg };
    if (!s->nmounts)
        return 0;
    t->mounts = cay__arena_take(&b->mem, s->nmounts * sizeof *t->mounts);
    for (size_t i = 0; i < s->nmounts; i++) {
        t->nmounts = i + 1; /* what one has is freed, however far it came */
        CAY_TRY(plan_mount(b, st, t, &w, &s->mounts[i], &t->mounts[i], sum, err));
    }
    by_depth(t->mounts, t->nmounts);
    bool secret = false;
    CAY_EACH_OF(it, t->mounts, t->nmounts)
        secret |= it->type == 's' && it->target;
    for (size_t i = 0; secret && i < t->nmounts; i++)
        if (t->mounts[i].type != 's' && holds_secrets(t->mounts[i].target))
            return fail_invalid(err, "a step with a secret has nothing else at",
                                t->mounts[i].target);
    for (size_t i = 1; i < t->nmounts; i++)
        CAY_EACH_OF(mount, t->mounts, i)
            if (t->mounts[i].target && mount->target && !strcmp(t->mounts[i].target, mount->target))
                return fail_invalid(err, "two of them have the target", t->mounts[i].target);
    return 0;
}

const cay_build_secret *cay__mount_secret(const cay__builder *b, const cay__bmount *m)
{
    const cay_build_secret *s = NULL;
    if (m->type == 's')
        s = b->spec->secrets;
    while (s && s->id && strcmp(s->id, m->id) != 0)
        s++;
    if (s && s->id)
        return s;
    return NULL;
}
