/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory PARK plain|net [N]: what an idle sandbox takes from the machine, beside a parked static
 * init in the same namespaces: the fall of MemAvailable over N of each. net: each has a policy. One
 * figure in a process and with a keeper of its own. The kernel takes namespaces and groups down for
 * seconds after their end and keeps part of their memory for the next ones: so a reading waits
 * until the machine rests, the first population of each kind counts for nothing, and of the others,
 * in turns, the median does.
 */
#include "bare.h"
#include "box.h"

enum { STEADY_KB = 512, STEADY_TIMES = 4, TRIES = 20 };

static double read_kb(void)
{
    char buf[4096], *p;
    if (slurp("/proc/meminfo", buf, sizeof buf) <= 0 || !(p = strstr(buf, "MemAvailable:")))
        give_up("no MemAvailable in /proc/meminfo");
    return strtod(p + 13, NULL);
}

/* Few: it is not worth the wait. */
static double available_kb(bool few)
{
    double last = read_kb(), now = last;
    for (int same = 0, i = 0; same < STEADY_TIMES && i < (few ? 3 : TRIES); i++, last = now) {
        sleep_ms(500);
        now = read_kb();
        same = now - last < STEADY_KB && last - now < STEADY_KB ? same + 1 : 0;
    }
    return now;
}

static double parked(const bare *b, size_t n, bool few)
{
    int *pids = calloc(n, sizeof *pids);
    double before = available_kb(few);
    for (size_t i = 0; i < n; i++)
        pids[i] = bare_make(b, (unsigned)i);
    double used = before - available_kb(few);
    for (size_t i = 0; i < n; i++)
        kill(pids[i], SIGKILL);
    for (size_t i = 0; i < n; i++)
        bare_end(b, (unsigned)i, pids[i]);
    free(pids);
    return used / (double)n;
}

static double sandboxes(cay_client *client, size_t n, bool net, bool few)
{
    cay_sandbox **all = calloc(n, sizeof(cay_sandbox *));
    cay_err err = CAY_ERR_INIT;
    double before = available_kb(few);
    for (size_t i = 0; i < n; i++)
        need(net ? make_net_box(client, &all[i], &err) : make_box(client, NULL, &all[i], &err),
             &err, "create");
    double used = before - available_kb(few);
    for (size_t i = 0; i < n; i++) {
        need(cay_sandbox_remove(all[i], NULL, &err), &err, "remove");
        cay_sandbox_unref(all[i]);
    }
    free(all);
    return used / (double)n;
}

int main(int argc, char **argv)
{
    size_t n = rounds(argc, argv, 3, 500);
    bool few =
        n < 100; /* too few to stand out from what else the machine does: a figure without a goal */
    bool net = argc > 2 && !strcmp(argv[2], "net");
    const char *home = getenv("CAY_HOME");
    bare b = { .user = true };
    cay_err err = CAY_ERR_INIT;
    cay_sandbox *sb, *with;
    glob_t g;
    if (argc < 3)
        give_up("usage: memory PARK plain|net [N]");
    b.program = open(argv[1], O_PATH | O_CLOEXEC);
    cay_client *client = service();
    need(make_box(client, NULL, &sb, &err), &err,
         "create"); /* the keeper and its pool are there before we look */
    snprintf(b.dir, sizeof b.dir, "%s/layers/host-*", home);
    if (glob(b.dir, 0, NULL, &g) != 0)
        give_up("no template in %s", home);
    snprintf(b.layer, sizeof b.layer, "%s", g.gl_pathv[0]);
    snprintf(b.dir, sizeof b.dir, "%s", home);
    if (net) { /* and egress is, too */
        need(make_net_box(client, &with, &err), &err, "create");
        need(cay_sandbox_remove(with, NULL, &err), &err, "remove");
        cay_sandbox_unref(with);
    }
    series floors = { 0 }, values = { 0 };
    for (int i = 0; i < (few ? 1 : 4); i++) {
        double a = parked(&b, n, few), c = sandboxes(client, n, net, few);
        if (i || few) {
            add(&floors, a);
            add(&values, c);
        }
    }
    double floor = percentile(&floors, 50), value = percentile(&values, 50);
    if (!few && (floor <= 0 || value <= 0))
        give_up("idle-memory: other programs gave memory back meanwhile");
    if (net)
        figure(
            (fig){ "idle-memory-net", "kB", value, floor, value / floor, few ? NULL : "<=1.4", n });
    else
        figure((fig){ "idle-memory", "kB", value, floor, value / floor, few ? NULL : "<=1.3", n });
    cay_sandbox_remove(sb, NULL, &err);
    cay_sandbox_unref(sb);
    cay_client_close(client);
    return 0;
}
