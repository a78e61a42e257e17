/* SPDX-License-Identifier: Apache-2.0 */
#include "builder.h"
#include <base/base64.h>
#include <net/dial.h>
#include <net/http.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <time.h>

#define BODY   "{}"
#define TYPE   "application/x-amz-json-1.1"
#define TARGET "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken"
enum { ANSWER_MAX = 65536, WAIT_MS = 20000, HASH = 32, DATE = 17, AUTH = 512 };

CAY_DEFINE_AUTO(cay__http, cay__http_close)

typedef struct ecr_key {
    const char *id, *secret, *region;
} ecr_key;

static void hash_text(const char *text, char out[2 * HASH + 1])
{
    unsigned char md[HASH];
    EVP_Digest(text, strlen(text), md, NULL, EVP_sha256(), NULL);
    cay__hex_put(out, md, HASH);
}

static void derive_key(unsigned char key[HASH], const char *text)
{
    unsigned char md[HASH];
    HMAC(EVP_sha256(), key, HASH, (const unsigned char *)text, strlen(text), md, NULL);
    memcpy(key, md, HASH);
}

static bool is_region(const char *region)
{
    size_t n = strlen(region);
    return n >= 4 && n <= 32 && strspn(region, "abcdefghijklmnopqrstuvwxyz0123456789-") == n;
}

/* What is sent to be given a password, signed (AWS Signature Version 4). now: seconds since 1970.
 */
static void sign_request(const ecr_key *k, const char *host, long long now, char date[DATE],
                         char auth[AUTH])
{
    static const char signed_[] = "content-type;host;x-amz-date;x-amz-target";
    char canonical[1024], scope[100], to_sign[400], digest[2 * HASH + 1], first[200];
    unsigned char key[HASH];
    struct tm tm;
    time_t t = (time_t)now;
    strftime(date, DATE, "%Y%m%dT%H%M%SZ", gmtime_r(&t, &tm));
    hash_text(BODY, digest);
    CAY_FORMAT(canonical,
               "POST\n/\n\ncontent-type:" TYPE "\nhost:%.200s\nx-amz-date:%s\nx-amz-target:" TARGET
               "\n\n%s\n%s",
               host, date, signed_, digest);
    hash_text(canonical, digest);
    CAY_FORMAT(scope, "%.8s/%.32s/ecr/aws4_request", date, k->region);
    CAY_FORMAT(to_sign, "AWS4-HMAC-SHA256\n%s\n%s\n%s", date, scope, digest);
    int n = CAY_FORMAT(first, "AWS4%.128s", k->secret);
    char day[9];
    CAY_FORMAT(day, "%.8s", date);
    HMAC(EVP_sha256(), first, n, (const unsigned char *)day, 8, key, NULL);
    derive_key(key, k->region);
    derive_key(key, "ecr");
    derive_key(key, "aws4_request");
    derive_key(key, to_sign);
    cay__hex_put(digest, key, HASH);
    explicit_bzero(first, sizeof first);
    snprintf(auth, AUTH, "AWS4-HMAC-SHA256 Credential=%.128s/%s, SignedHeaders=%s, Signature=%s",
             k->id, scope, signed_, digest);
}

/* USER:PASSWORD of the answer, {"authorizationData": [{"authorizationToken"}]}. */
static int read_answer(const char *body, size_t len, cay__buf *out, cay_err *err)
{
    json_error_t je;
    CAY_AUTOJSON *o = json_loadb(CAY_OR(body, ""), len, 0, &je);
    const char *token = cay__json_str(json_array_get(json_object_get(o, "authorizationData"), 0),
                                      "authorizationToken", "");
    if (!*token || !cay__base64_get(out, token, strlen(token)) || !out->data ||
        !strchr(out->data, ':') || strlen(out->data) != out->len || strpbrk(out->data, "\r\n"))
        return cay_fail_why(err, CAY_EUPSTREAM, "registry_answer",
                            "ECR answered without a password");
    return 0;
}

/* One request, judged by name and by each address that the name leads to. */
typedef struct trip {
    cay_client *client;
    cay__origin to;
    bool own; /* the operator's environment names it */
    cay_err no;
    cay__buf *body;
} trip;

static bool is_address_allowed(const uint8_t addr[16], void *arg)
{
    trip *t = arg;
    return cay_net_operator_may(t->client, t->to.host, t->to.port, addr, t->own, &t->no) == 0;
}

static int on_data(const char *p, size_t n, void *arg, cay_err *err)
{
    trip *t = arg;
    cay__buf_add(t->body, p, n);
    if (t->body->full)
        return cay_fail_why(err, CAY_ETOOBIG, "registry_answer", "ECR answers more than %d bytes",
                            ANSWER_MAX);
    return 0;
}

/* $AWS_ENDPOINT_URL_ECR, or https://api.ecr.REGION.amazonaws.com: as far as the operator's
 * egress.conf lets it. */
