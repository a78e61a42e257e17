/* SPDX-License-Identifier: Apache-2.0 */
#include "fault.h"
#ifdef CAY_FAULTS
#include "base.h"
#include "str.h"
#include <signal.h>
#include <time.h>

extern const char *const __start_cay_faults[], *const __stop_cay_faults[];
static const char *const none __attribute__((used, section("cay_faults"))) = ""; /* the section exists */

static char spec[96];
static unsigned countdown;
static bool loaded;

void cay__fault_set(const char *s)
{
    loaded = true;
    cay__str_copy(spec, sizeof spec, s ? s : "");
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
    if (!loaded)
        cay__fault_set(getenv("CAY_FAULT"));
    size_t n = strlen(name);
    if (strncmp(spec, name, n) || spec[n] != '=' || countdown == 0 || --countdown)
        return false;
    const char *act = spec + n + 1;
    if (!strcmp(act, "kill"))
        kill(getpid(), SIGKILL);
    if (cay__str_starts(act, "delay:")) {
        uint64_t ms = 0;
        cay__str_to_u64(act + 6, &ms);
        nanosleep(&(struct timespec){ (time_t)(ms / 1000), (long)(ms % 1000) * 1000000 }, NULL);
        return false;
    }
    errno = EIO;
    return !strcmp(act, "fail");
}

void cay__fault_list(void (*fn)(const char *name))
{
    for (const char *const *p = __start_cay_faults; p < __stop_cay_faults; p++)
        if (**p)
            fn(*p);
}
#endif
