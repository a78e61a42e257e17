/* SPDX-License-Identifier: Apache-2.0 */
/* Bindings from text and back, and those that cannot stand beside each other. */
#include "binding.h"
#include <base/mutant.h>
#include <strings.h>

static const char *const methods[] = { "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS" };
static const struct {
    const char *word;
    cay__bind_kind kind;
} kinds[] = {
    { "bearer", CAY__BIND_BEARER },
    { "header:", CAY__BIND_HEADER },
    { "basic:", CAY__BIND_BASIC },
    { "query:", CAY__BIND_QUERY },
};
/* They frame the message or belong to one hop: a value there would change what the server reads,
 * not who asks. */
static const char *const framing[] = { "host",
                                       "content-length",
                                       "transfer-encoding",
                                       "connection",
                                       "te",
                                       "trailer",
                                       "upgrade",
                                       "keep-alive",
                                       "proxy-connection",
                                       "expect",
                                       "content-encoding",
                                       "proxy-authorization" };

#define fail_secret(err, ...) cay_fail_why(err, CAY_EINVAL, "secret_invalid", __VA_ARGS__)

static bool is_token(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}

bool cay__secret_name_ok(const char *name)
{
    if (!*name || (*name >= '0' && *name <= '9') || strlen(name) >= sizeof((cay__binding *)0)->name)
        return false;
    for (; *name; name++)
        if (!(*name >= 'a' && *name <= 'z') && !(*name >= 'A' && *name <= 'Z') &&
            !(*name >= '0' && *name <= '9') && *name != '_')
            return false;
    return true;
}

uint32_t cay__method_bit(const char *method, size_t len)
{
    for (size_t i = 0; i < CAY_LEN(methods); i++)
        if (strlen(methods[i]) == len && !memcmp(methods[i], method, len))
            return 1u << i;
    return 0;
}

static int take_methods(const char *s, cay__binding *b, cay_err *err)
{
    for (;; s++) {
        size_t n = strcspn(s, "+");
        uint32_t bit = cay__method_bit(s, n);
        if (!bit)
            return fail_secret(
                err,
                "\"%.24s\" is neither a kind (bearer, header:NAME, basic:USER, query:KEY) "
                "nor methods such as GET+POST",
                s);
        b->methods |= bit;
        s += n;
        if (!*s)
            return 0;
    }
}

static int take_kind(const char *s, cay__binding *b, bool *known, cay_err *err)
{
    CAY_EACH(it, kinds) {
        const char *arg = s + strlen(it->word);
        bool takes = it->kind != CAY__BIND_BEARER;
        if (!cay__str_starts(s, it->word) || (!takes && *arg))
            continue;
        *known = true;
        if (b->kind)
            return fail_secret(err, "its kind is given twice");
        b->kind = it->kind;
        if (takes && (!*arg || !CAY_COPY(b->arg, arg)))
            return fail_secret(err, "%s needs a name of at most %zu bytes behind it", it->word,
                               sizeof b->arg - 1);
        for (const char *c = arg; *c; c++)
            if (b->kind == CAY__BIND_BASIC
                    ? *c <= 0x20 || *c >= 0x7f || *c == ':'
                    : !is_token(*c) || (b->kind == CAY__BIND_QUERY && strchr("%+&#'", *c) != NULL))
                return fail_secret(err, "%s has a character that cannot stand there", s);
        for (size_t k = 0; b->kind == CAY__BIND_HEADER && k < CAY_LEN(framing); k++)
            if (!strcasecmp(b->arg, framing[k]))
                return fail_secret(err, "header %s frames the request and cannot carry a secret",
                                   b->arg);
        return 0;
    }
    *known = false;
    return 0;
}

static bool path_char(char c)
{
    return c > 0x20 && c < 0x7f && !strchr("?#,\\\"<>^`{|}", c);
}

/* Nothing that a server could read as another path. */
static bool plain_path(const char *s, size_t len)
{
    if (!len || *s != '/')
        return false;
    for (size_t i = 0; i < len; i++) {
        bool start = s[i] == '/';
        if (!path_char(s[i]))
            return false;
        if (start && i + 1 < len && s[i + 1] == '/')
            return false;
        if (start && i + 1 < len && s[i + 1] == '.') {
            size_t k = i + 2 + (i + 2 < len && s[i + 2] == '.');
            if (k == len || s[k] == '/' || s[k] == ';')
                return false;
        }
        if (s[i] == '%') {
            char hex[3] = { 0 };
            if (i + 2 >= len)
                return false;
            memcpy(hex, s + i + 1, 2);
            if (strspn(hex, "0123456789abcdefABCDEF") != 2 || !strcasecmp(hex, "2e") ||
                !strcasecmp(hex, "2f") || !strcasecmp(hex, "5c") || !strcasecmp(hex, "25") ||
                !strcmp(hex, "00"))
                return false;
        }
    }
    return true;
}

