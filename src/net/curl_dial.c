/* SPDX-License-Identifier: Apache-2.0 */
/* A TLS connection that looks like a plain one: libcurl makes it, a thread moves its bytes to and
 * from a socket pair. */
#include "http.h"
#include <base/base.h>
#include <base/path.h>
#include <curl/curl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>

enum { ROOM = 65536, CONNECT_MS = 30000 };
int cay__curl_dial(const char *url, const char *certs, const cay_call *call, int *fd, cay_err *err);

typedef struct side {
    size_t at, end;
    bool over; /* nothing more comes */
    char data[ROOM];
} side;

typedef struct tunnel {
    CURL *easy;
    int net, local;
    side in, out; /* from the net, to the net */
} tunnel;

static void tunnel_free(tunnel *t)
{
    if (t->easy)
        curl_easy_cleanup(t->easy);
    cay__close_fd(&t->local);
    free(t);
}

/* Each takes what it can without waiting. False: the connection is broken. */
static bool from_net(tunnel *t)
{
    size_t n = 0;
    if (t->in.over || t->in.at < t->in.end)
        return true;
    CURLcode rc = curl_easy_recv(t->easy, t->in.data, ROOM, &n);
    if (rc != CURLE_OK && rc != CURLE_AGAIN)
        return false;
    t->in.at = 0;
    t->in.end = n;
    t->in.over = rc == CURLE_OK && n == 0;
    if (t->in.over)
        shutdown(t->local, SHUT_WR);
    return true;
}

static bool from_local(tunnel *t)
{
    if (t->out.over || t->out.at < t->out.end)
        return true;
    ssize_t n = recv(t->local, t->out.data, ROOM, MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    t->out.at = 0;
    t->out.end = (size_t)n;
    t->out.over = n == 0;
    return true;
}

static bool to_local(tunnel *t)
{
    if (t->in.at == t->in.end)
        return true;
    ssize_t n =
        send(t->local, t->in.data + t->in.at, t->in.end - t->in.at, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0)
        t->in.at += (size_t)n;
    return n > 0 || errno == EAGAIN || errno == EINTR;
}

static bool to_net(tunnel *t)
{
    size_t n = 0;
    if (t->out.at == t->out.end)
        return true;
    CURLcode rc = curl_easy_send(t->easy, t->out.data + t->out.at, t->out.end - t->out.at, &n);
    t->out.at += n;
    return rc == CURLE_OK || rc == CURLE_AGAIN;
}

static void *run_tunnel(void *arg)
{
    tunnel *t = arg;
    while (from_net(t) && to_local(t) && from_local(t) && to_net(t) &&
           !(t->in.over && t->in.at == t->in.end)) {
        bool in = t->in.at < t->in.end, out = t->out.at < t->out.end;
        struct pollfd p[2] = { { .fd = t->net }, { .fd = t->local } };
        p[0].events = !in * POLLIN | out * POLLOUT;
        p[1].events = in * POLLOUT | !(out || t->out.over) * POLLIN;
        if (poll(p, 2, -1) < 0 && errno != EINTR)
            break;
        if (p[1].revents & (POLLHUP | POLLERR) &&
            t->out.over) /* both directions: nobody is there any more */
            break;
    }
    tunnel_free(t);
    return NULL;
}

static int start_thread(tunnel *t, cay_err *err)
{
    pthread_t thread;
    pthread_attr_t attr;
    sigset_t all, old;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    errno = pthread_create(&thread, &attr, run_tunnel, t);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    if (errno)
        return cay_fail_sys(err, "start a thread");
    return 0;
}

static bool is_tls(CURLcode rc)
{
    return rc == CURLE_PEER_FAILED_VERIFICATION || rc == CURLE_SSL_CONNECT_ERROR ||
           rc == CURLE_SSL_CERTPROBLEM || rc == CURLE_SSL_CACERT_BADFILE;
}

/* The files of certs; those that are not there are not used: a server may not ask who we are. */
static int use_certs(tunnel *t, const char *certs, cay_err *err)
{
    static const struct {
        const char *name;
        CURLoption option;
    } files[] = { { "ca.pem", CURLOPT_CAINFO },
                  { "cert.pem", CURLOPT_SSLCERT },
                  { "key.pem", CURLOPT_SSLKEY } };
    char path[600];
    CAY_EACH(file, files) {
        CAY_FORMAT(path, "%s/%s", certs, file->name);
        if (access(path, R_OK) == 0)
            curl_easy_setopt(t->easy, file->option, path);
        else if (errno != ENOENT)
            return cay_fail_sys_as(err, CAY_EPERM, "read %.160s", path);
    }
    curl_easy_setopt(t->easy, CURLOPT_CAPATH, NULL); /* its own roots and nobody else's */
    return 0;
}

static int connect_to(tunnel *t, const char *url, const char *certs, const cay_call *call,
                      cay_err *err)
{
    char said[CURL_ERROR_SIZE] = "";
    int left = cay__call_left(call);
    curl_socket_t net = -1;
    curl_easy_setopt(t->easy, CURLOPT_URL, url);
    curl_easy_setopt(t->easy, CURLOPT_PROTOCOLS_STR, "https");
    curl_easy_setopt(t->easy, CURLOPT_CONNECT_ONLY, 1L);
    curl_easy_setopt(t->easy, CURLOPT_SSL_ENABLE_ALPN, 0L); /* HTTP/1.1 is what is spoken over it */
    curl_easy_setopt(t->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(t->easy, CURLOPT_ERRORBUFFER, said);
    curl_easy_setopt(t->easy, CURLOPT_CONNECTTIMEOUT_MS,
                     (long)(left >= 0 ? CAY_MIN(left, CONNECT_MS) : CONNECT_MS));
    const char *roots = cay__trust_roots(getenv("CURL_CA_BUNDLE"));
    if (roots)
        curl_easy_setopt(t->easy, CURLOPT_CAINFO, roots);
    if (*certs)
        CAY_TRY(use_certs(t, certs, err));
    CURLcode rc = curl_easy_perform(t->easy);
    curl_easy_setopt(t->easy, CURLOPT_ERRORBUFFER, NULL);
    if (rc == CURLE_OPERATION_TIMEDOUT)
        return cay_fail_why(err, CAY_ETIMEOUT, "net_timeout",
                            "%.100s: the connection took too long", url);
    if (rc != CURLE_OK || curl_easy_getinfo(t->easy, CURLINFO_ACTIVESOCKET, &net) != CURLE_OK ||
        net < 0)
        return cay_fail_why(err, CAY_EUPSTREAM, is_tls(rc) ? "net_tls" : "net_unreachable",
                            "%.100s: %.120s", url, *said ? said : curl_easy_strerror(rc));
    t->net = net;
    return 0;
}

int cay__curl_dial(const char *url, const char *certs, const cay_call *call, int *fd, cay_err *err)
{
    int pair[2] = { -1, -1 };
    tunnel *t = cay__alloc(sizeof *t);
    t->local = -1;
    t->easy = curl_easy_init();
    int rc;
    if (t->easy)
        rc = connect_to(t, url, certs, call, err);
    else
        rc = cay_fail(err, CAY_ESYS, "libcurl cannot be started");
    if (rc == 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        rc = cay_fail_sys(err, "socketpair");
    t->local = pair[1];
    if (rc == 0)
        rc = start_thread(t, err);
    if (rc < 0) {
        cay__close_fd(&pair[0]);
        tunnel_free(t);
        return rc;
    }
    *fd = pair[0];
    return 0;
}
