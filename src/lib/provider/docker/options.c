/* SPDX-License-Identifier: Apache-2.0 */
/* What a request may choose of an engine: name, form, and what it means is in docs/docker.md. */
#include "docker.h"
#include <ctype.h>

typedef bool form(const char *s);

static bool is_image(const char *s)
{
    size_t n = strlen(s);
    for (const char *p = s; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("._-/:@", *p))
            return false;
    return n > 0 && n < 512 && isalnum((unsigned char)s[0]);
}

static bool is_name(const char *s)
{
    size_t n = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");
    return n > 0 && n < 128 && !s[n] && isalnum((unsigned char)s[0]);
}

/* "host" and "container:…" would be another's network. */
static bool is_network(const char *s)
{
    return is_name(s) && strcmp(s, "host") != 0;
}

static bool is_pull(const char *s)
{
    return !strcmp(s, "missing") || !strcmp(s, "always") || !strcmp(s, "never");
}

static bool is_bool(const char *s)
{
    return !strcmp(s, "true") || !strcmp(s, "false");
}

static bool is_list(const char *s)
{
    return *s && strlen(s) < 4096;
}

static bool is_seccomp(const char *s)
{
    return !strcmp(s, "default") || !strcmp(s, "cay") || !strcmp(s, "strict") ||
           !strcmp(s, "unconfined") || s[0] == '/';
}

static bool is_transport(const char *s)
{
    return !strcmp(s, "auto") || !strcmp(s, "socket") || !strcmp(s, "engine");
}

static bool is_path(const char *s)
{
    return *s == '/' && strlen(s) < 4096;
}

static bool is_platform(const char *s)
{
    return cay__str_starts(s, "linux/") && is_image(s);
}

#define AT(m) offsetof(cay__docker_options, m)
static const struct {
    const char *name;
    form *ok;
    const char *what;
    size_t at;
    bool flag;
} rows[] = {
    { "image", is_image, "an image by reference or id: debian:12, sha256:…", AT(image) },
    { "pull", is_pull, "missing, always or never", AT(pull) },
    { "network", is_network, "none, bridge or the name of a network; the host's is not given",
      AT(network) },
    { "publish", is_list, "PORT or PORT:HOSTPORT, several with commas", AT(publish) },
    { "read_only", is_bool, "true or false", AT(read_only), true },
    { "cap_add", is_list, "capabilities with commas, as NET_RAW", AT(cap_add) },
    { "seccomp", is_seccomp, "default, cay, strict, unconfined or the absolute path of a profile",
      AT(seccomp) },
    { "runtime", is_name, "a runtime that the engine knows", AT(runtime) },
    { "volumes", is_list, "NAME:/TARGET[:ro][:driver=NAME][:opt.KEY=VALUE…], several with commas",
      AT(volumes) },
    { "platform", is_platform, "linux/ARCHITECTURE", AT(platform) },
    { "dockerfile", is_path,
      "the absolute path of a directory with a Dockerfile, or of such a file", AT(dockerfile) },
    { "build_args", is_list, "KEY=VALUE, one a line, or a JSON object", AT(build_args) },
    { "transport", is_transport, "auto, socket or engine", AT(transport) },
};

const char *const cay__docker_option_names[] = {
    "image",   "pull",    "network",  "publish",    "read_only",  "cap_add",   "seccomp",
    "runtime", "volumes", "platform", "dockerfile", "build_args", "transport", NULL
};
_Static_assert(CAY_LEN(cay__docker_option_names) == CAY_LEN(rows) + 1, "one name for each row");

bool cay__docker_storage(const cay_create *c)
{
    const cay_pair *p = c->options;
    while (p && p->key && strcmp(p->key, "mounts") != 0)
        p++;
    return p && p->key;
}

int cay__docker_options_read(const cay_box_spec *spec, cay__docker_options *out, cay_err *err)
{
    const char *way = getenv("CAY_DOCKER_TRANSPORT");
    *out = (cay__docker_options){ .transport = way && is_transport(way) ? way : "auto",
                                  .pull = "missing",
                                  .network = "none",
                                  .seccomp = "default" };
    for (const cay_pair *p = spec->create->options; p && p->key; p++) {
        size_t i = 0;
        if (!strcmp(p->key, "mounts")) { /* the client's own words: no request has them, since they
                                            are in no list */
            out->mounts = true;
            out->fuse = strcmp(p->value, "kernel") != 0;
            continue;
        }
        if (!strcmp(p->key, "storage")) {
            out->storage = p->value;
            continue;
        }
        while (i < CAY_LEN(rows) && strcmp(rows[i].name, p->key) != 0)
            i++;
        if (i == CAY_LEN(rows))
            return cay_fail_why(
                err, CAY_EINVAL, "option_unknown",
                "option %.40s is not known to this provider; docs/docker.md has them all", p->key);
        const char *v = CAY_OR(p->value, "");
        if (!rows[i].ok(v))
            return cay_fail_why(err, CAY_EINVAL, "option_invalid", "option %s=%.60s: give %s",
                                rows[i].name, v, rows[i].what);
        if (rows[i].flag)
            *(bool *)((char *)out + rows[i].at) = !strcmp(v, "true");
        else
            *(const char **)((char *)out + rows[i].at) = v;
    }
    const char *usual = getenv("CAY_DOCKER_IMAGE");
    if (spec->nlayers) /* the snapshot's; one that is named has to be the same */
        return 0;
    if (out->dockerfile && out->image)
        return cay_fail_why(err, CAY_EINVAL, "option_invalid",
                            "a container has one image; give --image or --dockerfile, not both");
    if (out->build_args && !out->dockerfile)
        return cay_fail_why(err, CAY_EINVAL, "option_invalid",
                            "option build_args is for a Dockerfile; give --dockerfile DIR, too");
    if (out->dockerfile)
        return 0;
    if (!out->image)
        out->image = cay__text_or(usual, NULL);
    if (!out->image || !is_image(out->image))
        return cay_fail_why(
            err, CAY_EINVAL, "image_missing",
            "a container needs an image; give --image REF (option image), or set CAY_DOCKER_IMAGE");
    return 0;
}