static int take_destination(const char *dest, size_t len, cay__binding *b, cay_err *err)
{
    char host[CAY__RULE_MAX];
    cay__rule r;
    b->tls = true;
    if (len > 8 && !memcmp(dest, "https://", 8))
        dest += 8, len -= 8;
    else if (len > 7 && !memcmp(dest, "http://", 7))
        dest += 7, len -= 7, b->tls = false;
    else if (memmem(dest, len, "://", 3))
        return fail_secret(err, "its scheme is https or http");
    const char *slash = memchr(dest, '/', len);
    size_t n = slash ? (size_t)(slash - dest) : len, rest = len - n;
    if (!n || n >= sizeof host - 8)
        return fail_secret(err, "give a destination: HOST[:PORT][/PATH]");
    memcpy(host, dest, n);
    const char *port = b->tls ? ":443" : ":80";
    if (memchr(dest, ':', n))
        port = "";
    snprintf(host + n, sizeof host - n, "%s", port);
    CAY_TRY(cay__rule_parse(host, &r, err));
    if (r.deny || r.proto || (r.target != CAY__T_EXACT && r.target != CAY__T_BELOW) || r.lo != r.hi)
        return fail_secret(
            err,
            "\"%.60s\" is not one host; a secret goes to one exact name, or to *.NAME, and "
            "one port",
            host);
    memcpy(b->host, r.name, sizeof b->host);
    b->below = r.target == CAY__T_BELOW;
    b->port = r.lo;
    if (!rest)
        return CAY_COPY(b->path, "/"), 0;
    if (rest >= sizeof b->path || !plain_path(slash, rest))
        return fail_secret(
            err,
            "its path is longer than %zu bytes or no plain path (no .., //, %%2f, ?, or comma)",
            sizeof b->path - 1);
    memcpy(b->path, slash, rest);
    while (rest > 1 && b->path[rest - 1] == '/') /* "/a/" holds as "/a" does */
        b->path[--rest] = '\0';
    return 0;
}

static int parse_binding(const char *name, const char *destination, cay__binding *b, cay_err *err)
{
    char option[160];
    if (!cay__secret_name_ok(name))
        return fail_secret(err,
                           "its name is a variable's: letters, digits and '_', at most %zu bytes",
                           sizeof b->name - 1);
    CAY_COPY(b->name, name);
    size_t n = strcspn(destination, ",");
    CAY_TRY(take_destination(destination, n, b, err));
    for (const char *s = destination + n; *s; s += n) {
        bool known;
        n = strcspn(++s, ",");
        if (!CAY_PART(option, s, n))
            return fail_secret(err, "an option is too long");
        CAY_TRY(take_kind(option, b, &known, err));
        if (!known && b->methods)
            return fail_secret(err, "\"%.24s\": its methods are given twice", option);
        if (!known)
            CAY_TRY(take_methods(option, b, err));
    }
    b->kind = CAY_OR(b->kind, CAY__BIND_BEARER);
    return 0;
}

int cay__binding_add(cay__policy *p, const char *name, const char *destination, cay_err *err)
{
    cay__binding b = { 0 };
    CAY_AUTOBUF safe = CAY__BUF(160);
    int rc = parse_binding(name, destination, &b, err);
    if (rc < 0) {
        cay__buf_safe(&safe, name, CAY_MIN(strlen(name), (size_t)40), false);
        return cay_wrap(err, rc, "secret %s", CAY_OR(safe.data, ""));
    }
    if (p->nbindings >= CAY__BINDINGS_MAX)
        return cay_fail_why(err, CAY_ETOOBIG, "policy_too_big",
                            "a policy has at most %u bindings of secrets", CAY__BINDINGS_MAX);
    CAY__GROW(p->bindings, p->nbindings, b);
    return 0;
}

int cay__binding_text(const cay__binding *b, char *buf, size_t size)
{
    char list[64] = "";
    for (size_t i = 0; i < CAY_LEN(methods); i++)
        if (b->methods & 1u << i) {
            size_t n = strlen(list);
            snprintf(list + n, sizeof list - n, "%s%s", n ? "+" : ",", methods[i]);
        }
    return snprintf(buf, size, "%s://%s%s:%d%s,%s%s%s", b->tls ? "https" : "http",
                    b->below ? "*." : "", b->host, (int)b->port, b->path,
                    kinds[b->kind - CAY__BIND_BEARER].word, b->arg, list);
}

