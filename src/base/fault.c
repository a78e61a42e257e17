/* SPDX-License-Identifier: Apache-2.0 */
#include "fault.h"
#ifdef CAY_FAULTS
#include "base.h"
#include "kernel.h"
#include <signal.h>
#include <sys/mman.h>
#include <time.h>

extern const char *const __start_cay_faults[], *const __stop_cay_faults[];
static const char *const none __attribute__((used, section("cay_faults"))) =
    ""; /* the section exists */

static char spec[96];
static unsigned countdown;
static bool loaded;
static _Atomic int64_t
    *hits; /* shared with whoever counts; survives a change of root, not an exec */
static int hits_fd = -1;

static void map_hits(void)
{
    const char *path = getenv("CAY_FAULT_HITS");
    if (path && *path)
        hits_fd = open(path, O_RDWR | O_CLOEXEC);
    else
        hits_fd = -1;
    void *p = MAP_FAILED;
    if (hits_fd >= 0)
        p = mmap(NULL, 2 * sizeof *hits, PROT_READ | PROT_WRITE, MAP_SHARED, hits_fd, 0);
    if (p == MAP_FAILED)
        hits = NULL;
    else
        hits = p;
}

int cay__fault_load(void)
{
    if (!loaded) {
        cay__fault_set(getenv("CAY_FAULT"));
        map_hits();
    }
    return hits_fd;
}

void cay__fault_set(const char *s)
{
    loaded = true;
    CAY_COPY(spec, CAY_OR(s, ""));
    char *at = strchr(spec, '@');
    uint64_t n = 1;
    if (at) {
        *at = 0;
        cay__str_to_u64(at + 1, &n);
    }
    countdown = (unsigned)n;
}

bool cay__fault(const char *name)
{
    cay__fault_load();
    size_t n = strlen(name);
    if (strncmp(spec, name, n) || spec[n] != '=' || countdown == 0 || --countdown)
        return false;
    const char *act = spec + n + 1;
    if (hits)
        ++*hits;
    if (!strcmp(act, "kill")) {
        kill(getpid(), SIGKILL);
        _exit(137); /* pid 1 of a namespace does not hear its own signals */
    }
    if (cay__str_starts(act, "delay:")) {
        uint64_t ms = 0;
        cay__str_to_u64(act + 6, &ms);
        nanosleep(&(struct timespec){ (time_t)(ms / 1000), (long)(ms % 1000) * 1000000 }, NULL);
        return false;
    }
    errno = EIO;
    return !strcmp(act, "fail");
}

bool cay__kernel_lacks(cay__kernel feature)
{
    static const char *const names[] = {
#define CAY_KERNEL(id, name, since, used, without) [CAY_KERNEL_##id] = name,
#include "kernel.def"
#undef CAY_KERNEL
    };
    size_t n = strlen(names[feature]);
    for (const char *p = getenv("CAY_LACK"); p && *p; p += *p == ',') {
        size_t len = strcspn(p, ",");
        if (len == n && !strncmp(p, names[feature], n)) {
            errno = EINVAL;
            return true;
        }
        p += len;
    }
    return false;
}

int64_t cay__fault_clock(void)
{
    cay__fault_load();
    if (hits)
        return hits[1];
    return 0;
}

void cay__fault_list(void (*fn)(const char *name))
{
    for (const char *const *p = __start_cay_faults; p < __stop_cay_faults; p++)
        if (**p)
            fn(*p);
}
#endif
