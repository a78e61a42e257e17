/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server with every dialect as it is, but for the handlers: each of them says only that it was
 * reached. GET /routes lists the rows. test_admission.py walks them with the wrong credentials.
 */
#define cay__dialects real_dialects
#include <server/dialects.c>
#undef cay__dialects

enum { DIALECTS = CAY_LEN(real_dialects) - 1 };

static int on_reached(cay__req *r, cay_err *err)
{
    (void)err;
    cay__reply_field(r, "X-Reached", r->dialect->name);
    return cay__reply(r, 200, "text/plain", "", 0);
}

static int on_routes(cay__req *r, cay_err *err)
{
    json_t *list = json_array();
    (void)err;
    for (size_t i = 0; i < DIALECTS; i++)
        for (size_t k = 0; k < real_dialects[i]->nroutes; k++) {
            const cay__dialect *d = real_dialects[i];
            const cay__operation *op = d->routes[k].op;
            json_array_append_new(
                list,
                json_pack("{s:s, s:s, s:s, s:s, s:b, s:b, s:b, s:b, s:b, s:b, s:b}", "dialect",
                          d->name, "base", CAY_OR(d->base, ""), "method", op->method, "path",
                          op->path, "open", op->flags & CAY__OP_OPEN, "token",
                          op->flags & CAY__OP_TOKEN, "admin", op->flags & CAY__OP_ADMIN, "shared",
                          op->flags & CAY__OP_SHARED, "box", op->flags & CAY__OP_BOX, "file",
                          op->flags & CAY__OP_FILE, "find", op->flags & CAY__OP_FIND));
        }
    return cay__reply_json(r, 200, list);
}

static const cay__route list_route = CAY__ROUTE("GET", "/routes", on_routes, CAY__OP_OPEN);

static cay__dialect walked[DIALECTS];
const cay__dialect *const cay__dialects[] = { &walked[0], &walked[1], &walked[2], &walked[3],
                                              &walked[4], &walked[5], &walked[6], NULL };
_Static_assert(CAY_LEN(cay__dialects) == CAY_LEN(real_dialects), "one copy for each dialect");

__attribute__((constructor)) static void copy_dialects(void)
{
    for (size_t i = 0; i < DIALECTS; i++) {
        const cay__dialect *d = real_dialects[i];
        cay__route *rows = cay__alloc((d->nroutes + 1) * sizeof *rows);
        for (size_t k = 0; k < d->nroutes; k++)
            rows[k] = (cay__route){ d->routes[k].op, on_reached };
        walked[i] = *d;
        walked[i].routes = rows;
        if (d == &cay__dialect_root)
            rows[walked[i].nroutes++] = list_route;
    }
}
