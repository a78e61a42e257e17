/* SPDX-License-Identifier: Apache-2.0 */
/* Skills: directories with a SKILL.md. The model sees an index and reads one when its task is of
 * that kind. */
#include "skill.h"
#include <agent/run.h>
#include <cay/manifest.h>
#include <dirent.h>
#include <linux/openat2.h>

enum { INDEX_MAX = 256 };
#define NO_DESCRIPTION "No description; read its SKILL.md to find out."

typedef struct skills {
    cay__arena arena;
    cay_skill *v;
    size_t n;
    char *from, *lazy, *path;
} skills;

/* One line of the index. */
typedef struct listed {
    char dir[128];
    cay__front front;
} listed;

typedef struct bound {
    cay__kit k;
    const skills *s;
    listed *v;
    size_t n;
    int host; /* of lazy skills, or -1 */
    cay_tool load;
} bound;

static int fail_skills(cay_err *err, const char *what, const char *name)
{
    return cay_fail_why(err, CAY_EINVAL, "skills_config_invalid", "skills: %s%s%.100s", what,
                        CAY_TEXT_IF(*name, ": "), name);
}

static bool plain_path(const char *p)
{
    for (const char *s = p; *s; s += strcspn(s, "/"), s += *s == '/') {
        size_t n = strcspn(s, "/");
        if (!n || (n == 1 && *s == '.') || (n == 2 && s[0] == '.' && s[1] == '.'))
            return false;
    }
    return *p && *p != '/' && p[strlen(p) - 1] != '/' && !strchr(p, '\\');
}

/* SKILL.md with a front matter that says what the index says. */
static char *skill_text(const cay_skill *k)
{
    cay__front f;
    const char *body = CAY_OR(k->content, "");
    cay__buf b = CAY__BUF(CAY__SKILL_BYTES);
    cay__skill_front(body, strlen(body), &f);
    if (!*f.name && !*f.description) {
        cay__buf_fmt(&b, "---\nname: %s\ndescription: %s\n", k->name,
                     CAY_OR(k->description, NO_DESCRIPTION));
        if (k->compatibility)
            cay__buf_fmt(&b, "compatibility: %s\n", k->compatibility);
        cay__buf_str(&b, "---\n\n");
    }
    cay__buf_str(&b, body);
    return b.data;
}

/* Calls fn with every file of the literal skills, path relative to the workspace. */
static int each_file(const skills *s,
                     int (*fn)(const char *path, const char *data, size_t len, bool run, void *arg,
                               cay_err *err),
                     void *arg, cay_err *err)
{
    char path[2048];
    CAY_EACH_OF(it, s->v, s->n) {
        CAY_AUTOFREE char *text = skill_text(it);
        CAY_FORMAT(path, "%s/%s/SKILL.md", s->path, it->name);
        CAY_TRY(fn(path, text, strlen(text), false, arg, err));
        CAY_EACH_OF(f, it->files, it->nfiles) {
            CAY_FORMAT(path, "%s/%s/%s", s->path, it->name, f->path);
            CAY_TRY(fn(path, f->data, f->len, !strncmp(f->path, "scripts/", 8), arg, err));
        }
    }
    return 0;
}

static int add_entry(const char *path, const char *data, size_t len, bool run, void *arg,
                     cay_err *err)
{
    CAY_AUTOJSON *entry = json_pack("{s:s, s:o?, s:s}", "type", "file", "content",
                                    json_stringn(data, len), "permissions", run ? "0755" : "0644");
    json_t *entries = arg, *old = json_object_get(entries, path);
    if (!json_object_get(entry, "content"))
        return fail_skills(err, "a file is no UTF-8 text", path);
    if (old && !json_equal(old, entry))
        return fail_skills(err, "the manifest has something else there", path);
    json_object_set(entries, path, entry);
    return 0;
}

static int put_file(const char *path, const char *data, size_t len, bool run, void *arg,
                    cay_err *err)
{
    bound *b = arg;
    char whole[4096];
    cay_stat st = { .size_of = sizeof st };
    cay_write w = {
        .size = sizeof w, .parents = true, .mode = run ? 0755 : 0644, .user = b->k.user
    };
    CAY_FORMAT(whole, "%s/%s", b->k.root, path);
    if (cay_file_stat(b->k.sb, cay_run_call(b->k.run), whole, false, &st, NULL) == 0)
        return 0; /* by the manifest, or by a run before */
    return cay_file_put(b->k.sb, cay_run_call(b->k.run), whole, data, len, &w, err);
}

