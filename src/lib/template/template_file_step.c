/* SPDX-License-Identifier: Apache-2.0 */
/* Fields of a template file that become steps: packages, files, commands, and steps in an order of
 * their own. */
#include "template_file.h"
#include <base/base64.h>

int cay__tfile_env(cay__tfile *f, const json_t *j)
{
    return cay__tfile_pairs(f, j, CAY__STEP_ENV);
}

/* A command: a text for the shell, argv, or {"command": …, "user", "cwd", "offline"}. */
static int on_command(cay__tfile *f, const json_t *j)
{
    cay__step *s;
    cay__words w;
    const json_t *cmd = j;
    if (json_is_object(j))
        cmd = json_object_get(j, "command");
    const char *user = NULL, *cwd = NULL, *key;
    bool offline = false;
    if (json_is_object(j)) {
        json_t *v;
        json_object_foreach((json_t *)j, key, v) {
            if (!strcmp(key, "offline") && json_is_boolean(v))
                offline = json_is_true(v);
            else if (!strcmp(key, "user") || !strcmp(key, "cwd")) {
                const char *t = cay__tfile_text(f, v);
                if (!t)
                    return CAY_EINVAL;
                *(*key == 'u' ? &user : &cwd) = t;
            } else if (strcmp(key, "command"))
                return cay__tfile_bad(f, "%.40s: a command has command, user, cwd and offline",
                                      key);
        }
    }
    if (!cmd)
        return cay__tfile_bad(f, "there is no command");
    CAY_TRY(cay__tfile_list(f, cmd, &w));
    if (!w.n || !*w.w[0])
        return cay__tfile_bad(f, "there is no command");
    CAY_TRY(cay__tfile_words(f, CAY__STEP_RUN, &w, true, &s));
    s->exec = json_is_array(cmd);
    s->user = user;
    s->cwd = cwd;
    s->offline = offline;
    return 0;
}

int cay__tfile_run(cay__tfile *f, const json_t *j)
{
    char where[sizeof f->at];
    if (!json_is_array(j))
        return cay__tfile_bad(f, "it is a list of commands");
    memcpy(where, f->at, sizeof where);
    for (size_t i = 0; i < json_array_size(j); i++) {
        cay__tfile_at(f, "%.100s[%zu]", where, i);
        f->no++;
        CAY_TRY(on_command(f, json_array_get(j, i)));
    }
    return 0;
}

/* Programs that install packages; the names come as arguments, so that no shell reads them. */
static const struct {
    const char *name, *script;
} installers[] = {
    { "apt", "export DEBIAN_FRONTEND=noninteractive; apt-get update && apt-get install -y "
             "--no-install-recommends -- \"$@\" && "
             "apt-get clean && rm -rf /var/lib/apt/lists/*" },
    { "pip", "p=$(command -v pip3 || command -v pip) || { echo 'pip is not there: add python3-pip "
             "to packages.apt' >&2; exit 127; }\n"
             "PIP_BREAK_SYSTEM_PACKAGES=1 \"$p\" install --no-cache-dir -- \"$@\"" },
    { "npm",
      "command -v npm >/dev/null || { echo 'npm is not there: add npm to packages.apt' >&2; exit "
      "127; }\n"
      "npm install -g --no-fund --no-audit -- \"$@\" && npm cache clean --force >/dev/null 2>&1" },
};

static int step_install(cay__tfile *f, const json_t *list, size_t which)
{
    cay__words w;
    cay__step *s;
    if (!json_is_array(list))
        return cay__tfile_bad(f, "it is a list of packages");
    CAY_TRY(cay__tfile_list(f, list, &w));
    for (size_t i = 0; i < w.n; i++) {
        bool ok = *w.w[i] && *w.w[i] != '-';
        for (const char *c = w.w[i]; ok && *c; c++)
            ok = (unsigned char)*c > ' ' && *c != 0x7f;
        if (!ok)
            return cay__tfile_bad(f, "%.60s is no name of a package", w.w[i]);
    }
    if (!w.n)
        return 0;
    const char **argv = cay__arena_take(&f->r->mem, (w.n + 5) * sizeof *argv);
    argv[0] = "/bin/sh";
    argv[1] = "-c";
    argv[2] = installers[which].script;
    argv[3] = installers[which].name;
    memcpy(argv + 4, w.w, w.n * sizeof *argv);
    f->no++;
    CAY_TRY(cay__tfile_step(f, CAY__STEP_RUN, &s));
    *s = (cay__step){ .kind = CAY__STEP_RUN,
                      .line = f->no,
                      .words = argv + 3,
                      .nwords = w.n + 1,
                      .exec = true,
                      .literal = true,
                      .user = "root" };
    cay__tfile_tell(f, s);
    s->words = argv;
    s->nwords = w.n + 4;
    return 0;
}

