/* SPDX-License-Identifier: Apache-2.0 */
/* A request as a container: safe where nothing is said. Pure, so that every row can be looked at by
 * a test. */
#include "box.h"
#include <proto/relay.h>
#include <lib/provider/native/native.h>
#include <sys/resource.h>

#define USUAL_USER    "user"
#define USUAL_WORKDIR "/workspace"
enum {
    VOLUME_PARTS = 16,
    CONFIG_MAX = 4 << 20,
    PROFILE_MAX = 1 << 20,
    RO_TMPFS = 64 << 20,
    TASKS = 32768
};

/* What pid 1 needs to be root for its users, and apt for root. Commands of other users have none of
 * them, and none can be had. */
static const char *const caps[] = { "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID",
                                    "KILL",  "SETGID",       "SETUID" };

static uint64_t resolve_limit(uint64_t asked, uint64_t usual)
{
    if (asked == CAY_UNLIMITED)
        return 0;
    if (asked)
        return asked;
    return usual;
}

static bool is_given(const char *s)
{
    return s && *s;
}

static int fail_unsupported(cay_err *err, const char *what, const char *remedy)
{
    return cay_fail_why(err, CAY_ENOTSUP, "not_supported",
                        "containers of an engine cannot give %s; %s", what, remedy);
}

static int check_walls(const cay_create *c, const cay__docker_options *o,
                       const cay__engine_info *engine, cay_err *err)
{
    cay_wall rows[CAY__DOCKER_LAYERS];
    cay__docker_walls walls;
    cay__docker_walls_of(o, &walls);
    size_t n = cay__docker_layers(engine, &walls, rows, CAY_LEN(rows));
    cay_level level = cay__docker_level(engine, &walls), whole = cay__docker_level(engine, NULL);
    const char *what = "engine", *remedy = "run it rootless, or use provider native";
    if (level < whole) {
        what = "request";
        remedy = "leave options cap_add and seccomp out";
    }
    if (c->isolation.min_level > (int)level)
        return cay_fail_why(err, CAY_EISOLATION, "level_missing",
                            "this %s gives level %d (%s) and %d was asked for; %s", what,
                            (int)level, cay_level_name(level), c->isolation.min_level, remedy);
    for (size_t k = 0; c->isolation.require && c->isolation.require[k]; k++) {
        size_t i = 0;
        while (i < n && strcmp(rows[i].name, c->isolation.require[k]) != 0)
            i++;
        if (i == n || strcmp(rows[i].state, "on") != 0)
            return cay_fail_why(err, CAY_EISOLATION, "feature_missing",
                                "this engine cannot enforce %.60s; %s", c->isolation.require[k],
                                i < n && *rows[i].remedy ? rows[i].remedy : "use provider native");
    }
    return 0;
}

static bool own_filter(const cay__docker_options *o)
{
    return !strcmp(o->seccomp, "cay") || !strcmp(o->seccomp, "strict");
}

int cay__docker_check(const cay_create *c, const cay__docker_options *o,
                      const cay__engine_info *engine, cay_err *err)
{
    CAY_TRY(check_walls(c, o, engine, err));
    if (is_given(c->from.root) ||
        (is_given(c->from.template_) && strcmp(c->from.template_, "host") != 0))
        return fail_unsupported(err, "another root than their image",
                                "leave root and template out");
    if (c->limits.io_read || c->limits.io_write || c->limits.inodes)
        return fail_unsupported(err, "limits of i/o and inodes",
                                "leave them out, or use provider native");
    if (c->limits.disk && c->limits.disk != CAY_UNLIMITED && !cay__docker_has_quota(engine))
        return cay_fail_why(err, CAY_ENOTSUP, "disk_unsupported",
                            "the engine's storage (%s on %s) has no quota; leave the disk limit "
                            "out, or keep its data on xfs with pquota",
                            engine->driver, cay__text_or(engine->backing, "unknown"));
    if (engine->userns && !engine->rootless && !strcmp(o->transport, "socket"))
        return cay_fail_why(
            err, CAY_ENOTSUP, "engine_userns",
            "the engine shifts ids (userns-remap), so that pid 1 of a container cannot reach its "
            "directory on the host; leave option transport out, or run the engine rootless");
    /* Its compatible service passes it over: the wall would be another than was asked for, and
     * nobody would be told. */
    if (o->runtime && engine->podman)
        return fail_unsupported(err, "a runtime that a request names where the engine is Podman",
                                "name it in the engine's containers.conf, or use Docker");
    if (o->mounts && own_filter(o))
        return cay_fail_why(
            err, CAY_EINVAL, "option_invalid",
            "option seccomp=%s lets nobody mount, and the manifest has storage that is mounted "
            "inside; leave the option out, or give strategy docker_volume",
            o->seccomp);
    if ((!strcmp(o->network, "none") && o->publish))
        return cay_fail_why(err, CAY_EINVAL, "option_invalid",
                            "option publish needs a network: give network=bridge; without one cay "
                            "port reaches inside as well");
    return 0;
}

