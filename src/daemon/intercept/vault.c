/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept.h"
#include <sys/mman.h>

vault *vault_find(const char *id)
{
    vault *v = intercept.vaults;
    while (v && strcmp(v->id, id) != 0)
        v = v->next;
    return v;
}

const secret *vault_secret(const vault *v, const char *name)
{
    CAY_EACH_OF(it, v->secrets, v->nsecrets)
        if (!strcmp(it->name, name))
            return it;
    return NULL;
}

static void free_secrets(secret *s, size_t n)
{
    CAY_EACH_OF(it, s, n) {
        if (it->value) {
            explicit_bzero(it->value, it->len);
            munlock(it->value, it->len + 1);
        }
        free(it->value);
        free(it->name);
    }
    free(s);
}

static char *copy_string(const char *p, size_t n)
{
    char *s = cay__alloc(n + 1);
    memcpy(s, p, n);
    return s;
}

/* Entries of cay_i_secret. The mapping is the only reader of the memfd, and ends here. */
static int read_secrets(int fd, secret **out, size_t *nout, cay_err *err)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    if (fstat(fd, &st) < 0 || seals < 0 || !(seals & F_SEAL_WRITE) || !(seals & F_SEAL_SHRINK) ||
        st.st_size > (off_t)CAY_I_SECRETS_MAX)
        return cay_fail_why(err, CAY_EINVAL, "secrets_unreadable",
                            "the secrets are not in a sealed memory file of at most 1 MiB");
    *out = NULL;
    *nout = 0;
    if (!st.st_size)
        return 0;
    size_t len = (size_t)st.st_size, at = 0, n = 0;
    const char *p = mmap(NULL, len, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED)
        return cay_fail_sys(err, "the secrets cannot be mapped");
    secret *list = NULL;
    while (len - at >= sizeof(cay_i_secret)) {
        cay_i_secret e;
        memcpy(&e, p + at, sizeof e);
        at += sizeof e;
        if (!e.name || e.name > 63 || !e.value || e.value > CAY__SECRET_MAX ||
            len - at < e.name + e.value)
            break;
        secret *more = realloc(list, (n + 1) * sizeof *list);
        if (!more)
            break;
        list = more;
        list[n] =
            (secret){ copy_string(p + at, e.name), copy_string(p + at + e.name, e.value), e.value };
        mlock(list[n++].value, e.value + 1u);
        at += e.name + e.value;
    }
    munmap((void *)(uintptr_t)p, len);
    if (at != len) {
        free_secrets(list, n);
        return cay_fail_why(err, CAY_EINVAL, "secrets_unreadable", "the list of secrets is broken");
    }
    *out = list;
    *nout = n;
    return 0;
}

/* A value goes into a line of a head: nothing in it may end that line. */
static int check_secrets(const cay__policy *p, const secret *s, size_t n, cay_err *err)
{
    CAY_EACH_OF(binding, p->bindings, p->nbindings) {
        const secret *found = NULL;
        CAY_EACH_OF(item, s, n)
            if (!strcmp(item->name, binding->name))
                found = item;
        if (!found)
            return cay_fail_why(err, CAY_ENOENT, "secret_unknown",
                                "the policy binds secret %s, which was not given", binding->name);
        CAY_EACH_OF(it, found->value, found->len)
            if ((unsigned char)*it < ' ' || *it == 0x7f)
                return cay_fail_why(
                    err, CAY_EINVAL, "secret_control",
                    "secret %s has a control character in it: it cannot be sent in a header",
                    found->name);
    }
    return 0;
}

