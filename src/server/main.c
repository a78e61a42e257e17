/* SPDX-License-Identifier: Apache-2.0 */
/* cay-server: opens the client and the listeners, starts lanes, waits for signals. `cay serve`
 * runs it. */
#include <server/http/auth.h>
#include <server/http/limits.h>
#include "events.h"
#include <server/http/connection.h>
#include "list_cache.h"
#include "telemetry.h"
#include "console.h"
#include <server/http/ticket.h>
#include <base/base.h>
#include <cay/access.h>
#include <getopt.h>
#include <malloc.h>
#include <signal.h>
#include <sys/resource.h>

enum {
    LANES_MAX = 16,
    DEFAULT_WORKERS = 64,
    DEFAULT_CONNS = 20000,
    DEFAULT_HEAD_MS = 15000,
    DEFAULT_BODY_MS = 30000
};

const cay__conf *cay__server_conf(const cay__server *s)
{
    return &s->conf;
}

const char *cay__server_domain(const cay__server *s)
{
    return s->conf.domain;
}

const char *cay__server_instance(const cay__server *s)
{
    return s->instance;
}

cay__gate *cay__server_gate(cay__server *s)
{
    return s->gate;
}

struct cay__hub *cay__server_hub(cay__server *s)
{
    return s->hub;
}

cay__tickets *cay__server_tickets(cay__server *s)
{
    return s->tickets;
}

struct cay__previews *cay__server_previews(cay__server *s)
{
    return s->previews;
}

/* By the state directory's path: the same after a restart. */
static void name_instance(cay__server *s)
{
    const char *home = cay_client_home(s->client);
    CAY_FORMAT(s->instance, "%08x", cay__hash(home, strlen(home)));
}

typedef struct words {
    const char *addr[CAY__LISTENERS], *dialect[CAY__LISTENERS], *as[CAY__LISTENERS];
    size_t n;
    const char *provider, *tls;
} words;

enum {
    O_LISTEN = 256,
    O_HOME,
    O_DOMAIN,
    O_TLS,
    O_INSECURE,
    O_LOG,
    O_WORKERS,
    O_CONNS,
    O_DIALECT,
    O_AS,
    O_PROVIDER,
    O_HOST,
    O_ORIGIN,
    O_HEAD_MS,
    O_BODY_MS,
    O_OTLP,
    O_TRACE
};
static const struct option options[] = {
    { "listen", required_argument, NULL, O_LISTEN },
    { "home", required_argument, NULL, O_HOME },
    { "domain", required_argument, NULL, O_DOMAIN },
    { "tls", required_argument, NULL, O_TLS },
    { "insecure", no_argument, NULL, O_INSECURE },
    { "log", required_argument, NULL, O_LOG },
    { "workers", required_argument, NULL, O_WORKERS },
    { "connections", required_argument, NULL, O_CONNS },
    { "dialect", required_argument, NULL, O_DIALECT },
    { "as", required_argument, NULL, O_AS },
    { "provider", required_argument, NULL, O_PROVIDER },
    { "allow-host", required_argument, NULL, O_HOST },
    { "allow-origin", required_argument, NULL, O_ORIGIN },
    { "head-ms", required_argument, NULL, O_HEAD_MS },
    { "body-ms", required_argument, NULL, O_BODY_MS },
    { "otlp", required_argument, NULL, O_OTLP },
    { "trace", required_argument, NULL, O_TRACE },
    { 0 },
};

static int one_more(const char **list, size_t cap, const char *name, cay_err *err)
{
    size_t n = 0;
    while (list[n])
        n++;
    if (n + 1 == cap)
        return cay_fail(err, CAY_EINVAL, "%s: at most %zu", name, cap - 1);
    list[n] = optarg;
    return 0;
}

