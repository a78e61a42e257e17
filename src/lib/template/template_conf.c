/* SPDX-License-Identifier: Apache-2.0 */
/* templates.conf: what the operator says about names and registries. */
#include "registry.h"
#include <base/path.h>

#define FILE_MAX (256u << 10)
#define NAME     "templates.conf"

static void *grow_list(cay__arena *mem, void *old, size_t n, size_t one)
{
    if (n & (n - 1)) /* room is there up to the next power of two */
        return old;
    void *fresh = cay__arena_take(mem, (n ? 2 * n : 1) * one);
    if (n)
        memcpy(fresh, old, n * one);
    return fresh;
}

static int fail_invalid(unsigned line, const char *why, cay_err *err)
{
    return cay_fail_why(err, CAY_EINVAL, "templates_conf", NAME ", line %u: %s", line, why);
}

static int read_registry(cay__tconf *c, char **save, unsigned line, cay_err *err)
{
    char *host = strtok_r(NULL, " \t", save);
    if (!host)
        return fail_invalid(line, "registry HOST[:PORT] [plain] [private]", err);
    c->registries = grow_list(&c->mem, c->registries, c->nregistries, sizeof *c->registries);
    size_t i = c->nregistries++;
    c->registries[i].host = cay__arena_str(&c->mem, host);
    for (char *w; (w = strtok_r(NULL, " \t", save));) {
        if (!strcmp(w, "plain"))
            c->registries[i].plain = true;
        else if (!strcmp(w, "private"))
            c->registries[i].lan = true;
        else
            return fail_invalid(line, "after a registry come `plain` and `private`", err);
    }
    return 0;
}

static int read_alias(cay__tconf *c, char **save, unsigned line, cay_err *err)
{
    char *name = strtok_r(NULL, " \t", save), *ref = CAY_IF(name, strtok_r(NULL, " \t", save)),
         clean[CAY_TEMPLATE_NAME + 1];
    if (!ref)
        return fail_invalid(line, "alias NAME REF", err);
    CAY_TRY(cay__tname_clean(name, clean, err));
    c->aliases = grow_list(&c->mem, c->aliases, c->naliases, sizeof *c->aliases);
    c->aliases[c->naliases].name = cay__arena_str(&c->mem, clean);
    c->aliases[c->naliases++].ref = cay__arena_str(&c->mem, ref);
    return 0;
}

static int one_line(cay__tconf *c, char *text, unsigned line, cay_err *err)
{
    char *save = NULL, *word = strtok_r(text, " \t", &save);
    uint64_t v;
    if (!word || *word == '#')
        return 0;
    if (!strcmp(word, "registry"))
        return read_registry(c, &save, line, err);
    if (!strcmp(word, "alias"))
        return read_alias(c, &save, line, err);
    const char *value = strtok_r(NULL, " \t", &save);
    if (!strcmp(word, "search") && value) {
        c->search = grow_list(&c->mem, c->search, c->nsearch, sizeof *c->search);
        c->search[c->nsearch++] = cay__arena_str(&c->mem, value);
        return 0;
    }
    if (!strcmp(word, "idle") && value && cay__str_to_u64(value, &v) && v && v <= 3600) {
        c->idle_ms = v * 1000;
        return 0;
    }
    if (!strcmp(word, "pull") && value && (!strcmp(value, "never") || !strcmp(value, "missing"))) {
        c->no_pull = *value == 'n';
        return 0;
    }
    return fail_invalid(line, "want registry, alias, search, idle or pull", err);
}

int cay__tconf_parse(const char *text, cay__tconf *out, cay_err *err)
{
    CAY_AUTOFREE char *own = cay__strdup(text);
    unsigned line = 0;
    for (char *p = own, *end; *p; p = end) {
        end = p + strcspn(p, "\n");
        if (*end)
            *end++ = 0;
        CAY_TRY(one_line(out, p, ++line, err));
    }
    return 0;
}

static int read_file(int dir, const char *path, cay__tconf *out, cay_err *err)
{
    CAY_AUTOFREE char *text = cay__alloc(FILE_MAX + 1);
    CAY_AUTOFD fd = openat(dir, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        if (errno == ENOENT)
            return 0;
        return cay_fail_sys(err, "open %.200s", path);
    }
    ssize_t n = cay__fd_read_all(fd, text, FILE_MAX);
    if (n < 0 || (size_t)n == FILE_MAX)
        return cay_fail_why(err, CAY_EINVAL, "templates_conf",
                            "%.200s cannot be read, or is too long", path);
    text[n] = 0;
    return cay__tconf_parse(text, out, err);
}

int cay__tconf_read(const cay_client *client, cay__tconf *out, cay_err *err)
{
    char path[4096];
    const char *home = getenv("HOME"), *config = getenv("XDG_CONFIG_HOME");
    *out = (cay__tconf){ .idle_ms = 60000 };
    int rc = read_file(client->home_fd, NAME, out, err);
    if (rc == 0)
        rc = read_file(AT_FDCWD, "/etc/cay/" NAME, out, err);
    bool fits;
    if (config && *config == '/')
        fits = CAY_JOIN(path, config, "/cay/" NAME);
    else
        fits = home && CAY_JOIN(path, home, "/.config/cay/" NAME);
    if (rc == 0 && geteuid() != 0 && fits)
        rc = read_file(AT_FDCWD, path, out, err);
    if (rc < 0)
        cay__tconf_clear(out);
    return rc;
}

void cay__tconf_clear(cay__tconf *c)
{
    cay__arena_clear(&c->mem);
    *c = (cay__tconf){ 0 };
}

const char *cay__tconf_alias(const cay__tconf *c, const char *ref)
{
    char clean[CAY_TEMPLATE_NAME + 1];
    if (cay__tname_clean(ref, clean, NULL) < 0)
        return ref;
    CAY_EACH_OF(alias, c->aliases, c->naliases)
        if (!strcmp(alias->name, clean))
            return alias->ref;
    return ref;
}
