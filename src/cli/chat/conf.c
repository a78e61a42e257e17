/* SPDX-License-Identifier: Apache-2.0 */
/* ~/.config/cay/config.json: "model" is read by the library, "models" and "chat" by us. */
#include "chat.h"
#include <base/base.h>

enum { CONFIG_MAX = 1 << 20 };

const char *conf_dir(char *buf, size_t cap)
{
    const char *dir = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    int n;
    if (dir && dir[0] == '/')
        n = snprintf(buf, cap, "%s/cay", dir);
    else if (home && home[0] == '/')
        n = snprintf(buf, cap, "%s/.config/cay", home);
    else
        n = -1;
    if (n > 0 && (size_t)n < cap)
        return buf;
    return NULL;
}

typedef struct known {
    const char *key;
    json_type type;
} known;
static const known keys[] = { { "agent", JSON_STRING },
                              { "sandbox", JSON_STRING },
                              { "auto_approve", JSON_TRUE },
                              { "max_turns", JSON_INTEGER },
                              { "effort", JSON_STRING } };

static int check_conf(const char *path, const json_t *conf, cay_err *err)
{
    const json_t *own = json_object_get(conf, "chat"), *models = json_object_get(conf, "models");
    const char *key;
    json_t *v;
    if ((own && !json_is_object(own)) || (models && !json_is_array(models)))
        return cay_fail_why(err, CAY_EINVAL, "config_invalid",
                            "%.200s: \"chat\" is an object and \"models\" a list", path);
    json_object_foreach((json_t *)own, key, v) {
        const known *k = NULL;
        CAY_EACH(it, keys) {
            if (!strcmp(it->key, key))
                k = it;
        }
        if (!k || !(k->type == json_typeof(v) || (k->type == JSON_TRUE && json_is_boolean(v))))
            return cay_fail_why(err, CAY_EINVAL, "config_invalid",
                                "%.150s: \"chat\": %s \"%.40s\"; there are agent, sandbox, "
                                "auto_approve, max_turns, effort",
                                path, k ? "wrong type of" : "unknown", key);
    }
    return 0;
}

int conf_read(json_t **out, cay_err *err)
{
    char dir[4000], path[4096];
    if (!conf_dir(dir, sizeof dir))
        return 0;
    CAY_FORMAT(path, "%s/config.json", dir);
    CAY_AUTOFD fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        if (errno == ENOENT || errno == ENOTDIR)
            return 0;
        return cay_fail_sys(err, "%s", path);
    }
    CAY_AUTOFREE char *text = cay__alloc(CONFIG_MAX + 1);
    ssize_t n = cay__fd_read_all(fd, text, CONFIG_MAX);
    if (n < 0 || n == CONFIG_MAX) {
        if (n < 0)
            return cay_fail_sys(err, "%s", path);
        return cay_fail(err, CAY_ETOOBIG, "%s is larger than 1 MiB", path);
    }
    CAY_AUTOJSON *j = NULL;
    CAY_TRY(cay__json_object(path, text, &j, err));
    CAY_TRY(check_conf(path, j, err));
    *out = json_incref(j);
    return 0;
}
