/* SPDX-License-Identifier: Apache-2.0 */
/* People at the console: session.h tells what their cookie is and what it is not good for. */
#include "console.h"
#include <server/http/auth.h>
#include <server/preview/preview.h>
#include <server/http/ticket.h>
#include <base/base.h>
#include <base/mutant.h>
#include <cay/access.h>
#include <openssl/crypto.h>
#include <strings.h>

enum { SESSION_S = 7 * 86400, CSRF_LEN = 32 };

/* may this request use the
 * cookie? */

/* Only the console's own pages: a preview, another program on this machine and every other site
 * have another origin. Requests of no page (a typed address) have neither field and can change
 * nothing without the token. */
static bool own_page(const cay__req *r)
{
    const char *origin = cay__head_field(&r->head, "origin"),
               *site = cay__head_field(&r->head, "sec-fetch-site");
    CAY_AUTOBUF own = CAY__BUF(512);
    cay__buf_fmt(&own, "%s://%s", cay__scheme(r->tls), r->head.host);
    if (CAY__MUTANT("console-page"))
        return true;
    if (origin && (own.full || strcasecmp(origin, own.data) != 0))
        return false;
    return !site || !strcasecmp(site, "same-origin") || !strcasecmp(site, "none");
}

/* What a page reads from GET /console/session and another origin cannot: it follows from the
 * secret, so nothing has to be kept. */
static void csrf_of(const char *text, char out[CSRF_LEN + 1])
{
    char hash[65];
    CAY_AUTOBUF b = CAY__BUF(256);
    cay__buf_fmt(&b, "cay console changes %s", text);
    cay_idempotency_hash(b.data, b.len, hash);
    cay__str_copy(out, CSRF_LEN + 1, hash);
    explicit_bzero(b.data, b.len);
}

static bool is_write_method(const cay__req *r)
{
    return strcmp(r->head.method, "GET") != 0 && strcmp(r->head.method, "HEAD") != 0;
}

static bool csrf_fits(const cay__req *r, const char *text)
{
    char want[CSRF_LEN + 1];
    const char *given = cay__head_field(&r->head, "x-cay-csrf");
    csrf_of(text, want);
    return CAY__MUTANT("console-csrf") ||
           (given && strlen(given) == CSRF_LEN && CRYPTO_memcmp(given, want, CSRF_LEN) == 0);
}

const char *cay__login_text(cay__req *r, int *rc, cay_err *err)
{
    char name[32], kept[CAY_LOGIN_LEN + 2];
    const char *cookies = cay__head_field(&r->head, "cookie");
    *rc = 0;
    cay__preview_cookie(r, name);
    if (!cookies || !cay__cookie_get(cookies, name, kept, sizeof kept) || !*kept)
        return NULL;
    if (!own_page(r)) {
        *rc = cay_fail_why(
            err, CAY_EPERM, "console_foreign_page",
            "a page of another origin asked for this; only the console's own pages use its cookie");
        return NULL;
    }
    if (is_write_method(r) && !csrf_fits(r, kept)) {
        *rc = cay_fail_why(err, CAY_EPERM, "csrf_token",
                           "a change by cookie needs X-Cay-Csrf, which GET /console/session tells");
        return NULL;
    }
    return cay__arena_str(&r->arena, kept);
}

int cay__login_upgrade(cay__req *r, cay_err *err)
{
    const char *ticket = cay__req_query(r, "ticket");
    if (!r->head.upgrade || (ticket && cay__ticket_use(cay__server_tickets(r->server), ticket,
                                                       r->who.key, cay__now_ms())))
        return 0;
    return cay_fail_why(err, CAY_EPERM, "ticket_missing",
                        "a socket by cookie needs ?ticket=, good once and for 30 s; POST "
                        "/console/ticket gives one");
}

int cay__on_ticket(cay__req *r, cay_err *err)
{
    char text[CAY__TICKET_LEN];
    if (r->who.scope == CAY__SCOPE_NOBODY)
        return cay_fail_why(err, CAY_EAUTH, "key_missing", "nobody is logged in");
    cay__ticket_make(cay__server_tickets(r->server), r->who.key, cay__now_ms(), text);
    return cay__reply_json(r, 201,
                           json_pack("{s:s,s:i}", "ticket", text, "ttl_ms", CAY__TICKET_MS));
}

static const char *const scope_words[] = { [CAY__SCOPE_PORT] = "port",
                                           [CAY__SCOPE_FILE] = "file",
                                           [CAY__SCOPE_SANDBOX] = "sandbox",
                                           [CAY__SCOPE_TENANT] = "tenant",
                                           [CAY__SCOPE_ADMIN] = "admin" };

/* What the pages need to know before they ask for anything else. Who is not in is told that, and
 * nothing of the host or of what runs on it. */
static json_t *describe_session(cay__req *r, const char *text)
{
    char csrf[CSRF_LEN + 1] = "", host[256] = "";
    json_t *j = json_pack("{s:n,s:s,s:s}", "scope", "instance", cay__server_instance(r->server),
                          "domain", cay__server_domain(r->server));
    if (!text || r->who.scope == CAY__SCOPE_NOBODY)
        return j;
    gethostname(host, sizeof host - 1);
    json_object_set_new(j, "version", json_string(CAY_VERSION));
    json_object_set_new(j, "host", json_string(host));
    csrf_of(text, csrf);
    json_object_set_new(j, "scope", json_string(scope_words[r->who.scope]));
    json_object_set_new(j, "tenant", json_string(r->who.tenant));
    json_object_set_new(j, "key", json_string(r->who.key));
    json_object_set_new(j, "csrf", json_string(csrf));
    return j;
}

