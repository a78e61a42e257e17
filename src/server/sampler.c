/* SPDX-License-Identifier: Apache-2.0 */
/* The thread behind history.h. */
#include "history.h"
#include <cay/access.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

#define BELOW "history"

enum { STACK = 1 << 20, CALL_MS = 4000, SWEEP_ROUNDS = 60, ALL_ROUNDS = 3 };

struct cay__history {
    cay_client *client;
    pthread_t thread;
    int stop; /* readable: end */
};

int cay__history_dir(cay_client *client, int *fd, cay_err *err)
{
    CAY_AUTOFD home = open(cay_client_home(client), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (home < 0 || (mkdirat(home, BELOW, 0700) < 0 && errno != EEXIST))
        return cay_fail_sys(err, "the directory of figures");
    *fd = openat(home, BELOW, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (*fd < 0)
        return cay_fail_sys(err, "the directory of figures");
    return 0;
}

/* Ids, each with its NUL. */
enum { IDS_MAX = 1 << 20 };

static int on_list_sandbox(const cay_info *i, void *arg)
{
    cay__buf_add(arg, i->id, strlen(i->id) + 1);
    return 0;
}

static int take_e2b(const cay_info *i, void *arg)
{
    if (strstr(CAY_OR(i->metadata, ""), "\"e2b\":"))
        return on_list_sandbox(i, arg);
    return 0;
}

static bool is_listed_id(const char *id, void *arg)
{
    const cay__buf *l = arg;
    if (!strcmp(id, CAY__HISTORY_ALL))
        return true;
    for (size_t at = 0; at < l->len; at += strlen(l->data + at) + 1)
        if (!strcmp(l->data + at, id))
            return true;
    return false;
}

static void sample_sandbox(cay_client *client, int dir, const char *id, const cay_call *call,
                           cay__moment *sum)
{
    cay_sandbox *sb = NULL;
    cay_usage u = { .size = sizeof u };
    if (cay_client_find_of(client, call, NULL, id, &sb, NULL) < 0)
        return;
    if (cay_sandbox_usage(sb, call, &u, NULL) == 0) {
        cay__history_put(
            dir, id,
            &(cay__moment){ cay__clock_ms(), u.cpu_us, u.memory, u.disk, u.net_rx, u.net_tx });
        sum->cpu_us += u.cpu_us;
        sum->memory += u.memory;
        sum->disk += u.disk;
        sum->net_rx += u.net_rx;
        sum->net_tx += u.net_tx;
    }
    cay_sandbox_unref(sb);
}

static void round_of(struct cay__history *h, unsigned round)
{
    const cay_call call = { .size = sizeof call,
                            .deadline_ms = cay__now_ms() + CALL_MS,
                            .cancel_fd = h->stop,
                            .actor = "figures" };
    const cay_filter running = { .size = sizeof running, .states = 1u << CAY_RUNNING };
    CAY_AUTOFD dir = -1;
    CAY_AUTOBUF l = CAY__BUF(IDS_MAX);
    if (cay__history_dir(h->client, &dir, NULL) < 0)
        return;
    bool all = round % ALL_ROUNDS == 0;
    cay__moment sum = { .ms = cay__clock_ms() };
    if (cay_client_list(h->client, &call, &running, all ? on_list_sandbox : take_e2b, &l, NULL) ==
        0) {
        for (size_t at = 0; at < l.len; at += strlen(l.data + at) + 1)
            sample_sandbox(h->client, dir, l.data + at, &call, &sum);
        if (all && l.len) /* where nothing runs nothing is written */
            cay__history_put(dir, CAY__HISTORY_ALL, &sum);
    }
    cay__buf_clear(&l);
    /* What ended otherwise than by a request leaves its file; only a list that is whole says so. */
    if (round % SWEEP_ROUNDS == 0 &&
        cay_client_list(h->client, &call, NULL, on_list_sandbox, &l, NULL) == 0 && !l.full)
        cay__history_sweep(dir, is_listed_id, &l);
}

static void *run_sampler(void *arg)
{
    struct cay__history *h = arg;
    struct pollfd p = { .fd = h->stop, .events = POLLIN };
    for (unsigned i = 0;
         poll(&p, 1, CAY__HISTORY_STEP_MS - (int)(cay__clock_ms() % CAY__HISTORY_STEP_MS)) == 0;
         i++)
        round_of(h, i);
    return NULL;
}

int cay__history_start(cay_client *client, struct cay__history **out, cay_err *err)
{
    struct cay__history *h = cay__alloc(sizeof *h);
    pthread_attr_t attr;
    *h = (struct cay__history){ .client = client, .stop = eventfd(0, EFD_CLOEXEC) };
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK);
    int e;
    if (h->stop < 0)
        e = errno;
    else
        e = pthread_create(&h->thread, &attr, run_sampler, h);
    pthread_attr_destroy(&attr);
    if (!e) {
        *out = h;
        return 0;
    }
    cay__close_fd(&h->stop);
    free(h);
    errno = e;
    return cay_fail_sys(err, "start to keep figures");
}

void cay__history_stop(struct cay__history *h)
{
    if (!h)
        return;
    (void)!eventfd_write(h->stop, 1);
    pthread_join(h->thread, NULL);
    cay__close_fd(&h->stop);
    free(h);
}
