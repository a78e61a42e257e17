/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox_options.h"
#include "cli.h"
#include "out.h"
#include "parse.h"
#include <base/base.h>
#include <base/guarded.h>
#include <cay/policy.h>

#define MOST_BYTES (1ull << 60)
const opt_def box_opt_defs[] = {
    OPT_STR("--name NAME", "a name for people, of one sandbox only; ids work everywhere", box_opts,
            name),
    OPT_LIST("-l, --label KEY=VALUE", "a label; `cay ls --label` filters by it", box_opts, labels),
    OPT_STR("--template NAME", "what it starts from (default host: this machine's /usr, read-only)",
            box_opts, template_),
    OPT_STR("--image REF",
            "image of a container, by reference or id; with provider docker or podman", box_opts,
            image),
    OPT_STR("--dockerfile DIR",
            "build that image by the Dockerfile in DIR, or by that file; with provider docker or "
            "podman",
            box_opts, dockerfile),
    OPT_LIST("--build-arg KEY=VALUE",
             "a value for ARG of the Dockerfile; a bare KEY passes your own variable", box_opts,
             build_args),
    OPT_LIST(
        "--set NAME=VALUE",
        "a setting of the template, which `cay template inspect` lists; `permissions=bypass` of "
        "claude and codex",
        box_opts, settings),
    OPT_LIST("--option KEY=VALUE", "what only the chosen provider knows; docs/docker.md", box_opts,
             options),
    OPT_STR("--from SNAPSHOT", "begin with the files of a snapshot: an id or a label", box_opts,
            from),
    OPT_STR(
        "--manifest FILE",
        "what is put into it first: files, repositories, mounts, accounts; - reads standard input",
        box_opts, manifest),
    OPT_NUM("--checkpoint[=N]",
            "a snapshot after each command, for `cay undo`; the last N are kept (default 20)",
            box_opts, checkpoint, 1, 10000, .bare = "20"),
    OPT_STR("--on DIR",
            "show your directory at /workspace, copy-on-write; `cay diff` and `cay apply` tell and "
            "take "
            "what changed",
            box_opts, on),
    OPT_STR("--root DIR", "any root filesystem directory instead, read-only below", box_opts, root),
    OPT_LIST("--mount DIR[:TARGET][:ro|:rw]", "show a host directory inside; read-only unless :rw",
             box_opts, mounts),
    OPT_LIST("--volume NAME:TARGET[:ro]",
             "show a volume of `cay volume create` inside; writable unless :ro", box_opts, volumes),
    OPT_LIST("-e, --env KEY=VALUE", "environment; a bare KEY passes your own value", box_opts, env),
    OPT_LIST("--env-file FILE", "environment from lines of KEY=VALUE", box_opts, env_files),
    OPT_STR("-u, --user USER", "name or uid inside (default user, uid 1000)", box_opts, user),
    OPT_FLAG("--sudo", "our own sudo and su are in it: its users may become others inside",
             box_opts, sudo),
    OPT_STR("-w, --workdir DIR", "working directory inside (default /workspace)", box_opts,
            workdir),
    OPT_STR("--hostname NAME", "its host name (default cay)", box_opts, hostname),
    OPT_SIZE("-m, --memory SIZE", "most memory (default 2G)", box_opts, limits.memory, 1u << 20,
             MOST_BYTES),
    OPT_SIZE("--swap SIZE", "most swap (default none)", box_opts, limits.swap, 0, MOST_BYTES),
    OPT_CPUS("--cpus N", "CPU time, such as 0.5 or 2 (default 2)", box_opts, limits.cpu_milli),
    OPT_NUM("--pids N", "most processes and threads (default 512)", box_opts, limits.pids, 1,
            CAY_UNLIMITED),
    OPT_SIZE("--disk SIZE", "most disk for its own files (default 10G)", box_opts, limits.disk,
             1u << 20, MOST_BYTES),
    OPT_NUM("--inodes N", "most files of its own (default 1000000)", box_opts, limits.inodes, 16,
            CAY_UNLIMITED),
    OPT_NUM("--nofile N", "open files per process (default 4096)", box_opts, limits.nofile, 16,
            1u << 20),
    OPT_SIZE("--io-read SIZE", "bytes read from disk per second", box_opts, limits.io_read, 4096,
             MOST_BYTES),
    OPT_SIZE("--io-write SIZE", "bytes written to disk per second", box_opts, limits.io_write, 4096,
             MOST_BYTES),
    OPT_LIST(
        "--net off|all|RULE[,RULE…]",
        "what it may reach (default off): presets (pypi, github, …), names, CIDRs, :port; ! denies",
        box_opts, net),
    OPT_LIST(
        "--secret NAME=SOURCE@DESTINATION",
        "a secret that never enters: SOURCE env:VAR, file:PATH, cmd:NAME, store:NAME or fill:NAME; "
        "needs --net",
        box_opts, secrets),
    OPT_SIZE("--net-up SIZE", "bytes sent to the network per second", box_opts, net_up, 1024,
             1ull << 40),
    OPT_SIZE("--net-down SIZE", "bytes received per second", box_opts, net_down, 1024, 1ull << 40),
    OPT_NUM("--net-connections N", "connections to the network at once", box_opts, net_connections,
            1, 1000000),
    OPT_STR("--isolation LEVEL",
            "least wall accepted: process, rootless, root, vm; none gives no wall at all", box_opts,
            isolation),
    OPT_LIST("--require FEATURE",
             "refuse unless the host enforces it: memory-limit, pids-limit, disk-quota, …",
             box_opts, require),
    OPT_MS("--ttl TIME", "end it after this time", box_opts, ttl_ms, 1),
    OPT_MS("--idle TIME", "end it when nobody used it for this long", box_opts, idle_ms, 1),
    OPT_STR("--on-expiry kill|pause", "what ttl and idle do (default kill)", box_opts, on_expiry),
    OPT_STR("--metadata JSON", "one JSON object kept for you", box_opts, metadata),
    OPT_FLAG("--no-pin", "leave CPU affinity alone", box_opts, no_pin),
    OPT_FLAG("--durable", "survive a power cut too: slower writes", box_opts, durable),
    OPT_END
};

