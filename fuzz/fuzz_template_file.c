/* SPDX-License-Identifier: Apache-2.0 */
/* A template file: its steps are whole, and what they hold is text. */
#include <base/base.h>
#include <lib/template/recipe.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void must(bool holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    cay__recipe r;
    cay_err err = CAY_ERR_INIT;
    int rc = cay__recipe_read(&r, "t.json", (const char *)data, len, &err);
    must((rc == 0) == !*err.msg && (rc == 0) == (r.stages != NULL));
    must(rc < 0 || (r.nstages == 1 && r.stages[0].n == r.nsteps && *r.stages[0].from));
    for (size_t i = 0; i < r.nsteps; i++) {
        const cay__step *s = &r.steps[i];
        must(s->words && !s->words[s->nwords] && *s->text);
        must(s->kind != CAY__STEP_FILE || (s->data && *s->words[0] == '/'));
        must((s->kind != CAY__STEP_COPY && s->kind != CAY__STEP_ADD) || s->nwords >= 2);
    }
    cay__recipe_clear(&r);
    return 0;
}