/* One piece of a comma list, copied; false at the end. */
static bool next_item(const char **at, char *out, size_t cap)
{
    size_t n = strcspn(*at, ",");
    if (!**at)
        return false;
    memcpy(out, *at, CAY_MIN(n, cap - 1));
    out[CAY_MIN(n, cap - 1)] = 0;
    *at += n + ((*at)[n] == ',');
    return true;
}

static bool port_of(const char *s, uint64_t *out)
{
    return cay__str_to_u64(s, out) && *out >= 1 && *out <= 65535;
}

/* On the loopback alone: who wants the world to come in says so to a proxy. */
static int add_ports(json_t *top, json_t *host, const char *list, cay_err *err)
{
    char one[64], key[32], num[8];
    json_t *exposed = json_object(), *bound = json_object();
    json_object_set_new(top, "ExposedPorts", exposed);
    json_object_set_new(host, "PortBindings", bound);
    while (next_item(&list, one, sizeof one)) {
        uint64_t inside, outside = 0;
        char *colon = strchr(one, ':');
        if (colon)
            *colon++ = 0;
        if (!port_of(one, &inside) || (colon && !port_of(colon, &outside)))
            return cay_fail_why(err, CAY_EINVAL, "option_invalid",
                                "option publish: %.40s is no PORT or PORT:HOSTPORT", one);
        CAY_FORMAT(key, "%u/tcp", (unsigned)inside);
        CAY_FORMAT(num, "%u", (unsigned)outside);
        json_object_set_new(exposed, key, json_object());
        json_object_set_new(
            bound, key,
            json_pack("[{s:s,s:s}]", "HostIp", "127.0.0.1", "HostPort", CAY_TEXT_IF(outside, num)));
    }
    return 0;
}

/* What a driver is told may name a server's directory or a kind of filesystem, never a place of the
 * host: those are judged, and given by --mount. */
static bool names_the_host(const char *key, const char *value)
{
    if (!strcmp(key, "o") && strstr(value, "bind"))
        return true;
    return value[0] == '/' && value[1] != '/';
}

static int add_volumes(json_t *mounts, const char *list, cay_err *err)
{
    char one[512];
    while (list && next_item(&list, one, sizeof one)) {
        char *part[VOLUME_PARTS] = { one };
        size_t n = 1;
        for (char *p = one; (p = strchr(p, ':')) && n < VOLUME_PARTS;) {
            *p++ = 0;
            part[n++] = p;
        }
        bool ro = false,
             bad = n < 2 || part[1][0] != '/' || !*part[0] || *part[0] == '/' || *part[0] == '.';
        const char *driver = NULL;
        CAY_AUTOJSON *more = json_object();
        for (size_t i = 2; i < n; i++) {
            char *eq = NULL;
            if (cay__str_starts(part[i], "opt."))
                eq = strchr(part[i], '=');
            if (eq && eq > part[i] + 4) { /* for the driver */
                *eq = 0;
                bad |= names_the_host(part[i] + 4, eq + 1);
                json_object_set_new(more, part[i] + 4, json_string(eq + 1));
                continue;
            }
            if (!strcmp(part[i], "ro"))
                ro = true;
            else if (cay__str_starts(part[i], "driver="))
                driver = part[i] + 7;
            else
                bad = true;
        }
        if (bad)
            return cay_fail_why(
                err, CAY_EINVAL, "option_invalid",
                "option volumes: %.60s is no NAME:/TARGET[:ro][:driver=NAME][:opt.KEY=VALUE…]; a "
                "directory of the host is given by --mount",
                one);
        json_t *m = json_pack("{s:s,s:s,s:s,s:b}", "Type", "volume", "Source", part[0], "Target",
                              part[1], "ReadOnly", ro);
        if (driver || json_object_size(more))
            json_object_set_new(m, "VolumeOptions",
                                json_pack("{s:{s:s,s:O}}", "DriverConfig", "Name",
                                          CAY_OR(driver, "local"), "Options", more));
        json_array_append_new(mounts, m);
    }
    return 0;
}