static bool has_overlap(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    if (n <= m)
        return !strncmp(a, b, n) && (!b[n] || b[n] == '/');
    return has_overlap(b, a);
}

static int change_manifest(void *self, const char *manifest, char **instead, cay_err *err)
{
    const skills *s = self;
    CAY_AUTOJSON *m = NULL;
    CAY_TRY(cay__json_object("the manifest", CAY_OR(manifest, "{}"), &m, err));
    json_t *entries = cay__json_object_in(m, "entries");
    if (s->lazy) {
        CAY_EACH_MEMBER(key, v, entries)
            if (has_overlap(key, s->path))
                return fail_skills(err, "the manifest has an entry where skills are loaded to",
                                   key);
        return 0;
    }
    if (s->from && !json_object_get(entries, s->path)) {
        json_t *entry = NULL;
        CAY_TRY(cay__json_object("skills", s->from, &entry, err));
        json_object_set_new(entries, s->path, entry);
    }
    CAY_TRY(each_file(s, add_entry, entries, err));
    *instead = cay__json_text(m, 64u << 20);
    return 0;
}

/* A sandbox that was given to the run has its manifest already: the source is added to it, as a
 * live one may be. */
static int bring_in(bound *b, cay_err *err)
{
    CAY_AUTOFREE char *old = NULL;
    CAY_AUTOFREE char *text = NULL;
    char whole[4096];
    cay_stat st = { .size_of = sizeof st };
    cay_err own = CAY_ERR_INIT;
    const cay_call *call = cay_run_call(b->k.run);
    CAY_FORMAT(whole, "%s/%s", b->k.root, b->s->path);
    if (cay_file_stat(b->k.sb, call, whole, false, &st, NULL) == 0)
        return 0; /* it came with the sandbox, or with a run before */
    int rc = cay_sandbox_manifest(b->k.sb, call, &old, &own);
    if (rc < 0 && !cay_err_is(&own, CAY_REASON_MANIFEST_MISSING))
        return cay__err_pass(rc, &own, err);
    CAY_TRY(change_manifest((void *)b->s, old, &text, err));
    /* The entry is the program's own word, not a model's: a whole path of the host is meant. */
    CAY_AUTOJSON *entry = NULL;
    CAY_TRY(cay__json_object("skills", b->s->from, &entry, err));
    const char *src = cay__json_str(entry, "src", "");
    return cay_sandbox_set_manifest(b->k.sb, call, text, CAY_IF(*src == '/', src), 0, err);
}

static void add_listed(bound *b, const char *dir, const char *text, size_t len)
{
    if (b->n == INDEX_MAX)
        return;
    listed *l = &b->v[b->n++];
    CAY_FORMAT(l->dir, "%.127s", dir);
    cay__skill_front(text, len, &l->front);
    if (!*l->front.name)
        CAY_FORMAT(l->front.name, "%.127s", dir);
    if (!*l->front.description)
        CAY_FORMAT(l->front.description, "%s", NO_DESCRIPTION);
}

static int by_dir(const void *a, const void *b)
{
    return strcmp(((const listed *)a)->dir, ((const listed *)b)->dir);
}

