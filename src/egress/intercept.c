/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a credential is bound to a destination, the connection goes to cay-intercept: another process, so that neither OpenSSL nor a secret
 * is ever in this one. It gets both sockets and the name; what it may do with them the policy has said before.
 */
#include "egress.h"
#include <base/fd.h>
#include <base/str.h>
#include <policy/binding.h>
#include <sys/socket.h>
#include <sys/uio.h>

bool intercept_wanted(const box *b, const char *name, uint16_t port, bool tls)
{
    return cay__binding_for_host(&b->policy, name, port, tls);
}

/* False: nobody takes it. On success both sockets are gone from here. */
bool intercept_give(flow *f, int upstream)
{
    egress *e = f->box->e;
    const char *name = flow_name(f);
    cay_msg head = { .magic = CAY_MSG_MAGIC, .version = CAY_N_VERSION, .type = CAY_N_FLOW, .tail = name ? (uint32_t)strlen(name) : 0 };
    cay_n_flow m = { .flow = f->id, .port = f->port, .proto = f->proto };
    int fds[2] = { f->in.fd, upstream };
    if (e->intercept < 0)
        return false;
    cay__str_copy(m.id, sizeof m.id, f->box->id);
    memcpy(m.addr, f->peer, 16);
    flow_lowat(f, 1);
    struct iovec io[3] = { { &head, sizeof head }, { &m, sizeof m }, { (void *)name, head.tail } };
    if (cay__fd_sendv(e->intercept, io, 3, fds, 2, MSG_DONTWAIT) < 0) {
        if (errno != EAGAIN) { /* it is gone; the keeper brings the next one */
            sock_close(e, e->intercept);
            e->intercept = -1;
        }
        return false;
    }
    return true;
}
