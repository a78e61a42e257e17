/* SPDX-License-Identifier: Apache-2.0 */
/*
 * images TEMPLATE TRUE [N]: create and first command in a sandbox of an image's template; the floor
 * is `host` in turns with it. TEMPLATE has TRUE as /opt/true. apart: 25 ms between, so that the
 * pool is full; chain: one after the other, faster than it is filled. named: each with a name of
 * its own, which no pool has, so that the root is bound when it is asked for.
 */
#include "box.h"

static double once(cay_client *client, const char *template_, const char *hostname)
{
    cay_err err = CAY_ERR_INIT;
    cay_sandbox *sb;
    cay_create c = { .size = sizeof c,
                     .life.ephemeral = true,
                     .from.template_ = template_,
                     .hostname = hostname,
                     .process.user = "root" };
    double t = now_us();
    need(cay_client_create(client, NULL, &c, &sb, &err), &err, "create");
    need(run_in(sb, 0, &err), &err, "run");
    double spent = now_us() - t;
    need(cay_sandbox_remove(sb, NULL, &err), &err, "remove");
    cay_sandbox_unref(sb);
    return spent;
}

static void measure(cay_client *client, const char *template_, const char *hostname, size_t n,
                    unsigned pause_ms, const char *goal, const char *name)
{
    series host = { 0 }, image = { 0 };
    for (size_t i = 0; i < n + 3; i++) {
        sleep_ms(pause_ms);
        double a = once(client, NULL, hostname);
        sleep_ms(pause_ms);
        double b = once(client, template_, hostname);
        if (i < 3)
            continue;
        add(&host, a);
        add(&image, b);
    }
    double h = percentile(&host, 50) / 1000, m = percentile(&image, 50) / 1000;
    figure((fig){ name, "ms", m, h, m / h, goal, n, NULL });
}

int main(int argc, char **argv)
{
    if (argc < 3)
        give_up("usage: images TEMPLATE TRUE [N]");
    size_t n = rounds(argc, argv, 3, 200);
    prepare(argv[2]);
    cay_client *client = service();
    measure(client, argv[1], NULL, n, 25, "<=1.2", "image-create");
    measure(client, argv[1], NULL, n, 0, "<=1.2", "image-create-chain");
    measure(client, argv[1], "bench", n, 25, NULL, "image-create-named");
    cay_client_close(client);
    return 0;
}
