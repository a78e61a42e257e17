/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the keeper found, as layers a person can read: on, soft or off, why, and what to do about
 * it.
 */
#include "native.h"
#include <base/base.h>
#include <base/kernel.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#define SCOPES 6 /* Landlock's ABI that has them */
#define DELEGATE                                                                                   \
    "loginctl enable-linger: the next keeper starts in a scope of your own systemd; or run as "    \
    "root"
#define IO      "systemctl edit user@.service, Delegate=cpu memory pids io; or run as root"
#define PROFILE "load the profile that comes with cay: apparmor_parser -r /etc/apparmor.d/cay"
#define SUBIDS                                                                                     \
    "give the user a range: usermod --add-subuids 100000-165535 --add-subgids 100000-165535 "      \
    "NAME; install uidmap"

static const struct {
    const char *name;
    uint32_t bit;       /* feature; 0: always on once there is a keeper */
    const char *absent; /* state without it */
    const char *why, *remedy;
} table[] = {
    { "user-namespace", 0, "", "", "" },
    { "mount-namespace", 0, "", "", "" },
    { "pid-namespace", 0, "", "", "" },
    { "ipc-namespace", 0, "", "", "" },
    { "net-namespace", CAY_FEAT_NETNS, "off", "the kernel refuses it", "" },
    { "egress-policy", CAY_FEAT_NFT, "off",
      "the kernel has no nftables and no IPv6 here: nothing can leave, and no policy but off is "
      "accepted",
      "use a kernel with CONFIG_NFT_TPROXY, or let the container around us use nftables" },
    { "seccomp", CAY_FEAT_SECCOMP, "off", "the kernel has no filter mode",
      "use a kernel with CONFIG_SECCOMP_FILTER" },
    { "capabilities", 0, "", "", "" },
    { "no-new-privs", 0, "", "", "" },
    { "landlock", CAY_FEAT_LANDLOCK, "off", "the kernel was started without it",
      "boot with lsm=landlock,… on a kernel since 5.13" },
    { "freeze", CAY_FEAT_CG2, "soft",
      "no cgroup v2 tree that we may write: processes are stopped one by one", DELEGATE },
    { "memory-limit", CAY_FEAT_MEMORY, "soft",
      "no memory cgroup: the data segment of each process is bounded instead", DELEGATE },
    { "pids-limit", CAY_FEAT_PIDS, "off", "no pids cgroup: nothing bounds how many there are",
      DELEGATE },
    { "cpu-limit", CAY_FEAT_CPU, "soft", "no cpu cgroup: affinity only", DELEGATE },
    { "io-limit", CAY_FEAT_IO, "off", "no io cgroup", IO },
    { "disk-quota", CAY_FEAT_QUOTA, "soft",
      "no project quota on the state directory: use is measured every few seconds",
      "as root, --require disk-quota gives a disk image; or mount the state directory with "
      "prjquota" },
};

size_t cay__native_box_walls(const cay_m_hello *h, uint32_t flags, cay_wall *out, size_t max)
{
    cay_m_hello own = *h;
    own.features &= ~(uint32_t)CAY_FEAT_IMAGE;
    size_t n = cay__native_walls(&own, out, max);
    for (size_t i = 0; i < n && (flags & CAY_CREATE_DISK); i++)
        if (!strcmp(out[i].name, "disk-quota"))
            out[i] = (cay_wall){ out[i].name, "on", "by a disk image of its own", "" };
    return n;
}

