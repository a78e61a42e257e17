/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay/policy.h - what a sandbox may reach, and what it did reach.
 *
 *   cay_policy_text()         rules, rates and bindings → the one text
 *   cay_policy_parse()        and back
 *   cay_sandbox_set_policy()  another policy, live
 *   cay_sandbox_get_policy()  the one that holds
 *   cay_sandbox_net_add()     one rule more, live
 *   cay_net_evaluate()             what a rule says to a name
 *   cay_net_log()             what was allowed and refused
 *   cay_net_fetch_open()      a fetch on its behalf
 *
 * A sandbox reaches nothing until its policy says otherwise. A rule is
 *
 *     [!][SCHEME://]TARGET[:PORT[-PORT]]
 *
 * `!` denies and holds for every port unless one is named. SCHEME is tls, tls+opaque (a hello
 * without a readable name passes), http or tcp. TARGET is an exact name, `*.name` (below it),
 * `**.name` (it and below it), an address or CIDR (IPv6 with a port in brackets), or `any`. Without
 * a port an allow holds for 443 as tls and 80 as http; a port without a scheme is tls on 443, http
 * on 80, tcp elsewhere. `pypi`, `npm`, `github`, … are presets: cay_net_preset() lists them. `all`
 * is everything public, `off` nothing.
 *
 * Order: the operator's deny, ranges that are always blocked (loopback, private, link-local,
 * metadata, …), the sandbox's deny, its allow, no. A change is whole or refused; then the former
 * policy stays. It is numbered, and flows that it forbids are cut within 2 s.
 */
#pragma once
#include <cay/client.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum cay_net_mode {
    CAY_NET_AUTO = 0, /* as the rules say: off without any */
    CAY_NET_OFF,
    CAY_NET_ALL, /* everything public but what the rules deny */
    CAY_NET_RULES,
} cay_net_mode;

/* Where a secret goes: [https://|http://][*.]HOST[:PORT][/PATH][,HOW][,METHOD+METHOD…], where HOW
 * is bearer, header:NAME, basic:USER or query:KEY. */
typedef struct cay_bind {
    const char *name; /* of the secret, and of the variable inside */
    const char *destination;
} cay_bind;

typedef struct cay_policy {
    size_t size;
    cay_net_mode mode;
    const char *const *rules; /* NULL-terminated: rules and presets; or words as --net takes them:
                                 "all", "pypi,npm" */
    uint64_t rate_up, rate_down; /* bytes per second; 0: no limit */
    uint32_t connections;        /* at once; 0: no limit */
    const cay_bind *bindings;    /* ends with a NULL name */
} cay_policy;

/* The text that cay_create.net.policy and cay_sandbox_set_policy() take. CAY_EINVAL names the rule,
 * what is wrong and the remedy: reasons policy_invalid, policy_conflict, secret_invalid, … The
 * caller frees it. */
CAY_API int cay_policy_text(const cay_policy *spec, char **text, cay_err *err);
/* Back: presets are rules by now, and every rule has its one spelling. cay_policy_free() frees all
 * of it. */
CAY_API int cay_policy_parse(const char *text, cay_policy **out, cay_err *err);
CAY_API void cay_policy_free(cay_policy *p);
/* The same as JSON: {"mode", "rules": […], "rate_up", "rate_down", "connections", "bindings":
 * [{"name", "destination"}]}. An unknown member is refused. The caller frees. */
CAY_API int cay_policy_to_json(const char *text, char **json, cay_err *err);
CAY_API int cay_policy_from_json(const char *json, char **text, cay_err *err);
/* Name of preset i and its rules, NULL-terminated; NULL after the last. */
CAY_API const char *cay_net_preset(size_t i, const char *const **rules);

/* revision (may be NULL) grows with every change; 0 when the sandbox is stopped, which takes it up
 * when it starts. It is kept with the sandbox. CAY_ENOTSUP by name where the provider has no
 * policy. */
CAY_API int cay_sandbox_set_policy(cay_sandbox *sb, const cay_call *call, const char *text,
                                   uint64_t *revision, cay_err *err);
CAY_API int cay_sandbox_get_policy(cay_sandbox *sb, const cay_call *call, char **text,
                                   uint64_t *revision, cay_err *err);
/* Adds rules (NULL-terminated) to what holds. A deny takes the allows away that it covers; an allow
 * takes away a deny of the same. */
CAY_API int cay_sandbox_net_add(cay_sandbox *sb, const cay_call *call, const char *const *rules,
                                uint64_t *revision, cay_err *err);

typedef struct cay_net_verdict {
    size_t size;
    bool allow;
    char reason[24];  /* "allowed" "implicit" "service" "off" "default_deny" "tenant_deny"
                         "operator_deny" "blocked_range" */
    char rule[320];   /* that decided, or "" */
    char range[16];   /* of "blocked_range": "private", "metadata", … */
    char proto[8];    /* how the flow has to look: "tls", "http", "tcp"; "" when refused */
    char remedy[400]; /* the rule that would allow it, or who could; "" when allowed */
} cay_net_verdict;
/* What would happen to host (a name or an address) at port; port 0: may the name be looked up.
 * Nothing is sent anywhere: where a name leads is seen, and judged, when it is dialled. */