/* --dialect and --as belong to the --listen that follows them, or to the last one. */
static int take_words(int argc, char **argv, words *w, cay__conf *conf, cay_err *err)
{
    const char *dialect = NULL, *as = NULL;
    for (int o; (o = getopt_long(argc, argv, "", options, NULL)) >= 0;) {
        switch (o) {
        case O_LISTEN:
            if (w->n == CAY_LEN(w->addr))
                return cay_fail(err, CAY_EINVAL, "--listen: at most %zu addresses",
                                CAY_LEN(w->addr));
            w->dialect[w->n] = dialect;
            w->as[w->n] = as;
            w->addr[w->n++] = optarg;
            dialect = as = NULL;
            break;
        case O_HOME: conf->home = optarg; break;
        case O_DOMAIN: conf->domain = optarg; break;
        case O_TLS: w->tls = optarg; break;
        case O_INSECURE: conf->insecure = true; break;
        case O_LOG: conf->log = optarg; break;
        case O_WORKERS: conf->workers = (unsigned)atoi(optarg); break;
        case O_CONNS: conf->conns = (unsigned)atoi(optarg); break;
        case O_HEAD_MS: conf->head_ms = (unsigned)atoi(optarg); break;
        case O_BODY_MS: conf->body_ms = (unsigned)atoi(optarg); break;
        case O_OTLP: conf->otlp = optarg; break;
        case O_TRACE: conf->trace = optarg; break;
        case O_DIALECT: dialect = optarg; break;
        case O_AS: as = optarg; break;
        case O_HOST:
            CAY_TRY(one_more(conf->hosts, CAY_LEN(conf->hosts), "--allow-host", err));
            break;
        case O_ORIGIN:
            CAY_TRY(one_more(conf->origins, CAY_LEN(conf->origins), "--allow-origin", err));
            break;
        case O_PROVIDER: w->provider = optarg; break;
        default: return cay_fail(err, CAY_EINVAL, "`cay serve --help` shows the options");
        }
    }
    if (optind < argc)
        return cay_fail(err, CAY_EINVAL, "\"%s\": no operands are taken", argv[optind]);
    if ((dialect || as) && w->n) {
        w->dialect[w->n - 1] = CAY_OR(dialect, w->dialect[w->n - 1]);
        w->as[w->n - 1] = CAY_OR(as, w->as[w->n - 1]);
    } else if (dialect || as) {
        return cay_fail(err, CAY_EINVAL, "--dialect and --as need a --listen of their own");
    }
    if (!w->n)
        w->addr[w->n++] = "127.0.0.1:8090";
    if (conf->workers < 1 || conf->workers > 1024 || conf->conns < 1)
        return cay_fail(err, CAY_EINVAL, "--workers: 1 to 1024; --connections: at least 1");
    return 0;
}

/* "CERT,KEY"; the files are read before anything listens. */
static int open_tls(cay__server *s, const char *both, cay_err *err)
{
    const char *comma = NULL;
    if (both)
        comma = strchr(both, ',');
    if (!both)
        return 0;
    if (!comma || comma == both || !comma[1])
        return cay_fail(err, CAY_EINVAL, "--tls %s: want CERT,KEY", both);
    s->conf.tls_cert = s->tls_cert = strndup(both, (size_t)(comma - both));
    s->conf.tls_key = comma + 1;
    return cay__tls_load(s, err);
}

static int open_listeners(cay__server *s, const words *w, cay_err *err)
{
    for (size_t i = 0; i < w->n; i++) {
        const cay__dialect *root = NULL;
        for (const cay__dialect *const *d = cay__dialects; w->dialect[i] && *d; d++)
            if (!strcmp((*d)->name, w->dialect[i]))
                root = *d;
        if (w->dialect[i] && !root)
            return cay_fail(err, CAY_EINVAL, "--dialect %s: this server does not speak it",
                            w->dialect[i]);
        if (w->as[i] && !root)
            return cay_fail(err, CAY_EINVAL,
                            "--as %s: it belongs to a --dialect with a --listen of its own",
                            w->as[i]);
        CAY_TRY(cay__listen(s, w->addr[i], root, w->as[i], err));
    }
    return 0;
}

static void allow_many_files(void)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
        r.rlim_cur = r.rlim_max;
        setrlimit(RLIMIT_NOFILE, &r);
    }
}

