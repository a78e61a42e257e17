/* SPDX-License-Identifier: Apache-2.0 */
/*
 * create TRUE pool|cold [N]: a sandbox from nothing to the end of its first command.
 *
 * pool: as an agent would, with a pause between, so that one is parked: once bound ahead of time,
 * once with a root that is chosen by the request. cold: $CAY_POOL is 0, nothing is ready, and the
 * destruction is waited for.
 */
#include "box.h"

/* The same as once() with a policy. */
static double with_policy(cay_client *client)
{
    cay_err err = CAY_ERR_INIT;
    cay_sandbox *sb;
    double t = now_us();
    need(make_net_box(client, &sb, &err), &err, "create");
    need(run_in(sb, 0, &err), &err, "exec");
    double spent = now_us() - t;
    need(cay_sandbox_remove(sb, NULL, &err), &err, "remove");
    cay_sandbox_unref(sb);
    return spent;
}

/* Microseconds from the request to the command's end; with the destruction when it is asked for. */
static double once(cay_client *client, const char *hostname, bool destroy)
{
    cay_err err = CAY_ERR_INIT;
    cay_sandbox *sb;
    double t = now_us();
    need(make_box(client, hostname, &sb, &err), &err, "create");
    need(run_in(sb, 0, &err), &err, "exec");
    double spent = now_us() - t;
    need(cay_sandbox_remove(sb, NULL, &err), &err, "remove");
    if (destroy)
        spent = now_us() - t;
    cay_sandbox_unref(sb);
    return spent;
}

/* Each after the same pause, and with and without a policy in both places: what was done before
 * tells in caches and in the pool. */
static void pooled(cay_client *client, bare_spawn *bare, size_t n)
{
    series floor = { 0 }, ready = { 0 }, late = { 0 }, net = { 0 };
    for (size_t i = 0; i < n + 4; i++) {
        sleep_ms(25);
        double a = spawn_time(bare);
        sleep_ms(25);
        double b = i % 2 ? with_policy(client) : once(client, NULL, false);
        sleep_ms(25);
        double c = once(client, "bench", false);
        sleep_ms(25);
        double d = i % 2 ? once(client, NULL, false) : with_policy(client);
        if (i < 4)
            continue;
        add(&floor, a);
        add(&ready, i % 2 ? d : b);
        add(&late, c);
        add(&net, i % 2 ? b : d);
    }
    double f = percentile(&floor, 50), r = percentile(&ready, 50), l = percentile(&late, 50),
           p = percentile(&net, 50);
    figure((fig){ "first-exec", "us", r, f, r / f, "<=6.0", n });
    figure((fig){ "first-exec-late", "us", l, f, l / f, "<=6.0", n });
    figure(
        (fig){ "create-policy", "us", p - r, f, (p - r) / f, "<=1.0", n }); /* what a policy adds */
}

static void cold(cay_client *client, bare_spawn *bare, size_t n)
{
    series floor = { 0 }, whole = { 0 };
    for (size_t i = 0; i < n + 3; i++) {
        double a = spawn_time(bare), b = once(client, NULL, true);
        if (i < 3)
            continue;
        add(&floor, a);
        add(&whole, b);
    }
    double f = percentile(&floor, 50), w = percentile(&whole, 50);
    figure((fig){ "cold", "us", w, f, w / f, "<=16", n });
}

int main(int argc, char **argv)
{
    if (argc < 3)
        give_up("usage: create TRUE pool|cold [N]");
    bool is_cold = !strcmp(argv[2], "cold");
    if (is_cold)
        setenv("CAY_POOL", "0", 1);
    prepare(argv[1]);
    bare_spawn bare = spawn_open(argv[1]);
    cay_client *client = service();
    if (is_cold)
        cold(client, &bare, rounds(argc, argv, 3, 300));
    else
        pooled(client, &bare, rounds(argc, argv, 3, 200));
    cay_client_close(client);
    return 0;
}
