/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A policy where the network is an engine's, which has no rules: "off" is a container without a
 * network, and "all" the network that the request or the operator (CAY_DOCKER_NETWORK) names. Rules
 * are refused as ever, by who looks next.
 */
#include <lib/manifest/client_mounts.h>
#include "net.h"
#include <base/str.h>

static const char off[] = "cay-net 1\nmode off\n", all[] = "cay-net 1\nmode all\n";

static const char *lookup_option(const cay_create *c, const char *name)
{
    for (const cay_pair *p = c->options; p && p->key; p++)
        if (!strcmp(p->key, name))
            return p->value;
    return NULL;
}

static void add_option(cay_create *c, const char *key, const char *value, cay__arena *mem)
{
    size_t n = 0;
    while (c->options && c->options[n].key)
        n++;
    cay_pair *list = cay__arena_take(mem, (n + 2) * sizeof *list);
    if (n)
        memcpy(list, c->options, n * sizeof *list);
    list[n] = (cay_pair){ key, value };
    list[n + 1] = (cay_pair){ NULL, NULL };
    c->options = list;
}

int cay__net_engine(cay_create *c, const char *provider, cay__arena *mem, cay_err *err)
{
    const char *asked = lookup_option(c, "network"), *named = getenv("CAY_DOCKER_NETWORK");
    bool closed = c->net && !strcmp(c->net, off), open = c->net && !strcmp(c->net, all);
    if (!cay__mounts_by_container(provider) || (!closed && !open))
        return 0;
    if (closed && asked && strcmp(asked, "none") != 0)
        return cay_fail_why(err, CAY_EINVAL, "option_invalid",
                            "net off and option network=%.60s exclude each other; leave one away",
                            asked);
    if (open && !asked && named && *named)
        add_option(c, "network", cay__arena_str(mem, named), mem);
    else if (open && (asked ? !strcmp(asked, "none") : !c->net_usual))
        return cay_fail_why(err, CAY_ENOTSUP, "not_supported",
                            "net all: provider %s has networks of its engine, without a policy; "
                            "give option network=bridge, or name one by CAY_DOCKER_NETWORK",
                            provider);
    c->net = NULL;
    return 0;
}
