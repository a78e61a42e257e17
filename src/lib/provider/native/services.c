/* SPDX-License-Identifier: Apache-2.0 */
/* Services of a native sandbox: told to init in the config, asked of the keeper. */
#include "box_ops.h"
#include <base/base.h>
#include <cay/services.h>
#include <proto/init.h>
#include <poll.h>
#include <sys/socket.h>

/* user NUL cwd NUL tag NUL argv… env…, as a spawn has it. */
static uint32_t add_blob(cay__buf *b, const cay_service *u, const char *const *argv,
                         const char *shell, uint32_t *argc, uint32_t *envc)
{
    size_t from = b->len;
    cay__buf_cstr(b, u->user);
    cay__buf_cstr(b, u->cwd);
    cay__buf_cstr(b, "");
    for (*argc = shell != NULL; argv && argv[*argc]; ++*argc)
        cay__buf_cstr(b, argv[*argc]);
    if (shell)
        cay__buf_cstr(b, shell);
    *envc = cay__env_add(b, u->env);
    return (uint32_t)(b->len - from);
}

static uint32_t after_bits(const cay_box_spec *spec, const cay_service *u)
{
    uint32_t bits = 0;
    for (const char *const *a = u->after; a && *a; a++)
        for (size_t i = 0; i < spec->nservices; i++)
            if (!strcmp(*a, spec->services[i].name))
                bits |= 1u << i;
    return bits;
}

static void build_title(const cay_service *u, char *out, size_t cap)
{
    size_t n = 0;
    cay__str_copy(out, cap, "");
    for (const char *const *a = u->argv; a && *a && n + 1 < cap; a++) {
        cay__str_join(out + n, cap - n, CAY_TEXT_IF(n, " "), *a, NULL);
        n = strlen(out);
    }
    if (u->shell)
        cay__str_join(out, cap, u->shell, NULL);
}

void cay__services_wire(cay__buf *b, const cay_box_spec *spec, bool wait, bool each)
{
    const cay_create *c = spec->create;
    cay_g_services head = { (uint32_t)CAY_MIN(spec->nservices, (size_t)CAY_SERVICES_MAX),
                            CAY_FLAG_IF(wait, CAY_GUF_WAIT) | CAY_FLAG_IF(each, CAY_GUF_EACH) |
                                CAY_FLAG_IF(c->isolation.sudo, CAY_GUF_SUDO) };
    if (!head.n && !c->isolation.sudo)
        return;
    cay__buf_add(b, CAY_SERVICES_MARK, sizeof CAY_SERVICES_MARK);
    cay__buf_add(b, &head, sizeof head);
    for (size_t i = 0; i < head.n; i++) {
        const cay_service *u = &spec->services[i];
        cay_g_service w = { .flags = CAY_FLAG_IF(u->shell, CAY_SPAWN_SHELL),
                            .check_flags = CAY_FLAG_IF(u->health_shell, CAY_SPAWN_SHELL),
                            .after = after_bits(spec, u),
                            .port = u->port,
                            .tcp = u->health_tcp,
                            .restart = (uint32_t)u->restart,
                            .interval_ms = CAY_OR(u->interval_ms, 10000),
                            .timeout_ms = CAY_OR(u->timeout_ms, 5000),
                            .stop_ms = CAY_OR(u->stop_ms, 5000) };
        CAY_AUTOBUF blobs = CAY__BUF(CAY_TAIL_MAX);
        CAY_COPY(w.name, u->name);
        build_title(u, w.title, sizeof w.title);
        w.blob = add_blob(&blobs, u, u->argv, u->shell, &w.argc, &w.envc);
        if (u->health_argv || u->health_shell)
            w.check =
                add_blob(&blobs, u, u->health_argv, u->health_shell, &w.check_argc, &w.check_envc);
        else if (!w.tcp)
            w.tcp = w.port;
        b->full |= blobs.full;
        cay__buf_add(b, &w, sizeof w);
        cay__buf_add(b, blobs.data, blobs.len);
    }
    cay__buf_add(b, "", 1); /* the config ends with a NUL */
}

