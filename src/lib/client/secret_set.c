/* SPDX-License-Identifier: Apache-2.0 */
/* Other secrets, and the policy that binds them, for a sandbox that is there. */
#include "remote.h"
#include "net.h"
#include "secret.h"
#include "spec.h"
#include <base/fault.h>
#include <cay/policy.h>

CAY_DEFINE_AUTO(cay_policy, cay_policy_free)

/* The policy that holds, without its bindings. */
static int read_unbound_policy(cay_sandbox *sb, const cay_call *call, char **text, cay_err *err)
{
    CAY_AUTOFREE char *now = NULL;
    CAY_AUTOPTR(cay_policy) p = NULL;
    CAY_TRY(cay_sandbox_get_policy(sb, call, &now, NULL, err));
    CAY_TRY(cay_policy_parse(now, &p, err));
    cay_policy plain = *p;
    plain.bindings = NULL;
    return cay_policy_text(&plain, text, err);
}

/* What an earlier set of secrets put there; cay__secrets_prepare() adds its own. */
static void without_former(cay_create *c, cay__arena *mem)
{
    size_t n = 0, all = 0;
    while (c->process.env && c->process.env[all].key)
        all++;
    cay_pair *env = cay__arena_take(mem, (all + 1) * sizeof *env);
    CAY_EACH_OF(it, c->process.env, all) {
        const char *value = CAY_OR(it->value, "");
        bool ours = cay__str_starts(value, "cay-secret-");
        for (const cay_pair *t = cay_secret_env(); t->key; t++)
            ours |= !strcmp(t->key, it->key) && !strcmp(t->value, value);
        if (!ours)
            env[n++] = *it;
    }
    c->process.env = env;
}

/* Another program may change the record at the same time: the version tells, and we begin anew.
 * *former: as it was. */
static int record_secrets(cay_sandbox *sb, const cay_secret *secrets, size_t n, const char *net,
                          cay__row **former, cay__spec **now, cay_err *err)
{
    cay_client *client = sb->owner;
    for (int tries = 0;; tries++) {
        CAY_AUTOFREE char *json = NULL;
        cay__spec *spec = NULL;
        free(CAY_STEAL(*former));
        CAY_TRY(cay__client_row(client, sb->id, former, err));
        CAY_TRY(cay__spec_read(&(*former)->row, &spec, err));
        spec->create.net.secrets = secrets;
        spec->create.net.nsecrets = n;
        spec->create.net.policy = net;
        without_former(&spec->create, spec->mem);
        int rc = cay__secrets_tenant(&spec->create, err);
        if (rc == 0)
            rc = cay__secrets_prepare(&spec->create, spec->mem, err);
        if (rc == 0)
            rc = cay__spec_text(spec, &json, err);
        if (rc == 0)
            rc = CAY__STORE(client, respec, sb->id, (*former)->row.version, json, err);
        if (rc == 0) {
            *now = spec;
            return 0;
        }
        cay__spec_free(spec);
        if (rc != CAY_ESTATE || tries == 8)
            return rc;
    }
}

/* The values first, then the policy that binds them; without any the other way round, and the old
 * values are forgotten. */
static int apply_secrets(cay_sandbox *sb, void *box, const cay_call *call, const cay_create *c,
                         bool had, cay_err *err)
{
    CAY_AUTOFD none = -1, trust = -1;
    uint64_t revision;
    if (c->net.nsecrets)
        return cay__secrets_give(sb->owner, sb->ops, box, call, c, err);
    size_t len = strlen(CAY_OR(c->net.policy, ""));
    if (c->net.policy)
        CAY_TRY(sb->ops->policy(box, call, c->net.policy, len, &revision, err));
    if (!had || !CAY__HAS(sb->ops, secrets) || cay__secrets_collect(sb->owner, c, &none, NULL) < 0)
        return 0;
    return sb->ops->secrets(box, call, c->net.policy, len, none, &trust, err);
}

static void take_back(cay_sandbox *sb, void *box, const cay_call *call, const cay__row *former)
{
    CAY_AUTOFREE cay__row *row = NULL;
    CAY_AUTOFREE char *json = NULL;
    cay_client *client = sb->owner;
    cay__spec *spec = NULL;
    if (cay__spec_read(&former->row, &spec, NULL) < 0)
        return;
    if (cay__spec_text(spec, &json, NULL) == 0 && cay__client_row(client, sb->id, &row, NULL) == 0)
        CAY__STORE(client, respec, sb->id, row->row.version, json, NULL);
    apply_secrets(sb, box, call, &spec->create, true, NULL);
    cay__spec_free(spec);
}

static int bind_remote(cay_sandbox *sb, const cay_call *call, const char *net,
                       const cay_secret *secrets, size_t n, cay_err *err)
{
    CAY_AUTOFREE char *policy = NULL;
    if (net)
        CAY_TRY(cay_policy_to_json(net, &policy, err));
    cay__secret_binds body = { secrets, n, policy };
    return cay__remote_do(cay__remote_of(sb), call,
                          &CAY__REQUEST(secret_bind, .path = { sb->id }, .body = &body), err);
}

int cay_sandbox_set_secrets(cay_sandbox *sb, const cay_call *call, const char *net,
                            const cay_secret *secrets, size_t n, cay_err *err)
{
    CAY__OP(call, "secret.set", sb->id, err);
    if (cay__remote_of(sb))
        return bind_remote(sb, call, net, secrets, n, err);
    CAY_AUTOFREE cay__row *former = NULL;
    CAY_AUTOFREE char *held = NULL;
    cay__spec *now = NULL, *then = NULL;
    void *box = NULL;
    CAY_TRY(cay__call_check(call, "secrets", err));
    if (!sb->owner)
        return cay_fail_why(err, CAY_ENOENT, "secret_unknown",
                            "sandbox %s is thrown away and has no record of its secrets", sb->id);
    if (n && !CAY__HAS(sb->ops, secrets))
        return cay_fail_why(err, CAY_ENOTSUP, "not_supported",
                            "secrets: provider %s cannot put them into requests", sb->ops->name);
    CAY_TRY(cay__net_live_box(sb, call, &box, err));
    if (!net)
        CAY_TRY(read_unbound_policy(sb, call, &held, err));
    CAY_TRY(record_secrets(sb, secrets, n, CAY_OR(net, held), &former, &now, err));
    CAY_FAULT("secrets.recorded");
    bool had = cay__spec_read(&former->row, &then, NULL) == 0 && then->create.net.nsecrets;
    int rc = 0;
    if (box)
        rc = apply_secrets(sb, box, call, &now->create, had, err);
    if (rc < 0)
        take_back(sb, box, call, former);
    cay__spec_free(now);
    if (then)
        cay__spec_free(then);
    if (rc < 0)
        return cay_wrap(err, rc, "secrets of %s", sb->id);
    return 0;
}
