/* SPDX-License-Identifier: Apache-2.0 */
/* Every operation of the native API, in the order in which paths are matched and documented. */
#include "shapes.h"
#include <base/base.h>
#include <ctype.h>

/* By the bits of cay__operation.fails. */
const int cay__operation_fails[CAY__FAILS_MAX] = { 400, 403, 404, 409, 413, 416,
                                                   422, 426, 501, 502, 503 };

#define P_BOX   "/sandboxes/{id}"
#define P_PROC  P_BOX "/processes/{ref}"
#define P_FILES P_BOX "/files"

enum {
    OPEN = CAY__OP_OPEN,
    ADMIN = CAY__OP_ADMIN,
    FIND = CAY__OP_FIND,
    BOX = FIND | CAY__OP_BOX,
    AWAKE = BOX | CAY__OP_WAKE,
    AS_USER = AWAKE | CAY__OP_USER,
    FILES = AS_USER | CAY__OP_FILE,
    SHARED = CAY__OP_SHARED,
    CREATE = CAY__OP_CREATE,
    SECRET = CAY__OP_SECRET,
    RAW = CAY__OP_RAW,
    ASKS = CAY__OP_ASKS,
    STREAM = CAY__OP_STREAM,

    E400_404 = CAY__E400 | CAY__E404,
    E404_409 = CAY__E404 | CAY__E409,
    E400_404_409 = E400_404 | CAY__E409,
};

#define OP(name, ...) [CAY__OP_##name] = { __VA_ARGS__ }
#define QUERY(name)   .query = &cay__##name##_query
#define BODY(name)    .body = &cay__##name##_shape
#define GIVES(name)   .answers = { { 200, &cay__##name##_shape } }
#define MAKES(name)   .answers = { { 201, &cay__##name##_shape } }
#define LISTS(name)   .answers = { { 200, &cay__##name##_shape, .list = true } }
#define SENDS(type_)  .answers = { { 200, .type = type_ } }
#define DONE          .answers = { { 204 } }

