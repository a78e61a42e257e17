/* SPDX-License-Identifier: Apache-2.0 */
/* A request's head to api.test with bindings. What comes out is one head again, asks as much of a
 * body as before, and carries the value once for each binding that was used, never otherwise; an
 * answer that echoes it comes through the mask without the value. */
#include <daemon/egress/httphead.h>
#include <daemon/intercept/intercept.h>
#include <strings.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

intercept_state intercept = { .egress.fd = -1 };
void note(const intercept_flow *f, const cay__binding *b, bool allowed, const char *reason)
{
    (void)f, (void)b, (void)allowed, (void)reason;
}
void note_end(const intercept_flow *f, const char *reason, bool closed)
{
    (void)f, (void)reason, (void)closed;
}
void note_spent(vault *v)
{
    (void)v;
}

#define VALUE "V4lue-That-Nobody-Guesses"
static secret values[] = { { (char *)"KEY", (char *)VALUE, sizeof VALUE - 1 } };
static const char text[] = "cay-net 1\nmode rules\nrule api.test\nbind KEY api.test/v1,GET\nbind "
                           "KEY api.test/v1,header:X-Key,GET+POST\nbind KEY *.test,header:X-Other\n"
                           "bind KEY api.test/q,query:key\n";

static size_t count(const char *p, size_t len)
{
    size_t n = 0;
    for (const char *at; (at = memmem(p, len, VALUE, sizeof VALUE - 1)); n++) {
        len -= (size_t)(at + 1 - p);
        p = at + 1;
    }
    return n;
}

/* Lines with this name, however it is spelt. */
static size_t lines(const char *p, size_t len, const char *name)
{
    size_t n = 0, k = strlen(name);
    for (const char *at = p, *eol; (eol = memmem(at, len - (size_t)(at - p), "\r\n", 2));
         at = eol + 2)
        n += (size_t)(eol - at) > k && at[k] == ':' && !strncasecmp(at, name, k);
    return n;
}

static size_t fields(const char *p, size_t len)
{
    size_t n = 0;
    for (const char *at = p, *eol; (eol = memmem(at, len - (size_t)(at - p), "\r\n", 2));
         at = eol + 2)
        n++;
    return n - 2; /* the first and the last line are none */
}

static void look(const vault *v, const char *p, size_t len, const http_state *was, size_t head)
{
    mask m = { 0 };
    injected got = { .mask = &m };
    cay_err err = CAY_ERR_INIT;
    char host[256];
    const char *why;
    size_t before = count(p, head);
    if (inject(v, "api.test", 443, true, p, head, &got, &err) < 0) {
        mask_clear(&m);
        return;
    }
    http_state is = { 0 };
    size_t more = lines(got.head, got.len, "Accept-Encoding") +
                  got.n; /* a server may have another limit than ours */
    bool room = fields(p, head) + more <= HTTP_FIELDS;
    if (room && (http_unit(&is, got.head, got.len, "api.test", 443, host, &why) != HTTP_OK ||
                 is.next != was->next || is.left - got.len != was->left - head))
        abort();
    if (count(got.head, got.len) > before + got.n || count(got.head, got.len) < got.n)
        abort();
    for (size_t i = 0; i < v->policy.nbindings; i++) {
        const cay__binding *b = &v->policy.bindings[i];
        const char *h =
            b->below ? NULL
                     : cay__binding_header(
                           b); /* names below one do not count for one that is named itself */
        bool used = false;
        for (size_t k = 0; h && k < got.n; k++)
            used |= cay__binding_header(got.use[k]) && !strcmp(h, cay__binding_header(got.use[k]));
        if (h && lines(got.head, got.len, h) != used)
            abort();
    }
    if (got.n) {
        size_t ok = mask_apply(&m, got.head, got.len, true);
        if (ok != got.len || count(got.head, got.len))
            abort();
    }
    (void)len;
    free(got.head);
    mask_clear(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static vault v = { .secrets = values, .nsecrets = CAY_LEN(values) };
    cay_err err = CAY_ERR_INIT;
    if (!v.policy.nbindings && cay__policy_read(&v.policy, text, sizeof text - 1, false, &err) < 0)
        abort();
    char host[256];
    const char *why, *p = (const char *)data;
    http_state s = { 0 };
    while (len >= 2 && p[0] == '\r' && p[1] == '\n')
        p += 2, len -= 2;
    const char *end = len ? memmem(p, len, "\r\n\r\n", 4) : NULL;
    if (!end || http_unit(&s, p, len, "api.test", 443, host, &why) != HTTP_OK)
        return 0;
    look(&v, p, len, &s, (size_t)(end - p) + 4);
    return 0;
}
