/* SPDX-License-Identifier: Apache-2.0 */
#include "agent.h"
#include <base/base.h>

#define USUAL_KEY "CAY_AUDIT_KEY"

static bool is_server(const char *to)
{
    return strstr(to, "://") != NULL;
}

static bool has_usual(void)
{
    const char *key = getenv(USUAL_KEY);
    return key && *key;
}

/* Servers have spools and keys of their own: what waits for one, and what opens it, is not for
 * another. */
int agent_audit_check(const agent_audit *a, cay_err *err)
{
    const struct {
        const char *name;
        size_t n;
    } rows[] = { { "--audit-spool", a->spool.n }, { "--audit-key", a->key.n } };
    size_t servers = 0;
    CAY_EACH_OF(it, a->to.v, a->to.n)
        servers += is_server(*it);
    CAY_EACH(row, rows)
        if (row->n && row->n != servers)
            return cay_fail(err, CAY_EINVAL,
                            "%s: %zu given, and --audit names %zu server%s: give one for each, in "
                            "their order (none: without)",
                            row->name, row->n, servers, out_plural(servers, "s"));
    if (servers > 1 && !a->key.n && has_usual())
        return cay_fail(err, CAY_EINVAL,
                        USUAL_KEY " is the key of one server, and --audit names %zu: say "
                                  "--audit-key env:NAME for each, in their order (none: without)",
                        servers);
    return 0;
}

static const char *get_nth_value(const opt_list *list, size_t i, const char *otherwise)
{
    const char *v = otherwise;
    if (list->n)
        v = list->v[i];
    if (v && strcmp(v, "none"))
        return v;
    return NULL;
}

/* All of them must be written, or the run ends. */
int agent_audit_open(const agent_audit *a, cay_audit_sink **out, cay_err *err)
{
    const char *usual = NULL;
    if (has_usual())
        usual = "env:" USUAL_KEY;
    for (size_t i = 0, server = 0; i < a->to.n; i++) {
        const char *to = a->to.v[i];
        cay_audit_sink *one = NULL;
        if (is_server(to)) {
            cay_audit_sink_http_spec http = { .size = sizeof http,
                                              .url = to,
                                              .spool = get_nth_value(&a->spool, server, NULL),
                                              .key = get_nth_value(&a->key, server, usual) };
            server++;
            CAY_TRY(cay_audit_sink_http(&http, true, &one, err));
        } else if (!strcmp(to, "workspace:")) {
            one = cay_audit_sink_workspace(true);
        } else {
            CAY_TRY(cay_audit_sink_file(to, true, &one, err));
        }
        cay_audit_sink_detail(one, a->detail);
        cay_audit_sink_output(one, a->output);
        if (*out)
            cay_audit_sink_also(*out, one);
        else
            *out = one;
    }
    return 0;
}
