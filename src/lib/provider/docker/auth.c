/* SPDX-License-Identifier: Apache-2.0 */
/* Who pulls, by the user's Docker configuration: "credHelpers", "credsStore" and "auths" of
 * config.json, in this order, as Docker's own client does. */
#include "docker.h"
#include <base/base64.h>
#include <lib/provider/native/native.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { CONFIG_MAX = 1 << 20 };
#define HUB "https://index.docker.io/v1/"

/* The part before the first slash is a registry when it could be a host: it has a dot or colon, or
 * is localhost. */
void cay__docker_registry(const char *image, char *out, size_t cap)
{
    size_t n = strcspn(image, "/");
    bool host = image[n] && (memchr(image, '.', n) || memchr(image, ':', n) ||
                             (n == 9 && !strncmp(image, "localhost", 9)));
    if (host && n < cap) {
        memcpy(out, image, n);
        out[n] = 0;
    } else {
        cay__str_copy(out, cap, HUB);
    }
}

static json_t *read_config(void)
{
    char path[4096];
    const char *dir = getenv("DOCKER_CONFIG"), *home = getenv("HOME");
    if (dir && *dir ? !CAY_JOIN(path, dir, "/config.json")
                    : !home || !CAY_JOIN(path, home, "/.docker/config.json"))
        return NULL;
    CAY_AUTOFD fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    CAY_AUTOFREE char *text = NULL;
    if (fd >= 0)
        text = cay__alloc(CONFIG_MAX + 1);
    ssize_t n = -1;
    if (text)
        n = cay__fd_read_all(fd, text, CONFIG_MAX);
    json_t *o = NULL;
    if (n <= 0)
        return NULL;
    text[n] = 0;
    cay__json_object("config.json", text, &o, NULL);
    explicit_bzero(text, (size_t)n);
    return o;
}

/* base64 of the URL's alphabet: what the engine reads. */
static char *encode_base64url(const char *s)
{
    cay__buf b = CAY__BUF(256u << 10);
    cay__base64_put(&b, s, strlen(s));
    for (char *p = b.data; p && *p; p++) {
        if (*p == '+')
            *p = '-';
        else if (*p == '/')
            *p = '_';
    }
    return CAY_OR(b.data, cay__strdup(""));
}

/* The configuration keeps base64 of USER:PASSWORD; the engine wants both apart. */
static bool take_password(json_t *o, const char *auth)
{
    CAY_AUTOBUF pair = CAY__BUF(64u << 10);
    char *colon = NULL;
    if (cay__base64_get(&pair, auth, strlen(auth)) && pair.len)
        colon = strchr(pair.data, ':');
    if (!colon)
        return false;
    *colon = 0;
    int rc = json_object_set_new(o, "username", json_string(pair.data)) |
             json_object_set_new(o, "password", json_string(colon + 1));
    explicit_bzero(pair.data, pair.len);
    return rc == 0;
}

enum { HELPER_MS = 60000, ANSWER_MAX = 64 << 10 };

static int helper_failed(const char *name, const char *how, cay_err *err)
{
    return cay_fail_why(err, CAY_ENOENT, "credential_helper",
                        "docker-credential-%.60s, which config.json names: %s; install it, or log "
                        "in again: docker login",
                        name, how);
}

/* Starts "docker-credential-NAME get" with both ends of its streams; its standard error is ours. */
static int start_helper(const char *name, pid_t *pid, int *in, int *out, cay_err *err)
{
    char program[160];
    const char *argv[] = { program, "get", NULL };
    int to[2], from[2];
    size_t n = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");
    if (!n || name[n] || !CAY_JOIN(program, "docker-credential-", name))
        return helper_failed(name, "that is no name of a program", err);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, to) <
        0) /* a socket, because it may end without reading: no signal then */
        return cay_fail_sys(err, "socketpair");
    if (pipe2(from, O_CLOEXEC) < 0) {
        close(to[0]);
        close(to[1]);
        return cay_fail_sys(err, "pipe");
    }
    int rc = cay__native_program(program, argv, environ, (int[]){ to[0], from[1] }, 0, 2, pid);
    close(to[0]);
    close(from[1]);
    *in = to[1];
    *out = from[0];
    if (rc == 0)
        return 0;
    cay__close_fd(in);
    cay__close_fd(out);
    return helper_failed(name, strerror(rc), err);
}

