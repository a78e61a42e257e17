/* SPDX-License-Identifier: Apache-2.0 */
/* A request's secrets: worked into policy and environment, and their values handed over. */
#include "remote.h"
#include "secret.h"
#include "spec.h"
#include <base/mutant.h>
#include <base/trust.h>
#include <cay/policy.h>
#include <policy/binding.h>
#include <sys/mman.h>

#define AUTOPOLICY __attribute__((cleanup(cay__policy_clear))) cay__policy
#define TRUST_MAX  (16u << 20)

static const cay_pair trust_env[] = { CAY__TRUST_ENV, { NULL, NULL } };

const cay_pair *cay_secret_env(void)
{
    return trust_env;
}

static int write_net(const cay__policy *p, cay__arena *mem, const char **out, cay_err *err)
{
    char *text = NULL;
    size_t len;
    CAY_TRY(cay__policy_write(p, &text, &len, err));
    *out = cay__arena_adopt(mem, text);
    return 0;
}

static const cay_secret *find_secret(const cay_create *c, size_t n, const char *name)
{
    CAY_EACH_OF(secret, c->net.secrets, n)
        if (!strcmp(secret->name, name))
            return secret;
    return NULL;
}

static int check_secret(const cay_create *c, size_t i, cay_err *err)
{
    const cay_secret *s = &c->net.secrets[i], *before;
    if (!s->name || !cay__secret_name_ok(s->name))
        return cay_fail_why(err, CAY_EINVAL, "secret_invalid",
                            "secret \"%.40s\": its name is a variable's: letters, digits and '_'",
                            CAY_OR(s->name, ""));
    CAY_TRY(cay__secret_source_check(s->name, s->source, err));
    if ((before = find_secret(c, i, s->name)) && strcmp(before->source, s->source) != 0)
        return cay_fail_why(err, CAY_EINVAL, "secret_conflict",
                            "secret %s has two sources; give one", s->name);
    for (const cay_pair *e = c->process.env; e && e->key; e++)
        if (!strcmp(e->key, s->name) && !cay__str_starts(CAY_OR(e->value, ""), "cay-secret-"))
            return cay_fail_why(err, CAY_EINVAL, "secret_conflict",
                                "secret %s and a variable of env have one name", s->name);
    return 0;
}

static void add_env(cay_create *c, cay__arena *mem)
{
    size_t n = 0, old = 0;
    while (c->process.env && c->process.env[old].key)
        old++;
    cay_pair *env =
        cay__arena_take(mem, (old + c->net.nsecrets + CAY_LEN(trust_env) + 1) * sizeof *env);
    for (const cay_pair *t = trust_env; t->key; t++)
        env[n++] = *t;
    for (size_t i = 0; i < c->net.nsecrets; i++) {
        char id[CAY__ID_LEN + 1], text[64];
        if (find_secret(c, i, c->net.secrets[i].name))
            continue;
        cay__id_make(id, 'v');
        CAY_FORMAT(text, "cay-secret-%s", id);
        if (CAY__MUTANT("secret-inside") && getenv(c->net.secrets[i].name))
            CAY_FORMAT(text, "%s", getenv(c->net.secrets[i].name));
        env[n++] = (cay_pair){ c->net.secrets[i].name, cay__arena_str(mem, text) };
    }
    CAY_EACH_OF(it, c->process.env, old) /* what the caller says comes last, and wins */
        env[n++] = *it;
    c->process.env = env;
}

