/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections that the interceptor has. They count as the others do, and each has its end in the
 * records: the interceptor tells it, or we do when the interceptor is gone. What it has is asked
 * for nothing: on every new pair it says so first, the one that we started with too.
 */
#include "egress.h"
#include <base/mutant.h>

enum { STALE_MS = 2000 };

struct given {
    given *next;
    uint64_t flow;
    int64_t began;
    uint8_t addr[16];
    uint16_t port;
    uint8_t proto;
    bool stale; /* its pair is gone, and on the next one it was not named yet */
    char name[CAY__NAME_MAX + 1];
};

static given **find_given(egress_box *b, uint64_t number)
{
    given **at = &b->given;
    while (*at && (*at)->flow != number)
        at = &(*at)->next;
    return at;
}

void given_add(egress_box *b, uint64_t number, const char *name, const uint8_t addr[16],
               uint16_t port, unsigned proto, int64_t age)
{
    given *g = *find_given(b, number);
    if (!g) {
        g = cay__alloc(sizeof *g);
        *g = (given){ .next = b->given,
                      .flow = number,
                      .began = cay__now_ms() - age,
                      .port = port,
                      .proto = (uint8_t)proto };
        CAY_COPY(g->name, name);
        memcpy(g->addr, addr, 16);
        b->given = g;
        b->nlive += !CAY__MUTANT("net-given");
    }
    g->stale = false;
}

static void take_out(egress_box *b, given **at)
{
    given *g = *at;
    *at = g->next;
    b->nlive -= !CAY__MUTANT("net-given");
    free(g);
}

void given_over(egress_box *b, uint64_t number)
{
    given **at = find_given(b, number);
    if (*at)
        take_out(b, at);
}

/* How many bytes went, nobody knows any more. */
static void cut_given(egress_box *b, given **at, const char *reason)
{
    const given *g = *at;
    cay__verdict v = cay__decide_name(b->e->op, &b->policy, g->name, g->port,
                                      false); /* for the rule's name alone */
    audit(b, &(record){ .event = "end",
                        .verdict = "cut",
                        .reason = reason,
                        .name = g->name,
                        .flow = g->flow,
                        .addr = g->addr,
                        .port = g->port,
                        .proto = g->proto,
                        .rule = v.rule,
                        .end = true,
                        .uncounted = true,
                        .ms = cay__now_ms() - g->began });
    take_out(b, at);
}

void given_drop(egress_box *b)
{
    while (b->given)
        cut_given(b, &b->given, "sandbox_gone");
}

void given_move(egress_box *from, egress_box *to)
{
    to->given = CAY_STEAL(from->given);
    CAY_EACH_LINK(g, to->given) {
        from->nlive -= !CAY__MUTANT("net-given");
        to->nlive += !CAY__MUTANT("net-given");
    }
}

void given_settle(egress *e)
{
    later_stop(&e->stale);
    CAY_EACH_LINK(b, e->boxes)
        for (given **at = &b->given; *at;)
            if ((*at)->stale)
                cut_given(b, at, "interceptor_died");
            else
                at = &(*at)->next;
}

static void on_stale(later *l)
{
    given_settle(CAY__OWNER(l, egress, stale));
}

void given_doubt(egress *e)
{
    CAY_EACH_LINK(b, e->boxes)
        CAY_EACH_LINK(g, b->given)
            g->stale = true;
    later_set(e, &e->stale, STALE_MS, on_stale);
}