size_t cay__native_walls(const cay_m_hello *h, cay_wall *out, size_t max)
{
    size_t n = 0;
    CAY_EACH(row, table) {
        cay_wall w = { row->name, "on", "", "" };
        bool on = !row->bit || (h->features & row->bit), nft = row->bit == CAY_FEAT_NFT;
        if (n == max)
            break;
        if (!on && nft && (h->features & CAY_FEAT_NAT))
            w.why = "by nat redirect: the kernel has no tproxy";
        else if (!on && nft && (h->features & CAY_FEAT_PORTS))
            w = (cay_wall){ row->name, "soft",
                            "by a listener for each port: the kernel has no nftables; a policy "
                            "names 8 ports at most",
                            row->remedy };
        else if (!on && nft && !(h->features & CAY_FEAT_NET_TRIED))
            w.why = "tried when the first sandbox is made";
        else if (row->bit == CAY_FEAT_LANDLOCK && on && h->landlock_abi < SCOPES)
            w = (cay_wall){ row->name, "soft",
                            "files alone, where a capability names them: the kernel's Landlock "
                            "keeps no signals and sockets inside",
                            "use Linux 6.12 or newer" };
        else if (!on && row->bit == CAY_FEAT_QUOTA && (h->features & CAY_FEAT_IMAGE))
            w.why = "by a disk image of its own for who requires it (--require disk-quota); else "
                    "soft: measured every few seconds";
        else if (!on)
            w = (cay_wall){ row->name, row->absent, row->why, row->remedy };
        if (h->mode == CAY_MODE_ROOT && (!strcmp(w.remedy, DELEGATE) || !strcmp(w.remedy, IO)))
            w.remedy = "let the container around us divide control groups (a writable "
                       "/sys/fs/cgroup with controllers)";
        out[n++] = w;
    }
    if (n < max) {
        static const cay_wall ids[] = {
            [CAY_MODE_ROOT] = { "own-ids", "on", "65,536 of its own", "" },
            [CAY_MODE_RANGE] = { "own-ids", "soft", "sub-ids, shared by all sandboxes of this user",
                                 "run as root for a range each" },
            [CAY_MODE_SINGLE] = { "own-ids", "off",
                                  "no range in /etc/subuid: one id inside, which is yours outside",
                                  SUBIDS },
        };
        static const cay_wall shared = { "own-ids", "off",
                                         "overlayfs takes no idmapped layers here: all sandboxes "
                                         "share one range of ids",
                                         "use Linux 5.19 or newer, with the state directory on "
                                         "ext4, xfs or btrfs" };
        out[n++] = ids[h->mode <= CAY_MODE_SINGLE ? h->mode : CAY_MODE_SINGLE];
        if (h->mode == CAY_MODE_ROOT && !(h->features & CAY_FEAT_IDMAP))
            out[n - 1] = shared;
    }
    return n;
}

int cay__native_require(const cay_m_hello *h, int min_level, const char *const *require,
                        cay_err *err)
{
    cay_wall l[CAY__WALLS_MAX];
    size_t n = cay__native_walls(h, l, CAY__WALLS_MAX), at = 0;
    char text[220] = "";
    if (min_level > h->level)
        return cay_fail_why(err, CAY_EISOLATION, "level_missing",
                            "isolation level %d is asked for, this host gives %d (%s); %s",
                            min_level, h->level, h->level == CAY_LEVEL_ROOT ? "root" : "rootless",
                            min_level > CAY_LEVEL_ROOT ? "there is no vm provider yet"
                                                       : "run as root with cgroup controllers");
    for (; require && *require; require++) {
        const cay_wall *hit = NULL;
        CAY_EACH_OF(it, l, n)
            if (!strcmp(it->name, *require))
                hit = it;
        if (hit && !strcmp(hit->state, "on"))
            continue;
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s (%s)", CAY_TEXT_IF(at, ", "),
                               *require, hit ? hit->why : "no such feature");
        at = CAY_MIN(at, sizeof text - 1);
    }
    if (at)
        return cay_fail_why(err, CAY_EISOLATION, "feature_missing",
                            "this host lacks %s; `cay doctor` names remedies", text);
    return 0;
}

bool cay__requires(const cay_create *spec, const char *feature)
{
    for (const char *const *r = spec->isolation.require; r && *r; r++)
        if (!strcmp(*r, feature))
            return true;
    return false;
}

