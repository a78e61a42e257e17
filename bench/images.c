/* SPDX-License-Identifier: Apache-2.0 */
/*
 * images TEMPLATE TRUE [N]: create and first command in a sandbox of an image's template, and of `host` in turns with it. TEMPLATE has TRUE as /opt/true. The floor is `host` with
 * a name of its own, whose root is bound when it is asked for, as an image's is; the peer is `host` as the pool has it bound already.
 * apart: 25 ms between, so that the pool is full; chain: one after the other.
 */
#include "box.h"

static double once(cay_service *svc, const char *template_, const char *hostname)
{
    cay_err err = CAY_ERR_INIT;
    cay_sandbox *sb;
    cay_create c = { .size = sizeof c, .ephemeral = true, .template_ = template_, .hostname = hostname, .user = "root" };
    double t = now_us();
    need(cay_service_create(svc, NULL, &c, &sb, &err), &err, "create");
    need(run_in(sb, 0, &err), &err, "run");
    double spent = now_us() - t;
    need(cay_sandbox_remove(sb, NULL, &err), &err, "remove");
    cay_sandbox_unref(sb);
    return spent;
}

static void measure(cay_service *svc, const char *template_, size_t n, unsigned pause_ms, const char *name)
{
    series host = { 0 }, image = { 0 }, pool = { 0 };
    for (size_t i = 0; i < n + 3; i++) {
        sleep_ms(pause_ms);
        double a = once(svc, NULL, "bench");
        sleep_ms(pause_ms);
        double b = once(svc, template_, "bench");
        sleep_ms(pause_ms);
        double c = once(svc, NULL, NULL);
        if (i < 3)
            continue;
        add(&host, a);
        add(&image, b);
        add(&pool, c);
    }
    double h = percentile(&host, 50) / 1000, m = percentile(&image, 50) / 1000;
    figure((fig){ name, "ms", m, h, m / h, "<=1.2", n, (const peer[]){ { "host_pooled", percentile(&pool, 50) / 1000 }, { NULL } } });
}

int main(int argc, char **argv)
{
    if (argc < 3)
        give_up("usage: images TEMPLATE TRUE [N]");
    size_t n = rounds(argc, argv, 3, 200);
    prepare(argv[2]);
    cay_service *svc = service();
    measure(svc, argv[1], n, 25, "image-create");
    measure(svc, argv[1], n, 0, "image-create-chain");
    cay_service_close(svc);
    return 0;
}