int cay__secrets_prepare(cay_create *c, cay__arena *mem, cay_err *err)
{
    static const char off[] = "cay-net 1\nmode off\n";
    AUTOPOLICY p = { 0 };
    const char *net = CAY_OR(c->net.policy, off);
    if (!c->net.policy && !c->net.nsecrets)
        return 0;
    CAY_TRY(cay__policy_read(&p, net, strlen(net), false, err));
    for (size_t i = 0; i < c->net.nsecrets; i++) {
        CAY_TRY(check_secret(c, i, err));
        if (c->net.secrets[i].destination)
            CAY_TRY(
                cay__binding_add(&p, c->net.secrets[i].name, c->net.secrets[i].destination, err));
    }
    CAY_EACH_OF(binding, p.bindings, p.nbindings)
        if (!find_secret(c, c->net.nsecrets, binding->name))
            return cay_fail_why(
                err, CAY_ENOENT, "secret_unknown",
                "the policy binds secret %s, and nothing says where its value comes from",
                binding->name);
    CAY_TRY(cay__policy_check(&p, err));
    if (!c->net.nsecrets)
        return 0;
    CAY_TRY(write_net(&p, mem, &c->net.policy, err));
    add_env(c, mem);
    return 0;
}

int cay__secrets_net_before(const char *net, cay__arena *mem, const char **out, cay_err *err)
{
    AUTOPOLICY p = { 0 };
    CAY_TRY(cay__policy_read(&p, net, strlen(net), false, err));
    p.nbindings = 0;
    return write_net(&p, mem, out, err);
}

static bool put_entry(int fd, const char *name, const char *value, size_t len)
{
    uint32_t head[2] = { (uint32_t)strlen(name), (uint32_t)len };
    return cay__fd_write_all(fd, head, sizeof head) && cay__fd_write_all(fd, name, head[0]) &&
           cay__fd_write_all(fd, value, len);
}

int cay__secrets_tenant(const cay_create *c, cay_err *err)
{
    bool stored = false;
    CAY_EACH_OF(secret, c->net.secrets, c->net.nsecrets)
        stored |= secret->source && (cay__str_starts(secret->source, "store:") ||
                                     cay__str_starts(secret->source, "fill:"));
    if (!stored || !c->tenant || !strcmp(c->tenant, CAY_TENANT_DEFAULT))
        return 0;
    return cay_fail_why(
        err, CAY_EPERM, "tenant_shared",
        "stored secrets of this machine are tenant default's; tenant %s cannot use them",
        c->tenant);
}

int cay__secrets_collect(cay_client *client, const cay_create *c, int *out, cay_err *err)
{
    CAY_AUTOFD fd = cay__memfd("cay-secrets");
    if (fd < 0)
        return cay_fail_sys(err, "a memory file for secrets");
    for (size_t i = 0; i < c->net.nsecrets; i++) {
        cay__value v = { 0 };
        if (find_secret(c, i, c->net.secrets[i].name))
            continue;
        CAY_TRY(
            cay__secret_read(client, c->net.secrets[i].name, c->net.secrets[i].source, &v, err));
        bool done = put_entry(fd, c->net.secrets[i].name, v.data, v.len);
        cay__value_wipe(&v);
        if (!done)
            return cay_fail_sys(err, "a memory file for secrets");
    }
    CAY_TRY_SYS(fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE),
                err, "seal the secrets");
    *out = CAY_STEAL_FD(fd);
    return 0;
}

/* As root inside, where there is one; a sandbox with a single id owns its files anyway. */
static int put_file(const cay_provider_ops *ops, void *box, const cay_call *call, const char *path,
                    const char *data, size_t len, cay_err *err)
{
    cay_write how = { .size = sizeof how, .mode = 0644, .parents = true, .user = "root" };
    if (!ops->put)
        return cay_fail_why(err, CAY_ENOTSUP, "not_supported",
                            "secrets: provider %s has no files to put certificates into",
                            ops->name);
    if (ops->put(box, call, path, data, len, &how, NULL) == 0)
        return 0;
    how.user = NULL;
    return ops->put(box, call, path, data, len, &how, err);
}

