/* SPDX-License-Identifier: Apache-2.0 */
/* Services of a sandbox: how they do, and waiting for them. What keeps them running is the
 * provider's. */
#include "sandbox.h"
#include <cay/services.h>

const char *cay_service_state_name(cay_service_state s)
{
    static const char *const names[] = { "waiting", "starting", "ready",    "unhealthy", "backoff",
                                         "done",    "failed",   "stopping", "stopped" };
    if ((unsigned)s < CAY_LEN(names))
        return names[s];
    return "?";
}

static int check_call(cay_sandbox *sb, const cay_call *call, const char *what, cay_err *err)
{
    CAY_TRY(cay__call_check(call, what, err));
    if (!CAY__HAS(sb->ops, services) || !CAY__HAS(sb->ops, service_act))
        return cay__no_such_op(sb, "keep services running", err);
    return 0;
}

int cay_sandbox_services(cay_sandbox *sb, const cay_call *call, cay_service_info_fn *fn, void *arg,
                         cay_err *err)
{
    CAY_TRY(check_call(sb, call, "services", err));
    CAY_TRY(cay__sandbox_files(sb, err)); /* looking is allowed while paused */
    return sb->ops->services(sb->box, call, fn, NULL, arg, err);
}

int cay_sandbox_service_act(cay_sandbox *sb, const cay_call *call, const char *name,
                            cay_service_op op, cay_err *err)
{
    CAY_TRY(check_call(sb, call, "services", err));
    if (op < CAY_SERVICE_START || op > CAY_SERVICE_RESTART)
        return cay_fail_why(err, CAY_EINVAL, "service_op",
                            "a service is started, stopped or restarted");
    if (name && (!*name || strlen(name) >= CAY_SERVICE_NAME))
        return cay_fail_why(err, CAY_ENOENT, "service_not_found",
                            "service %.40s: there is none of this name", name);
    CAY_TRY(cay__sandbox_ready(sb, err));
    return sb->ops->service_act(sb->box, call, name, op, err);
}

typedef struct verdict {
    const char *name; /* NULL: all */
    bool seen;
    char late[CAY_SERVICE_NAME], failed[CAY_SERVICE_NAME],
        why[80]; /* one that is not ready yet; one that will not be */
    cay_service_state state;
} verdict;

static int update_verdict(const cay_service_info *u, void *arg)
{
    verdict *v = arg;
    bool off = u->state == CAY_SERVICE_STOPPED; /* one that stops may be about to start again */
    if (v->name && strcmp(v->name, u->name))
        return 0;
    v->seen = true;
    if (u->ready || (off && !v->name))
        return 0;
    bool never = u->state == CAY_SERVICE_FAILED || off;
    if (never && !v->failed[0]) {
        CAY_COPY(v->failed, u->name);
        CAY_COPY(v->why, cay__text_or(u->reason, cay_service_state_name(u->state)));
    } else if (!never && !v->late[0]) {
        CAY_COPY(v->late, u->name);
        CAY_COPY(v->why, u->reason);
        v->state = u->state;
    }
    return 0;
}

/* After each round: whether there is something to wait for. What was found is kept for the answer.
 */
static int go_on(void *arg)
{
    verdict *v = ((verdict *)arg);
    if (!v->late[0] || v->failed[0] || (v->name && !v->seen))
        return 0;
    v[1] = v[0];
    v[0] = (verdict){ .name = v->name };
    return 1;
}

int cay_sandbox_services_wait(cay_sandbox *sb, const cay_call *call, const char *name, cay_err *err)
{
    verdict v[2] = { { .name = name }, { 0 } }; /* of this round, of the last */
    CAY_TRY(check_call(sb, call, "services", err));
    CAY_TRY(cay__sandbox_ready(sb, err));
    int rc = sb->ops->services(sb->box, call, update_verdict, go_on, v, err);
    if (rc == CAY_ETIMEOUT && v[1].late[0])
        return cay_fail_why(err, CAY_ETIMEOUT, "service_not_ready",
                            "service %s is %s, not ready%s%s; see: cay logs %s %s", v[1].late,
                            cay_service_state_name(v[1].state), v[1].why[0] ? ": " : "", v[1].why,
                            sb->id, v[1].late);
    CAY_TRY(rc);
    if (name && !v->seen)
        return cay_fail_why(err, CAY_ENOENT, "service_not_found",
                            "service %.40s: there is none of this name", name);
    if (v->failed[0])
        return cay_fail_why(err, CAY_ESTATE, "service_failed",
                            "service %s: %s; see: cay logs %s %s", v->failed, v->why, sb->id,
                            v->failed);
    return 0;
}
