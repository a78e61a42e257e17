/* SPDX-License-Identifier: Apache-2.0 */
/* cay serve: becomes cay-server. */
#include "main.h"
#include "out.h"
#include <base/base.h>
#include <base/path.h>

typedef struct serve_args {
    opt_list listen, dialect, as, hosts, origins;
    const char *domain, *tls, *log, *otlp, *trace, *user;
    uint64_t workers, connections;
    bool insecure, root_keeper;
} serve_args;

static const opt_def defs[] = {
    OPT_LIST(
        "--listen ADDR",
        "HOST:PORT, :PORT (this machine alone) or unix:PATH; 127.0.0.1:8090 unless told; may be "
        "given again",
        serve_args, listen),
    OPT_STR("--domain NAME", "previews are at PORT-ID.NAME; localhost unless told", serve_args,
            domain),
    OPT_STR("--tls CERT,KEY", "encrypt, with these PEM files; SIGHUP reads them again", serve_args,
            tls),
    OPT_STR("--user NAME",
            "as root: be this user instead, with keeper and sandboxes (level 2); state in "
            "/var/lib/cay-NAME unless --home says otherwise",
            serve_args, user),
    OPT_FLAG("--root-keeper",
             "with --user: only the server is that user; a small process of root's keeps sandboxes "
             "(level "
             "3), and refuses directories of the host",
             serve_args, root_keeper),
    OPT_FLAG("--insecure", "allow plain HTTP beyond this machine", serve_args, insecure),
    OPT_LIST(
        "--allow-host NAME",
        "a name of this server's besides localhost, addresses and --domain; may be given again",
        serve_args, hosts),
    OPT_LIST("--allow-origin URL", "pages from there may ask, too; may be given again", serve_args,
             origins),
    OPT_STR("--log FILE", "write a JSON line for every request; - is standard error", serve_args,
            log),
    OPT_STR("--otlp URL",
            "send spans to this OpenTelemetry collector (OTLP/HTTP JSON), for example "
            "http://127.0.0.1:4318/v1/traces",
            serve_args, otlp),
    OPT_STR("--trace FILE", "append spans to a file, which `cay trace` shows", serve_args, trace),
    OPT_NUM("--workers N", "at most so many requests at work at once; 64 unless told", serve_args,
            workers, 1, 1024),
    OPT_NUM("--connections N", "at most so many connections; 20000 unless told", serve_args,
            connections, 1, 1000000),
    OPT_LIST(
        "--dialect NAME",
        "the last --listen speaks this protocol alone, at its root; as often as --listen: each its "
        "own",
        serve_args, dialect),
    OPT_LIST("--as TENANT",
             "and needs no key: who comes there is this tenant; loopback and unix sockets alone",
             serve_args, as),
    OPT_END
};

enum { WORDS = 8 * OPT_LIST_MAX };
typedef struct words {
    const char *v[WORDS];
    char num[2][24];
    size_t n;
} words;

static void add_option(words *w, const char *name, const char *value)
{
    if (!value || w->n + 3 > WORDS)
        return;
    w->v[w->n++] = name;
    w->v[w->n++] = value;
}

static void add_num(words *w, int i, const char *name, uint64_t v)
{
    CAY_FORMAT(w->num[i], "%ju", v);
    add_option(w, name, v ? w->num[i] : NULL);
}

/* The n-th of as many as listeners; one alone is the last listener's. */
static const char *pick_value(const opt_list *list, size_t i, bool last)
{
    if (list->n > 1)
        return list->v[i];
    if (last && list->n)
        return list->v[0];
    return NULL;
}

/* Each --dialect and --as with the --listen of the same place; one alone is the last listener's. */
static int add_listeners(words *w, const serve_args *a, cay_err *err)
{
    size_t n = a->listen.n;
    if ((a->dialect.n > 1 && a->dialect.n != n) || (a->as.n > 1 && a->as.n != n))
        return cay_fail(err, CAY_EINVAL,
                        "--dialect and --as: once, for the last --listen, or as often as --listen");
    for (size_t i = 0; i < CAY_MAX(n, 1u); i++) {
        bool last = i + 1 >= n;
        add_option(w, "--dialect", pick_value(&a->dialect, i, last));
        add_option(w, "--as", pick_value(&a->as, i, last));
        add_option(w, "--listen", i < n ? a->listen.v[i] : NULL);
    }
    return 0;
}

