/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy/binding.h - where a credential goes, and in which form. Never its value.
 *
 *     bind NAME DESTINATION[,KIND][,METHOD+METHOD…]
 *
 * DESTINATION is [https://|http://]HOST[:PORT][/PATH]: one exact name, or `*.NAME` for those below
 * one, https and port 443 unless said otherwise; PATH holds for itself and what is below it. KIND
 * is bearer (the default), header:NAME, basic:USER or query:KEY. Without methods all fit. NAME is
 * also the environment variable inside, which holds a placeholder. One NAME may have several
 * destinations.
 *
 * Of the bindings that fit a host only those count that name it most exactly: the name itself
 * before `*.NAME`, a longer one before a shorter. They are not merged. Of those a request gets
 * every one that fits it, and at most one in each place (a header, or a key of the query): two that
 * could both fit in one place are refused with the policy, and cay__binding_find() refuses what
 * they could not foresee. Whoever puts the value in first removes what the client sent in the same
 * place (cay__binding_header(), or the query key), whether or not a binding fits: see
 * cay__binding_for_host().
 */
#pragma once
#include "policy.h"

#define CAY__BINDINGS_MAX 64u
#define CAY__SECRET_MAX   65536u /* bytes of a value */

typedef enum cay__bind_kind {
    CAY__BIND_BEARER = 1,
    CAY__BIND_HEADER,
    CAY__BIND_BASIC,
    CAY__BIND_QUERY
} cay__bind_kind;

typedef struct cay__binding {
    char name[64]; /* [A-Za-z_][A-Za-z0-9_]* */
    cay__bind_kind kind;
    char arg[64]; /* header, user or key */
    bool tls;
    char host[CAY__NAME_MAX + 1]; /* folded */
    bool below;                   /* names below it, at any depth, and not it */
    uint16_t port;
    char path[256];   /* begins with '/'; "/" is all */
    uint32_t methods; /* bits of cay__method_bit(); 0: all */
} cay__binding;

/* `NAME` and `DESTINATION[,…]` as above. CAY_EINVAL names the secret, what is wrong and the remedy;
 * reason "secret_invalid". */
int cay__binding_add(cay__policy *p, const char *name, const char *destination, cay_err *err);
/* "DESTINATION,KIND[,METHODS]", the one spelling; CAY__BINDING_TEXT always holds it. */
#define CAY__BINDING_TEXT 768
int cay__binding_text(const cay__binding *b, char *buf, size_t size);
/* Two that could fit one request, and those without a rule that allows their destination.
 * cay__policy_check() calls it. */
int cay__bindings_check(const cay__policy *p, cay_err *err);
bool cay__secret_name_ok(const char *name);

/* Is anything bound to this name and port: then egress hands the flow to cay-intercept (tls), or
 * rewrites it there (http). */
bool cay__binding_for_host(const cay__policy *p, const char *host, uint16_t port, bool tls);
/* How exactly b names that host: 0 not at all, most for the name itself. */
size_t cay__binding_fits(const cay__binding *b, bool tls, const char *host, uint16_t port);
/* The most of all: bindings that fit less do not count there. 0: nothing is bound to it. */
size_t cay__binding_exact(const cay__policy *p, bool tls, const char *host, uint16_t port);
/* All bindings for a request, into use; 0 when none fits, or two do in one place (*many). host is
 * folded. method and target as in the request line: a target that is not a plain absolute path (dot
 * segments, encoded dots or slashes, backslashes, //) fits only a "/" binding. */
size_t cay__binding_find(const cay__policy *p, bool tls, const char *host, uint16_t port,
                         const char *method, size_t mlen, const char *target, size_t tlen,
                         const cay__binding *use[CAY__BINDINGS_MAX], bool *many);
/* The header that carries it, or NULL for a query key (in arg). */
const char *cay__binding_header(const cay__binding *b);
/* What stands behind the header's colon, or the encoded query value. false: the value has bytes
 * that cannot stand there, or is too long. The caller wipes the buffer. */
bool cay__binding_render(const cay__binding *b, const char *value, size_t len, cay__buf *out);
/* A query string without any pair of this key (in any percent-spelling), for the caller to add its
 * own. */
void cay__query_without(const char *query, size_t len, const char *key, cay__buf *out);
/* The bit of a method; 0 when it is not one that a binding can name. */
uint32_t cay__method_bit(const char *method, size_t len);
