/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers that have a secret, kept for who asks again: AES-256-GCM under what that one shows, of
 * which the store has only a hash. So nobody opens them by the store alone, nor by another key of
 * the same tenant.
 */
#include "connection.h"
#include <base/base.h>
#include <cay/access.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>

enum { NONCE = 12, TAG = 16, KEY = 32, SECRET_MAX = 4096 };

/* What was shown has 256 random bits, so one hash makes a key of it; each Idempotency-Key has its
 * own. */
static bool key_of(const cay__req *r, const cay_idempotency_record *a, unsigned char key[KEY])
{
    static const char purpose[] = "cay answer";
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    unsigned n = 0;
    bool ok = c && EVP_DigestInit_ex(c, EVP_sha256(), NULL) == 1 &&
              EVP_DigestUpdate(c, purpose, sizeof purpose) == 1 &&
              EVP_DigestUpdate(c, r->shown, strlen(r->shown) + 1) == 1 &&
              EVP_DigestUpdate(c, a->key, strlen(a->key) + 1) == 1 &&
              EVP_DigestFinal_ex(c, key, &n) == 1;
    EVP_MD_CTX_free(c);
    return ok && n == KEY;
}

/* in → out, one as long as the other; tag is made, or looked at. */
static bool apply_cipher(const cay__req *r, const cay_idempotency_record *a, bool seal,
                         unsigned char *nonce, const unsigned char *in, size_t len,
                         unsigned char *out, unsigned char *tag)
{
    unsigned char key[KEY];
    int n = 0, rest = 0;
    EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
    bool ok =
        c && key_of(r, a, key) &&
        EVP_CipherInit_ex(c, EVP_aes_256_gcm(), NULL, key, nonce, seal) == 1 &&
        EVP_CipherUpdate(c, NULL, &n, (const unsigned char *)a->route, (int)strlen(a->route)) ==
            1 && /* an answer of another route is none */
        EVP_CipherUpdate(c, out, &n, in, (int)len) == 1 &&
        (seal || EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_SET_TAG, TAG, tag) == 1) &&
        EVP_CipherFinal_ex(c, out + n, &rest) == 1 &&
        (!seal || EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_GET_TAG, TAG, tag) == 1);
    EVP_CIPHER_CTX_free(c);
    OPENSSL_thread_stop(); /* what it keeps for each thread: a worker comes here seldom */
    explicit_bzero(key, sizeof key);
    return ok;
}

int cay__once_seal(cay__req *r, const cay_idempotency_record *a, const void *data, size_t len,
                   void **out, size_t *n, cay_err *err)
{
    unsigned char *to = cay__arena_take(&r->arena, NONCE + len + TAG);
    cay__random(to, NONCE);
    if (len > SECRET_MAX || !apply_cipher(r, a, true, to, data, len, to + NONCE, to + NONCE + len))
        return cay_fail(err, CAY_ESYS, "the answer could not be sealed");
    *out = to;
    *n = NONCE + len + TAG;
    return 0;
}

bool cay__once_open(cay__req *r, cay_idempotency_record *a)
{
    size_t len = a->len - NONCE - TAG;
    if (a->len < NONCE + TAG)
        return false;
    unsigned char *from = (unsigned char *)a->body, *to = cay__arena_take(&r->arena, len + 1);
    if (!apply_cipher(r, a, false, from, from + NONCE, len, to, from + NONCE + len))
        return false;
    a->body = to;
    a->len = len;
    return true;
}

int cay__once_choose(cay__req *r, char *text, size_t len, cay_err *err)
{
    cay_idempotency_record *a = r->reply->once;
    void *sealed;
    if (!a || r->reply->replay)
        return 0;
    if (a->len == len) /* of one that died at it */
        memcpy(text, a->body, len);
    cay_idempotency_record mine = *a;
    CAY_TRY(cay__once_seal(r, a, text, len, &sealed, &mine.len, err));
    mine.body = sealed;
    mine.status = 201;
    mine.type = "";
    mine.begun = true;
    return cay_idempotency_end(r->client, &mine, err);
}
