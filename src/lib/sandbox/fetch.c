/* SPDX-License-Identifier: Apache-2.0 */
/* Fetches on a sandbox's behalf: the rules against being sent somewhere else (SSRF). */
#include "sandbox.h"
#include <cay/policy.h>
#include <policy/url.h>

#define REDIRECTS 5

struct cay_net_fetch {
    cay_sandbox *sb;
    cay__url at, first;
    cay_net_url seen;
    unsigned hops;
};

static void update_seen(cay_net_fetch *f)
{
    f->seen = (cay_net_url){
        .tls = f->at.tls, .host = f->at.host, .port = f->at.port, .target = f->at.target
    };
}

int cay_net_fetch_open(cay_sandbox *sb, const char *url, cay_net_fetch **out, cay_err *err)
{
    if (!CAY__HAS(sb->ops, dial))
        return cay__no_such_op(sb, "fetch under its network policy", err);
    cay_net_fetch *f = cay__alloc(sizeof *f);
    int rc = cay__url_parse(CAY_OR(url, ""), &f->at, err);
    if (rc < 0) {
        free(f);
        return rc;
    }
    f->sb = cay_sandbox_ref(sb);
    f->first = f->at;
    update_seen(f);
    *out = f;
    return 0;
}

void cay_net_fetch_close(cay_net_fetch *f)
{
    if (f)
        cay_sandbox_unref(f->sb);
    free(f);
}

const cay_net_url *cay_net_fetch_at(const cay_net_fetch *f)
{
    return &f->seen;
}

static int dial_host(cay_sandbox *sb, const cay_call *call, const char *host, uint16_t port,
                     bool implicit, int *fd, cay_err *err)
{
    if (!CAY__HAS(sb->ops, dial))
        return cay__no_such_op(sb, "dial under its network policy", err);
    CAY_TRY(cay__call_check(call, "dial", err));
    CAY_TRY(cay__sandbox_ready(sb, err));
    int rc = sb->ops->dial(sb->box, call, host, port, implicit, fd, err);
    if (rc < 0)
        return cay_wrap(err, rc, "%.80s:%d", host, (int)port);
    return 0;
}

int cay_net_fetch_dial(cay_net_fetch *f, const cay_call *call, int *fd, cay_err *err)
{
    /* The exception is for what the URL named, not for where a server sends us. */
    return dial_host(f->sb, call, f->at.host, f->at.port, cay__url_same_place(&f->at, &f->first),
                     fd, err);
}

int cay_net_fetch_redirect(cay_net_fetch *f, const char *location, cay_err *err)
{
    cay__url to;
    if (f->hops >= REDIRECTS)
        return cay_fail_why(err, CAY_EUPSTREAM, "too_many_redirects",
                            "%.80s: more than %d redirects", f->first.host, REDIRECTS);
    CAY_TRY(cay__url_join(&f->at, CAY_OR(location, ""), &to, err));
    if (f->at.tls && !to.tls)
        return cay_fail_why(err, CAY_EUPSTREAM, "redirect_refused",
                            "%.80s redirects from https to http; that is refused", f->at.host);
    f->at = to;
    f->hops++;
    update_seen(f);
    return 0;
}

int cay_net_dial(cay_sandbox *sb, const cay_call *call, const char *host, uint16_t port, int *fd,
                 cay_err *err)
{
    char name[CAY__NAME_MAX + 1];
    uint8_t addr[16];
    if (cay__addr_parse(host, addr))
        cay__addr_text(addr, name);
    else if (!cay__name_fold(host, strlen(host), name))
        return cay_fail_why(err, CAY_EINVAL, "host_invalid", "\"%.60s\" is no host name or address",
                            host);
    if (!port)
        return cay_fail_why(err, CAY_EINVAL, "host_invalid", "%.60s: port 0 cannot be dialled",
                            host);
    return dial_host(sb, call, name, port, false, fd, err);
}
