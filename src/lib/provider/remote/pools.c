/* SPDX-License-Identifier: Apache-2.0 */
/* Of a client of a server: sandboxes that it keeps ready. */
#include "remote_box.h"
#include "client.h"

int cay__remote_warm_put(cay_client *client, const cay_call *call, const cay_pool *w, cay_err *err)
{
    CAY__FAR_TARGET(target);
    cay__buf_str(&target, CAY__FAR_API "/pools");
    return cay__far_json(cay__remote_far(client), call, "PUT", &target,
                         json_pack("{s:s, s:s, s:i, s:i}", "template", w->template_, "tenant",
                                   w->tenant, "low", (int)w->low, "high", (int)w->high),
                         NULL, err);
}

typedef struct pools {
    int (*fn)(const cay_pool *, void *);
    void *arg;
} pools;

static int on_pool(const json_t *o, void *arg)
{
    const pools *p = arg;
    const cay_pool w = { .size = sizeof w,
                         .id = cay__far_word(o, "id"),
                         .template_ = cay__far_word(o, "template"),
                         .tenant = cay__far_word(o, "tenant"),
                         .error = cay__far_word(o, "error"),
                         .low = (unsigned)cay__json_int(o, "low", 0),
                         .high = (unsigned)cay__json_int(o, "high", 0),
                         .ready = (unsigned)cay__json_int(o, "ready", 0),
                         .making = (unsigned)cay__json_int(o, "making", 0) };
    return p->fn(&w, p->arg);
}

int cay__remote_warm_list(cay_client *client, const cay_call *call,
                          int (*fn)(const cay_pool *, void *), void *arg, cay_err *err)
{
    CAY__FAR_TARGET(target);
    cay__buf_str(&target, CAY__FAR_API "/pools");
    return cay__remote_each(client, call, &target, on_pool, &(pools){ fn, arg }, err);
}

int cay__remote_warm_remove(cay_client *client, const cay_call *call, const char *tenant,
                            const char *template_, cay_err *err)
{
    CAY__FAR_TARGET(target);
    cay__buf_str(&target, CAY__FAR_API "/pools");
    cay__far_query(&target, "template", CAY_OR(template_, ""));
    if (tenant)
        cay__far_query(&target, "tenant", tenant);
    return cay__far_json(cay__remote_far(client), call, "DELETE", &target, NULL, NULL, err);
}
