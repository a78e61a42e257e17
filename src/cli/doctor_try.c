/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sandboxes that cay doctor makes: one with limits, and one more for each limit that a host may
 * refuse. What was seen in them is what doctor says; nothing is called on that was not tried there.
 */
#include "cli.h"
#include "main.h"
#include <base/base.h>
#include <base/kernel.h>
#include <stdarg.h>

enum { TRY_MS = 60000 }; /* an emulated machine is slow */

static const char look_script[] =
    "for n in user mnt pid ipc net; do readlink /proc/self/ns/$n; done; "
    "cat /proc/self/status";

static cay_wall *find_wall(doctor_trial *t, const char *name)
{
    CAY_EACH_OF(wall, t->wall, t->n)
        if (!strcmp(wall->name, name))
            return wall;
    return NULL;
}

static void set_wall(doctor_trial *t, const char *name, const char *state, const char *remedy,
                     const char *fmt, ...) __attribute__((format(printf, 5, 6)));
static void set_wall(doctor_trial *t, const char *name, const char *state, const char *remedy,
                     const char *fmt, ...)
{
    va_list ap;
    cay_wall *w = find_wall(t, name);
    if (!w && t->n == DOCTOR_WALLS)
        return;
    if (!w)
        w = &t->wall[t->n++];
    size_t i = (size_t)(w - t->wall);
    va_start(ap, fmt);
    vsnprintf(t->why[i], sizeof t->why[i], fmt, ap);
    va_end(ap);
    *w = (cay_wall){ name, state, t->why[i], remedy };
}

static void copy_walls(doctor_trial *t, const cay_wall *walls, size_t n)
{
    t->n = 0;
    CAY_EACH_OF(wall, walls, CAY_MIN(n, (size_t)DOCTOR_WALLS)) {
        size_t i = t->n++;
        CAY_COPY(t->why[i], CAY_OR(wall->why, ""));
        t->wall[i] =
            (cay_wall){ cay__arena_str(&t->mem, wall->name), cay__arena_str(&t->mem, wall->state),
                        t->why[i], cay__arena_str(&t->mem, CAY_OR(wall->remedy, "")) };
    }
}

static bool is_on(doctor_trial *t, const char *name)
{
    const cay_wall *w = find_wall(t, name);
    return w && !strcmp(w->state, "on");
}

static void deny_wall(doctor_trial *t, const char *name, const char *seen)
{
    if (is_on(t, name))
        set_wall(t, name, "off", "", "tried in a sandbox: %s", seen);
}

/* One line of the script's output for each kind of namespace, and then what proc(5) says. */
static const char *judge_namespaces(doctor_trial *t, const char *out)
{
    static const struct {
        const char *kind, *wall;
    } kinds[] = { { "user", "user-namespace" },
                  { "mnt", "mount-namespace" },
                  { "pid", "pid-namespace" },
                  { "ipc", "ipc-namespace" },
                  { "net", "net-namespace" } };
    CAY_EACH(it, kinds) {
        char path[40], ours[64] = "";
        CAY_JOIN(path, "/proc/self/ns/", it->kind);
        ssize_t n = readlink(path, ours, sizeof ours - 1);
        size_t len = strcspn(out, "\n");
        if (n <= 0 || !len || (len == (size_t)n && !strncmp(out, ours, len)))
            deny_wall(t, it->wall, "it has the host's own");
        out += len + (out[len] == '\n');
    }
    return out;
}

static void judge_status(doctor_trial *t, const char *status)
{
    static const struct {
        const char *line, *wall, *seen;
    } rows[] = { { "Seccomp:\t2\n", "seccomp", "it has no filter" },
                 { "NoNewPrivs:\t1\n", "no-new-privs", "it could gain privileges" },
                 { "CapEff:\t0000000000000000\n", "capabilities", "it has some" } };
    CAY_EACH(row, rows)
        if (!strstr(status, row->line))
            deny_wall(t, row->wall, row->seen);
}

static int judge_inside(doctor_trial *t, cay_sandbox *sb, const cay_call *call, cay_err *err)
{
    const cay_spawn spec = { .size = sizeof spec, .shell = look_script, .timeout_ms = TRY_MS };
    cay_result res = { .size = sizeof res };
    CAY_TRY(cay_sandbox_run(sb, call, &spec, NULL, 0, 8192, &res, err));
    judge_status(t, judge_namespaces(t, CAY_OR(res.out, "")));
    cay_result_clear(&res);
    return 0;
}

