/* SPDX-License-Identifier: Apache-2.0 */
/* What a command gets of words: arguments, environment, directory, by the blob of a spawn. Nothing
 * is copied that can be pointed at. */
#include "init.h"
#include "plan.h"
#include <base/mutant.h>

#define ENV_MAX 8192 /* each is compared with those before it */

static const char *next_string(const char **s, const char *end)
{
    const char *p = *s;
    size_t n = 0;
    if (p < end)
        n = strnlen(p, (size_t)(end - p));
    if (p >= end || (p + n == end && !CAY__MUTANT("fuzz-guest_msg")))
        return NULL;
    *s = p + n + 1;
    return p;
}

static bool same_key(const char *a, const char *b)
{
    size_t n = strcspn(a, "=");
    return !strncmp(a, b, n + 1);
}

static size_t env_put(char **envp, size_t n, const char *kv)
{
    CAY_EACH_OF(it, envp, n)
        if (same_key(kv, *it)) {
            *it = (char *)kv;
            return n;
        }
    envp[n] = (char *)kv;
    return n + 1;
}

static size_t base_env(plan *p, layout_names *n, size_t at)
{
    CAY_JOIN(n->home, "HOME=", p->id.home);
    CAY_JOIN(n->user, "USER=", p->id.name);
    CAY_JOIN(n->logname, "LOGNAME=", p->id.name);
    CAY_JOIN(n->shell, "SHELL=", p->id.shell);
    at = env_put(
        p->envp, at,
        init.sudo ? "PATH=/run/cay/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
                  : "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    at = env_put(p->envp, at, n->home);
    at = env_put(p->envp, at, n->user);
    at = env_put(p->envp, at, n->logname);
    at = env_put(p->envp, at, n->shell);
    at = env_put(p->envp, at, "LANG=C.UTF-8");
    if (p->m->flags & CAY_SPAWN_TTY)
        at = env_put(p->envp, at, "TERM=xterm-256color");
    const char *s = init.config, *end = init.config + init.config_len;
    for (int skip = 0; skip < 4; skip++)
        next_string(&s, end);
    for (const char *kv; (kv = next_string(&s, end));)
        if (strchr(kv, '='))
            at = env_put(p->envp, at, kv);
    return at;
}

/* The sandbox's own shell: bash where there is one. */
static const char *find_shell(void)
{
    const char *given = config_get(3);
    if (*given)
        return given;
    if (access("/bin/bash", X_OK) == 0)
        return "/bin/bash";
    return "/bin/sh";
}

static const char *resolve_cwd(const plan *p, const char *asked, char *room, size_t cap)
{
    const char *work = config_get(1);
    if (!*asked)
        return work;
    if (asked[0] == '/')
        return asked;
    if (asked[0] == '~' && (asked[1] == '/' || !asked[1]))
        cay__str_join(room, cap, p->id.home, asked + 1, NULL);
    else
        cay__str_join(room, cap, work, "/", asked, NULL);
    return room;
}

size_t config_env_count(void)
{
    size_t n = 0;
    CAY_EACH_OF(it, init.config, init.config_len)
        n += *it == 0;
    return n;
}

/* Points argv and envp into the blob. Returns the errno, and the step in *step. */
int lay_out(plan *p, layout_names *nm, char *room, size_t cap, const char *blob, size_t len,
            const char **step)
{
    const char *s = blob, *end = blob + len;
    const char *user = next_string(&s, end), *cwd = next_string(&s, end),
               *tag = next_string(&s, end);
    *step = "request";
    if (!user || !cwd || !tag)
        return EINVAL;
    *step = "user";
    int rc;
    if (*user)
        rc = user_find(user, &p->id);
    else
        rc = user_default(&p->id);
    if (rc)
        return rc;
    p->cwd = resolve_cwd(p, cwd, room, cap);
    size_t a = 0, e = 0;
    if (p->m->flags & CAY_SPAWN_SHELL) {
        p->argv[a++] = (char *)find_shell();
        p->argv[a++] = p->m->flags & CAY_SPAWN_LOGIN ? "-lc" : "-c";
    }
    *step = "request";
    for (uint32_t i = 0; i < p->m->argc; i++)
        if (!(p->argv[a++] = (char *)next_string(&s, end)))
            return EINVAL;
    if (!(p->m->flags & CAY_SPAWN_ENV_ONLY))
        e = base_env(p, nm, e);
    if (p->m->envc > ENV_MAX)
        return E2BIG;
    for (uint32_t i = 0; i < p->m->envc; i++) {
        const char *kv = next_string(&s, end);
        if (!kv || !strchr(kv, '=') || *kv == '=')
            return EINVAL;
        e = env_put(p->envp, e, kv);
    }
    /* What init starts for sudo is outside of every fence: there is no fence here. */
    *step = "fence";
    if ((p->m->flags & CAY_SPAWN_FENCE) && init.sudo && !CAY__MUTANT("sudo-fence"))
        return EPERM;
    *step = "request";
    if (p->m->flags & CAY_SPAWN_FENCE) {
        p->fence = s;
        p->nfence = (size_t)(end - s);
    }
    p->path = "/usr/local/bin:/usr/bin:/bin";
    CAY_EACH_OF(it, p->envp, e)
        if (!strncmp(*it, "PATH=", 5))
            p->path = *it + 5;
    if (p->argv[0] && *p->argv[0])
        return 0;
    return EINVAL;
}
