/* SPDX-License-Identifier: Apache-2.0 */
/* What git and HTTP fetches share: whom they may reach. */
#include "fetch_inside.h"
#include <base/mutant.h>
#include <cay/policy.h>

static void write_place(const cay__url *u, const char *scheme, char *buf, size_t cap)
{
    bool six = strchr(u->host, ':') != NULL;
    if (!u->tls)
        scheme = "http";
    snprintf(buf, cap, "%s://%s%s%s:%u", scheme, CAY_TEXT_IF(six, "["), u->host,
             CAY_TEXT_IF(six, "]"), (unsigned)u->port);
}

void cay__source_place(const cay__url *u, char *buf, size_t cap)
{
    write_place(u, "https", buf, cap);
}

/* The rules of the sandbox, its secrets left out: they are not this fetch's. Denies stay, above
 * what is added. */
static int policy_text(const cay__fetch_source *f, const cay__url *url, cay__arena *mem,
                       const char **out, cay_err *err)
{
    char place[CAY__NAME_MAX + 32];
    char *text = NULL;
    cay_policy *own = NULL;
    size_t n = 0;
    if (f->net && *f->net)
        CAY_TRY(cay_policy_parse(f->net, &own, err));
    while (own && own->rules && own->rules[n])
        n++;
    const char **rules = cay__arena_take(mem, (n + 2) * sizeof *rules);
    for (size_t i = 0; i < n; i++)
        rules[i] = own->rules[i];
    write_place(url, "tls", place, sizeof place);
    bool all = own && own->mode == CAY_NET_ALL;
    if (!all)
        rules[n] = place;
    cay_policy p = { .size = sizeof p, .mode = all ? CAY_NET_ALL : CAY_NET_RULES, .rules = rules };
    if (own && !CAY__MUTANT("fetch-any-host")) {
        p.rate_up = own->rate_up;
        p.rate_down = own->rate_down;
    } else if (CAY__MUTANT("fetch-any-host")) {
        p.mode = CAY_NET_ALL;
        rules[n] = NULL;
    }
    int rc = cay_policy_text(&p, &text, err);
    if (own)
        cay_policy_free(own);
    CAY_TRY(rc);
    *out = cay__arena_adopt(mem, text);
    return 0;
}

/* A refusal is told as one, not as a name that could not be looked up. */
static int may_reach(cay__oneshot *o, const cay_call *call, const cay__url *url, cay_err *err)
{
    cay_net_verdict v = { .size = sizeof v };
    CAY_TRY(cay_net_evaluate(cay__oneshot_sandbox(o), call, url->host, url->port, &v, err));
    if (v.allow)
        return 0;
    return cay_fail_why(err, CAY_EPERM, "fetch_refused",
                        "%.80s:%u may not be reached (%s%s%s)%s%.100s", url->host,
                        (unsigned)url->port, v.reason, CAY_TEXT_IF(v.range[0], ", "), v.range,
                        CAY_TEXT_IF(v.remedy[0], "; "), v.remedy);
}

int cay__source_sandbox(cay_client *client, const cay_call *call, const cay__fetch_source *f,
                        const cay__url *url, const cay_secret *secrets, size_t nsecrets,
                        cay__oneshot **out, cay_err *err)
{
    CAY__AUTOARENA mem = { 0 };
    CAY_AUTOPTR(cay__oneshot) o = NULL;
    cay__oneshot_spec spec = { .secrets = secrets, .nsecrets = nsecrets, .memory = 1ull << 30 };
    CAY_TRY(policy_text(f, url, &mem, &spec.net, err));
    CAY_TRY(cay__oneshot_open(client, call, &spec, &o, err));
    CAY_TRY(may_reach(o, call, url, err));
    *out = CAY_STEAL(o);
    return 0;
}

/* Puts "entry PATH: " in front. */
static int wrap_entry(const cay__fetch_source *f, int rc, cay_err *err)
{
    if (rc < 0 && f->entry)
        return cay_wrap(err, rc, "entry %.100s", f->entry);
    return rc;
}

const char *cay__source_last_line(char *text)
{
    size_t n = strlen(text);
    while (n && (text[n - 1] == '\n' || text[n - 1] == ' ' || text[n - 1] == '\r'))
        text[--n] = 0;
    char *last = strrchr(text, '\n');
    if (last)
        return last + 1;
    return text;
}

int cay__source_identity(cay_client *client, const cay_call *call, const cay__fetch_source *f,
                         char identity[CAY__IDENTITY], cay_err *err)
{
    int rc;
    if (f->kind == CAY__SOURCE_GIT)
        rc = cay__git_identity(client, call, f, identity, err);
    else
        rc = cay__remote_identity(client, call, f, identity, err);
    return wrap_entry(f, rc, err);
}

int cay__source_bring(cay_client *client, const cay_call *call, const cay__fetch_source *f,
                      const char *identity, int dir, cay__brought *out, cay_err *err)
{
    *out = (cay__brought){ 0 };
    int rc;
    if (f->kind == CAY__SOURCE_GIT)
        rc = cay__git_fetch(client, call, f, identity, dir, out, err);
    else
        rc = cay__remote_fetch(client, call, f, identity, dir, out, err);
    return wrap_entry(f, rc, err);
}