void pairs_add(cli_pairs *p, const char *key, const char *value)
{
    CAY_GROW(p->v, p->n + 1);
    p->v[p->n++] = (cay_pair){ key, value };
    p->v[p->n] = (cay_pair){ NULL, NULL };
}

static void add_owned(cli_pairs *p, char *s)
{
    CAY_GROW(p->owned, p->nowned);
    p->owned[p->nowned++] = s;
}

static int add_text(cli_pairs *p, const char *text, bool inherit, cay_err *err)
{
    char *key = NULL;
    const char *value = NULL;
    CAY_TRY(cli_parse_pair(text, inherit, &key, &value, err));
    add_owned(p, key);
    if (value)
        pairs_add(p, key, value);
    return 0;
}

/* Lines of KEY=VALUE; blank ones and those that start with # are skipped. */
static int add_file(cli_pairs *p, const char *path, cay_err *err)
{
    enum { MOST = 1 << 20 };
    CAY_AUTOFD fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return cay_fail_sys(err, "--env-file %s", path);
    char *text = cay__alloc(MOST + 1);
    add_owned(p, text);
    ssize_t n = cay__fd_read_all(fd, text, MOST);
    if (n < 0)
        return cay_fail_sys(err, "--env-file %s", path);
    if (n == MOST)
        return cay_fail(err, CAY_ETOOBIG, "--env-file %s is larger than 1 MiB", path);
    if (strlen(text) != (size_t)n)
        return cay_fail(err, CAY_EINVAL, "--env-file %s has a NUL byte", path);
    unsigned line = 0;
    for (char *s = text, *next; s; s = next) {
        line++;
        if ((next = strchr(s, '\n')))
            *next++ = 0;
        if (!*s || *s == '#')
            continue;
        int rc = add_text(p, s, true, err);
        if (rc < 0)
            return cay_wrap(err, rc, "%s:%u", path, line);
    }
    return 0;
}

int pairs_env(cli_pairs *p, const opt_list *env, const opt_list *files, cay_err *err)
{
    CAY_EACH_OF(file, files->v, files->n)
        CAY_TRY(add_file(p, *file, err));
    CAY_EACH_OF(it, env->v, env->n) {
        int rc = add_text(p, *it, true, err);
        if (rc < 0)
            return cay_wrap(err, rc, "--env");
    }
    return 0;
}

