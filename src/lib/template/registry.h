/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/template/registry.h - a registry of images: distribution-spec 1.1, pull only; tokens as
 * Docker's registries hand them out.
 *
 *   cay__reg_open()    one repository          cay__reg_manifest()  a document by tag or digest
 *   cay__reg_blob()    bytes, from an offset   cay__reg_close()
 *
 * Everything it answers is a stranger's. Where it may lead is judged here: a redirect or a token
 * server goes to public addresses and by https only, unless it is the registry itself or the
 * operator's conf says otherwise; credentials go to nobody but the registry and the token server
 * that it names.
 */
#pragma once
#include "template.h"
#include <net/http.h>
#include <policy/policy.h>

/* /etc/cay/templates.conf, of an ordinary user ~/.config/cay/templates.conf; and `templates.conf`
 * in the state directory. Lines: registry HOST[:PORT] [plain] [private]  plain: http; private: it
 * may be at a private address, for everybody alias NAME REF                          NAME is the
 * template or image REF search HOST[/PREFIX]                    where a name without a host is
 * looked for, in this order; else docker.io idle SECONDS                            a registry that
 * sends nothing for so long is given up; 60 pull missing|never                      whether FROM of
 * a build gets an image that is not here; missing */
typedef struct cay__tconf {
    cay__arena mem;
    struct {
        const char *host;
        bool plain, lan;
    } * registries;
    struct {
        const char *name, *ref;
    } * aliases;
    const char **search;
    size_t nregistries, naliases, nsearch;
    uint64_t idle_ms;
    bool no_pull;
} cay__tconf;
int cay__tconf_read(const cay_client *client, cay__tconf *out, cay_err *err);
int cay__tconf_parse(const char *text, cay__tconf *out, cay_err *err);
void cay__tconf_clear(cay__tconf *c);
/* What the conf calls it, or ref itself. */
const char *cay__tconf_alias(const cay__tconf *c, const char *ref);

/* What a 401 asks for: one challenge of WWW-Authenticate (RFC 9110, 11.6.1). */
typedef struct cay__challenge {
    enum { CAY__AUTH_NONE, CAY__AUTH_BASIC, CAY__AUTH_BEARER } kind;
    char realm[1024], service[256], scope[512];
} cay__challenge;
/* Bearer before Basic; what cannot be read is NONE. */
void cay__challenge_read(const char *value, size_t len, cay__challenge *out);
/* "user:password" of a host in docker's config.json; false: there is none. The caller frees. */
bool cay__reg_docker_login(const char *text, size_t len, const char *host, char **out);

/* "USER:PASSWORD" that the tenant keeps for the host; *out stays NULL when there is none. The
 * caller wipes and frees. registry_login.c */
int cay__reg_login_of(cay_client *client, const char *tenant, const char *host, char **out,
                      cay_err *err);
/* All of a tenant that is gone. */
void cay__reg_logins_forget(cay_client *client, const char *tenant);

typedef struct cay__reg cay__reg;
/* login: "user:password" or NULL. op: the operator's egress.conf, which every address has to pass;
 * both outlive it. */
int cay__reg_open(const cay__tconf *conf, const cay__policy *op, const cay__tname *name,
                  const char *login, bool trusted, cay__reg **out, cay_err *err);
void cay__reg_close(cay__reg *r);
/* digest: of what came, "sha256:…"; compared when `what` is a digest. */
int cay__reg_manifest(cay__reg *r, const cay_call *call, const char *what, cay__buf *out,
                      char digest[72], cay_err *err);
/* Bytes from `from` on, at most `max`; *whole: the registry sends it from the beginning. fn may
 * fail. */
int cay__reg_blob(cay__reg *r, const cay_call *call, const char *digest, uint64_t from,
                  uint64_t max, bool *whole,
                  int (*fn)(const char *p, size_t n, void *arg, cay_err *err), void *arg,
                  cay_err *err);
