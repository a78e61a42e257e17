/* SPDX-License-Identifier: Apache-2.0 */
/* An image that the engine builds of a directory and its Dockerfile: the directory goes there as a
 * tar, what the engine says comes back line by line. */
#include "docker.h"
#include <base/base64.h>
#include <lib/template/build_tree.h>
#include <base/tar.h>

enum { FILE_MAX = 1 << 20, ARGS_MAX = 64 << 10, CHUNK = 1 << 17, STARTS = 64 };
#define USUAL_FILE "Dockerfile"
#define IGNORE     ".dockerignore"

typedef struct source {
    char dir[4096], file[256]; /* of this machine; the Dockerfile in it */
    char *text;                /* of the Dockerfile */
} source;

static int not_there(const char *path, cay_err *err)
{
    return cay_fail_why(
        err, CAY_ENOENT, "dockerfile_not_found",
        "%.160s: there is no Dockerfile; give the directory that has one, or the file itself",
        path);
}

/* A directory with a Dockerfile, or such a file, whose directory is the context. */
static int find_source(const char *path, source *s, cay_err *err)
{
    struct stat st;
    char real[4096];
    if (!realpath(path, real) || stat(real, &st) < 0)
        return not_there(path, err);
    char *slash = strrchr(real, '/');
    bool dir = S_ISDIR(st.st_mode);
    if ((!dir && !S_ISREG(st.st_mode)) || !CAY_COPY(s->file, dir ? USUAL_FILE : slash + 1))
        return not_there(path, err);
    if (!dir)
        slash[slash == real] = 0;
    CAY_COPY(s->dir, real);
    CAY_AUTOFD at = open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd = -1;
    if (at >= 0)
        fd = openat(at, s->file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return not_there(path, err);
    if (st.st_size > FILE_MAX)
        return cay_fail_why(err, CAY_ETOOBIG, "dockerfile_invalid", "%.160s is larger than 1 MiB",
                            path);
    s->text = cay__alloc((size_t)st.st_size + 1);
    ssize_t n = cay__fd_read_all(fd, s->text, (size_t)st.st_size);
    if (n <= 0 || memchr(s->text, 0, (size_t)n))
        return cay_fail_why(err, CAY_EINVAL, "dockerfile_invalid", "%.160s is %s", path,
                            n <= 0 ? "empty" : "no text");
    return 0;
}

/* A JSON object of texts, or lines of KEY=VALUE. */
static int read_args(const char *text, json_t **out, cay_err *err)
{
    CAY_AUTOJSON *o = NULL;
    const char *key;
    json_t *v;
    if (text && *text == '{') {
        CAY_TRY(cay__json_object("build_args", text, &o, err));
        json_object_foreach(o, key, v) {
            if (!json_is_string(v) || !*key)
                return cay_fail_why(err, CAY_EINVAL, "option_invalid",
                                    "option build_args: %.60s has no text for a value", key);
        }
        *out = json_incref(o);
        return 0;
    }
    o = json_object();
    for (size_t n; text && *text; text += n + (text[n] == '\n')) {
        n = strcspn(text, "\n");
        const char *eq = memchr(text, '=', n);
        if (!eq || eq == text)
            return cay_fail_why(err, CAY_EINVAL, "option_invalid",
                                "option build_args: %.*s is no KEY=VALUE",
                                (int)CAY_MIN(n, (size_t)60), text);
        CAY_AUTOFREE char *name = strndup(text, (size_t)(eq - text));
        if (json_object_set_new(o, name, json_stringn(eq + 1, n - (size_t)(eq + 1 - text))) < 0)
            return cay_fail_why(err, CAY_EINVAL, "not_utf8",
                                "option build_args: an engine takes UTF-8 alone");
    }
    *out = json_incref(o);
    return 0;
}

static int flush_buffer(cay__buf *b, int fd, cay_err *err)
{
    if (b->full || !cay__fd_write_all(fd, b->data, b->len))
        return cay_fail_sys(err, "write the build's context below the state directory");
    b->len = 0;
    return 0;
}

/* As many bytes as its head said, whoever writes into it meanwhile. */
static int put_bytes(const cay__tree *t, const cay__twig *w, cay__buf *b, int out,
                     const cay_call *call, cay_err *err)
{
    CAY_AUTOFD fd = -1;
    CAY_TRY(cay__tree_open(t, w, call, &fd, err));
    for (uint64_t left = w->size; left;) {
        CAY_TRY(cay__call_check(call, "read the build's context", err));
        size_t want = (size_t)CAY_MIN(left, (uint64_t)CHUNK);
        char *room = cay__buf_room(b, want);
        ssize_t n = -1;
        if (room)
            n = read(fd, room, want);
        if (n <= 0) {
            CAY_TRY_SYS(n, err, "read %.200s", w->path);
            return cay_fail_why(err, CAY_EBUSY, "build_context",
                                "%.200s was changed while it was read; try again", w->path);
        }
        cay__buf_used(b, (size_t)n);
        left -= (uint64_t)n;
        CAY_TRY(flush_buffer(b, out, err));
    }
    cay__tar_pad(b, w->size);
    return 0;
}

static int put_tree(const cay__tree *t, int out, const cay_call *call, cay_err *err)
{
    static const char end[1024];
    CAY_AUTOBUF b = CAY__BUF(4u << 20);
    CAY_AUTOFREE cay__member *m = cay__alloc(sizeof *m);
    CAY_EACH_OF(w, t->twigs, t->n) {
        if (!*w->path)
            continue;
        *m = (cay__member){ .type = '2', .mode = w->mode };
        if (w->type == 'f') {
            m->type = '0';
            m->size = w->size;
        } else if (w->type == 'd')
            m->type = '5';
        if (!CAY_JOIN(m->name, w->path, CAY_TEXT_IF(w->type == 'd', "/")) ||
            !CAY_COPY(m->target, CAY_OR(w->target, "")))
            return cay_fail_why(err, CAY_EINVAL, "build_context",
                                "%.200s is longer than a tar can tell", w->path);
        cay__tar_head(&b, m);
        if (w->type == 'f')
            CAY_TRY(put_bytes(t, w, &b, out, call, err));
        if (b.len > CHUNK)
            CAY_TRY(flush_buffer(&b, out, err));
    }
    cay__buf_add(&b, end, sizeof end);
    return flush_buffer(&b, out, err);
}

/* The Dockerfile and .dockerignore go along even where a pattern leaves them out: the engine reads
 * the one, and leaves both out itself. */
static int with_own(const char *rules, const source *s, cay__buf *out)
{
    cay__buf_fmt(out, "%s\n!%s\n!" IGNORE "\n", rules, s->file);
    if (out->full)
        return -1;
    return 0;
}

static int make_context(cay__docker *d, const cay_call *call, const source *s, int *out,
                        uint64_t *len, cay_err *err)
{
    cay__tree tree = { .dir = -1 };
    CAY_AUTOBUF rules = CAY__BUF(FILE_MAX + 1024);
    CAY_AUTOFREE char *own = cay__alloc(FILE_MAX + 1);
    int at = open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CAY_TRY_SYS(at, err, "open %.200s", s->dir);
    ssize_t n = cay__fd_read_file(at, IGNORE, own, FILE_MAX);
    bool some = n > 0 && with_own(own, s, &rules) == 0;
    CAY_TRY(cay__tree_dir(&tree, at, CAY_IF(some, rules.data), some ? rules.len : 0, call, err));
    CAY_AUTOFD fd = openat(d->boxes, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    int rc;
    if (fd < 0)
        rc = cay_fail_sys(err, "make a file in %.200s", d->dir);
    else
        rc = put_tree(&tree, fd, call, err);
    cay__tree_clear(&tree);
    CAY_TRY(rc);
    off_t size = lseek(fd, 0, SEEK_CUR);
    if (size < 0 || lseek(fd, 0, SEEK_SET) != 0)
        return cay_fail_sys(err, "make the build's context");
    *len = (uint64_t)size;
    *out = CAY_STEAL_FD(fd);
    return 0;
}

/* The image of a FROM line, or false. A stage's name is no registry's, and costs nothing to ask
 * for. */
static bool from_line(const char **at, char *out, size_t cap)
{
    for (; **at; *at += strcspn(*at, "\n"), *at += **at == '\n') {
        const char *s = *at + strspn(*at, " \t");
        if (strncasecmp(s, "from", 4) != 0 || !strchr(" \t", s[4]))
            continue;
        s += 4 + strspn(s + 4, " \t");
        while (*s == '-') { /* --platform=… */
            s += strcspn(s, " \t\n");
            s += strspn(s, " \t");
        }
        size_t n = strcspn(s, " \t\r\n");
        if (!n || n >= cap || memchr(s, '$', n))
            continue;
        memcpy(out, s, n);
        out[n] = 0;
        *at += strcspn(*at, "\n");
        return true;
    }
    return false;
}

/* "X-Registry-Config: …": of each registry that a FROM names, what the user's Docker configuration
 * has for it. */
static int registry_config(const cay_call *call, const char *text, char **out, cay_err *err)
{
    CAY_AUTOJSON *all = json_object();
    char image[512], registry[256];
    for (int i = 0; i < STARTS && from_line(&text, image, sizeof image); i++) {
        CAY_AUTOFREE char *auth = NULL;
        CAY_AUTOBUF plain = CAY__BUF(256u << 10);
        CAY_AUTOJSON *o = NULL;
        cay__docker_registry(image, registry, sizeof registry);
        if (json_object_get(all, registry))
            continue;
        CAY_TRY(cay__docker_auth(call, image, &auth, err));
        for (char *p = auth; *p; p++) /* of the URL's alphabet */
        {
            if (*p == '-')
                *p = '+';
            else if (*p == '_')
                *p = '/';
        }
        if (*auth && cay__base64_get(&plain, auth, strlen(auth)) &&
            cay__json_object("auth", plain.data, &o, NULL) == 0)
            json_object_set(all, registry, o);
    }
    CAY_AUTOFREE char *json = NULL;
    if (json_object_size(all))
        json = cay__json_text(all, 256 << 10);
    CAY_AUTOBUF b = CAY__BUF(512u << 10);
    if (json) {
        cay__buf_str(&b, "X-Registry-Config: ");
        cay__base64_put(&b, json, strlen(json));
        cay__buf_str(&b, "\r\n");
        for (char *p = b.data + strlen("X-Registry-Config: "); p && *p; p++) {
            if (*p == '+')
                *p = '-';
            else if (*p == '/')
                *p = '_';
        }
    }
    *out = CAY_IF(b.data && !b.full, cay__strdup(b.data));
    return 0;
}

typedef struct building {
    const cay_create *c;
    const char *dir;
} building;

static int fail_build(const building *b, const char *said, cay_err *err)
{
    CAY_AUTOBUF text = CAY__BUF(1024);
    cay_err why = CAY_ERR_INIT;
    cay__engine_error(500, said, &why);
    if (!cay_err_is(&why, CAY_REASON_ENGINE_FAILED) &&
        err) { /* a word that is known: the disk is full, the registry asks who comes */
        *err = why;
        return why.code;
    }
    cay__buf_safe(&text, said, CAY_MIN(strlen(said), (size_t)200), false);
    bool form = strcasestr(said, "parse error") || strcasestr(said, "unknown instruction") ||
                strcasestr(said, "unknown flag") || strcasestr(said, "requires") ||
                strcasestr(said, "no build stage");
    return cay_fail_why(err, CAY_EINVAL, form ? "dockerfile_invalid" : "build_failed",
                        "build %.80s: %s", b->dir,
                        CAY_OR(text.data, "the engine does not say why"));
}

static int on_line(const json_t *line, void *arg, cay_err *err)
{
    building *b = arg;
    const char *bad = cay__json_str(line, "error", NULL),
               *stream = cay__json_str(line, "stream", "");
    if (bad)
        return fail_build(b, bad, err);
    for (size_t n; *stream; stream += n + (stream[n] == '\n')) { /* a piece may hold many lines */
        n = strcspn(stream, "\n");
        cay__docker_making(b->c, "build", stream, n, false);
    }
    cay__docker_making_line(b->c, line);
    return 0;
}

static void add_query(cay__buf *path, const char *key, const char *value)
{
    cay__buf_fmt(path, "&%s=", key);
    cay__engine_encode(path, value);
}

/* What RUN may use is what the sandbox may. */
static void add_limits(cay__buf *path, const cay_create *c, const cay__engine_info *engine)
{
    uint64_t memory = CAY_OR(c->limits.memory, 2ull << 30), cpu = CAY_OR(c->limits.cpu_milli, 2000);
    if (engine->memory && memory != CAY_UNLIMITED)
        cay__buf_fmt(path, "&memory=%llu&memswap=%llu", (unsigned long long)memory,
                     (unsigned long long)memory);
    if (engine->cpu && cpu != CAY_UNLIMITED)
        cay__buf_fmt(path, "&cpuperiod=100000&cpuquota=%llu", (unsigned long long)cpu * 100);
}

static int run_build(cay__docker *d, const cay_call *call, const cay__docker_options *o,
                     const cay_create *c, const source *s, const char *tag, cay_err *err)
{
    const cay__engine_info *engine;
    CAY_AUTOJSON *args = NULL;
    CAY_AUTOBUF path = CAY__BUF(64u << 10);
    CAY_AUTOFREE char *fields = NULL;
    uint64_t len = 0;
    CAY_AUTOFD context = -1;
    CAY_TRY(cay__engine_meet(d->engine, call, &engine, err));
    CAY_TRY(read_args(o->build_args, &args, err));
    CAY_AUTOFREE char *text = cay__json_text(args, ARGS_MAX);
    cay__buf_str(&path, "/build?rm=true&forcerm=true");
    add_query(&path, "t", tag);
    add_query(&path, "dockerfile", s->file);
    add_query(&path, "buildargs", CAY_OR(text, "{}"));
    if (o->platform)
        add_query(&path, "platform", o->platform);
    if (strcmp(o->network, "none") != 0)
        add_query(&path, "networkmode", o->network);
    if (!strcmp(o->pull, "always"))
        cay__buf_str(&path, "&pull=1");
    add_limits(&path, c, engine);
    CAY_TRY(registry_config(call, s->text, &fields, err));
    CAY_TRY(make_context(d, call, s, &context, &len, err));
    cay_err why = CAY_ERR_INIT;
    building b = { c, s->dir };
    int rc = cay__engine_lines(d->engine, call, path.data, fields, context, len, on_line, &b, &why);
    if (rc < 0 &&
        cay_err_is(&why, CAY_REASON_ENGINE_REFUSED)) /* what it says of the file before it begins */
        return fail_build(&b, why.msg, err);
    return cay__err_pass(rc, &why, err);
}

int cay__docker_build(cay__docker *d, const cay_call *call, const cay__docker_options *o,
                      const cay_create *c, cay__docker_image *out, cay_err *err)
{
    source s = { .text = NULL };
    char tag[64];
    int rc = find_source(o->dockerfile, &s, err);
    if (rc == 0) {
        /* One name for each directory, file and choice: what is built anew takes it over. */
        CAY_AUTOBUF all = CAY__BUF(128u << 10);
        cay__buf_fmt(&all, "%s\n%s\n%s\n%s", s.dir, s.file, CAY_OR(o->platform, ""),
                     CAY_OR(o->build_args, ""));
        CAY_FORMAT(tag, "localhost/cay-dockerfile:%08x%08x", cay__hash(all.data, all.len),
                   cay__hash(s.dir, strlen(s.dir)));
        rc = run_build(d, call, o, c, &s, tag, err);
    }
    free(s.text);
    CAY_TRY(rc);
    CAY_TRY(cay__docker_image_seen(d->engine, call, tag, out, err));
    out->of = cay__strdup(tag);
    return 0;
}