/* Entries as of the values; anything else of them is refused. */
static int put_trust(const cay_provider_ops *ops, void *box, const cay_call *call, int fd,
                     cay_err *err)
{
    static const char *const also[][2] = { { "bundle.pem", "/etc/ssl/certs/ca-certificates.crt" },
                                           { "cacerts", "/etc/ssl/certs/java/cacerts" } };
    struct stat st;
    if (fstat(fd, &st) < 0 || st.st_size <= 0 || st.st_size > (off_t)TRUST_MAX)
        return cay_fail(err, CAY_EUPSTREAM, "what the sandbox has to trust did not come");
    size_t size = (size_t)st.st_size;
    CAY_AUTOFREE char *all = cay__alloc(size + 1);
    if (pread(fd, all, size, 0) != (ssize_t)size)
        return cay_fail_sys(err, "read what the sandbox has to trust");
    for (size_t at = 0; at < size;) {
        uint32_t head[2];
        char name[32], path[64];
        if (size - at < sizeof head)
            return cay_fail(err, CAY_EUPSTREAM, "what the sandbox has to trust is cut");
        memcpy(head, all + at, sizeof head);
        at += sizeof head;
        if (head[0] >= sizeof name || head[0] > size - at || head[1] > size - at - head[0])
            return cay_fail(err, CAY_EUPSTREAM, "what the sandbox has to trust is cut");
        memcpy(name, all + at, head[0]), name[head[0]] = '\0';
        const char *data = all + at + head[0];
        at += head[0] + (size_t)head[1];
        if (strchr(name, '/') || !CAY_JOIN(path, "/etc/cay/", name))
            return cay_fail(err, CAY_EUPSTREAM, "what the sandbox has to trust has a wrong name");
        CAY_TRY(put_file(ops, box, call, path, data, head[1], err));
        for (size_t i = 0; i < CAY_LEN(also);
             i++) /* for programs that ask no variable; a template may have no such place */
            if (!strcmp(name, also[i][0]))
                put_file(ops, box, call, also[i][1], data, head[1], NULL);
    }
    return 0;
}

int cay__secrets_give(cay_client *client, const cay_provider_ops *ops, void *box,
                      const cay_call *call, const cay_create *c, cay_err *err)
{
    CAY_AUTOFD values = -1, trust = -1;
    uint64_t revision;
    size_t len = 0;
    if (c->net.policy)
        len = strlen(c->net.policy);
    if (!c->net.nsecrets)
        return 0;
    if (!CAY__HAS(ops, secrets))
        return cay_fail_why(err, CAY_ENOTSUP, "not_supported",
                            "secrets: provider %s cannot put them into requests", ops->name);
    CAY_TRY(cay__secrets_collect(client, c, &values, err));
    CAY_TRY(ops->secrets(box, call, c->net.policy, len, values, &trust, err));
    CAY_TRY(ops->policy(box, call, c->net.policy, len, &revision, err));
    if (trust >= 0)
        return put_trust(ops, box, call, trust, err);
    return 0;
}

int cay_sandbox_renew_secrets(cay_sandbox *sb, const cay_call *call, cay_err *err)
{
    CAY__OP(call, "secret.renew", sb->id, err);
    if (cay__remote_of(sb))
        return CAY__REMOTE_DO(cay__remote_of(sb), err, secret_renew, .path = { sb->id });
    CAY_AUTOFREE cay__row *row = NULL;
    CAY_AUTOFREE char *now = NULL;
    cay__spec *spec = NULL;
    cay_client *client = sb->owner;
    CAY_TRY(cay__call_check(call, "secrets", err));
    CAY_TRY(cay__sandbox_ready(sb, err));
    if (!client || cay__client_row(client, sb->id, &row, NULL) < 0)
        return cay_fail_why(err, CAY_ENOENT, "secret_unknown",
                            "sandbox %s is thrown away and has no record of its secrets", sb->id);
    CAY_TRY(cay__spec_read(&row->row, &spec, err));
    int rc;
    if (spec->create.net.nsecrets)
        rc = cay_sandbox_get_policy(sb, call, &now, NULL, err);
    else
        rc = cay_fail_why(err, CAY_ENOENT, "secret_unknown", "sandbox %s has no secrets", sb->id);
    if (rc == 0) {
        spec->create.net.policy = now;
        rc = cay__secrets_give(client, sb->ops, sb->box, call, &spec->create, err);
    }
    cay__spec_free(spec);
    return rc;
}
