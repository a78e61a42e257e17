/* SPDX-License-Identifier: Apache-2.0 */
/* The same answer again for the same request: who is at it, and who died at it. */
#include "client.h"
#include <base/sha256.h>
#include <base/fault.h>

#define DAY_MS   86400000
#define KEY_MAX  255
#define BODY_MAX (1u << 20)

void cay_idempotency_hash(const void *data, size_t len, char out[65])
{
    cay__sha256_hex(data, len, out);
}

static int check_key(const cay_idempotency_record *a, cay_err *err)
{
    size_t n = 0;
    if (a->key)
        n = strlen(a->key);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)a->key[i] < 0x20 || (unsigned char)a->key[i] > 0x7e)
            n = 0;
    if (!n || n > KEY_MAX || !a->tenant || !a->route || !a->request)
        return cay_fail_why(err, CAY_EINVAL, "idempotency_key",
                            "an Idempotency-Key has 1 to %d printing characters", KEY_MAX);
    return 0;
}

typedef struct asking {
    cay_idempotency_record_fn *fn;
    void *arg;
    char dead[256]; /* who was at it, and is no more */
    bool foreign;   /* what was found is not the asker's */
} asking;

static int on_found(const cay_idempotency_record *a, const char *owner, void *arg)
{
    asking *q = arg;
    cay_row who = { .size = sizeof who, .box = owner };
    if (*owner && !cay__maker_is_dead(&who))
        return 0;
    CAY_COPY(q->dead, owner);
    q->foreign = (!*owner || a->status) && q->fn(a, q->arg) != 0;
    return 0;
}

int cay_idempotency_begin(cay_client *client, const cay_idempotency_record *given,
                          cay_idempotency_record_fn *fn, void *arg, cay_err *err)
{
    cay_idempotency_record a;
    asking q = { .fn = fn, .arg = arg };
    CAY_TRY(cay__spec_take(&a, sizeof a, given, "cay_idempotency_record", err));
    CAY_TRY(check_key(&a, err));
    int rc = CAY__STORE(client, idempotency_begin, &a, client->owner, NULL, on_found, &q, err);
    /* Only the row of that dead one is taken over: of two who see it so one is the next. */
    if (rc == CAY_EBUSY && *q.dead && !q.foreign)
        rc = CAY__STORE(client, idempotency_begin, &a, client->owner, q.dead, on_found, &q, err);
    if (q.foreign)
        return cay_fail_why(
            err, CAY_EEXIST, "idempotency_conflict",
            "that Idempotency-Key came before by another key than this; choose a new one");
    return rc;
}

int cay_idempotency_end(cay_client *client, const cay_idempotency_record *given, cay_err *err)
{
    cay_idempotency_record a;
    CAY_TRY(cay__spec_take(&a, sizeof a, given, "cay_idempotency_record", err));
    CAY_TRY(check_key(&a, err));
    if (a.len > BODY_MAX)
        a.status = 0;
    a.begun = a.begun && a.status;
    int rc = CAY__STORE(client, idempotency_end, &a, client->owner, cay__clock_ms() + DAY_MS, err);
    CAY_FAULT("answer.kept");
    return rc;
}

int cay_idempotency_sweep(cay_client *client, cay_err *err)
{
    return CAY__STORE(client, idempotency_sweep, cay__clock_ms(), err);
}
