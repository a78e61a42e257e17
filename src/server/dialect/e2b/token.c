/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens of sandboxes: made from a secret of the state directory, so that nothing about them is
 * kept. */
#include "e2b.h"
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#define SECRET "e2b.secret"

/* Whoever is first makes it: linked into place whole, so that two servers agree. */
static int make_secret(int home, unsigned char key[32])
{
    char tmp[64];
    unsigned long long rnd;
    if (RAND_bytes(key, 32) != 1 || RAND_bytes((unsigned char *)&rnd, sizeof rnd) != 1)
        return -1;
    CAY_FORMAT(tmp, "." SECRET ".%llx", rnd);
    CAY_AUTOFD fd = openat(home, tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool ok = fd >= 0 && cay__fd_write_all(fd, key, 32) && fdatasync(fd) == 0;
    if (ok)
        ok = linkat(home, tmp, home, SECRET, 0) == 0 || errno == EEXIST;
    int e = errno;
    unlinkat(home, tmp, 0);
    errno = e;
    if (ok)
        return 0;
    return -1;
}

static bool read_secret(int home, unsigned char key[32])
{
    CAY_AUTOFD fd = openat(home, SECRET, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    return fd >= 0 && read(fd, key, 32) == 32;
}

int e2b_secret(cay__req *r, unsigned char key[32], cay_err *err)
{
    CAY_AUTOFD home = open(cay_client_home(r->client), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (home >= 0 && read_secret(home, key))
        return 0;
    if (home < 0 || make_secret(home, key) < 0 || !read_secret(home, key))
        return cay_fail_sys(err, "the secret that tokens are made from");
    return 0;
}

int e2b_token_by(const unsigned char key[32], const char *kind, const char *id,
                 char token[E2B_TOKEN_LEN + 1], cay_err *err)
{
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    size_t room = strlen(kind) + strlen(id) + 12;
    CAY_AUTOFREE char *what = cay__alloc(room);
    int len = snprintf(what, room, "cay e2b 1 %s %s", kind, id);
    if (!HMAC(EVP_sha256(), key, 32, (unsigned char *)what, (size_t)len, mac, &n) || n != 32)
        return cay_fail(err, CAY_ESYS, "a token could not be made");
    cay__hex_put(token, mac, 32);
    return 0;
}

int e2b_token(cay__req *r, const char *kind, const char *id, char token[E2B_TOKEN_LEN + 1],
              cay_err *err)
{
    unsigned char key[32];
    CAY_TRY(e2b_secret(r, key, err));
    int rc = e2b_token_by(key, kind, id, token, err);
    OPENSSL_cleanse(key, sizeof key);
    return rc;
}
