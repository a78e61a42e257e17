/* SPDX-License-Identifier: Apache-2.0 */
#include "history.h"
#include <dirent.h>

enum { GAP_MS = 60000 /* with more between them two moments tell nothing about each other */ };
#define PREFIX "use."
#define FORMER "figures." /* without the network */

static void name_of(const char *id, char out[64])
{
    snprintf(out, 64, PREFIX "%.40s", id);
}

int cay__history_put(int dir, const char *id, const cay__moment *m)
{
    char name[64];
    name_of(id, name);
    CAY_AUTOFD fd = openat(dir, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    off_t at = (off_t)(m->ms / CAY__HISTORY_STEP_MS % CAY__HISTORY_MOMENTS) * (off_t)sizeof *m;
    if (fd >= 0 && pwrite(fd, m, sizeof *m, at) == (ssize_t)sizeof *m)
        return 0;
    return -1;
}

void cay__history_drop(int dir, const char *id)
{
    char name[64];
    name_of(id, name);
    unlinkat(dir, name, 0);
}

static int by_time(const void *a, const void *b)
{
    const cay__moment *x = a, *y = b;
    if (x->ms < y->ms)
        return -1;
    return x->ms > y->ms;
}

/* All of a file that makes sense, in order. */
static size_t load_moments(int dir, const char *id, cay__moment *v)
{
    char name[64];
    struct stat st;
    size_t n = 0, have = 0;
    name_of(id, name);
    CAY_AUTOFD fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return 0;
    for (ssize_t got;
         have < CAY__HISTORY_MOMENTS * sizeof *v &&
         (got = read(fd, (char *)v + have, CAY__HISTORY_MOMENTS * sizeof *v - have)) > 0;)
        have += (size_t)got;
    for (size_t i = 0; i < have / sizeof *v; i++)
        if (v[i].ms > 0 &&
            v[i].ms / CAY__HISTORY_STEP_MS % CAY__HISTORY_MOMENTS == (int64_t)i) /* not a hole */
            v[n++] = v[i];
    qsort(v, n, sizeof *v, by_time);
    return n;
}

/* A millisecond's worth; a counter that is smaller than before began anew. */
static double compute_rate(bool near, uint64_t was, uint64_t is, int64_t ms)
{
    if (near && is >= was)
        return (double)(is - was) / (double)ms;
    return 0;
}

size_t cay__history_read(int dir, const char *id, int64_t start_ms, int64_t end_ms,
                         void (*fn)(const cay__moment *m, const cay__pace *pace, void *arg),
                         void *arg)
{
    CAY_AUTOFREE cay__moment *v = cay__alloc(CAY__HISTORY_MOMENTS * sizeof *v);
    size_t n = load_moments(dir, id, v), first = 0, last = n, told = 0;
    while (first < n && v[first].ms < start_ms)
        first++;
    while (last > first && v[last - 1].ms > end_ms)
        last--;
    size_t every = (last - first + CAY__HISTORY_POINTS - 1) / CAY__HISTORY_POINTS;
    for (size_t i = first, before = first ? first - 1 : first; i < last; i++) {
        if (i % every != (last - 1) % every) /* the newest is always there */
            continue;
        const cay__moment *was = &v[before], *is = &v[i];
        int64_t ms = is->ms - was->ms;
        bool near = before < i && ms > 0 && ms <= (int64_t)every * GAP_MS;
        fn(is,
           &(cay__pace){ compute_rate(near, was->cpu_us, is->cpu_us, ms) / 10,
                         compute_rate(near, was->net_rx, is->net_rx, ms) * 1000,
                         compute_rate(near, was->net_tx, is->net_tx, ms) * 1000 },
           arg);
        before = i;
        told++;
    }
    return told;
}

void cay__history_sweep(int dir, bool (*alive)(const char *id, void *arg), void *arg)
{
    int fd = fcntl(dir, F_DUPFD_CLOEXEC, 3);
    DIR *d = NULL;
    if (fd >= 0)
        d = fdopendir(fd);
    if (!d && fd >= 0)
        close(fd);
    if (d)
        rewinddir(d); /* the position is shared with `dir` */
    for (struct dirent *e; d && (e = readdir(d));)
        if (cay__str_starts(e->d_name, FORMER) ||
            (cay__str_starts(e->d_name, PREFIX) && !alive(e->d_name + sizeof PREFIX - 1, arg)))
            unlinkat(dir, e->d_name, 0);
    if (d)
        closedir(d);
}