static int open_log(cay__server *s, cay_err *err)
{
    s->log_fd = -1;
    if (!s->conf.log)
        return 0;
    if (strcmp(s->conf.log, "-"))
        s->log_fd = open(s->conf.log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    else
        s->log_fd = fcntl(2, F_DUPFD_CLOEXEC, 3);
    if (s->log_fd < 0)
        return cay_fail_sys(err, "--log %s", s->conf.log);
    return 0;
}

static int there_is(const cay_tenant *t, void *arg)
{
    return 0;
}

/* --as of a tenant that is not there would refuse everything that comes. */
static int mind_tenants(cay__server *s, cay_err *err)
{
    CAY_EACH_OF(listener, s->listeners, s->nlisteners) {
        const char *as = listener->as;
        int rc = 0;
        if (as)
            rc = cay_tenant_get(s->client, as, there_is, NULL, err);
        if (rc < 0) {
            if (rc == CAY_ENOENT)
                return cay_fail(err, CAY_EINVAL,
                                "--as %.64s: there is no such tenant; `cay tenant "
                                "create %.64s` makes it",
                                as, as);
            return rc;
        }
    }
    return 0;
}

static int start_server(cay__server *s, const words *w, cay_err *err)
{
    const cay_open spec = { .size = sizeof spec, .home = s->conf.home, .provider = w->provider };
    const cay__gate_conf gate = { .domain = s->conf.domain,
                                  .hosts = s->conf.hosts,
                                  .origins = s->conf.origins };
    CAY_TRY(cay__gate_check(&gate, err));
    CAY_TRY(open_log(s, err));
    CAY_TRY(cay__tracing_open(&s->conf, &s->tracing, err));
    CAY_TRY(open_tls(s, w->tls, err));
    CAY_TRY(open_listeners(s, w, err));
    CAY_TRY(cay_client_open(&spec, &s->client, err));
    name_instance(s);
    CAY_TRY(mind_tenants(s, err));
    s->gate = cay__gate_new(&gate);
    s->previews = cay__previews_new();
    s->hub = cay__hub_new(s->client);
    s->listed = cay__listed_new();
    s->crowd = cay__crowd_new();
    s->uploads = cay__uploads_new(s->conf.workers);
    s->metrics = cay__metrics_new();
    s->tickets = cay__tickets_new();
    s->pool = cay__worker_pool_new(s->conf.workers);
    for (; cay__parts[s->nparts].name; s->nparts++)
        CAY_TRY(cay__parts[s->nparts].open(s, err));
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned want = (unsigned)CAY_MAX(1, CAY_MIN(cores, LANES_MAX));
    s->lanes = cay__alloc(want * sizeof *s->lanes);
    for (; s->nlanes < want; s->nlanes++)
        CAY_TRY(cay__lane_start(&s->lanes[s->nlanes], s, err));
    return 0;
}

/* SIGHUP: certificate and log are read and opened again; what cannot be stays as it was. */
static void reload_files(cay__server *s)
{
    cay_err err = CAY_ERR_INIT;
    if (s->tls && cay__tls_load(s, &err) < 0)
        fprintf(stderr, "cay: %s; the old certificate stays\n", err.msg);
    if (s->log_fd >= 0 && strcmp(s->conf.log, "-")) {
        CAY_AUTOFD fd = open(s->conf.log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (fd < 0 || dup3(fd, s->log_fd, O_CLOEXEC) < 0)
            fprintf(stderr, "cay: --log %s: %s\n", s->conf.log, strerror(errno));
    }
}

/* Accepts no more, lets requests end, then streams. */
static void drain_lanes(cay__server *s)
{
    s->draining = true;
    CAY_EACH_OF(it, s->lanes, s->nlanes)
        cay__lane_wake(it);
    CAY_EACH_OF(lane, s->lanes, s->nlanes)
        pthread_join(lane->thread, NULL);
}

/* anew: what is listened on stays for the next program. */
static void stop_server(cay__server *s, bool anew)
{
    drain_lanes(s);
    if (!anew)
        cay__listen_close(s);
    if (s->pool)
        cay__worker_pool_free(s->pool);
    while (s->nparts-- > 0)
        cay__parts[s->nparts].close(s);
    CAY_EACH_OF(lane, s->lanes, s->nlanes)
        cay__lane_close(lane);
    free(s->lanes);
    cay__gate_free(s->gate);
    cay__tls_unload(s);
    free(s->tls_cert);
    if (s->previews)
        cay__previews_free(s->previews);
    if (s->hub)
        cay__hub_free(s->hub);
    cay__listed_free(s->listed);
    cay__crowd_free(s->crowd);
    cay__uploads_free(s->uploads);
    cay__metrics_free(s->metrics);
    cay__tracing_close(s->tracing);
    cay__tickets_free(s->tickets);
    if (s->client)
        cay_client_close(s->client);
}

static int one_is_enough(const cay_key *k, void *arg)
{
    *(bool *)arg = true;
    return 1;
}

/* Without a key nobody gets in. */
static void mind_keys(const cay__server *s)
{
    bool any = false;
    if (cay_key_list(s->client, NULL, one_is_enough, &any, NULL) >= 0 && !any)
        fprintf(stderr, "cay: there is no key yet: `cay key create --scope admin` makes one\n");
}

/* Where we are, for `cay open` on the same state directory; as long as we are. */
static void leave_address(const cay__server *s, bool there)
{
    char path[4096];
    CAY_JOIN(path, cay_client_home(s->client), "/server.url");
    if (!there) {
        unlink(path);
        return;
    }
    CAY_EACH_OF(listener, s->listeners, s->nlisteners) {
        if (listener->root || !cay__str_starts(listener->name, "http"))
            continue;
        CAY_AUTOFD fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
        if (fd >= 0)
            dprintf(fd, "%s\n", listener->name);
        return;
    }
}

static void print_listeners(const cay__server *s)
{
    CAY_EACH_OF(listener, s->listeners, s->nlisteners)
        printf("listening on %s%s%s%s%s\n", listener->name, listener->root ? " for " : "",
               listener->root ? listener->root->name : "",
               listener->as ? ", without a key, as tenant " : "", CAY_OR(listener->as, ""));
    fflush(stdout);
}

int main(int argc, char **argv)
{
    cay__server s = { .conf = { .domain = "localhost",
                                .workers = DEFAULT_WORKERS,
                                .conns = DEFAULT_CONNS,
                                .head_ms = DEFAULT_HEAD_MS,
                                .body_ms = DEFAULT_BODY_MS },
                      .log_fd = -1,
                      .tls_lock = PTHREAD_MUTEX_INITIALIZER };
    words w = { 0 };
    cay_err err = CAY_ERR_INIT;
    sigset_t set;
    int sig = 0;
#ifdef M_ARENA_MAX           /* musl has one */
    mallopt(M_ARENA_MAX, 2); /* one for the lanes and one for the workers are enough, and small */
#endif
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    allow_many_files();
    cay__reexec_init();
    json_object_seed(0);
    if (take_words(argc, argv, &w, &s.conf, &err) < 0 || cay__harden(&err) < 0 ||
        start_server(&s, &w, &err) < 0) {
        fprintf(stderr, "cay: %s\n", err.msg);
        if (s.client)
            cay_client_close(s.client);
        if (err.code == CAY_EINVAL)
            return 2;
        return 1;
    }
    leave_address(&s, true);
    print_listeners(&s);
    mind_keys(&s);
    while (sigwait(&set, &sig) == 0 && sig == SIGHUP)
        reload_files(&s);
    bool anew = sig == SIGUSR2;
    sigdelset(&set, SIGHUP); /* these two are not for a program that ends; the one that begins anew
                                has what came meanwhile */
    sigdelset(&set, SIGUSR2);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL); /* a second one ends it at once */
    signal(SIGTERM, SIG_DFL);
    signal(SIGINT, SIG_DFL);
    leave_address(&s, anew);
    stop_server(&s, anew);
    if (anew)
        return cay__reexec(&s, argv);
    return 0;
}
