/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sandbox's own authority: one P-256 key for it, one for all its leaves. Only the certificate
 * ever enters the sandbox.
 */
#include "intercept.h"
#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

enum { HOUR = 3600, DAY = 24 * HOUR };

static bool add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    bool ok = e && X509_add_ext(cert, e, -1) == 1;
    X509_EXTENSION_free(e);
    return ok;
}

/* Valid from an hour ago, because clocks differ, for 30 days. */
static X509 *new_cert(const char *cn, EVP_PKEY *key)
{
    unsigned char serial[16];
    X509 *c = X509_new();
    BIGNUM *n = NULL;
    cay__random(serial, sizeof serial);
    serial[0] = (unsigned char)((serial[0] & 0x7f) | 0x40);
    bool ok = c && (n = BN_bin2bn(serial, sizeof serial, NULL)) &&
              BN_to_ASN1_INTEGER(n, X509_get_serialNumber(c)) && X509_set_version(c, 2) == 1 &&
              X509_gmtime_adj(X509_getm_notBefore(c), -HOUR) &&
              X509_gmtime_adj(X509_getm_notAfter(c), 30L * DAY) && X509_set_pubkey(c, key) == 1 &&
              X509_NAME_add_entry_by_txt(X509_get_subject_name(c), "CN", MBSTRING_UTF8,
                                         (const unsigned char *)cn, -1, -1, 0) == 1;
    BN_free(n);
    if (ok)
        return c;
    X509_free(c);
    return NULL;
}

static X509 *make_root(EVP_PKEY *key)
{
    X509 *c = new_cert("cay: this sandbox's own authority", key);
    if (c && X509_set_issuer_name(c, X509_get_subject_name(c)) == 1 &&
        add_extension(c, c, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
        add_extension(c, c, NID_key_usage, "critical,keyCertSign") &&
        add_extension(c, c, NID_subject_key_identifier, "hash") &&
        X509_sign(c, key, EVP_sha256()) > 0)
        return c;
    X509_free(c);
    return NULL;
}

static X509 *make_leaf(authority *a, const char *name)
{
    char san[300];
    CAY_JOIN(san, "DNS:", name);
    /* A common name has 64 bytes at most; who checks looks at the alternative name. */
    X509 *c = new_cert(strlen(name) <= 64 ? name : "see the alternative name", a->leaf_key);
    if (c && X509_set_issuer_name(c, X509_get_subject_name(a->cert)) == 1 &&
        add_extension(c, a->cert, NID_basic_constraints, "critical,CA:FALSE") &&
        add_extension(c, a->cert, NID_key_usage, "critical,digitalSignature") &&
        add_extension(c, a->cert, NID_ext_key_usage, "serverAuth") &&
        add_extension(c, a->cert, NID_subject_alt_name, san) &&
        add_extension(c, a->cert, NID_authority_key_identifier, "keyid") &&
        X509_sign(c, a->key, EVP_sha256()) > 0)
        return c;
    X509_free(c);
    return NULL;
}

X509 *ca_leaf(authority *a, const char *name)
{
    CAY_EACH_LINK(l, a->leaves)
        if (!strcmp(l->name, name))
            return l->cert;
    X509 *c = NULL;
    if (a->nleaves < LEAVES_MAX)
        c = make_leaf(a, name);
    if (!c)
        return NULL;
    leaf *l = cay__alloc(sizeof *l);
    CAY_COPY(l->name, name);
    l->cert = c;
    l->next = a->leaves;
    a->leaves = l;
    a->nleaves++;
    return c;
}

static bool pem_of(authority *a)
{
    BIO *b = BIO_new(BIO_s_mem());
    char *p;
    bool ok = b && PEM_write_bio_X509(b, a->cert) == 1;
    long n = 0;
    if (ok)
        n = BIO_get_mem_data(b, &p);
    if (ok) {
        a->pem = cay__alloc((size_t)n + 1);
        a->pem_len = (size_t)n;
        memcpy(a->pem, p, (size_t)n);
    }
    BIO_free(b);
    return ok;
}

/* Two keys and a certificate, in this order. */
static bool load_authority(authority *a, const char *text, size_t len)
{
    BIO *b = BIO_new_mem_buf(text, (int)len);
    if (b)
        a->key = PEM_read_bio_PrivateKey(b, NULL, NULL, NULL);
    else
        a->key = NULL;
    if (a->key)
        a->leaf_key = PEM_read_bio_PrivateKey(b, NULL, NULL, NULL);
    else
        a->leaf_key = NULL;
    if (a->leaf_key)
        a->cert = PEM_read_bio_X509(b, NULL, NULL, NULL);
    else
        a->cert = NULL;
    BIO_free(b);
    return a->cert && X509_cmp_current_time(X509_get0_notAfter(a->cert)) > 0;
}

static bool save_authority(const authority *a, int fd)
{
    BIO *b = BIO_new(BIO_s_secmem());
    char *p;
    bool ok = b && PEM_write_bio_PrivateKey(b, a->key, NULL, NULL, 0, NULL, NULL) == 1 &&
              PEM_write_bio_PrivateKey(b, a->leaf_key, NULL, NULL, 0, NULL, NULL) == 1 &&
              PEM_write_bio_X509(b, a->cert) == 1;
    long n = 0;
    if (ok)
        n = BIO_get_mem_data(b, &p);
    ok = ok && n < (long)CAY_I_VAULT_MAX && ftruncate(fd, 0) == 0 &&
         pwrite(fd, p, (size_t)n, 0) == n;
    BIO_free(b);
    return ok;
}

bool ca_open(authority *a, int fd)
{
    static char text[CAY_I_VAULT_MAX];
    ssize_t n = pread(fd, text, sizeof text, 0);
    bool old = n > 0 && load_authority(a, text, (size_t)n);
    explicit_bzero(text, sizeof text);
    if (!old) { /* none yet, or one that has run out */
        ca_close(a);
        a->key = EVP_EC_gen("P-256");
        a->leaf_key = EVP_EC_gen("P-256");
        if (a->key && a->leaf_key)
            a->cert = make_root(a->key);
        else
            a->cert = NULL;
    }
    return a->cert && (old || save_authority(a, fd)) && pem_of(a);
}

void ca_close(authority *a)
{
    for (leaf *l; (l = a->leaves);) {
        a->leaves = l->next;
        X509_free(l->cert);
        free(l);
    }
    EVP_PKEY_free(a->key);
    EVP_PKEY_free(a->leaf_key);
    X509_free(a->cert);
    free(a->pem);
    *a = (authority){ 0 };
}
