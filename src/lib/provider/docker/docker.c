/* SPDX-License-Identifier: Apache-2.0 */
/* The provider's tables, and what concerns all of its sandboxes. */
#include "box.h"
#include <base/path.h>
#include <lib/provider/local/events.h>
#include <lib/provider/provider.h>

static void docker_close(void *self)
{
    cay__docker *d = self;
    cay__engine_close(d->engine);
    cay__close_fd(&d->boxes);
    free(d->home);
    free(d->libexec);
    free(d);
}

static bool is_there(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISSOCK(st.st_mode);
}

/* $DOCKER_HOST and the like; else the user's own engine; else the machine's. */
static int find_engine(cay__docker *d)
{
    const char *url = getenv(d->kind->env), *run = getenv("XDG_RUNTIME_DIR");
    char own[512];
    d->engine_err = (cay_err)CAY_ERR_INIT;
    if (url && *url)
        return cay__engine_open(url, &d->engine, &d->engine_err);
    if (run && geteuid() != 0 && CAY_JOIN(own, run, d->kind->user_sock) && is_there(own))
        return cay__engine_open(own, &d->engine, &d->engine_err);
    return cay__engine_open(d->kind->sock, &d->engine, &d->engine_err);
}

static int read_owner(cay__docker *d)
{
    char text[64];
    ssize_t n = cay__fd_read_file(d->boxes, "owner", text, sizeof text);
    if (n < 32 || cay__hex_len(text) < 32)
        return -1;
    memcpy(d->owner, text, 32);
    d->owner[32] = 0;
    return 0;
}

/* Nothing is made and nobody asked before the first sandbox: most who open a service have no
 * engine. */
