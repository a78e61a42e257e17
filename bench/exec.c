/* SPDX-License-Identifier: Apache-2.0 */
/* exec TRUE [N]: a command in a live sandbox, asked of libcay, beside the bare spawn of the same
 * program. */
#include "box.h"

enum { FLOOR, PLAIN, TIMED };

/* In every order: who comes after a command finds warmer caches than who comes after the bare
 * spawn. */
static const int turns[6][3] = { { FLOOR, PLAIN, TIMED }, { TIMED, FLOOR, PLAIN },
                                 { PLAIN, TIMED, FLOOR }, { TIMED, PLAIN, FLOOR },
                                 { FLOOR, TIMED, PLAIN }, { PLAIN, FLOOR, TIMED } };

static double exec_time(cay_sandbox *sb, uint64_t timeout_ms)
{
    cay_err err = CAY_ERR_INIT;
    double t = now_us();
    need(run_in(sb, timeout_ms, &err), &err, timeout_ms ? "exec with a time-out" : "exec");
    return now_us() - t;
}

int main(int argc, char **argv)
{
    size_t n = rounds(argc, argv, 2, 3000);
    cay_err err = CAY_ERR_INIT;
    cay_sandbox *sb;
    series all[3] = { 0 };
    if (argc < 2)
        give_up("usage: exec TRUE [N]");
    prepare(argv[1]);
    bare_spawn bare = spawn_open(argv[1]);
    cay_client *client = service();
    need(make_box(client, NULL, &sb, &err), &err, "create");
    for (size_t i = 0; i < n + 10; i++)
        for (int k = 0; k < 3; k++) {
            int which = turns[i % COUNT(turns)][k];
            double took =
                which == FLOOR ? spawn_time(&bare) : exec_time(sb, which == TIMED ? 60000 : 0);
            if (i >= 10) /* warm first: page cache, connections, the pool's refill */
                add(&all[which], took);
        }
    series *plain = &all[PLAIN];
    double f = percentile(&all[FLOOR], 50), p = percentile(plain, 50),
           q = percentile(&all[TIMED], 50);
    figure((fig){ "spawn-floor", "us", f, .n = n });
    figure((fig){ "exec", "us", p, f, p / f, "<=2.0", n });
    figure((fig){ "exec-p99", "us", percentile(plain, 99), percentile(&all[FLOOR], 99),
                  percentile(plain, 99), "<=1000", n });
    figure((fig){ "exec-timeout", "us", q, f, q / f, "<=2.7", n });
    cay_sandbox_remove(sb, NULL, &err);
    cay_sandbox_unref(sb);
    cay_client_close(client);
    return 0;
}