/* What it says, within a minute and the call's time. */
static int read_helper(int out, const cay_call *call, cay__buf *text, cay_err *err)
{
    cay_call mine = cay__call_within(call, HELPER_MS);
    for (;;) {
        char *room = cay__buf_room(text, 4096);
        CAY_TRY(cay__call_wait(&mine, out, POLLIN, "credential helper", err));
        ssize_t n = -1;
        if (room)
            n = read(out, room, 4096);
        if (n < 0 && room && errno == EINTR)
            continue;
        if (n <= 0) {
            if (n < 0)
                return cay_fail_why(err, CAY_ETOOBIG, "answer_too_big",
                                    "the credential helper says too much");
            return 0;
        }
        cay__buf_used(text, (size_t)n);
    }
}

/* false in *known: it has none for that registry. */
static int ask_helper(const char *name, const char *registry, const cay_call *call, json_t *o,
                      bool *known, cay_err *err)
{
    CAY_AUTOBUF text = CAY__BUF(ANSWER_MAX);
    CAY_AUTOJSON *said = NULL;
    CAY_AUTOFD in = -1, out = -1;
    pid_t pid;
    int status = 0;
    CAY_TRY(start_helper(name, &pid, &in, &out, err));
    (void)!send(in, registry, strlen(registry), MSG_NOSIGNAL);
    cay__close_fd(&in);
    int rc = read_helper(out, call, &text, err);
    if (rc < 0)
        kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    CAY_TRY(rc);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return helper_failed(name, "it cannot be run", err);
    const char *words = CAY_OR(text.data, "");
    if (!WIFEXITED(status) || WEXITSTATUS(status)) {
        *known = false;
        if (strstr(words, "credentials not found"))
            return 0;
        return helper_failed(name, "it failed", err);
    }
    if (cay__json_object("credentials", words, &said, NULL) < 0)
        return helper_failed(name, "it answers with something that is not JSON", err);
    const char *user = cay__json_str(said, "Username", ""),
               *secret = cay__json_str(said, "Secret", "");
    *known = *secret != 0;
    if (!strcmp(user, "<token>")) {
        json_object_set_new(o, "identitytoken", json_string(secret));
    } else {
        json_object_set_new(o, "username", json_string(user));
        json_object_set_new(o, "password", json_string(secret));
    }
    explicit_bzero(text.data, text.len);
    return 0;
}

static bool from_file(json_t *o, const json_t *conf, const char *registry)
{
    json_t *mine = json_object_get(json_object_get(conf, "auths"), registry);
    const char *token = cay__json_str(mine, "identitytoken", "");
    bool known = take_password(o, cay__json_str(mine, "auth", ""));
    if (*token)
        return json_object_set_new(o, "identitytoken", json_string(token)) == 0;
    return known;
}

int cay__docker_auth(const cay_call *call, const char *image, char **out, cay_err *err)
{
    char registry[256];
    CAY_AUTOJSON *conf = read_config();
    cay__docker_registry(image, registry, sizeof registry);
    CAY_AUTOJSON *o = json_pack("{s:s}", "serveraddress", registry);
    const char *helper = cay__json_str(json_object_get(conf, "credHelpers"), registry,
                                       cay__json_str(conf, "credsStore", ""));
    bool known = false;
    if (*helper)
        CAY_TRY(ask_helper(helper, registry, call, o, &known, err));
    else
        known = from_file(o, conf, registry);
    CAY_AUTOFREE char *text = NULL;
    if (known)
        text = cay__json_text(o, 64 << 10);
    if (text)
        *out = encode_base64url(text);
    else
        *out = cay__strdup("");
    return 0;
}
