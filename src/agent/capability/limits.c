/* SPDX-License-Identifier: Apache-2.0 */
/* Allow-lists of an agent: exec, read, write and network; who holds them, and what that cannot
 * stop. */
#include <agent/run.h>
#include <cay/policy.h>
#include <poll.h>

enum { LIST_MAX = 256, DEEP = 4 };

typedef struct list {
    char **v; /* NULL-terminated */
    size_t n;
} list;

static void list_free(void *self)
{
    list *l = self;
    CAY_EACH_OF(it, l->v, l->n)
        free(*it);
    free(l->v);
    free(l);
}

static void list_add(list *l, const char *text)
{
    CAY_GROW(l->v, l->n + 1);
    l->v[l->n++] = cay__strdup(text);
    l->v[l->n] = NULL;
}

static bool sound_path(const char *p)
{
    return *p && strlen(p) < 1024 && !strchr(p, '\n') && strcmp(p, "..") && strncmp(p, "../", 3) &&
           !strstr(p, "/../") && (strlen(p) < 3 || strcmp(p + strlen(p) - 3, "/.."));
}

static int make_capability(const char *what, const cay_capability_ops *ops,
                           const cay_list_options *given, cay_capability **out, cay_err *err)
{
    cay_list_options o;
    CAY_TRY(cay__spec_take(&o, sizeof o, given, "cay_list_options", err));
    list *l = cay__alloc(sizeof *l);
    l->v = cay__alloc(sizeof *l->v);
    for (size_t i = 0; o.list && o.list[i]; i++) {
        if (!sound_path(o.list[i]) || l->n == LIST_MAX) {
            list_free(l);
            return cay_fail_why(err, CAY_EINVAL, "capability_list",
                                "%s \"%.100s\": want at most %d, none empty or with ..", what,
                                o.list[i], LIST_MAX);
        }
        list_add(l, o.list[i]);
    }
    *out = cay_capability_new(ops, l);
    return 0;
}

/* These three only stand in the agent's list; cay__limits_make() reads them. */
static const cay_capability_ops exec_ops = { .size = sizeof exec_ops,
                                             .name = "exec",
                                             .close = list_free };
static const cay_capability_ops read_ops = { .size = sizeof read_ops,
                                             .name = "read",
                                             .close = list_free };
static const cay_capability_ops write_ops = { .size = sizeof write_ops,
                                              .name = "write",
                                              .close = list_free };

int cay_cap_exec(const cay_list_options *o, cay_capability **out, cay_err *err)
{
    return make_capability("program", &exec_ops, o, out, err);
}
int cay_cap_read(const cay_list_options *o, cay_capability **out, cay_err *err)
{
    return make_capability("path", &read_ops, o, out, err);
}
int cay_cap_write(const cay_list_options *o, cay_capability **out, cay_err *err)
{
    return make_capability("path", &write_ops, o, out, err);
}

typedef struct net {
    cay_sandbox *sb;
    char *before;
} net;

static int net_start(void *self, const cay_scope_info *scope, void **bound, cay_err *err)
{
    const list *l = self;
    cay_policy spec = { .size = sizeof spec,
                        .rules = (const char *const *)l->v,
                        .mode = l->n ? CAY_NET_AUTO : CAY_NET_OFF };
    CAY_AUTOFREE char *text = NULL;
    net *n = cay__alloc(sizeof *n);
    const cay_call *call = cay_run_call(scope->run);
    n->sb = cay_sandbox_ref(scope->sandbox);
    int rc = cay_policy_text(&spec, &text, err);
    if (rc == 0)
        rc = cay_sandbox_get_policy(n->sb, call, &n->before, NULL, err);
    if (rc == 0)
        rc = cay_sandbox_set_policy(n->sb, call, text, NULL, err);
    if (rc < 0) {
        free(n->before);
        cay_sandbox_unref(n->sb);
        free(n);
        return rc;
    }
    *bound = n;
    return 0;
}

static void net_stop(void *bound)
{
    net *n = bound;
    cay_sandbox_set_policy(n->sb, NULL, n->before, NULL, NULL);
    free(n->before);
    cay_sandbox_unref(n->sb);
    free(n);
}

static int net_tell(void *bound, char **text, cay_err *err)
{
    net *n = bound;
    CAY_AUTOFREE char *now = NULL, *json = NULL;
    CAY_AUTOBUF b = CAY__BUF(16384);
    *text = NULL;
    CAY_TRY(cay_sandbox_get_policy(n->sb, NULL, &now, NULL, err));
    CAY_TRY(cay_policy_to_json(now, &json, err));
    cay__buf_fmt(&b, "## Network\n- You reach only what this policy allows: %s", json);
    *text = CAY_STEAL(b.data);
    return 0;
}

static const cay_capability_ops net_ops = { .size = sizeof net_ops,
                                            .name = "network",
                                            .start = net_start,
                                            .stop = net_stop,
                                            .instructions = net_tell,
                                            .close = list_free };

