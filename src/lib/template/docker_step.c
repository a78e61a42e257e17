/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions of a Dockerfile, each to its step. */
#include "recipe.h"
#include <base/base.h>
#include <base/json.h>
#include <ctype.h>

static int fail_invalid(cay_err *err, const cay__instruction *l, const char *why)
{
    return cay__dockerfile_bad(err, l, "dockerfile_invalid", "%s", why);
}

static char *copy_text(cay__recipe *r, const char *s, size_t n)
{
    char *c = cay__arena_take(&r->mem, n + 1);
    memcpy(c, s, n);
    return c;
}

static int too_many(cay_err *err, const cay__instruction *l)
{
    return cay__dockerfile_bad(err, l, "dockerfile_invalid",
                               "there are more than %d steps, or %d words in one",
                               CAY__RECIPE_STEPS, CAY__RECIPE_WORDS);
}

/* A line for people: what was written, in one line and not too long. */
static const char *describe_line(cay__recipe *r, const char *name, const char *rest)
{
    CAY_AUTOBUF b = CAY__BUF(4096);
    cay__buf_str(&b, name);
    cay__buf_str(&b, " ");
    size_t n = strcspn(rest, "\n");
    cay__buf_safe(&b, rest, CAY_MIN(n, (size_t)400), false);
    if (rest[n] || n > 400)
        cay__buf_str(&b, " …");
    return cay__arena_str(&r->mem, b.data);
}

static cay__words one_word(cay__recipe *r, const char *text)
{
    cay__words w = { cay__arena_take(&r->mem, 2 * sizeof *w.w), 1 };
    w.w[0] = cay__arena_str(&r->mem, text);
    return w;
}

static int words_of(cay__recipe *r, const cay__instruction *l, const char *text, cay__words *out,
                    cay_err *err)
{
    const char *s = text;
    size_t count = 0;
    long n;
    for (; (n = cay__word_next(&s, r->escape)) > 0; s += n)
        count++;
    if (n < 0)
        return fail_invalid(err, l, "a quote is not closed");
    if (count > CAY__RECIPE_WORDS)
        return too_many(err, l);
    *out = (cay__words){ .w = cay__arena_take(&r->mem, (count + 1) * sizeof *out->w) };
    for (s = text; out->n < count; s += n) {
        n = cay__word_next(&s, r->escape);
        out->w[out->n++] = copy_text(r, s, (size_t)n);
    }
    return 0;
}

/* ["a", "b"]. false: it is none, and means itself. */
static bool exec_form(cay__recipe *r, const char *s, cay__words *out)
{
    if (*s != '[')
        return false;
    CAY_AUTOJSON *j = json_loads(s, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_array(j) || json_array_size(j) > CAY__RECIPE_WORDS)
        return false;
    *out = (cay__words){ .w = cay__arena_take(&r->mem, (json_array_size(j) + 1) * sizeof *out->w) };
    for (size_t i = 0; i < json_array_size(j); i++) {
        const char *e = cay__json_cstr(json_array_get(j, i));
        if (!e)
            return false;
        out->w[out->n++] = cay__arena_str(&r->mem, e);
    }
    return true;
}

typedef struct flag {
    const char *name;
    const char **value;
    cay__words *all; /* it may come again: with room for CAY__RECIPE_MOUNTS */
} flag;

/* --name=value before all else, taken off *rest. */
static int flags_of(cay__recipe *r, const cay__instruction *l, const char **rest, const flag *known,
                    cay_err *err)
{
    long n;
    for (;;) {
        const char *s = *rest;
        n = cay__word_next(&s, r->escape);
        if (n < 3 || s[0] != '-' || s[1] != '-')
            return 0;
        const char *word = copy_text(r, s, (size_t)n), *eq = strchr(word, '=');
        size_t len = strcspn(word, "=");
        const flag *f = known;
        while (f->name && (strlen(f->name) != len - 2 || strncmp(f->name, word + 2, len - 2)))
            f++;
        if (!f->name)
            return cay__dockerfile_bad(err, l, "dockerfile_unsupported",
                                       "the option %.60s is not understood; take it away",
                                       copy_text(r, word, len));
        if (f->all && f->all->n == CAY__RECIPE_MOUNTS)
            return cay__dockerfile_bad(err, l, "dockerfile_invalid",
                                       "--%s comes more than %d times", f->name,
                                       CAY__RECIPE_MOUNTS);
        if (f->all)
            f->all->w[f->all->n++] = CAY_TEXT_IF(eq, eq + 1);
        if (f->value) {
            if (eq)
                *f->value = eq + 1;
            else
                *f->value = "true";
        }
        *rest = s + n;
        *rest += strspn(*rest, " \t");
    }
}