static int ask_ecr(cay_client *client, const cay_call *call, const ecr_key *k, cay__buf *out,
                   cay_err *err)
{
    trip t = { .client = client, .no = CAY_ERR_INIT };
    char url[300], date[DATE], auth[AUTH], line[3][AUTH + 40];
    const char *own = getenv("AWS_ENDPOINT_URL_ECR");
    CAY_AUTOBUF body = CAY__BUF(ANSWER_MAX);
    CAY_AUTOPTR(cay__http) h = NULL;
    cay__http_reply reply = { 0 };
    if (own && *own)
        CAY_COPY(url, own);
    else
        CAY_FORMAT(url, "https://api.ecr.%.32s.amazonaws.com%s", k->region,
                   cay__str_starts(k->region, "cn-") ? ".cn" : "");
    if (!strstr(url, "://"))
        return cay_fail(err, CAY_EINVAL, "AWS_ENDPOINT_URL_ECR is no URL");
    size_t n = strlen(url);
    while (n && url[n - 1] == '/') /* what is signed is the path "/" */
        url[--n] = 0;
    t.own = own && *own;
    if (cay__origin_parse(url, &t.to, NULL) < 0 || *t.to.prefix)
        return cay_fail(err, CAY_EINVAL, "AWS_ENDPOINT_URL_ECR is no URL of a host");
    CAY_TRY(cay_net_operator_may(client, t.to.host, t.to.port, NULL, t.own, err));
    sign_request(k, t.to.authority, (long long)time(NULL), date, auth);
    CAY_FORMAT(line[0], "Authorization: %s", auth);
    CAY_FORMAT(line[1], "X-Amz-Date: %s", date);
    CAY_FORMAT(line[2], "X-Amz-Target: " TARGET);
    /* NOLINTNEXTLINE(bugprone-suspicious-missing-comma): TYPE is the header's value */
    const char *const headers[] = { "Content-Type: " TYPE, line[0], line[1], line[2], NULL };
    const cay__http_req req = { .method = "POST",
                                .url = url,
                                .headers = headers,
                                .body = BODY,
                                .body_len = sizeof BODY - 1,
                                .connect_ms = WAIT_MS,
                                .total_ms = WAIT_MS,
                                .max_body = ANSWER_MAX,
                                .on_data = on_data,
                                .may = is_address_allowed,
                                .arg = &t };
    CAY_TRY(cay__http_open(&h, err));
    t.body = &body;
    int rc = cay__http_do(h, call, &req, &reply, err);
    if (rc < 0 && t.no.code && err)
        *err = t.no;
    if (rc < 0)
        return CAY_OR(t.no.code, rc);
    if (reply.status == 400 || reply.status == 401 || reply.status == 403)
        return cay_fail_why(err, CAY_EINVAL, "registry_auth",
                            "ECR of %.32s does not take these keys (status %d)", k->region,
                            reply.status);
    if (reply.status != 200)
        return cay_fail_why(err, CAY_EUPSTREAM, "registry_answer", "ECR of %.32s answered %d",
                            k->region, reply.status);
    rc = read_answer(body.data, body.len, out, err);
    explicit_bzero(body.data, body.len);
    return rc;
}

static int get_aws_login(cay_client *client, const cay_call *call, const json_t *in, cay__buf *out,
                         cay_err *err)
{
    const ecr_key k = { cay__json_str(in, "awsAccessKeyId", ""),
                        cay__json_str(in, "awsSecretAccessKey", ""),
                        cay__json_str(in, "awsRegion", "") };
    if (!*k.id ||
        strspn(k.id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789") !=
            strlen(k.id) ||
        strlen(k.id) > 128 || !*k.secret || strlen(k.secret) > 128)
        return cay_fail(err, CAY_EINVAL,
                        "fromImageRegistry of type aws has awsAccessKeyId and awsSecretAccessKey");
    if (!is_region(k.region))
        return cay_fail(err, CAY_EINVAL,
                        "fromImageRegistry: awsRegion is a region's name, such as eu-central-1");
    return ask_ecr(client, call, &k, out, err);
}

/* The file of a service account, in one line, is the password of a user of that name. */
static int get_gcp_login(cay_client *client, const cay_call *call, const json_t *in, cay__buf *out,
                         cay_err *err)
{
    CAY_AUTOJSON *o = NULL;
    if (cay__json_object("serviceAccountJson", cay__json_str(in, "serviceAccountJson", ""), &o,
                         NULL) < 0 ||
        !*cay__json_str(o, "private_key", ""))
        return cay_fail(err, CAY_EINVAL,
                        "fromImageRegistry of type gcp has serviceAccountJson, the text of a "
                        "service account's key file");
    CAY_AUTOFREE char *text = json_dumps(o, JSON_COMPACT);
    cay__buf_fmt(out, "_json_key:%s", CAY_OR(text, ""));
    return 0;
}

static int get_plain_login(cay_client *client, const cay_call *call, const json_t *in,
                           cay__buf *out, cay_err *err)
{
    const char *user = cay__json_str(in, "username", ""),
               *password = cay__json_str(in, "password", "");
    if (!*user || !*password || strchr(user, ':'))
        return cay_fail(err, CAY_EINVAL, "fromImageRegistry has a username and a password");
    cay__buf_fmt(out, "%s:%s", user, password);
    return 0;
}

int e2b_registry_login(cay_client *client, const cay_call *call, const json_t *registry,
                       cay__buf *out, cay_err *err)
{
    static const struct {
        const char *type;
        int (*fn)(cay_client *client, const cay_call *call, const json_t *in, cay__buf *out,
                  cay_err *err);
    } types[] = { { "registry", get_plain_login },
                  { "aws", get_aws_login },
                  { "gcp", get_gcp_login } };
    CAY_EACH(it, types)
        if (!strcmp(it->type, cay__json_str(registry, "type", "")))
            return it->fn(client, call, registry, out, err);
    return cay_fail(err, CAY_EINVAL,
                    "fromImageRegistry: its type is registry, aws or gcp, not \"%.20s\"",
                    cay__json_str(registry, "type", ""));
}
