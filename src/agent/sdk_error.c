/* SPDX-License-Identifier: Apache-2.0 */
#include <base/base.h>
#include <base/str.h>
#include <cay/sdk.h>
#include <string.h>

enum { NO = CAY_RETRY_NO, OPEN = 0, YES = CAY_RETRY_YES }; /* OPEN: what the error itself says */

/* By our reason; the SDK's code is the same word unless there is one. */
static const struct {
    const char *reason, *name, *code;
    int retry;
} by_reason[] = {
    { "sandbox_config_invalid", "ConfigurationError", NULL, NO },
    { "invalid_manifest_path", "InvalidManifestPathError", NULL, NO },
    { "invalid_compression_scheme", "InvalidCompressionSchemeError", NULL, NO },
    { "archive_format", "InvalidCompressionSchemeError", "invalid_compression_scheme", NO },
    { "exposed_port_unavailable", "ExposedPortUnavailableError", NULL,
      OPEN }, /* one that nobody asked for says NO itself */
    { "skills_config_invalid", "SkillsConfigError", NULL, NO },
    { "apply_patch_invalid_path", "ApplyPatchPathError", NULL, NO },
    { "apply_patch_invalid_diff", "ApplyPatchDiffError", NULL, NO },
    { "apply_patch_file_not_found", "ApplyPatchFileNotFoundError", NULL, NO },
    { "apply_patch_decode_error", "ApplyPatchDecodeError", NULL, NO },
    { "pty_session_not_found", "PtySessionNotFoundError", NULL, NO },
    { "workspace_archive_write_error", "WorkspaceArchiveWriteError", NULL, OPEN },
    { "local_file_read_error", "LocalFileReadError", NULL, NO },
    { "local_dir_read_error", "LocalDirReadError", NULL, NO },
    { "fetch_digest", "LocalChecksumError", "local_checksum_error", NO },
    { "git_missing_in_image", "GitMissingInImageError", NULL, NO },
    { "git_clone_error", "GitCloneError", NULL, OPEN },
    { "git_subpath_error", "GitSubpathError", NULL, NO },
    { "git_copy_error", "GitCopyError", NULL, OPEN },
    { "mount_missing_tool", "MountToolMissingError", NULL, NO },
    { "mount_failed", "MountCommandError", NULL, NO },
    { "mount_config_invalid", "MountConfigError", NULL, NO },
    { "max_turns", "MaxTurnsExceededError", "max_turns_exceeded", NO },
    { "model_behavior", "ModelBehaviorError", NULL, NO },
    { "model_refusal", "ModelRefusalError", NULL, NO },
    { "net_timeout", "ModelTimeoutError", "model_timeout", YES },
    { "guardrail_input", "InputGuardrailTripwireTriggered", NULL, NO },
    { "guardrail_output", "OutputGuardrailTripwireTriggered", NULL, NO },
    { "guardrail_tool", "ToolGuardrailTripwireTriggered", NULL, NO },
    { "tool_failed", "ToolCallError", NULL, NO },
    { "agent_busy", "UserError", "user_error", NO },
    { "run_state", "UserError", "user_error", NO },
    { "memory_config_invalid", "UserError", "user_error", NO },
    { "model_missing", "UserError", "user_error", NO },
};

/* By what was tried and our code, 0 for any; the first row that fits. */
static const struct {
    const char *op;
    int failed;
    const char *name, *code;
    int retry;
} by_op[] = {
    { "exec", CAY_ETIMEOUT, "ExecTimeoutError", "exec_timeout", NO },
    { "exec", 0, "ExecTransportError", "exec_transport_error", OPEN },
    { "read", CAY_ENOENT, "WorkspaceReadNotFoundError", "workspace_read_not_found", NO },
    { "read", 0, "WorkspaceArchiveReadError", "workspace_archive_read_error", OPEN },
    { "write", CAY_ETYPE, "WorkspaceWriteTypeError", "workspace_write_type_error", NO },
    { "write", 0, "WorkspaceArchiveWriteError", "workspace_archive_write_error", OPEN },
    { "persist_workspace", 0, "WorkspaceArchiveReadError", "workspace_archive_read_error", OPEN },
    { "hydrate_workspace", 0, "WorkspaceArchiveWriteError", "workspace_archive_write_error", OPEN },
    { "start", CAY_ENOENT, "WorkspaceRootNotFoundError", "workspace_root_not_found", NO },
    { "start", 0, "WorkspaceStartError", "workspace_start_error", OPEN },
    { "stop", 0, "WorkspaceStopError", "workspace_stop_error", OPEN },
    { "apply_patch", 0, "ApplyPatchError", "apply_patch_error", NO },
    { "resolve_exposed_port", 0, "ExposedPortUnavailableError", "exposed_port_unavailable", OPEN },
    { "snapshot_persist", 0, "SnapshotPersistError", "snapshot_persist_error", OPEN },
    { "snapshot_restore", CAY_ENOENT, "SnapshotNotRestorableError", "snapshot_not_restorable", NO },
    { "snapshot_restore", 0, "SnapshotRestoreError", "snapshot_restore_error", OPEN },
};

/* By our code, where neither says more. */
static const struct {
    int code;
    const char *name, *word;
    int retry;
} by_code[] = {
    { CAY_EINVAL, "ConfigurationError", "sandbox_config_invalid", NO },
    { CAY_ENOTSUP, "SandboxUnsupportedFeatureError", "unsupported_feature", NO },
    { CAY_ESTATE, "SandboxLifecycleError", "lifecycle_error", OPEN },
    { CAY_EGONE, "SandboxLifecycleError", "lifecycle_error", OPEN },
    { CAY_EUPSTREAM, "SandboxProviderError", "provider_error", OPEN },
};