int pairs_labels(cli_pairs *p, const opt_list *labels, cay_err *err)
{
    CAY_EACH_OF(label, labels->v, labels->n) {
        int rc = add_text(p, *label, false, err);
        if (rc >= 0)
            rc = cli_check_name("label", *label, err);
        if (rc < 0)
            return cay_wrap(err, rc, "--label");
    }
    return 0;
}

void pairs_clear(cli_pairs *p)
{
    CAY_EACH_OF(it, p->owned, p->nowned)
        free(*it);
    free(p->owned);
    free(p->v);
    memset(p, 0, sizeof *p);
}

static int make_grants(const box_opts *o, box_spec *s, cay_err *err)
{
    size_t n = o->mounts.n;
    if (!n)
        return 0;
    s->mounts = cay__alloc(n * sizeof *s->mounts);
    s->grants = cay__alloc(n * sizeof *s->grants);
    for (size_t i = 0; i < n; i++) {
        struct cli_mount *m = &s->mounts[i];
        struct stat st;
        CAY_TRY(cli_parse_mount(o->mounts.v[i], m, err));
        CAY_TRY_SYS(stat(m->source, &st), err, "--mount %s", m->source);
        if (!S_ISDIR(st.st_mode))
            return cay_fail(err, CAY_ETYPE, "--mount %s is not a directory", m->source);
        s->grants[i] = (cay_grant){ .source = m->source, .target = m->target, .rw = m->rw };
    }
    s->create.files.grants = s->grants;
    s->create.files.ngrants = n;
    return 0;
}

static int make_volumes(const box_opts *o, box_spec *s, cay_err *err)
{
    size_t n = o->volumes.n;
    if (!n)
        return 0;
    s->volumes = cay__alloc(n * sizeof *s->volumes);
    s->volume_texts = cay__alloc(n * sizeof *s->volume_texts);
    for (size_t i = 0; i < n; i++) {
        struct cli_volume *v = &s->volume_texts[i];
        CAY_TRY(cli_parse_volume(o->volumes.v[i], v, err));
        s->volumes[i] = (cay_volume_use){ .name = v->name, .target = v->target, .rw = v->rw };
    }
    s->create.files.volumes = s->volumes;
    s->create.files.nvolumes = n;
    return 0;
}

/* Its directory by the whole path: who builds may have another working directory. */
static int make_dockerfile(const box_opts *o, box_spec *s, cay_err *err)
{
    CAY_AUTOBUF args = CAY__BUF(64u << 10);
    char *real = NULL;
    if (o->dockerfile)
        real = realpath(o->dockerfile, NULL);
    if (!real) {
        if (o->dockerfile)
            return cay_fail_sys(err, "--dockerfile %s", o->dockerfile);
        return cay_fail(err, CAY_EINVAL,
                        "--build-arg is for a Dockerfile; give --dockerfile DIR, too");
    }
    add_owned(&s->options, real);
    pairs_add(&s->options, "dockerfile", real);
    CAY_EACH_OF(build_arg, o->build_args.v, o->build_args.n) {
        char *key = NULL;
        const char *value = NULL;
        CAY_TRY(cli_parse_pair(*build_arg, true, &key, &value, err));
        add_owned(&s->options, key);
        if (value && strchr(value, '\n'))
            return cay_fail(err, CAY_EINVAL, "--build-arg %s: a value has one line", key);
        if (value)
            cay__buf_fmt(&args, "%s%s=%s", args.len ? "\n" : "", key, value);
    }
    if (args.len) {
        char *text = cay__strdup(args.data);
        add_owned(&s->options, text);
        pairs_add(&s->options, "build_args", text);
    }
    return 0;
}

static int make_options(const box_opts *o, box_spec *s, cay_err *err)
{
    if (o->image)
        pairs_add(&s->options, "image", o->image);
    if (o->dockerfile || o->build_args.n)
        CAY_TRY(make_dockerfile(o, s, err));
    CAY_EACH_OF(option, o->options.v, o->options.n) {
        int rc = add_text(&s->options, *option, false, err);
        if (rc < 0)
            return cay_wrap(err, rc, "--option");
    }
    s->create.options = s->options.v;
    return 0;
}

