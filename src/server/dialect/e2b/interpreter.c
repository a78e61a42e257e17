/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The code interpreter that SDKs expect on port 49999. It is a program inside the sandbox
 * (src/helper/interpreter), a service of its template or started when it is wanted first: whoever
 * has the sandbox's token is passed on to it, and what it answers is passed back, by the preview
 * proxy's code. Nothing is remembered here.
 */
#include "e2b.h"
#include <server/preview/preview.h>

/* What opens our doors is nobody's inside, where any program may have taken the port. */
static void keep_secrets(cay__head *h)
{
    static const char *const ours[] = { "x-access-token", "authorization", "x-api-key", "cookie",
                                        "origin" };
    size_t n = 0;
    CAY_EACH_OF(field, h->fields, h->nfields) {
        bool drop = cay__str_starts(field->name, "e2b-");
        for (size_t k = 0; k < CAY_LEN(ours) && !drop; k++)
            drop = !strcmp(field->name, ours[k]);
        if (!drop)
            h->fields[n++] = *field;
    }
    h->nfields = n;
}

/* To be put in and started takes longer than to be reached, on a busy machine. */
static int connect_interpreter(cay_sandbox *sb, const cay_call *call, uint16_t port, int *fd,
                               cay_err *err)
{
    cay_call own = *call;
    own.deadline_ms = cay__now_ms() + 30000;
    return cay_interpreter_connect(sb, &own, fd, err);
}

static int on_pass(cay__req *r, cay_err *err)
{
    e2b_daemon d;
    CAY_AUTOBUF head = CAY__BUF(CAY__HEAD_MAX + 4096);
    CAY_TRY(e2b_daemon_open(r, &d, err));
    /* By E2B's headers a request comes to the server's own name: its answer speaks for that no more
     * than a preview by path does. */
    cay__preview_start s = {
        .fd = -1,
        .sb = d.sb,
        .dial = connect_interpreter,
        .back = { .at = { .port = CAY_INTERPRETER_PORT, .by_path = true },
                  .tls = r->tls,
                  .http10 = r->head.minor == 0,
                  .keep = r->head.keep_alive,
                  .origin = cay__head_field(&r->head, "origin") && !r->as ? "*" : "" }
    }; /* as cors.c has it */
    CAY_COPY(s.back.at.id, d.id);
    keep_secrets(&r->head);
    cay__preview_request(&(cay__preview_ask){ .at = &s.back.at,
                                              .head = &r->head,
                                              .query = r->head.query,
                                              .peer = r->peer,
                                              .tls = r->tls },
                         &head);
    if (head.full)
        return cay_fail_why(err, CAY_ETOOBIG, "head_too_big",
                            "the head is too long to be passed on");
    return cay__preview_flow(r, &s, &head);
}

/* Without a token nothing is asked of what is inside: a sandbox that runs has an interpreter for
 * whoever has one. */
static int on_health(cay__req *r, cay_err *err)
{
    e2b_daemon d;
    CAY_TRY(e2b_daemon_open(r, &d, err));
    return cay__reply(r, 200, "application/json", "\"OK\"", 4);
}

static const cay__route routes[] = {
    CAY__ROUTE("GET", "/health", on_health, CAY__OP_OPEN),
    CAY__ROUTE("POST", "/execute", on_pass, CAY__OP_TOKEN | E2B_TRAFFIC | CAY__OP_RAW),
    CAY__ROUTE("GET", "/contexts", on_pass, CAY__OP_TOKEN | E2B_TRAFFIC | CAY__OP_RAW),
    CAY__ROUTE("POST", "/contexts", on_pass, CAY__OP_TOKEN | E2B_TRAFFIC | CAY__OP_RAW),
    CAY__ROUTE("POST", "/contexts/{id}/restart", on_pass,
               CAY__OP_TOKEN | E2B_TRAFFIC | CAY__OP_RAW),
    CAY__ROUTE("DELETE", "/contexts/{id}", on_pass, CAY__OP_TOKEN | E2B_TRAFFIC | CAY__OP_RAW),
};

/* SDKs show what an error's body says as it is. */
static int reply_error(cay__req *r, const cay_err *err)
{
    int status;
    if (err->code == CAY_EINVAL)
        status = 400;
    else if (err->code == CAY_EAUTH)
        status = 401;
    else if (err->code == CAY_ENOENT)
        status = 404;
    else if (err->code == CAY_ENOTSUP)
        status = 501;
    else if (err->code == CAY_EUPSTREAM || e2b_dead(err))
        status = 502;
    else
        status = 500;
    return cay__reply(r, status, "text/plain; charset=utf-8", err->msg, strlen(err->msg));
}

static bool is_own_request(cay__req *r)
{
    return e2b_port(&r->head) == CAY_INTERPRETER_PORT;
}

const cay__dialect cay__dialect_e2b_code = { .name = "e2b-code",
                                             .routes = routes,
                                             .nroutes = CAY_LEN(routes),
                                             .admit = e2b_daemon_admit,
                                             .fail = reply_error,
                                             .first = is_own_request,
                                             .any_origin = true };
