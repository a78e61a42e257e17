/* SPDX-License-Identifier: Apache-2.0 */
/* A destination (first line), a request's METHOD and target (second), a value (the rest): what is
 * bound where, and how it stands there. */
#include <policy/binding.h>
#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static size_t take_line(const uint8_t **data, size_t *len, char *out, size_t cap)
{
    const uint8_t *nl = *len ? memchr(*data, '\n', *len) : NULL;
    size_t n = nl ? (size_t)(nl - *data) : *len;
    size_t kept = CAY_MIN(n, cap - 1);
    memcpy(out, *data, kept);
    out[kept] = 0;
    *data += nl ? n + 1 : n;
    *len -= nl ? n + 1 : n;
    return kept;
}

static void render(const cay__binding *b, const char *value, size_t len)
{
    CAY_AUTOBUF out = CAY__BUF(4 * CAY__SECRET_MAX);
    if (!cay__binding_render(b, value, len, &out))
        return;
    for (size_t i = 0; i < out.len; i++)
        must((unsigned char)out.data[i] >= 0x20 && out.data[i] != 0x7f);
    must(b->kind != CAY__BIND_QUERY || !memchr(out.data, '&', out.len));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char dest[900], request[600], text[CAY__BINDING_TEXT];
    if (len < 3 || len > 8192)
        return 0;
    take_line(&data, &len, dest, sizeof dest);
    size_t n = take_line(&data, &len, request, sizeof request);
    char *value = malloc(len ? len : 1); /* of the exact size */
    must(value != NULL);
    if (len)
        memcpy(value, data, len);
    cay__policy p = { .mode = CAY__NET_ALL }, q = { .mode = CAY__NET_ALL };
    if (cay__binding_add(&p, "T", dest, NULL) == 0) {
        const cay__binding *b = &p.bindings[0];
        must(cay__binding_text(b, text, sizeof text) < (int)sizeof text);
        must(cay__binding_add(&q, "T", text, NULL) == 0 && !memcmp(&q.bindings[0], b, sizeof *b));
        must(cay__bindings_check(&p, NULL) == 0 || !strcmp(b->host, "localhost"));
        render(b, value, len);
        char *blank = memchr(request, ' ', n);
        if (blank) {
            bool many;
            char host[CAY__NAME_MAX + 8];
            const cay__binding *use[CAY__BINDINGS_MAX];
            snprintf(host, sizeof host, "%s%s", b->below ? "a.b." : "", b->host);
            size_t f =
                cay__binding_find(&p, b->tls, host, b->port, request, (size_t)(blank - request),
                                  blank + 1, (size_t)(request + n - blank) - 1, use, &many);
            must(!many && (!f || (f == 1 && use[0] == b)));
            must(!b->below || !cay__binding_for_host(&p, b->host, b->port, b->tls));
            must(!f || !strcmp(b->path, "/") ||
                 (!strstr(blank + 1, "/../") || strchr(blank + 1, '?')));
        }
    }
    CAY_AUTOBUF once = CAY__BUF(16384), twice = CAY__BUF(16384);
    cay__query_without(value, len, "key", &once);
    cay__query_without(once.data ? once.data : "", once.len, "key", &twice);
    must(once.len == twice.len && (!once.len || !memcmp(once.data, twice.data, once.len)));
    cay__policy_clear(&p);
    cay__policy_clear(&q);
    free(value);
    return 0;
}