static int make_settings(const box_opts *o, box_spec *s, cay_err *err)
{
    CAY_EACH_OF(setting, o->settings.v, o->settings.n) {
        int rc = add_text(&s->settings, *setting, false, err);
        if (rc < 0)
            return cay_wrap(err, rc, "--set");
    }
    s->create.from.settings = s->settings.v;
    return 0;
}

static int make_on(const box_opts *o, box_spec *s, cay_err *err)
{
    struct stat st;
    if (!o->on)
        return 0;
    s->on = realpath(o->on, NULL);
    if (!s->on || stat(s->on, &st) < 0)
        return cay_fail_sys(err, "--on %s", o->on);
    if (!S_ISDIR(st.st_mode))
        return cay_fail(err, CAY_ETYPE, "--on %s is not a directory", o->on);
    s->create.from.directory = s->on;
    return 0;
}

/* One that the user means by where we are; another is the provider's to judge, which may be far
 * from here. */
static int make_root(const box_opts *o, box_spec *s, cay_err *err)
{
    if (!o->root || o->root[0] == '/' || cli_host())
        return 0;
    s->root = realpath(o->root, NULL);
    if (!s->root)
        return cay_fail_sys(err, "--root %s", o->root);
    s->create.from.root = s->root;
    return 0;
}

/* "none" is the one level that has to be asked for by name, and it means provider local. */
static int apply_isolation(const box_opts *o, cay_create *c, cay_err *err)
{
    int level = 0;
    if (o->isolation)
        level = cay_level_parse(o->isolation);
    if (level < 0)
        return cay_fail(err, CAY_EINVAL,
                        "--isolation \"%s\": want none, process, rootless, root or vm",
                        o->isolation);
    c->isolation.min_level = level;
    c->provider = cli_provider();
    if (o->isolation && level == CAY_LEVEL_NONE) {
        if (cli.provider && strcmp(cli.provider, "local"))
            return cay_fail(err, CAY_EINVAL,
                            "--isolation none and --provider %s exclude each other", cli.provider);
        c->provider = "local";
    }
    return 0;
}

static int make_net(const box_opts *o, box_spec *s, cay_err *err)
{
    const char *rules[OPT_LIST_MAX + 1];
    bool limits = o->net_up || o->net_down || o->net_connections;
    if (!o->net.n && limits)
        return cay_fail(
            err, CAY_EINVAL,
            "--net-up, --net-down and --net-connections limit a network; give --net too");
    if (!o->net.n)
        return 0;
    memcpy(rules, o->net.v, o->net.n * sizeof *rules);
    rules[o->net.n] = NULL;
    cay_policy p = { .size = sizeof p,
                     .rules = rules,
                     .connections = (uint32_t)o->net_connections,
                     .rate_up = o->net_up == CAY_UNLIMITED ? 0 : o->net_up,
                     .rate_down = o->net_down == CAY_UNLIMITED ? 0 : o->net_down };
    int rc = cay_policy_text(&p, &s->net, err);
    s->create.net.policy = s->net;
    if (rc < 0)
        return cay_wrap(err, rc, "--net");
    return 0;
}

/* NAME=SOURCE@DESTINATION; a file's path may have an @, a destination has none (but basic:USER,
 * behind its comma, may). */
int secret_take(char *text, char **path, cay_secret *out, cay_err *err)
{
    char *eq = strchr(text, '='), *comma = NULL, *at = NULL;
    for (char *c = eq; c && *c; c++) {
        if (*c == '@' && !comma)
            at = c;
        if (*c == ',' && at)
            comma = c;
    }
    if (!eq || eq == text || !at || at == eq + 1 || !at[1])
        return cay_fail(err, CAY_EINVAL,
                        "--secret \"%.40s\": want NAME=SOURCE@DESTINATION, such as "
                        "TOKEN=env:TOKEN@api.example.com",
                        text);
    *eq = *at = '\0';
    *out = (cay_secret){ .name = text, .source = eq + 1, .destination = at + 1 };
    if (!strncmp(out->source, "file:", 5) && out->source[5] && out->source[5] != '/') {
        char cwd[4096];
        size_t n = strlen(out->source) + sizeof cwd + 2;
        if (!getcwd(cwd, sizeof cwd))
            return cay_fail_sys(err, "--secret %s", text);
        *path = cay__alloc(n);
        cay__str_join(*path, n, "file:", cwd, "/", out->source + 5, NULL);
        out->source = *path;
    }
    return 0;
}