/* --user stands in "/", whatever root's directory was. */
static int whole_paths(const serve_args *a, cay_err *err)
{
    const char *key = NULL;
    if (a->tls)
        key = strchr(a->tls, ',');
    const struct {
        const char *opt, *path;
    } all[] = { { "tls", a->tls },
                { "tls", key ? key + 1 : NULL },
                { "log", a->log && strcmp(a->log, "-") ? a->log : NULL },
                { "trace", a->trace } };
    for (size_t i = 0; i < CAY_LEN(all); i++)
        if (all[i].path && *all[i].path != '/')
            return cay_fail(err, CAY_EINVAL, "--%s %.200s: with --user a path begins with /",
                            all[i].opt, all[i].path);
    for (size_t i = 0; i < a->listen.n; i++)
        if (!strncmp(a->listen.v[i], "unix:", 5) && a->listen.v[i][5] != '/')
            return cay_fail(err, CAY_EINVAL, "--listen %.200s: with --user a path begins with /",
                            a->listen.v[i]);
    return 0;
}

static int exec_server(cli_call *c, cay_err *err)
{
    const serve_args *a = c->opts;
    char program[4096], hand[4096];
    words w = { .n = 0 };
    CAY_TRY(cay__libexec_find(NULL, "cay-server", program, sizeof program, err));
    CAY_TRY(cay__libexec_find(NULL, "cay-hand", hand, sizeof hand, err));
    if (a->root_keeper && !a->user)
        return cli_misuse(c, "--root-keeper: --user NAME tells who the server is then");
    if (a->user &&
        (whole_paths(a, err) < 0 || serve_as(a->user, a->root_keeper, &a->listen, err) < 0)) {
        if (err->code == CAY_EINVAL)
            return cli_usage(c->verb, err);
        return cli_fail(err, CLI_FAIL);
    }
    if (a->root_keeper) {
        add_option(&w, "cay-hand", a->user);
        add_option(&w, cli.home, program);
    } else {
        w.v[w.n++] = "cay-server";
    }
    add_option(&w, "--home", cli.home);
    add_option(&w, "--provider", cli_provider());
    add_option(&w, "--domain", a->domain);
    add_option(&w, "--tls", a->tls);
    add_option(&w, "--log", a->log);
    add_option(&w, "--otlp", a->otlp);
    add_option(&w, "--trace", a->trace);
    add_num(&w, 0, "--workers", a->workers);
    add_num(&w, 1, "--connections", a->connections);
    if (add_listeners(&w, a, err) < 0)
        return cli_usage(c->verb, err);
    CAY_EACH_OF(host, a->hosts.v, a->hosts.n)
        add_option(&w, "--allow-host", *host);
    CAY_EACH_OF(origin, a->origins.v, a->origins.n)
        add_option(&w, "--allow-origin", *origin);
    if (a->insecure)
        w.v[w.n++] = "--insecure";
    w.v[w.n] = NULL;
    execv(a->root_keeper ? hand : program, (char *const *)w.v);
    return cay_fail_sys(err, "run %s", a->root_keeper ? hand : program);
}

const cli_verb cli_serve = {
    "serve",
    "[--listen ADDR]…",
    "serve sandboxes over HTTP to programs of any language",
    .text = "It ends by Ctrl-C or SIGTERM, after what it is answering; sandboxes live on.",
    .examples = "  cay serve\n"
                "  cay serve --listen :9000 --listen unix:/run/cay.sock\n"
                "  cay serve --listen 0.0.0.0:443 --tls cert.pem,key.pem --log /var/log/cay.jsonl",
    CLI_OPTS(defs, serve_args),
    .fn = exec_server,
};