static cay__step *add_step(cay__recipe *r, const cay__instruction *l, cay__step_kind kind)
{
    cay__step *s = cay__recipe_step(r, kind, l->no);
    if (s)
        s->text = describe_line(r, l->name, l->rest);
    return s;
}

static int with_words(cay__recipe *r, const cay__instruction *l, cay__step_kind kind,
                      const cay__words *w, bool exec, cay_err *err)
{
    cay__step *s = add_step(r, l, kind);
    if (!s)
        return too_many(err, l);
    s->words = w->w;
    s->nwords = w->n;
    s->exec = s->literal = exec;
    return 0;
}

static int on_from(cay__recipe *r, const cay__instruction *l, cay_err *err)
{
    const char *rest = l->rest, *platform = NULL;
    cay__words w;
    CAY_TRY(flags_of(r, l, &rest, (const flag[]){ { "platform", &platform, NULL }, { 0 } }, err));
    CAY_TRY(words_of(r, l, rest, &w, err));
    if ((w.n != 1 && w.n != 3) || (w.n == 3 && strcasecmp(w.w[1], "as")))
        return fail_invalid(err, l, "it is FROM IMAGE or FROM IMAGE AS NAME");
    char *name = NULL;
    if (w.n == 3)
        name = copy_text(r, w.w[2], strlen(w.w[2]));
    bool valid = !name || isalpha((unsigned char)*name);
    for (char *c = name; c && *c; c++) {
        *c = (char)tolower((unsigned char)*c);
        if (!isalnum((unsigned char)*c) && !strchr("_.-", *c))
            valid = false;
    }
    if (!valid)
        return fail_invalid(
            err, l,
            "the name of a stage has letters, digits, '_', '.' and '-', and begins with a letter");
    for (size_t i = 0; name && i < r->nstages; i++)
        if (r->stages[i].name && !strcmp(r->stages[i].name, name))
            return cay__dockerfile_bad(err, l, "dockerfile_invalid",
                                       "there is a stage %.60s already, in line %u", name,
                                       r->stages[i].line);
    if (r->nstages >= 100)
        return fail_invalid(err, l, "there are more than 100 stages");
    CAY_GROW(r->stages, r->nstages);
    r->stages[r->nstages++] = (cay__stage){
        .from = w.w[0], .name = name, .platform = platform, .line = l->no, .first = r->nsteps
    };
    return 0;
}

/* A script that says by "#!" who runs it: it becomes a file for as long as it runs. */
static void run_script(cay__buf *b, const char *text, size_t len)
{
    char end[32] = "END";
    for (unsigned i = 0; memmem(text, len, end, strlen(end)); i++)
        CAY_FORMAT(end, "END%u", i);
    cay__buf_fmt(b, "f=$(mktemp) && cat >\"$f\" <<'%s'\n", end);
    cay__buf_add(b, text, len);
    cay__buf_fmt(b, "%s\nchmod 700 \"$f\" && \"$f\"; r=$?; rm -f \"$f\"; exit $r\n", end);
}

/* The command with the bodies of its here-documents, as a shell reads them; a lone <<EOF is a
 * script. */
