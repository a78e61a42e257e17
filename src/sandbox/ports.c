/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox.h"
#include <base/call.h>

int cay_port_list(cay_sandbox *sb, const cay_call *call, int (*fn)(const cay_port *p, void *arg),
                  void *arg, cay_err *err)
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
    if (!port)
        return cay_fail_why(err, CAY_EINVAL, "port_invalid", "port 0: give 1 to 65535");
    CAY_TRY(cay__call_check(call, "connect", err));
    if (!sb->ops->connect)
        return cay__no_such_op(sb, "connect to a port", err);
    CAY_TRY(cay__sandbox_ready(sb, err));
    return sb->ops->connect(sb->box, call, port, fd, err);
}