static json_t *build_bind(const char *source, const char *target, bool ro)
{
    return json_pack("{s:s,s:s,s:s,s:b,s:{s:s}}", "Type", "bind", "Source", source, "Target",
                     target, "ReadOnly", ro, "BindOptions", "Propagation", "rprivate");
}

static int add_mounts(json_t *host, const cay_create *c, const cay__docker_options *o,
                      const cay__docker_place *at, cay_err *err)
{
    json_t *list = json_array();
    json_object_set_new(host, "Mounts", list);
    if (!at->far) {
        json_array_append_new(list, build_bind(at->pid1, "/.cay/pid1", true));
        json_array_append_new(list, build_bind(at->ctl, "/.cay/ctl", true));
    }
    if (at->far && c->files.ngrants)
        return cay_fail_why(err, CAY_ENOTSUP, "engine_remote",
                            "mount %.120s: the engine does not see this machine's files; put them "
                            "in by a manifest, or use option volumes",
                            c->files.grants[0].source);
    CAY_EACH_OF(grant, c->files.grants, c->files.ngrants) {
        char real[4096];
        if (!realpath(grant->source, real))
            return cay_fail_sys(err, "mount %.120s", grant->source);
        json_array_append_new(list, build_bind(real, grant->target, !grant->rw));
    }
    cay__docker_volumes_show(list, o->storage, at->id);
    return add_volumes(list, o->volumes, err);
}

