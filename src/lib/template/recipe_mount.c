/* SPDX-License-Identifier: Apache-2.0 */
/* RUN --mount=type=cache,target=…: what is shown to one command and is no part of the template. */
#include "recipe.h"
#include <base/base.h>
#include <ctype.h>

#define AT(field) offsetof(cay__run_mount, field)

static const struct {
    const char *name, *types; /* types: which of them may have it */
    size_t at;
} keys[] = {
    { "target", "bcst", AT(target) },
    { "dst", "bcst", AT(target) },
    { "destination", "bcst", AT(target) },
    { "source", "bc", AT(source) },
    { "src", "bc", AT(source) },
    { "from", "bc", AT(from) },
    { "id", "cs", AT(id) },
    { "sharing", "c", AT(sharing) },
    { "mode", "cs", AT(mode) },
    { "uid", "cs", AT(uid) },
    { "gid", "cs", AT(gid) },
    { "env", "s", AT(env) },
    { "size", "t", AT(size) },
    { "ro", "bc", AT(ro) },
    { "readonly", "bc", AT(ro) },
    { "rw", "bc", AT(rw) },
    { "readwrite", "bc", AT(rw) },
    { "required", "s", AT(required) },
};
static const char *const types[] = { "bind", "cache", "secret", "tmpfs" };

static int fail_unsupported(cay_err *err, const cay__instruction *l, const char *why,
                            const char *what, size_t n)
{
    return cay__dockerfile_bad(err, l, "dockerfile_unsupported", "--mount: %s%.*s", why,
                               (int)CAY_MIN(n, (size_t)60), what);
}

/* Up to a comma that no quote holds. */
static size_t measure_part(const char *s, char escape)
{
    char quote = 0;
    size_t n = 0;
    for (; s[n] && (quote || s[n] != ','); n++) {
        if (s[n] == escape && s[n + 1])
            n++;
        else if (quote) {
            if (s[n] == quote)
                quote = 0;
        } else if (s[n] == '"' || s[n] == '\'')
            quote = s[n];
    }
    return n;
}

static char *value_of(cay__recipe *r, const char *s, size_t n)
{
    char *v = cay__arena_take(&r->mem, n + 1);
    memcpy(v, s, n);
    return v;
}

static int type_of(const cay__instruction *l, const char *text, char escape, char *out,
                   cay_err *err)
{
    *out = 'b';
    for (const char *s = text; *s; s += s[0] == ',') {
        size_t n = measure_part(s, escape);
        if (n > 5 && !strncasecmp(s, "type=", 5)) {
            *out = 0;
            for (size_t i = 0; i < CAY_LEN(types); i++)
                if (strlen(types[i]) == n - 5 && !strncasecmp(types[i], s + 5, n - 5))
                    *out = *types[i];
            if (!*out)
                return fail_unsupported(err, l, "a type is bind, cache, secret or tmpfs, and not ",
                                        s + 5, n - 5);
        }
        s += n;
    }
    return 0;
}

static int read_option(cay__recipe *r, const cay__instruction *l, const char *s, size_t n,
                       cay__run_mount *out, cay_err *err)
{
    const char *eq = memchr(s, '=', n);
    size_t name = eq ? (size_t)(eq - s) : n, k = 0;
    if (name == 4 && !strncasecmp(s, "type", 4))
        return 0;
    while (k < CAY_LEN(keys) &&
           (strlen(keys[k].name) != name || strncasecmp(keys[k].name, s, name)))
        k++;
    if (k == CAY_LEN(keys) || !strchr(keys[k].types, out->type)) {
        const char *what = "type=bind does not know ";
        switch (out->type) {
        case 'c': what = "type=cache does not know "; break;
        case 's': what = "type=secret does not know "; break;
        case 't': what = "type=tmpfs does not know "; break;
        }
        return fail_unsupported(err, l, what, s, name);
    }
    bool flag = keys[k].at == AT(ro) || keys[k].at == AT(rw) || keys[k].at == AT(required);
    if (!flag && (!eq || eq + 1 == s + n))
        return fail_unsupported(err, l, "there is no value behind ", s, name);
    char *v;
    if (eq)
        v = value_of(r, eq + 1, (size_t)(s + n - eq - 1));
    else
        v = value_of(r, "", 0);
    *(const char **)(void *)((char *)out + keys[k].at) = v;
    return 0;
}

int cay__mount_read(cay__recipe *r, const cay__instruction *l, const char *text,
                    cay__run_mount *out, cay_err *err)
{
    *out = (cay__run_mount){ 0 };
    CAY_TRY(type_of(l, text, r->escape, &out->type, err));
    for (const char *s = text; *s; s += s[0] == ',') {
        size_t n = measure_part(s, r->escape);
        if (n)
            CAY_TRY(read_option(r, l, s, n, out, err));
        s += n;
    }
    if (out->type == 's' ? !out->id && !out->target : !out->target)
        return fail_unsupported(
            err, l, out->type == 's' ? "a secret needs an id" : "it needs a target", "", 0);
    if (out->type == 'c' && (out->from || out->source))
        return fail_unsupported(err, l, "a cache begins empty: from and source are for type=bind",
                                "", 0);
    return 0;
}
