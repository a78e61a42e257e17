/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walls, looked at from inside: a sandbox is made for it, each layer is tried by what a program
 * there would see, with the time that took, and it is removed. Nothing is filled up or killed for
 * this: that a limit is counted is told by its count, and that it holds by what the sandbox says of
 * itself. A layer that shows itself to nobody inside is not in the answer.
 */
#include "native.h"
#include <inttypes.h>

enum { TRY_MS = 5000, FOUND = 120, WALLS = 24 };

typedef struct tried {
    cay_result res; /* of the command */
    cay__wall_tried *to;
} tried;

static int word_after(const char *text, const char *name, char *out, size_t cap)
{
    const char *p = strstr(text, name);
    if (!p)
        return -1;
    p += strlen(name);
    p += strspn(p, " \t");
    size_t n = CAY_MIN(strcspn(p, " \t\n"), cap - 1);
    memcpy(out, p, n);
    out[n] = 0;
    return 0;
}

/* A namespace is its own when it is not ours. */
static void judge_ns(tried *t, const char *kind)
{
    char path[40], host[64] = "", in[64] = "";
    CAY_FORMAT(path, "/proc/self/ns/%s", kind);
    ssize_t n = readlink(path, host, sizeof host - 1);
    CAY_FORMAT(in, "%.*s", (int)strcspn(CAY_OR(t->res.out, ""), "\n"), CAY_OR(t->res.out, ""));
    t->to->ok = n > 0 && *in && strcmp(host, in) != 0;
    snprintf(t->to->found, FOUND,
             t->to->ok ? "%.40s, and the host's is another" : "%.40s: the same as the host's", in);
}

static void judge_ids(tried *t, const char *kind)
{
    unsigned long inside = 0, outside = 0, count = 0;
    bool read = t->res.out && sscanf(t->res.out, "%lu %lu %lu", &inside, &outside, &count) == 3;
    t->to->ok = read && outside != inside && count > 1; /* a single one is somebody's own */
    snprintf(t->to->found, FOUND, "id %lu inside is %lu outside, %lu in all", inside, outside,
             count);
}

static void judge_status(tried *t, const char *kind)
{
    char v[32] = "";
    int rc = -1;
    if (t->res.out)
        rc = word_after(t->res.out, kind, v, sizeof v);
    bool holds = !strcmp(v, "1");
    if (!strcmp(kind, "CapEff:"))
        holds = strspn(v, "0") == strlen(v);
    else if (!strcmp(kind, "Seccomp:"))
        holds = !strcmp(v, "2");
    t->to->ok = rc == 0 && holds;
    snprintf(t->to->found, FOUND, "%s %s", kind, v);
}

static void judge_refused(tried *t, const char *kind)
{
    bool there = t->res.exit.code != 127 && t->res.exit.code != 126;
    t->to->ok = there && t->res.exit.code != 0;
    const char *found = "a name that no rule allows was answered";
    if (!there)
        found = "nothing inside asks for names";
    else if (t->to->ok)
        found = "a name that no rule allows was refused";
    cay__str_copy(t->to->found, FOUND, found);
}

#define NS(kind) "readlink /proc/self/ns/" kind
static const struct {
    const char *name, *shell, *kind;
    void (*judge)(tried *t, const char *kind);
} inside[] = {
    { "user-namespace", NS("user"), "user", judge_ns },
    { "mount-namespace", NS("mnt"), "mnt", judge_ns },
    { "pid-namespace", NS("pid"), "pid", judge_ns },
    { "ipc-namespace", NS("ipc"), "ipc", judge_ns },
    { "net-namespace", NS("net"), "net", judge_ns },
    { "own-ids", "cat /proc/self/uid_map", "", judge_ids },
    { "seccomp", "cat /proc/self/status", "Seccomp:", judge_status },
    { "capabilities", "cat /proc/self/status", "CapEff:", judge_status },
    { "no-new-privs", "cat /proc/self/status", "NoNewPrivs:", judge_status },
    { "egress-policy", "getent hosts doctor.invalid", "", judge_refused },
};

