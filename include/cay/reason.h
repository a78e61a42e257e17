/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay/reason.h - the reasons of errors that programs decide upon.
 *
 *   cay_err_is()       is this the reason of an error?
 *   cay_err_reason()   its reason, to switch on or to look up in a table
 *   cay_reason_of()    the reason that a word stands for
 *   cay_reason_word()  the word that a reason stands for
 *
 * An error carries its reason as a word, also from one program to another; docs/errors.md lists
 * all words. A word gets an enumerator here as soon as something is decided by it. The numbers
 * stay as well: new rows are added at the end.
 */
#pragma once
#include <cay/error.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CAY_REASONS(ROW)                                                                           \
    ROW(METHOD_NOT_ALLOWED, "method_not_allowed")                                                  \
    ROW(CONTENT_TYPE, "content_type")                                                              \
    ROW(RANGE_NOT_SATISFIABLE, "range_not_satisfiable")                                            \
    ROW(HOST_NOT_ALLOWED, "host_not_allowed")                                                      \
    ROW(IDEMPOTENCY_BUSY, "idempotency_busy")                                                      \
    ROW(HEAD_TOO_BIG, "head_too_big")                                                              \
    ROW(OVERLOADED, "overloaded")                                                                  \
    ROW(HTTP_VERSION, "http_version")                                                              \
    ROW(UPGRADE_REQUIRED, "upgrade_required")                                                      \
    ROW(BODY_TOO_SLOW, "body_too_slow")                                                            \
    ROW(ARCHIVE_FORMAT, "archive_format")                                                          \
    ROW(ARCHIVE_TRUNCATED, "archive_truncated")                                                    \
    ROW(INVALID_COMPRESSION_SCHEME, "invalid_compression_scheme")                                  \
    ROW(INVALID_MANIFEST_PATH, "invalid_manifest_path")                                            \
    ROW(MANIFEST_MISSING, "manifest_missing")                                                      \
    ROW(LOCAL_FILE_READ_ERROR, "local_file_read_error")                                            \
    ROW(LOCAL_DIR_READ_ERROR, "local_dir_read_error")                                              \
    ROW(FETCH_DIGEST, "fetch_digest")                                                              \
    ROW(FETCH_REFUSED, "fetch_refused")                                                            \
    ROW(REDIRECT_REFUSED, "redirect_refused")                                                      \
    ROW(GIT_MISSING_IN_IMAGE, "git_missing_in_image")                                              \
    ROW(GIT_CLONE_ERROR, "git_clone_error")                                                        \
    ROW(GIT_SUBPATH_ERROR, "git_subpath_error")                                                    \
    ROW(GIT_COPY_ERROR, "git_copy_error")                                                          \
    ROW(MOUNT_MISSING_TOOL, "mount_missing_tool")                                                  \
    ROW(MOUNT_FAILED, "mount_failed")                                                              \
    ROW(MOUNT_CONFIG_INVALID, "mount_config_invalid")                                              \
    ROW(MOUNT_ERROR, "mount_error")                                                                \
    ROW(UNMOUNT_ERROR, "unmount_error")                                                            \
    ROW(APPLY_PATCH_INVALID_PATH, "apply_patch_invalid_path")                                      \
    ROW(APPLY_PATCH_INVALID_DIFF, "apply_patch_invalid_diff")                                      \
    ROW(APPLY_PATCH_FILE_NOT_FOUND, "apply_patch_file_not_found")                                  \
    ROW(APPLY_PATCH_DECODE_ERROR, "apply_patch_decode_error")                                      \
    ROW(EXPOSED_PORT_UNAVAILABLE, "exposed_port_unavailable")                                      \
    ROW(PTY_SESSION_NOT_FOUND, "pty_session_not_found")                                            \
    ROW(SKILLS_CONFIG_INVALID, "skills_config_invalid")                                            \
    ROW(MEMORY_CONFIG_INVALID, "memory_config_invalid")                                            \
    ROW(MODEL_BEHAVIOR, "model_behavior")                                                          \
    ROW(MODEL_MISSING, "model_missing")                                                            \
    ROW(MODEL_REFUSAL, "model_refusal")                                                            \
    ROW(GUARDRAIL_INPUT, "guardrail_input")                                                        \
    ROW(GUARDRAIL_OUTPUT, "guardrail_output")                                                      \
    ROW(GUARDRAIL_TOOL, "guardrail_tool")                                                          \
    ROW(TOOL_FAILED, "tool_failed")                                                                \
    ROW(MAX_TURNS, "max_turns")                                                                    \
    ROW(AGENT_BUSY, "agent_busy")                                                                  \
    ROW(RUN_STATE, "run_state")                                                                    \
    ROW(SANDBOX_NOT_FOUND, "sandbox_not_found")                                                    \
    ROW(SANDBOX_AMBIGUOUS, "sandbox_ambiguous")                                                    \
    ROW(SANDBOX_ADOPTING, "sandbox_adopting")                                                      \
    ROW(SANDBOX_PAUSED, "sandbox_paused")                                                          \
    ROW(SANDBOX_STOPPED, "sandbox_stopped")                                                        \
    ROW(SANDBOX_STATE, "sandbox_state")                                                            \
    ROW(SANDBOX_CONFIG_INVALID, "sandbox_config_invalid")                                          \
    ROW(NOT_RUNNING, "not_running")                                                                \
    ROW(STATE_CHANGED, "state_changed")                                                            \
    ROW(PROCESS_NOT_FOUND, "process_not_found")                                                    \
    ROW(PROCESSES_RUNNING, "processes_running")                                                    \
    ROW(CWD_FAILED, "cwd_failed")                                                                  \
    ROW(USER_UNKNOWN, "user_unknown")                                                              \
    ROW(USER_NOT_FOUND, "user_not_found")                                                          \
    ROW(USER_NOT_MAPPED, "user_not_mapped")                                                        \
    ROW(USER_INVALID, "user_invalid")                                                              \
    ROW(USER_NOT_SUPPORTED, "user_not_supported")                                                  \
    ROW(PORT_NOT_FOUND, "port_not_found")                                                          \
    ROW(NO_STDERR, "no_stderr")                                                                    \
    ROW(SNAPSHOT_IMAGE, "snapshot_image")                                                          \
    ROW(SNAPSHOT_ON, "snapshot_on")                                                                \
    ROW(SNAPSHOT_UNSUPPORTED, "snapshot_unsupported")                                              \
    ROW(SNAPSHOT_INTERRUPTED, "snapshot_interrupted")                                              \
    ROW(NO_FREEZER, "no_freezer")                                                                  \
    ROW(FILL_UNSUPPORTED, "fill_unsupported")                                                      \
    ROW(NOT_SUPPORTED, "not_supported")                                                            \
    ROW(ONCE, "once")                                                                              \
    ROW(NAMESPACES_REFUSED, "namespaces_refused")                                                  \
    ROW(PARK_FAILED, "park_failed")                                                                \
    ROW(PEER_DIED, "peer_died")                                                                    \
    ROW(AGAIN, "again")                                                                            \
    ROW(HOST_MISSING, "host_missing")                                                              \
    ROW(SECRET_KEY, "secret_key")                                                                  \
    ROW(STORE_NEWER, "store_newer")                                                                \
    ROW(UNKNOWN_OPTION, "unknown_option")                                                          \
    ROW(LIMIT_OUT_OF_RANGE, "limit_out_of_range")                                                  \
    ROW(NET_CUT, "net_cut")                                                                        \
    ROW(NET_TIMEOUT, "net_timeout")                                                                \
    ROW(NET_TLS, "net_tls")                                                                        \
    ROW(NET_UNREACHABLE, "net_unreachable")                                                        \
    ROW(ENGINE_FAILED, "engine_failed")                                                            \
    ROW(ENGINE_REFUSED, "engine_refused")                                                          \
    ROW(ENGINE_REMOTE, "engine_remote")                                                            \
    ROW(WORKSPACE_READ_NOT_FOUND, "workspace_read_not_found")                                      \
    ROW(EXEC_TRANSPORT_ERROR, "exec_transport_error")                                              \
    ROW(WORKSPACE_ARCHIVE_READ_ERROR, "workspace_archive_read_error")                              \
    ROW(WORKSPACE_ARCHIVE_WRITE_ERROR, "workspace_archive_write_error")                            \
    ROW(SESSION_ERROR, "session_error")                                                            \
    ROW(TUNNEL_ERROR, "tunnel_error")                                                              \
    ROW(PAYLOAD_TOO_LARGE, "payload_too_large")                                                    \
    ROW(PREVIEW_TOKEN_MISSING, "preview_token_missing")                                            \
    ROW(PREVIEW_FOREIGN_PAGE, "preview_foreign_page")                                              \
    ROW(PREVIEW_UNKNOWN, "preview_unknown")                                                        \
    ROW(PREVIEW_UPSTREAM, "preview_upstream")                                                      \
    ROW(PREVIEW_TIMEOUT, "preview_timeout")                                                        \
    ROW(TOKEN_REFUSED, "token_refused")

typedef enum cay_reason {
    CAY_REASON_OTHER, /* no reason, or none of these */
#define CAY_REASON_ROW(NAME, word) CAY_REASON_##NAME,
    CAY_REASONS(CAY_REASON_ROW)
#undef CAY_REASON_ROW
} cay_reason;

/* CAY_REASON_OTHER for NULL and for an error whose reason has no row. */
CAY_API cay_reason cay_err_reason(const cay_err *err);
/* False for NULL, and for CAY_REASON_OTHER. */
CAY_API bool cay_err_is(const cay_err *err, cay_reason reason);
CAY_API cay_reason cay_reason_of(const char *word);
/* "" for CAY_REASON_OTHER and for a number that is no reason. */
CAY_API const char *cay_reason_word(cay_reason reason);

#ifdef __cplusplus
}
#endif
