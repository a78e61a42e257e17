/* SPDX-License-Identifier: Apache-2.0 */
/* burst TRUE [N]: so many sandboxes asked for at the same moment, each with a command. Counts what
 * failed. */
#include "box.h"
#include <pthread.h>

typedef struct job {
    pthread_t thread;
    cay_client *client;
    pthread_barrier_t *start;
    int rc;
    cay_err err;
} job;

static void *work(void *arg)
{
    job *j = arg;
    cay_sandbox *sb = NULL;
    j->err = (cay_err)CAY_ERR_INIT;
    pthread_barrier_wait(j->start);
    j->rc = make_box(j->client, NULL, &sb, &j->err);
    if (j->rc == 0)
        j->rc = run_in(sb, 0, &j->err);
    if (sb) {
        int rc = cay_sandbox_remove(sb, NULL, j->rc ? NULL : &j->err);
        j->rc = j->rc ? j->rc : rc;
        cay_sandbox_unref(sb);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    size_t n = rounds(argc, argv, 2, 100), failed = 0;
    pthread_barrier_t start;
    if (argc < 2)
        give_up("usage: burst TRUE [N]");
    prepare(argv[1]);
    job *jobs = calloc(n, sizeof *jobs);
    cay_client *client = service();
    pthread_barrier_init(&start, NULL, (unsigned)n + 1);
    for (size_t i = 0; i < n; i++) {
        jobs[i].client = client;
        jobs[i].start = &start;
        if (pthread_create(&jobs[i].thread, NULL, work, &jobs[i]))
            give_up("no thread");
    }
    pthread_barrier_wait(&start);
    double t = now_us();
    for (size_t i = 0; i < n; i++) {
        pthread_join(jobs[i].thread, NULL);
        if (jobs[i].rc < 0 && failed++ == 0)
            fprintf(stderr, "bench: burst: %s\n", jobs[i].err.msg);
    }
    figure((fig){ "burst", "ms", (now_us() - t) / 1e3, 0, (double)failed, "<=0", n });
    cay_client_close(client);
    free(jobs);
    return 0;
}
