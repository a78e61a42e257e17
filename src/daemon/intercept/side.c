/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept.h"
#include <openssl/err.h>
#include <sys/socket.h>

SSL_CTX *tls_context(const SSL_METHOD *method)
{
    SSL_CTX *c = SSL_CTX_new(method);
    if (c) {
        SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION);
        SSL_CTX_set_mode(c, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    }
    return c;
}

/* What an SSL call that did not finish waits for; 0: it never will. */
static uint32_t waits_for(side *s, int rc)
{
    int e = SSL_get_error(s->ssl, rc);
#ifdef SSL_R_UNEXPECTED_EOF_WHILE_READING
    s->bare |= e == SSL_ERROR_SSL &&
               ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
#endif
    ERR_clear_error();
    if (e == SSL_ERROR_WANT_READ)
        return EPOLLIN;
    if (e == SSL_ERROR_WANT_WRITE)
        return EPOLLOUT;
    return 0;
}

void side_count(side *s)
{
    if (!s->ssl)
        return;
    s->got = BIO_number_read(SSL_get_rbio(s->ssl));
    s->put = BIO_number_written(SSL_get_wbio(s->ssl));
}

bool side_shake(side *s)
{
    if (!s->shaking)
        return true;
    ERR_clear_error();
    int rc = SSL_do_handshake(s->ssl);
    if (rc == 1) {
        s->shaking = false;
        s->want = 0;
        return true;
    }
    s->want = waits_for(s, rc);
    return false;
}

static ssize_t wait_for(side *s, int rc)
{
    uint32_t want = waits_for(s, rc);
    s->want |= want;
    if (want)
        return SIDE_AGAIN;
    return SIDE_BROKEN;
}

static ssize_t check_plain_io(side *s, ssize_t n, uint32_t want)
{
    if (n >= 0) {
        *(want == EPOLLIN ? &s->got : &s->put) += (uint64_t)n;
        return n;
    }
    if (errno == EAGAIN || errno == EINTR) {
        s->want |= want;
        return SIDE_AGAIN;
    }
    return SIDE_BROKEN;
}

ssize_t side_read(side *s, void *p, size_t n)
{
    if (!s->ssl)
        return check_plain_io(s, recv(s->w.fd, p, n, 0), EPOLLIN);
    size_t got;
    ERR_clear_error();
    int rc = SSL_read_ex(s->ssl, p, n, &got);
    if (rc == 1)
        return (ssize_t)got;
    if (SSL_get_error(s->ssl, rc) == SSL_ERROR_ZERO_RETURN)
        return 0;
    return wait_for(s, rc);
}

ssize_t side_write(side *s, const void *p, size_t n)
{
    if (!s->ssl)
        return check_plain_io(s, send(s->w.fd, p, n, MSG_NOSIGNAL), EPOLLOUT);
    size_t put;
    ERR_clear_error();
    int rc = SSL_write_ex(s->ssl, p, n, &put);
    if (rc == 1)
        return (ssize_t)put;
    return wait_for(s, rc);
}

void side_finish(side *s)
{
    if (s->shut)
        return;
    s->shut = true;
    if (s->ssl && !s->shaking) {
        ERR_clear_error();
        SSL_shutdown(s->ssl);
        ERR_clear_error();
    }
    shutdown(s->w.fd, SHUT_WR);
}

/* Not at all while it waits for nothing: the end of a connection is told even to who asks for no
 * event. */
void side_wait(side *s)
{
    if (s->w.fd < 0)
        return;
    if (!s->want && s->watched) {
        cay__loop_del(&intercept.loop, &s->w);
        s->watched = false;
    } else if (s->want && s->watched) {
        cay__loop_set(&intercept.loop, &s->w, s->want);
    } else if (s->want) {
        s->w.events = s->want;
        s->watched = cay__loop_add(&intercept.loop, &s->w);
    }
}

/* Not orderly: a reset, so that what was cut off never looks complete. */
void side_close(side *s, bool orderly)
{
    if (s->w.fd < 0)
        return;
    cay__sock_reset(s->w.fd, !orderly);
    if (orderly)
        side_finish(s);
    SSL_free(s->ssl);
    s->ssl = NULL;
    if (s->watched)
        cay__loop_del(&intercept.loop, &s->w);
    cay__close_fd(&s->w.fd);
}
