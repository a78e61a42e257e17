/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes and times as people write them; not linked by the keeper. */
#include "base.h"
#include "str.h"
#include <signal.h>

/* digits[.digits] in thousandths, and what follows it */
static bool parse_milli(const char *s, uint64_t *out, const char **rest)
{
    uint64_t v = 0, f = 0, unit = 1000;
    const char *p = s;
    for (; *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(v, 10u, &v) ||
            __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
            return false;
    if (p == s)
        return false;
    if (*p == '.')
        for (p++; *p >= '0' && *p <= '9'; p++)
            f += (uint64_t)(*p - '0') * (unit /= 10);
    if (__builtin_mul_overflow(v, 1000u, &v) || __builtin_add_overflow(v, f, &v))
        return false;
    *out = v;
    *rest = p;
    return true;
}

bool cay__str_to_size(const char *s, uint64_t *out)
{
    uint64_t v;
    const char *p;
    unsigned shift = 0;
    if (!strcmp(s, "unlimited")) {
        *out = UINT64_MAX;
        return true;
    }
    if (!parse_milli(s, &v, &p))
        return false;
    switch (*p | 0x20) {
    case 'k': shift = 10; break;
    case 'm': shift = 20; break;
    case 'g': shift = 30; break;
    case 't': shift = 40; break;
    default: break;
    }
    if (shift)
        p++;
    if (shift && (!strcmp(p, "iB") || !strcmp(p, "ib") || !strcmp(p, "i")))
        p += strlen(p);
    else if (!strcmp(p, "B") || !strcmp(p, "b"))
        p++;
    unsigned __int128 n = ((unsigned __int128)v << shift) / 1000;
    if (*p || n >= UINT64_MAX)
        return false;
    *out = (uint64_t)n;
    return true;
}

bool cay__str_to_ms(const char *s, uint64_t *out)
{
    static const struct {
        const char *name;
        uint64_t ms;
    } units[] = { { "", 1000 },   { "ms", 1 },      { "s", 1000 },
                  { "m", 60000 }, { "h", 3600000 }, { "d", 86400000 } };
    uint64_t v;
    const char *p;
    if (!strcmp(s, "unlimited")) {
        *out = UINT64_MAX;
        return true;
    }
    if (!parse_milli(s, &v, &p))
        return false;
    CAY_EACH(unit, units)
        if (!strcmp(p, unit->name)) {
            unsigned __int128 n = (unsigned __int128)v * unit->ms / 1000;
            *out = (uint64_t)n;
            return n < INT64_MAX;
        }
    return false;
}

/* As sigabbrev_np(3), which musl lacks. */
const char *cay__signal_name(int sig)
{
    static const char *const names[] = {
        [SIGHUP] = "HUP",   [SIGINT] = "INT",       [SIGQUIT] = "QUIT", [SIGILL] = "ILL",
        [SIGTRAP] = "TRAP", [SIGABRT] = "ABRT",     [SIGBUS] = "BUS",   [SIGFPE] = "FPE",
        [SIGKILL] = "KILL", [SIGUSR1] = "USR1",     [SIGSEGV] = "SEGV", [SIGUSR2] = "USR2",
        [SIGPIPE] = "PIPE", [SIGALRM] = "ALRM",     [SIGTERM] = "TERM", [SIGSTKFLT] = "STKFLT",
        [SIGCHLD] = "CHLD", [SIGCONT] = "CONT",     [SIGSTOP] = "STOP", [SIGTSTP] = "TSTP",
        [SIGTTIN] = "TTIN", [SIGTTOU] = "TTOU",     [SIGURG] = "URG",   [SIGXCPU] = "XCPU",
        [SIGXFSZ] = "XFSZ", [SIGVTALRM] = "VTALRM", [SIGPROF] = "PROF", [SIGWINCH] = "WINCH",
        [SIGIO] = "POLL",   [SIGPWR] = "PWR",       [SIGSYS] = "SYS",
    };
    if (sig <= 0 || (size_t)sig >= CAY_LEN(names))
        return NULL;
    return names[sig];
}