int cay__tfile_packages(cay__tfile *f, const json_t *j)
{
    const char *key;
    json_t *v;
    if (!json_is_object(j))
        return step_install(f, j, 0);
    json_object_foreach((json_t *)j, key, v) {
        size_t i = 0;
        while (i < CAY_LEN(installers) && strcmp(installers[i].name, key))
            i++;
        cay__tfile_at(f, "packages.%.60s", key);
        if (i == CAY_LEN(installers))
            return cay__tfile_bad(f, "packages come by apt, pip and npm");
    }
    CAY_EACH(it, installers)
        if ((v = json_object_get(j, it->name))) {
            cay__tfile_at(f, "packages.%s", it->name);
            CAY_TRY(step_install(f, v, (size_t)(it - installers)));
        }
    return 0;
}

/* The members that COPY and files share; false: it is none of them. */
static bool read_option(cay__tfile *f, cay__step *s, const char *key, const json_t *v, int *rc)
{
    const char **to;
    if (!strcmp(key, "owner"))
        to = &s->chown;
    else if (!strcmp(key, "mode"))
        to = &s->chmod;
    else
        to = NULL;
    unsigned mode;
    if (!to)
        return false;
    *to = cay__tfile_text(f, v);
    if (!*to)
        *rc = CAY_EINVAL;
    else if (to == &s->chmod && !cay__recipe_mode(*to, &mode))
        *rc = cay__tfile_bad(f, "mode %.20s: it is octal digits, such as \"0755\"", *to);
    else
        *rc = 0;
    return true;
}

static int one_file(cay__tfile *f, const char *path, const json_t *j)
{
    cay__step s = { .kind = CAY__STEP_FILE }, *out;
    CAY_AUTOBUF raw = CAY__BUF(CAY__RECIPE_BYTES);
    const char *key, *src = NULL;
    json_t *v;
    int rc = 0;
    if (*path != '/')
        return cay__tfile_bad(f, "the path of a file begins with /");
    if (json_is_string(j)) {
        s.data = json_string_value(j);
        s.len = json_string_length(j);
    } else if (!json_is_object(j))
        return cay__tfile_bad(
            f, "it is a text, or {\"content\" or \"base64\" or \"src\", \"mode\", \"owner\"}");
    json_object_foreach((json_t *)j, key, v) {
        if (read_option(f, &s, key, v, &rc)) {
            CAY_TRY(rc);
        } else if (!strcmp(key, "content") && json_is_string(v) && !s.data && !src) {
            s.data = json_string_value(v);
            s.len = json_string_length(v);
        } else if (!strcmp(key, "base64") && json_is_string(v) && !s.data && !src) {
            if (!cay__base64_get(&raw, json_string_value(v), json_string_length(v)))
                return cay__tfile_bad(f, "base64: it cannot be read");
            s.data = CAY_OR(raw.data, "");
            s.len = raw.len;
        } else if (!strcmp(key, "src") && !s.data && !src) {
            if (!(src = cay__tfile_text(f, v)))
                return CAY_EINVAL;
        } else
            return cay__tfile_bad(
                f, "%.40s: a file has one of content, base64 and src, and mode and owner", key);
    }
    if (!s.data && !src)
        return cay__tfile_bad(f, "it has neither content, base64 nor src");
    CAY_TRY(cay__tfile_step(f, src ? CAY__STEP_COPY : CAY__STEP_FILE, &out));
    const char **w = cay__arena_take(&f->r->mem, 3 * sizeof *w);
    w[0] = CAY_OR(src, cay__arena_str(&f->r->mem, path));
    if (src)
        w[1] = cay__arena_str(&f->r->mem, path);
    char *data = NULL;
    if (!src) {
        data = cay__arena_take(&f->r->mem, s.len + 1);
        memcpy(data, s.data, s.len);
    }
    *out = (cay__step){ .kind = out->kind,
                        .line = f->no,
                        .words = w,
                        .nwords = src ? 2 : 1,
                        .literal = true,
                        .chown = s.chown,
                        .chmod = s.chmod,
                        .data = data,
                        .len = s.len };
    cay__tfile_tell(f, out);
    return 0;
}

int cay__tfile_files(cay__tfile *f, const json_t *j)
{
    const char *path;
    json_t *v;
    if (!json_is_object(j))
        return cay__tfile_bad(f, "it is an object: by path");
    json_object_foreach((json_t *)j, path, v) {
        cay__tfile_at(f, "files.%.100s", path);
        f->no++;
        CAY_TRY(one_file(f, path, v));
    }
    return 0;
}

