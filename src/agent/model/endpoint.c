/* SPDX-License-Identifier: Apache-2.0 */
#include "endpoint.h"

#define DEFAULT_BASE "https://api.openai.com/v1"
enum { KEY_MAX = 4096, CONFIG_MAX = 1 << 20 };

/* Its name alone, or an object. What belongs into that and stands beside it would be passed over in
 * silence, and a key or a task go to the wrong server. */
static int take_config(const char *path, const json_t *j, json_t **out, cay_err *err)
{
    static const char *const inner[] = { "base_url", "api", "key", "headers", "context_window" };
    json_t *m = json_object_get(j, "model");
    CAY_EACH(it, inner)
        if (json_object_get(j, *it))
            return cay_fail_why(err, CAY_EINVAL, "config_invalid",
                                "%s: \"%s\" belongs into \"model\": {\"name\": …, \"%s\": …}", path,
                                *it, *it);
    if (m && !json_is_object(m) && !json_is_string(m))
        return cay_fail_why(
            err, CAY_EINVAL, "config_invalid",
            "%s: \"model\" is a name, or {\"name\": …, \"base_url\": …, \"api\": …, \"key\": …}",
            path);
    if (json_is_string(m))
        *out = json_pack("{s:O}", "name", m);
    else
        *out = json_incref(m);
    return 0;
}

/* The member "model" of $XDG_CONFIG_HOME/cay/config.json; *out stays NULL when there is none. */
static int read_config(json_t **out, cay_err *err)
{
    char path[4096];
    const char *dir = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    if (dir && dir[0] == '/')
        CAY_FORMAT(path, "%s/cay/config.json", dir);
    else if (home && home[0] == '/')
        CAY_FORMAT(path, "%s/.config/cay/config.json", home);
    else
        return 0;
    CAY_AUTOFD fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return 0;
    CAY_AUTOFREE char *text = cay__alloc(CONFIG_MAX + 1);
    ssize_t n = -1;
    if (fd >= 0)
        n = cay__fd_read_all(fd, text, CONFIG_MAX);
    if (n < 0)
        return cay_fail_sys(err, "%s", path);
    if (n == CONFIG_MAX)
        return cay_fail(err, CAY_ETOOBIG, "%s is larger than 1 MiB", path);
    CAY_AUTOJSON *j = NULL;
    CAY_TRY(cay__json_object(path, text, &j, err));
    return take_config(path, j, out, err);
}

static int read_key_file(const char *path, char **out, cay_err *err)
{
    struct stat st;
    CAY_AUTOFD fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0)
        return cay_fail_why(err, CAY_ENOENT, "model_key", "the model's key: %s: %s", path,
                            strerror(errno));
    if (st.st_mode & 077)
        return cay_fail_why(err, CAY_EPERM, "model_key",
                            "the model's key: others may read %s; chmod 600 it", path);
    char *text = cay__alloc(KEY_MAX + 1);
    ssize_t n = cay__fd_read_all(fd, text, KEY_MAX);
    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r' || text[n - 1] == ' '))
        text[--n] = 0;
    if (n > 0) {
        *out = text;
        return 0;
    }
    free(text);
    return cay_fail_why(err, CAY_ENOENT, "model_key", "the model's key: %s is empty", path);
}

int cay__model_secret(const char *source, char **out, cay_err *err)
{
    if (source && !strcmp(source, "none"))
        return 0;
    if (source && !strncmp(source, "file:", 5))
        return read_key_file(source + 5, out, err);
    if (source && strncmp(source, "env:", 4)) /* what stands there may be a key: it is not told */
        return cay_fail_why(err, CAY_EINVAL, "model_key",
                            "the model's key is named by its source: env:NAME, file:PATH or none");
    const char *name = source ? source + 4 : "OPENAI_API_KEY", *value = getenv(name);
    if (source && (!value || !*value))
        return cay_fail_why(err, CAY_ENOENT, "model_key",
                            "the model's key: variable %.60s is not set", name);
    if (value && strlen(value) > KEY_MAX)
        return cay_fail_why(err, CAY_ETOOBIG, "model_key",
                            "the model's key in %.60s is longer than 4 KiB", name);
    *out = CAY_IF(value && *value, cay__strdup(value));
    return 0;
}

static const char *choose_setting(const char *given, const char *variable, const json_t *conf,
                                  const char *key, const char *none)
{
    const char *env = CAY_IF(variable, getenv(variable));
    if (given && *given)
        return given;
    if (env && *env)
        return env;
    return cay__json_str(conf, key, none);
}

