/* SPDX-License-Identifier: Apache-2.0 */
#include "opt.h"
#include "parse.h"
#include <base/base.h>

/* How many letters to add, drop, change or swap; words longer than a row are far from everything.
 */
static unsigned edit_distance(const char *a, const char *b)
{
    enum { MOST = 32 };
    unsigned rows[3][MOST + 1], *two = rows[0], *one = rows[1], *now = rows[2];
    size_t na = strlen(a), nb = strlen(b);
    if (na > MOST || nb > MOST)
        return UINT32_MAX;
    for (size_t j = 0; j <= nb; j++)
        one[j] = (unsigned)j;
    for (size_t i = 1; i <= na; i++) {
        now[0] = (unsigned)i;
        for (size_t j = 1; j <= nb; j++) {
            unsigned change = one[j - 1] + (a[i - 1] != b[j - 1]);
            now[j] = CAY_MIN(change, CAY_MIN(one[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = CAY_MIN(now[j], two[j - 2] + 1);
        }
        unsigned *spare = two;
        two = one;
        one = now;
        now = spare;
    }
    return one[nb];
}

const char *opt_nearest(const char *word, const char *const *names)
{
    const char *best = NULL;
    unsigned least = 3;
    if (strlen(word) < 5)
        least = 2;
    for (; *names; names++) {
        unsigned d = edit_distance(word, *names);
        if (strlen(word) >= 3 && cay__str_starts(*names, word))
            d = 1;
        if (d < least) {
            least = d;
            best = *names;
        }
    }
    return best;
}

opt_name opt_name_of(const opt_def *d)
{
    const char *word = strstr(d->form, "--") + 2;
    size_t n = strcspn(word, " [");
    opt_name name = { .arg = CAY_IF(word[n], word + n + 1) };
    if (d->form[1] != '-')
        name.brief = d->form[1];
    memcpy(name.word, word, CAY_MIN(n, sizeof name.word - 1));
    return name;
}

static int fail_unknown_option(const opt_spec *spec, const char *name, size_t len, cay_err *err)
{
    enum { MOST = 160 };
    opt_name known[MOST];
    const char *names[MOST + 1];
    size_t n = 0;
    char word[40];
    if (len >= sizeof word)
        return cay_fail(err, CAY_EINVAL, "unknown option --%.60s", name);
    memcpy(word, name, len);
    word[len] = 0;
    CAY_EACH_OF(group, spec->groups, spec->ngroups)
        for (const opt_def *d = group->defs; d->form && n < MOST; d++) {
            known[n] = opt_name_of(d);
            names[n] = known[n].word;
            n++;
        }
    names[n] = NULL;
    const char *near = opt_nearest(word, names);
    if (near)
        return cay_fail_why(err, CAY_EINVAL, "unknown_option",
                            "unknown option --%s; did you mean --%s?", word, near);
    return cay_fail_why(err, CAY_EINVAL, "unknown_option", "unknown option --%s", word);
}

static const opt_def *find_option(const opt_spec *spec, const char *name, size_t len, char brief,
                                  void **base)
{
    CAY_EACH_OF(group, spec->groups, spec->ngroups)
        for (const opt_def *d = group->defs; d->form; d++) {
            opt_name has = opt_name_of(d);
            if (brief ? has.brief == brief
                      : (strlen(has.word) == len && !memcmp(has.word, name, len))) {
                *base = group->base;
                return d;
            }
        }
    return NULL;
}

static int store_number(const opt_def *d, const char *value, uint64_t *out, cay_err *err)
{
    static const struct {
        bool (*parse)(const char *text, uint64_t *out);
        const char *form, *unit;
    } kinds[] = {
        [OPT_KIND_NUM] = { cay__str_to_u64, "a number", "" },
        [OPT_KIND_SIZE] = { cay__str_to_size, "a size such as 512m or 2G", " bytes" },
        [OPT_KIND_MS] = { cay__str_to_ms, "a time such as 90s, 5m or 250ms", " ms" },
    };
    const char *unit = kinds[d->kind].unit;
    opt_name name = opt_name_of(d);
    uint64_t v = 0;
    bool unlimited = d->kind == OPT_KIND_NUM && d->max == CAY_UNLIMITED;
    if (unlimited && !strcmp(value, "unlimited"))
        v = CAY_UNLIMITED;
    else if (!kinds[d->kind].parse(value, &v))
        return cay_fail(err, CAY_EINVAL, "--%s \"%s\": want %s", name.word, value,
                        kinds[d->kind].form);
    if (v < d->min)
        return cay_fail_why(err, CAY_EINVAL, "limit_out_of_range",
                            "--%s %s is too little; the least is %ju%s", name.word, value, d->min,
                            unit);
    if (d->max && v > d->max && v != CAY_UNLIMITED)
        return cay_fail_why(err, CAY_EINVAL, "limit_out_of_range",
                            "--%s %s is too much; the most is %ju%s", name.word, value, d->max,
                            unit);
    *out = v;
    return 0;
}

static int store_value(const opt_def *d, void *base, const char *value, cay_err *err)
{
    void *at = (char *)base + d->offset;
    opt_list *list = at;
    int rc = 0;
    switch (d->kind) {
    case OPT_KIND_FLAG: *(bool *)at = true; break;
    case OPT_KIND_STR: *(const char **)at = value; break;
    case OPT_KIND_LIST:
        if (list->n == OPT_LIST_MAX)
            return cay_fail(err, CAY_ETOOBIG, "--%s: given more than %d times", opt_name_of(d).word,
                            OPT_LIST_MAX);
        list->v[list->n++] = value;
        break;
    case OPT_KIND_NUM:
    case OPT_KIND_SIZE:
    case OPT_KIND_MS: return store_number(d, value, at, err);
    case OPT_KIND_CPUS: rc = cli_parse_cpus(value, at, err); break;
    case OPT_KIND_MODE: rc = cli_parse_mode(value, at, err); break;
    }
    if (rc < 0)
        return cay_wrap(err, rc, "--%s", opt_name_of(d).word);
    return 0;
}

/* --name, --name=VALUE or --name VALUE; *at is the word and moves to the last one used. */
static int take_long(const opt_spec *spec, int argc, char **argv, int *at, cay_err *err)
{
    const char *name = argv[*at] + 2, *eq = strchr(name, '='), *value = eq ? eq + 1 : NULL;
    size_t len = strcspn(name, "=");
    void *base;
    const opt_def *d = find_option(spec, name, len, 0, &base);
    if (!d)
        return fail_unknown_option(spec, name, len, err);
    if (d->kind == OPT_KIND_FLAG && value)
        return cay_fail(err, CAY_EINVAL, "--%s takes no value", opt_name_of(d).word);
    if (!value && d->bare)
        value = d->bare;
    if (d->kind != OPT_KIND_FLAG && !value) {
        if (*at + 1 >= argc)
            return cay_fail(err, CAY_EINVAL, "--%s wants %s", opt_name_of(d).word,
                            opt_name_of(d).arg);
        value = argv[++*at];
    }
    return store_value(d, base, value, err);
}

/* -abc VALUE, -aVALUE: flags may share a dash, the last may take a value. */
static int take_brief(const opt_spec *spec, int argc, char **argv, int *at, cay_err *err)
{
    for (const char *p = argv[*at] + 1; *p; p++) {
        void *base;
        const opt_def *d = find_option(spec, NULL, 0, *p, &base);
        if (!d)
            return cay_fail_why(err, CAY_EINVAL, "unknown_option", "unknown option -%c", *p);
        if (d->kind == OPT_KIND_FLAG) {
            CAY_TRY(store_value(d, base, NULL, err));
            continue;
        }
        const char *value = NULL;
        if (p[1])
            value = p + 1;
        if (!value) {
            if (*at + 1 >= argc)
                return cay_fail(err, CAY_EINVAL, "-%c (--%s) wants %s", *p, opt_name_of(d).word,
                                opt_name_of(d).arg);
            value = argv[++*at];
        }
        return store_value(d, base, value, err);
    }
    return 0;
}

int opt_parse(const opt_spec *spec, int argc, char **argv, int *nargs, int *dashes, cay_err *err)
{
    int n = 0, dash = -1;
    for (int i = 0; i < argc; i++) {
        const char *w = argv[i];
        if (dash < 0 && (!spec->stop_after || (size_t)n < spec->stop_after)) {
            if (!strcmp(w, "--")) {
                dash = n;
                continue;
            }
            if (w[0] == '-' && w[1]) {
                if (w[1] == '-')
                    CAY_TRY(take_long(spec, argc, argv, &i, err));
                else
                    CAY_TRY(take_brief(spec, argc, argv, &i, err));
                continue;
            }
        }
        argv[n++] = argv[i];
    }
    *nargs = n;
    if (dashes)
        *dashes = dash;
    return 0;
}

void opt_help(const opt_def *defs, cay__buf *out)
{
    enum { COLUMN = 28 };
    for (const opt_def *d = defs; d->form; d++) {
        size_t from = out->len;
        cay__buf_fmt(out, d->form[1] == '-' ? "      %s" : "  %s", d->form);
        size_t used = out->len - from;
        if (used + 2 > COLUMN) {
            cay__buf_str(out, "\n");
            used = 0;
        }
        cay__buf_fmt(out, "%*s%s%s\n", (int)(COLUMN - used), "", d->help,
                     d->kind == OPT_KIND_LIST ? " (may be given again)" : "");
    }
}
