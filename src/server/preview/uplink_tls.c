/* SPDX-License-Identifier: Apache-2.0 */
/* The encrypted kind of uplink, for programs in sandboxes that speak TLS themselves. */
#include "uplink.h"
#include <base/base.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

struct ssl_ctx_st *cay__uplink_tls_new(void)
{
    static const unsigned char only[] = "\x08http/1.1";
    SSL_CTX *c = SSL_CTX_new(TLS_client_method());
    if (!c)
        return NULL;
    SSL_CTX_set_verify(c, SSL_VERIFY_NONE, NULL);
    SSL_CTX_set_options(c, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                               SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                            SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_alpn_protos(c, only, sizeof only - 1);
    return c;
}

void cay__uplink_tls_free(struct ssl_ctx_st *ctx)
{
    SSL_CTX_free(ctx);
}

bool cay__uplink_tls(cay__uplink *u, struct ssl_ctx_st *ctx)
{
    SSL *s = NULL;
    if (ctx)
        s = SSL_new(ctx);
    if (!s || SSL_set_fd(s, u->fd) != 1 || SSL_set_tlsext_host_name(s, "localhost") != 1) {
        SSL_free(s);
        return false;
    }
    SSL_set_connect_state(s);
    u->tls = s;
    return true;
}

/* What a call that did not succeed waits for, as an errno; EPROTO: nothing will help. */
static int map_ssl_error(cay__uplink *u, int rc)
{
    int why = SSL_get_error(u->tls, rc);
    ERR_clear_error();
    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE)
        return EAGAIN;
    return EPROTO;
}

ssize_t cay__uplink_recv(cay__uplink *u, void *p, size_t n)
{
    size_t got = 0;
    if (!u->tls)
        return recv(u->fd, p, n, MSG_DONTWAIT);
    ERR_clear_error();
    int rc = SSL_read_ex(u->tls, p, n, &got);
    u->tells = rc != 1 && SSL_want_write(u->tls);
    if (rc == 1)
        return (ssize_t)got;
    if (SSL_get_error(u->tls, rc) == SSL_ERROR_ZERO_RETURN)
        return 0;
    errno = map_ssl_error(u, rc);
    if (errno == EAGAIN)
        return -1;
    return 0; /* what is broken has ended */
}

ssize_t cay__uplink_send(cay__uplink *u, const void *p, size_t n)
{
    size_t put = 0;
    if (!u->tls)
        return send(u->fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
    ERR_clear_error();
    int rc = SSL_write_ex(u->tls, p, n, &put);
    u->hears = rc != 1 && SSL_want_read(u->tls);
    if (rc == 1)
        return (ssize_t)put;
    errno = map_ssl_error(u, rc);
    return -1;
}

bool cay__uplink_more(const cay__uplink *u)
{
    return u->tls && SSL_pending(u->tls) > 0;
}

bool cay__uplink_agreed(const cay__uplink *u)
{
    return !u->tls || SSL_is_init_finished(u->tls);
}

void cay__uplink_finish(cay__uplink *u)
{
    if (u->tls && SSL_is_init_finished(u->tls)) {
        SSL_shutdown(u->tls);
        ERR_clear_error();
    }
    shutdown(u->fd, SHUT_WR);
}

void cay__uplink_close(cay__uplink *u)
{
    SSL_free(u->tls);
    u->tls = NULL;
    u->hears = u->tells = false;
    cay__close_fd(&u->fd);
}
