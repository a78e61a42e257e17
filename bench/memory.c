/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory PARK [N]: what an idle sandbox takes from the machine, beside a parked static init in the same namespaces:
 * the fall of MemAvailable over N of each, after a moment for the kernel to settle.
 */
#include "bare.h"
#include "box.h"

static double available_kb(void)
{
    char buf[4096], *p;
    sleep_ms(1500);
    if (slurp("/proc/meminfo", buf, sizeof buf) <= 0 || !(p = strstr(buf, "MemAvailable:")))
        give_up("no MemAvailable in /proc/meminfo");
    return strtod(p + 13, NULL);
}

static double parked(const bare *b, size_t n)
{
    int *pids = calloc(n, sizeof *pids);
    double before = available_kb();
    for (size_t i = 0; i < n; i++)
        pids[i] = bare_make(b, (unsigned)i);
    double used = before - available_kb();
    for (size_t i = 0; i < n; i++)
        kill(pids[i], SIGKILL);
    for (size_t i = 0; i < n; i++)
        bare_end(b, (unsigned)i, pids[i]);
    free(pids);
    return used / (double)n;
}

static double sandboxes(cay_service *svc, size_t n, bool net)
{
    cay_sandbox **all = calloc(n, sizeof(cay_sandbox *));
    cay_err err = CAY_ERR_INIT;
    double before = available_kb();
    for (size_t i = 0; i < n; i++)
        need(net ? make_net_box(svc, &all[i], &err) : make_box(svc, NULL, &all[i], &err), &err, "create");
    double used = before - available_kb();
    for (size_t i = 0; i < n; i++) {
        need(cay_sandbox_remove(all[i], NULL, &err), &err, "remove");
        cay_sandbox_unref(all[i]);
    }
    free(all);
    return used / (double)n;
}

int main(int argc, char **argv)
{
    size_t n = rounds(argc, argv, 2, 500);
    const char *home = getenv("CAY_HOME");
    bare b = { .user = true };
    cay_err err = CAY_ERR_INIT;
    cay_sandbox *sb;
    glob_t g;
    if (argc < 2)
        give_up("usage: memory PARK [N]");
    b.program = open(argv[1], O_PATH | O_CLOEXEC);
    cay_service *svc = service();
    need(make_box(svc, NULL, &sb, &err), &err, "create"); /* the keeper and its pool are there before we look */
    snprintf(b.dir, sizeof b.dir, "%s/layers/host-*", home);
    if (glob(b.dir, 0, NULL, &g) != 0)
        give_up("no template in %s", home);
    snprintf(b.layer, sizeof b.layer, "%s", g.gl_pathv[0]);
    snprintf(b.dir, sizeof b.dir, "%s", home);
    double floor = parked(&b, n), value = sandboxes(svc, n, false), net = sandboxes(svc, n, true);
    bool few = n < 100; /* too few to stand out from what else the machine does: a figure without a goal */
    if (!few && (floor <= 0 || value <= 0 || net <= 0))
        give_up("idle-memory: other programs gave memory back meanwhile");
    figure((fig){ "idle-memory", "kB", value, floor, value / floor, few ? NULL : "<=1.3", n });
    figure((fig){ "idle-memory-net", "kB", net, floor, net / floor, few ? NULL : "<=1.4", n });
    cay_sandbox_remove(sb, NULL, &err);
    cay_sandbox_unref(sb);
    cay_service_close(svc);
    return 0;
}
