/* SPDX-License-Identifier: Apache-2.0 */
/* What is reached: policies, ports, services. */
#include "shapes.h"

#define FIELD CAY__FIELD
#define NAMED CAY__NAMED

static const cay__field revision_fields[] = {
    FIELD(cay__revised, revision, U64, .about = "0: it is stopped, and takes it up when it starts"),
};
CAY__SHAPED(revision, "Revision", cay__revised, CAY__F_OUT,
            "the policy that holds has this number");

static const cay__field policy_fields[] = {
    FIELD(cay__revised, revision, U64),
    FIELD(cay__revised, policy, JSON,
          .about = "mode, rules, rate_up, rate_down, connections, bindings"),
};
CAY__SHAPED(policy, "HoldingPolicy", cay__revised, CAY__F_OUT, "what it may reach");

static const cay__field net_rules_fields[] = {
    FIELD(cay__net_rules, rules, STRS, CAY__F_REQUIRED, .max = 1000,
          .about = "[!][SCHEME://]TARGET[:PORT[-PORT]], or a preset"),
    FIELD(cay__net_rules, ttl_ms, U64, .max = 30ull * 86400000,
          .about = "they end after that; 0: they stay"),
};
CAY__SHAPED(net_rules, "Rules", cay__net_rules, CAY__F_IN, "rules to be added");

#define VERDICT(member, ...) NAMED(#member, cay__net_judged, v.member, __VA_ARGS__)
static const cay__field verdict_fields[] = {
    FIELD(cay__net_judged, host, STR),
    FIELD(cay__net_judged, port, U16, CAY__F_MAYBE),
    VERDICT(allow, BOOL),
    VERDICT(reason, TEXT),
    VERDICT(rule, TEXT),
    VERDICT(range, TEXT, CAY__F_MAYBE),
    VERDICT(proto, TEXT, CAY__F_MAYBE),
    VERDICT(remedy, TEXT, CAY__F_MAYBE),
};
CAY__SHAPED(verdict, "Verdict", cay__net_judged, CAY__F_OUT,
            "may it be reached, and which rule says so");

static const cay__field port_fields[] = {
    FIELD(cay_port, port, U16),
    FIELD(cay_port, address, TEXT, .about = "as bound inside"),
    FIELD(cay_port, pid, INT, .about = "inside; 0: not known"),
};
CAY__SHAPED(port, "Port", cay_port, CAY__F_OUT, "somebody inside listens");

static const cay__field exposed_fields[] = {
    NAMED("port", cay__exposed_told, e.port, U16),
    NAMED("token", cay__exposed_told, e.token, TEXT, CAY__F_MAYBE | CAY__F_SECRET,
          .about = "told once"),
    NAMED("created_ms", cay__exposed_told, e.created_ms, I64),
    NAMED("expires_ms", cay__exposed_told, e.expires_ms, I64),
    FIELD(cay__exposed_told, url, TEXT, CAY__F_UNSHOWN,
          .about = "where the preview is; with ?cay_token=TOKEN it opens"),
};
CAY__SHAPED(exposed, "Exposed", cay__exposed_told, CAY__F_OUT, "a port that a token opens");

static const cay__field expose_fields[] = {
    { "ttl_ms", CAY__F_U64, .min = 1000, .max = 7 * 86400000ull,
      .about = "how long the token holds; a day" },
};
CAY__SHAPED(expose, "Expose", uint64_t, CAY__F_IN, "a token for a port");

static const cay__field endpoint_fields[] = {
    FIELD(cay_endpoint, port, U16, .about = "inside"),
    FIELD(cay_endpoint, host, TEXT, .about = "an address or name of the machine that runs it"),
    FIELD(cay_endpoint, host_port, U16),
    FIELD(cay_endpoint, tls, BOOL),
};
CAY__SHAPED(endpoint, "Endpoint", cay_endpoint, CAY__F_OUT | CAY__F_SIZED,
            "where a port is that the provider publishes");

static const char *const service_words[] = { "waiting", "starting", "ready",  "unhealthy",
                                             "backoff", "done",     "failed", "stopping",
                                             "stopped", NULL };
static const cay__field service_fields[] = {
    FIELD(cay_service_info, name, STR),
    FIELD(cay_service_info, state, WORD, .more = service_words),
    FIELD(cay_service_info, ready, BOOL, .about = "it serves, or has done what it is for"),
    FIELD(cay_service_info, pid, INT, CAY__F_MAYBE, .about = "inside"),
    FIELD(cay_service_info, port, U16, CAY__F_MAYBE),
    FIELD(cay_service_info, restarts, U32),
    FIELD(cay_service_info, code, INT, .about = "how it ended last; -1: it never did"),
    FIELD(cay_service_info, reason, STR, CAY__F_MAYBE | CAY__F_FULL),
    FIELD(cay_service_info, process, STR, CAY__F_MAYBE | CAY__F_FULL,
          .about = "whose output is the service's, through all restarts; its tag is the name"),
    FIELD(cay_service_info, since_ms, I64, .about = "in this state"),
    FIELD(cay_service_info, ready_ms, I64, CAY__F_MAYBE),
    FIELD(cay_service_info, ready_after_ms, U32),
    FIELD(cay_service_info, wait_ms, U32, CAY__F_MAYBE,
          .about = "backoff: from since_ms to its next start"),
};
CAY__SHAPED(service, "Service", cay_service_info, CAY__F_OUT | CAY__F_SIZED,
            "a command that is kept running");

static const char *const service_op_words[] = { "start", "stop", "restart", NULL };
static const cay__field service_act_fields[] = {
    FIELD(cay__service_act, op, WORD, CAY__F_REQUIRED, .more = service_op_words),
    FIELD(cay__service_act, names, STRS, .max = CAY_SERVICES_MAX, .about = "which; all without it"),
};
CAY__SHAPED(service_act, "ServiceAct", cay__service_act, CAY__F_IN, "what is done to services");

static const cay__field services_waited_fields[] = {
    FIELD(cay__services_waited, ready, BOOL,
          .about = "false: the time is over, or one is not going to be"),
    FIELD(cay__services_waited, items, LIST, .count = offsetof(cay__services_waited, n),
          .more = &cay__service_shape),
};
CAY__SHAPED(services_waited, "ServicesWaited", cay__services_waited, CAY__F_OUT, NULL);

static const cay__field net_why_params[] = {
    FIELD(cay__net_judged, host, STR, CAY__F_REQUIRED, .about = "a name or an address"),
    FIELD(cay__net_judged, port, U16, .about = "without: may the name be looked up"),
};
CAY__ASKED(net_why, cay__net_judged);

static const cay__field net_log_params[] = {
    FIELD(cay__log_query, denied, BOOL, .about = "only what was refused"),
    FIELD(cay__log_query, count, U64, .max = 1u << 20, .about = "only the last ones"),
    FIELD(cay__log_query, follow, BOOL, .about = "as SSE, and what comes"),
};
CAY__ASKED(net_log, cay__log_query);

static const cay__field service_wait_params[] = {
    FIELD(cay__wait_query, timeout_ms, U64, .max = 600000, .about = "at most 600000; 30000"),
    FIELD(cay__wait_query, name, STR, .about = "of this one alone"),
};
CAY__ASKED(service_wait, cay__wait_query);
