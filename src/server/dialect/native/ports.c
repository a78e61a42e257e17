/* SPDX-License-Identifier: Apache-2.0 */
/* Who listens inside, a connection to it, and tokens that open it to others. */
#include "native.h"
#include <server/preview/uplink.h>
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

CAY__ITEMS_ADD(on_port, cay_port)

int cay__on_port_list(cay__req *r, cay_err *err)
{
    cay__items l = cay__items_of(r);
    return cay__items_finish(&l, cay_port_list(r->sb, &r->call, on_port, &l, err), err);
}

int cay__on_port_connect(cay__req *r, cay_err *err)
{
    uint16_t port;
    int fd;
    CAY_TRY(port_of(r, &port, err));
    if (!r->head.upgrade || strcasecmp(r->head.upgrade, "cay-tcp") != 0)
        return cay_fail_why(err, CAY_EINVAL, "upgrade_missing",
                            "a connection needs Connection: Upgrade and Upgrade: cay-tcp");
    CAY_TRY(cay_port_connect(r->sb, &r->call, port, &fd, err));
    return cay__reply_tunnel(r, "cay-tcp", fd);
}

/* As whoever asks would reach us: through the same door, under the name of the preview. */
static void format_url(const cay__req *r, const char *id, cay__exposed_told *x)
{
    const char *host = r->head.host, *end = strchr(host, ']'),
               *colon = strchr(CAY_OR(end, host), ':');
    CAY_FORMAT(x->url, "%s://%u-%s.%s%s/", r->tls ? "https" : "http", x->e.port, id,
               cay__server_domain(r->server), CAY_OR(colon, ""));
}

int cay__on_port_expose(cay__req *r, cay_err *err)
{
    uint16_t port;
    uint64_t ttl = 0;
    cay__exposed_told x = { .e.size = sizeof x.e };
    CAY_TRY(port_of(r, &port, err));
    CAY_TRY(cay__req_body(r, &ttl, err));
    CAY_TRY(cay_port_expose(r->sb, port, ttl, &x.e, err));
    format_url(r, cay_sandbox_id(r->sb), &x);
    int rc = cay__reply_object(r, &x);
    explicit_bzero(&x, sizeof x);
    return rc;
}

int cay__on_port_unexpose(cay__req *r, cay_err *err)
{
    uint16_t port;
    CAY_TRY(port_of(r, &port, err));
    CAY_TRY(cay_port_unexpose(r->sb, port, err));
    return cay__reply_done(r);
}

typedef struct walk {
    cay__items l;
    const char *id;
} walk;

static int on_exposed(const cay_exposed *e, void *arg)
{
    walk *w = arg;
    cay__exposed_told x = { .e = *e };
    format_url(w->l.r, w->id, &x);
    return cay__items_add(&w->l, &x);
}

int cay__on_exposed_list(cay__req *r, cay_err *err)
{
    walk w = { cay__items_of(r), cay_sandbox_id(r->sb) };
    return cay__items_finish(&w.l, cay_port_exposed(r->sb, on_exposed, &w, err), err);
}

CAY__ITEMS_ADD(on_endpoint, cay_endpoint)

int cay__on_endpoint_list(cay__req *r, cay_err *err)
{
    cay__items l = cay__items_of(r);
    return cay__items_finish(&l, cay_port_endpoints(r->sb, &r->call, on_endpoint, &l, err), err);
}

int cay__on_endpoint_get(cay__req *r, cay_err *err)
{
    uint16_t port;
    cay_endpoint e = { .size = sizeof e };
    CAY_TRY(port_of(r, &port, err));
    CAY_TRY(cay_port_endpoint(r->sb, &r->call, port, &e, err));
    return cay__reply_object(r, &e);
}
