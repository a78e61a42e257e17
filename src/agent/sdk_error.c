/* SPDX-License-Identifier: Apache-2.0 */
#include <base/base.h>
#include <cay/sdk.h>

enum { NO = CAY_RETRY_NO, OPEN = 0, YES = CAY_RETRY_YES }; /* OPEN: what the error itself says */

/* By our reason; the SDK's code is the same word unless there is one. */
static const struct {
    cay_reason reason;
    const char *name, *code;
    int retry;
} by_reason[] = {
    { CAY_REASON_SANDBOX_CONFIG_INVALID, "ConfigurationError", NULL, NO },
    { CAY_REASON_INVALID_MANIFEST_PATH, "InvalidManifestPathError", NULL, NO },
    { CAY_REASON_INVALID_COMPRESSION_SCHEME, "InvalidCompressionSchemeError", NULL, NO },
    { CAY_REASON_ARCHIVE_FORMAT, "InvalidCompressionSchemeError", "invalid_compression_scheme",
      NO },
    { CAY_REASON_EXPOSED_PORT_UNAVAILABLE, "ExposedPortUnavailableError", NULL,
      OPEN }, /* one that nobody asked for says NO itself */
    { CAY_REASON_SKILLS_CONFIG_INVALID, "SkillsConfigError", NULL, NO },
    { CAY_REASON_APPLY_PATCH_INVALID_PATH, "ApplyPatchPathError", NULL, NO },
    { CAY_REASON_APPLY_PATCH_INVALID_DIFF, "ApplyPatchDiffError", NULL, NO },
    { CAY_REASON_APPLY_PATCH_FILE_NOT_FOUND, "ApplyPatchFileNotFoundError", NULL, NO },
    { CAY_REASON_APPLY_PATCH_DECODE_ERROR, "ApplyPatchDecodeError", NULL, NO },
    { CAY_REASON_PTY_SESSION_NOT_FOUND, "PtySessionNotFoundError", NULL, NO },
    { CAY_REASON_WORKSPACE_ARCHIVE_WRITE_ERROR, "WorkspaceArchiveWriteError", NULL, OPEN },
    { CAY_REASON_LOCAL_FILE_READ_ERROR, "LocalFileReadError", NULL, NO },
    { CAY_REASON_LOCAL_DIR_READ_ERROR, "LocalDirReadError", NULL, NO },
    { CAY_REASON_FETCH_DIGEST, "LocalChecksumError", "local_checksum_error", NO },
    { CAY_REASON_GIT_MISSING_IN_IMAGE, "GitMissingInImageError", NULL, NO },
    { CAY_REASON_GIT_CLONE_ERROR, "GitCloneError", NULL, OPEN },
    { CAY_REASON_GIT_SUBPATH_ERROR, "GitSubpathError", NULL, NO },
    { CAY_REASON_GIT_COPY_ERROR, "GitCopyError", NULL, OPEN },
    { CAY_REASON_MOUNT_MISSING_TOOL, "MountToolMissingError", NULL, NO },
    { CAY_REASON_MOUNT_FAILED, "MountCommandError", NULL, NO },
    { CAY_REASON_MOUNT_CONFIG_INVALID, "MountConfigError", NULL, NO },
    { CAY_REASON_MAX_TURNS, "MaxTurnsExceededError", "max_turns_exceeded", NO },
    { CAY_REASON_MODEL_BEHAVIOR, "ModelBehaviorError", NULL, NO },
    { CAY_REASON_MODEL_REFUSAL, "ModelRefusalError", NULL, NO },
    { CAY_REASON_NET_TIMEOUT, "ModelTimeoutError", "model_timeout", YES },
    { CAY_REASON_GUARDRAIL_INPUT, "InputGuardrailTripwireTriggered", NULL, NO },
    { CAY_REASON_GUARDRAIL_OUTPUT, "OutputGuardrailTripwireTriggered", NULL, NO },
    { CAY_REASON_GUARDRAIL_TOOL, "ToolGuardrailTripwireTriggered", NULL, NO },
    { CAY_REASON_TOOL_FAILED, "ToolCallError", NULL, NO },
    { CAY_REASON_AGENT_BUSY, "UserError", "user_error", NO },
    { CAY_REASON_RUN_STATE, "UserError", "user_error", NO },
    { CAY_REASON_MEMORY_CONFIG_INVALID, "UserError", "user_error", NO },
    { CAY_REASON_MODEL_MISSING, "UserError", "user_error", NO },
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
    CAY_COPY(e.alias, name);
    if (n > 5 && !strcmp(name + n - 5, "Error"))
        e.alias[n - 5] = 0;
    return e;
}

cay_sdk_error cay_sdk_error_of(const cay_err *err, const char *op)
{
    if (cay_err_is(err, CAY_REASON_TOOL_FAILED) && err->code == CAY_ETIMEOUT)
        return make_error(err, "ToolTimeoutError", "tool_timeout", NO);
    CAY_EACH(item, by_reason)
        if (cay_err_is(err, item->reason))
            return make_error(err, item->name, CAY_OR(item->code, cay_reason_word(item->reason)),
                              item->retry);
    for (size_t i = 0; op && i < CAY_LEN(by_op); i++)
        if (!strcmp(op, by_op[i].op) && (!by_op[i].failed || by_op[i].failed == err->code))
            return make_error(err, by_op[i].name, by_op[i].code, by_op[i].retry);
    CAY_EACH(it, by_code)
        if (it->code == err->code)
            return make_error(err, it->name, it->word, it->retry);
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
