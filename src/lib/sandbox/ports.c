/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox.h"

int cay_port_list(cay_sandbox *sb, const cay_call *call, cay_port_fn *fn, void *arg, cay_err *err)
{
    CAY__OP(call, "port.list", sb->id, err);
    CAY_TRY(cay__call_check(call, "ports", err));
    if (!sb->ops->ports)
        return cay__no_such_op(sb, "list ports", err);
    CAY_TRY(cay__sandbox_files(sb, err)); /* looking is allowed while paused */
    return sb->ops->ports(sb->box, call, fn, arg, err);
}

int cay_port_connect(cay_sandbox *sb, const cay_call *call, uint16_t port, int *fd, cay_err *err)
{
    CAY__OP(call, "port.connect", sb->id, err);
    op_.port = port;
    if (!port)
        return cay_fail_why(err, CAY_EINVAL, "port_invalid", "port 0: give 1 to 65535");
    CAY_TRY(cay__call_check(call, "connect", err));
    if (!sb->ops->connect)
        return cay__no_such_op(sb, "connect to a port", err);
    CAY_TRY(cay__sandbox_ready(sb, err));
    return sb->ops->connect(sb->box, call, port, fd, err);
}

typedef struct published {
    cay_endpoint_fn *fn;
    void *arg;
    uint16_t want; /* 0: all that are there */
    cay_endpoint found;
    char asked[400]; /* all that were asked for, between commas: as many as find room */
} published;

static int on_published(const cay_endpoint *e, void *arg)
{
    published *p = arg;
    size_t n = strlen(p->asked);
    if (n + 8 < sizeof p->asked)
        snprintf(p->asked + n, sizeof p->asked - n, "%s%u", n ? "," : "", e->port);
    if (p->want) {
        if (e->port == p->want && !p->found.host_port)
            p->found = *e;
        return 0;
    }
    if (e->host_port)
        return p->fn(e, p->arg);
    return 0;
}

static int each_published(cay_sandbox *sb, const cay_call *call, published *p, cay_err *err)
{
    CAY_TRY(cay__call_check(call, "endpoints", err));
    CAY_TRY(cay__sandbox_files(sb, err));
    if (CAY__HAS(sb->ops, endpoints))
        return sb->ops->endpoints(sb->box, call, on_published, p, err);
    return 0;
}

int cay_port_endpoints(cay_sandbox *sb, const cay_call *call, cay_endpoint_fn *fn, void *arg,
                       cay_err *err)
{
    CAY__OP(call, "port.endpoints", sb->id, err);
    return each_published(sb, call, &(published){ .fn = fn, .arg = arg }, err);
}

int cay_port_endpoint(cay_sandbox *sb, const cay_call *call, uint16_t port, cay_endpoint *out,
                      cay_err *err)
{
    published p = { .want = port };
    CAY__OP(call, "port.endpoint", sb->id, err);
    op_.port = port;
    if (!port)
        return cay_fail_why(err, CAY_EINVAL, "port_invalid", "port 0: give 1 to 65535");
    CAY_TRY(each_published(sb, call, &p, err));
    bool there = p.found.host_port;
    if (!there) {
        int rc;
        if (p.found.port)
            rc = cay_fail_why(err, CAY_EUPSTREAM, "exposed_port_unavailable",
                              "port %u of %s is not published now; does its network still exist?",
                              port, sb->id);
        else
            rc = cay_fail_why(err, CAY_ENOENT, "exposed_port_unavailable",
                              "port %u of %s is not published; ask for it when it is made (option "
                              "publish of docker), or use cay port forward",
                              port, sb->id);
        if (err) {
            if (p.found.port)
                err->retry = CAY_RETRY_YES;
            else
                err->retry = CAY_RETRY_NO;
            CAY_FORMAT(err->detail, "{\"port\":%u,\"reason\":\"%s\",\"exposed_ports\":[%s]}", port,
                       p.found.port ? "backend_unavailable" : "not_configured", p.asked);
        }
        return rc;
    }
    op_.endpoint = &p.found;
    cay__answer_give(out, &p.found, sizeof p.found);
    return 0;
}

void cay_endpoint_url(const cay_endpoint *e, char *url, size_t cap)
{
    const char *scheme = "http";
    uint16_t usual = 80;
    char port[8] = "";
    if (e->tls) {
        scheme = "https";
        usual = 443;
    }
    if (e->host_port != usual)
        CAY_FORMAT(port, ":%u", e->host_port);
    if (strchr(e->host, ':')) /* an address of IPv6 */
        snprintf(url, cap, "%s://[%s]%s/", scheme, e->host, port);
    else
        snprintf(url, cap, "%s://%s%s/", scheme, e->host, port);
}
