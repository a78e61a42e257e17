/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What programs inside need to trust the sandbox's authority: it alone (ca.pem: node adds that),
 * the host's roots with it (bundle.pem: most replace theirs by that), and the same for Java
 * (cacerts: JKS, which every version reads).
 */
#include "intercept.h"
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/sha.h>
#include <sys/mman.h>

enum { BUNDLE_MAX = 4 << 20 };

static const char *const bundles[] = { "/etc/ssl/certs/ca-certificates.crt",
                                       "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem" };

static void add_file(cay__buf *b, const char *path)
{
    struct stat st;
    CAY_AUTOFD fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size <= 0 ||
        st.st_size > BUNDLE_MAX)
        return;
    char *to = cay__buf_room(b, (size_t)st.st_size);
    ssize_t n = 0;
    if (to)
        n = cay__fd_read_all(fd, to, (size_t)st.st_size);
    cay__buf_used(b, n > 0 ? (size_t)n : 0);
    cay__buf_str(b, "\n");
}

static void add_u32(cay__buf *b, uint32_t v)
{
    unsigned char x[4] = { (unsigned char)(v >> 24), (unsigned char)(v >> 16),
                           (unsigned char)(v >> 8), (unsigned char)v };
    cay__buf_add(b, x, 4);
}

static void add_utf(cay__buf *b, const char *s)
{
    unsigned char n[2] = { 0, (unsigned char)strlen(s) };
    cay__buf_add(b, n, 2);
    cay__buf_str(b, s);
}

/* Its entries, then a hash keyed by the password that everybody knows: a check sum, not a secret.
 */
static void add_jks(cay__buf *out, const char *pem, size_t len)
{
    static const unsigned char salt[] = "\0c\0h\0a\0n\0g\0e\0i\0tMighty Aphrodite";
    CAY_AUTOBUF b = CAY__BUF(BUNDLE_MAX), whole = CAY__BUF(BUNDLE_MAX);
    BIO *in = BIO_new_mem_buf(pem, (int)len);
    uint32_t count = 0;
    for (X509 *c; in && (c = PEM_read_bio_X509(in, NULL, NULL, NULL)); X509_free(c)) {
        unsigned char *der = NULL;
        char alias[24];
        int n = i2d_X509(c, &der);
        if (n <= 0)
            continue;
        CAY_FORMAT(alias, "cay-%u", count++);
        add_u32(&b, 2); /* a trusted certificate */
        add_utf(&b, alias);
        add_u32(&b, 0); /* made in 1970 */
        add_u32(&b, 0);
        add_utf(&b, "X.509");
        add_u32(&b, (uint32_t)n);
        cay__buf_add(&b, der, (size_t)n);
        OPENSSL_free(der);
    }
    BIO_free(in);
    ERR_clear_error();
    cay__buf_add(&whole, salt, sizeof salt - 1);
    size_t from = whole.len;
    add_u32(&whole, 0xfeedfeed);
    add_u32(&whole, 2);
    add_u32(&whole, count);
    cay__buf_add(&whole, b.data, b.len);
    unsigned char sum[SHA_DIGEST_LENGTH];
    if (b.full || whole.full || !EVP_Digest(whole.data, whole.len, sum, NULL, EVP_sha1(), NULL))
        return;
    cay__buf_add(out, whole.data + from, whole.len - from);
    cay__buf_add(out, sum, sizeof sum);
}

static bool write_entry(int fd, const char *name, const char *data, size_t len)
{
    cay_i_secret e = { (uint32_t)strlen(name), (uint32_t)len };
    return cay__fd_write_all(fd, &e, sizeof e) && cay__fd_write_all(fd, name, e.name) &&
           cay__fd_write_all(fd, CAY_OR(data, ""), len);
}

int trust_files(const authority *a, const char *roots)
{
    CAY_AUTOBUF bundle = CAY__BUF(BUNDLE_MAX), jks = CAY__BUF(BUNDLE_MAX);
    for (size_t i = 0; i < CAY_LEN(bundles) && !bundle.len; i++)
        add_file(&bundle, bundles[i]);
    if (roots[0])
        add_file(&bundle, roots);
    cay__buf_add(&bundle, a->pem, a->pem_len);
    add_jks(&jks, bundle.data, bundle.len);
    CAY_AUTOFD fd = memfd_create("cay-trust", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (bundle.full || fd < 0 || !write_entry(fd, "ca.pem", a->pem, a->pem_len) ||
        !write_entry(fd, "bundle.pem", bundle.data, bundle.len) ||
        !write_entry(fd, "cacerts", jks.data, jks.len) ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
        return -1;
    return CAY_STEAL_FD(fd);
}