const cay__operation cay__operations[CAY__OP_COUNT] = {
    OP(openapi, "GET", "/openapi.json", OPEN | STREAM, "getDocument", "about", "this document",
       SENDS("application/json")),

    OP(sandbox_create, "POST", "/sandboxes", CREATE, "createSandbox", "sandboxes", "make one",
       BODY(create), MAKES(sandbox), .fails = CAY__E400 | CAY__E403 | CAY__E404 | CAY__E422),
    OP(sandbox_list, "GET", "/sandboxes", 0, "listSandboxes", "sandboxes",
       "those there are, oldest first", QUERY(sandbox_list), LISTS(sandbox), .fails = E400_404),
    OP(sandbox_get, "GET", P_BOX, BOX, "getSandbox", "sandboxes", "all that is known of it",
       GIVES(sandbox), .fails = CAY__E404),
    OP(sandbox_patch, "PATCH", P_BOX, BOX, "patchSandbox", "sandboxes", "change what may change",
       BODY(sandbox_patch), GIVES(sandbox), .fails = E400_404_409),
    OP(sandbox_delete, "DELETE", P_BOX, BOX, "deleteSandbox", "sandboxes",
       "stop it and forget it, with its files", DONE, .fails = CAY__E404),
    OP(sandbox_kill, "POST", P_BOX "/kill", BOX, "killSandbox", "sandboxes",
       "end its processes, keep the files", BODY(nothing), GIVES(sandbox), .fails = E400_404),
    OP(sandbox_pause, "POST", P_BOX "/pause", BOX, "pauseSandbox", "sandboxes",
       "freeze it, processes intact", BODY(nothing), GIVES(sandbox), .fails = E400_404_409),
    OP(sandbox_resume, "POST", P_BOX "/resume", BOX, "resumeSandbox", "sandboxes",
       "go on, or start again", BODY(nothing), GIVES(sandbox), .fails = E400_404),
    OP(sandbox_extend, "POST", P_BOX "/extend", BOX, "extendSandbox", "sandboxes",
       "move its deadlines", BODY(extend), GIVES(sandbox), .fails = E400_404_409),
    OP(sandbox_fork, "POST", P_BOX "/fork", FIND | CREATE, "forkSandbox", "sandboxes",
       "several from one: all or none", BODY(fork),
       .answers = { { 201, &cay__sandbox_shape, .list = true } }, .fails = E400_404),
    OP(sandbox_undo, "POST", P_BOX "/undo", BOX, "undoSandbox", "sandboxes",
       "back to a snapshot: processes end, what was written since goes", BODY(undo),
       GIVES(snapshot), .fails = E400_404_409),
    OP(sandbox_usage, "GET", P_BOX "/usage", BOX, "getUsage", "sandboxes", "what it uses",
       GIVES(usage), .fails = E404_409),
    OP(sandbox_past, "GET", P_BOX "/usage/past", BOX, "listUsage", "sandboxes",
       "what it used, oldest first; at most 1,000 points, evenly", QUERY(usage_past),
       LISTS(usage_point), .fails = E400_404),
    OP(sandbox_wait, "GET", P_BOX "/wait", BOX, "waitSandbox", "sandboxes",
       "until it is stopped or gone, or the time is over", QUERY(wait_for), GIVES(waited),
       .fails = E400_404),

    OP(process_start, "POST", P_BOX "/processes", AWAKE | CREATE | STREAM, "startProcess",
       "processes", "start a command", BODY(spawn),
       .answers = { { 200, .type = "text/event-stream" }, { 201, &cay__started_shape } },
       .fails = E400_404_409),
    OP(process_list, "GET", P_BOX "/processes", AWAKE, "listProcesses", "processes",
       "what runs in it", QUERY(process_list), LISTS(process), .fails = E404_409),
    OP(process_run, "POST", P_BOX "/run", AWAKE, "run", "processes",
       "start, feed, collect and wait in one; it dies with the connection", BODY(run),
       GIVES(result), .fails = E400_404_409),
    OP(pty_start, "POST", P_BOX "/pty", AWAKE | CREATE | STREAM, "startTerminal", "processes",
       "start a command, or the login shell, on a terminal", BODY(spawn),
       .answers = { { 200, .type = "text/event-stream" }, { 201, &cay__started_shape } },
       .fails = E400_404_409),
    OP(process_get, "GET", P_PROC, BOX, "getProcess", "processes",
       "one of them, by id, pid inside or tag", GIVES(process), .fails = CAY__E404),
    OP(process_output, "GET", P_PROC "/output", BOX | STREAM, "readOutput", "processes",
       "the bytes of one stream from an offset on", QUERY(process_output),
       SENDS("application/octet-stream"), .fails = E400_404),
    OP(process_stream, "GET", P_PROC "/stream", BOX | STREAM, "streamProcess", "processes",
       "its output and its end as events; Last-Event-ID goes on after that one",
       QUERY(process_offset), SENDS("text/event-stream"), .fails = E400_404),
    OP(process_ws, "GET", P_PROC "/ws", BOX | STREAM, "connectProcess", "processes",
       "a WebSocket: output, input, size, signals, end", QUERY(process_offset),
       .answers = { { 101 } }, .fails = CAY__E400 | CAY__E404 | CAY__E426),
    OP(process_wait, "GET", P_PROC "/wait", BOX, "waitProcess", "processes",
       "until it has ended, or the time is over", QUERY(wait_for), GIVES(process_waited),
       .fails = E400_404),
    OP(process_stdin, "POST", P_PROC "/stdin", BOX | RAW | STREAM, "writeInput", "processes",
       "the body becomes its input; the answer comes when all is taken", QUERY(process_stdin),
       .body_type = "application/octet-stream", DONE, .fails = E404_409),
    OP(process_signal, "POST", P_PROC "/signal", BOX, "signalProcess", "processes",
       "send it a signal", BODY(signal), DONE, .fails = E400_404),
    OP(process_resize, "POST", P_PROC "/resize", BOX, "resizeTerminal", "processes",
       "another size of its terminal", BODY(size), DONE, .fails = E400_404_409),

    OP(shell_open, "POST", P_BOX "/shells", AWAKE, "openShell", "shells",
       "find the shell of that name, or start it", BODY(shell_open), GIVES(shell),
       .fails = E400_404_409),
    OP(shell_list, "GET", P_BOX "/shells", AWAKE, "listShells", "shells", "those there are",
       LISTS(shell), .fails = CAY__E404),
    OP(shell_run, "POST", P_BOX "/shells/{name}/run", BOX, "runInShell", "shells",
       "one command in it, to its end; others wait", BODY(shell_run), GIVES(result),
       .fails = E400_404),
    OP(shell_end, "DELETE", P_BOX "/shells/{name}", BOX, "endShell", "shells",
       "end it and all that it started", DONE, .fails = CAY__E404),

    OP(file_get, "GET", P_FILES, BOX | CAY__OP_FILE | STREAM, "readFile", "files",
       "its bytes; Range, If-Range and If-None-Match are heard", QUERY(file_get),
       .answers = { { 200, .type = "application/octet-stream" },
                    { 206, .type = "application/octet-stream" },
                    { 304 } },
       .fails = CAY__E400 | CAY__E404 | CAY__E409 | CAY__E416),
    OP(file_put, "PUT", P_FILES, FILES | RAW | STREAM, "writeFile", "files",
       "the body becomes the file, at once when it is complete", QUERY(file_put),
       .body_type = "application/octet-stream",
       .answers = { { 200, &cay__file_shape }, { 201, &cay__file_shape } }, .fails = E400_404_409),
    OP(file_post, "POST", P_FILES, AS_USER | RAW | STREAM, "uploadFiles", "files",
       "each part with a filename becomes a file below path", QUERY(file_post),
       .body_type = "multipart/form-data", LISTS(file), .fails = E400_404),
    OP(file_delete, "DELETE", P_FILES, FILES, "deleteFile", "files", "remove it",
       QUERY(file_delete), DONE, .fails = E400_404_409),
    OP(file_stat, "GET", P_FILES "/stat", FILES, "statFile", "files", "what it is",
       QUERY(file_stat), GIVES(file), .fails = E400_404),
    OP(file_list, "GET", P_FILES "/list", BOX | CAY__OP_FILE, "listFiles", "files",
       "what is in a directory", QUERY(file_list), LISTS(file), .fails = E400_404_409),
    OP(file_glob, "GET", P_FILES "/glob", FILES, "globFiles", "files", "those whose path fits",
       QUERY(file_glob), LISTS(file), .fails = E400_404),
    OP(file_grep, "POST", P_FILES "/grep", AS_USER, "grepFiles", "files", "lines that fit",
       QUERY(file_user), BODY(grep), LISTS(match), .fails = E400_404),
    OP(file_mkdir, "POST", P_FILES "/mkdir", AS_USER | CREATE, "makeDirectory", "files",
       "make a directory", QUERY(file_user), BODY(mkdir), MAKES(file), .fails = E400_404_409),
    OP(file_rename, "POST", P_FILES "/rename", AS_USER, "renameFile", "files", "move it",
       QUERY(file_user), BODY(rename), DONE, .fails = E400_404),
    OP(file_chmod, "POST", P_FILES "/chmod", AS_USER, "setMode", "files", "other permissions",
       QUERY(file_user), BODY(chmod), DONE, .fails = E400_404),
    OP(file_chown, "POST", P_FILES "/chown", AS_USER, "setOwner", "files", "another owner",
       QUERY(file_user), BODY(chown), DONE, .fails = E400_404),
    OP(file_symlink, "POST", P_FILES "/symlink", AS_USER | CREATE, "makeLink", "files",
       "make a symbolic link", QUERY(file_user), BODY(symlink), MAKES(file), .fails = E400_404_409),
    OP(file_xattrs, "GET", P_FILES "/xattrs", FILES, "listAttributes", "files",
       "names of its extended attributes", QUERY(file_path), GIVES(names), .fails = E400_404),
    OP(file_xattr_get, "GET", P_FILES "/xattr", FILES | STREAM, "getAttribute", "files",
       "the value of one, as bytes", QUERY(file_xattr), SENDS("application/octet-stream"),
       .fails = E400_404),
    OP(file_xattr_put, "PUT", P_FILES "/xattr", FILES | RAW | STREAM, "setAttribute", "files",
       "the body becomes its value", QUERY(file_xattr), .body_type = "application/octet-stream",
       DONE, .fails = CAY__E400 | CAY__E404 | CAY__E413),
    OP(file_xattr_delete, "DELETE", P_FILES "/xattr", FILES, "removeAttribute", "files",
       "remove one", QUERY(file_xattr), DONE, .fails = E400_404),
    OP(file_patch, "POST", P_FILES "/patch", AWAKE, "patchFiles", "files",
       "files changed by context, as agents write it", BODY(file_patch), GIVES(patched),
       .fails = E400_404),
    OP(file_tar_get, "GET", P_FILES "/tar", AWAKE | CAY__OP_FILE | STREAM, "packFiles", "files",
       "the tree below path as a tar", QUERY(file_tar), SENDS("application/x-tar"),
       .fails = E400_404),
    OP(file_tar_put, "PUT", P_FILES "/tar", AWAKE | CAY__OP_FILE | RAW | STREAM, "unpackFiles",
       "files", "the members of the body are put below path", QUERY(file_tar),
       .body_type = "application/x-tar", GIVES(unpacked), .fails = E400_404),
    OP(file_watch, "GET", P_FILES "/watch", FILES | STREAM, "watchFiles", "files",
       "what changes: `ready`, then `change` events", QUERY(file_watch), SENDS("text/event-stream"),
       .fails = E400_404),

    OP(port_list, "GET", P_BOX "/ports", BOX, "listPorts", "ports", "who listens inside",
       LISTS(port), .fails = E404_409),
    OP(port_connect, "GET", P_BOX "/ports/{port}/connect", BOX | STREAM, "connectPort", "ports",
       "a connection to it, after an upgrade to cay-tcp", .answers = { { 101 } },
       .fails = E400_404_409),
    OP(port_expose, "POST", P_BOX "/ports/{port}/expose", BOX | CREATE | SECRET, "exposePort",
       "ports", "make a token that opens a port", BODY(expose), MAKES(exposed),
       .fails = E400_404_409),
    OP(port_unexpose, "DELETE", P_BOX "/ports/{port}/expose", BOX, "unexposePort", "ports",
       "take the token of a port back", DONE, .fails = E400_404),
    OP(exposed_list, "GET", P_BOX "/exposed", BOX, "listExposed", "ports",
       "the ports that tokens open", LISTS(exposed), .fails = CAY__E404),
    OP(endpoint_list, "GET", P_BOX "/endpoints", BOX, "listEndpoints", "ports",
       "the ports that its provider publishes, and where", LISTS(endpoint), .fails = CAY__E404),
    OP(endpoint_get, "GET", P_BOX "/ports/{port}/endpoint", BOX, "getEndpoint", "ports",
       "where that port is, if it was published at create", GIVES(endpoint),
       .fails = CAY__E400 | CAY__E404 | CAY__E502),

    OP(service_list, "GET", P_BOX "/services", BOX, "listServices", "services",
       "what it keeps running, and how each does", LISTS(service), .fails = E404_409),
    OP(service_act, "POST", P_BOX "/services", AWAKE, "actOnServices", "services",
       "start, stop or restart some, or all", BODY(service_act), LISTS(service),
       .fails = E400_404_409),
    OP(service_wait, "GET", P_BOX "/services/wait", AWAKE, "waitServices", "services",
       "until they are ready, one is not going to be, or the time is over", QUERY(service_wait),
       GIVES(services_waited), .fails = E400_404_409),

    OP(manifest_check, "POST", "/manifest/check", ASKS | STREAM, "checkManifest", "sandboxes",
       "judge a manifest, which is the body, as if a sandbox "
       "were made with it; nothing is made, read or fetched",
       .body_type = "application/json", GIVES(manifest_sum), .fails = CAY__E400),
    OP(manifest_schema, "GET", "/manifest/schema", STREAM, "getManifestSchema", "sandboxes",
       "a manifest's form as JSON Schema, for editors", SENDS("application/schema+json")),
    OP(sandbox_manifest, "GET", P_BOX "/manifest", BOX, "getSandboxManifest", "sandboxes",
       "what was put into it as it was made", GIVES(manifest_given), .fails = CAY__E404),
    OP(manifest_get, "GET", P_BOX "/manifest/text", BOX | STREAM, "getManifestText", "sandboxes",
       "the manifest behind a sandbox; values that are secret or ephemeral are left out",
       SENDS("application/json"), .fails = CAY__E404),
    OP(manifest_put, "PUT", P_BOX "/manifest", AWAKE | STREAM, "putManifest", "sandboxes",
       "let a running sandbox follow a manifest, which is the body: what is new is written, and "
       "what "
       "cannot be followed is refused whole",
       QUERY(manifest_put), .body_type = "application/json", DONE, .fails = E400_404_409),

    OP(snapshot_create, "POST", P_BOX "/snapshots", BOX | CREATE, "createSnapshot", "snapshots",
       "keep its files as they are now", BODY(snapshot_spec), MAKES(snapshot),
       .fails = E400_404_409),
    OP(snapshot_list, "GET", "/snapshots", 0, "listSnapshots", "snapshots",
       "those there are, oldest first", QUERY(snapshot_list), LISTS(snapshot), .fails = E400_404),
    /* the library makes them the default tenant's */
    OP(snapshot_import, "POST", "/snapshots/import", SHARED | RAW | CREATE | STREAM,
       "importSnapshot", "snapshots", "an archive as a snapshot", QUERY(snapshot_import),
       .body_type = "application/octet-stream", MAKES(snapshot), .fails = E400_404_409),
    OP(snapshot_get, "GET", "/snapshots/{ref}", 0, "getSnapshot", "snapshots",
       "all that is known of one", GIVES(snapshot), .fails = CAY__E404),
    OP(snapshot_patch, "PATCH", "/snapshots/{ref}", 0, "renameSnapshot", "snapshots",
       "give it another label", BODY(snapshot_label), GIVES(snapshot), .fails = E400_404_409),
    OP(snapshot_delete, "DELETE", "/snapshots/{ref}", 0, "deleteSnapshot", "snapshots",
       "forget one", GIVES(snapshot_gone), .fails = CAY__E404),
    OP(snapshot_export, "GET", "/snapshots/{ref}/export", STREAM, "exportSnapshot", "snapshots",
       "as an archive", QUERY(snapshot_export), SENDS("application/octet-stream"),
       .fails = E400_404),
    OP(diff, "GET", "/diff", 0, "diff", "snapshots", "what changed", QUERY(diff), LISTS(change),
       .fails = E400_404),
    OP(diff_patch, "GET", "/diff/patch", STREAM, "diffPatch", "snapshots",
       "what changed, as a patch that git takes", QUERY(diff), SENDS("text/x-diff"),
       .fails = E400_404),

    OP(volume_create, "POST", "/volumes", SHARED | CREATE, "createVolume", "volumes", "make one",
       BODY(volume_spec), MAKES(volume), .fails = CAY__E400 | CAY__E409),
    OP(volume_list, "GET", "/volumes", SHARED, "listVolumes", "volumes", "those there are",
       LISTS(volume)),
    OP(volume_get, "GET", "/volumes/{name}", SHARED, "getVolume", "volumes",
       "one, with what it holds and who has it", GIVES(volume), .fails = E400_404),
    OP(volume_delete, "DELETE", "/volumes/{name}", SHARED, "deleteVolume", "volumes",
       "remove one with all that is in it", DONE, .fails = CAY__E400 | CAY__E404 | CAY__E503),
    OP(template_create, "POST", "/templates", CREATE, "createTemplate", "templates",
       "make one of a sandbox or a snapshot; nothing is copied", BODY(publish), MAKES(template),
       .fails = E400_404),
    OP(template_list, "GET", "/templates", 0, "listTemplates", "templates",
       "what a sandbox may start from: host, then the others, oldest first", QUERY(template_list),
       LISTS(template), .fails = E400_404),
    OP(template_forget, "DELETE", "/templates", 0, "deleteTemplateByName", "templates",
       "the same by a name that has slashes", QUERY(template_forget), DONE,
       .fails = E400_404 | CAY__E403),
    OP(template_import, "POST", "/templates/import", RAW | CREATE | STREAM, "importTemplate",
       "templates",
       "an image or a root filesystem: the body is a tar of "
       "docker save, of an OCI layout, or of the files",
       QUERY(template_import), .body_type = "application/x-tar", MAKES(template),
       .fails = CAY__E400 | CAY__E413),
    OP(template_pull, "POST", "/templates/pull", CREATE, "pullTemplate", "templates",
       "get an image from its registry; what is answered is followed, listed and canceled as a "
       "build",
       BODY(pull), .answers = { { 202, &cay__build_shape } }, .fails = CAY__E400),
    OP(template_get, "GET", "/templates/{ref}", 0, "getTemplate", "templates",
       "all that is known of one, by id, or a name without a slash; others by ?name= of the list",
       GIVES(template), .fails = CAY__E404),
    OP(template_patch, "PATCH", "/templates/{ref}", 0, "changeTemplate", "templates",
       "give it one more name, or show it to other tenants, or not; by id, or a name without a "
       "slash",
       BODY(template_patch), GIVES(template), .fails = E400_404 | CAY__E403),
    OP(template_delete, "DELETE", "/templates/{ref}", 0, "deleteTemplate", "templates",
       "forget one, or a name that is not its last; its sandboxes stay", DONE,
       .fails = CAY__E403 | CAY__E404),
    OP(template_export, "GET", "/templates/{ref}/export", STREAM, "exportTemplate", "templates",
       "as an OCI layout in a tar, which import, docker load and skopeo read; by id, or a name "
       "without a slash",
       SENDS("application/x-tar"), .fails = CAY__E404 | CAY__E501),
    OP(pool_put, "PUT", "/pools", ADMIN, "putPool", "pools",
       "keep sandboxes of a template ready, or change how many", BODY(pool_put), GIVES(pool),
       .fails = E400_404),
    OP(pool_list, "GET", "/pools", ADMIN, "listPools", "pools",
       "the pools there are, and how many of each are ready", LISTS(pool)),
    OP(pool_delete, "DELETE", "/pools", ADMIN, "removePool", "pools",
       "keep none ready any more; those that are go", QUERY(pool_delete), DONE, .fails = E400_404),
    OP(registry_put, "PUT", "/registries/{host}", 0, "putRegistryLogin", "templates",
       "keep a user and password for pulls from a registry, HOST[:PORT] as images name it",
       QUERY(registry), BODY(registry_login), DONE, .fails = CAY__E400),
    OP(registry_list, "GET", "/registries", 0, "listRegistryLogins", "templates",
       "registries that there is a log-in for", QUERY(registry), LISTS(registry)),
    OP(registry_delete, "DELETE", "/registries/{host}", 0, "deleteRegistryLogin", "templates",
       "forget one", QUERY(registry), DONE, .fails = E400_404),
    OP(build_create, "POST", "/builds", RAW | CREATE | STREAM, "createBuild", "builds",
       "build a template: the body is a tar of the context, or "
       "the file itself as text/plain or application/json",
       QUERY(build_create), .body_type = "application/x-tar",
       .answers = { { 202, &cay__build_shape } }, .fails = CAY__E400 | CAY__E413),
    OP(build_list, "GET", "/builds", 0, "listBuilds", "builds", "builds, the newest first",
       LISTS(build)),
    OP(build_prune, "POST", "/builds/prune", 0, "pruneBuilds", "builds",
       "forget what builds keep of their steps and nobody stands on; templates stay",
       GIVES(removed)),
    OP(build_caches, "GET", "/builds/caches", 0, "listBuildCaches", "builds",
       "what builds keep by RUN --mount=type=cache", LISTS(build_cache)),
    OP(build_get, "GET", "/builds/{id}", 0, "getBuild", "builds", "one of them", GIVES(build),
       .fails = CAY__E404),
    OP(build_cancel, "POST", "/builds/{id}/cancel", 0, "cancelBuild", "builds",
       "stop one that waits or runs", GIVES(build), .fails = E404_409),
    OP(build_log, "GET", "/builds/{id}/log", STREAM, "streamBuildLog", "builds",
       "what it says, as events step, out, err, note, warn and fail; the last one is end",
       QUERY(build_log), SENDS("text/event-stream"), .fails = E400_404),
    OP(secret_put, "PUT", "/secrets/{name}", SHARED, "putSecret", "secrets",
       "keep a secret, or another value of it", BODY(secret_value), DONE, .fails = CAY__E400),
    OP(secret_list, "GET", "/secrets", SHARED, "listSecrets", "secrets", "their names",
       LISTS(secret)),
    OP(secret_delete, "DELETE", "/secrets/{name}", SHARED, "deleteSecret", "secrets", "forget one",
       DONE, .fails = E400_404),
    OP(secret_renew, "POST", P_BOX "/secrets/renew", BOX, "renewSecrets", "secrets",
       "read a sandbox's secrets anew from their sources", DONE, .fails = E404_409),
    /* A key of one sandbox opens that sandbox, not what its owner keeps for others to use unseen.
     */
    OP(secret_bind, "PUT", P_BOX "/secrets", FIND | SHARED, "bindSecrets", "secrets",
       "other secrets in place of all that a sandbox has, from its next request on",
       BODY(secret_bind), DONE, .fails = E400_404 | CAY__E403),

    OP(net_get, "GET", P_BOX "/net", BOX, "getPolicy", "network", "what it may reach",
       GIVES(policy), .fails = CAY__E404),
    OP(net_put, "PUT", P_BOX "/net", BOX | STREAM, "putPolicy", "network",
       "another policy, at once", .body_type = "application/json", GIVES(revision),
       .fails = E400_404 | CAY__E403),
    OP(net_rules, "POST", P_BOX "/net/rules", BOX, "addRules", "network",
       "let it reach more, or less", BODY(net_rules), GIVES(revision), .fails = E400_404),
    OP(net_why, "GET", P_BOX "/net/why", BOX, "why", "network", "may it be reached, and why",
       QUERY(net_why), GIVES(verdict), .fails = E400_404),
    OP(net_log, "GET", P_BOX "/net/log", BOX | STREAM, "netLog", "network",
       "what it reached and was refused", QUERY(net_log), SENDS("application/json"),
       .fails = E400_404),
    OP(net_presets, "GET", "/net/presets", STREAM, "netPresets", "network",
       "words that stand for several rules", SENDS("application/json")),

    OP(event_stream, "GET", "/events", STREAM, "streamEvents", "events",
       "what happens to all sandboxes", QUERY(event), SENDS("text/event-stream"),
       .fails = CAY__E400),
    OP(sandbox_events, "GET", P_BOX "/events", BOX | STREAM, "streamSandboxEvents", "events",
       "what happens to one", QUERY(event), SENDS("text/event-stream"), .fails = E400_404),

    OP(version, "GET", "/version", OPEN, "getVersion", "about", "who answers", GIVES(version)),
    OP(doctor, "GET", "/doctor", 0, "doctor", "about", "how strong the wall is here", QUERY(doctor),
       GIVES(doctor), .fails = CAY__E404),
    OP(doctor_speed, "POST", "/doctor/speed", ADMIN, "measureSpeed", "about",
       "how quick this host is: makes a sandbox, runs true in it, removes it", GIVES(speed),
       .fails = CAY__E403),
    OP(doctor_walls, "POST", "/doctor/walls", ADMIN, "tryWalls", "about",
       "try each layer in a sandbox that is made for it and removed", GIVES(walls_tried),
       .fails = CAY__E403),
    OP(gc, "POST", "/gc", ADMIN, "collectGarbage", "about",
       "remove what belongs to no sandbox, template or snapshot: left by a crash, or by hand",
       GIVES(removed)),
    OP(tenant_usage, "GET", "/usage", 0, "getTenantUsage", "about",
       "what a tenant has, and may have", QUERY(tenant_usage), GIVES(share), .fails = CAY__E404),
    OP(host_past, "GET", "/usage/past", ADMIN, "listHostUsage", "about",
       "what all running sandboxes together used", QUERY(usage_past), LISTS(usage_point),
       .fails = CAY__E400 | CAY__E403),

    OP(key_create, "POST", "/keys", CREATE | SECRET, "createKey", "access", "make a key",
       BODY(key_create), MAKES(key_made), .fails = CAY__E400 | CAY__E403 | CAY__E404 | CAY__E409),
    OP(key_list, "GET", "/keys", 0, "listKeys", "access", "the keys there are", QUERY(key_list),
       LISTS(key)),
    OP(key_revoke, "DELETE", "/keys/{key}", 0, "revokeKey", "access",
       "let it open nothing any more", DONE, .fails = E400_404),
    OP(tenant_create, "POST", "/tenants", ADMIN | CREATE, "createTenant", "access",
       "let somebody else use this machine", BODY(tenant_create), MAKES(tenant),
       .fails = CAY__E400 | CAY__E409),
    OP(tenant_list, "GET", "/tenants", ADMIN, "listTenants", "access",
       "those there are, with what they have", LISTS(tenant)),
    OP(tenant_patch, "PATCH", "/tenants/{name}", ADMIN, "changeTenant", "access", "other bounds",
       BODY(tenant_patch), GIVES(tenant), .fails = E400_404),
    OP(tenant_delete, "DELETE", "/tenants/{name}", ADMIN, "removeTenant", "access",
       "forget one that has nothing any more", DONE, .fails = E400_404_409),
    OP(job_create, "POST", "/jobs", CREATE, "createJob", "jobs", "do something to a sandbox later",
       BODY(job_create), MAKES(job), .fails = E400_404),
    OP(job_list, "GET", "/jobs", 0, "listJobs", "jobs", "by the time they are due", QUERY(job_list),
       LISTS(job), .fails = CAY__E400),
    OP(job_get, "GET", "/jobs/{job}", 0, "getJob", "jobs", "one of them", GIVES(job),
       .fails = CAY__E404),
    OP(job_cancel, "POST", "/jobs/{job}/cancel", 0, "cancelJob", "jobs",
       "take one back that waits or runs", GIVES(job), .fails = E404_409),
    OP(job_replay, "POST", "/jobs/{job}/replay", 0, "replayJob", "jobs",
       "a dead or canceled one once more", GIVES(job), .fails = E404_409),
    OP(audit_list, "GET", "/audit", 0, "listAudit", "audit", "who did what, oldest first",
       QUERY(audit_list), LISTS(audit), .fails = CAY__E400),
    OP(audit_proof, "GET", "/audit/proof", ADMIN, "proveAudit", "audit", "is it all still so",
       QUERY(audit_proof), GIVES(audit_proof), .fails = CAY__E400),
};

