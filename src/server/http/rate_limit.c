/* SPDX-License-Identifier: Apache-2.0 */
#include "limits.h"
#include <arpa/inet.h>
#include <base/base.h>
#include <base/mutant.h>
#include <pthread.h>
#include <strings.h>

enum { RATE = 2000, BURST = 4000, SLOTS = 64, CHAIN = 16, HOST_MAX = 253 };

/* Time as a level: `full_us` is when it will be full again; each request moves that on by 1/rate.
 */
typedef struct bucket {
    struct bucket *next;
    int64_t full_us;
    char key[32];
} bucket;

struct cay__gate {
    char *domain;
    char **hosts, **origins;
    int64_t step_us_1024, depth_us; /* a request's share in 1/1024 us, and all of a burst */
    struct {
        pthread_mutex_t lock;
        bucket *first;
    } slot[SLOTS];
};

static char **copy_list(const char *const *list)
{
    size_t n = 0;
    while (list && list[n])
        n++;
    char **to = cay__alloc((n + 1) * sizeof *to);
    for (size_t i = 0; i < n; i++)
        to[i] = cay__strdup(list[i]);
    return to;
}

static void free_list(char **list)
{
    for (char **p = list; *p; p++)
        free(*p);
    free(list);
}

/* Letters, digits and '-' between dots, as in a Host field; a literal address of IPv6 has brackets
 * and is always ours. */
static bool is_name(const char *s, size_t n)
{
    bool edge = true; /* where no '-' may be, and no dot */
    CAY_EACH_OF(it, s, n) {
        bool inner = *it == '-' || *it == '.';
        if (!(inner || (*it >= '0' && *it <= '9') || (*it >= 'a' && *it <= 'z') ||
              (*it >= 'A' && *it <= 'Z')) ||
            (edge && inner))
            return false;
        edge = *it == '.';
    }
    return n && n <= HOST_MAX && !edge && s[n - 1] != '-';
}

static bool is_origin(const char *s)
{
    const char *at;
    if (cay__str_starts(s, "http://"))
        at = s + 7;
    else if (cay__str_starts(s, "https://"))
        at = s + 8;
    else
        at = "";
    size_t n;
    if (*at == '[')
        n = strcspn(at, "]") + 1;
    else
        n = strcspn(at, ":/");
    size_t digits = 0;
    if (at[0] && at[n] == ':')
        digits = strspn(at + n + 1, "0123456789");
    return *at && (*at == '[' || is_name(at, n)) &&
           (at[n] == ':' ? digits && !at[n + 1 + digits] : !at[n]);
}

int cay__gate_check(const cay__gate_conf *c, cay_err *err)
{
    if (c->domain && !is_name(c->domain, strlen(c->domain)))
        return cay_fail(err, CAY_EINVAL, "--domain %.100s: want a name, such as boxes.example.org",
                        c->domain);
    for (const char *const *p = c->hosts; p && *p; p++)
        if (!is_name(*p, strlen(*p)))
            return cay_fail(
                err, CAY_EINVAL,
                "--allow-host %.100s: want a name without a port, such as box.example.org", *p);
    for (const char *const *p = c->origins; p && *p; p++)
        if (!is_origin(*p))
            return cay_fail(err, CAY_EINVAL,
                            "--allow-origin %.100s: want https://HOST[:PORT] or http://HOST[:PORT] "
                            "and nothing behind it, as browsers send it",
                            *p);
    return 0;
}

cay__gate *cay__gate_new(const cay__gate_conf *c)
{
    cay__gate *g = cay__alloc(sizeof *g);
    int64_t rate = CAY_OR(c->rate, RATE), burst = CAY_OR(c->burst, BURST);
    g->domain = cay__strdup(cay__text_or(c->domain, "localhost"));
    g->hosts = copy_list(c->hosts);
    g->origins = copy_list(c->origins);
    g->step_us_1024 = (int64_t)1024 * 1000000 / rate;
    g->depth_us = burst * 1000000 / rate;
    CAY_EACH_OF(it, g->slot, SLOTS)
        pthread_mutex_init(&it->lock, NULL);
    return g;
}

void cay__gate_free(cay__gate *g)
{
    if (!g)
        return;
    CAY_EACH_OF(it, g->slot, SLOTS) {
        for (bucket *b = it->first, *next; b; b = next) {
            next = b->next;
            free(b);
        }
        pthread_mutex_destroy(&it->lock);
    }
    free_list(g->hosts);
    free_list(g->origins);
    free(g->domain);
    free(g);
}

