/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay-seal seal|open NAME: standard input encrypted or opened under the key in descriptor 3, to
 * standard output.
 *
 * AES-256-GCM; NAME is authenticated too, so that a value cannot be passed off as another's. A
 * program of its own, so that the library links no cryptography and the key is in no long-lived
 * process. Exit status: 0; 1 trouble; 2 the key is not 64 hex digits; 3 the data was not sealed
 * under this key and name.
 */
#include <base/str.h>
#include <errno.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { KEY_FD = 3, KEY = 32, NONCE = 12, TAG = 16, MOST = 1 << 17 };
static const unsigned char magic[4] = { 'c', 'a', 'y', '1' };

static ssize_t read_full(int fd, void *to, size_t most)
{
    size_t n = 0;
    for (ssize_t k; n < most; n += (size_t)k) {
        k = read(fd, (char *)to + n, most - n);
        if (k < 0 && errno == EINTR)
            k = 0;
        else if (k <= 0) {
            if (k < 0)
                return -1;
            return (ssize_t)n;
        }
    }
    return (ssize_t)n;
}

static bool write_output(const unsigned char *from, size_t n)
{
    for (ssize_t k; n; from += k, n -= (size_t)k)
        if ((k = write(1, from, n)) < 0 && errno != EINTR)
            return false;
        else if (k < 0)
            k = 0;
    return true;
}

static bool read_key(unsigned char key[KEY])
{
    char text[2 * KEY + 2];
    ssize_t n = read_full(KEY_FD, text, sizeof text);
    if (n != 2 * KEY && !(n == 2 * KEY + 1 && text[2 * KEY] == '\n'))
        return false;
    if (!cay__hex_get(key, text, KEY))
        return false;
    explicit_bzero(text, sizeof text);
    return true;
}

static int encrypt_text(EVP_CIPHER_CTX *c, const unsigned char *key, const char *name,
                        const unsigned char *in, int len, unsigned char *out)
{
    unsigned char *nonce = out + sizeof magic, *text = nonce + NONCE;
    int n = 0, last = 0;
    memcpy(out, magic, sizeof magic);
    if (RAND_bytes(nonce, NONCE) != 1 ||
        EVP_EncryptInit_ex(c, EVP_aes_256_gcm(), NULL, key, nonce) != 1 ||
        EVP_EncryptUpdate(c, NULL, &n, (const unsigned char *)name, (int)strlen(name)) != 1 ||
        EVP_EncryptUpdate(c, text, &n, in, len) != 1 ||
        EVP_EncryptFinal_ex(c, text + n, &last) != 1 ||
        EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_GET_TAG, TAG, text + n + last) != 1)
        return -1;
    return (int)sizeof magic + NONCE + n + last + TAG;
}

static int decrypt_text(EVP_CIPHER_CTX *c, const unsigned char *key, const char *name,
                        unsigned char *in, int len, unsigned char *out)
{
    int n = 0, last = 0, head = (int)sizeof magic + NONCE;
    if (len < head + TAG || memcmp(in, magic, sizeof magic) != 0)
        return -1;
    int text = len - head - TAG;
    if (EVP_DecryptInit_ex(c, EVP_aes_256_gcm(), NULL, key, in + sizeof magic) != 1 ||
        EVP_DecryptUpdate(c, NULL, &n, (const unsigned char *)name, (int)strlen(name)) != 1 ||
        EVP_DecryptUpdate(c, out, &n, in + head, text) != 1 ||
        EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_SET_TAG, TAG, in + head + text) != 1 ||
        EVP_DecryptFinal_ex(c, out + n, &last) != 1)
        return -1;
    return n + last;
}

int main(int argc, char **argv)
{
    static unsigned char in[MOST + 1], out[MOST + 64], key[KEY];
    prctl(PR_SET_DUMPABLE, 0);
    if (argc != 3 || (strcmp(argv[1], "seal") != 0 && strcmp(argv[1], "open") != 0) ||
        strlen(argv[2]) > 256)
        return 1;
    bool to = !strcmp(argv[1], "seal");
    if (!read_key(key))
        return 2;
    ssize_t n = read_full(0, in, sizeof in);
    EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
    if (n < 0 || n > MOST || !c)
        return 1;
    int len;
    if (to)
        len = encrypt_text(c, key, argv[2], in, (int)n, out);
    else
        len = decrypt_text(c, key, argv[2], in, (int)n, out);
    int code = 0;
    if (len < 0 && !to)
        code = 3;
    else if (len < 0 || !write_output(out, (size_t)len))
        code = 1;
    EVP_CIPHER_CTX_free(c);
    explicit_bzero(in, sizeof in);
    explicit_bzero(out, sizeof out);
    explicit_bzero(key, sizeof key);
    return code;
}