static int run_docs(cay__recipe *r, const cay__instruction *l, const char *rest, cay__step *s,
                    cay_err *err)
{
    CAY_AUTOBUF b = CAY__BUF(2 * CAY__RECIPE_BYTES);
    const char *p = rest;
    long n = cay__word_next(&p, r->escape);
    cay__heredoc h;
    if (l->ndocs == 1 && n > 0 && cay__heredoc_word(p, (size_t)n, &h) && !p[n]) {
        if (l->lens[0] > 2 && !memcmp(l->docs[0], "#!", 2))
            run_script(&b, l->docs[0], l->lens[0]);
        else
            cay__buf_add(&b, l->docs[0], l->lens[0]);
    } else {
        cay__buf_str(&b, rest);
        size_t i = 0;
        for (p = rest; (n = cay__word_next(&p, r->escape)) > 0; p += n)
            if (cay__heredoc_word(p, (size_t)n, &h) && i < l->ndocs) {
                cay__buf_str(&b, "\n");
                cay__buf_add(&b, l->docs[i], l->lens[i]);
                cay__buf_str(&b, h.name);
                i++;
            }
        cay__buf_str(&b, "\n");
    }
    if (b.full || !b.len)
        return fail_invalid(err, l, b.full ? "it is too long" : "there is no command");
    const char **w = cay__arena_take(&r->mem, 2 * sizeof *w);
    w[0] = copy_text(r, b.data, b.len);
    s->words = w;
    s->nwords = 1;
    return 0;
}

static int run_mounts(cay__recipe *r, const cay__instruction *l, const cay__words *texts,
                      const cay__run_mount **out, cay_err *err)
{
    cay__run_mount *m = NULL;
    if (texts->n)
        m = cay__arena_take(&r->mem, texts->n * sizeof *m);
    for (size_t i = 0; i < texts->n; i++)
        CAY_TRY(cay__mount_read(r, l, texts->w[i], &m[i], err));
    *out = m;
    return 0;
}

static int on_run(cay__recipe *r, const cay__instruction *l, cay_err *err)
{
    const char *rest = l->rest, *network = NULL, *texts[CAY__RECIPE_MOUNTS];
    const cay__run_mount *mounts;
    cay__words w, given = { .w = texts };
    CAY_TRY(flags_of(
        r, l, &rest,
        (const flag[]){ { "network", &network, NULL }, { "mount", NULL, &given }, { 0 } }, err));
    CAY_TRY(run_mounts(r, l, &given, &mounts, err));
    if (network && strcmp(network, "none") && strcmp(network, "default"))
        return cay__dockerfile_bad(
            err, l, "dockerfile_unsupported",
            "--network is none or default; what may be reached is said by --net of the build");
    if (!*rest)
        return fail_invalid(err, l, "there is no command");
    cay__step *s = add_step(r, l, CAY__STEP_RUN);
    if (!s)
        return too_many(err, l);
    s->offline = network && !strcmp(network, "none");
    s->mounts = mounts;
    s->nmounts = given.n;
    s->literal = true;
    if (l->ndocs)
        return run_docs(r, l, rest, s, err);
    s->exec = exec_form(r, rest, &w);
    if (!s->exec) {
        w = one_word(r, rest);
    }
    s->words = w.w;
    s->nwords = w.n;
    if (w.n)
        return 0;
    return fail_invalid(err, l, "there is no command");
}

/* CMD and ENTRYPOINT: [] is fine, and takes what the base has away. */
static int on_command(cay__recipe *r, const cay__instruction *l, cay_err *err)
{
    cay__words w = { 0 };
    cay__step_kind kind = CAY__STEP_ENTRYPOINT;
    if (*l->name == 'C')
        kind = CAY__STEP_CMD;
    bool exec = exec_form(r, l->rest, &w);
    if (!exec && !*l->rest)
        return fail_invalid(err, l, "there is no command");
    if (!exec) {
        w = one_word(r, l->rest);
    }
    CAY_TRY(with_words(r, l, kind, &w, exec, err));
    r->steps[r->nsteps - 1].literal = true;
    return 0;
}

static int on_shell(cay__recipe *r, const cay__instruction *l, cay_err *err)
{
    cay__words w;
    if (!exec_form(r, l->rest, &w) || !w.n)
        return fail_invalid(err, l, "it is SHELL [\"PROGRAM\", \"ARGUMENT\", …]");
    return with_words(r, l, CAY__STEP_SHELL, &w, true, err);
}

