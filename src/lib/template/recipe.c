/* SPDX-License-Identifier: Apache-2.0 */
#include "recipe.h"
#include <base/base.h>

static const char *const names[] = {
    [CAY__STEP_RUN] = "RUN",     [CAY__STEP_COPY] = "COPY",
    [CAY__STEP_ADD] = "ADD",     [CAY__STEP_FILE] = "COPY",
    [CAY__STEP_ENV] = "ENV",     [CAY__STEP_ARG] = "ARG",
    [CAY__STEP_LABEL] = "LABEL", [CAY__STEP_WORKDIR] = "WORKDIR",
    [CAY__STEP_USER] = "USER",   [CAY__STEP_EXPOSE] = "EXPOSE",
    [CAY__STEP_CMD] = "CMD",     [CAY__STEP_ENTRYPOINT] = "ENTRYPOINT",
    [CAY__STEP_SHELL] = "SHELL",
};

const char *cay__step_name(cay__step_kind kind)
{
    return names[kind];
}

cay__step *cay__recipe_step(cay__recipe *r, cay__step_kind kind, unsigned line)
{
    if (r->nsteps >= CAY__RECIPE_STEPS)
        return NULL;
    CAY_GROW(r->steps, r->nsteps);
    cay__step *s = &r->steps[r->nsteps++];
    *s = (cay__step){ .kind = kind, .line = line, .text = "" };
    if (r->nstages)
        r->stages[r->nstages - 1].n++;
    return s;
}

void cay__recipe_clear(cay__recipe *r)
{
    cay__arena_clear(&r->mem);
    free(r->stages);
    free(r->steps);
    free(r->globals);
    *r = (cay__recipe){ 0 };
}

bool cay__recipe_mode(const char *text, unsigned *mode)
{
    unsigned m = 0;
    size_t n = strlen(text);
    if (n < 3 || n > 5)
        return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '7')
            return false;
        m = m * 8 + (unsigned)(*text - '0');
    }
    *mode = m;
    return m <= 07777;
}

bool cay__recipe_flag(const char *text, bool *yes)
{
    *yes = !*text || !strcasecmp(text, "true") || !strcmp(text, "1");
    return *yes || !strcasecmp(text, "false") || !strcmp(text, "0");
}

static bool parse_port(const char *s, size_t n, unsigned *out)
{
    unsigned v = 0;
    if (!n || n > 5)
        return false;
    CAY_EACH_OF(it, s, n) {
        if (*it < '0' || *it > '9')
            return false;
        v = v * 10 + (unsigned)(*it - '0');
    }
    *out = v;
    return v && v <= 65535;
}

bool cay__recipe_port(const char *text, unsigned *first, unsigned *last, bool *udp)
{
    const char *slash = strchr(text, '/'), *end = CAY_OR(slash, text + strlen(text)),
               *dash = memchr(text, '-', (size_t)(end - text));
    if (slash && strcasecmp(slash, "/tcp") && strcasecmp(slash, "/udp"))
        return false;
    *udp = slash && !strcasecmp(slash, "/udp");
    if (!parse_port(text, (size_t)((CAY_OR(dash, end)) - text), first))
        return false;
    *last = *first;
    return !dash || (parse_port(dash + 1, (size_t)(end - dash - 1), last) && *last >= *first);
}
