/* SPDX-License-Identifier: Apache-2.0 */
/* Who listens inside, a connection to it, and tokens that open it to others. */
#include "native.h"
#include <base/base.h>
#include <base/str.h>
#include <server/preview/uplink.h>
#include <stdio.h>
#include <strings.h>

#define DAY_MS 86400000ull

static int port_of(cay__req *r, uint16_t *out, cay_err *err)
{
    uint64_t n = 0;
    if (!cay__str_to_u64(r->param[1], &n) || n < 1 || n > 65535)
        return cay_fail_why(err, CAY_EINVAL, "port_invalid", "port \"%.20s\": give 1 to 65535",
                            r->param[1]);
    *out = (uint16_t)n;
    return 0;
}

static const cay__field port_fields[] = {
    { "port", CAY__F_U16, offsetof(cay_port, port) },
    { "address", CAY__F_TEXT, offsetof(cay_port, address), .about = "as bound inside" },
    { "pid", CAY__F_INT, offsetof(cay_port, pid), .about = "inside; 0: not known" },
};
static const cay__shape port_shape =
    CAY__SHAPE("Port", cay_port, port_fields, "somebody inside listens");

static int on_port(const cay_port *p, void *arg)
{
    return cay__items_add(arg, p);
}

const cay__doc cay__doc_port_list = { "listPorts", "ports", "who listens inside",
                                      .answers = {
                                          { 200, &port_shape, .list = true }, { 404 }, { 409 } } };
int cay__on_port_list(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    cay__items l;
    CAY_TRY(cay__native_sandbox(r, &sb, err));
    cay__items_begin(&l, r, &port_shape);
    int rc = cay_port_list(sb, &r->call, on_port, &l, err);
    if (rc < 0) {
        cay__items_drop(&l);
        return rc;
    }
    return cay__items_reply(&l, 200, err);
}

const cay__doc cay__doc_port_connect = { "connectPort", "ports",
                                         "a connection to it, after an upgrade to cay-tcp",
                                         .answers = { { 101 }, { 400 }, { 404 }, { 409 } } };
int cay__on_port_connect(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    uint16_t port;
    int fd;
    CAY_TRY(port_of(r, &port, err));
    if (!r->head.upgrade || strcasecmp(r->head.upgrade, "cay-tcp") != 0)
        return cay_fail_why(err, CAY_EINVAL, "upgrade_missing",
                            "a connection needs Connection: Upgrade and Upgrade: cay-tcp");
    CAY_TRY(cay__native_sandbox(r, &sb, err));
    CAY_TRY(cay_port_connect(sb, &r->call, port, &fd, err));
    return cay__reply_tunnel(r, "cay-tcp", fd);
}

typedef struct exposed {
    cay_exposed e;
    char url[400];
} exposed;

static const cay__field exposed_fields[] = {
    { "port", CAY__F_U16, offsetof(exposed, e.port) },
    { "token", CAY__F_TEXT, offsetof(exposed, e.token), CAY__F_MAYBE, .about = "told once" },
    { "created_ms", CAY__F_I64, offsetof(exposed, e.created_ms) },
    { "expires_ms", CAY__F_I64, offsetof(exposed, e.expires_ms) },
    { "url", CAY__F_TEXT, offsetof(exposed, url),
      .about = "where the preview is; with ?cay_token=TOKEN it opens" },
};
static const cay__shape exposed_shape =
    CAY__SHAPE("Exposed", exposed, exposed_fields, "a port that a token opens");

/* As whoever asks would reach us: through the same door, under the name of the preview. */
static void format_url(const cay__req *r, const char *id, exposed *x)
{
    const char *host = r->head.host, *end = strchr(host, ']'),
               *colon = strchr(CAY_OR(end, host), ':');
    snprintf(x->url, sizeof x->url, "%s://%u-%s.%s%s/", r->tls ? "https" : "http", x->e.port, id,
             cay__server_domain(r->server), CAY_OR(colon, ""));
}

static const cay__field expose_fields[] = {
    { "ttl_ms", CAY__F_U64, 0, .min = 1000, .max = 7 * DAY_MS,
      .about = "how long the token holds; a day" },
};
static const cay__shape expose_shape =
    CAY__SHAPE("Expose", uint64_t, expose_fields, "a token for a port");