/* COPY <<EOF /target: one file for each. */
static int copy_docs(cay__recipe *r, const cay__instruction *l, const cay__words *w,
                     const cay__step *opt, cay_err *err)
{
    size_t used = 0;
    for (size_t i = 0; i + 1 < w->n; i++) {
        cay__heredoc h;
        if (!cay__heredoc_word(w->w[i], strlen(w->w[i]), &h) || used >= l->ndocs)
            return fail_invalid(err, l,
                                "here-documents and files cannot be copied by one instruction");
        cay__step *s = add_step(r, l, CAY__STEP_FILE);
        if (!s)
            return too_many(err, l);
        s->words = &w->w[w->n - 1];
        s->nwords = 1;
        s->name = cay__arena_str(&r->mem, h.name);
        s->data = l->docs[used];
        s->len = l->lens[used++];
        s->chown = opt->chown;
        s->chmod = opt->chmod;
    }
    if (w->n > 2 && w->w[w->n - 1][strlen(w->w[w->n - 1]) - 1] != '/')
        return fail_invalid(err, l, "several here-documents need a target that ends in '/'");
    return 0;
}

static int on_copy(cay__recipe *r, const cay__instruction *l, cay_err *err)
{
    const char *rest = l->rest;
    bool is_copy = *l->name == 'C';
    cay__step opt = { 0 };
    cay__words w;
    const flag own =
        is_copy ? (flag){ "from", &opt.from, NULL } : (flag){ "checksum", &opt.checksum, NULL };
    const flag flags[] = { own,
                           { "chown", &opt.chown, NULL },
                           { "chmod", &opt.chmod, NULL },
                           { "link", NULL, NULL },
                           { 0 } };
    CAY_TRY(flags_of(r, l, &rest, flags, err));
    bool exec = exec_form(r, rest, &w);
    if (!exec)
        CAY_TRY(words_of(r, l, rest, &w, err));
    if (w.n < 2)
        return fail_invalid(err, l, "it needs a source and a target");
    if (opt.from && !*opt.from)
        return fail_invalid(err, l, "--from needs a stage or a template");
    if (l->ndocs && !exec)
        return copy_docs(r, l, &w, &opt, err);
    CAY_TRY(with_words(r, l, is_copy ? CAY__STEP_COPY : CAY__STEP_ADD, &w, exec, err));
    cay__step *s = &r->steps[r->nsteps - 1];
    s->literal = false; /* variables are for the exec form too */
    s->from = opt.from;
    s->chown = opt.chown;
    s->chmod = opt.chmod;
    s->checksum = opt.checksum;
    return 0;
}

static bool name_ok(const char *s, size_t n)
{
    CAY_EACH_OF(it, s, n)
        if (!isalnum((unsigned char)*it) && *it != '_')
            return false;
    return n && n < 128 && !isdigit((unsigned char)*s);
}

/* NAME=VALUE …, or NAME and the rest of the line. */
static int on_pairs(cay__recipe *r, const cay__instruction *l, cay_err *err)
{
    bool env = *l->name == 'E';
    cay__words w;
    const char *eq, *blank = l->rest + strcspn(l->rest, " \t");
    CAY_TRY(words_of(r, l, l->rest, &w, err));
    if (!w.n)
        return fail_invalid(err, l, "it is NAME=VALUE");
    const char **out = cay__arena_take(&r->mem, (2 * w.n + 2) * sizeof *out);
    size_t n = 0;
    if (!(eq = strchr(w.w[0], '='))) {
        if (w.n < 2)
            return cay__dockerfile_bad(err, l, "dockerfile_invalid",
                                       "%.60s has no value: it is NAME=VALUE", w.w[0]);
        out[n++] = w.w[0];
        out[n++] = cay__arena_str(&r->mem, blank + strspn(blank, " \t"));
    }
    for (size_t i = 0; eq && i < w.n; i++) {
        eq = strchr(w.w[i], '=');
        if (!eq || eq == w.w[i])
            return cay__dockerfile_bad(err, l, "dockerfile_invalid", "%.60s is not NAME=VALUE",
                                       w.w[i]);
        out[n++] = copy_text(r, w.w[i], (size_t)(eq - w.w[i]));
        out[n++] = eq + 1;
    }
    for (size_t i = 0; env && i < n; i += 2)
        if (!name_ok(out[i], strlen(out[i])))
            return cay__dockerfile_bad(err, l, "dockerfile_invalid",
                                       "%.60s is no name of a variable", out[i]);
    return with_words(r, l, env ? CAY__STEP_ENV : CAY__STEP_LABEL, &(cay__words){ out, n }, false,
                      err);
}