static int one_text(cay__tfile *f, const json_t *j, cay__step_kind kind)
{
    cay__step *s;
    cay__words w = { cay__arena_take(&f->r->mem, 2 * sizeof *w.w), 1 };
    if (!(w.w[0] = cay__tfile_text(f, j)))
        return CAY_EINVAL;
    if (!*w.w[0])
        return cay__tfile_bad(f, "it is empty");
    return cay__tfile_words(f, kind, &w, kind == CAY__STEP_USER, &s);
}

int cay__tfile_workdir(cay__tfile *f, const json_t *j)
{
    return one_text(f, j, CAY__STEP_WORKDIR);
}
static int step_user(cay__tfile *f, const json_t *j)
{
    return one_text(f, j, CAY__STEP_USER);
}

static int step_copies(cay__tfile *f, const json_t *j, cay__step_kind kind)
{
    cay__step s = { .kind = kind }, *out;
    cay__words src = { 0 };
    const char *key, *dest = NULL;
    json_t *v;
    int rc = 0;
    if (!json_is_object(j))
        return cay__tfile_bad(f, "it is {\"src\", \"dest\", …}");
    json_object_foreach((json_t *)j, key, v) {
        if (read_option(f, &s, key, v, &rc)) {
            CAY_TRY(rc);
        } else if (!strcmp(key, "src")) {
            CAY_TRY(cay__tfile_list(f, v, &src));
        } else {
            const char **to;
            if (!strcmp(key, "dest"))
                to = &dest;
            else if (!strcmp(key, "from") && kind == CAY__STEP_COPY)
                to = &s.from;
            else if (!strcmp(key, "archive") && kind == CAY__STEP_COPY)
                to = &s.archive;
            else if (!strcmp(key, "checksum") && kind == CAY__STEP_ADD)
                to = &s.checksum;
            else
                to = NULL;
            if (!to)
                return cay__tfile_bad(f, "%.40s: it has src, dest, owner, mode%s", key,
                                      kind == CAY__STEP_COPY ? ", from and archive"
                                                             : " and checksum");
            if (!(*to = cay__tfile_text(f, v)))
                return CAY_EINVAL;
        }
    }
    if (!src.n || !dest || !*dest)
        return cay__tfile_bad(f, "it needs src and dest");
    if (s.archive && (s.from || !cay__hex_is(s.archive, 64)))
        return cay__tfile_bad(f, s.from
                                     ? "it has from or archive, not both"
                                     : "archive is a SHA-256: 64 hexadecimal digits in lower case");
    CAY_TRY(cay__tfile_step(f, kind, &out));
    const char **w = cay__arena_take(&f->r->mem, (src.n + 2) * sizeof *w);
    memcpy(w, src.w, src.n * sizeof *w);
    w[src.n] = dest;
    s.line = f->no;
    s.words = w;
    s.nwords = src.n + 1;
    s.literal = true;
    *out = s;
    cay__tfile_tell(f, out);
    return 0;
}

static int step_copy(cay__tfile *f, const json_t *j)
{
    return step_copies(f, j, CAY__STEP_COPY);
}
static int step_add(cay__tfile *f, const json_t *j)
{
    return step_copies(f, j, CAY__STEP_ADD);
}

static int step_file(cay__tfile *f, const json_t *j)
{
    const char *path = cay__json_str(j, "path", NULL);
    if (!json_is_object(j) || !path)
        return cay__tfile_bad(f, "it is {\"path\", \"content\", …}");
    CAY_AUTOJSON *rest = json_copy((json_t *)j);
    json_object_del(rest, "path");
    return one_file(f, path, rest);
}

static const cay__tfield step_fields[] = {
    { "run", on_command },
    { "copy", step_copy },
    { "add", step_add },
    { "file", step_file },
    { "env", cay__tfile_env },
    { "workdir", cay__tfile_workdir },
    { "user", step_user },
    { "packages", cay__tfile_packages },
    { 0 },
};

int cay__tfile_steps(cay__tfile *f, const json_t *j)
{
    if (!json_is_array(j))
        return cay__tfile_bad(f, "it is a list of steps");
    for (size_t i = 0; i < json_array_size(j); i++) {
        const json_t *one = json_array_get(j, i);
        const char *key = json_object_iter_key(json_object_iter((json_t *)one));
        const cay__tfield *d = step_fields;
        cay__tfile_at(f, "steps[%zu]", i);
        if (!json_is_object(one) || json_object_size(one) != 1)
            return cay__tfile_bad(f, "a step is an object with one member: run, copy, add, file, "
                                     "env, workdir, user or packages");
        while (d->name && strcmp(d->name, key))
            d++;
        cay__tfile_at(f, "steps[%zu].%.60s", i, key);
        if (!d->name)
            return cay__tfile_bad(
                f, "no such step; there are run, copy, add, file, env, workdir, user and packages");
        f->no++;
        CAY_TRY(d->on(f, json_object_get(one, key)));
    }
    return 0;
}
