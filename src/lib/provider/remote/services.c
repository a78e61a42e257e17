/* SPDX-License-Identifier: Apache-2.0 */
/* Services of a sandbox on a server: kept running over there. */
#include "remote_box.h"
#include <base/call.h>
#include <cay/services.h>

#define STEP_MS 2000 /* one look; the server answers sooner when all are ready or one failed */

static cay_service_state state_of(const char *word)
{
    for (int s = CAY_SERVICE_WAITING; s <= CAY_SERVICE_STOPPED; s++)
        if (!strcmp(word, cay_service_state_name((cay_service_state)s)))
            return (cay_service_state)s;
    return CAY_SERVICE_FAILED;
}

static int report_services(const json_t *items, int (*fn)(const cay_service_info *, void *),
                           void *arg)
{
    size_t i;
    json_t *o;
    int rc = 0;
    json_array_foreach(items, i, o)
    {
        cay_service_info u = { .size = sizeof u,
                               .name = cay__far_word(o, "name"),
                               .state = state_of(cay__far_word(o, "state")),
                               .ready = cay__json_bool(o, "ready", false),
                               .pid = (int)cay__json_int(o, "pid", 0),
                               .port = (uint16_t)cay__json_int(o, "port", 0),
                               .restarts = (uint32_t)cay__json_int(o, "restarts", 0),
                               .code = (int)cay__json_int(o, "code", -1),
                               .reason = cay__far_word(o, "reason"),
                               .process = cay__far_word(o, "process"),
                               .since_ms = cay__json_int(o, "since_ms", 0),
                               .ready_ms = cay__json_int(o, "ready_ms", 0),
                               .ready_after_ms = (uint32_t)cay__json_int(o, "ready_after_ms", 0),
                               .wait_ms = (uint32_t)cay__json_int(o, "wait_ms", 0) };
        if ((rc = fn(&u, arg)))
            return rc;
    }
    return 0;
}

int cay__far_services(void *box, const cay_call *call, int (*fn)(const cay_service_info *, void *),
                      int (*more)(void *), void *arg, cay_err *err)
{
    cay__far_box *b = box;
    for (bool wait = false;; wait = true) {
        CAY_AUTOJSON *answer = NULL;
        CAY__FAR_TARGET(target);
        cay__far_at(&target, b, wait ? "/services/wait" : "/services");
        if (wait) {
            int left = cay__call_left(call);
            cay__far_query_u64(&target, "timeout_ms",
                               left < 0 || left > STEP_MS ? STEP_MS
                                                          : (uint64_t)CAY_MAX(left / 2, 1));
        }
        CAY_TRY(cay__far_json(b->far, call, "GET", &target, NULL, &answer, err));
        int rc = report_services(json_object_get(answer, "items"), fn, arg);
        if (rc || !more || (rc = more(arg)) <= 0)
            return rc;
        CAY_TRY(cay__call_check(call, "services", err));
    }
}

int cay__far_service_act(void *box, const cay_call *call, const char *name, int op, cay_err *err)
{
    static const char *const words[] = { "start", "stop", "restart" };
    cay__far_box *b = box;
    CAY__FAR_TARGET(target);
    json_t *body = json_pack("{s:s}", "op", words[op - CAY_SERVICE_START]);
    if (name)
        json_object_set_new(body, "names", json_pack("[s]", name));
    cay__far_at(&target, b, "/services");
    return cay__far_json(b->far, call, "POST", &target, body, NULL, err);
}