static int add_security(json_t *host, const cay__docker_options *o, cay_err *err)
{
    json_t *add = json_array(), *opt = json_pack("[s]", "no-new-privileges:true");
    char one[64];
    json_object_set_new(host, "CapDrop", json_pack("[s]", "ALL"));
    json_object_set_new(host, "CapAdd", add);
    json_object_set_new(host, "SecurityOpt", opt);
    CAY_EACH(cap, caps)
        json_array_append_new(add, json_string(*cap));
    for (const char *list = o->cap_add; list && next_item(&list, one, sizeof one);) {
        if (strspn(one, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") != strlen(one) || !strcmp(one, "ALL") ||
            !strcmp(one, "SYS_ADMIN") || !strcmp(one, "SYS_MODULE") || !strcmp(one, "SYS_PTRACE"))
            return cay_fail_why(err, CAY_EPERM, "capability_refused",
                                "option cap_add: %.40s would open the wall (ALL, SYS_ADMIN, "
                                "SYS_MODULE and SYS_PTRACE are not given)",
                                one);
        json_array_append_new(add, json_string(one));
    }
    if (o->mounts) {
        json_array_append_new(add, json_string("SYS_ADMIN"));
        json_array_append_new(opt, json_string("apparmor=unconfined"));
    }
    if (o->fuse)
        json_object_set_new(host, "Devices",
                            json_pack("[{s:s,s:s,s:s}]", "PathOnHost", "/dev/fuse",
                                      "PathInContainer", "/dev/fuse", "CgroupPermissions", "rwm"));
    if (!strcmp(o->seccomp, "unconfined"))
        json_array_append_new(opt, json_string("seccomp=unconfined"));
    if (o->seccomp[0] != '/')
        return 0;
    static const char word[] = "seccomp=";
    CAY_AUTOFREE char *text = cay__alloc(PROFILE_MAX + sizeof word);
    CAY_AUTOFD fd = open(o->seccomp, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    memcpy(text, word, sizeof word - 1);
    ssize_t n = -1;
    if (fd >= 0)
        n = cay__fd_read_all(fd, text + sizeof word - 1, PROFILE_MAX);
    if (n <= 0 || json_array_append_new(opt, json_string(text)) < 0)
        return cay_fail_why(err, CAY_EINVAL, "option_invalid",
                            "option seccomp: %.120s cannot be read as a profile", o->seccomp);
    return 0;
}

static json_t *build_ulimit(const char *name, uint64_t v)
{
    return json_pack("{s:s,s:I,s:I}", "Name", name, "Soft", (json_int_t)v, "Hard", (json_int_t)v);
}

static void add_limits(json_t *host, const cay_create *c, const cay__engine_info *engine)
{
    uint64_t memory = resolve_limit(c->limits.memory, 2ull << 30),
             cpu = resolve_limit(c->limits.cpu_milli, 2000),
             pids = resolve_limit(c->limits.pids, 512),
             nofile = resolve_limit(c->limits.nofile, 4096);
    /* A rootless engine without delegated groups has none of them; layers tell it. */
    if (engine->memory && memory) {
        uint64_t swap = 0;
        if (c->limits.swap != CAY_UNLIMITED)
            swap = c->limits.swap;
        json_object_set_new(host, "Memory", json_integer((json_int_t)memory));
        json_object_set_new(
            host, "MemorySwap",
            json_integer(c->limits.swap == CAY_UNLIMITED ? -1 : (json_int_t)(memory + swap)));
    }
    if (engine->cpu && cpu)
        json_object_set_new(host, "NanoCpus", json_integer((json_int_t)(cpu * 1000000)));
    if (engine->pids && pids)
        json_object_set_new(host, "PidsLimit", json_integer((json_int_t)pids));
    json_t *most = json_array();
    json_object_set_new(host, "Ulimits", most);
    if (nofile)
        json_array_append_new(most, build_ulimit("nofile", nofile));
    /* Podman, which bounds itself, raises this one to a million unless it is told another; the
     * kernel refuses that to a bounded root. */
    struct rlimit tasks;
    if (engine->podman && getrlimit(RLIMIT_NPROC, &tasks) == 0)
        json_array_append_new(most, build_ulimit("nproc", CAY_MIN(tasks.rlim_max, (rlim_t)TASKS)));
    if (c->limits.disk && c->limits.disk != CAY_UNLIMITED)
        json_object_set_new(
            host, "StorageOpt",
            json_pack("{s:o}", "size", json_sprintf("%llu", (unsigned long long)c->limits.disk)));
}

/* With a read-only root what has to be written is memory, and bounded. What storage is mounted by
 * is root's memory, new in each life and in no snapshot. */
static void add_tmpfs(json_t *host, const cay__docker_options *o, const char *workdir)
{
    char opt[64];
    json_t *all = json_object();
    CAY_FORMAT(opt, "rw,nosuid,nodev,size=%d,mode=1777", RO_TMPFS);
    if (o->read_only)
        json_object_update_new(all, json_pack("{s:s,s:s,s:s,s:s}", "/tmp", opt, "/run", opt,
                                              "/home", opt, workdir, opt));
    CAY_FORMAT(opt, "rw,nosuid,nodev,noexec,size=%d,mode=0700", RO_TMPFS);
    if (o->mounts)
        json_object_set_new(all, CAY__PID1_PLACE, json_string(opt));
    json_object_set_new(host, "Tmpfs", all);
}

static json_t *build_labels(const cay_create *c, const cay__docker_place *at)
{
    json_t *o = json_pack("{s:s,s:s}", CAY__DOCKER_OWNER, at->owner, CAY__DOCKER_SANDBOX, at->id);
    for (const cay_pair *p = c->labels; p && p->key; p++)
        if (!cay__str_starts(p->key, "io.cay."))
            json_object_set_new(o, p->key, json_string(CAY_OR(p->value, "")));
    return o;
}

int cay__docker_spec(const cay_create *c, const cay__docker_options *o,
                     const cay__docker_image *image, const cay__engine_info *engine,
                     const cay__docker_place *at, json_t **out, cay_err *err)
{
    json_t *host = json_pack("{s:s,s:b,s:b,s:s,s:s,s:{s:s},s:{s:s}}", "NetworkMode", o->network,
                             "AutoRemove", c->life.ephemeral, "ReadonlyRootfs", o->read_only,
                             "IpcMode", "private", "CgroupnsMode", "private", "LogConfig", "Type",
                             "none", "RestartPolicy", "Name", "no");
    /* What the image would run, its health check and its stop signal do not matter: pid 1 is ours.
     */
    CAY_AUTOJSON *top =
        json_pack("{s:s,s:[s],s:[s],s:s,s:s,s:s,s:s,s:o,s:o}", "Image", image->id, "Entrypoint",
                  "/.cay/pid1", "Cmd", at->id, "User", "0:0", "WorkingDir", "/", "Hostname",
                  cay__text_or(c->hostname, "cay"), "StopSignal", "SIGTERM", "Labels",
                  build_labels(c, at), "HostConfig", host);
    if (!top)
        return cay_fail_why(err, CAY_EINVAL, "not_utf8", "an engine takes UTF-8 alone");
    if (at->far)
        json_array_append_new(json_object_get(top, "Cmd"), json_string("far"));
    if (own_filter(o)) /* on top of the engine's, by pid 1 */
        json_array_append_new(json_object_get(top, "Cmd"), json_string(o->seccomp));
    if (json_object_get(image->config, "Healthcheck"))
        json_object_set_new(top, "Healthcheck", json_pack("{s:[s]}", "Test", "NONE"));
    if (o->runtime)
        json_object_set_new(host, "Runtime", json_string(o->runtime));
    if (o->read_only || o->mounts)
        add_tmpfs(host, o, cay__text_or(c->process.workdir, USUAL_WORKDIR));
    if (o->publish)
        CAY_TRY(add_ports(top, host, o->publish, err));
    CAY_TRY(add_mounts(host, c, o, at, err));
    CAY_TRY(add_security(host, o, err));
    add_limits(host, c, engine);
    *out = json_incref(top);
    return 0;
}

static const char *default_user(const cay_create *c, const json_t *config, char *buf, size_t cap)
{
    const char *image = cay__json_str(config, "User", "");
    size_t n = strcspn(image, ":"); /* USER, or USER:GROUP, which is then its only one */
    bool root = !n || (n == 1 && *image == '0') || (n == 4 && !strncmp(image, "root", 4));
    /* An image that says nothing means root; we do not. */
    const char *user;
    if (is_given(c->process.user))
        user = c->process.user;
    else if (root || strlen(image) >= cap)
        user = USUAL_USER;
    else
        user = image;
    if (!is_given(c->process.group))
        return user;
    snprintf(buf, cap, "%.*s:%s", (int)strcspn(user, ":"), user, c->process.group);
    return buf;
}

/* In a file of ours and not in the container's record, where everybody who may ask the engine would
 * read it. */
int cay__docker_config(const cay_box_spec *spec, const cay__docker_image *image, cay__buf *b,
                       cay_err *err)
{
    char buf[192];
    const cay_create *c = spec->create;
    const char *user = default_user(c, image->config, buf, sizeof buf),
               *workdir = cay__text_or(c->process.workdir, USUAL_WORKDIR);
    json_t *v, *env = json_object_get(image->config, "Env");
    size_t i;
    cay__buf_cstr(b, user);
    cay__buf_cstr(b, workdir);
    json_array_foreach(env, i, v) {
        const char *s = json_string_value(v);
        if (s && strchr(s, '=') && *s != '=')
            cay__buf_cstr(b, s);
    }
    cay__env_add(b, c->process.env);
    bool storage = cay__docker_storage(c);
    cay__services_wire(b, spec, spec->services_wait || storage, storage);
    if (b->full || b->len > CONFIG_MAX)
        return cay_fail_why(err, CAY_ETOOBIG, "env_too_big",
                            "the environment is longer than 4 MiB");
    return 0;
}
