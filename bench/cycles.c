/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cycles TRUE [SECONDS]: whole lives (create, command, destroy) per second with eight in flight,
 * beside the bare sequence of system calls with eight processes. In three turns each.
 */
#include "bare.h"
#include "box.h"
#include <pthread.h>
#include <sys/mman.h>

enum { FLIGHT = 8, TURNS = 3 };

typedef struct lane {
    pthread_t thread;
    cay_client *client;
    double until;
    size_t done;
} lane;

static void *fly(void *arg)
{
    lane *l = arg;
    while (now_us() < l->until) {
        cay_err err = CAY_ERR_INIT;
        cay_sandbox *sb;
        need(make_box(l->client, NULL, &sb, &err), &err, "create");
        need(run_in(sb, 0, &err), &err, "exec");
        need(cay_sandbox_remove(sb, NULL, &err), &err, "remove");
        cay_sandbox_unref(sb);
        l->done++;
    }
    return NULL;
}

static double ours(cay_client *client, double seconds)
{
    lane lanes[FLIGHT] = { 0 };
    size_t done = 0;
    double t = now_us();
    for (int i = 0; i < FLIGHT; i++) {
        lanes[i] = (lane){ .client = client, .until = t + seconds * 1e6 };
        if (pthread_create(&lanes[i].thread, NULL, fly, &lanes[i]))
            give_up("no thread");
    }
    for (int i = 0; i < FLIGHT; i++) {
        pthread_join(lanes[i].thread, NULL);
        done += lanes[i].done;
    }
    return (double)done / ((now_us() - t) / 1e6);
}

static double theirs(const bare *b, double seconds)
{
    size_t *done = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0),
           sum = 0;
    double t = now_us();
    int pids[FLIGHT], failed = 0, status;
    for (int i = 0; i < FLIGHT; i++)
        if ((pids[i] = fork()) == 0) {
            for (unsigned k = 0; now_us() < t + seconds * 1e6; k++, done[i]++)
                if (bare_end(b, k, bare_make(b, k)))
                    _exit(1);
            _exit(0);
        }
    for (int i = 0; i < FLIGHT; i++)
        failed |= waitpid(pids[i], &status, 0) < 0 || status;
    if (failed)
        give_up("the bare sequence does not work here");
    for (int i = 0; i < FLIGHT; i++)
        sum += done[i];
    munmap(done, 4096);
    return (double)sum / ((now_us() - t) / 1e6);
}

int main(int argc, char **argv)
{
    double seconds = argc > 2 ? strtod(argv[2], NULL) : 3;
    const char *home = getenv("CAY_HOME");
    bare b = { 0 };
    glob_t g;
    series a = { 0 }, c = { 0 };
    if (argc < 2)
        give_up("usage: cycles TRUE [SECONDS]");
    prepare(argv[1]);
    b.program = open(argv[1], O_PATH | O_CLOEXEC);
    snprintf(b.dir, sizeof b.dir, "%s/layers/host-*", home);
    if (glob(b.dir, 0, NULL, &g) != 0)
        give_up("no template in %s", home);
    snprintf(b.layer, sizeof b.layer, "%s", g.gl_pathv[0]);
    snprintf(b.dir, sizeof b.dir, "%s", home);
    bare_group(&b);
    cay_client *client = service();
    for (int i = 0; i < TURNS; i++) {
        add(&a, theirs(&b, seconds));
        add(&c, ours(client, seconds));
    }
    double floor = percentile(&a, 50), value = percentile(&c, 50);
    figure((fig){ "cycles", "per s", value, floor, value / floor, ">=0.7",
                  (size_t)(value * seconds) * TURNS });
    cay_client_close(client);
    if (b.group[0])
        rmdir(b.group);
    return 0;
}
