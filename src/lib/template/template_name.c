/* SPDX-License-Identifier: Apache-2.0 */
/* Names of templates and images: [HOST[:PORT]/]PATH[:TAG][@sha256:HEX], as registries spell them.
 */
#include "image.h"
#include <ctype.h>

static int fail_invalid(const char *ref, const char *why, cay_err *err)
{
    CAY_AUTOBUF b = CAY__BUF(240);
    cay__buf_safe(&b, ref, CAY_MIN(strlen(ref), (size_t)80), false);
    return cay_fail_why(err, CAY_EINVAL, "template_name", "template \"%s\": %s", CAY_OR(b.data, ""),
                        why);
}

static bool is_lower_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/* Words of small letters and digits, between which is one of . _ __ or any number of -. */
static bool part_ok(const char *p, size_t n)
{
    for (size_t i = 0; i < n;) {
        if (!is_lower_alnum(p[i]))
            return false;
        while (i < n && is_lower_alnum(p[i]))
            i++;
        if (i == n)
            return true;
        if (p[i] == '-')
            while (i < n && p[i] == '-')
                i++;
        else if (p[i] == '_' && i + 1 < n && p[i + 1] == '_')
            i += 2;
        else if (p[i] == '.' || p[i] == '_')
            i++;
        else
            return false;
    }
    return false;
}

static bool path_ok(const char *p)
{
    for (;; p++) {
        size_t n = strcspn(p, "/");
        if (!part_ok(p, n))
            return false;
        p += n;
        if (!*p)
            return true;
    }
}

static bool tag_ok(const char *t)
{
    size_t n = strlen(t);
    if (!n || n > 128 || (!isalnum((unsigned char)*t) && *t != '_'))
        return false;
    for (; *t; t++)
        if ((unsigned char)*t > 0x7e || !(isalnum((unsigned char)*t) || strchr("._-", *t)))
            return false;
    return true;
}

/* "localhost", or with a dot or a port; an address in brackets is one too. */
static bool host_ok(const char *p, size_t n)
{
    bool mark = n == 9 && !memcmp(p, "localhost", 9);
    CAY_EACH_OF(it, p, n) {
        mark |= *it == '.' || *it == ':';
        if ((unsigned char)*it > 0x7e || !(isalnum((unsigned char)*it) || strchr(".-:[]", *it)))
            return false;
    }
    return mark && n && n < 200 && (isalnum((unsigned char)*p) || *p == '[') &&
           (isalnum((unsigned char)p[n - 1]) || p[n - 1] == ']');
}

int cay__tname_parse(const char *ref, cay__tname *out, cay_err *err)
{
    char text[CAY_TEMPLATE_NAME + 1];
    *out = (cay__tname){ 0 };
    if (!ref || !*ref)
        return cay_fail_why(err, CAY_EINVAL, "template_name", "a template's name is missing");
    if (!CAY_COPY(text, ref))
        return fail_invalid(ref, "a name has at most 255 bytes", err);
    char *at = strchr(text, '@'), *rest = text;
    if (at) {
        *at++ = 0;
        if (!cay__digest_ok(at))
            return fail_invalid(ref, "after @ comes sha256: and 64 hex digits", err);
        CAY_COPY(out->digest, at);
    }
    char *slash = strchr(text, '/');
    if (slash && host_ok(text, (size_t)(slash - text))) {
        *slash = 0;
        if (!CAY_COPY(out->host, text))
            return fail_invalid(ref, "its host is too long", err);
        out->named_host = true;
        rest = slash + 1;
    }
    char *last = strrchr(rest, '/'), *colon = strchr(CAY_OR(last, rest), ':');
    if (colon) {
        *colon++ = 0;
        if (!tag_ok(colon))
            return fail_invalid(ref, "a tag is 1 to 128 letters, digits, '.', '_' or '-'", err);
        CAY_COPY(out->tag, colon);
        out->named_tag = true;
    } else if (!*out->digest) {
        CAY_COPY(out->tag, "latest");
    }
    if (!path_ok(rest))
        return fail_invalid(
            ref, "a name is [HOST/]NAME[:TAG] of small letters, digits, '.', '_' and '-'", err);
    if (!out->named_host)
        CAY_COPY(out->host, "docker.io");
    bool hub = !strcmp(out->host, "docker.io") || !strcmp(out->host, "index.docker.io");
    if (hub)
        CAY_COPY(out->host, "docker.io");
    if (!CAY_JOIN(out->path, CAY_TEXT_IF(hub && !strchr(rest, '/'), "library/"), rest))
        return fail_invalid(ref, "a name has at most 255 bytes", err);
    return 0;
}

void cay__tname_text(const cay__tname *n, char out[CAY_TEMPLATE_NAME + 1])
{
    const char *host = n->host, *path = n->path;
    bool hub = !strcmp(host, "docker.io");
    if (hub && cay__str_starts(path, "library/"))
        path += 8;
    if (!cay__str_join(out, CAY_TEMPLATE_NAME + 1, CAY_TEXT_IF(!hub, host), CAY_TEXT_IF(!hub, "/"),
                       path, *n->digest ? "@" : ":", cay__text_or(n->digest, n->tag), NULL))
        *out = 0;
}

int cay__tname_clean(const char *ref, char out[CAY_TEMPLATE_NAME + 1], cay_err *err)
{
    cay__tname n;
    CAY_TRY(cay__tname_parse(ref, &n, err));
    cay__tname_text(&n, out);
    if (!*out)
        return fail_invalid(ref, "a name has at most 255 bytes", err);
    if (!n.named_host && !n.named_tag &&
        (!strcmp(ref, CAY__BASE_HOST) || !strcmp(ref, CAY__BASE_IMAGE) || cay__id_valid(ref, 0)))
        return fail_invalid(ref, "this word means something else already; choose another", err);
    return 0;
}
