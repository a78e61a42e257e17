/* SPDX-License-Identifier: Apache-2.0 */
/* A Dockerfile: its steps are whole, and each word of them can be expanded or is refused. */
#include <base/base.h>
#include <lib/template/recipe.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static const char *get(const char *name, void *arg)
{
    (void)arg;
    return *name == 'A' ? "alpha" : *name == 'E' ? "" : NULL;
}

static void look(const cay__recipe *r, const cay__step *s)
{
    must(s->line && s->text && s->words && !s->words[s->nwords] && cay__step_name(s->kind));
    must(s->nmounts <= CAY__RECIPE_MOUNTS && (s->mounts != NULL) == (s->nmounts > 0));
    for (size_t i = 0; i < s->nmounts; i++) {
        const cay__run_mount *m = &s->mounts[i];
        must(m->type && strchr("bcst", m->type) && (m->target || (m->type == 's' && m->id)) &&
             (!m->from || m->type == 'b'));
        must(!m->target || *m->target);
    }
    for (size_t i = 0; i < s->nwords; i++) {
        CAY_AUTOFREE char *out = NULL;
        must(s->words[i] != NULL);
        if (!s->literal)
            must((cay__recipe_expand(s->words[i], r->escape, get, NULL, &out, NULL) == 0) ==
                 (out != NULL));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    cay__recipe r;
    cay_err err = CAY_ERR_INIT;
    char *exact = malloc(len ? len : 1); /* so that a byte too far is seen */
    must(exact != NULL);
    memcpy(exact, data, len);
    int rc = cay__dockerfile_read(&r, "Dockerfile", exact, len, &err);
    free(exact);
    must((rc == 0) == !*err.msg && (rc == 0) == (r.stages != NULL));
    size_t n = 0;
    for (size_t i = 0; i < r.nstages; i++) {
        must(r.stages[i].first == n && r.stages[i].from && *r.stages[i].from);
        n += r.stages[i].n;
    }
    must(n == r.nsteps);
    for (size_t i = 0; i < r.nsteps; i++)
        look(&r, &r.steps[i]);
    for (size_t i = 0; i < r.nglobals; i++)
        look(&r, &r.globals[i]);
    cay__recipe_clear(&r);
    return 0;
}
