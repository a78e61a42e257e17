/* SPDX-License-Identifier: Apache-2.0 */
/* Which sandboxes there are. */
#include "remote.h"
#include "client.h"
#include <lib/snapshot/snapshot.h>

#define SHOWN 8

/* Stands in for the provider of a record that cannot be believed. */
static const cay_provider_ops nobody = { .size = sizeof nobody, .name = "unknown" };

static int not_found(const char *ref, cay_err *err)
{
    CAY_AUTOBUF b = CAY__BUF(300);
    cay__buf_safe(&b, ref, CAY_MIN(strlen(ref), (size_t)64), false);
    return cay_fail_why(err, CAY_ENOENT, "sandbox_not_found",
                        "there is no sandbox %s; cay ls shows those there are",
                        CAY_OR(b.data, "without a name"));
}

static int fail_ambiguous(const char *ref, cay__id *ids, size_t n, cay_err *err)
{
    CAY_AUTOBUF list = CAY__BUF(160);
    for (size_t i = 0; i < CAY_MIN(n, 4); i++)
        cay__buf_fmt(&list, "%s%s", i ? ", " : "", ids[i]);
    const char *many = "several";
    if (n == 2)
        many = "two";
    if (n > 4)
        cay__buf_str(&list, ", …");
    return cay_fail_why(err, CAY_EINVAL, "sandbox_ambiguous",
                        "%.40s fits %s sandboxes: %s; give more of the id", ref, many, list.data);
}

static int resolve_ref(cay_client *client, const char *ref, char *id, cay_err *err)
{
    cay__id ids[SHOWN];
    size_t n = 0;
    CAY_TRY(CAY__STORE(client, resolve, ref, ids, SHOWN, &n, err));
    if (n == 0)
        return not_found(ref, err);
    size_t at = 0;
    for (size_t i = 0; i < n; i++)
        if (!strcmp(ids[i], ref)) { /* the whole id wins over one that has it for a name */
            at = i;
            n = 1;
        }
    if (n > 1)
        return fail_ambiguous(ref, ids, n, err);
    cay__str_copy(id, CAY_ID_LEN + 1, ids[at]);
    return 0;
}

/* A sandbox without record, by its whole id. */
static int find_unrecorded(cay_client *client, const cay_call *call, const char *id,
                           cay_sandbox **out, cay_err *err)
{
    cay_row row = {
        .size = sizeof row, .id = id, .provider = client->provider, .state = CAY_RUNNING
    };
    cay__truth t;
    CAY_TRY(cay__truth_find(client, call, &row, &t, err));
    if (!cay__state_live(t.state)) {
        cay__truth_clear(&t);
        return not_found(id, err);
    }
    *out = cay__handle_new(client, t.ops, id, CAY_STEAL(t.box), t.state);
    return 0;
}

static int find_row(cay_client *client, const cay_call *call, const cay_row *row, cay_sandbox **out,
                    cay_err *err)
{
    cay__truth t;
    int rc = cay__truth_find(client, call, row, &t, err);
    if (rc == 0 && !t.ops && row->state != CAY_DAMAGED)
        rc = cay_fail_why(err, CAY_ENOENT, "provider_not_found",
                          "provider %.60s is not known to this program", row->provider);
    if (rc < 0) {
        cay__truth_clear(&t);
        return cay_wrap(err, rc, "sandbox %s", row->id);
    }
    *out = cay__handle_new(client, CAY_OR(t.ops, &nobody), row->id, CAY_STEAL(t.box), t.state);
    cay__checkpoint_look(*out, row);
    return 0;
}

int cay_client_find(cay_client *client, const cay_call *call, const char *ref, cay_sandbox **out,
                    cay_err *err)
{
    if (client->remote)
        return cay__remote_find(client, call, ref, out, err);
    cay__id id;
    CAY_AUTOFREE cay__row *row = NULL;
    CAY_TRY(cay__call_check(call, "find", err));
    if (!ref || !*ref)
        return cay_fail_why(err, CAY_EINVAL, "spec_invalid",
                            "no sandbox is named; give an id, its beginning, or a name");
    int rc = resolve_ref(client, ref, id, err);
    if (rc == 0)
        rc = cay__client_row(client, id, &row, err);
    if (rc == CAY_ENOENT && cay__id_valid(ref, 'c'))
        return find_unrecorded(client, call, ref, out, err);
    CAY_TRY(rc);
    return find_row(client, call, &row->row, out, err);
}

static int take_alias(const char *value, void *arg)
{
    if (cay__str_copy(arg, CAY_ID_LEN + 1, value) && cay__id_valid(arg, 'c'))
        return 0;
    return CAY_ENOENT;
}

/* Another tenant's is not there, in the same words and before anybody is asked about it. */
int cay_client_find_of(cay_client *client, const cay_call *call, const char *tenant,
                       const char *ref, cay_sandbox **out, cay_err *err)
{
    if (client->remote) /* whose they are is the key's */
        return cay__remote_find(client, call, ref, out, err);
    cay__id id;
    CAY_AUTOFREE cay__row *row = NULL;
    CAY_TRY(cay__call_check(call, "find", err));
    if (!ref || !*ref)
        return cay_fail_why(err, CAY_EINVAL, "spec_invalid", "no sandbox is named; give its id");
    if (cay__id_valid(ref, 'c'))
        CAY_COPY(id, ref);
    else if (!tenant || cay__alias_get(client, tenant, ref, take_alias, id) != 0)
        return not_found(ref, err);
    int rc = cay__client_row(client, id, &row, err);
    if (rc == CAY_ENOENT && !tenant)
        return find_unrecorded(client, call, id, out, err);
    if (rc == CAY_ENOENT || (rc == 0 && tenant && strcmp(row->row.tenant, tenant) != 0))
        return not_found(ref, err);
    if (rc < 0)
        return rc;
    return find_row(client, call, &row->row, out, err);
}