/* A socket that init answers on: one packet a service, then one for each change. */
static int open_services(const cay__served *b, const cay_call *call, const char *name, int op,
                         int *out, cay_err *err)
{
    int sv[2];
    cay_m_stream m = { .which = (uint32_t)op };
    CAY_TRY(cay__served_ready(b, err));
    CAY_TRY_SYS(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv), err,
                "socket for services");
    CAY_AUTOFD mine = sv[0], theirs = sv[1];
    CAY_COPY(m.id, b->id);
    CAY_COPY(m.proc, CAY_OR(name, ""));
    CAY_TRY(cay__link_call(
        b->link, call, CAY__LINK_ASK(CAY_MSG_SERVICES, m, .fds = &theirs, .nfds = 1), NULL, err));
    *out = CAY_STEAL_FD(mine);
    return 0;
}

static int read_service(int sock, const cay_call *call, cay_g_told *t, cay_err *err)
{
    CAY_TRY(cay__call_wait(call, sock, POLLIN, "services", err));
    ssize_t n = recv(sock, t, sizeof *t, MSG_DONTWAIT);
    if (n != sizeof *t)
        return cay_fail_why(err, CAY_EGONE, "services_lost",
                            "the sandbox ended, or has too many who ask for its services");
    t->name[sizeof t->name - 1] = t->proc[sizeof t->proc - 1] = t->reason[sizeof t->reason - 1] = 0;
    for (char *s = t->reason; *s; s++) /* all of it comes from inside */
    {
        if ((unsigned char)*s < 0x20 || (unsigned char)*s > 0x7e)
            *s = '?';
    }
    return 0;
}

static cay_service_info build_service_info(const cay_g_told *t)
{
    cay_service_info u = { .size = sizeof u,
                           .name = t->name,
                           .state = t->state <= CAY_SERVICE_STOPPED ? (cay_service_state)t->state
                                                                    : CAY_SERVICE_FAILED,
                           .pid = t->pid,
                           .port = (uint16_t)t->port,
                           .restarts = t->restarts,
                           .code = t->code,
                           .reason = t->reason,
                           .process = t->proc,
                           .since_ms = t->since_ms,
                           .ready_ms = t->ready_ms,
                           .ready_after_ms = t->ready_after_ms,
                           .wait_ms = t->wait_ms };
    u.ready = u.state == CAY_SERVICE_READY || u.state == CAY_SERVICE_DONE;
    return u;
}

static int report_services(const cay_g_told *list, size_t n, cay_service_info_fn *fn, void *arg)
{
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++) {
        cay_service_info u = build_service_info(&list[i]);
        rc = fn(&u, arg);
    }
    return rc;
}

/* The first round; *n: how many. */
static int read_services(int sock, const cay_call *call, cay_g_told list[CAY_SERVICES_MAX],
                         size_t *n, cay_err *err)
{
    for (*n = 0;;) {
        cay_g_told t;
        CAY_TRY(read_service(sock, call, &t, err));
        if (t.place == UINT32_MAX)
            return 0;
        if (t.place != *n || *n == CAY_SERVICES_MAX)
            return cay_fail_why(err, CAY_EUPSTREAM, "protocol",
                                "services were told in a wrong form");
        list[(*n)++] = t;
    }
}

int cay__served_services(void *box, const cay_call *call, cay_service_info_fn *fn,
                         int (*more)(void *), void *arg, cay_err *err)
{
    cay_g_told list[CAY_SERVICES_MAX], t;
    size_t n;
    int rc;
    CAY_AUTOFD sock = -1;
    CAY_TRY(open_services(box, call, NULL, 0, &sock, err));
    CAY_TRY(read_services(sock, call, list, &n, err));
    for (;;) {
        if ((rc = report_services(list, n, fn, arg)) || !more || !(rc = more(arg)))
            return rc;
        CAY_TRY(rc);
        CAY_TRY(read_service(sock, call, &t, err));
        if (t.place >= n)
            return cay_fail_why(err, CAY_EUPSTREAM, "protocol",
                                "services were told in a wrong form");
        list[t.place] = t;
    }
}

int cay__served_service_act(void *box, const cay_call *call, const char *name, int op, cay_err *err)
{
    cay_g_told list[CAY_SERVICES_MAX];
    size_t n;
    CAY_AUTOFD sock = -1;
    CAY_TRY(open_services(box, call, name, op, &sock, err));
    CAY_TRY(read_services(sock, call, list, &n, err));
    for (size_t i = 0; name && i < n; i++)
        if (!strcmp(list[i].name, name))
            return 0;
    if (!name)
        return 0;
    return cay_fail_why(err, CAY_ENOENT, "service_not_found",
                        "service %.40s: there is none of this name", name);
}