static int on_alpn_select(SSL *ssl, const unsigned char **out, unsigned char *outlen,
                          const unsigned char *in, unsigned inlen, void *arg)
{
    static const unsigned char only[] = "\x08http/1.1";
    if (SSL_select_next_proto((unsigned char **)(uintptr_t)out, outlen, only, sizeof only - 1, in,
                              inlen) == OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_OK;
    intercept_flow *f = SSL_get_app_data(ssl);
    if (f) /* it insists on h2, most likely */
        flow_why(f, "tls_alpn");
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

static SSL_CTX *server_side(void)
{
    SSL_CTX *c = tls_context(TLS_server_method());
    if (!c)
        return NULL;
    SSL_CTX_set_alpn_select_cb(c, on_alpn_select, NULL);
    SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
    return c;
}

static int read_policy(int fd, cay__policy *out, cay_err *err)
{
    static char text[CAY__POLICY_MAX];
    ssize_t n = pread(fd, text, sizeof text, 0);
    if (n < 0)
        return cay_fail_sys(err, "the policy cannot be read");
    return cay__policy_read(out, text, (size_t)n, false, err);
}

static int fill_vault(vault *v, const int fds[3], cay_err *err)
{
    CAY_TRY(read_policy(fds[0], &v->policy, err));
    CAY_TRY(read_secrets(fds[1], &v->secrets, &v->nsecrets, err));
    CAY_TRY(check_secrets(&v->policy, v->secrets, v->nsecrets, err));
    if (!ca_open(&v->ca, fds[2]) || !(v->ctx = server_side()))
        return cay_fail_why(err, CAY_ESYS, "authority",
                            "the sandbox's certificate authority cannot be made");
    return 0;
}

static void clear_vault(vault *v)
{
    cay__policy_clear(&v->policy);
    free_secrets(v->secrets, v->nsecrets);
    ca_close(&v->ca);
    SSL_CTX_free(v->ctx);
}

void vault_judge(vault *v)
{
    bucket_set(&v->rate[0], v->policy.rate_up, cay__now_us());
    bucket_set(&v->rate[1], v->policy.rate_down, cay__now_us());
    CAY_EACH_LINK_SAFE(f, v->flows) {
        cay__verdict by_name = cay__decide_name(&intercept.op, &v->policy, f->name, f->port, false);
        cay__verdict where = by_name;
        if (by_name.allow && !by_name.service)
            where = cay__decide_addr(&intercept.op, &v->policy, f->name, f->addr, f->port);
        if (!where.allow)
            intercept_flow_end(f, where.reason, false);
    }
}

int vault_policy(vault *v, int fd, cay_err *err)
{
    cay__policy p;
    CAY_TRY(read_policy(fd, &p, err));
    int rc = check_secrets(&p, v->secrets, v->nsecrets, err);
    if (rc < 0) {
        cay__policy_clear(&p);
        return rc;
    }
    cay__policy_clear(&v->policy);
    v->policy = p;
    vault_judge(v);
    return 0;
}

int vault_bind(const cay_n_box *m, const int fds[3], vault **out, cay_err *err)
{
    vault fresh = { .revision = m->revision };
    int rc = fill_vault(&fresh, fds, err);
    if (rc < 0) {
        clear_vault(&fresh);
        return rc;
    }
    vault *v = vault_find(m->id);
    if (!v) {
        v = cay__alloc(sizeof *v);
        CAY_COPY(v->id, m->id);
        v->next = intercept.vaults;
        intercept.vaults = v;
    } else { /* its flows go on with new values from their next request */
        clear_vault(v);
    }
    fresh.next = v->next;
    fresh.flows = v->flows;
    fresh.nflows = v->nflows;
    fresh.lost = v->lost;
    memcpy(fresh.id, v->id, sizeof fresh.id);
    memcpy(fresh.rate, v->rate, sizeof fresh.rate);
    *v = fresh;
    if (v->flows)
        v->flows->prev = &v->flows;
    vault_judge(v);
    *out = v;
    return 0;
}

void vault_drop(vault *v)
{
    while (v->flows)
        intercept_flow_end(v->flows, "sandbox_gone", false);
    CAY_UNLINK(intercept.vaults, v);
    clear_vault(v);
    free(v);
}
