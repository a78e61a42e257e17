/* SPDX-License-Identifier: Apache-2.0 */
/* What goes with every request: the key, and more headers of the configuration, $CAY_MODEL_HEADERS
 * and the caller. A later one of a name counts. */
#include "endpoint.h"
#include <strings.h>

#define TOKEN "!#$%&'*+-.^_`|~abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
enum { VALUE_MAX = 8192 };

void cay__secret_free(char *s)
{
    if (s)
        explicit_bzero(s, strlen(s));
    free(s);
}

/* lead: "Bearer ", or "" */
static void set_header(cay__endpoint *e, const char *name, size_t n, const char *lead,
                       const char *value)
{
    size_t room = n + strlen(lead) + strlen(value) + 3;
    char *h = cay__alloc(room);
    snprintf(h, room, "%.*s: %s%s", (int)n, name, lead, value);
    CAY_EACH_OF(header, e->headers, e->nheaders)
        if (!strncasecmp(*header, h, n + 1)) {
            cay__secret_free(*header);
            *header = h;
            return;
        }
    CAY_GROW(e->headers, e->nheaders + 1);
    e->headers[e->nheaders++] = h;
    e->headers[e->nheaders] = NULL;
}

/* where: whose header it is. What stands there may be a secret: only its name is told. */
static int add_header(cay__endpoint *e, const cay_model_open_spec *spec, const char *where,
                      const char *name, size_t n, const char *value, cay_err *err)
{
    CAY_AUTOFREE char *secret = NULL;
    bool named = !strncmp(value, "env:", 4) || !strncmp(value, "file:", 5);
    if (!n || n > 100 || strspn(name, TOKEN) < n)
        return cay_fail_why(err, CAY_EINVAL, "config_invalid", "%s: a header is \"Name: value\"",
                            where);
    int rc = 0;
    if (named)
        rc = cay__model_secret(value, &secret, err);
    if (rc < 0)
        return cay_wrap(err, rc, "header %.*s of %s", (int)n, name, where);
    if (named && !strncmp(e->base, "http://", 7) && !cay__http_is_loopback(e->base) &&
        !spec->plain_key)
        return cay_fail_why(err, CAY_EPERM, "model_key",
                            "header %.*s would travel to %.100s unencrypted; use https://", (int)n,
                            name, e->base);
    const char *text = CAY_OR(secret, value);
    for (const char *s = text; *s; s++)
        if ((unsigned char)*s < ' ' || *s == 127 || s - text > VALUE_MAX)
            return cay_fail_why(err, CAY_EINVAL, "config_invalid",
                                "header %.*s of %s has a line break or control character in it, or "
                                "is longer than 8 KiB",
                                (int)n, name, where);
    set_header(e, name, n, "", text);
    if (secret)
        explicit_bzero(secret, strlen(secret));
    return 0;
}

int cay__headers_line(cay__endpoint *e, const cay_model_open_spec *spec, const char *where,
                      const char *line, cay_err *err)
{
    size_t n = strcspn(line, ":");
    if (!line[n])
        return cay_fail_why(err, CAY_EINVAL, "config_invalid", "%s: a header is \"Name: value\"",
                            where);
    const char *value = line + n + 1;
    return add_header(e, spec, where, line, n, value + strspn(value, " \t"), err);
}

void cay__headers_begin(cay__endpoint *e)
{
    set_header(e, "Content-Type", 12, "", "application/json");
    if (e->key)
        set_header(e, "Authorization", 13, "Bearer ", e->key);
}

int cay__headers_set(cay__endpoint *e, const cay_model_open_spec *spec, const json_t *conf,
                     cay_err *err)
{
    const json_t *own = json_object_get(conf, "headers");
    CAY_AUTOFREE char *env =
        cay__strdup(CAY_TEXT_IF(getenv("CAY_MODEL_HEADERS"), getenv("CAY_MODEL_HEADERS")));
    char *save = NULL;
    cay__headers_begin(e);
    CAY_EACH_MEMBER(name, v, own) {
        if (!json_is_string(v))
            return cay_fail_why(err, CAY_EINVAL, "config_invalid",
                                "header %.60s of the configuration is no text", name);
        CAY_TRY(add_header(e, spec, "the configuration", name, strlen(name), json_string_value(v),
                           err));
    }
    for (char *line = strtok_r(env, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        CAY_TRY(cay__headers_line(e, spec, "CAY_MODEL_HEADERS", line, err));
    for (size_t i = 0; spec->headers && spec->headers[i]; i++)
        CAY_TRY(cay__headers_line(e, spec, "--header", spec->headers[i], err));
    return 0;
}

void cay__headers_clear(cay__endpoint *e)
{
    CAY_EACH_OF(header, e->headers, e->nheaders)
        cay__secret_free(*header);
    free(e->headers);
    e->headers = NULL;
    e->nheaders = 0;
}

static void mask_secret(char *text, const char *secret)
{
    size_t n = strlen(secret);
    for (char *k = text; n >= 8 && (k = strstr(k, secret)); k += n)
        memset(k, '*', n);
}

void cay__headers_mask(const cay__endpoint *e, char *text)
{
    if (e->key)
        mask_secret(text, e->key);
    for (size_t i = 1; i < e->nheaders; i++) /* the first tells the type of the body */
        mask_secret(text, strchr(e->headers[i], ':') + 2);
}