static const char *cookie_text(cay__req *r)
{
    int rc;
    return cay__login_text(r, &rc, NULL);
}

int cay__on_session_get(cay__req *r, cay_err *err)
{
    return cay__reply_json(r, 200, describe_session(r, cookie_text(r)));
}

static void give_cookie(cay__req *r, const char *text)
{
    char name[32];
    CAY_AUTOBUF b = CAY__BUF(512);
    cay__preview_cookie(r, name);
    cay__buf_fmt(&b, "%s=%s; Path=/; HttpOnly; SameSite=Strict; Max-Age=%d", name, text,
                 *text ? SESSION_S : 0);
    if (r->tls)
        cay__buf_str(&b, "; Secure");
    cay__reply_field(r, "Set-Cookie", b.data);
    explicit_bzero(b.data, b.len);
}

/* Whoever comes in: what is kept of the key that was shown. */
typedef struct login {
    cay_key key; /* strings below */
    char id[CAY_KEY_ID_LEN + 1], tenant[CAY_TENANT_MAX + 1];
} login;

static int take_login(const cay_key *k, void *arg)
{
    login *l = arg;
    l->key =
        (cay_key){ .size = sizeof l->key, .scope = k->scope, .id = l->id, .tenant = l->tenant };
    CAY_COPY(l->id, k->id);
    CAY_COPY(l->tenant, k->tenant);
    return 0;
}

static int no_body(const cay_idempotency_record *a, void *arg)
{
    return 0;
}

/* The store sees to it that of all who come with one link, to one server or to several, the first
 * alone gets in. */
static int use_link(cay__req *r, const login *l, cay_err *err)
{
    cay_idempotency_record a = { .size = sizeof a,
                                 .tenant = l->tenant,
                                 .route = "console login",
                                 .key = l->id,
                                 .request = "",
                                 .type = "" };
    cay_err why = CAY_ERR_INIT;
    int rc = 0;
    if (!CAY__MUTANT("console-link"))
        rc = cay_idempotency_begin(r->client, &a, no_body, NULL, &why);
    if (rc == CAY_EEXIST || rc == CAY_EBUSY)
        return cay_fail_why(err, CAY_EAUTH, "link_used",
                            "this link has been used; `cay open` makes another one");
    if (rc < 0) {
        *err = why;
        return rc;
    }
    a.status = 201;
    CAY_TRY(cay_idempotency_end(r->client, &a, err));
    if (CAY__MUTANT("console-link"))
        return 0;
    return cay_key_revoke(r->client, l->id, err);
}

static int by_link(cay__req *r, const char *token, login *l, cay_err *err)
{
    cay_err why = CAY_ERR_INIT;
    if (cay_key_check(r->client, token, take_login, l, &why) < 0 ||
        l->key.scope != CAY_KEY_LOGIN_LINK)
        return cay_fail_why(
            err, CAY_EAUTH, "link_invalid",
            "this link was used, has expired or never was; `cay open` makes another one");
    return use_link(r, l, err);
}

static int by_key(cay__req *r, const char *key, login *l, cay_err *err)
{
    CAY_TRY(cay_key_check(r->client, key, take_login, l, err));
    if (l->key.scope == CAY_KEY_TENANT || l->key.scope == CAY_KEY_ADMIN)
        return 0;
    return cay_fail_why(err, CAY_EPERM, "scope_too_narrow",
                        "the console needs a key of scope tenant or admin");
}

/* A page of somebody else's must not log anybody in as somebody: only our own page, and JSON, which
 * no form sends. The browser never keeps what was shown: it gets a secret that is no key. */
int cay__on_session_post(cay__req *r, cay_err *err)
{
    json_t *j;
    login l = { 0 };
    char text[CAY_LOGIN_LEN + 1] = "";
    if (!own_page(r))
        return cay_fail_why(err, CAY_EPERM, "console_foreign_page",
                            "only the console's own page logs in");
    CAY_TRY(cay__req_json(r, 4096, &j, err));
    const char *token = cay__json_str(j, "token", ""), *given = cay__json_str(j, "key", "");
    if (!*token == !*given)
        return cay_fail(err, CAY_EINVAL, "want token, of a link, or key");
    if (*token)
        CAY_TRY(by_link(r, token, &l, err));
    else
        CAY_TRY(by_key(r, given, &l, err));
    CAY_TRY(cay_login_create(r->client, &l.key, text, err));
    CAY_TRY(cay__auth_session(r, text, err));
    cay__req_about(r, r->who.key);
    give_cookie(r, text);
    int rc = cay__reply_json(r, 201, describe_session(r, text));
    explicit_bzero(text, sizeof text);
    return rc;
}

static int is_ours(const cay_key *k, void *arg)
{
    if (!strcmp(k->id, arg) && k->scope == CAY_KEY_CONSOLE_LOGIN)
        return 1;
    return 0;
}

/* A session ends; whoever asks for this by a key keeps the key. */
int cay__on_session_delete(cay__req *r, cay_err *err)
{
    if (*r->who.key && cay_key_list(r->client, r->who.tenant, is_ours, r->who.key, NULL) == 1)
        CAY_TRY(cay_key_revoke(r->client, r->who.key, err));
    cay__req_about(r, r->who.key);
    give_cookie(r, "");
    return cay__reply(r, 204, NULL, NULL, 0);
}