/* Words: name and "=default", or name and NULL's stand-in "". */
static int on_arg(cay__recipe *r, const cay__instruction *l, cay_err *err)
{
    cay__words w;
    CAY_TRY(words_of(r, l, l->rest, &w, err));
    if (!w.n)
        return fail_invalid(err, l, "it is ARG NAME or ARG NAME=DEFAULT");
    const char **out = cay__arena_take(&r->mem, (2 * w.n + 1) * sizeof *out);
    for (size_t i = 0; i < w.n; i++) {
        const char *eq = strchr(w.w[i], '=');
        size_t n = strcspn(w.w[i], "=");
        if (!name_ok(w.w[i], n))
            return cay__dockerfile_bad(err, l, "dockerfile_invalid",
                                       "%.60s is no name of a variable", w.w[i]);
        out[2 * i] = copy_text(r, w.w[i], n);
        out[2 * i + 1] = CAY_OR(eq, "");
    }
    if (r->nstages)
        return with_words(r, l, CAY__STEP_ARG, &(cay__words){ out, 2 * w.n }, false, err);
    if (r->nglobals >= CAY__RECIPE_STEPS)
        return too_many(err, l);
    CAY_GROW(r->globals, r->nglobals);
    r->globals[r->nglobals++] = (cay__step){ .kind = CAY__STEP_ARG,
                                             .line = l->no,
                                             .text = describe_line(r, l->name, l->rest),
                                             .words = out,
                                             .nwords = 2 * w.n };
    return 0;
}

/* WORKDIR and USER: one word that may have blanks; EXPOSE: some. */
static int on_single_word(cay__recipe *r, const cay__instruction *l, cay_err *err)
{
    if (!*l->rest)
        return fail_invalid(err, l, "it needs an argument");
    cay__words w = one_word(r, l->rest);
    return with_words(r, l, *l->name == 'W' ? CAY__STEP_WORKDIR : CAY__STEP_USER, &w, false, err);
}

static int on_expose(cay__recipe *r, const cay__instruction *l, cay_err *err)
{
    cay__words w;
    CAY_TRY(words_of(r, l, l->rest, &w, err));
    if (!w.n)
        return fail_invalid(err, l, "it needs a port");
    return with_words(r, l, CAY__STEP_EXPOSE, &w, false, err);
}

static const struct {
    const char *name;
    int (*on)(cay__recipe *, const cay__instruction *, cay_err *);
    const char *remedy; /* of what is known and not understood */
} table[] = {
    { "FROM", on_from, NULL },
    { "RUN", on_run, NULL },
    { "COPY", on_copy, NULL },
    { "ADD", on_copy, NULL },
    { "ENV", on_pairs, NULL },
    { "LABEL", on_pairs, NULL },
    { "ARG", on_arg, NULL },
    { "WORKDIR", on_single_word, NULL },
    { "USER", on_single_word, NULL },
    { "EXPOSE", on_expose, NULL },
    { "CMD", on_command, NULL },
    { "ENTRYPOINT", on_command, NULL },
    { "SHELL", on_shell, NULL },
    { "HEALTHCHECK", NULL, "a service of a template file has a health check" },
    { "VOLUME", NULL, "give a volume when a sandbox is made: --volume" },
    { "ONBUILD", NULL, "write the instruction into the file that builds on this one" },
    { "STOPSIGNAL", NULL, "a sandbox is ended whole; leave it out" },
    { "MAINTAINER", NULL, "write LABEL maintainer=…" },
};

int cay__dockerfile_step(cay__recipe *r, const cay__instruction *l, cay_err *err)
{
    CAY_EACH(it, table) {
        if (strcmp(it->name, l->name))
            continue;
        if (!it->on)
            return cay__dockerfile_bad(err, l, "dockerfile_unsupported",
                                       "this instruction is not understood: %s", it->remedy);
        if (!r->nstages && it->on != on_from && it->on != on_arg)
            return fail_invalid(err, l, "before the first FROM there may be only ARG");
        return it->on(r, l, err);
    }
    return cay__dockerfile_bad(err, l, "dockerfile_unsupported",
                               "no such instruction; known are FROM RUN COPY ADD ENV LABEL ARG "
                               "WORKDIR USER EXPOSE CMD ENTRYPOINT SHELL");
}