static int check_endpoint(const cay__endpoint *e, const cay_model_open_spec *spec,
                          const json_t *conf, cay_err *err)
{
    if (strncmp(e->base, "https://", 8) && strncmp(e->base, "http://", 7))
        return cay_fail_why(
            err, CAY_EINVAL, "url_invalid",
            "the model's address \"%.100s\" begins with neither https:// nor http://", e->base);
    if (strcmp(e->api, "responses") && strcmp(e->api, "websocket") && strcmp(e->api, "chat"))
        return cay_fail_why(err, CAY_EINVAL, "config_invalid",
                            "the model's api \"%.40s\" is none of responses, websocket and chat",
                            e->api);
    if (e->key && !strncmp(e->base, "http://", 7) && !cay__http_is_loopback(e->base) &&
        !spec->plain_key)
        return cay_fail_why(
            err, CAY_EPERM, "model_key",
            "the key would travel to %.100s unencrypted; use https://, or key source none",
            e->base);
    if (e->key && strpbrk(e->key, "\r\n"))
        return cay_fail_why(err, CAY_EINVAL, "model_key", "the model's key has a line break in it");
    /* The default address answers nobody without one: said now, not after a sandbox was made and
     * the model asked. */
    bool told = (spec->key && *spec->key) || cay__json_str(conf, "key", NULL) ||
                json_object_get(conf, "headers") || getenv("CAY_MODEL_HEADERS") ||
                (spec->headers && spec->headers[0]);
    if (!e->key && !told && !strcmp(e->base, DEFAULT_BASE))
        return cay_fail_why(err, CAY_ENOENT, "model_key",
                            "no key for " DEFAULT_BASE
                            ": set OPENAI_API_KEY, or name where it is (--key env:NAME, "
                            "file:PATH); another server is --base-url URL");
    return 0;
}

static int read_window(const cay_model_open_spec *spec, const json_t *conf, uint64_t *out,
                       cay_err *err)
{
    const char *env = getenv("CAY_MODEL_WINDOW");
    const json_t *own = json_object_get(conf, "context_window");
    *out = spec->window;
    if (!*out && env && *env && (!cay__str_to_u64(env, out) || !*out))
        return cay_fail_why(err, CAY_EINVAL, "config_invalid",
                            "CAY_MODEL_WINDOW \"%.40s\" is no number of tokens", env);
    if (!*out && own && json_integer_value(own) <= 0)
        return cay_fail_why(err, CAY_EINVAL, "config_invalid",
                            "\"context_window\" of the configuration is no number of tokens");
    if (!*out)
        *out = (uint64_t)json_integer_value(own);
    return 0;
}

static int fill_endpoint(cay__endpoint *e, const cay_model_open_spec *spec, const json_t *conf,
                         cay_err *err)
{
    CAY_TRY(cay__model_secret(choose_setting(spec->key, NULL, conf, "key", NULL), &e->key, err));
    CAY_TRY(check_endpoint(e, spec, conf, err));
    CAY_TRY(read_window(spec, conf, &e->window, err));
    return cay__headers_set(e, spec, conf, err);
}

int cay__endpoint_make(const cay_model_open_spec *spec, cay__endpoint *e, cay_err *err)
{
    CAY_AUTOJSON *conf = NULL;
    memset(e, 0, sizeof *e);
    e->socket = -1;
    CAY_TRY(read_config(&conf, err));
    const char *name = choose_setting(spec->model, "CAY_MODEL", conf, "name", NULL);
    if (!name)
        return cay_fail_why(err, CAY_EINVAL, "model_missing",
                            "which model? give --model NAME, set CAY_MODEL, or \"model\": "
                            "{\"name\": …} in the configuration");
    e->model = cay__strdup(name);
    e->base = cay__strdup(
        choose_setting(spec->base_url, "OPENAI_BASE_URL", conf, "base_url", DEFAULT_BASE));
    e->api = cay__strdup(choose_setting(spec->api, "CAY_MODEL_API", conf, "api", "responses"));
    for (size_t n = strlen(e->base); n && e->base[n - 1] == '/';)
        e->base[--n] = 0;
    if (spec->retries != CAY_NO_RETRY)
        e->retries = CAY_OR(spec->retries, 4);
    e->connect_ms = CAY_OR(spec->connect_ms, 30000);
    e->idle_ms = CAY_OR(spec->idle_ms, 300000);
    e->total_ms = CAY_OR(spec->total_ms, 1800000);
    e->over_socket = !strcmp(e->api, "websocket");
    e->stream = !spec->no_stream && !e->over_socket;
    int rc = fill_endpoint(e, spec, conf, err);
    if (rc < 0)
        cay__endpoint_clear(e);
    return rc;
}

void cay__endpoint_clear(cay__endpoint *e)
{
    cay__http_close(e->http);
    cay__socket_close(e);
    cay__headers_clear(e);
    cay__secret_free(e->key);
    free(e->base);
    free(e->model);
    free(e->api);
    memset(e, 0, sizeof *e);
    e->socket = -1;
}

void cay__endpoint_free(void *self)
{
    cay__endpoint_clear(self);
    free(self);
}
