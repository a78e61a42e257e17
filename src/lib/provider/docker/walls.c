/* SPDX-License-Identifier: Apache-2.0 */
/* What a container's walls are worth: those of its engine, less what its request took out of them.
 */
#include "box.h"

bool cay__docker_has_quota(const cay__engine_info *i)
{
    return !strcmp(i->driver, "btrfs") || !strcmp(i->driver, "zfs") ||
           (!strcmp(i->driver, "overlay2") && !strcmp(i->backing, "xfs"));
}

/* What engines give every container that says nothing: with these root inside is still inside. */
static bool is_usual(const char *cap)
{
    static const char *const usual[] = {
        "AUDIT_WRITE",      "CHOWN",   "DAC_OVERRIDE", "FOWNER", "FSETID",  "KILL",   "MKNOD",
        "NET_BIND_SERVICE", "NET_RAW", "SETFCAP",      "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"
    };
    CAY_EACH(it, usual)
        if (!strcmp(*it, cap))
            return true;
    return false;
}

static void describe_walls(cay__docker_walls *w)
{
    char one[64];
    bool bare = !strcmp(w->seccomp, "unconfined");
    w->opened = bare;
    for (const char *p = w->caps; *p;) {
        size_t n = strcspn(p, ",");
        CAY_FORMAT(one, "%.*s", (int)CAY_MIN(n, sizeof one - 1), p);
        w->opened |= *one && !is_usual(one);
        p += n + (p[n] == ',');
    }
    CAY_COPY(w->why_caps, "seven for root inside, none for others");
    if (*w->caps)
        CAY_FORMAT(
            w->why_caps,
            "seven for root inside and, by option cap_add or for its storage, %s; none for others",
            w->caps);
    if (!*w->network)
        CAY_COPY(w->why_net, "none by default; option network opens it, without a policy");
    else if (!strcmp(w->network, "none"))
        CAY_COPY(w->why_net, "loopback alone");
    else
        CAY_FORMAT(w->why_net, "on the engine's network %s, without a policy", w->network);
}

void cay__docker_walls_of(const cay__docker_options *o, cay__docker_walls *out)
{
    *out = (cay__docker_walls){ 0 };
    /* More than fits is still more: the list is cut, and what was opened stays opened. */
    CAY_FORMAT(out->caps, "%s%s%s", CAY_TEXT_IF(o->mounts, "SYS_ADMIN"),
               CAY_TEXT_IF(o->mounts && o->cap_add, ","), CAY_OR(o->cap_add, ""));
    CAY_FORMAT(out->seccomp, "%s", o->seccomp[0] == '/' ? "own" : o->seccomp);
    CAY_FORMAT(out->network, "%s", o->network);
    describe_walls(out);
    out->opened |= o->cap_add && strlen(o->cap_add) >= sizeof out->caps;
}