int cay_cap_network(const cay_list_options *given, cay_capability **out, cay_err *err)
{
    CAY_AUTOFREE char *text = NULL;
    cay_list_options o;
    CAY_TRY(cay__spec_take(&o, sizeof o, given, "cay_list_options", err));
    cay_policy spec = { .size = sizeof spec,
                        .rules = o.list,
                        .mode = o.list && o.list[0] ? CAY_NET_AUTO : CAY_NET_OFF };
    CAY_TRY(cay_policy_text(&spec, &text,
                            err)); /* what is no rule is said now, not in the middle of a run */
    return make_capability("rule", &net_ops, &o, out, err);
}

static const char *const places[] = { "/usr/local/bin",  "/usr/bin",  "/bin",
                                      "/usr/local/sbin", "/usr/sbin", "/sbin" };
/* What the kernel starts in front of a program that is not static. */
static const char *const loaders[] = { "/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-x86-64.so.2",
                                       "/lib/ld-linux-aarch64.so.1",  "/lib/ld-musl-x86_64.so.1",
                                       "/lib/ld-musl-aarch64.so.1",   "/lib/ld-linux.so.2" };

struct cay__limits {
    cay_fence fence;
    list *lists[3]; /* exec, read, write; NULL: everything */
    char *report;
};

static bool find_program(cay_run *r, cay__seat *s, const char *name, char *path, size_t cap)
{
    cay_stat st = { .size_of = sizeof st };
    bool named = strchr(name, '/');
    CAY_EACH_OF(place, places, named ? 1 : CAY_LEN(places)) {
        const char *dir;
        if (named)
            dir = s->workdir;
        else
            dir = *place;
        if ((size_t)snprintf(path, cap, "%s%s%s", CAY_TEXT_IF(*name != '/', dir),
                             CAY_TEXT_IF(*name != '/', "/"), name) < cap &&
            cay_file_stat(s->sb, r->call, path, true, &st, NULL) == 0 && st.type == CAY_FILE)
            return true;
    }
    return false;
}

/* The words behind "#!" of a script; false for anything else. */
static bool first_line(cay_run *r, cay__seat *s, const char *path, char *line, size_t cap)
{
    CAY_AUTOFD fd = -1;
    cay_read spec = { .size = sizeof spec, .length = cap - 1 };
    size_t n = 0;
    if (cay_file_open_read(s->sb, r->call, path, &spec, &fd, NULL) < 0)
        return false;
    for (ssize_t k = 1; k > 0 && n<cap - 1; n += k> 0 ? (size_t)k : 0) {
        struct pollfd p = { .fd = fd, .events = POLLIN };
        if (poll(&p, 1, 10000) > 0)
            k = read(fd, line + n, cap - 1 - n);
        else
            k = 0;
    }
    line[n] = 0;
    line[strcspn(line, "\n")] = 0;
    return !strncmp(line, "#!", 2);
}

static int add_program(cay_run *r, cay__seat *s, list *l, const char *name, int depth, cay_err *err)
{
    char path[1200], line[256];
    if (!find_program(r, s, name, path, sizeof path)) {
        if (depth)
            return 0;
        return cay_fail_why(err, CAY_ENOENT, "capability_list",
                            "capability exec of agent %.60s: there is no program %.100s in "
                            "its sandbox",
                            s->agent->name, name);
    }
    list_add(l, path);
    if (depth >= DEEP || !first_line(r, s, path, line, sizeof line))
        return 0;
    char *more = NULL, *interpreter = strtok_r(line + 2, " \t", &more),
         *word = CAY_IF(interpreter, strtok_r(NULL, " \t", &more));
    if (interpreter)
        CAY_TRY(add_program(r, s, l, interpreter, depth + 1, err));
    if (word && *word != '-' && strlen(interpreter) > 4 &&
        !strcmp(interpreter + strlen(interpreter) - 4, "/env"))
        CAY_TRY(add_program(r, s, l, word, depth + 1, err));
    return 0;
}

static int resolve_programs(cay_run *r, cay__seat *s, const list *from, list *to, cay_err *err)
{
    static const char *const shells[] = { "sh", "bash" };
    CAY_EACH_OF(it, from->v, from->n)
        CAY_TRY(add_program(r, s, to, *it, 0, err));
    CAY_EACH(shell, shells)
        CAY_TRY(add_program(r, s, to, *shell, 1, err));
    CAY_EACH(loader, loaders)
        list_add(to, *loader);
    return 0;
}

static void resolve_paths(const cay__seat *s, const list *from, list *to)
{
    char path[2200];
    for (size_t i = 0; i < from->n; i++) {
        CAY_FORMAT(path, "%s%s%s", *from->v[i] == '/' ? "" : s->workdir,
                   *from->v[i] == '/' ? "" : "/", CAY_TEXT_IF(strcmp(from->v[i], "."), from->v[i]));
        list_add(to, path);
    }
}