static int list_host(bound *b, cay_err *err)
{
    b->host = open(b->s->lazy, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = NULL;
    if (b->host >= 0)
        d = fdopendir(openat(b->host, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!d)
        return cay_fail_why(err, CAY_ENOENT, "skills_config_invalid", "skills: %.100s: %s",
                            b->s->lazy, strerror(errno));
    CAY_AUTOFREE char *text = cay__alloc(CAY__SKILL_HEAD + 1);
    for (struct dirent *e; (e = readdir(d));) {
        char path[300];
        if (!cay__skill_name(e->d_name))
            continue;
        CAY_FORMAT(path, "%s/SKILL.md", e->d_name);
        CAY_AUTOFD fd = cay__fd_openat2(b->host, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0,
                                        RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
        ssize_t n = -1;
        if (fd >= 0)
            n = cay__fd_read_all(fd, text, CAY__SKILL_HEAD);
        if (n >= 0)
            add_listed(b, e->d_name, text, (size_t)n);
    }
    closedir(d);
    return 0;
}

typedef struct found {
    char dir[INDEX_MAX][128];
    size_t n;
} found;

static int find_dir(const cay_dirent *e, void *arg)
{
    found *f = arg;
    if (e->st.type == CAY_DIR && f->n < INDEX_MAX && strlen(e->path) < sizeof f->dir[0] &&
        cay__skill_name(e->path))
        snprintf(f->dir[f->n++], sizeof f->dir[0], "%s", e->path);
    return 0;
}

/* What is in the sandbox now: of a source that the manifest brought. */
static int list_inside(bound *b, cay_err *err)
{
    char path[4096];
    CAY_AUTOFREE found *f = cay__alloc(sizeof *f);
    const cay_call *call = cay_run_call(b->k.run);
    CAY_FORMAT(path, "%s/%s", b->k.root, b->s->path);
    int rc = cay_dir_list(b->k.sb, call, path, 1, find_dir, f, err);
    if (rc == CAY_ENOENT)
        return 0;
    CAY_TRY(rc);
    CAY_EACH_OF(it, f->dir, f->n) {
        CAY_AUTOFREE char *text = NULL;
        size_t len = 0;
        CAY_FORMAT(path, "%s/%s/%s/SKILL.md", b->k.root, b->s->path, *it);
        if (cay_file_get(b->k.sb, call, path, CAY__SKILL_HEAD, &text, &len, NULL) == 0)
            add_listed(b, *it, text, len);
    }
    return 0;
}

static int write_instructions(void *arg, char **out, cay_err *err)
{
    const bound *b = arg;
    cay__buf t = CAY__BUF(1 << 20);
    if (!b->n)
        return 0;
    cay__buf_str(
        &t,
        "## Skills\nA skill is a directory with instructions in its SKILL.md. These are there:\n");
    CAY_EACH_OF(it, b->v, b->n)
        cay__buf_fmt(&t, "- %s: %s (file: %s/%s/SKILL.md)\n", it->front.name, it->front.description,
                     b->s->path, it->dir);
    cay__buf_str(
        &t,
        "- Use a skill when the user names it or the task clearly fits its description; not for "
        "other turns.\n"
        "- Read its SKILL.md first, and of its other files only what that asks for. Paths in it "
        "are relative to the skill's directory. Prefer its\n"
        "  scripts to writing your own.\n"
        "- If a skill is missing or cannot be used, say so in a sentence and go on without it.\n");
    if (b->host >= 0)
        cay__buf_str(&t, "- A skill is not in the workspace until load_skill has put it there.\n");
    *out = t.data;
    return 0;
}

static int report_skill(cay_tool_output *out, const char *status, const listed *l, const char *path)
{
    CAY_AUTOJSON *j =
        json_pack("{s:s, s:s, s:s}", "status", status, "skill_name", l->front.name, "path", path);
    CAY_AUTOFREE char *text = cay__json_text(j, 8192);
    cay_output_text(out, text, strlen(text));
    return 0;
}

static int load_skill(void *arg, const cay_tool_call *call, cay_tool_output *out, cay_err *err)
{
    bound *b = arg;
    CAY_AUTOJSON *a = NULL;
    CAY_AUTOBUF dirs = CAY__BUF(4096);
    const listed *hit = NULL;
    size_t hits = 0;
    char path[1024], whole[4096];
    cay_stat st = { .size_of = sizeof st };
    CAY_TRY(cay__json_object("its arguments", call->arguments, &a, err));
    const char *name = cay__json_str(a, "skill_name", "");
    CAY_EACH_OF(it, b->v, b->n)
        if (!strcmp(it->front.name, name) || !strcmp(it->dir, name)) {
            hit = it;
            hits++;
            cay__buf_fmt(&dirs, "%s%s", CAY_TEXT_IF(dirs.len, ", "), hit->dir);
        }
    if (hits != 1) {
        if (hits)
            return cay_fail(err, CAY_EINVAL, "skill \"%.100s\" is ambiguous: %.100s", name,
                            dirs.data);
        return cay_fail(err, CAY_ENOENT, "there is no skill \"%.100s\"", name);
    }
    CAY_FORMAT(path, "%.800s/%s", b->s->path, hit->dir);
    CAY_FORMAT(whole, "%s/%s", b->k.root, path);
    if (cay_file_stat(b->k.sb, cay_run_call(call->run), whole, false, &st, NULL) == 0)
        return report_skill(out, "already_loaded", hit, path);
    CAY_TRY(cay__skill_copy(b->k.sb, cay_run_call(call->run), b->host, hit->dir, whole, b->k.user,
                            err));
    return report_skill(out, "loaded", hit, path);
}

static void stop_capability(void *arg)
{
    bound *b = arg;
    cay__close_fd(&b->host);
    free(b->v);
    cay__kit_stop(b);
}

static int find_skills(bound *b, cay_err *err)
{
    if (b->s->lazy)
        return list_host(b, err);
    if (b->s->from)
        CAY_TRY(bring_in(b, err));
    CAY_TRY(each_file(b->s, put_file, b, err));
    return list_inside(b, err);
}

static int start_capability(void *self, const cay_scope_info *scope, void **out, cay_err *err)
{
    bound *b = cay__kit_begin(sizeof *b, scope);
    b->s = self;
    b->v = cay__alloc(INDEX_MAX * sizeof *b->v);
    b->host = -1;
    b->load = (cay_tool){ .size = sizeof b->load,
                          .name = "load_skill",
                          .description = "Puts a skill into the workspace and tells where.",
                          .call = load_skill,
                          .arg = b,
                          .parameters = "{\"type\":\"object\",\"required\":[\"skill_name\"],"
                                        "\"properties\":{\"skill_name\":{\"type\":\"string\"}}}" };
    b->k.tools[0] = &b->load;
    b->k.ntools = b->s->lazy != NULL;
    int rc = find_skills(b, err);
    if (rc < 0) {
        stop_capability(b);
        return rc;
    }
    qsort(b->v, b->n, sizeof *b->v, by_dir);
    *out = b;
    return 0;
}

static void close_skills(void *self)
{
    skills *s = self;
    cay__arena_clear(&s->arena);
    free(s);
}

CAY_DEFINE_AUTO(skills, close_skills)

static int copy_skill(skills *s, const cay_skill *k, cay_skill *out, cay_err *err)
{
    if (!k->name || !cay__skill_name(k->name))
        return fail_skills(err, "a name has letters, digits, . _ and -", CAY_OR(k->name, ""));
    cay_skill_file *files = cay__arena_take(&s->arena, (k->nfiles + 1) * sizeof *files);
    size_t n = 0;
    CAY_EACH_OF(f, k->files, k->nfiles) {
        if (!f->path || !plain_path(f->path) || !strcmp(f->path, "SKILL.md") ||
            (strncmp(f->path, "scripts/", 8) && strncmp(f->path, "references/", 11) &&
             strncmp(f->path, "assets/", 7)))
            return fail_skills(err, "a file is below scripts/, references/ or assets/",
                               CAY_OR(f->path, ""));
        CAY_EACH_OF(file, files, n)
            if (!strcmp(file->path, f->path))
                return fail_skills(err, "a file is given twice", f->path);
        char *data = cay__arena_take(&s->arena, f->len + 1);
        memcpy(data, f->data, f->len);
        files[n++] = (cay_skill_file){ cay__arena_str(&s->arena, f->path), data, f->len };
    }
    CAY_EACH_OF(it, s->v, s->n)
        if (!strcmp(it->name, k->name))
            return fail_skills(err, "a name is given twice", k->name);
    *out = (cay_skill){ cay__arena_str(&s->arena, k->name),
                        CAY_IF(k->description, cay__arena_str(&s->arena, k->description)),
                        cay__arena_str(&s->arena, k->content),
                        CAY_IF(k->compatibility, cay__arena_str(&s->arena, k->compatibility)),
                        files,
                        k->nfiles };
    return 0;
}

static const cay_capability_ops ops = { .size = sizeof ops,
                                        .name = "skills",
                                        .start = start_capability,
                                        .stop = stop_capability,
                                        .tools = cay__kit_tools,
                                        .instructions = write_instructions,
                                        .manifest = change_manifest,
                                        .close = close_skills,
                                        .brings = true };

int cay_cap_skills(const cay_skills_options *given, cay_capability **out, cay_err *err)
{
    cay_skills_options own, *o = &own;
    CAY_TRY(cay__spec_take(&own, sizeof own, given, "cay_skills_options", err));
    const char *path = CAY_OR(o->path, ".agents");
    if ((o->nskills > 0) + (o->from != NULL) + (o->lazy != NULL) != 1)
        return fail_skills(err, "give exactly one of skills, from and lazy", "");
    if (!plain_path(path) || strlen(path) > 800)
        return fail_skills(err, "path is a relative path without ..", path);
    CAY_AUTOPTR(skills) s = cay__alloc(sizeof *s);
    s->path = cay__arena_str(&s->arena, path);
    s->from = CAY_IF(o->from, cay__arena_str(&s->arena, o->from));
    s->lazy = CAY_IF(o->lazy, cay__arena_str(&s->arena, o->lazy));
    s->v = cay__arena_take(&s->arena, (o->nskills + 1) * sizeof *s->v);
    CAY_EACH_OF(skill, o->skills, o->nskills) {
        CAY_TRY(copy_skill(s, skill, &s->v[s->n], err));
        s->n++;
    }
    *out = cay_capability_new(&ops, CAY_STEAL(s));
    return 0;
}