/* The name without its port, in small letters; an address without brackets. false: it is neither.
 */
static bool parse_host(const char *host, char name[HOST_MAX + 1], bool *address)
{
    unsigned char raw[16];
    const char *from = host;
    size_t n;
    *address = false;
    if (*host == '[') {
        from = host + 1;
        n = strcspn(from, "]");
        if (from[n] != ']' || (from[n + 1] && from[n + 1] != ':'))
            return false;
        *address = true;
    } else {
        n = strcspn(host, ":");
    }
    const char *port = strchr(from + n, ':');
    if (port &&
        (!port[1] || strlen(port + 1) > 5 || strspn(port + 1, "0123456789") != strlen(port + 1)))
        return false;
    if (!n || n > HOST_MAX)
        return false;
    for (size_t i = 0; i < n; i++)
        name[i] = (char)(from[i] >= 'A' && from[i] <= 'Z' ? from[i] + 32 : from[i]);
    name[n] = 0;
    if (*address)
        return inet_pton(AF_INET6, name, raw) == 1;
    *address = inet_pton(AF_INET, name, raw) == 1;
    return *address || strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-._") == n;
}

static bool is_or_below(const char *name, const char *domain)
{
    size_t n = strlen(name), d = strlen(domain);
    return n >= d && !strcasecmp(name + n - d, domain) && (n == d || name[n - d - 1] == '.');
}

static bool is_own_host(const cay__gate *g, const char *host)
{
    char name[HOST_MAX + 1];
    bool address;
    if (!parse_host(host, name, &address))
        return false;
    if (address || is_or_below(name, "localhost") || is_or_below(name, g->domain))
        return true;
    for (char **p = g->hosts; *p; p++)
        if (!strcasecmp(*p, name))
            return true;
    return false;
}

int cay__gate_host(const cay__gate *g, const char *host, cay_err *err)
{
    if (!*host || is_own_host(g, host) ||
        CAY__MUTANT("gate-host")) /* without one it is no browser */
        return 0;
    return cay_fail_why(
        err, CAY_EPERM, "host_not_allowed",
        "this server does not answer for that Host; name it by --allow-host or --domain");
}

int cay__gate_origin(const cay__gate *g, const char *host, const char *origin, cay_err *err)
{
    if (!origin || CAY__MUTANT("gate-origin"))
        return 0;
    const char *at = strstr(origin, "://");
    /* The page came from where it asks now. */
    if (at && *host && !strcasecmp(at + 3, host) && is_own_host(g, host) &&
        (cay__str_starts(origin, "http://") || cay__str_starts(origin, "https://")))
        return 0;
    for (char **p = g->origins; *p; p++)
        if (!strcasecmp(*p, origin))
            return 0;
    return cay_fail_why(err, CAY_EPERM, "origin_not_allowed",
                        "pages of that Origin may not ask this server; name it by --allow-origin");
}

/* Full ones tell nothing and go when there are many. */
static bucket *get_bucket(cay__gate *g, size_t slot, const char *key, int64_t now)
{
    size_t n = 0;
    for (bucket **p = &g->slot[slot].first, *b; (b = *p); n++) {
        if (!strcmp(b->key, key))
            return b;
        if (n >= CHAIN && b->full_us <= now * 1024) {
            *p = b->next;
            free(b);
        } else {
            p = &b->next;
        }
    }
    bucket *b = cay__alloc(sizeof *b);
    CAY_COPY(b->key, key);
    b->next = g->slot[slot].first;
    return g->slot[slot].first = b;
}

int cay__gate_rate(cay__gate *g, const char *key, int64_t now_us, cay_err *err)
{
    size_t slot = cay__hash(key, strlen(key)) % SLOTS;
    int64_t now = now_us * 1024, over;
    pthread_mutex_lock(&g->slot[slot].lock);
    bucket *b = get_bucket(g, slot, key, now_us);
    int64_t then = CAY_MAX(b->full_us, now) + g->step_us_1024;
    over = then - now - g->depth_us * 1024;
    if (over <= 0)
        b->full_us = then;
    pthread_mutex_unlock(&g->slot[slot].lock);
    if (over <= 0)
        return 0;
    cay_fail_why(err, CAY_ERATE, "rate_limit", "too many requests by this key; wait a little");
    if (err) {
        err->retry = CAY_RETRY_YES;
        err->retry_after_ms = (uint32_t)(over / 1024 / 1000 + 1);
    }
    return CAY_ERATE;
}