static int make_secrets(const box_opts *o, box_spec *s, cay_err *err)
{
    size_t n = o->secrets.n;
    if (!n)
        return 0;
    if (!o->net.n)
        return cay_fail(err, CAY_EINVAL,
                        "--secret goes to a destination that --net has to allow; give --net too");
    s->secrets = cay__alloc(n * sizeof *s->secrets);
    s->secret_texts = cay__alloc(2 * n * sizeof *s->secret_texts);
    s->nsecret_texts = 2 * n;
    for (size_t i = 0; i < n; i++) {
        s->secret_texts[2 * i] = cay__strdup(o->secrets.v[i]);
        CAY_TRY(
            secret_take(s->secret_texts[2 * i], &s->secret_texts[2 * i + 1], &s->secrets[i], err));
    }
    s->create.net.secrets = s->secrets;
    s->create.net.nsecrets = n;
    return 0;
}

static int check_texts(const box_opts *o, cay_err *err)
{
    const struct {
        const char *what, *text;
    } rows[] = { { "--name", o->name }, { "--hostname", o->hostname }, { "--user", o->user } };
    CAY_EACH(row, rows)
        if (row->text)
            CAY_TRY(cli_check_name(row->what, row->text, err));
    if (o->workdir && o->workdir[0] != '/')
        return cay_fail(err, CAY_EINVAL, "--workdir \"%s\": want an absolute path", o->workdir);
    if (o->template_ && o->root)
        return cay_fail(err, CAY_EINVAL, "--template and --root exclude each other");
    if (o->on_expiry && strcmp(o->on_expiry, "kill") && strcmp(o->on_expiry, "pause"))
        return cay_fail(err, CAY_EINVAL, "--on-expiry \"%s\": want kill or pause", o->on_expiry);
    return 0;
}

/* What a provider fetches or builds: on a terminal a line that changes, elsewhere the lines that
 * are worth keeping. */
static void on_making(const cay_create_progress *m, void *arg)
{
    box_spec *s = arg;
    bool term = isatty(2), stays = !m->brief && (!term || strcmp(m->what, "pull") != 0);
    CAY_AUTOBUF b = CAY__BUF(4096);
    if (cli.quiet || cli.json || (m->brief && !term))
        return;
    cay__buf_str(&b, s->drawn ? "\r\033[K" : "");
    cay__buf_fmt(&b, stays ? "%s: %s\n" : "%s: %.70s", m->what, m->text);
    s->drawn = !stays;
    cay__fd_write_all(2, b.data, b.len);
}

static void erase_line(box_spec *s)
{
    if (s->drawn)
        cay__fd_write_all(2, "\r\033[K", 4);
    s->drawn = false;
}

int box_spec_make(const box_opts *o, box_spec *s, cay_err *err)
{
    memset(s, 0, sizeof *s);
    cay_create *c = &s->create;
    *c = (cay_create){
        .size = sizeof *c,
        .from.template_ = o->template_,
        .from.root = o->root,
        .name = o->name,
        .hostname = o->hostname,
        .process.user = o->user,
        .process.workdir = o->workdir,
        .metadata = o->metadata,
        .limits = o->limits,
        .life.ttl_ms = o->ttl_ms == CAY_UNLIMITED ? 0 : o->ttl_ms,
        .life.idle_ms = o->idle_ms == CAY_UNLIMITED ? 0 : o->idle_ms,
        .from.snapshot = o->from,
        .manifest.text = o->manifest,
        .life.checkpoints = (unsigned)o->checkpoint,
        .isolation.sudo = o->sudo,
        .isolation.no_pin = o->no_pin,
        .life.durable = o->durable,
        .life.on_expiry =
            o->on_expiry && !strcmp(o->on_expiry, "pause") ? CAY_EXPIRE_PAUSE : CAY_EXPIRE_KILL,
    };
    CAY_TRY(check_texts(o, err));
    CAY_TRY(apply_isolation(o, c, err));
    CAY_TRY(pairs_env(&s->env, &o->env, &o->env_files, err));
    CAY_TRY(pairs_labels(&s->labels, &o->labels, err));
    CAY_TRY(make_grants(o, s, err));
    CAY_TRY(make_volumes(o, s, err));
    CAY_TRY(make_options(o, s, err));
    CAY_TRY(make_settings(o, s, err));
    CAY_TRY(make_on(o, s, err));
    CAY_TRY(make_root(o, s, err));
    CAY_TRY(make_net(o, s, err));
    CAY_TRY(make_secrets(o, s, err));
    c->progress = on_making;
    c->progress_arg = s;
    c->process.env = s->env.v;
    c->labels = s->labels.v;
    for (size_t i = 0; i < o->require.n; i++)
        s->require[i] = o->require.v[i];
    c->isolation.require = CAY_IF(o->require.n, s->require);
    return 0;
}

