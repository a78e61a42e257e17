/* SPDX-License-Identifier: Apache-2.0 */
/* What is mounted in a sandbox: the kernel writes it, but names in it are the tenant's. */
#include <daemon/keeper/mountinfo.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static mountinfo m;
    if (len >= sizeof m.text)
        return 0;
    memcpy(m.text, data, len);
    m.text[len] = 0;
    bool ok = mountinfo_parse(&m);
    if (m.n > MOUNTS_MAX || (ok && (m.root < 0 || (size_t)m.root >= m.n || m.cover >= (int)m.n ||
                                    m.line[m.root].path[1])))
        abort();
    for (size_t i = 0; ok && i < m.n; i++)
        if (m.line[i].path[0] != '/' || m.line[i].path < m.text ||
            m.line[i].path + strlen(m.line[i].path) > m.text + len)
            abort();
    return 0;
}
