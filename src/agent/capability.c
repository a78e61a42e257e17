/* SPDX-License-Identifier: Apache-2.0 */
#include "run.h"

cay_capability *cay_capability_new(const cay_capability_ops *ops, void *self)
{
    cay_capability *c = cay__alloc(sizeof *c);
    *c = (cay_capability){ .ops = ops, .self = self };
    return c;
}

void cay_cap_free(cay_capability *c)
{
    if (!c)
        return;
    if (c->ops->close)
        c->ops->close(c->self);
    free(c);
}

void *cay__capability_self(const cay_capability *c, const char *name)
{
    return strcmp(c->ops->name, name) ? NULL : c->self;
}

const char *cay_cap_name(const cay_capability *c)
{
    return c->ops->name;
}

size_t cay__default_capabilities(cay_capability **out)
{
    out[0] = cay_cap_filesystem(NULL);
    out[1] = cay_cap_shell(NULL);
    out[2] = cay_cap_compaction(NULL);
    return 3;
}
