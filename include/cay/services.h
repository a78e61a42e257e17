/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay/services.h - commands that a sandbox keeps running: a web server, a database, a display.
 *
 *   cay_services_parse()       services as JSON, judged
 *   cay_services_list()        … as plain structs
 *   cay_services_merge()       a template's, then one's own
 *   cay_services_json()        … as the canonical JSON
 *   cay_sandbox_services()     how each of them does
 *   cay_sandbox_service_act()  start, stop, restart
 *   cay_sandbox_services_wait()  until they are ready
 *
 * The word service belongs to cay/client.h, so in C one of them is a service. They are given to
 * cay_create.services as one JSON text: an object by name, or a list of objects with "name"
 * (docs/services.md has every field):
 *
 *   {"web": {"command": ["python3", "-m", "http.server", "8000"], "port": 8000, "restart":
 * "always", "after": ["db"]}, "db":  {"command": "exec /opt/db", "health": {"command": "db ping"}}}
 *
 * init starts them before anybody can ask for a command, in the order of `after`, and again after
 * undo, fork, resume and restore.
 */
#pragma once
#include <cay/error.h>
#include <cay/client.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CAY_SERVICES_MAX   32          /* of one sandbox */
#define CAY_SERVICES_BYTES (24u << 10) /* of all their commands and variables together */
#define CAY_SERVICE_NAME                                                                           \
    24 /* bytes of a name with its NUL: a-z 0-9 . _ -, begins with a letter                        \
        */

typedef enum cay_restart {
    CAY_RESTART_ON_FAILURE = 0,
    CAY_RESTART_NO,
    CAY_RESTART_ALWAYS
} cay_restart;

typedef struct cay_service {
    size_t size;
    const char *name;
    const char *const *argv;        /* NULL-terminated; or shell */
    const char *shell;              /* one line for the sandbox's shell */
    const cay_pair *env;            /* beside the sandbox's own; ends with a NULL key, or NULL */
    const char *user, *cwd;         /* NULL: the sandbox's */
    uint16_t port;                  /* what it listens on, 0: nothing that is known */
    const char *const *health_argv; /* ready when this ends with 0; or health_shell */
    const char *health_shell;
    uint16_t health_tcp;  /* … or when this port of loopback takes a connection. Neither: at once;
                             with port: that one */
    uint32_t interval_ms; /* between two looks once it is ready, 0: 10 s. Until then it is looked at
                             all the time */
    uint32_t timeout_ms;  /* of one health command, 0: 5 s */
    uint32_t stop_ms;     /* between TERM and KILL, 0: 5 s */
    cay_restart restart;  /* after 100 ms, then twice as long each time, up to 30 s */
    const char *const *after; /* names that have to be ready first; NULL-terminated, or NULL */
} cay_service;

typedef struct cay_services cay_services;
/* CAY_EINVAL, reason "services_invalid", detail {"service":…,"reason":…}, names the service and the
 * field; a circle of `after` as well. */
CAY_API int cay_services_parse(const char *json, size_t len, cay_services **out, cay_err *err);
CAY_API void cay_services_free(cay_services *u);
/* Lives as long as u. */
CAY_API const cay_service *cay_services_list(const cay_services *u, size_t *n);
/* By name, every default left out. The caller frees. */
CAY_API int cay_services_json(const cay_services *u, char **json, cay_err *err);
/* `above` replaces what has its name in `below` and adds the rest; null takes one away. Either may
 * be NULL: none. *json is judged, and NULL when nothing is left. */
CAY_API int cay_services_merge(const char *below, const char *above, char **json, cay_err *err);

typedef enum cay_service_state {
    CAY_SERVICE_WAITING = 0, /* for others, or for its turn */
    CAY_SERVICE_STARTING,    /* it runs and is not ready */
    CAY_SERVICE_READY,
    CAY_SERVICE_UNHEALTHY, /* it was ready, and three looks in a row failed */
    CAY_SERVICE_BACKOFF,   /* it ended, and is started again in a moment */
    CAY_SERVICE_DONE,      /* it ended with 0 and is not to be started again; who comes after it may
                            * start
                            */
    CAY_SERVICE_FAILED,    /* it ended otherwise, or could not be started, and is not to be started
                            * again
                            */
    CAY_SERVICE_STOPPING,
    CAY_SERVICE_STOPPED, /* by who asked for it */
} cay_service_state;
CAY_API const char *cay_service_state_name(cay_service_state s); /* "waiting", "starting", … */

typedef struct cay_service_info {
    size_t size;
    const char *name;
    cay_service_state state;
    bool ready;          /* READY or DONE */
    int pid;             /* as seen inside, 0: it does not run */
    uint16_t port;       /* or 0 */
    uint32_t restarts;   /* since the sandbox began, or it was started by hand */
    int code;            /* how it ended last: 0–255, 128 + signal; -1: it never did */
    const char *reason;  /* "no such command", "killed by signal 9", … or "" */
    const char *process; /* id of the process whose streams are its output, through all restarts; or
                            "". Its tag is the name */
    int64_t since_ms;    /* wall clock: the state */
    int64_t ready_ms;    /* when it was ready first since it started, 0: not yet */
    uint32_t ready_after_ms; /* how long that took */
    uint32_t wait_ms;        /* BACKOFF: how long from then on */
} cay_service_info;
typedef int cay_service_info_fn(const cay_service_info *info, void *arg);

/* Calls fn for each in the order given at create. CAY_ENOTSUP where the provider keeps none. */
CAY_API int cay_sandbox_services(cay_sandbox *sb, const cay_call *call, cay_service_info_fn *fn,
                                 void *arg, cay_err *err);

typedef enum cay_service_op {
    CAY_SERVICE_START = 1,
    CAY_SERVICE_STOP,
    CAY_SERVICE_RESTART
} cay_service_op;
/* name NULL: all. Returns when init was told; cay_sandbox_services_wait() tells what became of it.
 */
CAY_API int cay_sandbox_service_act(cay_sandbox *sb, const cay_call *call, const char *name,
                                    cay_service_op op, cay_err *err);
/* Until `name`, or every one that is not stopped, is ready. CAY_ESTATE "service_failed" when one is
 * not going to be, CAY_ETIMEOUT at the call's deadline; either names it. */
CAY_API int cay_sandbox_services_wait(cay_sandbox *sb, const cay_call *call, const char *name,
                                      cay_err *err);

#ifdef __cplusplus
}
#endif
