/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay/state.h - a session's state as JSON: written by one program, resumed by another.
 *
 *   cay_sandbox_save_state()     what is needed to come back to this sandbox
 *   cay_client_resume_state()   come back: to the living one, to its files, or to its snapshot
 *
 * A state holds no value that gives a right: no secret, no ephemeral value, no credential of a
 * mount, no path of the host, no network policy. It names what was left out, and who resumes gives
 * that again. So a state is untrusted input: whoever changed it can reach nothing that the resuming
 * program did not give. docs/session-state.md tells every field.
 */
#pragma once
#include <cay/client.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CAY_STATE_BYTES (8u << 20) /* most of one state */

typedef struct cay_save_state {
    size_t size;
    bool snapshot; /* save the workspace first, so that the state outlives the sandbox; else it
                      names the last snapshot, if any */
    bool js; /* in the envelope of the Agents SDK for JavaScript, for its E2B client before a cay
                server */
} cay_save_state;

/* One JSON object, one line. The caller frees *json. */
CAY_API int cay_sandbox_save_state(cay_sandbox *sb, const cay_call *call,
                                   const cay_save_state *spec, char **json, cay_err *err);

typedef enum cay_resumed {
    CAY_RESUMED_ALIVE = 1, /* it was running or paused: the same processes and files */
    CAY_RESUMED_KEPT, /* it was stopped, and its files are those of the state: started on them */
    CAY_RESUMED_RESTORED, /* its files had changed since: started, then taken back to the snapshot
                           */
    CAY_RESUMED_REBUILT,  /* it was gone: made again, under its id, from the snapshot */
} cay_resumed;
CAY_API const char *cay_resumed_name(cay_resumed how); /* "alive", "kept", "restored", "rebuilt" */

typedef struct cay_resume_state {
    size_t size;
    const char *state; /* either form */
    size_t len;
    const cay_create *with; /* what the state leaves out: provider, min_level, root, grants,
                               volumes, net, secrets, env, limits, manifest and manifest_base are
                               read; NULL: nothing. All of it is trusted */
} cay_resume_state;

/* CAY_EINVAL, reason "state_invalid": it cannot be read. "state_incomplete": err->detail is
 * {"missing":[…]}, all that has to be given again. CAY_EGONE, "state_lost": the sandbox and its
 * snapshot are gone. CAY_EPERM, "state_refused": it asks for what no state may. */
CAY_API int cay_client_resume_state(cay_client *client, const cay_call *call,
                                    const cay_resume_state *spec, cay_sandbox **out,
                                    cay_resumed *how, cay_err *err);

#ifdef __cplusplus
}
#endif