/* A limit of each kind was set when it was made, or it would not have been: whether the kernel
 * counts is seen here. */
static int judge_counts(doctor_trial *t, cay_sandbox *sb, const cay_call *call, cay_err *err)
{
    cay_usage u = { .size = sizeof u };
    CAY_TRY(cay_sandbox_usage(sb, call, &u, err));
    if (!u.memory)
        deny_wall(t, "memory-limit", "nothing was counted");
    if (!u.cpu_us)
        deny_wall(t, "cpu-limit", "nothing was counted");
    return 0;
}

static int judge_freeze(doctor_trial *t, cay_sandbox *sb, const cay_call *call, cay_err *err)
{
    if (!is_on(t, "freeze"))
        return 0;
    cay_err why = CAY_ERR_INIT;
    int rc = cay_sandbox_pause(sb, call, &why);
    if (rc < 0) {
        deny_wall(t, "freeze", why.msg);
        return 0;
    }
    return cay_sandbox_resume(sb, call, err);
}

static int judge_box(doctor_trial *t, cay_sandbox *sb, const cay_call *call, cay_err *err)
{
    cay_info *info = NULL;
    CAY_TRY(cay_sandbox_describe(sb, call, &info, err));
    t->level = info->level;
    copy_walls(t, info->walls, info->nwalls);
    cay_info_free(info);
    if (t->level < CAY_LEVEL_ROOTLESS)
        return 0;
    CAY_TRY(judge_inside(t, sb, call, err));
    CAY_TRY(judge_counts(t, sb, call, err));
    return judge_freeze(t, sb, call, err);
}

static int make_box(cay_client *client, const cay_call *call, bool io, bool disk, cay_sandbox **sb,
                    cay_err *err)
{
    static const char *const quota[] = { "disk-quota", NULL };
    cay_create c = { .size = sizeof c,
                     .life = { .ephemeral = true },
                     .limits = {
                         .memory = 128 << 20, .pids = 64, .cpu_milli = 500, .disk = 64 << 20 } };
    if (io)
        c.limits.io_read = c.limits.io_write = 64 << 20;
    if (disk)
        c.isolation.require = quota;
    return cay_client_create(client, call, &c, sb, err);
}

/* One more sandbox, for a limit that a host may refuse: then that alone is what it lacks. */
static void try_limit(doctor_trial *t, cay_client *client, const cay_call *call, const char *name,
                      const char *without)
{
    cay_err err = CAY_ERR_INIT;
    cay_sandbox *sb = NULL;
    if (!is_on(t, name))
        return;
    if (make_box(client, call, !strcmp(name, "io-limit"), !strcmp(name, "disk-quota"), &sb, &err) <
        0) {
        set_wall(t, name, without, "", "%s", err.msg);
        return;
    }
    cay_sandbox_remove(sb, call, NULL);
    cay_sandbox_unref(sb);
}

void doctor_try(cay_client *client, const cay_probe *p, doctor_trial *t)
{
    cay_call call = { .size = sizeof call, .deadline_ms = cay__now_ms() + TRY_MS };
    cay_err err = CAY_ERR_INIT;
    cay_sandbox *sb = NULL;
    t->level = p->level;
    copy_walls(t, p->walls, p->nwalls);
    cay__kernel_try(t->kernel);
    int rc = make_box(client, &call, false, false, &sb, &err);
    if (rc == 0) {
        rc = judge_box(t, sb, &call, &err);
        cay_sandbox_remove(sb, &call, NULL);
        cay_sandbox_unref(sb);
    }
    if (rc == 0) {
        /* That one did not require a disk of its own. */
        CAY_EACH_OF(wall, p->walls, p->nwalls)
            if (!strcmp(wall->name, "disk-quota"))
                set_wall(t, "disk-quota", wall->state, wall->remedy, "%s", CAY_OR(wall->why, ""));
        try_limit(t, client, &call, "io-limit", "off");
        try_limit(t, client, &call, "disk-quota", "soft");
        return;
    }
    /* Nothing was seen to hold. */
    t->level = CAY_LEVEL_NONE;
    CAY_EACH_OF(wall, t->wall, t->n)
        deny_wall(t, wall->name, "none could be made");
    set_wall(t, "sandbox", "off", "", "%s", err.msg);
}