const cay__doc cay__doc_port_expose = {
    "exposePort", "ports", "make a token that opens a port", .body = &expose_shape,
    .answers = { { 201, &exposed_shape }, { 400 }, { 404 }, { 409 } }
};
int cay__on_port_expose(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    uint16_t port;
    uint64_t ttl = 0;
    exposed x = { .e.size = sizeof x.e };
    CAY_TRY(port_of(r, &port, err));
    CAY_TRY(cay__native_sandbox(r, &sb, err));
    CAY_TRY(cay__req_shape(r, &expose_shape, &ttl, err));
    CAY_TRY(cay_port_expose(sb, port, ttl, &x.e, err));
    format_url(r, cay_sandbox_id(sb), &x);
    int rc = cay__reply_shape(r, 201, &exposed_shape, &x);
    explicit_bzero(&x, sizeof x);
    return rc;
}

const cay__doc cay__doc_port_unexpose = { "unexposePort", "ports", "take the token of a port back",
                                          .answers = { { 204 }, { 400 }, { 404 } } };
int cay__on_port_unexpose(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    uint16_t port;
    CAY_TRY(port_of(r, &port, err));
    CAY_TRY(cay__native_sandbox(r, &sb, err));
    CAY_TRY(cay_port_unexpose(sb, port, err));
    return cay__reply(r, 204, NULL, NULL, 0);
}

typedef struct walk {
    cay__items l;
    const char *id;
} walk;

static int on_exposed(const cay_exposed *e, void *arg)
{
    walk *w = arg;
    exposed x = { .e = *e };
    format_url(w->l.r, w->id, &x);
    return cay__items_add(&w->l, &x);
}

const cay__doc cay__doc_exposed_list = { "listExposed", "ports", "the ports that tokens open",
                                         .answers = { { 200, &exposed_shape, .list = true },
                                                      { 404 } } };
int cay__on_exposed_list(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    walk w;
    CAY_TRY(cay__native_sandbox(r, &sb, err));
    w.id = cay_sandbox_id(sb);
    cay__items_begin(&w.l, r, &exposed_shape);
    int rc = cay_port_exposed(sb, on_exposed, &w, err);
    if (rc < 0) {
        cay__items_drop(&w.l);
        return rc;
    }
    return cay__items_reply(&w.l, 200, err);
}

static const cay__field endpoint_fields[] = {
    { "port", CAY__F_U16, offsetof(cay_endpoint, port), .about = "inside" },
    { "host", CAY__F_TEXT, offsetof(cay_endpoint, host),
      .about = "an address or name of the machine that runs it" },
    { "host_port", CAY__F_U16, offsetof(cay_endpoint, host_port) },
    { "tls", CAY__F_BOOL, offsetof(cay_endpoint, tls) },
};
static const cay__shape endpoint_shape = CAY__SHAPE("Endpoint", cay_endpoint, endpoint_fields,
                                                    "where a port is that the provider publishes");

static int on_endpoint(const cay_endpoint *e, void *arg)
{
    return cay__items_add(arg, e);
}

const cay__doc cay__doc_endpoint_list = {
    "listEndpoints", "ports", "the ports that its provider publishes, and where",
    .answers = { { 200, &endpoint_shape, .list = true }, { 404 } }
};
int cay__on_endpoint_list(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    cay__items l;
    CAY_TRY(cay__native_sandbox(r, &sb, err));
    cay__items_begin(&l, r, &endpoint_shape);
    int rc = cay_port_endpoints(sb, &r->call, on_endpoint, &l, err);
    if (rc < 0) {
        cay__items_drop(&l);
        return rc;
    }
    return cay__items_reply(&l, 200, err);
}

const cay__doc cay__doc_endpoint_get = {
    "getEndpoint", "ports", "where that port is, if it was published at create",
    .answers = { { 200, &endpoint_shape }, { 400 }, { 404 }, { 502 } }
};
int cay__on_endpoint_get(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    uint16_t port;
    cay_endpoint e = { .size = sizeof e };
    CAY_TRY(port_of(r, &port, err));
    CAY_TRY(cay__native_sandbox(r, &sb, err));
    CAY_TRY(cay_port_endpoint(sb, &r->call, port, &e, err));
    return cay__reply_shape(r, 200, &endpoint_shape, &e);
}