/* Whose kind it is; what is not here is a SandboxError. */
static const char *const parents[][2] = {
    { "ApplyPatchError", "ConfigurationError" },
    { "InvalidManifestPathError", "ConfigurationError" },
    { "InvalidCompressionSchemeError", "ConfigurationError" },
    { "SkillsConfigError", "ConfigurationError" },
    { "ApplyPatchPathError", "ApplyPatchError" },
    { "ApplyPatchDiffError", "ApplyPatchError" },
    { "ExposedPortUnavailableError", "SandboxRuntimeError" },
    { "ExecFailureError", "SandboxRuntimeError" },
    { "ExecTimeoutError", "ExecFailureError" },
    { "ExecTransportError", "ExecFailureError" },
    { "PtySessionNotFoundError", "SandboxRuntimeError" },
    { "WorkspaceIOError", "SandboxRuntimeError" },
    { "ApplyPatchFileNotFoundError", "WorkspaceIOError" },
    { "ApplyPatchDecodeError", "WorkspaceIOError" },
    { "WorkspaceReadNotFoundError", "WorkspaceIOError" },
    { "WorkspaceArchiveReadError", "WorkspaceIOError" },
    { "WorkspaceArchiveWriteError", "WorkspaceIOError" },
    { "WorkspaceWriteTypeError", "WorkspaceIOError" },
    { "WorkspaceStartError", "SandboxRuntimeError" },
    { "WorkspaceStopError", "SandboxRuntimeError" },
    { "WorkspaceRootNotFoundError", "SandboxRuntimeError" },
    { "LocalArtifactError", "ArtifactError" },
    { "LocalFileReadError", "LocalArtifactError" },
    { "LocalDirReadError", "LocalArtifactError" },
    { "LocalChecksumError", "LocalArtifactError" },
    { "GitArtifactError", "ArtifactError" },
    { "GitMissingInImageError", "GitArtifactError" },
    { "GitCloneError", "GitArtifactError" },
    { "GitSubpathError", "GitArtifactError" },
    { "GitCopyError", "GitArtifactError" },
    { "MountArtifactError", "ArtifactError" },
    { "MountToolMissingError", "MountArtifactError" },
    { "MountCommandError", "MountArtifactError" },
    { "MountConfigError", "MountArtifactError" },
    { "SnapshotPersistError", "SnapshotError" },
    { "SnapshotRestoreError", "SnapshotError" },
    { "SnapshotNotRestorableError", "SnapshotError" },
    /* The run's, which are no sandbox's. */
    { "MaxTurnsExceededError", "AgentsError" },
    { "ModelBehaviorError", "AgentsError" },
    { "ModelRefusalError", "AgentsError" },
    { "ModelTimeoutError", "AgentsError" },
    { "InputGuardrailTripwireTriggered", "AgentsError" },
    { "OutputGuardrailTripwireTriggered", "AgentsError" },
    { "ToolGuardrailTripwireTriggered", "AgentsError" },
    { "ToolCallError", "AgentsError" },
    { "ToolTimeoutError", "ToolCallError" },
    { "UserError", "AgentsError" },
};

static cay_sdk_error make_error(const cay_err *err, const char *name, const char *code, int retry)
{
    cay_sdk_error e = { .name = name, .code = code, .retry = CAY_OR(retry, err->retry) };
    size_t n = strlen(name);
    cay__str_copy(e.alias, sizeof e.alias, name);
    if (n > 5 && !strcmp(name + n - 5, "Error"))
        e.alias[n - 5] = 0;
    return e;
}

cay_sdk_error cay_sdk_error_of(const cay_err *err, const char *op)
{
    if (!strcmp(err->reason, "tool_failed") && err->code == CAY_ETIMEOUT)
        return make_error(err, "ToolTimeoutError", "tool_timeout", NO);
    for (size_t i = 0; i < CAY_LEN(by_reason); i++)
        if (!strcmp(err->reason, by_reason[i].reason))
            return make_error(err, by_reason[i].name,
                              CAY_OR(by_reason[i].code, by_reason[i].reason), by_reason[i].retry);
    for (size_t i = 0; op && i < CAY_LEN(by_op); i++)
        if (!strcmp(op, by_op[i].op) && (!by_op[i].failed || by_op[i].failed == err->code))
            return make_error(err, by_op[i].name, by_op[i].code, by_op[i].retry);
    for (size_t i = 0; i < CAY_LEN(by_code); i++)
        if (by_code[i].code == err->code)
            return make_error(err, by_code[i].name, by_code[i].word, by_code[i].retry);
    return make_error(err, "SandboxRuntimeError", "runtime_error", OPEN);
}

static const char *parent_of(const char *name)
{
    for (size_t i = 0; i < CAY_LEN(parents); i++)
        if (!strcmp(parents[i][0], name))
            return parents[i][1];
    if (strcmp(name, "SandboxError") && strcmp(name, "AgentsError"))
        return "SandboxError";
    return NULL;
}

bool cay_sdk_error_is(const cay_sdk_error *e, const char *name)
{
    const char *at = e->name;
    while (at && strcmp(at, name) != 0)
        at = parent_of(at);
    return at || !strcmp(e->alias, name);
}
