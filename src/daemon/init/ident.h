/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/init/ident.h - a user of the sandbox, as its own /etc/passwd and /etc/group tell. */
#pragma once
#include <stdint.h>
#include <sys/types.h>

typedef struct ident {
    uid_t uid;
    gid_t gid;
    char name[64], home[128], shell[64];
    uint32_t groups[16]; /* the other groups it is a member of */
    unsigned ngroups;
} ident;

/* By name or number; "root" and "user" are there even without a file. 0 or errno. */
int user_find(const char *name, ident *out);