/* RFC 3986: what is no unreserved character is a %-sequence; a {rest*} keeps its slashes. */
static void add_encoded(cay__buf *b, const char *s, bool slashes)
{
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (isalnum(c) || strchr("-._~", c) || (slashes && c == '/'))
            cay__buf_add(b, s, 1);
        else
            cay__buf_fmt(b, "%%%02X", c);
    }
}

static void add_param(cay__buf *b, char *sep, const char *name, const char *key, const char *value)
{
    cay__buf_fmt(b, "%c%s=", *sep, name);
    *sep = '&';
    if (key) {
        add_encoded(b, key, false);
        cay__buf_str(b, "%3D");
    }
    add_encoded(b, value, false);
}

static void add_query_field(cay__buf *b, char *sep, const cay__field *f, const char *base)
{
    const void *v = base + f->at;
    char digits[24];
    switch (f->kind) {
    case CAY__F_STR:
        if (*(const char *const *)v)
            add_param(b, sep, f->name, NULL, *(const char *const *)v);
        return;
    case CAY__F_STRS:
        for (const char *const *p = *(const char *const *const *)v; p && *p; p++)
            add_param(b, sep, f->name, NULL, *p);
        return;
    case CAY__F_PAIRS:
        for (const cay_pair *p = *(const cay_pair *const *)v; p && p->key; p++)
            add_param(b, sep, f->name, p->key, p->value);
        return;
    default:
        if (cay__field_number(f->kind, v))
            add_param(b, sep, f->name, NULL, cay__str_u64(digits, cay__field_number(f->kind, v)));
    }
}

void cay__operation_target(cay__buf *b, const cay__operation *op, const char *const *params,
                           const void *query)
{
    char sep = '?';
    for (const char *p = op->path; *p; p++) {
        if (*p != '{') {
            cay__buf_add(b, p, 1);
            continue;
        }
        p += strcspn(p, "}");
        add_encoded(b, *params++, p[-1] == '*');
    }
    for (size_t i = 0; op->query && query && i < op->query->n; i++)
        add_query_field(b, &sep, &op->query->fields[i], query);
}
