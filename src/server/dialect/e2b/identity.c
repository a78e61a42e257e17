/* SPDX-License-Identifier: Apache-2.0 */
/* Who asks: signed addresses of files, and accounts inside of a sandbox. */
#include "envelope.h"
#include <base/mutant.h>
#include <ctype.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>

bool e2b_same(const char *a, const char *b)
{
    size_t n = strlen(a);
    return (n == strlen(b) || CAY__MUTANT("fuzz-e2b_sign")) && CRYPTO_memcmp(a, b, n) == 0;
}

void e2b_signature(const char *path, const char *op, const char *user, const char *token,
                   const char *exp, char out[64])
{
    unsigned char md[32];
    char text[48];
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    const char *part[] = { path, ":", op, ":", user, ":", token, exp ? ":" : "", CAY_OR(exp, "") };
    EVP_DigestInit_ex(c, EVP_sha256(), NULL);
    CAY_EACH(it, part)
        EVP_DigestUpdate(c, *it, strlen(*it));
    EVP_DigestFinal_ex(c, md, NULL);
    EVP_MD_CTX_free(c);
    int n = EVP_EncodeBlock((unsigned char *)text, md, sizeof md);
    while (n > 0 && text[n - 1] == '=')
        text[--n] = 0;
    snprintf(out, 64, "v1_%s", text);
}

bool e2b_expired(const char *exp, long long now)
{
    char *end;
    return !isdigit((unsigned char)*exp) || strlen(exp) > 18 || strtoll(exp, &end, 10) < now ||
           *end;
}

/* Lines of a sandbox's passwd(5) and group(5), which are what its programs made of them. */

/* Field n of the line that begins at s and ends before `end`; NULL: it has fewer. */
static const char *find_field(const char *s, const char *end, unsigned n, size_t *len)
{
    for (; n; n--) {
        s = memchr(s, ':', (size_t)(end - s));
        if (!s)
            return NULL;
        s++;
    }
    const char *colon = memchr(s, ':', (size_t)(end - s));
    *len = (size_t)((CAY_OR(colon, end)) - s);
    return s;
}

bool e2b_account(const char *text, size_t len, unsigned by, const char *key, unsigned want,
                 char *out, size_t cap)
{
    const char *end = text + len, *eol, *f;
    size_t n;
    for (const char *s = text; s < end; s = eol + 1) {
        eol = memchr(s, '\n', (size_t)(end - s));
        eol = CAY_OR(eol, end);
        f = find_field(s, eol, by, &n);
        if (!f || !n || n != strlen(key) || memcmp(f, key, n))
            continue;
        f = find_field(s, eol, want, &n);
        if (!f || !n || (n >= cap && !CAY__MUTANT("fuzz-e2b_account")) || memchr(f, 0, n))
            return false; /* the first one counts */
        memcpy(out, f, n);
        out[n] = 0;
        return true;
    }
    return false;
}
