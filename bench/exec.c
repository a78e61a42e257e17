/* SPDX-License-Identifier: Apache-2.0 */
/* exec TRUE [N]: a command in a live sandbox, asked of libcay, beside the bare spawn of the same program. */
#include "box.h"

int main(int argc, char **argv)
{
    size_t n = rounds(argc, argv, 2, 3000);
    cay_err err = CAY_ERR_INIT;
    cay_sandbox *sb;
    series floor = { 0 }, plain = { 0 }, timed = { 0 };
    if (argc < 2)
        give_up("usage: exec TRUE [N]");
    prepare(argv[1]);
    bare_spawn bare = spawn_open(argv[1]);
    cay_service *svc = service();
    need(make_box(svc, NULL, &sb, &err), &err, "create");
    for (size_t i = 0; i < n + 10; i++) {
        double a = spawn_time(&bare), t = now_us();
        need(run_in(sb, 0, &err), &err, "exec");
        double b = now_us() - t;
        t = now_us();
        need(run_in(sb, 60000, &err), &err, "exec with a time-out");
        double c = now_us() - t;
        if (i < 10) /* warm first: page cache, connections, the pool's refill */
            continue;
        add(&floor, a);
        add(&plain, b);
        add(&timed, c);
    }
    double f = percentile(&floor, 50), p = percentile(&plain, 50), q = percentile(&timed, 50);
    figure((fig){ "spawn-floor", "us", f, .n = n });
    figure((fig){ "exec", "us", p, f, p / f, "<=2.0", n });
    figure((fig){ "exec-p99", "us", percentile(&plain, 99), percentile(&floor, 99), percentile(&plain, 99), "<=1000", n });
    figure((fig){ "exec-timeout", "us", q, f, q / f, "<=2.7", n });
    cay_sandbox_remove(sb, NULL, &err);
    cay_sandbox_unref(sb);
    cay_service_close(svc);
    return 0;
}