static int try_inside(cay__walls_tried *w, cay_sandbox *sb, const cay_call *call, cay_err *err)
{
    CAY_EACH(it, inside) {
        const cay_spawn spec = { .size = sizeof spec, .shell = it->shell, .timeout_ms = TRY_MS };
        tried t = { .res.size = sizeof t.res, .to = &w->at[w->n] };
        int64_t began = cay__now_us();
        CAY_TRY(cay_sandbox_run(sb, call, &spec, NULL, 0, 4096, &t.res, err));
        t.to->took_us = (uint64_t)(cay__now_us() - began);
        t.to->name = it->name;
        it->judge(&t, it->kind);
        cay_result_clear(&t.res);
        w->n++;
    }
    return 0;
}

/* What the sandbox says of a layer of its own. */
static bool is_wall_on(const cay_info *info, const char *name)
{
    CAY_EACH_OF(wall, info->walls, info->nwalls)
        if (!strcmp(wall->name, name))
            return wall->state && !strcmp(wall->state, "on");
    return false;
}

static int try_freeze(cay__walls_tried *w, cay_sandbox *sb, const cay_info *info,
                      const cay_call *call, cay_err *err)
{
    int64_t began = cay__now_us();
    int rc = cay_sandbox_pause(sb, call, err);
    if (rc == CAY_ENOTSUP)
        return 0;
    CAY_TRY(rc);
    CAY_TRY(cay_sandbox_resume(sb, call, err));
    bool whole = is_wall_on(
        info,
        "freeze"); /* else its processes were stopped one by one, and may go on by themselves */
    w->at[w->n++] = (cay__wall_tried){
        .name = "freeze", .ok = whole, .found = "", .took_us = (uint64_t)(cay__now_us() - began)
    };
    snprintf(w->at[w->n - 1].found, FOUND, "%s",
             whole ? "it stood still, and went on"
                   : "it was stopped and went on, not by the kernel's freezer");
    return 0;
}

static int try_counts(cay__walls_tried *w, cay_sandbox *sb, const cay_info *info,
                      const cay_call *call, cay_err *err)
{
    cay_usage u = { .size = sizeof u };
    int64_t began = cay__now_us();
    CAY_TRY(cay_sandbox_usage(sb, call, &u, err));
    uint64_t took = (uint64_t)(cay__now_us() - began);
    const struct {
        const char *name, *unit;
        uint64_t v, per;
    } counts[] = { { "memory-limit", "KiB", u.memory, 1024 },
                   { "pids-limit", "processes and threads", u.pids, 1 },
                   { "cpu-limit", "ms", u.cpu_us, 1000 },
                   { "disk-quota", "KiB", u.disk, 1024 } };
    CAY_EACH(count, counts) {
        cay__wall_tried *to = &w->at[w->n++];
        *to = (cay__wall_tried){ .name = count->name,
                                 .ok = is_wall_on(info, count->name),
                                 .took_us = took };
        snprintf(to->found, FOUND, "%" PRIu64 " %s counted%s", count->v / count->per, count->unit,
                 to->ok ? "" : ", and the kernel holds none to it");
    }
    return 0;
}

static int try_all(cay_sandbox *sb, const cay_call *call, void *arg, cay_err *err)
{
    cay__walls_tried *w = arg;
    CAY_AUTOPTR(cay_info) info = NULL;
    CAY_TRY(try_inside(w, sb, call, err));
    CAY_TRY(cay_sandbox_describe(sb, call, &info, err));
    CAY_TRY(try_counts(w, sb, info, call, err));
    return try_freeze(w, sb, info, call, err);
}

int cay__on_doctor_walls(cay__req *r, cay_err *err)
{
    cay__walls_tried *w = cay__arena_take(&r->arena, sizeof *w);
    *w = (cay__walls_tried){ .time_ms = cay__clock_ms(), .items = w->at };
    int64_t began = cay__now_us();
    CAY_TRY(cay__native_try(r, try_all, w, &(cay__speed){ 0 }, err));
    w->took_us = (uint64_t)(cay__now_us() - began);
    return cay__reply_object(r, w);
}