int cay__docker_home(cay__docker *d, cay_err *err)
{
    uint64_t r[2];
    char word[40], tmp[32];
    if (d->boxes >= 0 && *d->owner)
        return 0;
    if (mkdir(d->dir, 0700) < 0 && errno != EEXIST)
        return cay_fail_sys(err, "make %s", d->dir);
    CAY_AUTOFD boxes = open(d->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (boxes < 0 || (mkdirat(boxes, CAY__DOCKER_UP, 0700) < 0 && errno != EEXIST))
        return cay_fail_sys(err, "make %s", d->dir);
    cay__random(r, sizeof r);
    CAY_FORMAT(word, "%016llx%016llx\n", (unsigned long long)r[0], (unsigned long long)r[1]);
    CAY_FORMAT(tmp, ".owner-%08llx", (unsigned long long)(r[0] >> 32));
    CAY_AUTOFD fd = openat(boxes, tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    /* The first one stays: a link never replaces. */
    bool ok = fd >= 0 && cay__fd_write_all(fd, word, strlen(word)) &&
              (linkat(boxes, tmp, boxes, "owner", 0) == 0 || errno == EEXIST);
    unlinkat(boxes, tmp, 0);
    if (!ok)
        return cay_fail_sys(err, "write %s/owner", d->dir);
    if (d->boxes < 0)
        d->boxes = CAY_STEAL_FD(boxes);
    if (read_owner(d) < 0)
        return cay_fail_why(err, CAY_ESTATE, "sandbox_damaged",
                            "%s/owner is damaged; restore it, or remove the "
                            "directory and its containers by hand",
                            d->dir);
    return 0;
}

/* Ours alone, and by this very program's layout: another size is another program's. */
static void read_known(cay__docker *d)
{
    cay__engine_info i;
    CAY_AUTOFD fd = openat(d->boxes, "engine", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    char more;
    if (fd < 0 || cay__fd_read_all(fd, &i, sizeof i) != sizeof i || read(fd, &more, 1) != 0)
        return;
    char *text[] = { i.name, i.version, i.api, i.arch, i.driver, i.backing };
    const size_t room[] = { sizeof i.name, sizeof i.version, sizeof i.api,
                            sizeof i.arch, sizeof i.driver,  sizeof i.backing };
    for (size_t k = 0; k < CAY_LEN(text); k++)
        text[k][room[k] - 1] = 0;
    d->info = i;
    d->known = true;
}

void cay__docker_know(cay__docker *d, const cay__engine_info *info)
{
    if (d->known && !memcmp(&d->info, info, sizeof *info))
        return;
    CAY_AUTOFD fd =
        openat(d->boxes, ".engine", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0 && cay__fd_write_all(fd, info, sizeof *info))
        renameat(d->boxes, ".engine", d->boxes, "engine");
}

static int open_kind(const cay_provider_conf *conf, const cay__docker_kind *kind, void **self,
                     cay_err *err)
{
    cay__docker *d = cay__alloc(sizeof *d);
    char real[4096];
    d->kind = kind;
    d->home = cay__strdup(conf->home);
    d->libexec = cay__strdup(conf->libexec);
    d->boxes = -1;
    /* The engine is told this path and has another working directory. */
    if (!realpath(conf->home, real) || !CAY_JOIN(d->dir, real, "/", kind->name)) {
        docker_close(d);
        return cay_fail_sys(err, "state directory %s", conf->home);
    }
    d->boxes = open(d->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (d->boxes >= 0) {
        read_owner(d);
        read_known(d);
    }
    find_engine(d);
    *self = d;
    return 0;
}

static int docker_probe(void *self, cay_probe **out, cay_err *err)
{
    cay__docker *d = self;
    cay__engine *e = NULL;
    const cay__engine_info *info;
    cay_err why = CAY_ERR_INIT;
    cay_wall layers[CAY__DOCKER_LAYERS];
    int rc = cay__docker_engine(d, &e, &why);
    if (rc == 0)
        rc = cay__engine_meet(e, NULL, &info, &why);
    if (rc < 0) {
        layers[0] = (cay_wall){ "engine", "off", why.msg, "" };
        *out = cay__probe_new(CAY_LEVEL_NONE, "none", layers, 1);
        return 0;
    }
    size_t n = cay__docker_layers(info, NULL, layers, CAY_LEN(layers));
    char word[200];
    CAY_FORMAT(word, "%s %s, API %s, storage %s at %.40s", info->name, info->version, info->api,
               info->driver, cay__engine_path(e));
    layers[0].why = word;
    *out = cay__probe_new(cay__docker_level(info, NULL), info->rootless ? "rootless" : "engine",
                          layers, n);
    return 0;
}

static int docker_attach(void *self, const cay_call *call, const char *id, const cay_json *state,
                         void **box, cay_err *err)
{
    return cay__docker_box_open(self, id, (cay__docker_box **)box, err);
}

static int docker_state(void *box, cay_json **out, cay_err *err)
{
    cay__docker_box *b = box;
    char container[72] = "";
    cay__docker_noted(b, container, sizeof container);
    *out =
        json_pack("{s:s,s:s,s:s}", "transport", b->walls.far ? "engine" : "socket", "container",
                  container, "engine", CAY_TEXT_IF(b->d->engine, cay__engine_path(b->d->engine)));
    return 0;
}

static int docker_destroy(void *box, const cay_call *call, cay_err *err)
{
    cay__docker_box *b = box;
    CAY_TRY(cay__docker_remove(b->d, call, b->base.id, err));
    cay__docker_release(b);
    return 0;
}

static int docker_remove_files(void *self, const cay_call *call, const char *id, cay_err *err)
{
    cay__docker *d = self;
    if (d->boxes < 0)
        return 0;
    return cay__docker_remove(d, call, id, err);
}

static int docker_connect(void *box, const cay_call *call, uint16_t port, int *fd, cay_err *err)
{
    cay__docker_box *b = box;
    if (b->walls.far)
        return cay__docker_far_connect(b, call, port, fd, err);
    return cay__nf_connect(b, call, port, fd, err);
}

static int docker_services(void *box, const cay_call *call, cay_service_info_fn *fn,
                           int (*more)(void *), void *arg, cay_err *err)
{
    cay__docker_box *b = box;
    if (b->walls.far) /* it has none: create refused them */
        return 0;
    return cay__served_services(b, call, fn, more, arg, err);
}

static int docker_service_act(void *box, const cay_call *call, const char *name, int op,
                              cay_err *err)
{
    cay__docker_box *b = box;
    if (b->walls.far)
        return cay_fail_why(err, CAY_ENOENT, "service_not_found",
                            "sandbox %s has no services: it is reached through its engine",
                            b->base.id);
    return cay__served_service_act(b, call, name, op, err);
}

/* "PORT/tcp": [{"HostIp": …, "HostPort": …}]; of those that were asked for, the first place on this
 * machine. */
static int docker_endpoints(void *box, const cay_call *call, cay_endpoint_fn *fn, void *arg,
                            cay_err *err)
{
    cay__docker_box *b = box;
    cay__docker_view v;
    const char *key;
    json_t *asked;
    int rc = 0;
    CAY_AUTOJSON *all = NULL;
    CAY_TRY(cay__docker_look(b, call, &v, &all, err));
    json_t *bound = json_object_get(json_object_get(all, "HostConfig"), "PortBindings"),
           *now = json_object_get(json_object_get(all, "NetworkSettings"), "Ports");
    json_object_foreach(bound, key, asked) {
        const json_t *first = json_array_get(json_object_get(now, key), 0);
        const char *host = cay__json_str(first, "HostIp", "");
        uint64_t inside = 0, outside = 0;
        char number[8] = "";
        memcpy(number, key, CAY_MIN(strcspn(key, "/"), sizeof number - 1));
        if (!cay__str_to_u64(number, &inside) || inside > 65535)
            continue;
        cay__str_to_u64(cay__json_str(first, "HostPort", ""), &outside);
        cay_endpoint e = { .size = sizeof e,
                           .port = (uint16_t)inside,
                           .host_port =
                               v.state == CAY_STOPPED || outside > 65535 ? 0 : (uint16_t)outside };
        CAY_COPY(e.host, !*host || !strcmp(host, "0.0.0.0") ? "127.0.0.1" : host);
        if ((rc = fn(&e, arg)) != 0)
            break;
    }
    return rc;
}

static int docker_list(void *self, const cay_call *call, cay__on_id *fn, void *arg, cay_err *err)
{
    cay__docker *d = self;
    if (d->boxes < 0)
        return 0;
    int rc = cay__boxes_list(d->boxes, fn, arg);
    if (rc == -1)
        return cay_fail_sys(err, "list %s", d->dir);
    return rc;
}

typedef struct stray {
    cay__docker *d;
    const cay_call *call;
    cay__on_id *known;
    void *arg;
    size_t removed;
} stray;

static int on_stray(const char *id, void *arg)
{
    stray *s = arg;
    if (!s->known(id, s->arg))
        s->removed += cay__docker_remove(s->d, s->call, id, NULL) == 0;
    return 0;
}

/* Containers that carry our word and belong to nobody: their directory went without them. */
static int remove_strays(stray *s, cay_err *err)
{
    CAY_AUTOJSON *list = NULL;
    json_t *c;
    size_t i;
    CAY_TRY(cay__docker_labelled(s->d, s->call, "/containers/json?all=true&", NULL, &list, err));
    json_array_foreach(list, i, c) {
        const json_t *labels = json_object_get(c, "Labels");
        const char *id = cay__json_str(labels, CAY__DOCKER_SANDBOX, "");
        if (strcmp(cay__json_str(labels, CAY__DOCKER_OWNER, ""), s->d->owner) != 0 ||
            !cay__id_valid(id, 'c'))
            continue;
        on_stray(id, s);
        s->removed += cay__docker_remove_other(s->d, s->call, id, c);
    }
    return 0;
}

static int docker_gc(void *self, const cay_call *call, cay__on_id *known, void *arg,
                     size_t *removed, cay_err *err)
{
    cay__docker *d = self;
    stray s = { .d = d, .call = call, .known = known, .arg = arg };
    *removed = 0;
    if (d->boxes < 0 || !*d->owner)
        return 0;
    s.removed = cay__boxes_sweep(d->boxes);
    CAY_TRY(docker_list(d, call, on_stray, &s, err));
    if (d->engine)
        remove_strays(&s, NULL); /* one that is down is asked the next time */
    if (d->engine)
        s.removed += cay__docker_layers_reap(d, call) + cay__docker_volumes_reap(d, call);
    *removed = s.removed;
    return 0;
}

static int event_reach(void *arg, const char *id, int *sock)
{
    CAY_AUTOPTR(cay__docker_box) b = NULL;
    CAY_AUTOFD fd = -1;
    cay_call soon = { .size = sizeof soon, .deadline_ms = cay__now_ms() + 2000 };
    int pid, rc = cay__docker_box_open(arg, id, &b, NULL);
    CAY_TRY(rc);
    if (b->walls.far)
        rc = cay__docker_far_dial(b, &soon, &fd, NULL);
    else
        rc = cay__docker_reach(b, &fd, &pid, NULL);
    if (rc == 0 && !b->walls.far)
        rc = cay__docker_judge(b, &soon, pid, NULL); /* nobody else tells what happens in it */
    if (rc == 0)
        *sock = CAY_STEAL_FD(fd);
    return rc;
}

static void event_done(void *arg)
{
    docker_close(arg);
}

static int docker_events(void *self, const char *id, int *fd, cay_err *err)
{
    cay__docker *d = self;
    cay_provider_conf conf = { .size = sizeof conf, .home = d->home, .libexec = d->libexec };
    char up[4200];
    void *own = NULL;
    CAY_TRY(cay__docker_home(d, err));
    CAY_TRY(
        open_kind(&conf, d->kind, &own, err)); /* its thread may live longer than this provider */
    CAY_JOIN(up, d->dir, "/" CAY__DOCKER_UP);
    return cay__events_listen(&(cay__events_from){ up, d->boxes, event_reach, event_done, own }, id,
                              fd, err);
}

static const cay__docker_kind docker_kind = { "docker", "DOCKER_HOST", "/var/run/docker.sock",
                                              "/docker.sock" };
static const cay__docker_kind podman_kind = { "podman", "CONTAINER_HOST", "/run/podman/podman.sock",
                                              "/podman/podman.sock" };

static int docker_open(const cay_provider_conf *conf, void **self, cay_err *err)
{
    return open_kind(conf, &docker_kind, self, err);
}

static int podman_open(const cay_provider_conf *conf, void **self, cay_err *err)
{
    return open_kind(conf, &podman_kind, self, err);
}

#define OPS                                                                                        \
    .size = sizeof(cay_provider_ops), CAY__SERVED_MEMBERS, .close = docker_close,                  \
    .create = cay__docker_create, .attach = docker_attach, .release = cay__docker_release,         \
    .destroy = docker_destroy, .spawn = cay__served_spawn, .proc_attach = cay__served_proc_attach, \
    .status = cay__docker_status, .procs = cay__served_procs, .probe = docker_probe,               \
    .state = docker_state, .list = docker_list, .start = cay__docker_start,                        \
    .stop = cay__docker_stop, .pause = cay__docker_pause, .resume = cay__docker_resume,            \
    .usage = cay__served_usage, .wait = cay__docker_wait, .events = docker_events,                 \
    .gc = docker_gc, .remove_files = docker_remove_files, .ports = cay__nf_ports,                  \
    .connect = docker_connect, .options = cay__docker_option_names,                                \
    .snapshot = cay__docker_snapshot, .restack = cay__docker_restack,                              \
    .layer_remove = cay__docker_layer_remove, .opaque_layers = true,                               \
    .endpoints = docker_endpoints, .services = docker_services, .service_act = docker_service_act, \
    .fill = cay__nf_fill

const cay_provider_ops cay__provider_docker = { OPS, .name = "docker", .open = docker_open };
const cay_provider_ops cay__provider_podman = { OPS, .name = "podman", .open = podman_open };
