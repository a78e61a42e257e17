/* SPDX-License-Identifier: Apache-2.0 */
/* The work of pools: one at a time at each, by whoever has its job. */
#include "pool.h"
#include "spec.h"
#include <lib/template/template.h>
#include <base/fault.h>
#include <cay/access.h>
#include <cay/jobs.h>
#include <cay/services.h>
#include <cay/pool.h>

enum { READY_MS = 40000, SPARE_MS = 10000, AGAIN_MS = 60000, ATTEMPTS = 3, BACKOFF_MS = 5000 };
#define LABEL_OF                                                                                   \
    "cay.pool.of" /* what it was made of: another template or request makes it stale               \
                   */

/* Of the template that the name means now, and of the request. */
static void made_of(const cay__pool_note *n, const char *template_id, char out[33])
{
    CAY_AUTOFREE char *text = cay__json_text(json_object_get(n->all, "request"), CAY__SPEC_MAX);
    char hex[65];
    CAY_AUTOBUF b = CAY__BUF(2 * CAY__SPEC_MAX);
    cay__buf_fmt(&b, "%s\n%s", template_id, CAY_OR(text, ""));
    cay_idempotency_hash(b.data, b.len, hex);
    snprintf(out, 33, "%.32s", hex);
}

static int queue_pool_job(const char *key, const char *value, void *arg)
{
    cay_client *client = arg;
    unsigned ready, making;
    char means[CAY_TEMPLATE_NAME + 1];
    CAY_AUTOJSON *j = NULL;
    if (cay__json_object("record: pool", value, &j, NULL) < 0 ||
        cay__pool_rows(client, key, NULL, NULL, &ready, &making, NULL) < 0)
        return 0;
    int64_t failed = cay__json_int(j, "failed_ms", 0), now = cay__clock_ms();
    if (failed && now - failed < AGAIN_MS && failed <= now)
        return 0;
    /* A name that means another template, or a request that was learnt, is work as well. */
    bool moved = cay__pool_means(client, NULL, j, means, sizeof means, NULL) < 0 ||
                 strcmp(means, cay__json_str(j, "template_id", "")) != 0;
    char of[33] = "";
    if (!moved)
        made_of(&(cay__pool_note){ .all = j }, means, of);
    bool other = strcmp(of, cay__json_str(j, "of", "")) != 0;
    if (ready >= (uint64_t)cay__json_int(j, "low", 0) &&
        ready <= (uint64_t)cay__json_int(j, "high", 0) && !moved && !other)
        return 0;
    const cay_job task = { .size = sizeof task,
                           .kind = CAY_POOL_TASK,
                           .subject = key,
                           .key = key,
                           .most = ATTEMPTS,
                           .backoff_ms = BACKOFF_MS };
    if (cay_job_put(client, &task, CAY_JOB_KEEP, NULL, NULL) < 0)
        return 1;
    return 0;
}

int cay_pool_schedule(cay_client *client, cay_err *err)
{
    CAY_TRY(CAY__STORE(client, note_list, "warm", "", queue_pool_job, client, err));
    return 0;
}

typedef struct tidying {
    cay_client *client;
    const cay_call *call;
    const char *of; /* NULL: none of them stays */
    unsigned keep;
} tidying;

/* What is stale, what is dead, what somebody began and did not end, and what is too many. */
static int remove_stale_row(const cay_row *row, void *arg)
{
    tidying *t = arg;
    CAY_AUTOJSON *labels = NULL;
    bool fits = t->of && row->state == CAY_RUNNING && strcmp(row->name, CAY__WARM_MAKING) != 0 &&
                t->keep && cay__json_object("labels", row->labels, &labels, NULL) == 0 &&
                !strcmp(cay__json_str(labels, LABEL_OF, ""), t->of);
    if (fits)
        t->keep--;
    else if (row->state != CAY_CREATING || cay__maker_is_dead(row))
        cay__pool_drop(t->client, t->call, row->id);
    return 0;
}

