/* SPDX-License-Identifier: Apache-2.0 */
#include "lifecycle.h"
#include <base/base.h>

#define B CAY__BIT

/* A record is born CREATING and leaves by removal; GONE and NONE are never recorded. DAMAGED is
 * what a reader makes of a record it cannot read; all that can be done with it is to remove it. */
static const struct {
    const char *name;
    unsigned from;
} states[] = {
    [CAY_STATE_NONE] = { "none", 0 },
    [CAY_CREATING] = { "creating", 0 },
    [CAY_RUNNING] = { "running", B(CAY_CREATING) | B(CAY_PAUSED) | B(CAY_STOPPED) },
    [CAY_PAUSED] = { "paused", B(CAY_RUNNING) },
    [CAY_STOPPED] = { "stopped", B(CAY_RUNNING) | B(CAY_PAUSED) },
    [CAY_DELETING] = { "deleting", B(CAY_CREATING) | B(CAY_RUNNING) | B(CAY_PAUSED) |
                                       B(CAY_STOPPED) | B(CAY_DAMAGED) },
    [CAY_GONE] = { "gone", 0 },
    [CAY_DAMAGED] = { "damaged", 0 },
};

static const char *const levels[] = {
    [CAY_LEVEL_NONE] = "none", [CAY_LEVEL_PROCESS] = "process", [CAY_LEVEL_ROOTLESS] = "rootless",
    [CAY_LEVEL_ROOT] = "root", [CAY_LEVEL_VM] = "vm",
};

const char *cay_state_name(cay_state s)
{
    if ((unsigned)s < CAY_LEN(states))
        return states[s].name;
    return "unknown";
}

cay_state cay_state_parse(const char *name)
{
    for (size_t i = 0; name && i < CAY_LEN(states); i++)
        if (!strcmp(name, states[i].name))
            return (cay_state)i;
    return CAY_STATE_NONE;
}

const char *cay_level_name(cay_level l)
{
    if ((unsigned)l < CAY_LEN(levels))
        return levels[l];
    return "unknown";
}

int cay_level_parse(const char *name)
{
    for (size_t i = 0; name && i < CAY_LEN(levels); i++)
        if (!strcmp(name, levels[i]) || (name[0] == (char)('0' + i) && !name[1]))
            return (int)i;
    return -1;
}

unsigned cay__state_from(cay_state to)
{
    if ((unsigned)to < CAY_LEN(states))
        return states[to].from;
    return 0;
}

bool cay__state_may(cay_state from, cay_state to)
{
    return (unsigned)from < CAY_LEN(states) && (cay__state_from(to) & B(from));
}

bool cay__state_live(cay_state s)
{
    return s == CAY_RUNNING || s == CAY_PAUSED;
}
