/* SPDX-License-Identifier: Apache-2.0 */
/* The code interpreter of a sandbox (src/helper/interpreter): its files, which we carry, and a
 * connection to it. */
#include "interpreter.h"
#include <base/base.h>
#include <cay/interpreter.h>
#include <cay/services.h>
#include <time.h>

#define PUT "/tmp/.cay-interpreter/" /* whoever is the user of a sandbox can write there */
enum { COMES_MS = 10000, LOOK_FIRST_MS = 1, LOOK_MOST_MS = 50 };

extern const char cay_interpreter_host[], cay_interpreter_host_end[], cay_interpreter_py[],
    cay_interpreter_py_end[], cay_interpreter_js[], cay_interpreter_js_end[];

void cay__interpreter_files(cay__interpreter_file out[CAY__INTERPRETER_FILES])
{
    out[0] =
        (cay__interpreter_file){ CAY__INTERPRETER, cay_interpreter_host,
                                 (size_t)(cay_interpreter_host_end - cay_interpreter_host), 0755 };
    out[1] = (cay__interpreter_file){ "kernel.py", cay_interpreter_py,
                                      (size_t)(cay_interpreter_py_end - cay_interpreter_py), 0644 };
    out[2] = (cay__interpreter_file){ "kernel.js", cay_interpreter_js,
                                      (size_t)(cay_interpreter_js_end - cay_interpreter_js), 0644 };
}

static int on_unit(const cay_service_info *u, void *arg)
{
    int *state = arg;
    if (!strcmp(u->name, CAY__INTERPRETER))
        *state = u->state;
    return 0;
}

/* 1: it is a service, and init sees to it. One that waits for its next try has it now. */
static int by_service(cay_sandbox *sb, const cay_call *call, cay_err *err)
{
    int state = -1;
    int rc = cay_sandbox_services(sb, call, on_unit, &state, err);
    if (rc < 0 && rc != CAY_ENOTSUP)
        return rc;
    if (state == CAY_SERVICE_STOPPED || state == CAY_SERVICE_STOPPING)
        return cay_fail_why(
            err, CAY_ESTATE, "interpreter_stopped",
            "the service interpreter was stopped; cay services start %s interpreter starts it",
            cay_sandbox_id(sb));
    if (state == CAY_SERVICE_BACKOFF || state == CAY_SERVICE_FAILED)
        CAY_TRY(cay_sandbox_service_act(sb, call, CAY__INTERPRETER, CAY_SERVICE_START, err));
    return state >= 0;
}

static int put_in(cay_sandbox *sb, const cay_call *call, cay_err *err)
{
    static const char *const argv[] = { PUT CAY__INTERPRETER, NULL };
    cay__interpreter_file files[CAY__INTERPRETER_FILES];
    cay_proc *p = NULL;
    cay__interpreter_files(files);
    CAY_EACH(file, files) {
        char path[64];
        const cay_write w = { .size = sizeof w, .mode = file->mode, .parents = true };
        CAY_FORMAT(path, PUT "%s", file->name);
        CAY_TRY(cay_file_put(sb, call, path, file->data, file->len, &w, err));
    }
    const cay_spawn s = { .size = sizeof s, .argv = argv, .tag = CAY__INTERPRETER };
    int rc = cay_sandbox_spawn(sb, call, &s, &p, err);
    if (rc == CAY_EEXIST) /* somebody else was faster */
        return 0;
    CAY_TRY(rc);
    cay_proc_unref(p);
    return 0;
}

/* It listens a few milliseconds after it was started. */
static int wait_for(cay_sandbox *sb, const cay_call *call, int *fd, cay_err *err)
{
    int64_t until = cay__now_ms() + COMES_MS;
    for (long ms = LOOK_FIRST_MS;; ms = CAY_MIN(2 * ms, (long)LOOK_MOST_MS)) {
        int rc = cay_port_connect(sb, call, CAY_INTERPRETER_PORT, fd, err);
        if (rc != CAY_ENOENT)
            return rc;
        if (cay__now_ms() > until)
            return cay_fail_why(
                err, CAY_ETIMEOUT, "interpreter_not_ready",
                "the interpreter does not listen on port %d; see: cay logs %s interpreter",
                CAY_INTERPRETER_PORT, cay_sandbox_id(sb));
        CAY_TRY(cay__call_check(call, "the interpreter", err));
        nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000 }, NULL);
    }
}

int cay_interpreter_connect(cay_sandbox *sb, const cay_call *call, int *fd, cay_err *err)
{
    int rc = cay_port_connect(sb, call, CAY_INTERPRETER_PORT, fd, err);
    if (rc != CAY_ENOENT) /* somebody listens, or it is not to be had */
        return rc;
    CAY_TRY(rc = by_service(sb, call, err));
    if (rc == 0)
        CAY_TRY(put_in(sb, call, err));
    return wait_for(sb, call, fd, err);
}