CAY_API int cay_net_evaluate(cay_sandbox *sb, const cay_call *call, const char *host, uint16_t port,
                             cay_net_verdict *out, cay_err *err);

/* One record of the audit log. Strings live until the function returns. */
typedef struct cay_net_record {
    size_t size;
    int64_t time_ms;     /* wall clock */
    const char *event;   /* "dns", "connect", "credential", "end", "fetch", "policy", "lost" */
    const char *verdict; /* "allow", "deny", "fail"; of "end": "closed", "cut" */
    const char *reason, *name, *address, *proto, *rule;
    const char *seen; /* what the program said instead of the name */
    uint16_t port;
    uint64_t flow, up, down, ms, count; /* of "end": bytes and time; of "lost": how many records */
    const char *json; /* the record as it was written, with exec or execs when they are known */
    const char *exec; /* id of the command that was the only one started through the API that ran
                         when the program asked, and so most likely was it; "": nobody knows */
    unsigned execs;   /* how many of them ran then; 0: none, or nobody knows */
    const char
        *secret; /* of "credential": name of the one that was added; "": none was concerned */
} cay_net_record;
typedef int cay_net_record_fn(const cay_net_record *record, void *arg);
/* Calls fn for each record, oldest first; a non-zero return stops and is returned. The log has at
 * most a few megabytes. */
CAY_API int cay_net_log(cay_sandbox *sb, cay_net_record_fn *fn, void *arg, cay_err *err);

/* The operator's file, egress.conf of the state directory or else of /etc/cay: 0 when it can be
 * read, or is not there. A file that cannot (the message names the line) changes nothing: what it
 * said before holds, and a new cay-egress does not start with it. */
CAY_API int cay_net_operator_check(cay_client *client, cay_err *err);
/* Before this service itself asks somebody on a tenant's behalf: does the operator's file let
 * anything go to host at port? addr: of IPv6, or IPv4 mapped into it, which the name leads to;
 * NULL: by the name alone. own: who runs the client named the host, so it may be at a private
 * address. CAY_EPERM, "registry_denied" or "registry_private". */
CAY_API int cay_net_operator_may(cay_client *client, const char *host, uint16_t port,
                                 const uint8_t *addr, bool own, cay_err *err);
/* Reads the sources of its secrets anew and hands the values over: rotation without a restart.
 * CAY_ESTATE when it is not running. */
CAY_API int cay_sandbox_renew_secrets(cay_sandbox *sb, const cay_call *call, cay_err *err);
/* Other secrets instead of all that it has, and the policy that binds them, from its next request
 * on; n 0: none. net as in cay_create, without bind lines; NULL: the rules that hold. All of it or
 * nothing. The variables that hold placeholders, and those that lead programs to what they have to
 * trust, are there from its next start on; until then cay_secret_env() (ends with a NULL key) is
 * for whoever starts commands in it. */
CAY_API int cay_sandbox_set_secrets(cay_sandbox *sb, const cay_call *call, const char *net,
                                    const cay_secret *secrets, size_t n, cay_err *err);
CAY_API const cay_pair *cay_secret_env(void);
/* Secrets of the store, for sources "store:NAME": encrypted under a key in a file outside the state
 * directory ($CAY_SECRET_KEY, a systemd credential cay-secret-key, /etc/cay/secret.key or
 * ~/.config/cay/secret.key; made at the first put). */
CAY_API int cay_secret_put(cay_client *client, const char *name, const void *value, size_t len,
                           cay_err *err);
CAY_API int cay_secret_remove(cay_client *client, const char *name,
                              cay_err *err); /* CAY_ENOENT when not there */
CAY_API int cay_secret_list(cay_client *client,
                            int (*fn)(const char *name, int64_t changed_ms, void *arg), void *arg,
                            cay_err *err);

/* A fetch for a sandbox by whoever serves it: a URL of a manifest, a template's layer. Schemes
 * https and http. The URL's own scheme, host and port need no rule of the sandbox for this one
 * fetch; the operator's rules and the blocked ranges hold. Redirects: at most 5, each judged again;
 * another host or port needs a rule. */
typedef struct cay_net_fetch cay_net_fetch;
typedef struct cay_net_url {
    bool tls;
    const char *host; /* a folded name, or an address without brackets */
    uint16_t port;
    const char *target; /* path and query, "/" at least; no fragment */
} cay_net_url;
CAY_API int cay_net_fetch_open(cay_sandbox *sb, const char *url, cay_net_fetch **out, cay_err *err);
CAY_API void cay_net_fetch_close(cay_net_fetch *f);
CAY_API const cay_net_url *cay_net_fetch_at(
    const cay_net_fetch *f); /* where it is now; until the next redirect */
/* A connected descriptor; TLS, where the URL wants it, is the caller's. */
CAY_API int cay_net_fetch_dial(cay_net_fetch *f, const cay_call *call, int *fd, cay_err *err);
/* The server's Location. From https to http is refused. */
CAY_API int cay_net_fetch_redirect(cay_net_fetch *f, const char *location, cay_err *err);
/* One connection under the sandbox's policy, without any exception. */
CAY_API int cay_net_dial(cay_sandbox *sb, const cay_call *call, const char *host, uint16_t port,
                         int *fd, cay_err *err);

#ifdef __cplusplus
}
#endif