/* What no overlay can write to: statfs(2). */
static const struct {
    long type;
    const char *name;
} no_upper[] = {
    { 0x794c7630, "overlayfs" }, { 0x6969, "NFS" },      { 0x65735546, "FUSE" },
    { 0x01021997, "9p" },        { 0x4d44, "vfat" },     { 0xff534d42, "SMB" },
    { 0xfe534d42, "SMB" },       { 0xf15f, "ecryptfs" },
};

int cay__native_explain(const cay__native *n, int rc, cay_err *err)
{
    struct statfs st;
    if (rc == 0 || !err || !cay_err_is(err, CAY_REASON_PARK_FAILED) || fstatfs(n->home_fd, &st) < 0)
        return rc;
    CAY_EACH(it, no_upper)
        if ((uint32_t)st.f_type == (uint32_t)it->type)
            return cay_fail_why(err, CAY_EISOLATION, "park_failed",
                                "the state directory %.80s is on %s, and no overlay can be above "
                                "that: use one on ext4, xfs, btrfs or tmpfs (--home DIR; in a "
                                "container, a volume)",
                                n->home, it->name);
    return rc;
}

static bool has_first_char(const char *path, char first)
{
    char buf[16];
    return cay__fd_read_file(AT_FDCWD, path, buf, sizeof buf) > 0 && buf[0] == first;
}

/* A profile that is not only a name. Where AppArmor is not, or is told by another module, this is
 * not ours to judge. */
static bool is_confined(void)
{
    char buf[256] = "";
    if (cay__fd_read_file(AT_FDCWD, "/proc/self/attr/apparmor/current", buf, sizeof buf) <= 0)
        return false;
    return strstr(buf, "(enforce)") || strstr(buf, "(kill)");
}

static bool in_container(void)
{
    return access("/.dockerenv", F_OK) == 0 || access("/run/.containerenv", F_OK) == 0;
}

const char *cay__native_cause(const char **remedy)
{
    *remedy = "";
    if (cay__kernel_lacks(CAY_KERNEL_MOUNT_SETATTR) ||
        (syscall(SYS_mount_setattr, -1, "", 0, NULL, 0) < 0 && errno == ENOSYS)) {
        *remedy = "boot Linux 5.15 or newer, or use --isolation own-kernel or a container engine";
        return "the kernel, or the container around us, has no mount_setattr(2) (Linux 5.12)";
    }
    if (has_first_char("/proc/sys/user/max_user_namespaces", '0')) {
        *remedy = "sysctl user.max_user_namespaces=65536";
        return "user.max_user_namespaces is 0";
    }
    if (geteuid() != 0 && has_first_char("/proc/sys/kernel/unprivileged_userns_clone", '0')) {
        *remedy = "sysctl kernel.unprivileged_userns_clone=1, or run as root";
        return "kernel.unprivileged_userns_clone is 0";
    }
    if (geteuid() != 0 &&
        has_first_char("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", '1')) {
        *remedy = PROFILE ", or run as root";
        return "AppArmor forbids user namespaces to programs without a profile";
    }
    if (in_container()) {
        *remedy = "start the outer container with --security-opt seccomp=unconfined --security-opt "
                  "apparmor=unconfined, or --privileged";
        return "the container around us blocks unshare or mount";
    }
    if (is_confined()) {
        *remedy = PROFILE ", or start cay from a program that is not confined";
        return "the AppArmor profile of who started cay forbids user namespaces";
    }
    return NULL;
}

const char *cay__native_why_not(const cay_err *why, const char **remedy)
{
    const char *text = cay__native_cause(remedy);
    if (text)
        return text;
    if (cay_err_is(why, CAY_REASON_NAMESPACES_REFUSED))
        *remedy = "let the container or policy around this process allow unshare(2) and mount(2)";
    return why->msg;
}