static bool path_holds(const char *path, const char *target, size_t len)
{
    size_t n = strlen(path);
    if (n == 1)
        return true;
    return len >= n && !memcmp(path, target, n) && (len == n || target[n] == '/');
}

static bool one_place(const cay__binding *a, const cay__binding *b)
{
    const char *x = cay__binding_header(a), *y = cay__binding_header(b);
    if (x && y)
        return !strcasecmp(x, y);
    return !x && !y && !strcmp(a->arg, b->arg);
}

static bool has_overlap(const cay__binding *a, const cay__binding *b)
{
    bool one_method = !a->methods || !b->methods || (a->methods & b->methods);
    return a->tls == b->tls && a->port == b->port && a->below == b->below &&
           !strcmp(a->host, b->host) && one_method && one_place(a, b) &&
           (path_holds(a->path, b->path, strlen(b->path)) ||
            path_holds(b->path, a->path, strlen(a->path)));
}

int cay__bindings_check(const cay__policy *p, cay_err *err)
{
    for (size_t i = 0; i < p->nbindings; i++) {
        const cay__binding *b = &p->bindings[i];
        cay__verdict v = cay__decide_name(NULL, p, b->host, b->port, false);
        /* Of names below one each may have a rule or none: without one it is not reached, and
         * nothing is sent. */
        if (!b->below && (!v.allow || v.proto == (b->tls ? CAY__NET_HTTP : CAY__NET_TLS)))
            return cay_fail_why(err, CAY_EINVAL, "secret_without_rule",
                                "secret %s is bound to %s://%.80s:%d, which no rule allows; add "
                                "the rule %s://%.80s:%d",
                                b->name, b->tls ? "https" : "http", b->host, (int)b->port,
                                b->tls ? "tls" : "http", b->host, (int)b->port);
        CAY_EACH_OF(binding, p->bindings, i)
            if (has_overlap(b, binding))
                return cay_fail_why(err, CAY_EINVAL, "secret_conflict",
                                    "secrets %s and %s both fit requests to %.80s:%d in one place; "
                                    "tell them apart by path, method or header",
                                    binding->name, b->name, b->host, (int)b->port);
    }
    return 0;
}

size_t cay__binding_fits(const cay__binding *b, bool tls, const char *host, uint16_t port)
{
    size_t n = strlen(b->host), len = strlen(host);
    if ((b->tls != tls || b->port != port) && !CAY__MUTANT("secret-clear"))
        return 0;
    if (CAY__MUTANT("secret-name"))
        return CAY__NAME_MAX + 1;
    if (!b->below) {
        if (strcmp(b->host, host))
            return 0;
        return CAY__NAME_MAX + 1;
    }
    if (len > n + 1 && host[len - n - 1] == '.' && !strcmp(host + len - n, b->host))
        return n;
    return 0;
}

size_t cay__binding_exact(const cay__policy *p, bool tls, const char *host, uint16_t port)
{
    size_t most = 0;
    CAY_EACH_OF(binding, p->bindings, p->nbindings)
        most = CAY_MAX(most, cay__binding_fits(binding, tls, host, port));
    return most;
}

bool cay__binding_for_host(const cay__policy *p, const char *host, uint16_t port, bool tls)
{
    return cay__binding_exact(p, tls, host, port) > 0;
}

size_t cay__binding_find(const cay__policy *p, bool tls, const char *host, uint16_t port,
                         const char *method, size_t mlen, const char *target, size_t tlen,
                         const cay__binding *use[CAY__BINDINGS_MAX], bool *many)
{
    uint32_t bit = cay__method_bit(method, mlen);
    const char *query = memchr(target, '?', tlen);
    size_t n = query ? (size_t)(query - target) : tlen,
           exact = cay__binding_exact(p, tls, host, port), found = 0;
    bool plain = plain_path(target, n);
    *many = false;
    for (size_t i = 0; exact && i < p->nbindings; i++) {
        const cay__binding *b = &p->bindings[i];
        if (cay__binding_fits(b, tls, host, port) != exact ||
            (b->methods && !(b->methods & bit) && !CAY__MUTANT("secret-method")))
            continue;
        if (strcmp(b->path, "/") != 0 && !CAY__MUTANT("secret-path") &&
            !(plain && path_holds(b->path, target, n)))
            continue;
        CAY_EACH_OF(it, use, found)
            if (one_place(b, *it))
                return *many = true, 0;
        use[found++] = b;
    }
    return found;
}