/* Made, its services ready, and only then to be had. */
static int create_warm_sandbox(cay_client *client, const cay_call *call, const cay__pool_note *n,
                               const char *of, const cay_create *request, cay_err *err)
{
    const cay_pair labels[] = { { CAY__WARM_LABEL, n->id }, { LABEL_OF, of }, { NULL, NULL } };
    cay_create c = *request;
    cay_sandbox *sb = NULL;
    CAY_AUTOFREE cay__row *row = NULL;
    CAY_AUTOJSON *told = NULL;
    cay__pool_note still;
    c.labels = labels;
    c.tenant = cay__json_str(n->all, "tenant", NULL);
    CAY_TRY(cay__create_warm(client, call, &c, &sb, err));
    CAY_FAULT("warm.made");
    cay_call until = cay__call_copy(call);
    until.deadline_ms = CAY_MIN(call->deadline_ms, cay__now_ms() + READY_MS);
    int rc = cay_sandbox_services_wait(sb, &until, NULL, err);
    if (rc == CAY_ENOTSUP)
        rc = 0;
    if (rc == 0)
        rc = cay__client_row(client, cay_sandbox_id(sb), &row, err);
    if (rc == 0)
        rc = cay__json_object("record: metadata", row->row.metadata, &told, err);
    if (rc == 0 && (rc = cay__pool_read(client, n->id, &still, err)) == 0) /* removed meanwhile */
        json_decref(still.all);
    if (rc == 0)
        rc = CAY__STORE(client, rename, cay_sandbox_id(sb),
                        cay__json_str(told, "kind", CAY__WARM_MAKING), NULL, NULL, err);
    CAY_FAULT("warm.ready");
    if (rc < 0)
        cay__pool_drop(client, call, cay_sandbox_id(sb));
    cay_sandbox_unref(sb);
    return rc;
}

/* The request of the pool, as a request. */
static int request_of(cay_client *client, const cay__pool_note *n, cay__spec **out, cay_err *err)
{
    CAY_AUTOFREE char *text = cay__json_text(json_object_get(n->all, "request"), CAY__SPEC_MAX);
    const cay_row row = {
        .size = sizeof row, .id = "", .provider = "", .spec = CAY_OR(text, "{}"), .labels = "{}"
    };
    const char *image;
    CAY_TRY(cay__spec_read(&row, out, err));
    (*out)->create.provider =
        cay__pool_engine(client, cay__json_str(n->all, "template", ""), &image);
    return 0;
}

static int fill_pool(cay_client *client, const cay_call *call, cay__pool_note *n, cay_err *err)
{
    char means[CAY_TEMPLATE_NAME + 1] = "";
    cay__spec *request = NULL;
    unsigned ready, making;
    char of[33];
    tidying tidy_up = { client, call, NULL, n->high };
    int rc = cay__pool_means(client, call, n->all, means, sizeof means, err);
    if (rc == 0) {
        made_of(n, means, of);
        tidy_up.of = of;
    }
    int tidied = cay__pool_rows(client, n->id, remove_stale_row, &tidy_up, &ready, &making,
                                rc == 0 ? err : NULL);
    if (rc < 0)
        CAY_TRY(rc);
    else
        CAY_TRY(tidied);
    if (strcmp(of, cay__json_str(n->all, "of", "")) != 0) { /* what cay_pool_schedule() asks */
        json_object_set_new(n->all, "template_id", json_string(means));
        json_object_set_new(n->all, "of", json_string(of));
        CAY_TRY(cay__pool_write(client, n, err));
    }
    CAY_TRY(request_of(client, n, &request, err));
    for (ready = n->high - tidy_up.keep; rc == 0 && ready < n->high; ready++) {
        if (cay__call_left(call) >= 0 && cay__call_left(call) < READY_MS / 2 + SPARE_MS)
            break; /* the rest in another turn, within another lease */
        rc = cay__call_check(call, "fill the pool", err);
        if (rc == 0)
            rc = create_warm_sandbox(client, call, n, of, &request->create, err);
    }
    cay__spec_free(request);
    return rc;
}

int cay_pool_fill(cay_client *client, const cay_call *call, const char *id, cay_err *err)
{
    cay__pool_note n;
    unsigned ready, making;
    cay_err why = CAY_ERR_INIT;
    if (cay__pool_read(client, id, &n, &why) < 0) /* it is gone: so is what it had */
        return cay__pool_rows(client, id, remove_stale_row, &(tidying){ client, call, NULL, 0 },
                              &ready, &making, err);
    int rc = fill_pool(client, call, &n, &why);
    json_decref(n.all);
    if (rc == CAY_ECANCELED || cay__pool_read(client, id, &n, NULL) < 0) {
        if (err)
            *err = why;
        if (rc == CAY_ECANCELED)
            return rc;
        return 0;
    }
    bool told = json_object_get(n.all, "error") != NULL;
    if (rc < 0) {
        json_object_set_new(n.all, "error", json_string(why.msg));
        json_object_set_new(n.all, "failed_ms", json_integer(cay__clock_ms()));
    } else {
        json_object_del(n.all, "error");
        json_object_del(n.all, "failed_ms");
    }
    if (rc < 0 || told)
        cay__pool_write(client, &n, NULL);
    json_decref(n.all);
    return cay__err_pass(rc, &why, err);
}
