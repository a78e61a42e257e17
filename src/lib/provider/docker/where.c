/* SPDX-License-Identifier: Apache-2.0 */
/* Where an engine is, as Docker's own programs read DOCKER_HOST, DOCKER_TLS_VERIFY and
 * DOCKER_CERT_PATH. */
#include "engine.h"
#include <net/http.h>
#include <sys/un.h>

static bool is_set(const char *name)
{
    const char *v = getenv(name);
    return v && *v;
}

static int at_socket(const char *url, const char *path, cay__engine_where *w, cay_err *err)
{
    if (!CAY_COPY(w->path, path) || strlen(path) >= sizeof(((struct sockaddr_un *)0)->sun_path))
        return cay_fail_why(err, CAY_EINVAL, "url_invalid",
                            "engine %.80s: the path is too long for a socket", url);
    CAY_JOIN(w->url, "unix:", path);
    return 0;
}

/* $DOCKER_CERT_PATH, else ~/.docker: ca.pem has to be there, the others where the engine asks who
 * comes. */
static int find_certs(cay__engine_where *w, cay_err *err)
{
    const char *dir = getenv("DOCKER_CERT_PATH"), *home = getenv("HOME");
    char ca[600];
    struct stat st;
    bool fits;
    if (dir && *dir)
        fits = CAY_COPY(w->certs, dir);
    else
        fits = home && CAY_JOIN(w->certs, home, "/.docker");
    if (!fits || w->certs[0] != '/' || !CAY_JOIN(ca, w->certs, "/ca.pem") || stat(ca, &st) < 0)
        return cay_fail_why(err, CAY_EINVAL, "engine_certs",
                            "engine %.80s: there is no ca.pem in %.100s; set DOCKER_CERT_PATH to "
                            "the directory of ca.pem, cert.pem and key.pem",
                            w->path, fits ? w->certs : "$DOCKER_CERT_PATH");
    return 0;
}

static int at_tcp(const char *url, const char *rest, cay__engine_where *w, cay_err *err)
{
    bool tls = is_set("DOCKER_TLS_VERIFY") || is_set("DOCKER_TLS") || is_set("DOCKER_CERT_PATH");
    const char *end = rest + strcspn(rest, "/"), *last = strrchr(rest, ']');
    const char *colon = strchr(CAY_OR(last, rest), ':');
    if (!*rest || *rest == ':' || (*end && strcmp(end, "/") != 0) || (size_t)(end - rest) > 90)
        return cay_fail_why(err, CAY_EINVAL, "url_invalid", "engine %.80s: give tcp://HOST:PORT",
                            url);
    const char *scheme = "http", *port = ":2375";
    if (tls) {
        scheme = "https";
        port = ":2376";
    }
    CAY_FORMAT(w->url, "%s://%.*s%s", scheme, (int)(end - rest), rest, CAY_TEXT_IF(!colon, port));
    CAY_COPY(w->path, url);
    w->tcp = true;
    w->far = !cay__http_is_loopback(w->url);
    if (tls)
        return find_certs(w, err);
    /* Whoever is on the way would be root over there: plain bytes stay on this machine. */
    if (w->far)
        return cay_fail_why(err, CAY_EPERM, "engine_plain",
                            "engine %.80s: without TLS anybody on the way has the engine; set "
                            "DOCKER_TLS_VERIFY=1 and DOCKER_CERT_PATH",
                            url);
    return 0;
}

int cay__engine_find(const char *url, cay__engine_where *w, cay_err *err)
{
    *w = (cay__engine_where){ 0 };
    if (cay__str_starts(url, "unix://") && url[7] == '/')
        return at_socket(url, url + 7, w, err);
    if (*url == '/')
        return at_socket(url, url, w, err);
    if (cay__str_starts(url, "tcp://"))
        return at_tcp(url, url + 6, w, err);
    if (cay__str_starts(url, "ssh://"))
        return cay_fail_why(err, CAY_ENOTSUP, "engine_ssh",
                            "engine %.60s: ssh is not spoken here; run ssh -nNT -L "
                            "/tmp/engine.sock:/var/run/docker.sock HOST and set "
                            "DOCKER_HOST=unix:///tmp/engine.sock",
                            url);
    return cay_fail_why(err, CAY_EINVAL, "url_invalid",
                        "engine %.80s: give unix:///PATH or tcp://HOST:PORT", url);
}
