/* SPDX-License-Identifier: Apache-2.0 */
/* Idempotency-Key: the same answer again for the same request, whoever died in between. */
#include "connection.h"
#include <base/base.h>
#include <base/mutant.h>
#include <cay/access.h>
#include <sys/mman.h>

const char *cay__req_once(cay__req *r)
{
    const char *key = NULL;
    if (r->route->op->flags & CAY__OP_CREATE)
        key = cay__head_field(&r->head, "idempotency-key");
    return cay__text_or(key, NULL);
}

/* The same, whose it is as well: of things that all tenants have in common. */
const char *cay__req_once_of(cay__req *r)
{
    const char *key = cay__req_once(r);
    if (!key)
        return NULL;
    size_t n = strlen(r->who.tenant) + strlen(key) + 2;
    char *to = cay__arena_take(&r->arena, n);
    snprintf(to, n, "%s/%s", r->who.tenant, key);
    return to;
}

static char *copy_bytes(cay__req *r, const void *data, size_t len)
{
    char *to = cay__arena_take(&r->arena, len + 1);
    if (len)
        memcpy(to, data, len);
    return to;
}

/* One with a secret that was sealed under another key than was shown is not for this asker. */
static int on_stored_answer(const cay_idempotency_record *a, void *arg)
{
    cay__req *r = arg;
    cay_idempotency_record *mine = r->reply->once;
    mine->status = a->status;
    mine->type = copy_bytes(r, a->type, strlen(a->type));
    mine->body = copy_bytes(r, a->body, a->len);
    mine->len = a->len;
    if (!a->len || !(r->route->op->flags & CAY__OP_SECRET) || CAY__MUTANT("answer-seal") ||
        cay__once_open(r, mine))
        return 0;
    mine->status = 0;
    return CAY_EEXIST;
}

/* An admin is told more, and of all tenants: to the tenant's other keys it is another request. */
static void mark_admin(char hash[65])
{
    char text[80];
    CAY_FORMAT(text, "admin %s", hash);
    cay_idempotency_hash(text, strlen(text), hash);
}

/* The body is here and nothing was done yet. */
int cay__once_begin(cay__req *r, const void *body, size_t len, cay_err *err)
{
    const char *key = cay__req_once(r);
    if (!key || r->reply->once)
        return 0;
    if ((r->route->op->flags & CAY__OP_SECRET) && !r->shown)
        return cay_fail_why(
            err, CAY_EINVAL, "idempotency_key",
            "the answer has a secret, so an Idempotency-Key works for who shows a key alone");
    cay_idempotency_record *a = cay__arena_take(&r->arena, sizeof *a);
    char *hash = cay__arena_take(&r->arena, 65),
         *route = cay__arena_take(&r->arena, strlen(r->head.method) + strlen(r->head.path) + 2);
    cay_idempotency_hash(body, len, hash);
    if (r->who.scope == CAY__SCOPE_ADMIN)
        mark_admin(hash);
    snprintf(route, strlen(r->head.method) + strlen(r->head.path) + 2, "%s %s", r->head.method,
             r->head.path);
    *a = (cay_idempotency_record){
        .size = sizeof *a, .tenant = r->who.tenant, .route = route, .key = key, .request = hash
    };
    r->reply->once = a;
    int rc = cay_idempotency_begin(r->client, a, on_stored_answer, r, err);
    r->reply->replay = rc == CAY_EEXIST && a->status;
    if (rc < 0 && !r->reply->replay)
        r->reply->once = NULL; /* another's: not ours to end */
    return rc;
}

/* The same of a body that is in a file: what it is, and what is asked to be done with it. */
int cay__once_file(cay__req *r, int fd, uint64_t len, cay_err *err)
{
    char hash[65];
    CAY_AUTOBUF b = CAY__BUF(CAY__HEAD_MAX + 128);
    if (!cay__req_once(r))
        return 0;
    void *all = NULL;
    if (len)
        all = mmap(NULL, (size_t)len, PROT_READ, MAP_SHARED, fd, 0); /* nobody else has this file */
    if (all == MAP_FAILED)
        return cay_fail_sys(err, "look at the body");
    cay_idempotency_hash(CAY_OR(all, ""), (size_t)len, hash);
    if (all)
        munmap(all, (size_t)len);
    cay__buf_fmt(&b, "%s?%s", hash, r->head.query);
    return cay__once_begin(r, b.data, b.len, err);
}

/* Before it goes out, so that who hears it can ask again. What failed may be tried again. */
void cay__once_answer(cay__req *r, int status, const char *type, const void *data, size_t len)
{
    cay_idempotency_record *a = r->reply->once;
    if (!a || r->reply->replay)
        return;
    r->reply->once = NULL;
    a->status = 0;
    a->begun = false;
    void *sealed = NULL;
    bool good = status >= 200 && status < 300;
    if (good && (r->route->op->flags & CAY__OP_SECRET) && !CAY__MUTANT("answer-seal")) {
        good = cay__once_seal(r, a, data, len, &sealed, &len, NULL) == 0;
        data = sealed;
    }
    if (good) {
        a->status = status;
        a->type = CAY_OR(type, "");
        a->body = data;
        a->len = len;
    }
    cay_idempotency_end(r->client, a, NULL);
}

bool cay__once_replay(cay__req *r)
{
    const cay_idempotency_record *a = r->reply->once;
    if (!r->reply->replay || r->reply->status)
        return false;
    cay__reply_field(r, "Idempotent-Replayed", "true");
    cay__reply(r, a->status, cay__text_or(a->type, NULL), a->body, a->len);
    return true;
}

/* Streams and answers that are not kept. */
void cay__once_end(cay__req *r)
{
    if (r->reply->once && !r->reply->replay)
        cay__once_answer(r, 0, NULL, NULL, 0);
    r->reply->once = NULL;
}