static const struct {
    const char *name, *files, *cannot_stop[4];
} kinds[] = {
    { "exec",
      "none",
      { "what a program that was allowed can do by itself: a shell's own commands, an "
        "interpreter's code",
        "the system's loader run as a program maps any file that may be read",
        "a program in a file that the agent may write is whatever it writes there", NULL } },
    { "read",
      "path",
      { "names, sizes and times of files: stat(2) is not held",
        "processes that ran before, when they are asked by a socket",
        "a link that changes while a tool looks through it", NULL } },
    { "write",
      "path",
      { "modes, owners, times and attributes of files that the user owns",
        "processes that ran before, when they are asked by a socket",
        "a link that changes while a tool looks through it", NULL } },
};

static json_t *describe_limit(cay_run *r, const cay__seat *s, size_t kind, const list *l)
{
    json_t *allows = json_array(), *not = json_array();
    cay_info *info = NULL;
    bool native = cay_sandbox_describe(s->sb, r->call, &info, NULL) == 0 && info->provider &&
                  !strcmp(info->provider, "native");
    if (info)
        cay_info_free(info);
    CAY_EACH_OF(it, l->v, l->n)
        json_array_append_new(allows, json_string(*it));
    for (const char *const *w = kinds[kind].cannot_stop; *w; w++)
        json_array_append_new(not, json_string(*w));
    return json_pack("{s:s, s:o, s:s, s:s, s:o}", "capability", kinds[kind].name, "allows", allows,
                     "commands", native ? "kernel" : "refused", "files", kinds[kind].files,
                     "cannot_stop", not );
}

static void report_network(const cay__seat *s, json_t *all)
{
    for (size_t i = 0; s->agent->capabilities && i < s->agent->ncapabilities; i++) {
        const list *l = cay__capability_self(s->agent->capabilities[i], "network");
        json_t *rules = CAY_IF(l, json_array());
        for (size_t k = 0; l && k < l->n; k++)
            json_array_append_new(rules, json_string(l->v[k]));
        if (l)
            json_array_append_new(
                all, json_pack("{s:s, s:o, s:s, s:s, s:[s, s]}", "capability", "network", "allows",
                               rules, "commands", "egress", "files", "none", "cannot_stop",
                               "what an allowed server passes on", "traffic inside the sandbox"));
    }
}

int cay__limits_make(cay_run *r, cay__seat *s, struct cay__limits **out, cay_err *err)
{
    struct cay__limits *l = cay__alloc(sizeof *l);
    CAY_AUTOJSON *all = json_array();
    int rc = 0;
    bool any = false;
    for (size_t i = 0; rc == 0 && s->agent->capabilities && i < s->agent->ncapabilities; i++)
        for (size_t k = 0; rc == 0 && k < CAY_LEN(kinds); k++) {
            const list *from = cay__capability_self(s->agent->capabilities[i], kinds[k].name);
            if (!from)
                continue;
            if (!l->lists[k]) {
                l->lists[k] = cay__alloc(sizeof *l->lists[k]);
                l->lists[k]->v = cay__alloc(sizeof *l->lists[k]->v);
            }
            any = true;
            if (k == 0)
                rc = resolve_programs(r, s, from, l->lists[k], err);
            else
                resolve_paths(s, from, l->lists[k]);
        }
    for (size_t k = 0; rc == 0 && k < CAY_LEN(kinds); k++)
        if (l->lists[k])
            json_array_append_new(all, describe_limit(r, s, k, l->lists[k]));
    report_network(s, all);
    if (rc < 0 || !json_array_size(all)) {
        cay__limits_free(l);
        return rc;
    }
    l->fence = (cay_fence){ .size = any ? sizeof l->fence : 0, .workdir = s->workdir };
    const char *const **targets[] = { &l->fence.exec, &l->fence.read, &l->fence.write };
    for (size_t k = 0; k < CAY_LEN(kinds); k++) {
        *targets[k] = CAY_IF(l->lists[k], (const char *const *)l->lists[k]->v);
    }
    l->report = cay__json_text(all, CAY__TEXT_MAX);
    *out = l;
    return cay__run_event(r, CAY_RUN_NOTE, "enforced", all, err);
}

void cay__limits_free(struct cay__limits *l)
{
    if (!l)
        return;
    CAY_EACH_OF(it, l->lists, CAY_LEN(kinds))
        if (*it)
            list_free(*it);
    free(l->report);
    free(l);
}

const cay_fence *cay__limits_fence(const struct cay__limits *l)
{
    if (l && l->fence.size)
        return &l->fence;
    return NULL;
}

const char *cay_run_report(const cay_run *r)
{
    if (r->seat && r->seat->limits && r->seat->limits->report)
        return r->seat->limits->report;
    return "[]";
}
