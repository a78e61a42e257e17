/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay/session.h - a sandbox as the Agents SDKs see it: a session with declared ports, hooks before
 * its end, and one close.
 *
 *   cay_session_open()         around a sandbox that was made or found
 *   cay_session_close()        hooks, then save, then remove; once
 *   cay_session_before_stop()  called when it is closed
 *   cay_session_free()
 *   cay_session_rm()           what is missing may be
 *   cay_session_connect()      to a port that was declared
 *   cay_session_extract()      an archive, within its limits
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

typedef struct cay_session cay_session;
typedef struct cay_session_spec {
    size_t size;
    const uint16_t *ports; /* exposed_ports, ended by 0; NULL: none */
    bool save;             /* closing saves the workspace as a snapshot: cay_session_state() */
    bool remove; /* closing removes the sandbox; else it goes on. So it does when `save` failed */
    const cay_archive_limits *archive_limits; /* of cay_session_extract(), copied; NULL: none */
} cay_session_spec;

CAY_API int cay_session_open(cay_sandbox *sb, const cay_session_spec *spec, cay_session **out,
                             cay_err *err);    /* has its own reference */
CAY_API void cay_session_free(cay_session *s); /* does not close it */
CAY_API cay_sandbox *cay_session_sandbox(const cay_session *s);

/* Called once, in the order in which they were given, before anything is saved. One that fails:
 * nothing is saved, the rest of closing is done. CAY_ESTATE when it is closed already. */
CAY_API int cay_session_before_stop(cay_session *s, int (*fn)(void *arg, cay_err *err), void *arg,
                                    cay_err *err);
/* Whoever calls it again, or at the same time, waits and is told the same. The first failure is
 * told. The sandbox is removed also when a hook failed, but not when it could not be saved: it is
 * kept, as the error says, and removing it is the caller's. */
CAY_API int cay_session_close(cay_session *s, const cay_call *call, cay_err *err);
CAY_API const char *cay_session_state(
    const cay_session
        *s); /* after close: cay/state.h comes back by it; NULL when nothing was saved */

/* With `recursive` what is not there is gone already; without it that is CAY_ENOENT. */
CAY_API int cay_session_rm(cay_session *s, const cay_call *call, const char *path, bool recursive,
                           cay_err *err);
/* cay_sandbox_extract(); limits that the call has replace the session's, all of them: an object of
 * zeros lifts them. */
CAY_API int cay_session_extract(cay_session *s, const cay_call *call, const cay_extract *spec,
                                cay_extracted *out, cay_err *err);
/* CAY_EPERM "exposed_port_unavailable", its detail
 * {"reason":"not_configured","port","exposed_ports"}: it was not declared. Else as
 * cay_port_connect(). */
CAY_API int cay_session_connect(cay_session *s, const cay_call *call, uint16_t port, int *fd,
                                cay_err *err);

#ifdef __cplusplus
}
#endif
