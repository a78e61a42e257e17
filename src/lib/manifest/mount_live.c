/* SPDX-License-Identifier: Apache-2.0 */
/* Storage into a sandbox that runs. */
#include <lib/client/remote.h>
#include "client_mounts.h"
#include <lib/client/client.h>
#include <base/json.h>
#include <cay/volume.h>

/* Places of the sandbox itself: what is put over them would be taken for it. */
static const char *const system_places[] = { "/proc",  "/sys",    "/dev",  "/run", "/etc",
                                             "/usr",   "/bin",    "/sbin", "/lib", "/lib32",
                                             "/lib64", "/libx32", "/boot", "/.cay" };

/* Clean and absolute: no empty part, no dots, nothing of the system's. */
static int check_target(const char *target, cay_err *err)
{
    bool bad = !target || *target != '/' || !target[1] || strlen(target) > 1000;
    for (const char *s = target; !bad && *s; s += strcspn(s + 1, "/") + 1) {
        size_t n = strcspn(s + 1, "/");
        bad = !n || (n == 1 && s[1] == '.') || (n == 2 && s[1] == '.' && s[2] == '.');
    }
    for (size_t i = 0; !bad && i < CAY_LEN(system_places); i++) {
        size_t n = strlen(system_places[i]);
        bad = !strncmp(target, system_places[i], n) && (!target[n] || target[n] == '/');
    }
    if (bad)
        return cay_fail_why(err, CAY_EINVAL, "mount_target",
                            "\"%.100s\" is no absolute path, without dots, outside of the "
                            "system's own directories",
                            CAY_OR(target, ""));
    return 0;
}

int cay_mount_check(const cay_mount *spec, cay_err *err)
{
    return check_target(spec->target, err);
}

/* Of this sandbox and place, among all of the state directory. */
static void name_of(const char *id, const char *target, char out[64])
{
    snprintf(out, 64, "%.20s-%08x", id, cay__hash(target, strlen(target)));
}

static int check_mountable(cay_sandbox *sb, const cay_call *call, const char *target, cay_err *err)
{
    CAY_TRY(cay__remote_none(sb->owner, "storage of a sandbox that runs", err));
    CAY_TRY(cay__call_check(call, "mount", err));
    CAY_TRY(check_target(target, err));
    if (!sb->owner || strcmp(sb->ops->name, "native") != 0)
        return cay_fail_why(
            err, CAY_ENOTSUP, "mount_unsupported",
            "provider %.40s cannot show storage; use provider native, and keep the sandbox",
            sb->ops->name);
    return cay__sandbox_ready(sb, err);
}

int cay_sandbox_mount(cay_sandbox *sb, const cay_call *call, const cay_mount *given, cay_err *err)
{
    CAY__OP(call, "mount.show", sb->id, err);
    cay_client *client = sb->owner;
    cay_mount spec;
    char name[64];
    CAY_AUTOJSON *fields = NULL;
    CAY__AUTOSTORAGE st = CAY__STORAGE_NONE;
    cay_box_status now = { .size = sizeof now };
    CAY_TRY(cay__spec_take(&spec, sizeof spec, given, "cay_mount", err));
    CAY_TRY(check_mountable(sb, call, spec.target, err));
    CAY_TRY(cay__json_object("fields", CAY_OR(spec.fields, "{}"), &fields, err));
    const cay__storage_mount m = { .type = CAY_OR(spec.type, ""),
                                   .target = spec.target,
                                   .entry = spec.target,
                                   .rw = spec.rw,
                                   .fields = fields };
    CAY_TRY(cay__storage_open(client->home, client->libexec, call, sb->id, &m, 1, &st, err));
    CAY_TRY(sb->ops->status(sb->box, call, &now, err));
    name_of(sb->id, spec.target, name);
    return cay__storage_show(&st, now.pid, name, spec.target, err);
}

int cay_sandbox_unmount(cay_sandbox *sb, const cay_call *call, const char *target, cay_err *err)
{
    CAY__OP(call, "mount.hide", sb->id, err);
    cay_client *client = sb->owner;
    char name[64];
    CAY_TRY(check_mountable(sb, call, target, err));
    name_of(sb->id, target, name);
    int rc = cay__storage_hide(client->home, name, call, err);
    if (rc == CAY_ENOENT)
        return cay_fail_why(err, CAY_ENOENT, "mount_unknown",
                            "nothing is mounted on %.150s of sandbox %s", target, sb->id);
    return rc;
}
