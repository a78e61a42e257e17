/* SPDX-License-Identifier: Apache-2.0 */
#include "run.h"
#include <base/spec.h>

cay_capability *cay_capability_new(const cay_capability_ops *ops, void *self)
{
    cay_capability *c = cay__alloc(sizeof *c);
    c->ops = &c->own;
    c->self = self;
    if (ops && cay__spec_take(&c->own, sizeof c->own, ops, "cay_capability_ops", NULL) == 0 &&
        c->own.name)
        return c;
    free(c);
    return NULL;
}

void cay_cap_free(cay_capability *c)
{
    if (!c)
        return;
    if (c->ops->close)
        c->ops->close(c->self);
    free(c);
}

void cay_cap_configure(cay_capability *c, int (*fn)(void *arg, cay_tool *tool, cay_err *err),
                       void *arg)
{
    c->configure = fn;
    c->configure_arg = arg;
}

void *cay__capability_self(const cay_capability *c, const char *name)
{
    if (strcmp(c->ops->name, name))
        return NULL;
    return c->self;
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
