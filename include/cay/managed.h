/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay/managed.h - a sandbox as the Agents SDKs see it: a session with declared ports, hooks before
 * its end, and one close.
 *
 *   cay_managed_open()         around a sandbox that was made or found
 *   cay_managed_close()        hooks, then save, then remove; once
 *   cay_managed_before_stop()  called when it is closed
 *   cay_managed_free()
 *   cay_managed_rm()           what is missing may be
 *   cay_managed_connect()      to a port that was declared
 *   cay_managed_extract()      an archive, within its limits
 *
 * Everything else is done by the sandbox itself (cay/sandbox.h), which stays the caller's to use.
 * Any thread.
 */
#pragma once
#include <cay/sandbox.h>
#include <cay/workspace.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cay_managed cay_managed;
typedef struct cay_managed_spec {
    size_t size;
    const uint16_t *ports; /* exposed_ports, ended by 0; NULL: none */
    bool save;             /* closing saves the workspace as a snapshot: cay_managed_state() */
    bool remove; /* closing removes the sandbox; else it goes on. So it does when `save` failed */
    const cay_archive_limits *archive_limits; /* of cay_managed_extract(), copied; NULL: none */
} cay_managed_spec;

CAY_API int cay_managed_open(cay_sandbox *sb, const cay_managed_spec *spec, cay_managed **out,
                             cay_err *err);    /* has its own reference */
CAY_API void cay_managed_free(cay_managed *s); /* does not close it */
CAY_API cay_sandbox *cay_managed_sandbox(const cay_managed *s);

/* Called once, in the order in which they were given, before anything is saved. One that fails:
 * nothing is saved, the rest of closing is done. CAY_ESTATE when it is closed already. */
CAY_API int cay_managed_before_stop(cay_managed *s, int (*fn)(void *arg, cay_err *err), void *arg,
                                    cay_err *err);
/* Whoever calls it again, or at the same time, waits and is told the same. The first failure is
 * told. The sandbox is removed also when a hook failed, but not when it could not be saved: it is
 * kept, as the error says, and removing it is the caller's. */
CAY_API int cay_managed_close(cay_managed *s, const cay_call *call, cay_err *err);
CAY_API const char *cay_managed_state(
    const cay_managed
        *s); /* after close: cay/state.h comes back by it; NULL when nothing was saved */

/* With `recursive` what is not there is gone already; without it that is CAY_ENOENT. */
CAY_API int cay_managed_rm(cay_managed *s, const cay_call *call, const char *path, bool recursive,
                           cay_err *err);
/* cay_sandbox_extract(); limits that the call has replace the session's, all of them: an object of
 * zeros lifts them. */
CAY_API int cay_managed_extract(cay_managed *s, const cay_call *call, const cay_extract *spec,
                                cay_extracted *out, cay_err *err);
/* CAY_EPERM "exposed_port_unavailable", its detail
 * {"reason":"not_configured","port","exposed_ports"}: it was not declared. Else as
 * cay_port_connect(). */
CAY_API int cay_managed_connect(cay_managed *s, const cay_call *call, uint16_t port, int *fd,
                                cay_err *err);

#ifdef __cplusplus
}
#endif
