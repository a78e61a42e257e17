/* SPDX-License-Identifier: Apache-2.0 */
/* The tenant's /etc/passwd, and the name that a client asks for: the first line is the name, the
 * rest the file. */
#include <daemon/init/init.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char name[64];
    const uint8_t *nl = len ? memchr(data, '\n', len) : NULL;
    size_t n = nl ? (size_t)(nl - data) : 0;
    if (!nl || n >= sizeof name)
        return 0;
    memcpy(name, data, n);
    name[n] = 0;
    size_t rest = len - n - 1;
    char *file = malloc(rest ? rest : 1); /* of the exact size */
    if (!file)
        abort();
    if (rest)
        memcpy(file, nl + 1, rest);
    for (int mode = CAY_MODE_ROOT; mode <= CAY_MODE_SINGLE; mode++) {
        ident id;
        memset(&id, 'x', sizeof id);
        init.mode = mode;
        if (user_search(file, rest, name, &id))
            continue;
        if (id.uid > 65535 || id.gid > 65535 || !memchr(id.name, 0, sizeof id.name) ||
            !memchr(id.home, 0, sizeof id.home) || !memchr(id.shell, 0, sizeof id.shell) ||
            !id.shell[0])
            abort();
        if (mode == CAY_MODE_SINGLE && id.uid != 1000)
            abort();
        user_groups(file, rest, &id); /* the same text as a group file */
        for (unsigned i = 0; i < id.ngroups; i++)
            if (id.groups[i] > 65535 || id.groups[i] == id.gid)
                abort();
        if (user_group(file, rest, name, &id) == 0 && (id.gid > 65535 || id.ngroups))
            abort();
    }
    free(file);
    return 0;
}
