/* SPDX-License-Identifier: Apache-2.0 */
/* TLS by OpenSSL: one certificate, read again on SIGHUP. */
#include "connection.h"
#include <base/base.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

enum { BLOCKED = -1, BROKEN = -2 };

/* The first thing that went wrong is the cause; what OpenSSL says after it tells where in OpenSSL
 * that was. */
static int fail_ssl(cay_err *err, const char *what, const char *path)
{
    unsigned long e = ERR_peek_error();
    bool file = ERR_SYSTEM_ERROR(e);
    const char *why;
    if (file)
        why = strerror(ERR_GET_REASON(e));
    else
        why = ERR_reason_error_string(e);
    cay_fail_why(err, CAY_EINVAL, "tls_files", "--tls: %s %s: %s%s", what, path,
                 CAY_OR(why, "refused"),
                 file ? "" : "; want a certificate and its own key, both as PEM");
    ERR_clear_error();
    return CAY_EINVAL;
}

/* Only HTTP/1.1 is spoken; a client that offers none of the names goes on without one. */
static int on_alpn_select(SSL *ssl, const unsigned char **out, unsigned char *n,
                          const unsigned char *in, unsigned len, void *arg)
{
    static const unsigned char ours[] = "\x08http/1.1";
    if (SSL_select_next_proto((unsigned char **)out, n, ours, sizeof ours - 1, in, len) ==
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_OK;
    return SSL_TLSEXT_ERR_NOACK;
}

int cay__tls_load(cay__server *s, cay_err *err)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method()), *old;
    if (!ctx)
        return fail_ssl(err, "start", "OpenSSL");
    SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                 SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                              SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_alpn_select_cb(ctx, on_alpn_select, NULL);
    int rc = 0;
    if (SSL_CTX_use_certificate_chain_file(ctx, s->conf.tls_cert) != 1)
        rc = fail_ssl(err, "take the certificate", s->conf.tls_cert);
    else if (SSL_CTX_use_PrivateKey_file(ctx, s->conf.tls_key, SSL_FILETYPE_PEM) != 1 ||
             SSL_CTX_check_private_key(ctx) != 1)
        rc = fail_ssl(err, "take the key", s->conf.tls_key);
    if (rc < 0) {
        SSL_CTX_free(ctx);
        return rc;
    }
    pthread_mutex_lock(&s->tls_lock);
    old = s->tls;
    s->tls = ctx;
    pthread_mutex_unlock(&s->tls_lock);
    SSL_CTX_free(old); /* connections hold what they began with */
    return 0;
}

void cay__tls_unload(cay__server *s)
{
    SSL_CTX_free(s->tls);
    s->tls = NULL;
}

bool cay__tls_begin(cay__conn *c)
{
    cay__server *s = c->lane->server;
    pthread_mutex_lock(&s->tls_lock);
    c->tls = SSL_new(s->tls);
    pthread_mutex_unlock(&s->tls_lock);
    if (!c->tls || SSL_set_fd(c->tls, c->w.fd) != 1)
        return false;
    SSL_set_accept_state(c->tls);
    return true;
}

/* The code of a call that did not succeed. */
static ssize_t map_ssl_error(cay__conn *c, int rc)
{
    int why = SSL_get_error(c->tls, rc);
    ERR_clear_error();
    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE)
        return BLOCKED;
    if (why == SSL_ERROR_ZERO_RETURN)
        return 0;
    return BROKEN;
}

ssize_t cay__tls_read(cay__conn *c, void *buf, size_t n)
{
    size_t got = 0;
    int rc = SSL_read_ex(c->tls, buf, n, &got);
    if (rc == 1)
        return (ssize_t)got;
    return map_ssl_error(c, rc);
}

ssize_t cay__tls_write(cay__conn *c, const void *buf, size_t n)
{
    size_t put = 0;
    int rc = SSL_write_ex(c->tls, buf, n, &put);
    ssize_t r;
    if (rc == 1)
        r = (ssize_t)put;
    else
        r = map_ssl_error(c, rc);
    if (r == 0)
        return BROKEN;
    return r;
}

bool cay__tls_waiting(const cay__conn *c)
{
    return SSL_pending(c->tls) > 0;
}

void cay__tls_bye(cay__conn *c)
{
    if (!c->cut && SSL_is_init_finished(c->tls))
        SSL_shutdown(c->tls);
    ERR_clear_error();
}

void cay__tls_end(cay__conn *c)
{
    SSL_free(c->tls);
    c->tls = NULL;
}