int cay__docker_walls_save(int dir, const cay__docker_walls *w, cay_err *err)
{
    CAY_AUTOJSON *o =
        json_pack("{s:s,s:s,s:s,s:s,s:b}", "transport", w->far ? "engine" : "socket", "cap_add",
                  w->caps, "seccomp", w->seccomp, "network", w->network, "opened", w->opened);
    CAY_AUTOFREE char *text = cay__json_text(o, 4096);
    CAY_AUTOFD fd =
        openat(dir, "walls", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (!text || fd < 0 || !cay__fd_write_all(fd, text, strlen(text)))
        return cay_fail_sys(err, "write the sandbox's walls");
    return 0;
}

/* One that cannot be read is of a sandbox from before there was one; its engine's record would tell
 * more, and nobody is promised anything by it. */
void cay__docker_walls_load(int dir, cay__docker_walls *out)
{
    char text[4096];
    CAY_AUTOJSON *o = NULL;
    *out = (cay__docker_walls){ 0 };
    if (cay__fd_read_file(dir, "walls", text, sizeof text) > 0 &&
        cay__json_object("walls", text, &o, NULL) == 0) {
        out->far = !strcmp(cay__json_str(o, "transport", ""), "engine");
        CAY_COPY(out->caps, cay__json_str(o, "cap_add", ""));
        CAY_COPY(out->seccomp, cay__json_str(o, "seccomp", ""));
        CAY_COPY(out->network, cay__json_str(o, "network", ""));
    }
    describe_walls(out);
    out->opened |= cay__json_bool(o, "opened", false);
}

/* A capability beyond the usual, or no filter: root inside is not held by the engine's wall any
 * more. In a user namespace of its own the kernel still holds it by its ids, and that is what is
 * left. */
cay_level cay__docker_level(const cay__engine_info *i, const cay__docker_walls *w)
{
    if (w && w->opened) {
        if (i->rootless)
            return CAY_LEVEL_PROCESS;
        return CAY_LEVEL_NONE;
    }
    if (i->rootless)
        return CAY_LEVEL_ROOTLESS;
    return CAY_LEVEL_PROCESS;
}

static cay_wall if_on(bool on, const char *name, const char *why, const char *remedy)
{
    if (on)
        return (cay_wall){ name, "on", "", "" };
    return (cay_wall){ name, "off", why, remedy };
}

static cay_wall build_seccomp_wall(const cay__engine_info *i, const cay__docker_walls *w)
{
    if (!strcmp(w->seccomp, "unconfined"))
        return (cay_wall){ "seccomp", "off", "taken away by option seccomp=unconfined",
                           "leave the option out" };
    if (!strcmp(w->seccomp, "own") && i->seccomp)
        return (cay_wall){ "seccomp", "soft",
                           "the profile that option seccomp names, whatever it allows",
                           "leave the option out" };
    if (!strcmp(w->seccomp, "cay") || !strcmp(w->seccomp, "strict"))
        return (cay_wall){ "seccomp", "on",
                           i->seccomp ? "the engine's filter, and cay's own on top of it"
                                      : "cay's own filter; the engine has none",
                           "" };
    return if_on(i->seccomp, "seccomp", "the engine has no filter", "use an engine with seccomp");
}

static cay_wall build_capabilities_wall(const cay__docker_walls *w)
{
    if (*w->caps)
        return (cay_wall){ "capabilities", "soft", w->why_caps, "leave option cap_add out" };
    return (cay_wall){ "capabilities", "on", w->why_caps, "" };
}

size_t cay__docker_layers(const cay__engine_info *i, const cay__docker_walls *w, cay_wall *out,
                          size_t max)
{
    static const char no_group[] = "the engine has no control group for it",
                      group[] = "give the engine's user delegated groups, or run it as root";
    static const cay__docker_walls whole = {
        .why_caps = "seven for root inside, none for others",
        .why_net = "none by default; option network opens it, without a policy"
    };
    w = CAY_OR(w, &whole);
    const cay_wall rows[] = {
        { "engine", "on",
          i->podman ? "Podman's container; the engine is the wall's maker"
                    : "Docker's container; the engine is the wall's maker",
          "" },
        if_on(i->rootless, "user-namespace",
              "the engine runs as root and maps no ids: root inside is root's id outside, without "
              "its capabilities",
              "run the engine rootless"),
        { "mount-namespace", "on", "", "" },
        { "pid-namespace", "on", "", "" },
        { "ipc-namespace", "on", "", "" },
        { "net-namespace", "on", w->why_net, "" },
        { "no-new-privs", "on", "", "" },
        build_capabilities_wall(w),
        build_seccomp_wall(i, w),
        { "landlock", "off", "the engine sets none", "use provider native" },
        { "freeze", "on", "", "" },
        if_on(i->memory, "memory-limit", no_group, group),
        if_on(i->cpu, "cpu-limit", no_group, group),
        if_on(i->pids, "pids-limit", no_group, group),
        { "io-limit", "off", "not set", "use provider native" },
        cay__docker_has_quota(i)
            ? (cay_wall){ "disk-quota", "soft", "only when a limit is given", "" }
            : (cay_wall){ "disk-quota", "off", "the engine's storage has no quota",
                          "keep its data on xfs with pquota" },
        { "nofile-limit", "on", "", "" },
        { "egress-policy", "off", "an engine's network has no rules by name",
          "use provider native" },
        if_on(i->rootless, "own-ids", "ids inside are the host's", "run the engine rootless"),
        w->far
            ? (cay_wall){ "transport", "soft",
                          "engine: pid 1 is in the container's own root and reached by the "
                          "engine's exec; root inside could speak to it, and move its deadline",
                          "use an engine that sees this machine's files" }
            : (cay_wall){ "transport", "on",
                          "socket: pid 1 is reached by a directory that the container shows", "" },
    };
    size_t n = CAY_MIN(CAY_LEN(rows), max);
    memcpy(out, rows, n * sizeof *rows);
    return n;
}
