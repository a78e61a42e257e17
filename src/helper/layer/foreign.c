/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are read for nobody who is not root. */
#include "tool.h"

static bool apart;
static uid_t apart_uid;

void meta_apart(uid_t uid)
{
    apart = true;
    apart_uid = uid;
}

bool meta_foreign(const struct stat *st)
{
    if (!apart || st->st_uid == apart_uid ||
        (st->st_uid >= TOOL_STORE && st->st_uid - TOOL_STORE < 65536))
        return false;
    errno = EPERM;
    return true;
}
