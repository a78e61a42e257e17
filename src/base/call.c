/* SPDX-License-Identifier: Apache-2.0 */
#include "call.h"
#include "base.h"
#include "fd.h"
#include <limits.h>
#include <poll.h>

int cay__call_left(const cay_call *call)
{
    if (!call || call->deadline_ms <= 0)
        return -1;
    int64_t left = call->deadline_ms - cay__now_ms();
    return left <= 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left;
}

int cay__call_cancel(const cay_call *call)
{
    return call && call->cancel_fd > 0 ? call->cancel_fd : -1;
}

static int timed_out(const char *what, cay_err *err)
{
    return cay_fail_why(err, CAY_ETIMEOUT, "deadline", "%s: the deadline of the call passed", what);
}

static int canceled(const char *what, cay_err *err)
{
    return cay_fail_why(err, CAY_ECANCELED, "canceled", "%s: canceled", what);
}

int cay__call_check(const cay_call *call, const char *what, cay_err *err)
{
    struct pollfd p = { .fd = cay__call_cancel(call), .events = POLLIN };
    if (p.fd >= 0 && poll(&p, 1, 0) > 0)
        return canceled(what, err);
    return cay__call_left(call) == 0 ? timed_out(what, err) : 0;
}

int cay__call_wait(const cay_call *call, int fd, short events, const char *what, cay_err *err)
{
    struct pollfd p[2] = { { .fd = fd, .events = events },
                           { .fd = cay__call_cancel(call), .events = POLLIN } };
    for (;;) {
        int left = cay__call_left(call);
        int n = poll(p, 2, left);
        if (n < 0 && errno != EINTR)
            return cay_fail_sys(err, CAY_ESYS, "%s: poll", what);
        if (n > 0 && p[1].revents)
            return canceled(what, err);
        if (n > 0)
            return 0;
        if (n == 0 && left >= 0 && cay__call_left(call) == 0)
            return timed_out(what, err);
    }
}
