/* SPDX-License-Identifier: Apache-2.0 */
/* An engine tells what went wrong in words; here is what they mean, and what helps. */
#include "engine.h"
#include <strings.h>

static const struct {
    const char *words; /* in the message, without regard to case */
    int code;
    const char *reason, *remedy;
    int status; /* only with this one; 0: with any */
} known[] = {
    { "volumedriver.", CAY_ESYS, "mount_failed", "look at what the volume driver logs" },
    { "error while mounting volume", CAY_ESYS, "mount_failed",
      "look at what the volume driver logs" },
    { "the container name", CAY_ESTATE, "engine_conflict",
      "a container of that name is there already", 0 },
    { "port is already allocated", CAY_EBUSY, "port_taken",
      "choose another host port, or none to get a free one" },
    { "address already in use", CAY_EBUSY, "port_taken",
      "choose another host port, or none to get a free one" },
    { "no space left on device", CAY_ENOSPACE, "engine_full",
      "make room where the engine keeps its data: docker system prune" },
    { "exec format error", CAY_EINVAL, "image_architecture",
      "take an image of this machine's architecture" },
    { "no such image", CAY_ENOENT, "image_not_found", "pull it, or give option pull=missing" },
    { "manifest unknown", CAY_ENOENT, "image_not_found", "look at the name and tag of the image" },
    { "repository does not exist", CAY_ENOENT, "image_not_found",
      "look at the name of the image, or log in: docker login" },
    { "pull access denied", CAY_ENOENT, "image_not_found",
      "look at the name of the image, or log in: docker login" },
    { "unauthorized", CAY_EAUTH, "registry_denied", "log in to the registry: docker login" },
    { "no basic auth credentials", CAY_EAUTH, "registry_denied",
      "log in to the registry: docker login" },
    { "authentication required", CAY_EAUTH, "registry_denied",
      "log in to the registry: docker login" },
    { "no such host", CAY_EUPSTREAM, "registry_unreachable",
      "look at the registry's name and the engine's network" },
    { "connection refused", CAY_EUPSTREAM, "registry_unreachable",
      "look at the registry's name and the engine's network" },
    { "plugin \"", CAY_ENOENT, "volume_driver_unknown",
      "install the volume driver, or use driver local" },
    { "volume plugin", CAY_ENOENT, "volume_driver_unknown",
      "install the volume driver, or use driver local" },
    { "error looking up volume", CAY_ENOENT, "volume_driver_unknown",
      "install the volume driver, or use driver local" },
    { "network not found", CAY_ENOENT, "network_not_found", "look at podman network ls", 0 },
    { "network", CAY_ENOENT, "network_not_found", "look at docker network ls", 404 },
    { "unknown or invalid runtime", CAY_ENOENT, "runtime_unknown",
      "look at the runtimes of docker info" },
    { "unknown runtime", CAY_ENOENT, "runtime_unknown", "look at the runtimes of docker info" },
    { "bind source path does not exist", CAY_ENOTSUP, "engine_remote",
      "the engine does not see this machine's files; use one that runs here" },
    { "storage-opt", CAY_ENOTSUP, "disk_unsupported",
      "leave the disk limit out, or keep the engine's data on xfs with pquota" },
};

static const struct {
    int status, code;
    const char *reason;
} statuses[] = {
    { 400, CAY_EINVAL, "engine_refused" },  { 401, CAY_EAUTH, "registry_denied" },
    { 403, CAY_EPERM, "engine_refused" },   { 404, CAY_ENOENT, "container_not_found" },
    { 409, CAY_ESTATE, "engine_conflict" }, { 503, CAY_EBUSY, "engine_busy" },
};

int cay__engine_error(int status, const char *said, cay_err *err)
{
    CAY_AUTOBUF text = CAY__BUF(220);
    size_t n = CAY_MIN(strlen(said), (size_t)150);
    cay__buf_safe(&text, said, n, false);
    const char *safe = CAY_OR(text.data, "it does not say why");
    /* A container that is not there is told by the status alone: its name may hold any of the
     * words. */
    bool container = status == 404 && (!strncasecmp(said, "no such container", 17) ||
                                       strstr(said, "no container with name"));
    CAY_EACH(k, known)
        if (!container && (!k->status || k->status == status) && strcasestr(said, k->words))
            return cay_fail_why(err, k->code, k->reason, "the engine says: %s; %s", safe,
                                k->remedy);
    CAY_EACH(it, statuses)
        if (it->status == status)
            return cay_fail_why(err, it->code, it->reason, "the engine says: %s", safe);
    return cay_fail_why(err, CAY_EUPSTREAM, "engine_failed", "the engine says (status %d): %s",
                        status, safe);
}
