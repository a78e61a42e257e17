/* SPDX-License-Identifier: Apache-2.0 */
/* Who pulls, by the user's Docker configuration: "auths" of config.json. Credential helpers are programs of the user's and not run here. */
#include "docker.h"
#include <base/base64.h>
#include <base/fd.h>
#include <base/str.h>
#include <fcntl.h>

enum { CONFIG_MAX = 1 << 20 };
#define HUB "https://index.docker.io/v1/"

/* The part before the first slash is a registry when it could be a host: it has a dot or colon, or is localhost. */
void cay__docker_registry(const char *image, char *out, size_t cap)
{
    size_t n = strcspn(image, "/");
    bool host = image[n] && (memchr(image, '.', n) || memchr(image, ':', n) || (n == 9 && !strncmp(image, "localhost", 9)));
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
    if (dir && *dir ? !cay__str_join(path, sizeof path, dir, "/config.json", NULL)
                    : !home || !cay__str_join(path, sizeof path, home, "/.docker/config.json", NULL))
        return NULL;
    CAY_AUTOFD fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    CAY_AUTOFREE char *text = fd < 0 ? NULL : cay__alloc(CONFIG_MAX + 1);
    ssize_t n = text ? cay__fd_read_all(fd, text, CONFIG_MAX) : -1;
    json_t *o = NULL;
    if (n <= 0)
        return NULL;
    text[n] = 0;
    cay__json_object("config.json", text, &o, NULL);
    explicit_bzero(text, (size_t)n);
    return o;
}

/* base64 of the URL's alphabet: what the engine reads. */
static char *encode(const char *s)
{
    cay__buf b = CAY__BUF(256u << 10);
    cay__base64_put(&b, s, strlen(s));
    for (char *p = b.data; p && *p; p++)
        *p = *p == '+' ? '-' : *p == '/' ? '_' : *p;
    return b.data ? b.data : cay__strdup("");
}

/* The configuration keeps base64 of USER:PASSWORD; the engine wants both apart. */
static bool take_password(json_t *o, const char *auth)
{
    CAY_AUTOBUF pair = CAY__BUF(64u << 10);
    char *colon = cay__base64_get(&pair, auth, strlen(auth)) && pair.len ? strchr(pair.data, ':') : NULL;
    if (!colon)
        return false;
    *colon = 0;
    int rc = json_object_set_new(o, "username", json_string(pair.data)) | json_object_set_new(o, "password", json_string(colon + 1));
    explicit_bzero(pair.data, pair.len);
    return rc == 0;
}

char *cay__docker_auth(const char *image)
{
    char registry[256];
    CAY_AUTOJSON *conf = read_config();
    cay__docker_registry(image, registry, sizeof registry);
    json_t *mine = json_object_get(json_object_get(conf, "auths"), registry);
    const char *token = cay__json_str(mine, "identitytoken", "");
    CAY_AUTOJSON *o = json_pack("{s:s}", "serveraddress", registry);
    bool known = take_password(o, cay__json_str(mine, "auth", ""));
    if (*token)
        known = json_object_set_new(o, "identitytoken", json_string(token)) == 0;
    CAY_AUTOFREE char *text = known ? cay__json_text(o, 64 << 10) : NULL;
    return text ? encode(text) : cay__strdup("");
}