_Static_assert(CAY_LEN(cay__guarded) <= 32, "a bit each");

static uint32_t guarded_there(const char *dir)
{
    uint32_t there = 0;
    char path[4096];
    struct stat st;
    for (size_t i = 0; i < CAY_LEN(cay__guarded); i++)
        if (CAY_JOIN(path, dir, "/", cay__guarded[i].path) && lstat(path, &st) == 0)
            there |= 1u << i;
    return there;
}

void box_spec_look(const box_spec *s)
{
    for (size_t i = 0; s->had && i < s->create.files.ngrants; i++) {
        uint32_t new = 0;
        if (s->grants[i].rw)
            new = guarded_there(s->grants[i].source) & ~s->had[i];
        for (size_t k = 0; k < CAY_LEN(cay__guarded); k++)
            if (new >> k & 1)
                out_note("cay: %s appeared in %s: look at it before a tool of yours obeys it",
                         cay__guarded[k].path, s->grants[i].source);
    }
}

void box_spec_tell(box_spec *s)
{
    s->had = cay__alloc(s->create.files.ngrants * sizeof *s->had);
    if (s->create.provider && !strcmp(s->create.provider, "local"))
        out_note("cay: isolation none: commands run as you, with all your rights");
    CAY_EACH_OF(grant, s->grants, s->create.files.ngrants)
        if (grant->rw)
            out_note("cay: %s is writable from inside at %s", grant->source, grant->target);
    for (size_t i = 0; i < s->create.files.ngrants; i++)
        if (s->grants[i].rw)
            s->had[i] = guarded_there(s->grants[i].source);
}

void box_limits_tell(const cay_limits *asked, const cay_wall *layers, size_t n)
{
    const struct {
        const char *option, *layer;
        uint64_t value;
    } rows[] = {
        { "--memory", "memory-limit", asked->memory },
        { "--swap", "memory-limit", asked->swap },
        { "--cpus", "cpu-limit", asked->cpu_milli },
        { "--pids", "pids-limit", asked->pids },
        { "--io-read", "io-limit", asked->io_read },
        { "--io-write", "io-limit", asked->io_write },
    };
    CAY_EACH(row, rows)
        for (size_t i = 0; i < n && row->value && row->value != CAY_UNLIMITED; i++)
            if (!strcmp(layers[i].name, row->layer) && strcmp(layers[i].state, "on"))
                out_note("cay: %s %s: %s", row->option,
                         !strcmp(layers[i].state, "off") ? "does not hold here" : "is soft here",
                         layers[i].why);
}

void box_spec_clear(box_spec *s)
{
    free(s->had);
    pairs_clear(&s->env);
    pairs_clear(&s->labels);
    erase_line(s);
    pairs_clear(&s->options);
    pairs_clear(&s->settings);
    free(s->mounts);
    free(s->grants);
    free(s->volumes);
    free(s->volume_texts);
    free(s->net);
    free(s->on);
    free(s->root);
    for (size_t i = 0; s->secret_texts && i < s->nsecret_texts; i++)
        free(s->secret_texts[i]);
    free(s->secret_texts);
    free(s->secrets);
    memset(s, 0, sizeof *s);
}
