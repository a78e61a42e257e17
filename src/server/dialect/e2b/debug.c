/* SPDX-License-Identifier: Apache-2.0 */
/*
 * E2B_DEBUG: SDKs then ask nobody for a sandbox, and speak to http://localhost:49983 without a
 * token, for "a sandbox on this machine". On a listener with --as, which is this machine's own,
 * that is one sandbox of the tenant.
 */
#include "e2b.h"
#include <sys/file.h>

#define DEBUG_ID "debug_sandbox_id"
#define LABEL    "e2b-debug"

static const cay_pair labels[] = { { LABEL, "1" }, { NULL, NULL } };

bool e2b_debug(const cay__req *r, const char *id)
{
    return r->as && (!id || !strcmp(id, DEBUG_ID));
}

static int on_list_sandbox(const cay_info *i, void *arg)
{
    return cay__str_copy(arg, CAY_ID_LEN + 1, i->id); /* 1: that is enough */
}

static int find_sandbox(cay__req *r, char id[CAY_ID_LEN + 1], cay_err *err)
{
    const cay_filter f = { .size = sizeof f,
                           .labels = labels,
                           .tenant = r->as,
                           .states = 1u << CAY_RUNNING | 1u << CAY_PAUSED };
    *id = 0;
    return cay_client_list(r->client, &r->call, &f, on_list_sandbox, id, err);
}

static int create_sandbox(cay__req *r, char id[CAY_ID_LEN + 1], cay_err *err)
{
    CAY_AUTOFREE char *net = NULL;
    CAY_AUTOPTR(cay_sandbox) sb = NULL;
    CAY_TRY(e2b_policy(NULL, true, &net, err));
    cay_create c = { .size = sizeof c,
                     .process.user = "user",
                     .process.workdir = "/home/user",
                     .labels = labels,
                     .tenant = r->as,
                     .net.policy = net,
                     .net.is_default = true,
                     .metadata = "{\"e2b\":{},\"metadata\":{}}" };
    CAY_TRY(cay__create_sudo(r, &c, &sb, err));
    cay__str_copy(id, CAY_ID_LEN + 1, cay_sandbox_id(sb));
    return 0;
}

int e2b_debug_find(cay__req *r, char id[CAY_ID_LEN + 1], cay_err *err)
{
    CAY_TRY(find_sandbox(r, id, err));
    if (*id)
        return 0;
    /* Many may come at once, to several servers: one of them makes it. */
    CAY_AUTOFD lock = open(cay_client_home(r->client), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock < 0 || flock(lock, LOCK_EX) < 0)
        return cay_fail_sys(err, "the state directory");
    CAY_TRY(find_sandbox(r, id, err));
    if (*id)
        return 0;
    return create_sandbox(r, id, err);
}
